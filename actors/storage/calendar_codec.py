"""What a stored batch has to do with a queue's calendar, as a fact of its record, and back.

A msgpack array ``[[queue, stream, width, slot, level, ...], due, [stream, [start, stop, ...], ...]]``: the places where it waits, five
numbers of each, in all of the queues that the record gives it to; when its messages are due, one number for all of them or the bytes of a
little-endian i64 for each; and which positions of which streams it leaves. Where there are no places it is in the queue itself. Where
messages are of use for a time only, until when is there too, as when they are due.
"""

from __future__ import annotations

import sys
from array import array
from itertools import chain
from typing import Any

from actors.queue.vocabulary.calendar import Left, Place, Scheduled

PLACE_FIELDS = len(Place._fields)


def encode_scheduled(scheduled: Scheduled) -> list[Any]:
    """The fact."""
    places = scheduled.together or (() if scheduled.place is None else (scheduled.place,))
    left = chain.from_iterable((stream, list(chain.from_iterable(ranges))) for stream, ranges in scheduled.left)
    fact = [list(chain.from_iterable(places)), _packed(scheduled.due), list(left)]
    return [*fact, _packed(scheduled.ends)] if scheduled.ends else fact


def decode_scheduled(fact: list[Any]) -> Scheduled:
    """The reverse, before anybody knows of which of its places it is; raises ValueError and TypeError."""
    flat, due, left, *ends = fact
    places = tuple(Place(*flat[at : at + PLACE_FIELDS]) for at in range(0, len(flat), PLACE_FIELDS))
    leaving = tuple(
        Left(stream, tuple(zip(ranges[::2], ranges[1::2], strict=True)))
        for stream, ranges in zip(left[::2], left[1::2], strict=True)
    )
    return Scheduled(None, _unpacked(due), leaving, places, *map(_unpacked, ends))


def _packed(due: tuple[int, ...]) -> int | bytes:
    if len(due) == 1:
        return due[0]
    times = array("q", due)
    if sys.byteorder == "big":
        times.byteswap()
    return times.tobytes()


def _unpacked(due: int | bytes) -> tuple[int, ...]:
    if isinstance(due, int):
        return (due,)
    times = array("q")
    times.frombytes(due)
    if sys.byteorder == "big":
        times.byteswap()
    return tuple(times)
