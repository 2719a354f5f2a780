"""What a queue has refused and is a dead letter all the same, on its way to where these go: published, step by step.

It was never in the queue, and its sender has been told that it is refused. So it is sent once: a queue that has no room for it does not get
it, and nothing waits for that. What waits for its step is bounded all the same: above `HELD_BYTES` the queue's senders are granted nothing.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pykka import ActorDeadError

from actors.errors import QueueError
from actors.queue.letter_parts import over_in, parts_of
from actors.queue.letters_out import NOWHERE, OWN, STEP_MESSAGES, STEP_RECORDS, STORING_SECONDS
from actors.queue.operations.dead_letters import readdressed, room_for_letters
from actors.queue.state.routed import grouped
from actors.queue.state.senders import JOINED_BYTES, JOINED_MESSAGES, joined_batches
from actors.queue.vocabulary.distributed import REFUSED
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.settings import dead_letter_name

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.letters_out import LettersOut, Routes
    from actors.queue.queue_state import QueueState
    from actors.queue.state.routed import Queues as Names
    from actors.queue.vocabulary.replies import DeadLetter
    from actors.runtime._loop_timer import TimerHandle
    from actors.runtime.loop_actor import LoopActor

HELD_BYTES: Final = 16 * 1024 * 1024
"""Of refused messages that wait for a step: above it the queue's senders get no room."""

logger = logging.getLogger("penstock.queue")


class RefusedLetters:
    """Those of one queue."""

    def __init__(self) -> None:
        self._waiting: deque[DeadLetter] = deque()
        self._bytes = 0
        self._timer: TimerHandle | None = None
        self._said = False

    def step(self, actor: LoopActor, state: QueueState, letters: LettersOut, more: list[DeadLetter]) -> None:
        """Publish the first of them, or a part of it, and ``more`` behind them, which is empty then."""
        routes = letters.routes
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting.extend(more)
        self._bytes += sum(letter.batch.nbytes for letter in more)
        more.clear()
        time_is_up = over_in(actor, STORING_SECONDS)
        records = 0
        if routes is None:
            # A queue that stands alone has no other to publish to.
            self._waiting.clear()
            self._bytes = 0
        while self._waiting and routes is not None and records < STEP_RECORDS:
            records += self._publish(actor, state, letters, routes, STEP_RECORDS - records)
            if time_is_up():
                break
        state.capacity.holds_back = self._bytes > HELD_BYTES
        if self._waiting:
            # In a turn of its own: everybody else has theirs between two steps.
            self._timer = actor.schedule_at(actor.loop.time(), REFUSED)
        state.grant()

    def _next(self) -> DeadLetter:
        """Take out the first, with those behind it that are like it, as long as they are small together."""
        first = self._waiting.popleft()
        alike, batches, messages, size = _likeness(first), [first.batch], len(first.batch), first.batch.nbytes
        while self._waiting and _likeness(self._waiting[0]) == alike:
            batch = self._waiting[0].batch
            messages, size = messages + len(batch), size + batch.nbytes
            if messages > JOINED_MESSAGES or size > JOINED_BYTES:
                break
            batches.append(self._waiting.popleft().batch)
        self._bytes -= sum(batch.nbytes for batch in batches)
        return first if len(batches) == 1 else replace(first, batch=joined_batches(batches))

    def _publish(self, actor: LoopActor, state: QueueState, letters: LettersOut, routes: Routes, most: int) -> int:
        """Publish the first of them, or as much of it as a step routes and stores; the rest comes first in the next.

        Returns how many records that took, which are no more than ``most``.
        """
        letter = self._next()
        batch = letter.batch
        if letter.exchange is None and letter.queue is not None:
            self._store_in(state, routes, letter, batch)
            return 1
        queues = letters.queues_of(routes, letter, batch, STEP_MESSAGES, over_in(actor, STORING_SECONDS))
        found = list(parts_of(queues, batch, 0))
        groups = grouped(found)
        time_is_up = over_in(actor, STORING_SECONDS)
        stored = 0
        for group in groups[:most]:
            batches = [part.batch for part in group.parts]
            together = batches[0] if len(batches) == 1 else joined_batches(batches)
            self._store(state, routes, letter, group.queues, together, letters.common(letter))
            stored += 1
            if time_is_up():
                break
        left = sorted((part for group in groups[stored:] for part in group.parts), key=lambda part: part.up_to)
        rest = [part.batch for part in left]
        routed = sum(len(part.batch) for part in found)
        if routed < len(batch):
            rest.append(batch.slice(routed, len(batch)))
        if rest:
            more = rest[0] if len(rest) == 1 else joined_batches(rest)
            self._waiting.appendleft(replace(letter, batch=more))
            self._bytes += more.nbytes
        return stored

    def _store_in(self, state: QueueState, routes: Routes, letter: DeadLetter, batch: MessageBatch) -> None:
        """Store messages in the dead-letter queue that is named, made if need be."""
        name, published = letter.queue or "", letter.published
        if routes.queues.is_declared_elsewhere(state.name):
            # Other protocols know no way but through an exchange: this is the default one's, by the queue's name.
            batch = readdressed(batch, name, None if published is None else published.routing_key)
            published = Published("", name)
        self._send(state, routes, (name,), batch, published, letter.priority, make=True)

    def _store(
        self, state: QueueState, routes: Routes, letter: DeadLetter, names: Names, batch: MessageBatch, key: str
    ) -> None:
        """Store messages in the queues that they are routed to."""
        published = letter.published
        if names == NOWHERE:
            return
        if names == OWN:
            self._send(state, routes, (dead_letter_name(state.name),), batch, published, letter.priority, make=True)
            return
        if letter.routing_key is not None:
            batch = readdressed(batch, letter.routing_key, None if published is None else published.routing_key)
        self._send(state, routes, names, batch, Published(letter.exchange or "", key), letter.priority)

    def _send(
        self,
        state: QueueState,
        routes: Routes,
        names: Names,
        batch: MessageBatch,
        published: Published | None,
        priority: int,
        *,
        make: bool = False,
    ) -> None:
        taking: list[str] = []
        try:
            for name in names:
                (routes.own_queue if make else routes.queues.get)(name)
                there = routes.queues.state(name)
                # One that rejects says so itself, and what comes of that.
                if there is not None and (make or there.rejects or room_for_letters(there, batch) == len(batch)):
                    taking.append(name)
                else:
                    self._say(state.name, f"queue {name} is full")
            routes.distributor.store(taking, batch, delay=0.0, published=published, priority=priority, judges=False)
        except (QueueError, ActorDeadError) as error:
            self._say(state.name, str(error))

    def _say(self, name: str, why: str) -> None:
        if not self._said:
            self._said = True
            logger.warning("what queue %s refuses goes nowhere: %s", name, why)


def _likeness(letter: DeadLetter) -> tuple[object, ...]:
    """What letters have in common that are published together."""
    batch = letter.batch
    columns = batch.ids is None, batch.keys is None
    way = letter.queue, letter.exchange, letter.routing_key, letter.published, letter.again
    return *way, letter.priority, columns
