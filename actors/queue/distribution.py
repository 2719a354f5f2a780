"""A batch for several queues, stored in all of them in one instant, by one record; each delivers it at its own demand.

It is written into the queues' logs, beside whatever the queues do themselves. A queue notices that before it does anything else
(``state/catching_up.py``), and it is told, so that it does so soon.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import pykka

from actors.errors import InvalidRequestError, QueueError
from actors.queue.dropped_beside import dropped_for, let_go_beside
from actors.queue.in_calendars import in_calendars
from actors.queue.operations.calendar import note_scheduled
from actors.queue.operations.deduplicating import Judged, judged_beside, kept_of, without_duplicates
from actors.queue.operations.refusing import lets_die, refuse
from actors.queue.operations.sending import NO_TIMING, refusal_of, timing_of, used_beside
from actors.queue.operations.staging import check_staged_beside
from actors.queue.structures.deadlines import both_clocks, time_of_day_us
from actors.queue.vocabulary.distributed import Distributed, StoredBeside
from actors.queue.vocabulary.events import Event, MessagesAdded, MessagesDeduplicated, MessagesMoved, MessagesScheduled

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.queue_state import QueueState
    from actors.queue.state.capacity import Amount
    from actors.queue.state.senders import Producers
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.commands import Ref
    from actors.queue.vocabulary.published import Published
    from actors.queue.vocabulary.stages import StageKey, StageNumbers
    from actors.runtime.loop_ref import LoopActorRef
    from actors.storage import Storage
    from actors.storage.durable_map import EntryPut

Stored: TypeAlias = MessagesAdded | MessagesDeduplicated
Timings: TypeAlias = "Mapping[str, tuple[QueueState, int, int | None]]"
SYNCED_BYTES: Final = 16 * 1024
"""What is staged for a commit that is about to come is synced with that, unless it is more: then much may come before the commit."""

NOBODY: Final[Mapping[str, str]] = MappingProxyType({})
"""No queue rejects something."""

logger = logging.getLogger("penstock.queue")


class Queues(Protocol):
    """What it asks of the broker's queues; see ``QueueDirectory``."""

    has_levels: bool

    def get(self, name: str) -> LoopActorRef[Any]:
        """A queue that there is."""

    def number_of(self, name: str) -> int:
        """The number of a queue that there is."""

    def state(self, name: str) -> QueueState | None:
        """A queue's state; None where there is no such queue."""


