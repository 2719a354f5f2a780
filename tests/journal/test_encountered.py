"""Damage that a reader of old records came upon is known to the next start, which reads no old records, until it is mended."""

from __future__ import annotations

from functools import cache, partial

import pytest

from journal import Journal, JournalDamagedError, repair, verify, write_encountered
from journal.names import ENCOUNTERED, index_name, stem_of
from tests.journal.harness import DIRECTORY, Opened, SimulatedDisk, segments


@cache
def whole() -> SimulatedDisk:
    """Several sealed segments that a checkpoint lists."""
    opened = Opened(SimulatedDisk())
    for item in range(60):
        opened.items(1, item, 1, bytes(300))
        opened.run()
    opened.checkpoint()
    opened.journal.close()
    return opened.disk.restart()


def damaged() -> tuple[SimulatedDisk, str]:
    """The same with eight bytes of an old segment written over; and its name."""
    disk = whole().restart()
    name = segments(disk)[1]
    content = bytearray(disk.content(DIRECTORY / name))
    content[2000:2008] = b"\xff" * 8
    disk.replace(DIRECTORY / name, bytes(content))
    return disk, name


def come_upon(disk: SimulatedDisk) -> JournalDamagedError:
    """Start, read everything until that ends on damage, and note where, as a broker does."""
    opened = Opened(disk)
    with pytest.raises(JournalDamagedError) as raised:
        list(map(partial(opened.journal.read, 1), range(60)))
    write_encountered(disk, DIRECTORY, raised.value)
    opened.journal.close()
    return raised.value


def fatal(disk: SimulatedDisk) -> list[tuple[str, bool]]:
    return [(finding.file.name, finding.fatal) for finding in verify(DIRECTORY, disk)]


def test_a_start_reads_no_old_record_and_one_after_an_end_on_damage_refuses_with_the_place_again_and_again() -> None:
    disk, name = damaged()
    found = come_upon(disk)
    assert (found.file.name, found.offset > 0) == (name, True)
    for _ in range(2):
        with pytest.raises(JournalDamagedError) as refused:
            Opened(disk)
        assert (refused.value.file, refused.value.offset) == (found.file, found.offset)
        assert "the last broker here ended on damage in this file" in str(refused.value)
        assert f"`penstock journal repair {DIRECTORY}`" in str(refused.value)
    assert fatal(disk) == [(ENCOUNTERED, False), (name, True)]


def test_repair_removes_the_note_and_the_next_start_goes_on() -> None:
    disk, name = damaged()
    come_upon(disk)
    assert any(name in line for line in repair(DIRECTORY, disk))
    assert ENCOUNTERED not in disk.names(DIRECTORY)
    assert verify(DIRECTORY, disk) == []
    again = Opened(disk)
    assert sum(again.journal.locate(1, item) is not None for item in range(60)) == 59


def test_a_file_that_was_put_back_whole_is_good_again_and_the_start_says_so_once() -> None:
    disk, name = damaged()
    come_upon(disk)
    disk.replace(DIRECTORY / name, whole().content(DIRECTORY / name))
    assert fatal(disk) == [(ENCOUNTERED, False)]
    assert repair(DIRECTORY, disk) == []
    opened = Opened(disk)
    (said,) = opened.reports
    assert name in said
    assert "there is none any more" in said
    assert ENCOUNTERED not in disk.names(DIRECTORY)
    opened.journal.close()
    assert Opened(disk).reports == []


def test_a_segment_that_is_in_use_no_more_keeps_nobody_from_starting() -> None:
    disk = whole().restart()
    gone = DIRECTORY / f"{stem_of(777, 777)}.segment"
    write_encountered(disk, DIRECTORY, JournalDamagedError(gone, 5, "it is\nno record"))
    (said,) = Opened(disk).reports
    assert f"{gone}, offset 5" in said
    assert "it is no record" in said
    assert ENCOUNTERED not in disk.names(DIRECTORY)


def test_a_note_of_an_index_has_its_segment_looked_at() -> None:
    disk = whole().restart()
    name = segments(disk)[1]
    index = index_name(name.removesuffix(".segment"))
    write_encountered(disk, DIRECTORY, JournalDamagedError(DIRECTORY / index, 0, "wrong"))
    content = bytearray(disk.content(DIRECTORY / name))
    content[2000] ^= 1
    disk.replace(DIRECTORY / name, bytes(content))
    with pytest.raises(JournalDamagedError, match=name):
        Journal.open(DIRECTORY, files=disk, report=lambda _: None)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"one two three", b"one"])
def test_a_note_that_cannot_be_understood_is_said_and_removed(content: bytes) -> None:
    disk = whole().restart()
    disk.replace(DIRECTORY / ENCOUNTERED, content)
    assert fatal(disk) == [(ENCOUNTERED, False)]
    (said,) = Opened(disk).reports
    assert f"penstock journal verify {DIRECTORY}" in said
    assert ENCOUNTERED not in disk.names(DIRECTORY)
