"""A torn tail is cut to the last whole record, wherever it is torn; what is damaged and not torn is never cut."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

import pytest

from journal import Journal, ManualCommitter
from tests.fault.defects import without
from tests.fault.workload import DIRECTORY, Opener
from tests.fault.written import (
    KIND,
    OPTIONS,
    RECORD_HEADER,
    SEGMENT_HEADER,
    Written,
    start,
    verify_cut,
    verify_refused,
    write_groups,
)

TAIL = 4096
CHUNKS = 4
QUARTERS = (0, *(pytest.param(chunk, marks=pytest.mark.soak) for chunk in range(1, CHUNKS)))
"""Every fourth place, which comes to the beginning and the end of records of every size; and where there is time, the others."""


@cache
def killed() -> Written:
    """Six KiB in group commits of one to three records, each reported durable."""
    return write_groups([[40, 300], [150], [0, 90, 7], [500]] * 5)


@cache
def closed() -> Written:
    return write_groups([[40, 300], [150], [0, 90, 7], [500]] * 5, closed=True)


def cut(content: bytes, offset: int) -> bytes:
    return content[:offset]


def zero(content: bytes, offset: int) -> bytes:
    return content[:offset].ljust(len(content), b"\0")


def garbage(content: bytes, offset: int) -> bytes:
    """Every byte of the rest, up to where it was written, is another one."""
    stop = max(killed().end, offset)
    mask = Random(offset).randrange(1, 256)
    changed = bytes(byte ^ mask for byte in content[offset:stop])
    return content[:offset] + changed + content[stop:]


@pytest.mark.parametrize("chunk", QUARTERS)
@pytest.mark.parametrize("damage", [cut, zero, garbage])
def test_wherever_the_tail_is_torn_all_before_it_is_recovered(
    damage: Callable[[bytes, int], bytes], chunk: int
) -> None:
    written = killed()
    first = written.end - TAIL
    assert first > SEGMENT_HEADER
    for offset in range(first + chunk, written.end + 1, CHUNKS):
        content = damage(written.content, offset)
        verify_cut(written, content, start(written.with_content(content)))


def test_a_tail_that_was_cut_once_is_not_reported_again() -> None:
    written = killed()
    found = start(written.with_content(garbage(written.content, written.end - 100)))
    assert len(found.reports) == 1
    again = start(found.disk.restart())
    assert again.reports == []
    assert again.records == found.records


def after_going_on(opener: Opener) -> list[tuple[int, bytes]]:
    """The records of a start after one that cut a group, whose second record was torn and third whole, and went on behind it."""
    written = write_groups([[20], [20, 20]])
    torn = written.records[1]
    disk = written.with_content(flip_byte(written.content, torn.stop - 1))
    journal = opener(DIRECTORY, OPTIONS, disk, lambda _: None)
    committer = ManualCommitter()
    journal.start(lambda _: None, lambda _: None, committer)
    journal.append(KIND, [b"x" * (torn.stop - torn.offset - RECORD_HEADER)])
    committer.run()
    return start(disk.restart()).records


def test_whole_records_behind_a_torn_one_never_follow_what_is_written_in_its_place() -> None:
    lsns = [lsn for lsn, _ in after_going_on(Journal.open)]
    assert lsns == [1, 2]
    assert [lsn for lsn, _ in after_going_on(without("truncate"))] == [1, 2, 3], "the check must see one that is left"


def flip_byte(content: bytes, offset: int) -> bytes:
    return content[:offset] + bytes([content[offset] ^ 0x10]) + content[offset + 1 :]


@pytest.mark.parametrize("chunk", QUARTERS)
def test_after_a_clean_close_damage_is_refused_and_not_cut(chunk: int) -> None:
    written = closed()
    for offset in range(written.end - TAIL + chunk, written.end, CHUNKS):
        record = written.at(offset)
        assert record is not None
        verify_refused(written, record.offset, start(written.with_content(flip_byte(written.content, offset))))


def test_a_damaged_record_of_the_close_itself_costs_nothing() -> None:
    written = closed()
    stop = len(written.content.rstrip(b"\0"))
    assert stop > written.end
    for offset in range(written.end, stop):
        content = flip_byte(written.content, offset)
        verify_cut(written, content, start(written.with_content(content)))


def test_after_a_clean_close_nothing_is_reported() -> None:
    found = start(closed().disk.restart())
    assert found.reports == []
    assert len(found.records) == len(closed().records)
