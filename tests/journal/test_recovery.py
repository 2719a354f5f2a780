"""A start finds everything that was durable, cuts what was never finished, refuses what is damaged, and never counts backwards."""

from __future__ import annotations

import errno
from collections import deque
from pathlib import Path

import pytest

from journal import (
    Journal,
    JournalDamagedError,
    JournalFailedError,
    JournalLockedError,
    JournalOptions,
    OsFiles,
    repair,
    verify,
)
from journal.format import pack_record
from journal.names import NEWEST, segment_name, stem_of
from journal.scan import SegmentScan
from tests.fault.faulty_files import Fault, FaultyFiles, Kind
from tests.journal.harness import DIRECTORY, SMALL, Opened, SimulatedDisk, Watched, segments


def written(*payloads: bytes) -> Opened:
    opened = Opened(SimulatedDisk())
    for payload in payloads:
        opened.event(payload)
        opened.run()
    return opened


def only_segment(disk: SimulatedDisk) -> Path:
    (name,) = segments(disk)
    return DIRECTORY / name


def end_of_log(disk: SimulatedDisk, path: Path) -> int:
    with SegmentScan(disk, path) as scan:
        for _ in scan.records():
            pass
        return scan.end


def test_an_empty_directory_begins_with_record_1_and_epoch_1() -> None:
    opened = Opened(SimulatedDisk())
    assert (opened.journal.next_lsn, opened.journal.epoch) == (1, 1)
    assert opened.journal.checkpoint_payload is None
    assert opened.replayed == []


def test_records_come_back_in_order_with_their_kinds() -> None:
    opened = Opened(SimulatedDisk())
    opened.event(b"one")
    opened.items(5, 100, 3, b"two")
    opened.event(b"", lazy=True)
    opened.run()
    prefix = (5).to_bytes(4, "little") + (100).to_bytes(8, "little") + (3).to_bytes(4, "little")
    expected = [(1, 1, b"one"), (2, 2, prefix + b"two"), (3, 1, b"")]
    assert opened.killed().replayed == expected
    assert opened.closed().replayed == expected


def test_records_of_many_segments_come_back() -> None:
    opened = Opened(SimulatedDisk())
    for number in range(40):
        opened.event(b"%d" % number * 200)
        opened.run()
    assert len(segments(opened.disk)) > 3
    assert [lsn for lsn, _, _ in opened.killed().replayed] == list(range(1, 41))


def test_lsn_and_epoch_never_go_back() -> None:
    opened = Opened(SimulatedDisk())
    epoch, lsn = opened.journal.epoch, opened.journal.next_lsn
    for start in range(8):
        opened.event(b"x" * 1500)
        opened.run()
        if start % 3 == 0:
            opened.checkpoint(b"%d" % start, live=lambda stream, first, stop: 0)
        lsn = opened.journal.next_lsn
        opened = opened.killed() if start % 2 else opened.closed()
        assert opened.journal.epoch == epoch + 1
        assert opened.journal.next_lsn >= lsn
        epoch = opened.journal.epoch


def test_the_epoch_is_durable_before_open_returns() -> None:
    disk = SimulatedDisk()
    opened = Opened(disk)
    for epoch in range(2, 6):
        disk = disk.restart()
        assert Journal.open(DIRECTORY, SMALL, disk).epoch == epoch
    assert opened.journal.epoch == 1


def test_what_recovery_found_is_synced_before_it_is_used() -> None:
    opened = written(b"durable")
    opened.event(b"written by a program that died before its sync")
    opened.journal._writer._files = WithoutSync(opened.disk)  # type: ignore[union-attr,assignment]
    opened.run()
    watched = Watched(opened.disk.restart())
    again = Journal.open(DIRECTORY, SMALL, watched)
    assert [record.lsn for record in again.replay()] == [1, 2]
    tail = watched.order.index("sync")
    assert watched.order.index("write") < tail, "the last group is written again, so that the sync covers it"


class WithoutSync:
    """A disk whose syncs do nothing, as far as the power is concerned."""

    def __init__(self, inner: SimulatedDisk) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return (lambda file: None) if name == "sync" else getattr(self._inner, name)


