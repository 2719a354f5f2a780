"""What the operations of a queue work on: the durable log, the volatile dispatch state, and the two lists that go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from actors.errors import InvalidRequestError, QueueGoneError
from actors.queue.state.capacity import Capacity
from actors.queue.state.counted import counted_or_not
from actors.queue.state.deduplication import deduplicate, limit_with_ids, taken_with_ids
from actors.queue.state.feeder import Feeder, begin_feeding
from actors.queue.state.grouped_leases import GroupedLeases
from actors.queue.state.groups import Groups
from actors.queue.state.held import Held
from actors.queue.state.line import line_of
from actors.queue.state.log import QueueLog
from actors.queue.state.ready import Outbox
from actors.queue.state.receivers import DemandRing, LeaseTable, Receiver
from actors.queue.state.restoring import ready_of, remembered
from actors.queue.state.staged import CommittedVersions, Staged
from actors.queue.state.subscriptions import Ownership, await_use
from actors.queue.state.use import Use
from actors.queue.structures.deadlines import US_PER_SECOND, Clocks, DeadlineHeap, microseconds
from actors.queue.structures.spans import SpanMap
from actors.queue.vocabulary.events import LAZY, MessagesAdded, MessagesMoved, MessagesScheduled
from actors.queue.vocabulary.replies import Refused, Tell
from actors.queue.vocabulary.settings import (
    DEFAULT_TRANSACTION_TIMEOUT,
    DROP_HEAD,
    REJECTING,
    QueueSettings,
)

if TYPE_CHECKING:
    from collections import OrderedDict
    from collections.abc import Callable, Mapping

    from actors.errors import QueueError
    from actors.queue.state.entries import Span
    from actors.queue.state.leveled_ready import LeveledReady
    from actors.queue.state.line import Line
    from actors.queue.state.permits import Permits
    from actors.queue.state.priority_ring import PriorityRing
    from actors.queue.state.ready import Judging, ReadyRanges
    from actors.queue.state.receivers import Answering, Take
    from actors.queue.state.senders import Incoming, Sender
    from actors.queue.state.subscriptions import Absence, Reservation, Subscriber
    from actors.queue.structures.deadlines import Due
    from actors.queue.vocabulary.events import Event
    from actors.queue.vocabulary.moves import Parcel
    from actors.queue.vocabulary.replies import Connection, Effect, Reply
    from actors.queue.vocabulary.stages import StageKey

Recorder: TypeAlias = "Callable[[Event], int]"
"""Puts an event into the journal and returns its number, which grows; raises where it cannot be."""
RecorderOfAll: TypeAlias = "Callable[[Mapping[int, Event]], int]"
"""The same for events of several queues in one instant, by the queues' numbers; it has them happen in every queue."""


