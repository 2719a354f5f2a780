"""The durable part of a queue's calendar: which slots there are, and which positions of their streams have left them.

It is a fold over events, as the queue's log is, and a part of it. A stream is a slot's while the slot holds messages, and then another's,
whose positions go on where those of the former ended. So a position is used once, and an event that was seen before changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.structures.ranges import RangeSet
from actors.queue.vocabulary.calendar import REACH, WIDTHS_SECONDS, Place

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from actors.queue.structures.ranges import FrozenRanges, Range

WIDTHS_US = tuple(width * US_PER_SECOND for width in WIDTHS_SECONDS)
WIDEST = len(WIDTHS_US) - 1


@dataclass(slots=True)
class Slot:
    """A stream, and the slot that has it.

    Attributes:
        stream: its number.
        width: which of the widths the slot has.
        index: which of these slots it is.
        next: the position that the next message gets.
        gone: the positions that have left.
        messages: how many are there.
        bytes: what these count for towards the queue's limit.
        first_due_us: when the first of all that came is due.
    """

    stream: int
    width: int
    index: int
    next: int = 0
    gone: RangeSet = field(default_factory=RangeSet)
    messages: int = 0
    bytes: int = 0
    first_due_us: int = 0

    @property
    def start_us(self) -> int:
        """Nothing in it is due before.

        Where a repair has lost what left it, it may have got the messages of another slot since.
        """
        return min(self.index * WIDTHS_US[self.width], self.first_due_us)

    def row(self) -> tuple[tuple[int, ...], FrozenRanges]:
        """What a checkpoint has of it."""
        facts = self.stream, self.width, self.index, self.next, self.messages, self.bytes, self.first_due_us
        return facts, self.gone.frozen()


@dataclass(slots=True)
class Calendar:
    """The slots of a queue.

    Attributes:
        streams: every stream that the calendar has, with what it is used for.
        messages: messages in all slots; ``bytes`` is what they count for.
    """

    streams: dict[int, Slot] = field(default_factory=dict)
    messages: int = 0
    bytes: int = 0
    _used: dict[tuple[int, int], Slot] = field(default_factory=dict)
    _first: Slot | None = field(default=None, compare=False)

    def restore(self, rows: Iterable[tuple[list[int], RangeSet]]) -> None:
        """Have what a checkpoint has."""
        for facts, gone in rows:
            stream, width, index, after, messages, size, first_due_us = facts
            slot = self.streams[stream] = Slot(stream, width, index, after, gone, messages, size, first_due_us)
            self.messages += messages
            self.bytes += size
            if messages:
                self._used[width, index] = slot

    def rows(self) -> list[tuple[tuple[int, ...], FrozenRanges]]:
        """What a checkpoint has of all streams."""
        return [slot.row() for slot in self.streams.values()]

    def first(self) -> Slot | None:
        """The slot that comes first, and of those that begin together the widest: what is in that may be due before the others."""
        slot = self._first
        if slot is None and self._used:
            slot = self._first = min(self._used.values(), key=_order)
        return slot

    def used(self) -> Collection[Slot]:
        """The slots that hold messages."""
        return self._used.values()

    def slot(self, width: int, index: int) -> Slot | None:
        """A slot that holds messages; None where it holds none."""
        return self._used.get((width, index))

    def free_stream(self, taken: Iterable[int] = ()) -> int | None:
        """A stream that no slot has, and that is not ``taken``; None where there is none."""
        return min(
            (number for number, slot in self.streams.items() if not slot.messages and number not in taken), default=None
        )

    def next_of(self, stream: int) -> int:
        """The position that the next message in a stream gets."""
        slot = self.streams.get(stream)
        return 0 if slot is None else slot.next

    def add(self, place: Place, first: int, count: int, size: int, due_us: int) -> bool:
        """Messages have come to a slot; returns whether they were not seen before."""
        slot = self.streams.get(place.stream)
        if slot is None:
            slot = self.streams[place.stream] = Slot(place.stream, place.width, place.slot)
        if first < slot.next:
            return False
        if first > slot.next:
            # Only a repaired journal leaves positions out.
            slot.gone.add(slot.next, first)
        if not slot.messages:
            slot.width, slot.index = place.width, place.slot
            slot.first_due_us = due_us
            self._used[place.width, place.slot] = slot
            self._first = None
        slot.next = first + count
        slot.messages += count
        slot.bytes += size
        if due_us < slot.first_due_us:
            slot.first_due_us, self._first = due_us, None
        self.messages += count
        self.bytes += size
        return True

    def remove(self, stream: int, ranges: Iterable[Range]) -> tuple[int, int]:
        """Messages leave a slot; returns how many that had not left before, and the bytes that they counted for."""
        slot = self.streams.get(stream)
        if slot is None:
            return 0, 0
        removed = sum(slot.gone.add(start, min(stop, slot.next)) for start, stop in ranges if start < slot.next)
        if not removed:
            return 0, 0
        # Each counts for its share: what all of them do is given back with the last.
        size = slot.bytes * removed // slot.messages
        slot.messages -= removed
        slot.bytes -= size
        self.messages -= removed
        self.bytes -= size
        if not slot.messages:
            del self._used[slot.width, slot.index]
            self._first = None
        return removed, size

    def wanted_within(self, stream: int, start: int, stop: int) -> int:
        """How many of these positions of a stream have not left."""
        slot = self.streams.get(stream)
        return 0 if slot is None else stop - start - slot.gone.count_within(start, stop)


def _order(slot: Slot) -> tuple[int, int]:
    return slot.start_us, -slot.width


def slot_of(due_us: int, wall_us: int, most: int = WIDEST) -> tuple[int, int]:
    """Width and index of the slot for what is due then, at a time of day; of one that is at most the ``most``th width."""
    width = 0
    while width < most and due_us - wall_us > REACH * WIDTHS_US[width]:
        width += 1
    return width, max(0, due_us) // WIDTHS_US[width]
