"""Transactions that go with their connection: what is published through exchanges, and what is settled beside it, in one record.

Nobody comes again for such a transaction. Its connection stages what it publishes under a writer whose name no client can have
(``StageKey.passing``), and holds back, itself, what it settles. A commit publishes the stages and settles what receivers held in the same
instant, in all queues: after a crash at any moment all of it is there, or nothing. A broker that starts discards what such transactions
have staged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import pykka

from actors.errors import QueueError, QueueLimitError, StorageError
from actors.queue.operations.deduplicating import duplicates_of
from actors.queue.operations.settling import settle, settled_events, why_not_published
from actors.queue.structures.deadlines import both_clocks
from actors.queue.vocabulary.commands import EndStages
from actors.queue.vocabulary.distributed import DropStages, SettledBeside
from actors.queue.vocabulary.events import StagesDiscarded, StagesEnded
from actors.queue.vocabulary.stages import PASSING, StageKey

if TYPE_CHECKING:
    from actors.queue.queue_state import QueueState
    from actors.queue.routed_stages import RoutedStages
    from actors.queue.vocabulary.distributed import Settlement
    from actors.queue.vocabulary.events import Event
    from actors.runtime.loop_ref import LoopActorRef
    from actors.storage import Storage

NAME_BYTES: Final = 8
"""Of randomness in the writer's name: what is left of a broker's life before has another."""
MAX_PASSING_STAGES: Final = 1_024
"""Stages of one transaction: one for each exchange that it publishes to, as long as that is one of the last."""

logger = logging.getLogger("penstock.transactions")


class Queues(Protocol):
    """What it asks of the broker's queues; see ``QueueDirectory``."""

    def get(self, name: str) -> LoopActorRef[Any]:
        """A queue that there is."""

    def number_of(self, name: str) -> int:
        """The number of a queue that there is."""

    def state(self, name: str) -> QueueState | None:
        """A queue's state; None where there is no such queue."""


class TransactionRejectedError(QueueError):
    """A queue that rejects what it has no room for does not take what a transaction publishes there. Nothing of it has happened.

    Args:
        why: the queue's words.
    """

    code: ClassVar[str] = "rejected"

    def __init__(self, why: str) -> None:
        super().__init__(f"nothing of the transaction is done: {why}")


