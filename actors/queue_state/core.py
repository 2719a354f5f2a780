"""What the operations of a queue work on: the durable log, the volatile dispatch state, and the two lists that go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import InvalidRequestError
from actors.queue_state.capacity import Capacity
from actors.queue_state.deadlines import DeadlineHeap
from actors.queue_state.demand_ring import DemandRing
from actors.queue_state.leases import LeaseTable, Receiver
from actors.queue_state.ranges import RangeSet
from actors.queue_state.ready import ReadyRanges
from actors.queue_state.statistics import ReservationFacts

if TYPE_CHECKING:
    from actors.queue_state.consumers import Ownership, Reservation, Sender, Subscriber
    from actors.queue_state.effects import Connection, Effect
    from actors.queue_state.entry import Entry
    from actors.queue_state.events import Event
    from actors.queue_state.log import QueueLog
    from actors.queue_state.ranges import Range
    from actors.queue_state.settings import QueueSettings

US_PER_SECOND = 1_000_000


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
        events: what has happened, where it is recorded.
        clocks: the last send's time on the clock of deadlines and on that of enqueue times.
        unfinished_at: when a dispatch used up its budget; None while none is under way.
    """

    __slots__ = (
        "capacity",
        "clocks",
        "effects",
        "events",
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
    unfinished_at: float | None

    def __init__(self, settings: QueueSettings, log: QueueLog, record_events: bool) -> None:
        self.settings = settings
        self.log = log
        self.events: list[Event] | None = [] if record_events else None
        self.total_out = 0
        self.total_redelivered = 0
        self.clocks: tuple[float, int] | None = None
        self.reset()

    def reset(self) -> None:
        """Make the volatile state anew from the log: nobody is connected, all that is not reserved is ready."""
        self.ready = ReadyRanges()
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
        self.unfinished_at = None
        reserved: dict[int, list[Range]] = {}
        for ledger in self.log.ledgers.values():
            for segment in ledger.segments(ledger.base, ledger.high):
                reserved.setdefault(segment.entry.first, []).append((segment.start, segment.stop))
        self.ready.restore(
            (entry, _without(entry, reserved.get(entry.first, []))) for entry in self.log.entries.values()
        )

    def commit(self, event: Event) -> None:
        """Let ``event`` have happened."""
        self.log.apply(event)
        if self.events is not None:
            self.events.append(event)

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
        entry = self.ready.oldest()
        if entry is None or self.clocks is None:
            return 0
        then, wall_us = self.clocks
        return max(0, wall_us + int((now - then) * US_PER_SECOND) - entry.enqueued_us) // 1000

    def facts(self, now: float) -> ReservationFacts:
        """What a subscription is told with a reservation."""
        return ReservationFacts(
            backlog=self.ready.messages,
            backlog_bytes=self.ready.bytes,
            oldest_ms=self.oldest_ms(now),
            sender_demand=self.capacity.messages,
            high_water=self.log.next_sequence,
            in_flight=self.leases.in_flight,
            full=self.capacity.closed(self.log.stored_messages, self.log.stored_bytes),
        )


def _without(entry: Entry, reserved: list[Range]) -> list[Range]:
    if not reserved:
        return entry.unacknowledged()
    gone = RangeSet(reserved)
    return [part for start, stop in entry.unacknowledged() for part in gone.gaps(start, stop)]
