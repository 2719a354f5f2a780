"""The durable part of a queue: the fold over its events, and nothing else.

No clock, no connections, no leases: two logs that have seen the same events are equal, and a log that sees an event for
a second time stays as it is. It holds nothing for each message or batch that waits: those are in the entry table.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from actors.queue_state.entry_table import MemoryEntryTable
from actors.queue_state.events import (
    Event,
    MessagesAcknowledged,
    MessagesAdded,
    MessagesExpired,
    MessagesMoved,
    MessagesReserved,
    MessagesReturned,
    QueuePurged,
    ReservationCommitted,
    SubscriptionOpened,
    SubscriptionReleased,
)
from actors.queue_state.ledger import Ledger
from actors.queue_state.ranges import Range, RangeSet
from actors.queue_state.returns import Returns
from actors.queue_state.settings import ENTRY_OVERHEAD_BYTES, MAX_DELAYED, MAX_PRODUCERS

if TYPE_CHECKING:
    from actors.queue_state.entry_table import EntryTable


class QueueLog:
    """What is stored, producers, ledgers, and the sums over them.

    Attributes:
        table: the stored batches.
        acknowledged: every number below ``next_sequence`` that nobody wants any more.
        next_sequence: the number that the next message gets; it never goes back.
        stored_messages: messages not acknowledged.
        stored_batches: batches that still have one.
        stored_bytes: bytes of the batches that still have one, each whole and with the table's overhead.
        reserved_messages: messages in ledgers.
        producers: producer to the number after the last one stored, the least recently heard of first.
        returns: how often what was given back has been delivered.
        delayed: batches that could not be received at once: first number to the number after the last and microseconds since the epoch.
            Whoever knows that a delay is over says so with ``delay_ended``; what is left of those that are is no part of the fold.
    """

    __slots__ = (
        "acknowledged",
        "delayed",
        "ledgers",
        "next_sequence",
        "producers",
        "reserved_messages",
        "returns",
        "stored_batches",
        "stored_bytes",
        "stored_messages",
        "table",
        "total_acknowledged",
        "total_dead_lettered",
        "total_expired",
        "total_in",
        "total_purged",
    )

    def __init__(self, table: EntryTable | None = None) -> None:
        self.table: EntryTable = table if table is not None else MemoryEntryTable(ENTRY_OVERHEAD_BYTES)
        self.acknowledged = RangeSet()
        self.next_sequence = 0
        self.stored_messages = 0
        self.stored_batches = 0
        self.stored_bytes = 0
        self.reserved_messages = 0
        self.producers: OrderedDict[str, int] = OrderedDict()
        self.ledgers: dict[str, Ledger] = {}
        self.returns = Returns()
        self.delayed: dict[int, tuple[int, int]] = {}
        self.total_in = 0
        self.total_acknowledged = 0
        self.total_purged = 0
        self.total_expired = 0
        self.total_dead_lettered = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QueueLog):
            return NotImplemented
        # Delays end with time, which a log knows nothing of: of two alike one may have been told of an end and the other not.
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__ if name != "delayed")

    __hash__ = None  # type: ignore[assignment]  # mutable

    @classmethod
    def replay(cls, events: Iterable[Event]) -> QueueLog:
        """The fold over ``events``."""
        log = cls()
        for number, event in enumerate(events, 1):
            log.apply(event, number)
        return log

    def apply(self, event: Event, number: int = 0) -> None:
        """Take in an event with its number; one that was taken in before changes nothing."""
        _APPLY[type(event)](self, event, number)

    def unacknowledged(self) -> list[Range]:
        """What is stored, ascending."""
        return self.acknowledged.gaps(0, self.next_sequence)

    def delay_ended(self, first: int) -> None:
        """The batch that begins with ``first`` can be received, if it could not be."""
        self.delayed.pop(first, None)

    def _added(self, event: MessagesAdded, number: int) -> None:
        first = event.first
        if first < self.next_sequence:
            return
        if first > self.next_sequence:
            # Only a repaired journal leaves numbers out: nobody has these messages any more.
            self.acknowledged.add(self.next_sequence, first)
        table = self.table
        size = table.add(event, number)
        count = len(event.batch)
        self.next_sequence = first + count
        self.stored_messages += count
        self.stored_batches += 1
        self.stored_bytes += size + table.overhead
        self.total_in += count
        if event.delay_us:
            self._delayed(event, first + count)
        producers = self.producers
        for producer, sequence in event.producers:
            producers[producer] = sequence
            producers.move_to_end(producer)
            if len(producers) > MAX_PRODUCERS:
                producers.popitem(last=False)

    def _delayed(self, event: MessagesAdded, stop: int) -> None:
        delayed = self.delayed
        delayed[event.first] = (stop, event.enqueued_us + event.delay_us)
        if len(delayed) > 2 * MAX_DELAYED:
            # A replay sees delays begin and not end. At the time of this one no more than half of them were not over.
            kept = [(first, item) for first, item in delayed.items() if item[1] > event.enqueued_us]
            self.delayed = dict(kept[-MAX_DELAYED:])

    def _acknowledged(self, event: MessagesAcknowledged, _number: int) -> None:
        self.total_acknowledged += self._remove(event.ranges)

    def _returned(self, event: MessagesReturned, _number: int) -> None:
        for start, stop, deliveries in event.returns:
            for part_start, part_stop in self.acknowledged.gaps(start, stop):
                self.returns.note(part_start, part_stop, deliveries)

    def _expired(self, event: MessagesExpired, _number: int) -> None:
        self.total_expired += self._remove(event.ranges)

    def _moved(self, event: MessagesMoved, _number: int) -> None:
        self.total_dead_lettered += self._remove(event.ranges)

    def _purged(self, event: QueuePurged, _number: int) -> None:
        self.total_purged += self._remove(event.ranges)

    def _opened(self, event: SubscriptionOpened, _number: int) -> None:
        ledger = self.ledgers.get(event.name)
        if ledger is None:
            ledger = self.ledgers[event.name] = Ledger(event.name, event.min_sequence)
        if event.epoch > ledger.epoch:
            ledger.epoch = event.epoch
            ledger.owner_timeout = event.owner_timeout

    def _reserved(self, event: MessagesReserved, _number: int) -> None:
        ledger = self.ledgers.get(event.subscription)
        # Without a ledger, as without the positions before, there is none only in what a repair has left.
        if ledger is None or event.position != ledger.high:
            return
        for start, stop, delivery_count, possibly_replayed in event.ranges:
            ledger.append(start, stop, delivery_count, possibly_replayed)
        self.reserved_messages += ledger.high - event.position

    def _committed(self, event: ReservationCommitted, _number: int) -> None:
        self.total_acknowledged += self._remove(self._dropped(event))

    def _released(self, event: SubscriptionReleased, _number: int) -> None:
        self._dropped(event)

    def _dropped(self, event: ReservationCommitted | SubscriptionReleased) -> list[Range]:
        """What leaves a ledger with an event."""
        ledger = self.ledgers.get(event.subscription)
        ranges = [] if ledger is None else ledger.drop_below(event.position)
        self.reserved_messages -= sum(stop - start for start, stop in ranges)
        return ranges

    def _remove(self, ranges: Iterable[Range]) -> int:
        """Acknowledge ranges; returns how many of their messages were still stored."""
        removed = 0
        acknowledged, table = self.acknowledged, self.table
        for start, end in ranges:
            # What a repair has lost may be acknowledged all the same.
            stop = min(end, self.next_sequence)
            parts = acknowledged.gaps(start, stop)
            if not parts:
                continue
            removed += acknowledged.add(start, stop)
            if self.returns:
                self.returns.forget(start, stop)
            # A batch with two of the parts counts once.
            counted = -1
            for part_start, part_stop in parts:
                for first, after, size in table.extents(part_start, part_stop):
                    if first > counted and acknowledged.reach(first) >= after:
                        counted = first
                        self.stored_batches -= 1
                        self.stored_bytes -= size + table.overhead
                        table.discard(first)
                        self.delayed.pop(first, None)
        self.stored_messages -= removed
        return removed


_APPLY: dict[type, Callable[[QueueLog, Any, int], None]] = {
    MessagesAdded: QueueLog._added,
    MessagesAcknowledged: QueueLog._acknowledged,
    MessagesReturned: QueueLog._returned,
    MessagesExpired: QueueLog._expired,
    MessagesMoved: QueueLog._moved,
    QueuePurged: QueueLog._purged,
    SubscriptionOpened: QueueLog._opened,
    MessagesReserved: QueueLog._reserved,
    ReservationCommitted: QueueLog._committed,
    SubscriptionReleased: QueueLog._released,
}
