"""Damage in what a start does not read: sealed segments, their indexes, checkpoints; and files that are written over."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from journal import Journal, JournalDamagedError, JournalOptions, ManualCommitter, repair, verify
from journal.names import parse_segment
from journal.scan import SegmentScan
from tests.fault.disk import SimulatedDisk
from tests.fault.faulty_files import FaultyFiles
from tests.fault.workload import DIRECTORY
from tests.fault.written import KIND, SEGMENT_HEADER, STREAM

OPTIONS = JournalOptions(segment_bytes=700, compact_below=0.0)
ITEMS = 24
EIGHTHS = (0, *(pytest.param(turn, marks=pytest.mark.soak) for turn in range(1, 8)))
"""One bit of every byte, each of the eight in turn; and where there is time, the others."""


def payload(item: int) -> bytes:
    return bytes([item + 1]) * (10 + item)


@cache
def sealed() -> SimulatedDisk:
    """Several segments of items, a checkpoint behind them all, closed."""
    disk = SimulatedDisk()
    journal = Journal.open(DIRECTORY, OPTIONS, disk, lambda _: None)
    committer = ManualCommitter()
    journal.start(lambda _: None, lambda _: None, committer)
    for item in range(ITEMS):
        journal.append_items(KIND, STREAM, item, 1, [payload(item)])
        committer.run()
    journal.checkpoint(b"state", lambda _, first, stop: stop - first)
    journal.close()
    return disk.restart()


def names(disk: SimulatedDisk, suffix: str) -> list[str]:
    return [name for name in disk.names(DIRECTORY) if name.endswith(suffix)]


def read_all(disk: SimulatedDisk) -> Iterator[JournalDamagedError | bytes]:
    """Every item, or why it cannot be read."""
    reports: list[str] = []
    journal = Journal.open(DIRECTORY, OPTIONS, disk, reports.append)
    for item in range(ITEMS):
        try:
            stored = journal.read(STREAM, item)
            yield bytes(stored.payload)
        except JournalDamagedError as error:
            yield error


def flipped(path: Path, bit: int) -> SimulatedDisk:
    disk = sealed().restart()
    content = bytearray(disk.content(path))
    content[bit // 8] ^= 1 << bit % 8
    disk.replace(path, bytes(content))
    return disk


def test_undamaged_all_is_read() -> None:
    assert len(names(sealed(), ".index")) >= 2
    assert list(read_all(sealed().restart())) == [payload(item) for item in range(ITEMS)]


@pytest.mark.parametrize("turn", EIGHTHS)
def test_a_flipped_bit_of_a_sealed_segment_is_never_read_and_says_file_and_offset(turn: int) -> None:
    path = DIRECTORY / names(sealed(), ".segment")[1]
    for offset in range(len(sealed().content(path))):
        disk = flipped(path, 8 * offset + (offset + turn) % 8)
        findings = verify(DIRECTORY, disk)
        assert [(finding.file, finding.fatal) for finding in findings] == [(path, True)], offset
        begins = findings[0].offset
        assert begins <= offset
        if offset < SEGMENT_HEADER:
            with pytest.raises(JournalDamagedError) as refused:
                list(read_all(disk))
            assert (refused.value.file, refused.value.offset) == (path, 0)
            continue
        read = list(read_all(disk))
        errors = [found for found in read if isinstance(found, JournalDamagedError)]
        assert [(error.file, error.offset) for error in errors] == [(path, begins)]
        assert all(found in {payload(item), errors[0]} for item, found in enumerate(read))


@pytest.mark.parametrize("turn", EIGHTHS)
def test_a_flipped_bit_of_an_index_changes_nothing_that_is_read(turn: int) -> None:
    path = DIRECTORY / names(sealed(), ".index")[1]
    for offset in range(len(sealed().content(path))):
        disk = flipped(path, 8 * offset + (offset + turn) % 8)
        assert [(finding.file, finding.fatal) for finding in verify(DIRECTORY, disk)] in ([(path, False)], [])
        assert list(read_all(disk)) == [payload(item) for item in range(ITEMS)]


def test_a_flipped_bit_of_the_newest_checkpoint_is_refused_by_name() -> None:
    path = DIRECTORY / max(name for name in sealed().names(DIRECTORY) if name.startswith("checkpoint-"))
    for bit in range(8 * len(sealed().content(path))):
        disk = flipped(path, bit)
        assert (path, True) in [(finding.file, finding.fatal) for finding in verify(DIRECTORY, disk)]
        with pytest.raises(JournalDamagedError) as refused:
            list(read_all(disk))
        assert refused.value.file == path


def recycled() -> tuple[list[int], list[int], list[str]]:
    """What was appended to a segment written over an old one, what the start after a kill replays, and what it reports."""
    disk = SimulatedDisk()
    files = FaultyFiles(disk)
    journal = Journal.open(DIRECTORY, OPTIONS, files, lambda _: None)
    committer = ManualCommitter()
    journal.start(lambda _: None, lambda _: None, committer)
    item = 0
    while not any(call.operation == "rename" and call.name.startswith("spare-") for call in files.calls):
        journal.append_items(KIND, STREAM, item, 1, [b"old" * 10])
        item += 1
        committer.run()
        if journal.checkpoint_due():
            journal.checkpoint(b"", lambda *_: 0)
    journal.checkpoint(b"", lambda *_: 0)
    appended = [journal.append(KIND, [b"new" * 10])]
    committer.run()
    (active,) = [
        name for name in disk.names(DIRECTORY) if (named := parse_segment(name)) and named[0] >= appended[0] - 1
    ]
    assert b"old" in disk.content(DIRECTORY / active)[200:]
    reports: list[str] = []
    again = Journal.open(DIRECTORY, OPTIONS, disk.restart(), reports.append)
    return appended, [record.lsn for record in again.replay()], reports


def test_what_an_earlier_life_left_in_a_recycled_file_is_neither_replayed_nor_taken_for_a_torn_tail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    appended, replayed, reports = recycled()
    assert replayed == appended
    assert reports == []
    monkeypatch.setattr("journal.segment.os.urandom", lambda size: b"\1" * size)
    assert recycled()[2] != [], "without a salt of its own the check must see old records"


@pytest.mark.parametrize("damage", ["flip", "zero", "cut", "gone"])
def test_the_last_record_of_a_sealed_segment_is_not_lost_in_silence_by_a_repair(damage: str) -> None:
    path = DIRECTORY / names(sealed(), ".segment")[1]
    whole = sealed().content(path)
    with SegmentScan(sealed(), path) as scan:
        last = list(scan.records())[-1]
    content = {
        "flip": whole[: last.end - 1] + bytes([whole[last.end - 1] ^ 1]),
        "zero": whole[: last.offset] + bytes(last.end - last.offset),
        "cut": whole[: last.end - 1],
        "gone": whole[: last.offset],
    }[damage]
    disk = sealed().restart()
    disk.replace(path, content)
    (finding,) = verify(DIRECTORY, disk)
    assert (finding.file, finding.offset, finding.fatal) == (path, last.offset, True)
    (said,) = repair(DIRECTORY, disk)
    assert f"{path}, offset {last.offset}: " in said
    assert f"record {last.lsn} is lost" in said
    assert disk.content(DIRECTORY / f"damaged-{path.name}") == content
    assert [found for found in verify(DIRECTORY, disk) if found.fatal] == []
    journal = Journal.open(DIRECTORY, OPTIONS, disk, lambda _: None)
    lost = last.lsn - 1
    assert [item for item in range(ITEMS) if journal.locate(STREAM, item) is None] == [lost]
    assert all(bytes(journal.read(STREAM, item).payload) == payload(item) for item in range(ITEMS) if item != lost)
