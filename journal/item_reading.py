"""What a journal reads back of its items."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from journal.reader import Located, RecordPlace, StoredItems, located, read_apart, read_items, spans
from journal.shared_numbers import SharedNumbers

if TYPE_CHECKING:
    from journal.apart import ReadApart
    from journal.files import Files


class ItemReading(SharedNumbers):
    """The part of a `Journal` that finds and reads items; for the thread that appends."""

    _files: Files

    def locate(self, stream: int, sequence: int) -> Located | None:
        """The record that holds an item, without reading it; None where there is none."""
        place = self._catalog.find(stream, sequence)
        if place is None or place.rows.firsts[place.row] > sequence:
            return None
        return located(place)

    def place(self, stream: int, sequence: int) -> RecordPlace | None:
        """Where the record is that holds an item; None where there is none. Records of one place are the same record."""
        place = self._catalog.find(stream, sequence)
        return None if place is None else (place.segment.header.segment_id, place.rows.offsets[place.row])

    def read(self, stream: int, sequence: int) -> StoredItems:
        """The record that holds an item, its checksum verified.

        Raises:
            UnknownItemError: there is none.
            JournalDamagedError: it is not what was written; names file and offset.
        """
        return read_items(self._files, self._catalog, stream, sequence)

    def apart(self, stream: int, sequence: int) -> ReadApart | None:
        """The same, to be read by another thread and given to `taken_in`; None where it is not on the disk, or there is none."""
        return read_apart(self._files, self._catalog, stream, sequence)

    def spans(self, stream: int, start: int, stop: int) -> Iterator[Located]:
        """The records that hold items of start <= n < stop, ascending."""
        return spans(self._catalog, stream, start, stop)
