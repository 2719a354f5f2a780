"""Stored batches, spans of them on their way through the queue, and the table of a queue in memory."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from actors.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from actors.batch import MessageBatch
    from actors.errors import ActorError
    from actors.queue.state.receivers import Receiver
    from actors.queue.vocabulary.events import MessagesAdded, MessagesScheduled
    from actors.queue.vocabulary.published import Published


class Entry:
    """A stored batch whose messages have the sequence numbers ``first`` <= n < ``stop``.

    It knows its numbers; what else there is to know may be on the disk, and is read when it is asked for. Memory can be taken back
    at any time with ``forget``.

    Attributes:
        event: the number of the event that stored it: it leaves the queue only when that is durable. Known with the batch.
        enqueued_us: microseconds since the epoch. Known with the batch.
        ttl_us: microseconds after which it is of no use; None for never. Known with the batch.
        size: bytes of the whole batch's body. Known with the batch.
        published: through which exchange it came; None for none. Known with the batch.
    """

    __slots__ = (
        "__weakref__",
        "_batch",
        "_table",
        "enqueued_us",
        "event",
        "first",
        "published",
        "size",
        "stop",
        "ttl_us",
    )

    large = False
    """Whether it takes so long to read that this is done beside the loop: see ``EntryTable.at_hand``."""
    level = 0
    """The level of the queue that its messages are of; 0 where the queue has none."""

    def __init__(self, first: int, stop: int, table: EntryTable) -> None:
        self.first = first
        self.stop = stop
        self._table = table
        self._batch: MessageBatch | None = None
        self.event = 0
        self.enqueued_us = 0
        self.ttl_us: int | None = None
        self.size = 0
        self.published: Published | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        return (
            self.first == other.first
            and self.batch == other.batch
            and self.enqueued_us == other.enqueued_us
            and self.ttl_us == other.ttl_us
            and self.published == other.published
        )

    def __hash__(self) -> int:
        return hash(self.first)

    def __repr__(self) -> str:
        return f"Entry({self.first}..{self.stop - 1})"

    @property
    def batch(self) -> MessageBatch:
        """All its messages, read from where they are stored if they are not in memory."""
        batch = self._batch
        return batch if batch is not None else self._table.load(self)

    @property
    def most_bytes(self) -> int:
        """Bytes of the whole batch's body, or a little more where only what stores it was measured."""
        return self.size

    @property
    def extent_bytes(self) -> int:
        """Its size as ``EntryTable.extents`` gives it."""
        return self.size

    @property
    def known(self) -> bool:
        """Whether all but the messages is known, as it is from the first time on that they are in memory."""
        return self.size > 0

    def know(
        self,
        batch: MessageBatch,
        *,
        event: int = 0,
        enqueued_us: int = 0,
        ttl_us: int | None = None,
        published: Published | None = None,
    ) -> MessageBatch:
        """Have the messages in memory, with what is known of them; returns them."""
        self._batch = batch
        self.size = batch.nbytes
        self.event = event
        self.enqueued_us = enqueued_us
        self.ttl_us = ttl_us
        self.published = published
        return batch

    def at_hand(self) -> bool:
        """Whether its messages can be had now, where it is large; see ``EntryTable``."""
        return self._table.at_hand(self)

    def read(self) -> Entry:
        """The same, with all known but perhaps the messages: read from where it is stored if that was never done."""
        if not self.known:
            self._table.load(self)
        return self

    def forget(self) -> None:
        """Have the messages in memory no more; whoever asks for them reads them again."""
        self._batch = None

    def part(self, start: int, stop: int) -> MessageBatch:
        """The messages ``start`` <= n < ``stop``, sharing the buffers."""
        first = self.first
        return self.batch.slice(start - first, stop - first)


class _NoFailure(str):
    """No text of a receiver is the same object."""

    __slots__ = ()


OVER_LIMIT = _NoFailure("maxlen")
"""The reason of a span that leaves because its queue is over its limit."""

