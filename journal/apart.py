"""A record that is read on another thread, a piece at a time: a large one would keep the thread that appends for too long.

What is needed of the journal's state is looked up before, where that lives. The file is opened by its name, and what has been read is
verified as ever. Where the record was copied elsewhere meanwhile, or the file is gone, there is nothing: whoever wants it reads it again.
"""

from __future__ import annotations

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import TYPE_CHECKING, Final

from crc32c import crc32c

from journal.format import CHECKSUMMED_FROM, RECORD, RECORD_HEADER_BYTES, SEVERAL
from journal.group import RELEASE_INTERPRETER

if TYPE_CHECKING:
    from journal.catalog import Place
    from journal.files import Files

PIECE_BYTES: Final = 1 << 20
"""Read and verified at a time: between two of them others have the interpreter."""


class ReadApart:
    """One record that is to be read.

    Args:
        files: the file system.
        place: where it is.
    """

    def __init__(self, files: Files, place: Place) -> None:
        segment, rows, row = place
        self._files = files
        self._path = segment.path
        self._mark, self._salt_crc = segment.header.mark, segment.salt_crc
        self._offset, self._length = rows.offsets[row], rows.lengths[row]
        self._most = segment.end - self._offset - RECORD_HEADER_BYTES

    def read(self) -> mmap | None:
        """Header and payload, as they were written; None where they are not there, or there is no memory. On any thread."""
        try:
            file = self._files.open(self._path)
        except OSError:
            return None
        try:
            return self._read(file)
        except OSError:
            return None
        finally:
            self._files.close(file)

    def _read(self, file: int) -> mmap | None:
        head = self._files.read(file, RECORD_HEADER_BYTES, self._offset)
        if len(head) < RECORD_HEADER_BYTES:
            return None
        mark, crc, length, _, flags, _, _, _ = RECORD.unpack(head)
        # The index says how long a stream's part is, of a record of several.
        alike = self._length <= length <= self._most if flags & SEVERAL else length == self._length
        if mark != self._mark or not alike:
            return None
        # A mapping is the system's again when nobody has it any more; of a buffer as large the C library might keep some.
        data = mmap(-1, RECORD_HEADER_BYTES + length, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        data[:RECORD_HEADER_BYTES] = head
        at, found = RECORD_HEADER_BYTES, crc32c(head[CHECKSUMMED_FROM:], self._salt_crc)
        while at < len(data):
            piece = self._files.read(file, min(PIECE_BYTES, len(data) - at), self._offset + at)
            if not piece:
                return None
            found = crc32c(piece, found, RELEASE_INTERPRETER)
            data[at : at + len(piece)] = piece
            at += len(piece)
        return data if found == crc else None
