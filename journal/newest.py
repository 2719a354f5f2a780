"""Which segment of the log was made last, in a file of its own: only so can be missed what no checkpoint lists yet.

It is written when the new segment's name is durable, and before a record is in it. So it never names a segment that was not made. A segment
that it names is removed only when it names another. A version of this program that knows nothing of it may have been at work in between,
and have removed the segment: then it has made another behind it.

The file ``newest``, integers little-endian::

    magic      8s   b"PENSTNEW"
    version    u16  1
    reserved   u16  0
    segment id u64
    first lsn  u64
    crc        u32  CRC-32C of everything before it
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from journal.durable import read_whole, write_aside
from journal.errors import FormatError
from journal.files import Files
from journal.names import NEWEST, segment_name, stem_of

MAGIC = b"PENSTNEW"
VERSION = 1
_NOTE = struct.Struct("<8sHHQQ")
_CRC = struct.Struct("<I")


class Newest(NamedTuple):
    """The segment that was made last."""

    segment_id: int
    first_lsn: int

    def path(self, directory: Path) -> Path:
        """Where it is, if it is there."""
        return directory / segment_name(stem_of(self.first_lsn, self.segment_id))

    def is_missing(self, there: Iterable[tuple[int, int]]) -> bool:
        """Whether it must be among the segments of these first lsns and ids, and is not.

        Where one begins behind it, it was not the last: whether it is needed say the checkpoint and the numbers of the records.
        """
        found = set(there)
        return (self.first_lsn, self.segment_id) not in found and all(first <= self.first_lsn for first, _ in found)


def left_open(problem: str) -> str:
    """What nobody can tell where the note is there and is not whole; ``problem`` is why it is not."""
    return f"{problem}; so it cannot be told whether the newest segment is gone: if it is, what it held is lost"


def write_newest(files: Files, directory: Path, newest: Newest) -> None:
    """Have it durable; OSError as the file system raises it."""
    packed = _NOTE.pack(MAGIC, VERSION, 0, *newest)
    write_aside(files, directory / NEWEST, [packed + _CRC.pack(crc32c(packed))])
    files.sync_directory(directory)


def read_newest(files: Files, directory: Path) -> Newest | None:
    """What it says; None where there is none, as in a directory that an older version has made.

    Raises:
        FormatError: it is not whole.
        OSError: it cannot be read.
    """
    if NEWEST not in files.names(directory):
        return None
    data = read_whole(files, directory / NEWEST)
    if len(data) != _NOTE.size + _CRC.size:
        raise FormatError(f"a note of the newest segment has {_NOTE.size + _CRC.size} bytes, these are {len(data)}")
    if _CRC.unpack_from(data, _NOTE.size)[0] != crc32c(data[: _NOTE.size]):
        raise FormatError("the checksum of the note of the newest segment does not hold")
    magic, version, _, segment_id, first_lsn = _NOTE.unpack_from(data)
    if magic != MAGIC or version != VERSION:
        raise FormatError(f"a note of the newest segment that begins with {magic!r}, version {version}")
    return Newest(segment_id, first_lsn)