TOO_LATE = _NoFailure("expired")
"""The reason of a span that leaves because its time to live is over."""


@dataclass(eq=False, slots=True)
class Span:
    """Consecutive messages of one entry with one delivery history: ready, delayed, leased or reserved.

    It is moved from structure to structure rather than copied, which is why it can change.

    Attributes:
        deliveries: how often these messages have been delivered.
        failures: how often they came back because somebody failed to handle them, as far as that is known.
        replayed: whether they may have been delivered before.
        deadline: when its lease or delay ends, in seconds; None while no heap of deadlines has it, which is ``heap``.
        holder: the receiver that leases it, or None.
        since: when its holder got it, seconds; of a lease only.
        reason: what the receiver said that has refused it for good, or has failed on it for the last time; a restart forgets it. It is
            `OVER_LIMIT` or `TOO_LATE` of one that leaves for that.
    """

    start: int
    stop: int
    entry: Entry
    deliveries: int
    replayed: bool
    failures: int = 0
    deadline: float | None = None
    heap: object | None = None
    holder: Receiver | None = None
    reason: str | None = None
    since: float = 0.0

    def __repr__(self) -> str:
        return f"Span({self.start}..{self.stop - 1}, deliveries={self.deliveries}, replayed={self.replayed})"

    def __len__(self) -> int:
        return self.stop - self.start

    def part(self, start: int, stop: int) -> Span:
        """A new span of some of its messages with the same history, in no structure yet."""
        return Span(
            start, stop, self.entry, self.deliveries, self.replayed, self.failures, reason=self.reason, since=self.since
        )

    def taken_back(self) -> Span:
        """The same, which was about to leave and may stay: whether its queue is over its limit, or it is too late, is looked at anew."""
        if isinstance(self.reason, _NoFailure):
            self.reason = None
        return self

    def continues(self, other: Span) -> bool:
        """Whether it begins where ``other`` ends and the two can be delivered as one."""
        return (
            self.start == other.stop
            and self.entry is other.entry
            and self.deliveries == other.deliveries
            and self.failures == other.failures
            and self.replayed == other.replayed
            and self.reason == other.reason
        )


MIN_COMPACTED = 64
"""Below so many numbers the index is not worth rebuilding."""


class Extent(NamedTuple):
    """A stored batch as it counts towards a queue's limit: its numbers ``first`` <= n < ``stop`` and its bytes."""

    first: int
    stop: int
    size: int


class CalendarStreams(Protocol):
    """The streams of a queue's calendar.

    Attributes:
        number: the queue's number.
        new_stream: gives the number of a stream that nobody has had.
    """

    @property
    def number(self) -> int:
        """See above."""

    @property
    def new_stream(self) -> Callable[[], int]:
        """See above."""

    def read(self, stream: int, position: int) -> MessagesScheduled | None:
        """The batch of a stream that holds a position, or else the next one; None where there is none."""


class EntryTable(Protocol):
    """The stored batches of one queue by sequence number.

    What it answers never changes while a message is stored, so asking it is no input or output to the queue's state, which stays a
    pure fold, wherever the answer comes from.

    Attributes:
        overhead: bytes that each batch counts for beside its size.
        calendar: where messages may wait that are due later; None in memory, where all of them wait in the queue.
    """

    overhead: int

    @property
    def calendar(self) -> CalendarStreams | None:
        """See above."""

    def add(self, event: MessagesAdded, number: int) -> int:
        """Take in a batch that an event has stored; ``number`` is the event's. Returns its size as ``extents`` gives it."""

    def at(self, sequence: int) -> Entry | None:
        """The entry that holds a message, the same object as long as anybody has it; None when there is none any more."""

    def lost(self, sequence: int) -> ActorError:
        """The error to raise for a message that is stored, and that ``at`` finds no entry of."""

    def extents(self, start: int, stop: int) -> Iterator[Extent]:
        """The batches with a message in a range, ascending; those that are gone are passed over."""

    def load(self, entry: Entry) -> MessageBatch:
        """Read an entry's messages, which it has no more, and have it know them."""

    def at_hand(self, entry: Entry) -> bool:
        """Whether the messages of a large entry can be had now; where they cannot, its queue is told when to look again."""

    def discard(self, first: int) -> None:
        """Nobody wants a message of the batch that begins with ``first`` any more."""


