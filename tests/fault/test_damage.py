"""Damage is never taken for data and never cut off in silence: the start refuses, and says file and offset."""

from __future__ import annotations

from functools import cache

import pytest

from tests.fault.written import SEGMENT_HEADER, Written, start, verify_cut, verify_refused, write_groups


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


def test_a_segment_that_is_gone_is_refused_by_name() -> None:
    written = write_groups([[20], [30]], closed=True)
    disk = written.disk.restart()
    assert start(disk).refused is None
    disk = disk.restart()
    disk.unlink(written.segment)
    refused = start(disk).refused
    assert refused is not None
    assert written.segment.name in str(refused)