@dataclass(init=False, eq=False, repr=False, slots=True)
class QueueCore:
    """One queue's state, which operations work on; ``QueueState`` is the same with the commands that it carries out.

    Args:
        name: for statistics.
        number: the queue's number, for the messages' generated ids.
        settings: limits and times.
        log: what was recovered; None for a new queue.
        record: puts each event into a journal before it happens, and returns its number; None for a queue in memory.
        record_all: the same for events of this queue and others that happen in one instant, which it has happen in all of them.
        now: the time of the start, from which the timeouts of absent owners count.
        wall_us: the time of day at the start, which what is left of delays and times to live depends on; it may be set afterwards.
        versions: the last committed version of each writer, which the queues of a broker share; None where nobody commits.
        transaction_timeout: seconds for which a stage stays without a connection.
        use: who consumes, where others want to know.
        held: whether senders are held back, shared by the queues of a broker; by default they are not.

    Attributes:
        log: the fold over events; changed by ``commit`` only.
        ready: messages nobody holds.
        groups: who has which group, in a queue with groups; else None.
        leases: messages that receivers hold.
        outbox: messages that leave for the dead-letter queue.
        ring: receivers, takes and reservations that wait for messages.
        line: who has the queue, and who waits for it, where one receiver has it at a time; else None.
        capacity: permits of senders.
        senders: by connection; ``sender_of`` has those with a producer id, by that.
        receivers: by connection, in the order in which they came.
        owners: whose subscription is connected, or since when it is not.
        unused: subscriptions that nobody uses, where they are forgotten after a time.
        forgets_from: none of them is before this.
        answering: the request that is answered in several turns; None while none is.
        staged: what transactions hold back.
        versions: the last committed version of each writer, of all queues.
        parcels: messages that somebody moves to another queue, while they are under way.
        effects: what is to be done.
        incoming: batches that were accepted and are not stored yet; ``incoming_messages``, ``incoming_bytes`` and, in batches,
            ``incoming_delayed`` say how much of them will be.
        heaps: of all that is due at a time of its own; ``feeder`` moves what waits in the calendar, once there was something.
        last_event: the number of the event that must be durable before what a command returned may be seen outside: it may tell of any
            event so far, and of a batch that is stored and not durable a sender would take it for confirmed.
        barrier: the number of the last event that all that follows depends on.
        clocks: how the times of day on messages relate to the clock of deadlines.
        ttl_below: messages from this number on have no time to live.
        arrived_from: messages from here on have come since a dispatch ended: those with a time to live of 0 can still be delivered.
        takes_all: whether a batch is stored whatever room there is, and can be received at once, where its sender asks for nothing else.
        ids_left: of how many messages more the ids are looked at before others have their turn; None for any number.
        batch_overhead: bytes that each stored batch counts for beside its size.
        rejects: whether the queue refuses what it has no room for, rather than granting nothing.
        drops: whether it takes everything, and drops its oldest instead.
        paused: why senders may send nothing, whatever room there is; None while they may.
        unfinished_at: when a dispatch or a judging used up its budget; None while none is under way.
        judging: how far it is in judging anew, by other settings, what it holds; None while it is not.
        usual_timing: delay and time to live, microseconds, of what carries none of its own.
        wall_us: the time of day of the command, or the tick, that is carried out, microseconds since the epoch.
    """

    name: str
    number: int
    settings: QueueSettings
    log: QueueLog
    versions: CommittedVersions
    ready: ReadyRanges | LeveledReady
    groups: Groups | None
    leases: LeaseTable
    outbox: Outbox
    ring: DemandRing | PriorityRing
    line: Line | None
    answering: Answering | None
    capacity: Capacity
    staged: Staged
    senders: dict[Connection, Sender]
    sender_of: dict[str, Sender]
    receivers: dict[Connection, Receiver]
    subscribers: dict[Connection, Subscriber]
    owners: dict[str, Ownership]
    owner_deadlines: DeadlineHeap[Ownership]
    wait_deadlines: DeadlineHeap[Reservation | Take]
    unused: DeadlineHeap[Absence]
    forgets_from: float
    heaps: tuple[Due, ...]
    feeder: Feeder | None
    parcels: dict[Parcel, Span]
    use: Use
    held: Held
    effects: list[Effect]
    incoming: list[Incoming]
    incoming_messages: int
    incoming_bytes: int
    incoming_delayed: int
    last_event: int
    barrier: int
    clocks: Clocks
    wall_us: int
    usual_timing: tuple[int, int | None]
    ttl_below: int
    arrived_from: int
    unfinished_at: float | None
    judging: Judging | None
    paused: str | None
    rejects: bool
    drops: bool
    takes_all: bool
    ids_left: int | None
    batch_overhead: int
    total_out: int
    total_redelivered: int
    total_rejected: int
    total_deduplicated: int
    _record: Recorder | None
    _record_all: RecorderOfAll | None
    _transaction_timeout: float
    _writers: OrderedDict[Permits, None]

    def __init__(
        self,
        name: str,
        number: int,
        settings: QueueSettings | None = None,
        *,
        log: QueueLog | None = None,
        record: Recorder | None = None,
        record_all: RecorderOfAll | None = None,
        now: float = 0.0,
        wall_us: int = 0,
        versions: CommittedVersions | None = None,
        transaction_timeout: float = DEFAULT_TRANSACTION_TIMEOUT,
        use: Use | None = None,
        held: Held | None = None,
    ) -> None:
        self.name, self.number = name, number
        self.take_settings(settings or QueueSettings())
        self.log = log = QueueLog() if log is None else log
        self._record = record
        self._record_all = record_all
        self.versions = CommittedVersions() if versions is None else versions
        self._transaction_timeout = transaction_timeout
        self.last_event = self.barrier = 0
        self.total_out = self.total_redelivered = self.total_rejected = self.total_deduplicated = 0
        self.batch_overhead = log.table.overhead
        self.paused, self.parcels, self.ids_left = None, {}, None
        self.use, self.held = use or Use(), held or Held()
        self.wall_us = wall_us
        # What the messages from before the start have for a time to live is known only when they are read.
        self.ttl_below = log.next_sequence if log.stored_messages or log.staged_messages else 0
        self.clocks = Clocks(now, wall_us, before=log.next_sequence)
        self._begin(now)

    def take_settings(self, settings: QueueSettings) -> None:
        """Have other settings, and what is only another form of them."""
        self.settings = settings
        self.rejects = settings.overflow in REJECTING
        self.drops = settings.overflow == DROP_HEAD
        self.takes_all = not (self.rejects or settings.delay or settings.max_priority or settings.deduplication_window)
        self.usual_timing = (microseconds(settings.delay), None if settings.ttl is None else microseconds(settings.ttl))

    def senders_limits(self) -> tuple[int | None, int | None]:
        """What holds senders back of messages and bytes: not the limits of a queue that drops, but how many ids may be remembered."""
        most, most_bytes = (None, None) if self.drops else (self.settings.max_messages, self.settings.max_bytes)
        return limit_with_ids(self.settings, most), most_bytes

    def taken(self) -> tuple[int, int]:
        """What is stored or accepted, in messages and bytes, by which it is judged what may be granted; more where ids leave less room."""
        log, most = self.log, None if self.drops else self.settings.max_messages
        messages, size = log.stored_messages + self.incoming_messages, log.stored_bytes + self.incoming_bytes
        if log.accepted is not None:
            messages = taken_with_ids(log.accepted, most, messages, self.incoming_messages)
        return messages, size

    def counted(self, ready: ReadyRanges | LeveledReady) -> ReadyRanges | LeveledReady:
        """What is ready, with its bytes where these count."""
        return counted_or_not(ready, counts=self.drops and self.settings.max_bytes is not None)

    def _may_be_over(self) -> bool:
        """Whether there may be something to drop."""
        most, most_bytes = self.settings.max_messages, self.settings.max_bytes
        return (most is not None and self.ready.messages > most) or (
            most_bytes is not None and self.log.stored_bytes > most_bytes
        )

    def _begin(self, now: float) -> None:
        """Make the volatile state anew from the log: nobody is connected, and all that is not reserved is ready, after its delay."""
        self._withdraw_parcels()
        self.groups = groups = Groups() if self.settings.groups else None
        self.ready = self.counted(ready_of(self.log, groups))
        self.outbox = Outbox(now)
        self.leases = LeaseTable() if groups is None else GroupedLeases(groups)
        self.ring = DemandRing()
        self.line, self.answering = line_of(self.settings), None
        self.capacity = Capacity(*self.senders_limits(), unlimited=self.rejects)
        self.staged = Staged(
            self.name,
            self.settings,
            self.log,
            durable=self._record is not None,
            now=now,
            timeout=self._transaction_timeout,
        )
        self._writers = self.staged.capacity.waiting  # looked at for each batch of anybody
        # What was published is receivable from here on, and is so for the reason of its commit.
        self.depend_on(self.log.published_by)
        # What others wrote is all known from here on, be it that the queue had not noticed.
        self.last_event = max(self.last_event, self.log.added_by)
        self.ttl_below, self.arrived_from = max(self.ttl_below, self.log.ttl_below), self.log.next_sequence
        self.senders, self.sender_of, self.receivers = {}, {}, {}
        self.subscribers, self.owners = {}, {}
        self.use.begin(now)
        self.owner_deadlines = DeadlineHeap()
        self.wait_deadlines, self.unused = DeadlineHeap(), DeadlineHeap()
        self.effects, self.incoming = [], []
        self.incoming_messages = self.incoming_bytes = self.incoming_delayed = 0
        self.unfinished_at = self.judging = self.feeder = None
        self.heaps = (
            self.leases.deadlines,
            self.ready.delayed.due,
            self.outbox.sent.due,
            self.staged.absences,
            self.owner_deadlines,
            self.wait_deadlines,
            *(() if self.line is None else (self.line,)),
            *(() if groups is None else (groups,)),
        )
        for span, due in remembered(self.log, self.ready, self.clocks, now, self.settings):
            self.put_back(span, due)
        if self.drops and self._may_be_over():
            # What says that it was dropped may be lost.
            self.unfinished_at = now
        for ledger in self.log.ledgers.values():
            self.owners[ledger.name] = owner = Ownership(ledger)
            if ledger.left_us:
                away_us = max(0, self.clocks.time_us(now) - ledger.left_us)
                owner.used, owner.noted = now - away_us / US_PER_SECOND, True
            self.await_owner(owner, now)
        self.await_use(now)
        self.heaps = deduplicate(self.heaps, self.log, self.settings, self.clocks, self.capacity, now)
        begin_feeding(self, now)

    def reset(self, now: float, wall_us: int | None = None) -> list[Connection]:
        """Forget all that is volatile: messages in flight are ready again, possibly replayed, and nobody is connected. Returns who was.

        Delays go on, and so does a pause. ``wall_us`` is for whoever comes back from the dead: without it the clocks go on as they were.
        """
        connections = list(dict.fromkeys((*self.senders, *self.receivers, *self.subscribers)))
        if wall_us is not None:
            self.clocks = Clocks(now, wall_us, before=self.log.next_sequence)
        self._begin(now)
        return connections

    def end(self) -> None:
        """Let go of what knows each other, so that it is free without the collector: each lease knows its receiver."""
        for receiver in self.receivers.values():
            receiver.held, receiver.takes = SpanMap(), None
        self._withdraw_parcels()

    def _withdraw_parcels(self) -> None:
        """Whatever of them is not stored elsewhere stays here."""
        for parcel in self.parcels:
            if moved := parcel.withdraw():  # a queue in memory hears it from nobody else
                self.log.apply(MessagesMoved((moved,), dead=False))
        self.parcels.clear()

    def commit(self, event: Event, beside: Mapping[int, Event] | None = None) -> None:
        """Let ``event`` have happened: recorded first, so that one that cannot be recorded has not.

        ``beside`` is what happens to other queues in the same instant, by their numbers. Queues in memory tell it each other.
        """
        if self._record is None:
            number = self.last_event
        elif beside is None:
            number = self._record(event)
        else:
            assert self._record_all is not None, (
                "a queue that others have to do with is given the way to record with them"
            )
            assert self.number not in beside, "a queue has one event in an instant"
            number = self._record_all({self.number: event, **beside})
            if not number:
                # It was deleted, and is about to hear of it: nothing has happened, to any of them.
                raise QueueGoneError
        # Behind ``beside`` it has it already, and passes it over by its number.
        self.log.apply(event, number)
        kind = type(event)
        if kind not in LAZY:
            self.last_event = number
            if kind is not MessagesAdded and kind is not MessagesScheduled:
                # Whatever goes out from here on may have to do with it. Of a batch only its own messages have.
                self.barrier = number

    def depend_on(self, number: int) -> None:
        """Whatever goes out from here on has to do with the event ``number``."""
        self.last_event = max(self.last_event, number)
        self.barrier = max(self.barrier, number)

    def is_committed(self, stage: StageKey) -> bool:
        """Whether a stage's version is committed, which whoever is told learns when it is durable."""
        if committed := self.versions.covers(stage.writer, stage.version):
            self.depend_on(self.versions.last_event)
        return committed

    def take_effects(self) -> list[Effect]:
        """What is to be done since the last call, in order."""
        if effects := self.effects:
            self.effects = []
        return effects

    def tell(self, connection: Connection, reply: Reply) -> None:
        """Tell a connection what may depend on all that has happened so far."""
        self.effects.append(Tell(connection, reply, self.last_event))

    def refuse(self, connection: Connection, error: QueueError, after: int = 0) -> None:
        """Tell a connection that the queue has forgotten why it did."""
        self.effects.append(Tell(connection, Refused(error.code, str(error), None, close=True, forgotten=True), after))

    def grant(self) -> None:
        """Give senders who wait for it the room that there is, unless they are to pause."""
        # Those of a queue that rejects are answered when they send.
        if self.capacity.waiting and (self.paused is None or self.rejects):
            if self.held.on and self.held.holds(self.name, self.rejects):
                return
            log = self.log
            # What was accepted has used up its permits and takes the room as if it were stored already.
            messages, size = log.stored_messages + self.incoming_messages, log.stored_bytes + self.incoming_bytes
            if log.accepted is not None:
                messages, size = self.taken()
            self.capacity.grant(messages, size, self.effects)
        if self._writers and self.paused is None and not self.held.holds(self.name, self.rejects):
            self._grant_stages()

    def _grant_stages(self) -> None:
        """Give those who stage what may be staged, while the queue itself has room: so its receivers hold them back too."""
        log, staged = self.log, self.staged
        if self.capacity.note_stored(*self.taken()):
            messages, size = log.staged_messages + staged.incoming_messages, log.staged_bytes + staged.incoming_bytes
            staged.capacity.grant(messages, size, self.effects)
            staged.grant_hopeless(self.effects)
        elif self.rejects:
            staged.grant_passing(self.effects)

    def delayed_batches(self) -> int:
        """Batches, or parts of them, that wait for a delay or will when they are published."""
        return len(self.ready.delayed) + self.incoming_delayed + self.staged.delayed

    def receiver(self, connection: Connection) -> Receiver:
        """The receiver with this connection; InvalidRequestError if there is none."""
        try:
            return self.receivers[connection]
        except KeyError:
            raise InvalidRequestError("this connection is not attached as a receiver: attach it first") from None

    def note_time(self, now: float, wall_us: int) -> None:
        """It is the time of day ``wall_us``, which the messages that are stored next will carry."""
        self.clocks.mark(self.log.next_sequence, now, wall_us, self.log.acknowledged.reach(0))

    def oldest_ms(self, now: float) -> int:
        """The age of the message that is next, milliseconds; 0 if none is ready."""
        span = self.ready.first()
        if span is None:
            return 0
        entry = span.entry.read()
        age_us = round(now * US_PER_SECOND) - self.clocks.instant_us(entry.first, entry.enqueued_us)
        return max(0, age_us) // 1000

    def backlog_bytes(self) -> int:
        """Bytes of what is ready, about: its share of what is stored."""
        log = self.log
        stored = log.stored_bytes - log.stored_batches * log.table.overhead
        return stored * self.ready.messages // log.stored_messages if log.stored_messages else 0

    def put_back(self, span: Span, due: float | None) -> None:
        """Make a span that came back receivable again in its old place, at ``due`` if that is given; one that is worn out leaves."""
        if self.settings.worn_out(span.failures):
            self.outbox.add(span)
        elif due is not None:
            self.ready.delay(span, due)
        else:
            self.ready.put_back(span)

    def await_owner(self, owner: Ownership, now: float) -> None:
        """A subscription has no owner as of now."""
        if owner.ledger.owner_timeout is not None:
            self.owner_deadlines.push(owner, now + owner.ledger.owner_timeout)

    def await_use(self, now: float) -> None:
        """Look soon which subscriptions nobody uses, and how long they may stay so. None goes before a grace from now on is over."""
        others = tuple(heap for heap in self.heaps if heap is not self.unused)
        self.heaps = others if self.settings.subscription_expiry is None else (*others, self.unused)
        self.forgets_from = await_use(self.owners.values(), self.unused, self.settings.subscription_expiry, now)