@dataclass(repr=False, slots=True)
class MemoryEntryTable:
    """Entries in memory, which have their messages until they are discarded."""

    overhead: int = field(compare=False)
    _entries: dict[int, Entry] = field(default_factory=dict)
    # Ascending keys of entries; those of entries that are gone stay until half are, so that no deletion moves the rest.
    _firsts: list[int] = field(default_factory=list, compare=False)
    calendar: CalendarStreams | None = field(default=None, compare=False)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, event: MessagesAdded, number: int) -> int:
        """See ``EntryTable``."""
        first = event.first
        entry = Entry(first, first + event.batch.count, NEVER_ASKED)
        entry.know(
            event.batch,
            event=number,
            enqueued_us=event.enqueued_us,
            ttl_us=event.ttl_us,
            published=event.published,
        )
        self._entries[first] = entry
        self._firsts.append(first)
        return entry.size

    def at(self, sequence: int) -> Entry | None:
        """See ``EntryTable``."""
        entry = self._entries.get(sequence)
        if entry is not None:
            return entry
        index = bisect_right(self._firsts, sequence) - 1
        entry = self._entries.get(self._firsts[index]) if index >= 0 else None
        return entry if entry is not None and sequence < entry.stop else None

    def extents(self, start: int, stop: int) -> Iterator[Extent]:
        """See ``EntryTable``."""
        firsts, entries = self._firsts, self._entries
        for index in range(max(0, bisect_right(firsts, start) - 1), len(firsts)):
            if firsts[index] >= stop:
                return
            entry = entries.get(firsts[index])
            if entry is not None and entry.stop > start:
                yield Extent(entry.first, entry.stop, entry.size)

    def discard(self, first: int) -> None:
        """See ``EntryTable``."""
        entries = self._entries
        entries.pop(first, None)
        if not entries:
            self._firsts = []
        elif len(self._firsts) > MIN_COMPACTED and len(self._firsts) > 2 * len(entries):
            # Numbers only grow, so the dict's order of insertion is the ascending one. A new list: an iteration may have the old.
            self._firsts = list(entries)

    def at_hand(self, entry: Entry) -> bool:  # noqa: ARG002 - all are
        """See ``EntryTable``."""
        return True

    def lost(self, sequence: int) -> StorageError:
        """See ``EntryTable``."""
        return StorageError(f"message {sequence} is stored, and its batch is not in memory: this is a defect")

    def load(self, entry: Entry) -> MessageBatch:
        """Never asked for: an entry in memory has its messages."""
        raise AssertionError(f"{entry} is in memory and does not know its messages")


NEVER_ASKED = MemoryEntryTable(0)
"""What entries in memory have for a table. With a way back to their own, a queue that is deleted would stay until the collector looks
at everything, which may be never."""


def stored_entry(table: EntryTable, sequence: int) -> Entry:
    """The entry of a message that is stored; what ``table`` calls ``lost`` is raised where there is none."""
    entry = table.at(sequence)
    if entry is None:
        raise table.lost(sequence)
    return entry


def spans_of(
    table: EntryTable, start: int, stop: int, deliveries: int = 0, replayed: bool = False, failures: int = 0
) -> Iterator[Span]:
    """Spans of all the messages of a range, which are stored, with one history, batch by batch."""
    position = start
    while position < stop:
        entry = stored_entry(table, position)
        end = min(stop, entry.stop)
        yield Span(position, end, entry, deliveries, replayed, failures)
        position = end