class PassingTransactions:
    """Those of a broker. Lives on the broker's loop; it is no actor, like the ``QueueDirectory`` that has it.

    Args:
        queues: the broker's.
        stages: those that are written through exchanges.
        storage: where commits are durable; None for queues in memory.
        random_bytes: gives so many random bytes.
        wall_clock: seconds since the epoch.
    """

    def __init__(
        self,
        queues: Queues,
        stages: RoutedStages,
        storage: Storage | None,
        random_bytes: Callable[[int], bytes],
        wall_clock: Callable[[], float],
    ) -> None:
        self._queues = queues
        self._stages = stages
        self._storage = storage
        self._random_bytes = random_bytes
        self._wall_clock = wall_clock
        self._writer = ""
        self._versions = count()

    def begin(self) -> PassingTransaction:
        """One that has nothing in it yet. Whoever begins it ends it."""
        self._writer = self._writer or PASSING + self._random_bytes(NAME_BYTES).hex()
        return PassingTransaction(self, self._writer, next(self._versions))

    def expect(self, key: StageKey) -> None:
        """As `RoutedStages.expect`."""
        self._stages.expect(key)

    def commit(self, keys: Sequence[StageKey], settlements: Iterable[Settlement]) -> int:
        """As `PassingTransaction.commit`."""
        settled = self._by_queue(settlements)
        now, wall_us = both_clocks(asyncio.get_running_loop(), self._wall_clock)
        acknowledged: dict[str, int] = {}
        settling: list[tuple[QueueState, Event]] = []
        for name, (state, mine) in settled.items():
            acknowledged[name] = sum(stop - start for each in mine for start, stop in each.acknowledged)
            state.wall_us = wall_us
            settling += [(state, event) for event in settled_events(state, mine)]
        ended: dict[str, StagesEnded] = {}
        publishing: list[tuple[QueueState, Event]] = []
        for name, (log, held) in self._stages.holding(keys).items():
            state = self._state(name)
            stages = [log.stages[key] for key in held]
            why = why_not_published(state, stages, acknowledged.get(name, 0))
            if why is not None:
                state.total_rejected += sum(stage.messages for stage in stages)
                raise TransactionRejectedError(why)
            ids = duplicates_of(log, held, wall_us)
            ended[name] = event = StagesEnded(tuple(held), (), log.next_sequence, *ids)
            publishing.append((state, event))
        number = self._record(publishing + settling)
        # In the same instant: each of the queues acts on what it hears from here on.
        for state, mine in settled.values():
            for each in mine:
                settle(state, each, now)
        self._stages.over(keys)
        for name, event in ended.items():
            self._tell(name, EndStages(event.published, (), number))
        for name in settled:
            self._tell(name, SettledBeside())
        return number

    def roll_back(self, keys: Sequence[StageKey]) -> None:
        """As `PassingTransaction.roll_back`."""
        held = self._stages.held_by(keys)
        self._stages.over(keys)
        # Each stage by itself: all of them together may be in more queues than one record can name.
        for key in keys:
            events = {
                name: StagesDiscarded((key,), log.next_sequence) for name, (log, mine) in held.items() if key in mine
            }
            try:
                self._discard(events)
            except StorageError as error:
                # The broker has been told, and is about to end: its next start discards them.
                logger.debug("a transaction is not rolled back: %s", error)
                return

    async def durable(self, number: int) -> None:
        """As `PassingTransaction.durable`."""
        if self._storage is not None:
            await self._storage.synced(number)

    # Inside

    def _by_queue(self, settlements: Iterable[Settlement]) -> Mapping[str, tuple[QueueState, list[Settlement]]]:
        """What is settled in each queue; a queue that was deleted has nothing more to settle, be there another of the name."""
        found: dict[str, tuple[QueueState, list[Settlement]]] = {}
        for each in settlements:
            state = self._queues.state(each.queue)
            if state is not None and state.number == each.number:
                found.setdefault(each.queue, (state, []))[1].append(each)
        return found

    def _state(self, name: str) -> QueueState:
        state = self._queues.state(name)
        assert state is not None, f"queue {name} holds a stage"
        return state

    def _record(self, events: Sequence[tuple[QueueState, Event]]) -> int:
        """Have all of it happen; returns the event's number."""
        storage = self._storage
        if storage is None:
            for state, event in events:
                state.log.apply(event)
            return 0
        alone = any(state.settings.durable for state, _ in events) and storage.begin_alone(1)
        try:
            return storage.record_in_turn([(state.number, event) for state, event in events])
        finally:
            if alone:
                storage.end_alone()

    def _discard(self, events: Mapping[str, StagesDiscarded]) -> None:
        """Have a stage be gone from its queues."""
        number = 0
        if self._storage is None:
            for name, event in events.items():
                self._state(name).log.apply(event)
        else:
            number = self._storage.record_all({self._state(name).number: event for name, event in events.items()})
        for name, event in events.items():
            self._tell(name, DropStages(event.stages, event.below, number))

    def _tell(self, name: str, message: EndStages | DropStages | SettledBeside) -> None:
        """Who has a transaction waits until it is over, so there are few of these, and none is lost for want of room."""
        try:
            self._queues.get(name).actor_inbox.offer_beyond_bound(message)
        except (pykka.ActorDeadError, QueueError) as error:
            # Its successor begins with its log, where it has happened.
            logger.debug("queue %s is not told what a transaction did: %s", name, error)


class PassingTransaction:
    """One of them: what was staged for it, and its end.

    Args:
        transactions: all of them.
        writer: the name of all that are of one life of the broker.
        version: its number among these.
    """

    def __init__(self, transactions: PassingTransactions, writer: str, version: int) -> None:
        self._transactions = transactions
        self._writer, self._version = writer, version
        self._keys: list[StageKey] = []

    def stage(self) -> StageKey:
        """Under what the next sender is to stage, to whatever exchange.

        Raises:
            QueueLimitError: there are ``MAX_PASSING_STAGES``, or too many stages of all.
        """
        if len(self._keys) >= MAX_PASSING_STAGES:
            raise QueueLimitError(
                "MAX_PASSING_STAGES",
                MAX_PASSING_STAGES,
                "commit more often, or publish to fewer exchanges, one after another, in a transaction",
            )
        key = StageKey(self._writer, self._version, str(len(self._keys)))
        self._transactions.expect(key)
        self._keys.append(key)
        return key

    def commit(self, settlements: Iterable[Settlement]) -> int:
        """Have all that was staged be published, and this be settled, in one instant; then the transaction is over.

        All that its senders were offered is to be stored by now. Its receivers have no deadline.

        Returns:
            the number of the event, for `durable`: until that is, nobody is to be told.

        Raises:
            TransactionRejectedError: a queue that rejects has no room for it.
            UnknownAcknowledgementError, InvalidRequestError: a receiver does not hold what it is said to hold.
            StageGoneError: a queue has lost what it held of the transaction.
            TooMuchTogetherError: more ranges than one record may hold. In all these cases nothing has happened.
            StorageError: the journal takes nothing more, and the broker, which has been told, is about to end.
        """
        number = self._transactions.commit(self._keys, settlements)
        self._keys = []
        return number

    def roll_back(self) -> None:
        """Have all that was staged be gone, and nothing more be; what receivers hold they hold. Again, it changes nothing."""
        keys, self._keys = self._keys, []
        self._transactions.roll_back(keys)

    async def durable(self, number: int) -> None:
        """Return when an event is durable; raises StorageError where it will not be."""
        await self._transactions.durable(number)