class Distributor:
    """Stores batches in several queues at a time. Lives on the broker's loop; it is no actor, like the ``QueueDirectory`` that has it.

    Args:
        queues: the broker's.
        storage: where they are durable; None for queues in memory.
        wall_clock: seconds since the epoch.

    Attributes:
        lost: told of messages, by the exchange's name and how many they are, that have waited at an exchange and go to no queue.
    """

    lost: Callable[[str, int], None]

    def __init__(self, queues: Queues, storage: Storage | None, wall_clock: Callable[[], float]) -> None:
        self._queues = queues
        self._storage = storage
        self._wall_clock = wall_clock
        self._promising: list[QueueState] = []

    def store(  # noqa: PLR0912, PLR0915 - each costs less than a call, for whoever does not need it
        self,
        names: Iterable[str],
        batch: MessageBatch,
        delay: float | None = None,
        ttl: float | None = None,
        producers: Producers = (),
        temporary: Producers = (),
        stage: StageKey | None = None,
        numbers: StageNumbers | None = None,
        published: Published | None = None,
        promised: bool = False,
        priority: int = 0,
        judges: bool = True,
    ) -> Distributed:
        """Store a batch in each of the queues; one that is not there is passed over.

        Nothing waits for room: whoever calls this has been granted it. A queue that rejects answers for itself.

        Args:
            names: the queues', each once.
            batch: the messages.
            delay: seconds until they can be received; None for what each queue declares.
            ttl: seconds after which they are of no use; None for what each queue declares, which is never exceeded.
            producers: who sent them, with the number behind the last message of each; each queue remembers that, unless one rejects them.
            temporary: the same of those whose name was made up for one run.
            stage: nobody can receive them before this is published. They are judged as what a sender stages that sends to one queue: it
                is refused rather than rejected, and has the timing that each queue declares; in a passing one, a time to live of its own.
            numbers: how far each of the queues has the stage with these; whoever gives a stage gives them.
            published: to which exchange, and with which routing key; None for none.
            promised: the queues have said by `refused` that they take it, and the room by `promise` is for it; or none of them rejected
                anything when the first part of it was stored.
            priority: of all of them; each queue has its own levels, or none.
            judges: whether queues that remember ids look for duplicates.

        Raises:
            DiskBehindError: more waits for the disk than may wait. Nothing has happened.
            InvalidRequestError: a delay or a time to live that cannot be; a queue's own sender writes the stage. Nothing has happened.
            QueueLimitError: a queue has no room for another delay, and does not reject, or for another stage. Nothing has happened.
            RecordTooLargeError: the facts of the batch fit no record. Nothing has happened.
            TooMuchTogetherError: more queues, or bytes, than one record may hold. Nothing has happened.
            TransactionCommittedError, TransactionTooLargeError: they cannot be staged any more, or are too much. Nothing has happened.
            StorageError: the journal takes nothing more, and the broker, which has been told, is about to end.
        """
        if stage is not None and (delay is not None or (ttl is not None and not stage.passing)):
            raise InvalidRequestError(NO_TIMING)
        now, wall_us = both_clocks(asyncio.get_running_loop(), self._wall_clock)
        taking: dict[str, tuple[QueueState, int, int | None]] = {}
        rejecting: dict[str, tuple[QueueState, str]] = {}
        judged: dict[str, Judged] | None = None
        drops = late = False
        gone: tuple[Range, ...] = ()
        for name in names:
            state = self._queues.state(name)
            if state is None:
                continue
            delay_us, ttl_us = timing_of(state.settings, delay, ttl)
            if state.log.accepted is not None and judges:
                judged = judged or {}
                judged[name] = judged_beside(state, batch, wall_us, stage)
            if stage is not None:
                check_staged_beside(state, stage, batch, delayed=bool(delay_us))
                refusal = None
            elif promised:
                refusal = None
                state.capacity.promised.taken(batch)
            else:
                refusal = refusal_of(state, batch.count, batch.nbytes, delayed=bool(delay_us), batch=batch)
            if refusal is None:
                taking[name] = (state, delay_us, ttl_us)
                if delay_us:
                    late = True
                if state.drops:
                    drops = True
            else:
                rejecting[name] = (state, refusal)
        if rejecting:
            # Its sender may give another message the same number.
            producers = temporary = ()
        if drops:
            dropped = dropped_for(kept_of(batch, taking, judged), taking, stage)
            gone = dropped.ranges
        added: dict[str, tuple[QueueState, MessagesAdded | MessagesDeduplicated]] = {
            name: (
                state,
                MessagesAdded(
                    state.log.next_sequence,
                    batch,
                    wall_us,
                    producers,
                    delay_us,
                    ttl_us,
                    stage,
                    temporary,
                    numbers=numbers,
                    published=published,
                    dropped=gone,
                    priority=state.settings.level_of(priority) if priority else 0,
                ),
            )
            for name, (state, delay_us, ttl_us) in taking.items()
        }
        if judged:
            before = without_duplicates(added, judged)
        record = partial(self._record_late, taking) if late else self._record
        event = record(added, now, wall_us, soon=stage is not None and stage.passing and batch.nbytes <= SYNCED_BYTES)
        if judged:
            event = max(event, before)
        if drops:
            let_go_beside(taking, dropped)
        if stage is not None:
            for state, _, _ in taking.values():
                state.staged.stored_beside(stage, batch.count, batch.nbytes + state.log.table.overhead)
        if not rejecting:
            return Distributed(event, tuple(taking), NOBODY)
        for name, (state, why) in rejecting.items():
            state.total_rejected += batch.count
            self._refuse(name, state, why, batch, published, priority)
        return Distributed(event, tuple(taking), {name: why for name, (_, why) in rejecting.items()})

    def move_dead_letters(
        self,
        source: QueueState,
        ranges: tuple[Range, ...],
        names: Iterable[str],
        batch: MessageBatch,
        published: Published | None = None,
        priority: int = 0,
        ttl: float | None = None,
    ) -> int:
        """Have dead letters be in each of these queues, and in the one that they leave no more, by one record; returns the event's number.

        Nothing waits for room: whoever calls this has looked for it. Each queue's time to live holds for them; its delay, which is for what
        is sent, does not.

        Args:
            source: the queue that they leave; it acts on that when it is told ``DeadLettersMoved``.
            ranges: their numbers there.
            names: the queues', each once; all of them are there.
            batch: the messages.
            published: to which exchange, and with which routing key; None for none.
            priority: the level that they were of.
            ttl: seconds after which they are of no use; None for what each queue declares, which is never exceeded.

        Raises:
            DiskBehindError: more waits for the disk than may wait. Nothing has happened.
            RecordTooLargeError: the facts of the batch fit no record. Nothing has happened.
            TooMuchTogetherError: more queues, or bytes, than one record may hold. Nothing has happened.
            StorageError: the journal takes nothing more, and the broker, which has been told, is about to end.
        """
        now, wall_us = both_clocks(asyncio.get_running_loop(), self._wall_clock)
        # It is a part of what the other queue stores, and outlives that.
        batch = batch.compact()
        added: dict[str, tuple[QueueState, MessagesAdded | MessagesDeduplicated]] = {}
        for name, state in self._routed(names):
            ttl_us = state.usual_timing[1] if ttl is None else timing_of(state.settings, 0.0, ttl)[1]
            level = state.settings.level_of(priority)
            first = state.log.next_sequence
            event = MessagesAdded(first, batch, wall_us, ttl_us=ttl_us, published=published, priority=level)
            added[name] = (state, event)
        return self._record(added, now, wall_us, (source, MessagesMoved(ranges)))

    def store_with_entries(
        self,
        names: Iterable[str],
        batch: MessageBatch,
        ttl: float | None,
        published: Published | None,
        entries: Sequence[EntryPut],
        priority: int = 0,
    ) -> bool:
        """Have a batch be in each queue, and the durable map be changed, by one record; False where a queue is just gone.

        Args:
            names: the queues', each once; all of them are there, and have room: nothing waits for it.
            batch: the messages.
            ttl: as of `store`.
            published: likewise.
            entries: the changes of the map, which in memory is the caller's to change.
            priority: as of `store`.

        Raises:
            DiskBehindError, InvalidRequestError, RecordTooLargeError, TooMuchTogetherError, StorageError: as of `store`.
        """
        now, wall_us = both_clocks(asyncio.get_running_loop(), self._wall_clock)
        added: dict[str, tuple[QueueState, MessagesAdded | MessagesDeduplicated]] = {}
        judged: dict[str, Judged] = {}
        timing: dict[str, tuple[QueueState, int, int | None]] = {}
        for name, state in self._routed(names):
            if state.log.accepted is not None:
                judged[name] = judged_beside(state, batch, wall_us, None)
            delay_us, ttl_us = timing_of(state.settings, None, ttl)
            timing[name] = state, delay_us, ttl_us
            first, level = state.log.next_sequence, state.settings.level_of(priority)
            event = MessagesAdded(first, batch, wall_us, (), delay_us, ttl_us, published=published, priority=level)
            added[name] = (state, event)
        if judged:
            without_duplicates(added, judged, recorded=True)
        return self._record_late(timing, added, now, wall_us, entries=entries) > 0 or self._storage is None

    def _routed(self, names: Iterable[str]) -> Iterator[tuple[str, QueueState]]:
        """Queues that were there just now, with their states."""
        for name in names:
            state = self._queues.state(name)
            assert state is not None, f"queue {name} was there when it was routed"
            yield name, state

    def delay_until(self, time: float) -> float:
        """Seconds from now until a time of day, seconds since the epoch; 0 where that is past."""
        return max(0.0, time - self._wall_clock())

    def rejects(self, names: Iterable[str]) -> bool:
        """Whether one of the queues rejects what it has no room for: how much it takes of something is its own to say."""
        states = [self._queues.state(name) for name in names]
        return any(state is not None and state.rejects for state in states)

    def level(self, names: Iterable[str], priority: int) -> int:
        """The highest level that messages of a priority are of in one of the queues."""
        states = (self._queues.state(name) for name in names)
        return max((state.settings.level_of(priority) for state in states if state is not None), default=0)

    def level_in(self, name: str, level: int) -> int | None:
        """Of which level of a queue messages are that are of ``level`` in another; None where it has no levels."""
        state = self._queues.state(name)
        most = None if state is None else state.settings.max_priority
        return None if most is None else min(level, most)

    @property
    def keeps_apart(self) -> Callable[[str, int], int | None] | None:
        """`level_in`; None as long as no queue has levels."""
        return self.level_in if self._queues.has_levels else None

    def delays(self, names: Iterable[str], delay: float | None) -> bool:
        """Whether one of the queues would have what it is given wait: for how many batches there is room then is looked at for each."""
        if delay is not None:
            return delay > 0
        states = [self._queues.state(name) for name in names]
        return any(state is not None and bool(state.usual_timing[0]) for state in states)

    def refused(
        self,
        amounts: Mapping[str, Amount],
        delay: float | None = None,
        ttl: float | None = None,
        batch: MessageBatch | None = None,
    ) -> Mapping[str, str]:
        """Of these queues those that reject the batch of which each would get so much, with why; they count it as rejected.

        With the ``batch`` itself a queue that gets all of it needs no room for duplicates.

        Raises:
            InvalidRequestError, QueueLimitError: as of `store`.
        """
        found: dict[str, str] = {}
        for name, amount in amounts.items():
            state = self._queues.state(name)
            if state is not None:
                delay_us, _ = timing_of(state.settings, delay, ttl)
                whole = batch if batch is not None and batch.count == amount.messages else None
                why = refusal_of(state, *amount, delayed=bool(delay_us), batch=whole)
                if why is not None:
                    found[name] = why
                    state.total_rejected += amount.messages
        return found

    def refuse(
        self, refused: Mapping[str, str], batch: MessageBatch, published: Published | None, priority: int = 0
    ) -> None:
        """Have a batch that queues have refused, each for what is said, be dead letters of those that are to have it so."""
        for name, why in refused.items():
            state = self._queues.state(name)
            if state is not None:
                self._refuse(name, state, why, batch, published, priority)

    def _refuse(
        self, name: str, state: QueueState, why: str, batch: MessageBatch, published: Published | None, priority: int
    ) -> None:
        if lets_die(state, why):
            # It is in nothing that is stored, and may be a part of what is.
            wall_us = time_of_day_us(self._wall_clock)
            refuse(state, batch.compact(), published, wall_us, state.settings.level_of(priority))
            self._wake(name)

    def promise(self, amounts: Mapping[str, Amount]) -> None:
        """Of these queues those that reject keep room for the batch of which each gets so much in parts, until `promise_is_kept`."""
        for name, amount in amounts.items():
            state = self._queues.state(name)
            if state is not None and state.rejects:
                state.capacity.promised.given(amount)
                self._promising.append(state)

    def promise_is_kept(self) -> None:
        """All of it has come, or it comes no more."""
        for state in self._promising:
            state.capacity.promised.over()
        self._promising.clear()

    def waits(self, names: Iterable[str]) -> bool:
        """Whether one of the queues is not transient: until what is stored there is durable, somebody waits."""
        states = (self._queues.state(name) for name in names)
        return any(state is not None and state.settings.durable for state in states)

    def used(self, names: Iterable[str], connection: Ref, messages: int, size: int) -> None:
        """What these queues had granted a sender of several queues is used for so much that was stored for it."""
        for name in names:
            state = self._queues.state(name)
            if state is not None:
                used_beside(state, connection, messages, size)

    def _record(
        self,
        taking: Mapping[str, tuple[QueueState, MessagesAdded | MessagesDeduplicated]],
        now: float,
        wall_us: int,
        left: tuple[QueueState, MessagesMoved] | None = None,
        *,
        soon: bool = False,
        entries: Sequence[EntryPut] = (),
    ) -> int:
        """Have all of it happen, and the queues act on it; returns the event's number. With ``soon`` a commit is about to sync it."""
        if not taking:
            return 0
        unaware = [name for name, (state, added) in taking.items() if state.ready.known == added.first]
        for state, _ in taking.values():
            state.note_time(now, wall_us)
        events: dict[int, Event] = {state.number: added for state, added in taking.values()}
        if left is not None:
            events[left[0].number] = left[1]
        event = 0
        if (storage := self._storage) is not None:
            if entries:
                event = storage.record_with_entries(events, entries)
            else:
                event = storage.record_staged(events) if soon else storage.record_all(events)
        else:
            for state, added in taking.values():
                state.log.apply(added)
            if left is not None:
                left[0].log.apply(left[1])
        # Those that have not looked since others stored something are about to.
        for name in unaware:
            self._wake(name)
        return event

    def _record_late(
        self, timing: Timings, taking: Mapping[str, tuple[QueueState, Stored]], now: float, wall_us: int, **said: Any
    ) -> int:
        """As `_record`, of what has a delay: some of it waits in calendars, which are looked at in time."""
        waiting = in_calendars(taking, timing)
        event = self._record(waiting, now, wall_us, **said)
        for name, (state, added) in waiting.items():
            if isinstance(added, MessagesScheduled) and added.scheduled.place is not None:
                note_scheduled(state, added.scheduled.place, now)
                self._wake(name)
        return event

    def _wake(self, name: str) -> None:
        try:
            self._queues.get(name).actor_inbox.offer_beyond_bound(StoredBeside())
        except (pykka.ActorDeadError, QueueError) as error:
            # Its successor begins with its log.
            logger.debug("queue %s is not told of what was stored in it: %s", name, error)
