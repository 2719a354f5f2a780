"""A subscription's ledger: which messages are at which of its positions."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from actors.batch import MessageBatch

if TYPE_CHECKING:
    from actors.queue_state.entry import Entry
    from actors.queue_state.ranges import Range


class Segment(NamedTuple):
    """Consecutive messages of one entry at consecutive positions from ``position`` on."""

    position: int
    start: int
    stop: int
    entry: Entry
    delivery_count: int
    possibly_replayed: bool

    def clipped(self, low: int, high: int) -> Segment:
        """The part of it at positions ``low`` <= p < ``high``, which it must have."""
        position = self.position
        if low <= position and position + self.stop - self.start <= high:
            return self
        start = self.start + max(0, low - position)
        stop = min(self.stop, self.start + high - position)
        return self._replace(position=max(low, position), start=start, stop=stop)


@dataclass(frozen=True, slots=True)
class FetchedRange:
    """Messages at the positions from ``position`` on, with the queue's numbers from ``first`` on."""

    position: int
    first: int
    batch: MessageBatch
    enqueued_us: int
    delivery_count: int
    possibly_replayed: bool

    def split(self, count: int) -> tuple[FetchedRange, FetchedRange]:
        """The first ``count`` messages and the others, neither of which may be none."""
        head, tail = self.batch.slice(0, count), self.batch.slice(count, len(self.batch))
        facts = self.enqueued_us, self.delivery_count, self.possibly_replayed
        return (
            FetchedRange(self.position, self.first, head, *facts),
            FetchedRange(self.position + count, self.first + count, tail, *facts),
        )


class FetchedRanges:
    """The answer to a fetch: iterable any number of times, each range made as it is reached.

    It holds references to stored batches, so what is committed meanwhile can still be read from it.
    """

    __slots__ = ("_segments", "messages")

    def __init__(self, segments: tuple[Segment, ...]) -> None:
        self._segments = segments
        self.messages = sum(segment.stop - segment.start for segment in segments)

    def __len__(self) -> int:
        """How many ranges."""
        return len(self._segments)

    def __iter__(self) -> Iterator[FetchedRange]:
        for position, start, stop, entry, delivery_count, possibly_replayed in self._segments:
            batch = entry.part(start, stop)
            yield FetchedRange(position, start, batch, entry.enqueued_us, delivery_count, possibly_replayed)


class Ledger:
    """Positions ``base`` (all below are done with) to ``high``, appended at the end, dropped from the front.

    Attributes:
        epoch: the number of its ownership.
        min_sequence: the lowest queue number that it takes.
        owner_timeout: seconds; None for never.
    """

    __slots__ = ("_positions", "_segments", "base", "epoch", "high", "min_sequence", "name", "owner_timeout")

    def __init__(self, name: str, min_sequence: int) -> None:
        self.name = name
        self.epoch = 0
        self.base = 0
        self.high = 0
        self.min_sequence = min_sequence
        self.owner_timeout: float | None = None
        self._segments: list[Segment] = []
        self._positions: list[int] = []

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ledger):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        return f"Ledger({self.name!r}, epoch={self.epoch}, {self.base}..{self.high})"

    def append(self, start: int, stop: int, entry: Entry, delivery_count: int, possibly_replayed: bool) -> None:
        """Put messages of one entry at the next positions."""
        self._segments.append(Segment(self.high, start, stop, entry, delivery_count, possibly_replayed))
        self._positions.append(self.high)
        self.high += stop - start

    def segments(self, low: int, high: int) -> tuple[Segment, ...]:
        """What is at the positions ``low`` <= p < ``high``, all of which it must hold."""
        if low >= high:
            return ()
        begin = bisect_right(self._positions, low) - 1
        end = bisect_left(self._positions, high)
        found = self._segments[begin:end]
        found[0] = found[0].clipped(low, high)
        found[-1] = found[-1].clipped(low, high)
        return tuple(found)

    def drop_below(self, position: int) -> list[Range]:
        """Be done with every position below ``position``; returns the messages' ranges.

        Positions below ``base`` are done with already; there are none from ``high`` on.
        """
        position = min(position, self.high)
        if position <= self.base:
            return []
        dropped = [(segment.start, segment.stop) for segment in self.segments(self.base, position)]
        keep = bisect_right(self._positions, position) - 1
        segment = self._segments[keep]
        if segment.position + segment.stop - segment.start <= position:
            keep += 1
        else:
            self._segments[keep] = segment.clipped(position, self.high)
            self._positions[keep] = position
        del self._segments[:keep], self._positions[:keep]
        self.base = position
        return dropped
