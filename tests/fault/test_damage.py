"""Damage is never taken for data and never cut off in silence: the start refuses, and says file and offset."""

from __future__ import annotations

from functools import cache

import pytest

from journal import JournalOptions, repair, verify
from journal.names import NEWEST, parse_segment
from tests.fault.disk import SimulatedDisk
from tests.fault.workload import DIRECTORY
from tests.fault.written import SEGMENT_HEADER, Written, start, verify_cut, verify_refused, write_groups
from tests.journal.harness import Opened, segments


@cache
def killed() -> Written:
    return write_groups([[20, 30, 10], [64], [5, 41], [33, 1, 12]])


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize("bit", range(8))
def test_every_flipped_bit_is_refused_or_is_a_torn_tail_that_is_reported(bit: int) -> None:
    written = killed()
    last = written.records[-1].group
    for offset in range(written.end + 16):
        content = flipped(written.content, 8 * offset + bit)
        found = start(written.with_content(content))
        record = written.at(offset)
        if offset < SEGMENT_HEADER:
            verify_refused(written, 0, found)
        elif record is not None and record.group < last:
            verify_refused(written, record.offset, found)
        else:
            verify_cut(written, content, found)


def test_damage_in_the_middle_is_not_cut_though_the_next_record_is_of_the_same_group() -> None:
    written = killed()
    first = written.records[0]
    content = flipped(written.content, 8 * (first.stop - 1))
    found = start(written.with_content(content))
    verify_refused(written, first.offset, found)
    assert found.disk.content(written.segment) == content


def test_a_refused_start_changes_nothing_on_the_disk() -> None:
    written = killed()
    disk = written.with_content(flipped(written.content, 8 * (SEGMENT_HEADER + 40)))
    before = {name: data for name, data in disk.files(written.segment.parent).items() if name != "lock"}
    assert start(disk).refused is not None
    after = {name: data for name, data in disk.files(written.segment.parent).items() if name != "lock"}
    assert after == before


def first_of(name: str) -> int:
    """The first lsn of a segment."""
    named = parse_segment(name)
    assert named is not None
    return named[0]


@pytest.mark.parametrize("count", [1, 2])
def test_segments_made_after_the_last_checkpoint_are_missed_when_they_are_gone(count: int) -> None:
    opened = Opened(SimulatedDisk(), JournalOptions(segment_bytes=512))
    for item in range(30):
        opened.items(1, item, 1, bytes(100))
        opened.run()
    disk = opened.disk.restart()
    gone = segments(disk)[-count:]
    for name in gone:
        disk.unlink(DIRECTORY / name)
        disk.sync_directory(DIRECTORY)
    refused = start(disk.restart()).refused
    assert refused is not None
    assert gone[-1] in str(refused)
    assert [(found.file.name, found.fatal) for found in verify(DIRECTORY, disk)] == [(gone[-1], True)]
    said = repair(DIRECTORY, disk)
    assert gone[-1] in said[0]
    assert verify(DIRECTORY, disk) == []
    again = Opened(disk, JournalOptions(segment_bytes=512))
    kept = [item for item in range(30) if again.journal.locate(1, item) is not None]
    assert kept == list(range(first_of(gone[0]) - 1)), "record n holds item n - 1"
    again.items(1, 30, 1, bytes(100))
    again.run()
    named = [parse_segment(name) for name in segments(again.disk)]
    assert len({found[1] for found in named if found}) == len(named), "no segment has an id that was another's"


@pytest.mark.parametrize("damage", [b"", b"PENSTNEW", bytes(32), None])
def test_a_damaged_note_of_the_newest_segment_costs_nothing(damage: bytes | None) -> None:
    written = killed()
    disk = written.disk.restart()
    whole = disk.content(DIRECTORY / NEWEST)
    if damage is None:
        disk.unlink(DIRECTORY / NEWEST)
    else:
        disk.replace(DIRECTORY / NEWEST, damage)
    assert [(found.file.name, found.fatal) for found in verify(DIRECTORY, disk)] == [(NEWEST, False)] * (
        damage is not None
    )
    found = start(disk)
    assert len(found.records) == len(written.records)
    assert disk.content(DIRECTORY / NEWEST) == whole


def test_a_segment_that_is_gone_is_refused_by_name() -> None:
    written = write_groups([[20], [30]], closed=True)
    disk = written.disk.restart()
    assert start(disk).refused is None
    disk = disk.restart()
    disk.unlink(written.segment)
    refused = start(disk).refused
    assert refused is not None
    assert written.segment.name in str(refused)
