"""The dead letters of a queue on their way to an exchange: routed, and stored in all queues that they go to, step by step.

A step is a turn of the queue that they leave: it has them routed, and what goes to the same queues is one record, by which they are in each
of these queues and here no more. All queues are on one loop, so it is known at once what became of them.

Nothing is lost for want of a way: what the exchange has no queue for, or does not take, and what there is no exchange for, goes to the
queue's own dead-letter queue. A dead letter does not go back to the queue that it has just left, nor one that has expired to where it has
expired before: it would come round for ever, and nobody would have tried it.

The queues that an exchange leads to are others' too, so they have limits. Where one of them is full, the letters wait here, all of them, so
that each queue gets them in order. The full queue is told, and says when there is room. They hear of other
exchanges and bindings too, by which they may go elsewhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import pykka

from actors.errors import InboxOverflowError, QueueError, RecordTooLargeError, TooMuchTogetherError
from actors.exchanges.errors import ExchangeNotFoundError
from actors.exchanges.message_tables import may_have_further
from actors.queue.letter_parts import Leaving, always, first_of, further, headers_of, over_in, parts_of
from actors.queue.letters_order import placed
from actors.queue.operations.dead_letters import (
    MOST_BEFORE,
    drop_letters,
    expired_before,
    readdressed,
    room_for_letters,
    say_before,
    take_back,
)
from actors.queue.state.routed import grouped
from actors.queue.state.senders import joined_batches
from actors.queue.structures.ranges import merged
from actors.queue.vocabulary.distributed import AwaitRoom
from actors.queue.vocabulary.letters import DeadLettersMoved
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.settings import dead_letter_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.batch import MessageBatch
    from actors.exchanges.exchanges import Exchanges
    from actors.exchanges.tables import Table
    from actors.queue.distribution import Distributor
    from actors.queue.letters_line import LettersLine
    from actors.queue.queue_output import QueueOutput
    from actors.queue.queue_state import QueueState
    from actors.queue.state.routed import Queues as Names
    from actors.queue.state.routed import Routed
    from actors.queue.vocabulary.replies import DeadLetter
    from actors.runtime._loop_inbox import Watch
    from actors.runtime.loop_actor import LoopActor
    from actors.runtime.loop_ref import LoopActorRef

STEP_MESSAGES: Final = 2_048
"""Messages that are routed one by one in a step, by their keys or headers: some milliseconds of work, and facts that fit a record."""
STEP_RECORDS: Final = 64
"""Records of a step."""
ROUTING_SECONDS: Final = 0.0025
STORING_SECONDS: Final = 0.0025
"""After which a step routes no more, and stores no more, where keys are slow to route, or lead to very many queues: some of both is always
done."""
OWN: Final = ("",)
"""Stands for the queue's own dead-letter queue among the names of queues, which are never empty;"""
NOWHERE: Final = ("", "")
"""and this for none: they are dropped."""

logger = logging.getLogger("penstock.queue")


class Queues(Protocol):
    """What it asks of the broker's queues; see ``QueueDirectory``."""

    def get(self, name: str) -> LoopActorRef[Any]:
        """A queue that there is, started anew where it has failed."""

    def state(self, name: str) -> QueueState | None:
        """A queue's state; None where there is no such queue."""

    def is_declared_elsewhere(self, name: str) -> bool:
        """Whether another protocol has declared a queue, in words of its own."""


class Routes(NamedTuple):
    """What dead letters find their way by; the broker's.

    Attributes:
        exchanges: where they go.
        queues: what may be there.
        distributor: stores.
        own_queue: the dead-letter queue of a name, made if it is not there.
        held: the queues whose dead letters wait for room, which are to hear of other routes.
        line: those whose dead letters have a step to take.
    """

    exchanges: Exchanges
    queues: Queues
    distributor: Distributor
    own_queue: Callable[[str], LoopActorRef[Any]]
    held: dict[LoopActorRef[Any], None]
    line: LettersLine


