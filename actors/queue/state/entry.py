"""One stored batch, and spans: pieces of it on their way through the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue.state.leases import Receiver


class Loader(Protocol):
    """Where an entry's messages are read when it has them no more."""

    def load(self, entry: Entry) -> MessageBatch:
        """Read an entry's messages, and have it know them."""


class Entry:
    """A stored batch whose messages have the sequence numbers ``first`` <= n < ``stop``.

    It knows its numbers; what else there is to know may be on the disk, and is read when it is asked for. Memory can be taken back
    at any time with ``forget``.

    Attributes:
        event: the number of the event that stored it: it leaves the queue only when that is durable. Known with the batch.
        enqueued_us: microseconds since the epoch. Known with the batch.
        ttl_us: microseconds after which it is of no use; None for never. Known with the batch.
        size: bytes of the whole batch's body. Known with the batch.
    """

    __slots__ = ("__weakref__", "_batch", "_table", "enqueued_us", "event", "first", "size", "stop", "ttl_us")

    def __init__(self, first: int, stop: int, table: Loader) -> None:
        self.first = first
        self.stop = stop
        self._table = table
        self._batch: MessageBatch | None = None
        self.event = 0
        self.enqueued_us = 0
        self.ttl_us: int | None = None
        self.size = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        return (
            self.first == other.first
            and self.batch == other.batch
            and self.enqueued_us == other.enqueued_us
            and self.ttl_us == other.ttl_us
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
    def loaded(self) -> bool:
        """Whether the messages are in memory."""
        return self._batch is not None

    @property
    def known(self) -> bool:
        """Whether all but the messages is known, as it is from the first time on that they are in memory."""
        return self.size > 0

    def know(
        self, batch: MessageBatch, *, event: int = 0, enqueued_us: int = 0, ttl_us: int | None = None
    ) -> MessageBatch:
        """Have the messages in memory, with what is known of them; returns them."""
        self._batch = batch
        self.size = batch.nbytes
        self.event = event
        self.enqueued_us = enqueued_us
        self.ttl_us = ttl_us
        return batch

    def forget(self) -> None:
        """Have the messages in memory no more; whoever asks for them reads them again."""
        self._batch = None

    def part(self, start: int, stop: int) -> MessageBatch:
        """The messages ``start`` <= n < ``stop``, sharing the buffers."""
        first = self.first
        return self.batch.slice(start - first, stop - first)


class Span:
    """Consecutive messages of one entry with one delivery history: ready, delayed, leased or reserved.

    It is moved from structure to structure rather than copied, which is why it can change.

    Attributes:
        deliveries: how often these messages have been delivered.
        failures: how often they came back because somebody failed to handle them, as far as that is known.
        replayed: whether they may have been delivered before.
        deadline: when its lease or delay ends, in seconds; None while no heap of deadlines has it, which is ``heap``.
        holder: the receiver that leases it, or None.
    """

    __slots__ = ("deadline", "deliveries", "entry", "failures", "heap", "holder", "replayed", "start", "stop")

    def __init__(self, start: int, stop: int, entry: Entry, deliveries: int, replayed: bool, failures: int = 0) -> None:
        self.start = start
        self.stop = stop
        self.entry = entry
        self.deliveries = deliveries
        self.failures = failures
        self.replayed = replayed
        self.deadline: float | None = None
        self.heap: object | None = None
        self.holder: Receiver | None = None

    def __repr__(self) -> str:
        return f"Span({self.start}..{self.stop - 1}, deliveries={self.deliveries}, replayed={self.replayed})"

    def __len__(self) -> int:
        return self.stop - self.start

    def part(self, start: int, stop: int) -> Span:
        """A new span of some of its messages with the same history, in no structure yet."""
        return Span(start, stop, self.entry, self.deliveries, self.replayed, self.failures)

    def continues(self, other: Span) -> bool:
        """Whether it begins where ``other`` ends and the two can be delivered as one."""
        return (
            self.start == other.stop
            and self.entry is other.entry
            and self.deliveries == other.deliveries
            and self.failures == other.failures
            and self.replayed == other.replayed
        )