def test_a_torn_tail_is_cut_a_copy_is_kept_and_it_is_said() -> None:
    opened = written(b"kept", b"torn" * 20)
    path = only_segment(opened.disk)
    content = opened.disk.content(path)
    offset = 48 + 28 + 4
    disk = opened.disk.restart()
    disk.replace(path, content[: offset + 60] + bytes(len(content) - offset - 60))
    again = Opened(disk)
    assert again.replayed == [(1, 1, b"kept")]
    (report,) = again.reports
    assert str(path) in report
    assert f"offset {offset}" in report
    copy = DIRECTORY / f"torn-{path.stem}-{offset}"
    assert disk.content(copy) == content[offset : offset + 60].rstrip(b"\0")
    assert again.event(b"again") == 2
    again.run()
    after = again.killed()
    assert after.replayed == [(1, 1, b"kept"), (2, 1, b"again")]
    assert after.reports == []


def test_whole_records_behind_a_torn_one_of_their_group_do_not_come_back_later() -> None:
    opened = Opened(SimulatedDisk())
    for payload in (b"aaaa", b"bbbb", b"cccc"):
        opened.event(payload)
    opened.run()
    path = only_segment(opened.disk)
    content = bytearray(opened.disk.content(path))
    content[48 + 28] ^= 1
    disk = opened.disk.restart()
    disk.replace(path, bytes(content))
    again = Opened(disk)
    assert again.replayed == []
    assert len(again.reports) == 1
    again.event(b"AAAA")
    again.run()
    assert again.killed().replayed == [(1, 1, b"AAAA")]


def test_a_record_whose_successor_was_written_after_its_sync_is_damaged_and_not_torn() -> None:
    opened = written(b"first", b"second")
    path = only_segment(opened.disk)
    content = bytearray(opened.disk.content(path))
    content[48 + 28] ^= 1
    disk = opened.disk.restart()
    disk.replace(path, bytes(content))
    with pytest.raises(JournalDamagedError, match=r"verify.*repair") as damage:
        Journal.open(DIRECTORY, SMALL, disk)
    assert (damage.value.file, damage.value.offset) == (path, 48)
    assert disk.content(path) == content, "it is not touched"


def test_after_a_clean_shutdown_the_last_record_is_damaged_and_not_torn() -> None:
    opened = written(b"only")
    opened.journal.close()
    path = only_segment(opened.disk)
    content = bytearray(opened.disk.content(path))
    content[48 + 28] ^= 1
    disk = opened.disk.restart()
    disk.replace(path, bytes(content))
    with pytest.raises(JournalDamagedError) as damage:
        Journal.open(DIRECTORY, SMALL, disk)
    assert damage.value.offset == 48


def test_a_record_below_the_checkpoint_is_damaged_and_not_torn() -> None:
    opened = written(b"only")
    opened.checkpoint()
    path = only_segment(opened.disk)
    content = bytearray(opened.disk.content(path))
    content[48 + 28] ^= 1
    disk = opened.disk.restart()
    disk.replace(path, bytes(content))
    with pytest.raises(JournalDamagedError, match="checkpoint"):
        Journal.open(DIRECTORY, SMALL, disk)


def test_a_record_that_the_state_of_a_checkpoint_may_contain_is_damaged_and_not_torn() -> None:
    opened = written(b"before the cut")
    opened.journal.checkpoint(b"state of one", lambda stream, first, stop: 0)
    opened.run()
    deque(opened.journal.prepare_checkpoint(lambda stream, first, stop: 0), 0)
    opened.journal.cut_checkpoint()
    for number in range(3):
        opened.event(bytes([number]) * 10)  # while the state is encoded
    opened.journal.store_checkpoint(b"state of four")
    opened.run()
    path = only_segment(opened.disk)
    content = opened.disk.content(path)
    disk = opened.disk.restart()
    disk.replace(path, content[: end_of_log(opened.disk, path) - 5])  # the disk has lost the end of what it had synced
    assert [finding.text for finding in verify(DIRECTORY, disk) if finding.fatal] != []
    with pytest.raises(JournalDamagedError, match="record 4 was durable, as a checkpoint"):
        Journal.open(DIRECTORY, SMALL, disk)
    (said,) = repair(DIRECTORY, disk)
    assert "record 4 is lost" in said
    for _ in range(2):
        again = Opened(disk.restart())
        assert again.journal.checkpoint_payload == b"state of four"
        assert [lsn for lsn, _, _ in again.replayed] == [2, 3]
        assert again.journal.next_lsn == 5
        disk = again.disk


