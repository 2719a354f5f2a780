"""`verify` finds all damage and names its place, finds none where there is none, and changes nothing."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import Journal, JournalLockedError, JournalMissingError, glance, repair, verify
from journal.format import SEGMENT_HEADER_BYTES, SegmentHeader, StreamRows, pack_index
from journal.names import is_part
from journal.scan import SegmentScan
from tests.fault.disk import SimulatedDisk
from tests.fault.faulty_files import Fault, FaultyFiles, Kind
from tests.fault.workload import DIRECTORY, SMALL, End, Workload
from tests.fault.written import SEGMENT_HEADER, start, write_groups

GROUPS = [[20, 30], [64], [5, 41, 9]]


def used(seed: int) -> SimulatedDisk:
    """A directory of many segments, some of them combined, with checkpoints; closed."""
    disk = SimulatedDisk()
    assert Workload(seed).live(disk, 200).end is End.CLOSED
    return disk.restart()


@pytest.mark.parametrize("seed", range(10))
def test_a_journal_that_was_closed_has_nothing_wrong(seed: int) -> None:
    assert verify(DIRECTORY, used(seed)) == []


@pytest.mark.parametrize("seed", range(30))
def test_a_journal_that_a_power_loss_interrupted_has_nothing_that_the_next_start_does_not_mend(seed: int) -> None:
    disk = SimulatedDisk()
    workload = Workload(seed)
    workload.live(FaultyFiles(disk, Fault(20 + 7 * seed, Kind.PANIC_WITHIN)), 150)
    disk = disk.crash(Random(seed))
    if DIRECTORY.name in disk.names(DIRECTORY.parent):
        assert [finding for finding in verify(DIRECTORY, disk) if finding.fatal] == []
    assert workload.live(disk.restart(), 0).end is End.CLOSED


def test_every_flipped_bit_is_found_where_its_record_begins() -> None:
    written = write_groups(GROUPS, closed=True)
    for bit in range(8 * written.end):
        content = bytearray(written.content)
        content[bit // 8] ^= 1 << bit % 8
        record = written.at(bit // 8)
        findings = verify(DIRECTORY, written.with_content(bytes(content)))
        assert (written.segment, record.offset if record else 0, True) in {f[:2] + f[3:] for f in findings}, bit
        if record is not None:
            assert f"record {record.lsn} " in findings[0].text


@pytest.mark.parametrize("seed", range(10))
def test_a_glance_finds_nothing_wrong_with_a_journal_that_was_closed(seed: int) -> None:
    assert glance(DIRECTORY, used(seed)) == []


def test_what_a_glance_finds_verify_finds_and_a_header_that_cannot_be_read_is_among_it() -> None:
    written = write_groups(GROUPS, closed=True)
    for byte in range(SEGMENT_HEADER_BYTES + 40):
        content = bytearray(written.content)
        content[byte] ^= 1
        disk = written.with_content(bytes(content))
        found = glance(DIRECTORY, disk)
        assert bool(found) is (byte < SEGMENT_HEADER_BYTES), byte
        assert set(found) <= {finding for finding in verify(DIRECTORY, disk) if finding.fatal}


def test_a_glance_at_nothing_finds_nothing_and_makes_nothing() -> None:
    disk = SimulatedDisk()
    assert glance(DIRECTORY, disk) == []
    assert DIRECTORY.name not in disk.names(DIRECTORY.parent)


def test_what_open_refuses_verify_calls_fatal_and_the_other_way_round() -> None:
    written = write_groups(GROUPS)
    for bit in range(0, 8 * (written.end + 8), 3):
        content = bytearray(written.content)
        content[bit // 8] ^= 1 << bit % 8
        fatal = any(finding.fatal for finding in verify(DIRECTORY, written.with_content(bytes(content))))
        assert fatal == (start(written.with_content(bytes(content))).refused is not None), bit


def test_a_torn_tail_is_told_and_is_not_fatal() -> None:
    written = write_groups(GROUPS)
    last = written.records[-1]
    content = written.content[: last.stop - 4] + b"torn" + written.content[last.stop :]
    (finding,) = verify(DIRECTORY, written.with_content(content))
    assert (finding.file, finding.offset, finding.fatal) == (written.segment, last.offset, False)
    assert str(finding).startswith(f"{written.segment}, offset {last.offset}: ")
    assert str(finding).endswith("(the next start mends this)")


def newest(disk: SimulatedDisk, pattern: str) -> Path:
    names = (name for name in disk.names(DIRECTORY) if not name.startswith("spare-"))
    return DIRECTORY / max(name for name in names if Path(name).match(pattern))


def spoil(disk: SimulatedDisk, path: Path, offset: int) -> None:
    content = bytearray(disk.content(path))
    content[offset] ^= 0x40
    disk.replace(path, bytes(content))


def test_a_damaged_newest_checkpoint_is_fatal_and_an_older_one_is_not() -> None:
    disk = used(3)
    checkpoints = sorted(name for name in disk.names(DIRECTORY) if name.startswith("checkpoint-"))
    assert len(checkpoints) == 2
    spoil(disk, DIRECTORY / checkpoints[0], 30)
    assert [(f.file.name, f.offset, f.fatal) for f in verify(DIRECTORY, disk)] == [(checkpoints[0], 0, False)]
    spoil(disk, DIRECTORY / checkpoints[1], 30)
    assert (checkpoints[1], 0, True) in [(f.file.name, f.offset, f.fatal) for f in verify(DIRECTORY, disk)]


def test_a_sealed_segment_that_is_gone_or_short_is_fatal() -> None:
    disk = used(3)
    sealed = next(name for name in disk.names(DIRECTORY) if name.endswith(".index"))
    path = DIRECTORY / sealed.replace(".index", ".segment")
    content = disk.content(path)
    disk.replace(path, content[:-10])
    assert any(f.file == path and f.fatal for f in verify(DIRECTORY, disk))
    disk.replace(path, content)
    assert verify(DIRECTORY, disk) == []
    disk.unlink(path)
    assert any(f.file == path and f.fatal and "gone" in f.text for f in verify(DIRECTORY, disk))


def test_a_damaged_index_is_told_and_one_that_lies_is_fatal() -> None:
    disk = used(3)
    path = newest(disk, "*.index")
    content = disk.content(path)
    spoil(disk, path, len(content) // 2)
    assert [(f.file, f.fatal) for f in verify(DIRECTORY, disk)] == [(path, False)]
    rows = {1: StreamRows.empty()}
    for column, value in zip(rows[1], (0, 1, SEGMENT_HEADER, 0), strict=True):
        column.append(value)
    first, segment_id = path.stem.split("-")
    header = SegmentHeader(int(segment_id, 16), 0, int(first), bytes(8))
    facts = next(f for f in checkpoint_facts(disk) if f[0] == header.segment_id)
    disk.replace(path, b"".join(pack_index(header, facts[1], facts[2], rows)))
    assert [(f.file, f.fatal) for f in verify(DIRECTORY, disk)] == [(path, True)]
    (said,) = repair(DIRECTORY, disk)
    assert str(path) in said
    assert verify(DIRECTORY, disk) == []


def checkpoint_facts(disk: SimulatedDisk) -> list[tuple[int, int, int]]:
    """(id, stop lsn, end) of each segment with records, from the segments themselves."""
    found = []
    for name in disk.names(DIRECTORY):
        if name.endswith(".segment") and not name.startswith("spare"):
            with SegmentScan(disk, DIRECTORY / name) as scan:
                list(scan.records())
                found.append((scan.header.segment_id, scan.next_lsn, scan.end))
    return found


def test_a_write_that_was_not_finished_is_told_and_is_not_fatal() -> None:
    disk = used(3)
    disk.replace(DIRECTORY / "checkpoint-00000000000000009999.tmp", b"half")
    (finding,) = verify(DIRECTORY, disk)
    assert finding.file.name == "checkpoint-00000000000000009999.tmp"
    assert not finding.fatal


def test_verify_changes_nothing() -> None:
    disk = used(3)
    spoil(disk, newest(disk, "*.segment"), 100)
    before = disk.files(DIRECTORY)
    assert verify(DIRECTORY, disk)
    assert disk.files(DIRECTORY) == before
    assert disk.open_descriptors() == []


def test_a_directory_in_use_is_left_alone() -> None:
    disk = used(3)
    journal = Journal.open(DIRECTORY, SMALL, disk, lambda _: None)
    with pytest.raises(JournalLockedError):
        verify(DIRECTORY, disk)
    assert journal.epoch == 2


def test_a_directory_that_is_not_there_holds_no_journal(tmp_path: Path) -> None:
    with pytest.raises(JournalMissingError, match="none does not exist"):
        verify(tmp_path / "none")


def test_a_directory_that_cannot_be_read_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> list[str]:
        raise OSError(errno.EIO, "Input/output error", str(path))

    disk = used(3)
    monkeypatch.setattr(disk, "names", refuse)
    (finding,) = verify(DIRECTORY, disk)
    assert finding.fatal
    assert "it cannot be read" in finding.text


NAMES = st.sampled_from(
    [
        "lock",
        "notes.txt",
        "checkpoint-00000000000000000001",
        "checkpoint-00000000000000000777",
        "00000000000000000001-00000001.segment",
        "00000000000000000001-00000001.index",
        "99999999999999999999-ffffffff.segment",
        "00000000000000000009-00000002.segment",
        "spare-00000003.segment",
        "checkpoint-00000000000000000009.tmp",
    ]
)


@given(st.dictionaries(NAMES, st.binary(max_size=300)))
def test_any_bytes_under_any_name_are_findings_and_no_error(contents: dict[str, bytes]) -> None:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    for name, content in contents.items():
        disk.replace(DIRECTORY / name, content)
    if not any(map(is_part, contents)):
        with pytest.raises(JournalMissingError):
            verify(DIRECTORY, disk)
        return
    segments = [name for name in contents if name.endswith(".segment") and not name.startswith("spare")]
    assert len([finding for finding in verify(DIRECTORY, disk) if finding.fatal]) >= len(segments)


def test_real_files_are_checked_as_simulated_ones_are(tmp_path: Path) -> None:
    written = write_groups(GROUPS, closed=True)
    for name, content in written.disk.files(DIRECTORY).items():
        (tmp_path / name).write_bytes(content)
    assert verify(tmp_path) == []
    record = written.records[2]
    path = tmp_path / written.segment.name
    changed = bytearray(written.content)
    changed[record.stop - 1] ^= 1
    path.write_bytes(changed)
    assert [(f.file, f.offset, f.fatal) for f in verify(tmp_path)] == [(path, record.offset, True)]