class LettersOut:
    """Those of one queue that were handed over and are stored nowhere yet: as many as its outbox lets be under way.

    The queue's actor is given with each call: a way back from here would keep it from being free as soon as it has stopped.

    Args:
        state: what the queue holds.
        output: its way to itself, behind what has to be durable.
        routes: an attribute too; how they get there; None for a queue that stands alone, which has no exchanges.
    """

    def __init__(self, state: QueueState, output: QueueOutput, routes: Routes | None) -> None:
        self._state = state
        self._output = output
        self.routes = routes
        # By the first number of each, in the order in which they left.
        self._pending: dict[int, DeadLetter] = {}
        self._step_due = False
        # Whether the next step waits for room, or for the next time that what was not stored is handed over.
        self._held = False
        self._watch: Watch | None = None
        # Where the first of them go, and who is in ``Routes.held`` for them, while they wait for room there.
        self._awaited: Names = ()
        self._registered: LoopActorRef[Any] | None = None
        self._said: set[str] = set()

    def add(self, actor: LoopActor, letters: list[DeadLetter]) -> None:
        """Have these leave; those that come again, since nothing was heard of them, are tried again."""
        self._pending, again = placed(self._pending.values(), letters)
        letters.clear()
        if again or not self._held:
            self._plan(actor)

    def step(self, actor: LoopActor) -> None:
        """Store the first of them, or a part of it."""
        self._step_due = False
        self._end_wait()
        routes, gaps = self.routes, self._state.log.acknowledged.gaps
        if not self._pending or routes is None:
            return
        letters = self._next()
        left = gaps(*letters[0].ranges[0])
        try:
            full = self._store(actor, routes, letters[0], self._parts(actor, routes, letters))
        except (QueueError, pykka.ActorDeadError) as error:
            # They are still where they were, and come again.
            logger.warning("%s wait: %s", self._what(letters[0]), error)
            self._held = True
            return
        for letter in letters:
            ((start, stop),) = letter.ranges
            if not gaps(start, stop):
                del self._pending[start]
        if full is not None:
            self._await_room(actor, full)
        elif left and gaps(*letters[0].ranges[0]) == left:
            self._held = True
        elif self._pending:
            self._plan(actor)

    def room_made(self, actor: LoopActor) -> None:
        """The queue that was full is so no more, or has ended: look again."""
        if self._held:
            self._plan(actor)

    def routes_changed(self, actor: LoopActor) -> None:
        """Exchanges or bindings are others: look again, if the first of those that wait for room go elsewhere."""
        if not self._awaited or self.routes is None or not self._pending:
            return
        start = next(iter(self._pending))
        letter = self._pending[start]
        for low, _ in self._state.log.acknowledged.gaps(*letter.ranges[0]):
            first = letter.batch.slice(low - start, low - start + 1)
            if next(iter(self.queues_of(self.routes, letter, first, 1, always))) == self._awaited:
                self._register(actor)
                return
            break
        self._plan(actor)

    def altered(self, actor: LoopActor) -> None:
        """There are other settings: what is stored nowhere goes by them."""
        self._said.clear()
        if not self._pending:
            return
        self._end_wait()
        state, pending = self._state, list(self._pending.values())
        settings = state.settings
        if all((one.exchange, one.routing_key) == _way(settings) for one in pending):
            self._plan(actor)
            return
        self._pending.clear()
        for letter in pending:
            take_back(state, *letter.ranges[0])
        # As of what it leaves in another way: what is ready is delivered, and the rest is handed over.
        state.tick(actor.loop.time())

    def forget(self) -> None:
        """The queue has stopped, or has failed and begins again with what is known for sure."""
        self._pending.clear()
        self._end_wait()

    # Room.

    def _plan(self, actor: LoopActor) -> None:
        """The next step comes in a turn of its own: everybody else has theirs between two of them."""
        if not self._step_due and self.routes is not None:
            self._step_due = True
            self.routes.line.put(actor.actor_inbox)

    def _await_room(self, actor: LoopActor, name: str) -> None:
        assert self.routes is not None
        self._held = True
        self._register(actor)
        # Where the word is lost, what is not stored is handed over again in time.
        with suppress(pykka.ActorDeadError, InboxOverflowError, QueueError):
            queue = self.routes.queues.get(name)
            self._watch = actor.watch(queue, lambda _failure: self.room_made(actor))
            queue.tell(AwaitRoom(actor.actor_ref))

    def _register(self, actor: LoopActor) -> None:
        """Hear of other routes, once."""
        assert self.routes is not None
        self._registered = actor.actor_ref
        self.routes.held[self._registered] = None

    def _end_wait(self) -> None:
        self._held = False
        self._awaited = ()
        if self._registered is not None and self.routes is not None:
            self.routes.held.pop(self._registered, None)
            self._registered = None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    # Where they go.

    def _parts(self, actor: LoopActor, routes: Routes, letters: list[DeadLetter]) -> list[Routed]:
        """Where the first of them go, as many as a step routes."""
        parts: list[Routed] = []
        taken, time_is_up = 0, over_in(actor, ROUTING_SECONDS)
        for letter in letters:
            ((start, stop),) = letter.ranges
            for low, high in self._state.log.acknowledged.gaps(start, stop):
                batch = letter.batch.slice(low - start, high - start)
                queues = self.queues_of(routes, letter, batch, STEP_MESSAGES - taken, time_is_up)
                for part in parts_of(queues, batch, low):
                    parts += self._alike(part, letter)
                taken += len(batch)
                if taken >= STEP_MESSAGES or time_is_up():
                    return parts
        return parts

    def _store(self, actor: LoopActor, routes: Routes, letter: DeadLetter, parts: list[Routed]) -> str | None:
        """Store what goes to the same queues, group by group; the name of one that has no room for the next."""
        time_is_up = over_in(actor, STORING_SECONDS)
        for group in grouped(parts)[:STEP_RECORDS]:
            full = self._store_group(actor, routes, letter, group.parts)
            if full is not None:
                self._awaited = group.queues
                return full
            if time_is_up():
                break
        return None

    def queues_of(
        self, routes: Routes, letter: DeadLetter, batch: MessageBatch, most: int, time_is_up: Callable[[], bool]
    ) -> Iterator[Names]:
        """Where each message goes, one by one; of those that are looked at singly, the first, for as long as there is time."""
        exchange = letter.exchange
        if exchange is None:
            yield from repeat(
                self._round(routes, f"queue {self._state.settings.dead_letter_queue!r} has had them"), len(batch)
            )
            return
        common = self.common(letter)
        keys = batch.keys if letter.routing_key is None else None
        by_headers = routes.exchanges.get(exchange) is not None and routes.exchanges.reached(exchange).by_headers
        again = say_before(batch)
        several = (
            letter.routing_key is None and batch.headers is not None and may_have_further(bytes(batch.headers.data))
        )
        if keys is None and not by_headers and not again and not several:
            yield from repeat(self._route(routes, letter, (common,), None, ()), len(batch))
            return
        found: dict[tuple[bytes, Names, Names], Names] = {}
        for index in range(min(most, len(batch))):
            key = keys[index] if keys is not None else b""
            headers = headers_of(batch, index) if by_headers or again else None
            before = expired_before(headers)
            more = further(batch, index) if several else ()
            queues = None if by_headers else found.get((key, before, more))
            if queues is None:
                text = key.decode("utf-8", "replace") if key else common
                queues = self._route(routes, letter, (text, *more), headers, before)
                found[key, before, more] = queues
            yield queues
            if time_is_up():
                return

    def common(self, letter: DeadLetter) -> str:
        """The routing key of those that have no key of their own: the setting's, or the one that they came with, or the queue's name."""
        if letter.routing_key is not None:
            return letter.routing_key
        return (letter.published and letter.published.routing_key) or self._state.name

    def _route(self, routes: Routes, letter: DeadLetter, keys: Names, headers: Table | None, before: Names) -> Names:
        """Where a message goes that has expired ``before`` in these queues, one behind the other."""
        exchange = letter.exchange or ""
        if len(before) >= MOST_BEFORE:
            return self._own("far", f"they have expired in {len(before)} queues before, and nobody has tried them")
        try:
            names = routes.exchanges.route(exchange, keys, headers, outside=False)
        except ExchangeNotFoundError as error:
            return self._own("missing", str(error))
        except QueueError as error:
            return self._own(error.code, str(error))
        self._said.discard("missing")
        there = tuple([name for name in names if routes.queues.state(name) is not None])
        others = tuple([name for name in there if name != self._state.name and name not in before])
        if others:
            return others
        if there:
            why = f"exchange {exchange!r} leads them only to where they come from"
            return self._round(routes, why) if letter.expired else self._own("back", why)
        return self._own("unrouted", f"exchange {exchange!r} has no queue for them")

    def _round(self, routes: Routes, why: str) -> Names:
        """Where what has expired goes that would come round: other protocols, and their queues, have it dropped."""
        name = self._state.name
        if not routes.queues.is_declared_elsewhere(name):
            return self._own("back", why)
        if "round" not in self._said:
            self._said.add("round")
            logger.warning("dead letters of %s are dropped, as they have expired on all of their way: %s", name, why)
        return NOWHERE

    def _own(self, kind: str, why: str) -> Names:
        """The queue's own dead-letter queue; the log is told once for each kind of reason."""
        if kind not in self._said:
            self._said.add(kind)
            name = self._state.name
            logger.warning("dead letters of %s go to %s: %s", name, dead_letter_name(name), why)
        return OWN

    def _store_group(self, actor: LoopActor, routes: Routes, letter: DeadLetter, parts: list[Routed]) -> str | None:
        """Store what goes to the same queues; the name of one that has no room for all of it."""
        leaving, names, full = self._leaving(letter, parts), parts[0].queues, None
        batch = leaving.batch
        ranges = merged([(part.up_to - len(part.batch), part.up_to) for part in parts])
        if names == NOWHERE:
            self._lose(routes, letter, len(batch))
            drop_letters(self._state, ranges, actor.loop.time(), over_limit=letter.over_limit)
            return None
        if names != OWN:
            count, full = self._room(routes, names, batch)
            if not count:
                return full
            if count < len(batch):
                batch, ranges = batch.slice(0, count), first_of(ranges, count)
        move, event = routes.distributor.move_dead_letters, 0
        try:
            if names != OWN:
                sent = self._addressed(letter, batch)
                event = move(self._state, ranges, names, sent, leaving.published, leaving.priority, leaving.ttl)
        except (RecordTooLargeError, TooMuchTogetherError) as error:
            names, full = self._own(error.code, str(error)), None
        if names == OWN:
            name = dead_letter_name(self._whose(letter))
            routes.own_queue(name)
            event = move(self._state, ranges, (name,), batch, leaving.again, leaving.level)
        self._output.tell(actor.actor_ref, DeadLettersMoved(ranges), event)
        return full

    # What is not the same of what has waited at an exchange: see ``WaitedOut``.

    def _next(self) -> list[DeadLetter]:
        """Those of which a step is."""
        return [next(iter(self._pending.values()))]

    def _what(self, _letter: DeadLetter) -> str:
        return f"dead letters of {self._state.name}"

    def _whose(self, _letter: DeadLetter) -> str:
        """What has the dead-letter queue where they go in place of where they should."""
        return self._state.name

    def _alike(self, part: Routed, _letter: DeadLetter) -> Iterable[Routed]:
        """Parts of a part, of each of which one thing is said."""
        return (part,)

    def _leaving(self, letter: DeadLetter, parts: list[Routed]) -> Leaving:
        batches = [part.batch for part in parts]
        published, level = Published(letter.exchange or "", self.common(letter)), letter.priority
        batch = batches[0] if len(batches) == 1 else joined_batches(batches)
        return Leaving(batch, published, level, None, letter.published, level)

    def _addressed(self, letter: DeadLetter, batch: MessageBatch) -> MessageBatch:
        """They with the routing key that settings say, if they do."""
        if letter.routing_key is None:
            return batch
        return readdressed(batch, letter.routing_key, letter.published and letter.published.routing_key)

    def _lose(self, routes: Routes, letter: DeadLetter, count: int) -> None:
        """So many are about to go nowhere."""

    @staticmethod
    def _room(routes: Routes, names: Names, batch: MessageBatch) -> tuple[int, str | None]:
        """How many of the first all of the queues have room for; where that is not all, which of them has least."""
        count, full = len(batch), None
        for name in names:
            routes.queues.get(name)
            state = routes.queues.state(name)
            assert state is not None
            room = room_for_letters(state, batch)
            if room < count:
                count, full = room, name
        return count, full


def _way(settings: Any) -> tuple[str | None, str | None]:
    return settings.dead_letter_exchange, settings.dead_letter_routing_key
