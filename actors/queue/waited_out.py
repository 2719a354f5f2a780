"""What has waited at an exchange, on its way through that: as dead letters go to one, step by step, each record one instant.

It is no dead letter, and says nothing of a death. Where a message was published, its keys, its time to live and its priority hold for the
queues that it goes to. What no queue takes is dropped, as by any exchange. What the broker cannot route goes to the queue ``NAME.dead`` of
the exchange. A queue that is full holds back all that is due, until it has room.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pykka

from actors.errors import QueueError, RecordTooLargeError, TooMuchTogetherError
from actors.exchanges.delayed import is_waiting_queue
from actors.exchanges.errors import ExchangeNotFoundError
from actors.queue.letters_out import (
    NOWHERE,
    OWN,
    ROUTING_SECONDS,
    STEP_MESSAGES,
    STEP_RECORDS,
    STORING_SECONDS,
    LettersOut,
    first_of,
    over_in,
    parts_of,
)
from actors.queue.operations.dead_letters import drop_letters
from actors.queue.state.routed import grouped, joined_parts
from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.letters import DeadLettersMoved
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.settings import dead_letter_name
from actors.queue.vocabulary.waiting import first_said, without_said

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.exchanges.tables import Table
    from actors.queue.letters_out import Routes
    from actors.queue.queue_output import QueueOutput
    from actors.queue.queue_state import QueueState
    from actors.queue.state.routed import Queues as Names
    from actors.queue.state.routed import Routed
    from actors.queue.vocabulary.replies import DeadLetter
    from actors.runtime.loop_actor import LoopActor

logger = logging.getLogger("penstock.queue")


class WaitedOut(LettersOut):
    """Of the queue that waits for one exchange."""

    def _route(self, routes: Routes, letter: DeadLetter, keys: Names, headers: Table | None, before: Names) -> Names:  # noqa: ARG002 - it has died nowhere
        try:
            names = routes.exchanges.route(letter.exchange or "", keys, headers, outside=False)
        except ExchangeNotFoundError:
            # It was deleted, and this queue is about to be.
            return NOWHERE
        except QueueError as error:
            return self._own(error.code, str(error))
        return tuple([name for name in names if routes.queues.state(name) is not None]) or NOWHERE

    def step(self, actor: LoopActor) -> None:
        """Store what is due, or a part of it: what goes to the same queues is one record, though each message had a record of its own."""
        self._step_due = False
        self._end_wait()
        routes, gaps = self.routes, self._state.log.acknowledged.gaps
        if not self._pending or routes is None:
            return
        letters = [self._pending[start] for start in sorted(self._pending)]
        try:
            parts = self._parts(actor, routes, letters)
            full = self._store_parts(actor, routes, letters[0].exchange or "", parts)
        except (QueueError, pykka.ActorDeadError) as error:
            # They are still where they were, and come again.
            logger.warning("what has waited at exchange %s waits: %s", letters[0].exchange, error)
            self._held = True
            return
        for letter in letters:
            ((start, stop),) = letter.ranges
            if not gaps(start, stop):
                del self._pending[start]
        if full is not None:
            self._await_room(actor, full)
        elif self._pending:
            self._plan(actor)

    def _parts(self, actor: LoopActor, routes: Routes, letters: list[DeadLetter]) -> list[Routed]:
        """Where the first of them go, as many as a step routes."""
        parts: list[Routed] = []
        taken, time_is_up = 0, over_in(actor, ROUTING_SECONDS)
        for letter in letters:
            ((start, stop),) = letter.ranges
            for low, high in self._state.log.acknowledged.gaps(start, stop):
                batch = letter.batch.slice(low - start, high - start)
                for part in parts_of(self.queues_of(routes, letter, batch, STEP_MESSAGES, time_is_up), batch, low):
                    parts += _alike(part, letter)
                taken += len(batch)
            if taken >= STEP_MESSAGES or time_is_up():
                break
        return parts

    def _store_parts(self, actor: LoopActor, routes: Routes, exchange: str, parts: list[Routed]) -> str | None:
        """Store what goes to the same queues, group by group; the name of one that has no room for the next."""
        time_is_up = over_in(actor, STORING_SECONDS)
        for group in grouped(parts)[:STEP_RECORDS]:
            full = self._store_waited(actor, routes, exchange, group.parts)
            if full is not None:
                self._awaited = group.queues
                return full
            if time_is_up():
                break
        return None

    def _store_waited(self, actor: LoopActor, routes: Routes, exchange: str, parts: list[Routed]) -> str | None:
        """Store what goes to the same queues, of which the same is said; the name of one that has no room for all of it."""
        first, (batch, key) = parts[0], joined_parts(parts)
        ranges = merged([(part.up_to - len(part.batch), part.up_to) for part in parts])
        names, full = first.queues, None
        if names == NOWHERE:
            routes.distributor.lost(exchange, len(batch))
            drop_letters(self._state, ranges, actor.loop.time())
            return None
        if names != OWN:
            room, full = self._room(routes, names, batch)
            if not room:
                return full
            if room < len(batch):
                batch, ranges = batch.slice(0, room), first_of(ranges, room)
        move, published, event = routes.distributor.move_dead_letters, Published(first.exchange, key), 0
        try:
            if names != OWN:
                event = move(self._state, ranges, names, batch, published, first.priority, first.ttl)
        except (RecordTooLargeError, TooMuchTogetherError) as error:
            names, full = self._own(error.code, str(error)), None
        if names == OWN:
            name = dead_letter_name(exchange)
            routes.own_queue(name)
            event = move(self._state, ranges, (name,), batch, published)
        self._output.tell(actor.actor_ref, DeadLettersMoved(ranges), event)
        return full


def _alike(part: Routed, letter: DeadLetter) -> Iterator[Routed]:
    """A part with what its messages say of themselves: neighbours that say the same together."""
    exchange, key = letter.published or Published(letter.exchange or "", "")
    start, batch = 0, part.batch
    while start < len(batch):
        count, said = first_said(batch.slice(start, len(batch)))
        some = without_said(batch.slice(start, start + count))
        up_to = part.up_to - len(batch) + start + count
        ttl = None if said.ttl_us is None else said.ttl_us / US_PER_SECOND
        yield part._replace(
            batch=some, up_to=up_to, ttl=ttl, exchange=exchange, routing_key=key, priority=said.priority
        )
        start += count


def letters_out(state: QueueState, output: QueueOutput, routes: Routes | None) -> LettersOut:
    """How what leaves a queue by itself gets to exchanges."""
    return (WaitedOut if is_waiting_queue(state.name) else LettersOut)(state, output, routes)
