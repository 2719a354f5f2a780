"""What the operations of a queue work on: the durable log, the volatile dispatch state, and the two lists that go out."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from actors.errors import InvalidRequestError
from actors.queue_state.capacity import Capacity
from actors.queue_state.deadlines import DeadlineHeap
from actors.queue_state.demand_ring import DemandRing
from actors.queue_state.events import LAZY, MessagesAdded
from actors.queue_state.leases import LeaseTable, Receiver
from actors.queue_state.ready import ReadyRanges
from actors.queue_state.statistics import ReservationFacts

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.queue_state.consumers import Ownership, Reservation, Sender, Subscriber
    from actors.queue_state.effects import Connection, Effect
    from actors.queue_state.events import Event
    from actors.queue_state.incoming import Incoming
    from actors.queue_state.log import QueueLog
    from actors.queue_state.settings import QueueSettings

US_PER_SECOND = 1_000_000

Recorder: TypeAlias = "Callable[[Event], int]"
"""Puts an event into the journal and returns its number, which grows; raises where it cannot be."""


class QueueCore:
    """One queue's state, for the operations in this package; everyone else uses ``QueueState``.

    Attributes:
        log: the fold over events; changed by ``commit`` only.
        ready: messages nobody holds.
        leases: messages that receivers hold.
        ring: receivers and reservations that wait for messages.
        capacity: permits of senders.
        senders: by connection; ``sender_of`` has those with a producer id, by that.
        owners: whose subscription is connected, or since when it is not.
        effects: what is to be done.
        incoming: batches that were accepted and are not stored yet.
        barrier: the number of the last event that all that follows depends on.
        clocks: the last send's time on the clock of deadlines and on that of enqueue times.
        unfinished_at: when a dispatch used up its budget; None while none is under way.
    """

    __slots__ = (
        "_record",
        "barrier",
        "capacity",
        "clocks",
        "effects",
        "incoming",
        "last_event",
        "leases",
        "log",
        "owner_deadlines",
        "owners",
        "ready",
        "receivers",
        "reservation_deadlines",
        "ring",
        "sender_of",
        "senders",
        "settings",
        "subscribers",
        "total_out",
        "total_redelivered",
        "unfinished_at",
    )

    ready: ReadyRanges
    leases: LeaseTable
    ring: DemandRing
    capacity: Capacity
    senders: dict[Connection, Sender]
    sender_of: dict[str, Sender]
    receivers: dict[Connection, Receiver]
    subscribers: dict[Connection, Subscriber]
    owners: dict[str, Ownership]
    owner_deadlines: DeadlineHeap[Ownership]
    reservation_deadlines: DeadlineHeap[Reservation]
    effects: list[Effect]
    incoming: list[Incoming]
    unfinished_at: float | None

    def __init__(self, settings: QueueSettings, log: QueueLog, record: Recorder | None) -> None:
        self.settings = settings
        self.log = log
        self._record = record
        self.last_event = 0
        self.barrier = 0
        self.total_out = 0
        self.total_redelivered = 0
        self.clocks: tuple[float, int] | None = None
        self.reset()

    def reset(self) -> None:
        """Make the volatile state anew from the log: nobody is connected, all that is not reserved is ready."""
        log = self.log
        holes = log.acknowledged.copy()
        for ledger in log.ledgers.values():
            for segment in ledger.segments(ledger.base, ledger.high):
                holes.add(segment.start, segment.stop)
        start = holes.reach(0)
        holes.remove(0, start)
        self.ready = ReadyRanges(log.table, start, log.next_sequence, holes, replayed_below=log.next_sequence)
        self.leases = LeaseTable()
        self.ring = DemandRing()
        self.capacity = Capacity(self.settings)
        self.senders = {}
        self.sender_of = {}
        self.receivers = {}
        self.subscribers = {}
        self.owners = {}
        self.owner_deadlines = DeadlineHeap()
        self.reservation_deadlines = DeadlineHeap()
        self.effects = []
        self.incoming = []
        self.unfinished_at = None

    def commit(self, event: Event) -> None:
        """Let ``event`` have happened: recorded first, so that one that cannot be recorded has not."""
        number = self.last_event if self._record is None else self._record(event)
        self.log.apply(event, number)
        kind = type(event)
        if kind not in LAZY:
            self.last_event = number
            if kind is not MessagesAdded:
                # Whatever goes out from here on may have to do with it. Of a batch only its own messages have.
                self.barrier = number

    def grant(self) -> None:
        """Give senders who wait for it the room that there is."""
        if self.capacity.waiting:
            log = self.log
            self.capacity.grant(log.stored_messages, log.stored_bytes, self.effects)

    def receiver(self, connection: Connection) -> Receiver:
        """The receiver with this connection; InvalidRequestError if there is none."""
        try:
            return self.receivers[connection]
        except KeyError:
            raise InvalidRequestError("this connection is not attached as a receiver: attach it first") from None

    def oldest_ms(self, now: float) -> int:
        """The age of the message that is next, milliseconds; 0 if none is ready or no time of day is known."""
        span = self.ready.first()
        if span is None or self.clocks is None:
            return 0
        entry = span.entry
        if not entry.loaded:
            self.log.table.load(entry)
        then, wall_us = self.clocks
        return max(0, wall_us + int((now - then) * US_PER_SECOND) - entry.enqueued_us) // 1000

    def backlog_bytes(self) -> int:
        """Bytes of what is ready, about: its share of what is stored."""
        log = self.log
        if not log.stored_messages:
            return 0
        stored = log.stored_bytes - log.stored_batches * log.table.overhead
        return stored * self.ready.messages // log.stored_messages

    def facts(self, now: float) -> ReservationFacts:
        """What a subscription is told with a reservation."""
        return ReservationFacts(
            backlog=self.ready.messages,
            backlog_bytes=self.backlog_bytes(),
            oldest_ms=self.oldest_ms(now),
            sender_demand=self.capacity.messages,
            high_water=self.log.next_sequence,
            in_flight=self.leases.in_flight,
            full=self.capacity.closed(self.log.stored_messages, self.log.stored_bytes),
        )
