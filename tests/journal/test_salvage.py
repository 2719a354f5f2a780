"""What a repair finds again in a combined segment that no checkpoint lists goes to where it was, and is found there from then on."""

from __future__ import annotations

from journal import JournalOptions, repair, verify
from journal.format import ITEMS
from journal.items import unpack_items_prefix
from journal.scan import SegmentScan
from tests.fault.disk import SimulatedDisk
from tests.journal.harness import DIRECTORY, Opened, segments
from tests.journal.test_compaction import COUNT, Wanted, filled, kinds, verify_found

THIRD = {(1 + first % 3, first * 4 + 2) for first in range(0, COUNT, 4)}
COMBINING = JournalOptions(segment_bytes=8192, spare_segments=0, compact_below=1.0)


def unlisted() -> SimulatedDisk:
    """A process died when neighbours were combined, and the checkpoint that lists what came of it was not made."""
    opened = filled()
    opened.checkpoint(live=Wanted(THIRD))
    assert 1 in kinds(opened.disk)
    disk = opened.disk.restart()
    opened.journal.abandon()
    return disk


def verify_kept(disk: SimulatedDisk, wanted: Wanted) -> None:
    """Everything is found, and is again when segments were combined, and given back, and at the next start."""
    opened = Opened(disk, COMBINING)
    verify_found(opened, wanted)
    for _ in range(3):
        opened.checkpoint(live=wanted)
        verify_found(opened, wanted)
    again = opened.killed(COMBINING)
    verify_found(again, wanted)
    assert not [finding for finding in verify(DIRECTORY, again.disk.restart()) if finding.fatal]


def test_records_of_a_damaged_segment_that_a_combined_one_holds_are_lost_by_nothing_that_comes_later() -> None:
    """In a segment of their own they would lie between those of others, and be combined with these out of order."""
    disk = unlisted()
    logs = [name for name in segments(disk) if disk.content(DIRECTORY / name)[11] == 0]
    combined = next(name for name in segments(disk) if disk.content(DIRECTORY / name)[11] == 1)
    with SegmentScan(disk, DIRECTORY / combined) as scan:
        held = {record.lsn for record in scan.records()}
    tried = 0
    for name in logs:
        with SegmentScan(disk, DIRECTORY / name) as scan:
            records = [(record.lsn, record.offset, record.end) for record in scan.records()]
        for lsn, start, _ in records:
            content = disk.content(DIRECTORY / name)
            flipped = content[: start + 30] + bytes([content[start + 30] ^ 1]) + content[start + 31 :]
            for damaged in (content[: start + 20], flipped) if lsn in held else ():
                tried += 1
                broken = disk.restart()
                broken.replace(DIRECTORY / name, damaged)
                said = repair(DIRECTORY, broken)
                assert any("in their place again" in line for line in said), said
                verify_kept(broken, Wanted(THIRD))
    assert tried > 10


def test_records_of_segments_that_are_gone_come_between_those_that_there_are() -> None:
    disk = unlisted()
    held = items_of(disk, 1)
    logs = [name for name in segments(disk) if disk.content(DIRECTORY / name)[11] == 0]
    doubled = [name for name in logs if items_of(disk, 0, name) & THIRD <= held]
    assert len(doubled) > 2
    for gone in (*((name,) for name in doubled), (doubled[0], doubled[2]), doubled[1:], doubled):
        broken = disk.restart()
        for name in gone:
            broken.unlink(DIRECTORY / name)
        broken.sync_directory(DIRECTORY)
        assert repair(DIRECTORY, broken)
        verify_kept(broken, Wanted(THIRD))


def items_of(disk: SimulatedDisk, kind: int, *names: str) -> set[tuple[int, int]]:
    """The items that segments of a kind hold."""
    found: set[tuple[int, int]] = set()
    for name in names or segments(disk):
        if disk.content(DIRECTORY / name)[11] == kind:
            with SegmentScan(disk, DIRECTORY / name) as scan:
                for record in scan.records():
                    if record.flags & ITEMS:
                        stream, first, count = unpack_items_prefix(record.payload)
                        found |= {(stream, item) for item in range(first, first + count)}
    return found
