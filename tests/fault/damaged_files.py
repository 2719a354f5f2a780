"""Damage to files of a data directory on a simulated disk: which file, where in it, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from journal.format import SEGMENT_HEADER_BYTES
from journal.names import parse_checkpoint, parse_segment
from journal.scan import SegmentScan
from tests.fault.disk import ROOT, SimulatedDisk

DATA = ROOT / "data"

Damage = Callable[[bytes, int, int, Random], bytes]
"""Contents, where the record (or another part) begins and ends -> other contents."""


def flip(content: bytes, start: int, stop: int, random: Random) -> bytes:
    """One bit."""
    changed = bytearray(content)
    bit = random.randrange(8 * start, 8 * stop)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def zero(content: bytes, start: int, stop: int, random: Random) -> bytes:
    """Some of it, or all of it."""
    first, last = (start, stop) if random.random() < 0.5 else sorted(random.sample(range(start, stop + 1), 2))
    return content[:first] + bytes(last - first) + content[last:]


def cut(content: bytes, start: int, stop: int, random: Random) -> bytes:
    """The file ends in it, or before it."""
    return content[: random.choice((start, random.randrange(start, stop)))]


KINDS: Mapping[str, Damage | None] = {"flip": flip, "zero": zero, "cut": cut, "gone": None}
PAIRS = ("sealed+index", "combined+index", "active+newest", "checkpoint+newest", "sealed+combined")
"""Two files that are damaged together: what one of them would have told, the other cannot. An index is that of the segment."""
PLACES = ("sealed", "combined", "active", "checkpoint", "index", "newest", *PAIRS)
POSITIONS = ("header", "first", "middle", "last")


def targets(disk: SimulatedDisk, place: str) -> list[str]:
    """The files of a place."""
    names = disk.names(DATA)
    segments = [name for name in names if parse_segment(name)]
    if place == "checkpoint":
        return [max(name for name in names if parse_checkpoint(name) is not None)]
    if place == "index":
        return [name for name in names if name.endswith(".index")]
    if place == "newest":
        return [name for name in names if name == "newest"]
    by_kind = {name: header_kind(disk, name) for name in segments}
    logs = sorted(name for name in segments if by_kind[name] == 0)
    return {"sealed": logs[:-1], "active": logs[-1:], "combined": sorted(set(segments) - set(logs))}[place]


def header_kind(disk: SimulatedDisk, name: str) -> int:
    """0 for a segment of the log, 1 for one that was combined."""
    return disk.content(DATA / name)[11]


def part(disk: SimulatedDisk, name: str, position: str) -> tuple[int, int]:
    """Where in a file a position begins and ends."""
    size = len(disk.content(DATA / name))
    if not name.endswith(".segment"):
        third = max(1, size // 4)
        return {
            "header": (0, min(16, size)),
            "first": (min(16, size - 1), third + 16),
            "middle": (size // 2, size // 2 + third // 2 + 1),
            "last": (size - min(8, size), size),
        }[position]
    with SegmentScan(disk, DATA / name) as scan:
        records = [(record.offset, record.end) for record in scan.records()]
    if position == "header" or not records:
        return 0, 48
    return {"first": records[0], "middle": records[len(records) // 2], "last": records[-1]}[position]


def untold(disk: SimulatedDisk, name: str, offset: int) -> set[bytes]:
    """Payloads of messages that damage from ``offset`` on can take without anybody being able to tell."""
    if parse_segment(name) is None or name not in targets(disk, "active"):
        return set()
    lsn = max(found for each in disk.names(DATA) if (found := parse_checkpoint(each)) is not None)
    with SegmentScan(disk, DATA / name) as scan:
        behind = [record for record in scan.records() if record.end > offset and record.lsn >= lsn]
    return {bytes(record.payload) for record in behind}


@dataclass(frozen=True, slots=True)
class Hit:
    """A file that was damaged.

    Attributes:
        content: what it holds now; None where it is gone.
        offset: where the first byte is that is another.
    """

    name: str
    content: bytes | None
    offset: int


def ends_early(disk: SimulatedDisk, hit: Hit) -> bool:
    """Whether a damaged segment holds what it did before up to where some record ends, or its header, and nothing or zeros behind it."""
    if hit.content is None or parse_segment(hit.name) is None:
        return False
    before = disk.content(DATA / hit.name)
    with SegmentScan(disk, DATA / hit.name) as scan:
        ends = [SEGMENT_HEADER_BYTES, *(record.end for record in scan.records())]
    return any(hit.content[:end] == before[:end] and not any(hit.content[end:]) for end in ends)


def strike(disk: SimulatedDisk, kind: str, place: str, position: str, random: Random) -> list[Hit]:
    """Damage what a place names, one file or a pair; those are returned that are another than before, in order."""
    first, _, second = place.partition("+")
    if not (names := targets(disk, first)):
        return []
    name = random.choice(names)
    others = []
    if second:
        others = [name.replace(".segment", ".index")] if second == "index" else targets(disk, second)
        others = [other for other in others if other in disk.names(DATA)]
    hits = [_hit(disk, name, kind, position, random)]
    if others:
        # A note that is not there is that of an older version, and says nothing: that case nobody can tell.
        kinds = [kind for kind in KINDS if second != "newest" or KINDS[kind] is not None]
        hits.append(_hit(disk, random.choice(others), random.choice(kinds), "last", random))
    return [hit for hit in hits if hit is not None]


def _hit(disk: SimulatedDisk, name: str, kind: str, position: str, random: Random) -> Hit | None:
    damage, before = KINDS[kind], disk.content(DATA / name)
    if damage is None:
        disk.unlink(DATA / name)
        disk.sync_directory(DATA)
        return Hit(name, None, 0)
    start, stop = part(disk, name, position)
    content = damage(before, start, min(stop, len(before)), random)
    same = (at for at, pair in enumerate(zip(before, content, strict=False)) if len(set(pair)) > 1)
    disk.replace(DATA / name, content)
    return Hit(name, content, next(same, len(content))) if content != before else None