def test_what_a_checkpoint_may_contain_is_known_though_it_ends_between_two_records() -> None:
    opened = written(b"before the cut")
    deque(opened.journal.prepare_checkpoint(lambda stream, first, stop: 0), 0)
    opened.journal.cut_checkpoint()
    path = only_segment(opened.disk)
    ends = [end_of_log(opened.disk, path)]
    for number in range(3):
        opened.event(bytes([number]) * 10)
    opened.journal.store_checkpoint(b"state of four")
    opened.run()
    disk = opened.disk.restart()
    disk.replace(path, opened.disk.content(path)[: ends[0]])
    with pytest.raises(JournalDamagedError, match="record 2 was durable, as a checkpoint"):
        Journal.open(DIRECTORY, SMALL, disk)
    repair(DIRECTORY, disk)
    again = Opened(disk.restart())
    assert (again.replayed, again.journal.next_lsn) == ([], 5)


def test_a_record_of_an_unknown_group_proves_nothing() -> None:
    opened = written(b"first")
    path = only_segment(opened.disk)
    with SegmentScan(opened.disk, path) as scan:
        header = scan.header
    content = bytearray(opened.disk.content(path))
    end = end_of_log(opened.disk, path)
    later = pack_record(header, 2, 1, 1, 0, 65535, b"second")
    content[end : end + len(later)] = later
    content[48 + 28] ^= 1
    disk = opened.disk.restart()
    disk.replace(path, bytes(content))
    again = Opened(disk)
    assert again.replayed == []
    assert len(again.reports) == 1


