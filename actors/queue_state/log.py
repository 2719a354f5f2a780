"""The durable part of a queue: the fold over its events, and nothing else.

No clock, no connections, no leases: two logs that have seen the same events are equal, and a log that sees an event for
a second time stays as it is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from actors.queue_state.entry import Entry
from actors.queue_state.events import (
    Event,
    MessagesAcknowledged,
    MessagesAdded,
    MessagesReserved,
    QueuePurged,
    ReservationCommitted,
    SubscriptionOpened,
    SubscriptionReleased,
)
from actors.queue_state.ledger import Ledger
from actors.queue_state.ranges import Range
from actors.queue_state.settings import ENTRY_OVERHEAD_BYTES, MAX_PRODUCERS

MIN_COMPACTED = 64
"""Below so many numbers the index is not worth rebuilding."""


class QueueLog:
    """Entries by their first sequence number, producers, ledgers, and the sums over them.

    Attributes:
        next_sequence: the number that the next message gets; it never goes back.
        stored_messages: messages not acknowledged.
        stored_bytes: bytes of the entries that still have one, each whole and with ``ENTRY_OVERHEAD_BYTES``.
        reserved_messages: messages in ledgers.
        producers: producer to the number after the last one stored, the least recently heard of first.
    """

    __slots__ = (
        "_firsts",
        "entries",
        "ledgers",
        "next_sequence",
        "producers",
        "reserved_messages",
        "stored_bytes",
        "stored_messages",
        "total_acknowledged",
        "total_in",
        "total_purged",
    )

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        # Ascending keys of entries; those of entries that are gone stay until half are, so that no deletion moves the rest.
        self._firsts: list[int] = []
        self.next_sequence = 0
        self.stored_messages = 0
        self.stored_bytes = 0
        self.reserved_messages = 0
        self.producers: OrderedDict[str, int] = OrderedDict()
        self.ledgers: dict[str, Ledger] = {}
        self.total_in = 0
        self.total_acknowledged = 0
        self.total_purged = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QueueLog):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__ if name != "_firsts")

    __hash__ = None  # type: ignore[assignment]  # mutable

    @classmethod
    def replay(cls, events: Iterable[Event]) -> QueueLog:
        """The fold over ``events``."""
        log = cls()
        for event in events:
            log.apply(event)
        return log

    def apply(self, event: Event) -> None:
        """Take in an event; one that was taken in before changes nothing."""
        _APPLY[type(event)](self, event)

    def entry_at(self, sequence: int) -> Entry | None:
        """The entry that holds message ``sequence``; None if there is none any more."""
        index = bisect_right(self._firsts, sequence) - 1
        entry = self.entries.get(self._firsts[index]) if index >= 0 else None
        return entry if entry is not None and sequence < entry.stop else None

    def _added(self, event: MessagesAdded) -> None:
        first = event.first
        if first < self.next_sequence:
            return
        entry = Entry(first, event.batch, event.enqueued_us)
        self.entries[first] = entry
        self._firsts.append(first)
        self.next_sequence = entry.stop
        count = entry.remaining
        self.stored_messages += count
        self.stored_bytes += entry.size + ENTRY_OVERHEAD_BYTES
        self.total_in += count
        producer = event.producer
        if producer is not None:
            self.producers[producer] = event.producer_sequence + count
            self.producers.move_to_end(producer)
            if len(self.producers) > MAX_PRODUCERS:
                self.producers.popitem(last=False)

    def _acknowledged(self, event: MessagesAcknowledged) -> None:
        self.total_acknowledged += self._remove(event.ranges)

    def _purged(self, event: QueuePurged) -> None:
        self.total_purged += self._remove(event.ranges)

    def _opened(self, event: SubscriptionOpened) -> None:
        ledger = self.ledgers.get(event.name)
        if ledger is None:
            ledger = self.ledgers[event.name] = Ledger(event.name, event.min_sequence)
        if event.epoch > ledger.epoch:
            ledger.epoch = event.epoch
            ledger.owner_timeout = event.owner_timeout

    def _reserved(self, event: MessagesReserved) -> None:
        ledger = self.ledgers[event.subscription]
        if event.position != ledger.high:
            return
        for start, stop, delivery_count, possibly_replayed in event.ranges:
            entry = self.entry_at(start)
            assert entry is not None, "only stored messages are reserved"
            ledger.append(start, stop, entry, delivery_count, possibly_replayed)
        self.reserved_messages += ledger.high - event.position

    def _committed(self, event: ReservationCommitted) -> None:
        ranges = self.ledgers[event.subscription].drop_below(event.position)
        self.reserved_messages -= sum(stop - start for start, stop in ranges)
        self.total_acknowledged += self._remove(ranges)

    def _released(self, event: SubscriptionReleased) -> None:
        ranges = self.ledgers[event.subscription].drop_below(event.position)
        self.reserved_messages -= sum(stop - start for start, stop in ranges)

    def _remove(self, ranges: Iterable[Range]) -> int:
        """Acknowledge ranges; returns how many of their messages were still stored."""
        removed = 0
        entries, firsts = self.entries, self._firsts
        for start, stop in ranges:
            entry = entries.get(start)
            if entry is not None and entry.stop == stop and entry.acknowledged is None:
                # The usual case: an entry acknowledged as it was delivered, whole.
                removed += entry.remaining
                del entries[start]
                self.stored_bytes -= entry.size + ENTRY_OVERHEAD_BYTES
                continue
            index = max(0, bisect_right(firsts, start) - 1)
            while index < len(firsts) and firsts[index] < stop:
                entry = entries.get(firsts[index])
                index += 1
                if entry is None or entry.stop <= start:
                    continue
                removed += entry.acknowledge(start, stop)
                if not entry.remaining:
                    del entries[entry.first]
                    self.stored_bytes -= entry.size + ENTRY_OVERHEAD_BYTES
        self.stored_messages -= removed
        if not entries:
            firsts.clear()
        elif len(firsts) > MIN_COMPACTED and len(firsts) > 2 * len(entries):
            # Numbers only grow, so the dict's order of insertion is the ascending one.
            self._firsts = list(entries)
        return removed


_APPLY: dict[type, Callable[[QueueLog, Any], None]] = {
    MessagesAdded: QueueLog._added,
    MessagesAcknowledged: QueueLog._acknowledged,
    QueuePurged: QueueLog._purged,
    SubscriptionOpened: QueueLog._opened,
    MessagesReserved: QueueLog._reserved,
    ReservationCommitted: QueueLog._committed,
    SubscriptionReleased: QueueLog._released,
}
