"""A small file that is read whole: a head with magic, version and length, a body of that length, and a checksum of all before it."""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from journal.errors import FormatError
from journal.format import check_crc

_CRC = struct.Struct("<I")


class Enclosed(NamedTuple):
    """What such a file has, which is whole; whether it is of the kind that is wanted, and of a version that is known, is not looked at."""

    magic: bytes
    version: int
    body: bytes


def enclose(head: struct.Struct, enclosed: Enclosed) -> bytes:
    """The file. ``head`` has magic, version, a number that is reserved, and the length."""
    magic, version, body = enclosed
    packed = head.pack(magic, version, 0, len(body)) + body
    return packed + _CRC.pack(crc32c(packed))


def disclose(head: struct.Struct, data: bytes, what: str) -> Enclosed:
    """The reverse.

    Raises:
        FormatError: it is not one whole file; ``what`` it was to be appears in the text.
    """
    if len(data) < head.size + _CRC.size:
        raise FormatError(f"a {what} of {len(data)} bytes has not even a header")
    magic, version, _, length = head.unpack_from(data)
    end = head.size + length
    if end + _CRC.size != len(data):
        raise FormatError(f"a {what} of {len(data)} bytes, its header says {end + _CRC.size}")
    check_crc(data, end, f"the {what}")
    return Enclosed(magic, version, data[head.size : end])