@pytest.mark.parametrize("which", ["segment", "checkpoint"])
def test_a_file_that_is_missing_or_not_whole_is_named(which: str) -> None:
    opened = Opened(SimulatedDisk())
    for number in range(12):
        opened.items(1, number, 1, bytes(1500))
        opened.run()
    opened.checkpoint()
    opened.journal.close()
    disk = opened.disk.restart()
    name = (
        segments(disk)[1] if which == "segment" else next(n for n in disk.names(DIRECTORY)[::-1] if n.startswith("ch"))
    )
    path = DIRECTORY / name
    content = disk.content(path)
    disk.replace(path, content[: len(content) // 2])
    with pytest.raises(JournalDamagedError, match=name):
        Journal.open(DIRECTORY, SMALL, disk)
    disk.unlink(path)
    if which == "segment":
        with pytest.raises(JournalDamagedError, match=f"{name}.*missing"):
            Journal.open(DIRECTORY, SMALL, disk)


def test_a_gap_in_the_log_is_found() -> None:
    opened = Opened(SimulatedDisk())
    for _ in range(12):
        opened.event(bytes(1500))
        opened.run()
    opened.journal.close()
    names = segments(opened.disk)
    for missing in names[1:-1]:
        disk = opened.disk.restart()
        disk.unlink(DIRECTORY / missing)
        with pytest.raises(JournalDamagedError, match="the next file begins"):
            Journal.open(DIRECTORY, SMALL, disk)


def test_what_is_left_of_interrupted_work_is_removed() -> None:
    opened = written(b"x")
    disk = opened.disk.restart()
    left = ["checkpoint-00000000000000000009.tmp", "00000000000000000001-00000099.index"]
    for name in left:
        disk.replace(DIRECTORY / name, b"half")
    again = Opened(disk)
    assert again.replayed == [(1, 1, b"x")]
    assert not set(left) & set(disk.names(DIRECTORY))


def test_a_stale_segment_that_no_checkpoint_lists_is_not_read() -> None:
    opened = Opened(SimulatedDisk())
    opened.items(1, 0, 1, bytes(3000))
    opened.items(1, 1, 1, bytes(3000))
    opened.run()
    stale = segments(opened.disk)[0]
    content = opened.disk.content(DIRECTORY / stale)
    opened.checkpoint(live=lambda stream, first, stop: 0)
    disk = opened.disk.restart()
    assert stale not in disk.names(DIRECTORY)
    disk.replace(DIRECTORY / stale, content)
    again = Opened(disk)
    assert again.journal.locate(1, 0) is None
    assert again.journal.locate(1, 1) is not None
    assert stale not in disk.names(DIRECTORY)


def test_a_note_of_the_newest_segment_that_an_older_version_has_left_behind_costs_nothing() -> None:
    """It wrote on, made another segment and removed the one that is noted, without a word in the note."""
    opened = Opened(SimulatedDisk())
    opened.items(1, 0, 1, bytes(3000))
    opened.run()
    before = opened.disk.content(DIRECTORY / NEWEST)
    (noted,) = segments(opened.disk)
    opened.items(1, 1, 1, bytes(3000))
    opened.run()
    opened.checkpoint(live=lambda stream, first, stop: 0)
    disk = opened.disk.restart()
    after = disk.content(DIRECTORY / NEWEST)
    assert noted not in disk.names(DIRECTORY)
    disk.replace(DIRECTORY / NEWEST, before)
    assert verify(DIRECTORY, disk) == []
    again = Opened(disk)
    assert again.journal.locate(1, 1) is not None
    assert disk.content(DIRECTORY / NEWEST) == after != before


def test_a_note_of_the_newest_segment_that_cannot_be_read_is_made_again() -> None:
    class Unreadable(Watched):
        def open(self, path: Path, *, write: bool = False) -> int:
            if path.name == NEWEST:
                raise OSError(errno.EIO, "Input/output error")
            return self.inner.open(path, write=write)

    disk = written(b"x").disk.restart()
    files = Unreadable(disk)
    (found,) = verify(DIRECTORY, files)
    (said,) = repair(DIRECTORY, files)
    again = Opened(files)
    assert again.replayed == [(1, 1, b"x")]
    assert (found.file.name, found.fatal) == (NEWEST, False)
    for text in (found.text, said, *again.reports):
        assert "Input/output error; so it cannot be told whether the newest segment is gone" in text
    assert "The note was made again" in again.reports[0]
    assert len(again.reports) == 1


def test_a_directory_in_use_is_refused_until_it_is_let_go(tmp_path: Path) -> None:
    first = Journal.open(tmp_path)
    with pytest.raises(JournalLockedError, match="in use"):
        Journal.open(tmp_path)
    first.close()
    second = Journal.open(tmp_path)
    assert second.epoch == 2
    second.close()


def test_a_directory_that_cannot_be_made_fails_with_the_reason() -> None:
    files = FaultyFiles(SimulatedDisk(), Fault(0, Kind.EIO))
    with pytest.raises(JournalFailedError, match="Input/output error"):
        Journal.open(DIRECTORY, SMALL, files)


def test_real_files_come_back_too(tmp_path: Path) -> None:
    options = JournalOptions(segment_bytes=100_000)
    opened = Opened(OsFiles(), options, tmp_path / "data" / "journal")
    for number in range(50):
        opened.items(1, number * 10, 10, bytes([number]) * 10_000)
        opened.run()
    opened.journal.abandon()
    again = Opened(OsFiles(), options, tmp_path / "data" / "journal")
    assert len(again.replayed) == 50
    assert all(again.journal.read(1, number * 10 + 3).payload == bytes([number]) * 10_000 for number in range(50))
    assert again.reports == []
    again.journal.close()


def test_the_name_of_a_segment_says_where_it_begins() -> None:
    assert segment_name(stem_of(12, 0x1F)) == "00000000000000000012-0000001f.segment"
