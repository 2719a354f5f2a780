"""Whose replica a directory is, and what it has promised: durable, checked, and no other directory's."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import (
    BackupWriter,
    FormatError,
    Journal,
    JournalDamagedError,
    JournalFailedError,
    JournalUsageError,
    Manifest,
    OsFiles,
    ReplicatedJournal,
    back_up_directory,
    repair,
    restore,
    verify,
)
from journal.names import REPLICA
from journal.replica_file import Replica, pack_replica, unpack_replica
from tests.fault.disk import ROOT, SimulatedDisk
from tests.fault.faulty_files import Fault, FaultyFiles, Kind, Panic
from tests.journal.replicas import DIRECTORY, SMALL, Node, log_of, logs

PATH = DIRECTORY / REPLICA
REPLICAS = st.builds(
    Replica,
    st.binary(min_size=16, max_size=16).map(bytes.hex),
    st.text(max_size=60),
    st.integers(0, 2**63),
    st.integers(0, 2**63),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**63),
)


@given(REPLICAS)
def test_what_is_written_comes_back(replica: Replica) -> None:
    assert unpack_replica(pack_replica(replica)) == replica


def test_a_flipped_bit_or_a_cut_is_noticed() -> None:
    packed = pack_replica(Replica("ab" * 16, "orders", 7, 99, 1))
    for bit in range(8 * len(packed)):
        changed = bytearray(packed)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(FormatError):
            unpack_replica(bytes(changed))
    for size in range(len(packed)):
        with pytest.raises(FormatError):
            unpack_replica(packed[:size])


@given(st.binary(max_size=80))
def test_any_bytes_are_a_replica_s_file_or_a_format_error(data: bytes) -> None:
    with pytest.raises(FormatError):
        unpack_replica(data)


@pytest.mark.parametrize(
    "replica",
    [
        Replica("ab" * 15, "", 0, 1, 1),
        Replica("ab" * 16, "x" * 256, 0, 1, 1),
        Replica("ab" * 16, "", -1, 1, 1),
        Replica("ab" * 16, "", 0, True, 1),
        Replica("ab" * 16, "", 0, 1, 1, -1),
        Replica("ab" * 16, 5, 0, 1, 1),  # type: ignore[arg-type]
    ],
)
def test_fields_that_cannot_be_are_refused(replica: Replica) -> None:
    with pytest.raises(FormatError, match="whose body does not"):
        unpack_replica(pack_replica(replica))


def test_a_directory_keeps_its_id_cluster_and_promise() -> None:
    node = Node()
    journal = node.journal
    assert journal.fresh
    assert len(bytes.fromhex(journal.directory_id)) == 16
    assert (journal.cluster_id, journal.promised) == ("", 0)
    journal.join("orders")
    journal.promise(3)
    journal.promise(3)
    for again in (node.killed().journal, node.closed().journal):
        assert not again.fresh
        assert (again.directory_id, again.cluster_id, again.promised) == (journal.directory_id, "orders", 3)
    assert Node().journal.directory_id != journal.directory_id


def test_a_promise_that_has_returned_is_durable_and_one_that_has_not_is_the_old_or_the_new() -> None:
    for call in range(12):
        disk = SimulatedDisk()
        node = Node(files := FaultyFiles(disk))
        node.journal.promise(4)
        before = len(files.calls)
        files._faults = (Fault(before + call, Kind.PANIC_AFTER),)
        returned = True
        try:
            node.journal.promise(9)
        except Panic:
            returned = False
        for seed in range(6):
            found = Node(disk.crash(Random(seed)), starts=False).journal
            assert found.promised in ((9,) if returned else (4, 9))
            assert found.directory_id == node.journal.directory_id


def test_what_was_not_synced_is_not_noted_as_durable_by_a_promise() -> None:
    node = Node(options=replace(SMALL, sync="never")).lead(1)
    node.events(3)
    node.run()
    assert node.durable[-1] == 4
    node.journal.promise(2)
    ends = {Node(node.disk.crash(Random(seed)), starts=False).journal.next_lsn for seed in range(20)}
    assert len(ends) > 1, "a power loss may take them, and that is no damage"
    node.journal.close()
    assert {Node(node.disk.crash(Random(seed)), starts=False).journal.next_lsn for seed in range(20)} == {4}


def test_an_older_epoch_is_not_promised() -> None:
    journal = Node().journal
    journal.promise(5)
    with pytest.raises(JournalUsageError, match="epoch 5 was"):
        journal.promise(4)
    for epoch in (0, 1 << 32):
        with pytest.raises(JournalUsageError, match="an epoch of a cluster"):
            journal.promise(epoch)


def test_a_directory_is_of_one_cluster_for_good() -> None:
    journal = Node().journal
    with pytest.raises(JournalUsageError, match="255 bytes"):
        journal.join("x" * 256)
    journal.join("orders")
    journal.join("orders")
    with pytest.raises(JournalUsageError, match="of the cluster 'orders'"):
        journal.join("other")


def test_a_promise_that_cannot_be_written_is_the_end_of_the_journal() -> None:
    files = FaultyFiles(SimulatedDisk())
    node = Node(files).lead(1)
    files._faults = (Fault(len(files.calls) + 2, Kind.EIO),)
    with pytest.raises(JournalFailedError):
        node.journal.promise(2)
    assert node.journal.failure is not None
    with pytest.raises(JournalFailedError):
        node.event()


def test_a_file_that_is_not_whole_refuses_the_start_and_a_repair_makes_the_directory_another() -> None:
    node = Node().lead(1)
    node.items(0, 0, 3)
    node.journal.close()
    disk = node.disk.restart()
    content = bytearray(disk.content(PATH))
    content[20] ^= 1
    disk.replace(PATH, bytes(content))
    with pytest.raises(JournalDamagedError, match="replica"):
        Node(disk)
    assert [(found.file, found.fatal) for found in verify(DIRECTORY, disk)] == [(PATH, True)]
    said = repair(DIRECTORY, disk)
    assert any("no replica of its cluster any more" in line for line in said)
    assert [found for found in verify(DIRECTORY, disk) if found.fatal] == []
    again = Node(disk)
    assert again.journal.fresh
    assert bytes(again.journal.read(0, 1).payload) == b"items"
    assert again.journal.log_start == 2, "what it holds is of no epoch any more"


def test_a_repair_that_loses_a_record_makes_the_directory_another() -> None:
    node = Node().lead(6)
    node.events(30)
    node.journal.promise(8)
    node.journal.close()
    disk = node.disk.restart()
    path = DIRECTORY / logs(disk)[1]
    content = bytearray(disk.content(path))
    content[200] ^= 1
    disk.replace(path, bytes(content))
    repair(DIRECTORY, disk)
    assert [found for found in verify(DIRECTORY, disk) if found.fatal] == []
    assert f"damaged-{REPLICA}" in disk.names(DIRECTORY)
    again = Node(disk.restart())
    assert again.journal.directory_id != node.journal.directory_id
    assert again.journal.promised == 0
    assert again.journal.position == (0, 30)
    alone = Journal.open(DIRECTORY, SMALL, disk.restart())
    assert alone.next_lsn == 31, "a broker that is alone may go on with it"


def test_a_repair_of_nothing_leaves_the_replica_as_it_is() -> None:
    node = Node().lead(6)
    node.events(30)
    node.journal.close()
    disk = node.disk.restart()
    before = disk.files(DIRECTORY)
    assert repair(DIRECTORY, disk) == []
    assert disk.files(DIRECTORY) == before


def test_a_directory_whose_file_was_removed_is_another_replica() -> None:
    node = Node().lead(6)
    node.events(3)
    node.run()
    disk = node.disk.restart()
    disk.unlink(PATH)
    again = Node(disk)
    assert again.journal.fresh
    assert again.journal.directory_id != node.journal.directory_id


def test_a_copied_directory_is_another_replica_and_a_moved_one_is_not(tmp_path: Path) -> None:
    one = ReplicatedJournal.open(tmp_path / "one", SMALL)
    one.promise(3)
    one.close()
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    reports: list[str] = []
    copy = ReplicatedJournal.open(tmp_path / "copy", SMALL, report=reports.append)
    assert copy.directory_id != one.directory_id
    assert (copy.promised, copy.fresh) == (0, True)
    assert any("it was copied from elsewhere" in line for line in reports)
    (tmp_path / "one").rename(tmp_path / "moved")
    moved = ReplicatedJournal.open(tmp_path / "moved", SMALL)
    assert (moved.directory_id, moved.promised, moved.fresh) == (one.directory_id, 3, False)
    assert OsFiles().names(tmp_path / "moved").count(REPLICA) == 1


def test_a_backup_has_no_such_file_and_what_is_restored_is_no_replica() -> None:
    node = Node().lead(4)
    for number in range(20):
        node.items(0, number, 1, bytes(100))
    node.commit()
    node.checkpoint()
    node.journal.close()
    disk = node.disk.restart()
    target, restored = ROOT / "backup", ROOT / "restored"
    back_up_directory(DIRECTORY, target, Manifest(0, 0, 0, "now", {}), disk)
    assert REPLICA not in disk.names(target)
    restore(target, restored, disk, lambda checkpoint: checkpoint._replace(epoch=1000))
    alone = Journal.open(restored, SMALL, disk)
    assert alone.epoch == 1001
    assert bytes(alone.read(0, 19).payload) == bytes(100)
    alone.close()
    again = ReplicatedJournal.open(restored, SMALL, disk)
    assert again.fresh
    assert again.directory_id != node.journal.directory_id
    assert again.position == (0, 20)


def test_a_backup_of_a_running_follower_is_whole() -> None:
    leader, follower = Node().lead(4), Node()
    for number in range(20):
        leader.items(0, number, 1, bytes(100))
    follower.journal.append_shipped(leader.journal.read_log(1))
    follower.run()
    follower.journal.committed(16)
    list(follower.journal.prepare_checkpoint(lambda _, first, stop: stop - first, 12))
    follower.journal.cut_checkpoint(12)
    pin = follower.journal.pins.take()
    follower.journal.store_checkpoint(b"state")
    follower.run()
    assert (pin.checkpoint_lsn, pin.lsn) == (12, 21)
    disk, target = follower.disk, ROOT / "backup"
    writer = BackupWriter(target, disk)
    for name, size in pin.files(disk, DIRECTORY):
        writer.begin(name)
        writer.write(disk.content(DIRECTORY / name)[:size])
        writer.end()
    writer.finish(Manifest(1, 1, pin.lsn, "now", {}))
    restore(target, ROOT / "restored", disk, lambda checkpoint: checkpoint)
    alone = Journal.open(ROOT / "restored", SMALL, disk)
    assert [record.lsn for record in alone.replay()] == list(range(12, 21))


def test_segments_that_a_program_of_before_knows_nothing_of_are_refused_by_it() -> None:
    node = Node().lead(1)
    node.event()
    node.run()
    headers = [segment.header.version for segment in node.journal._catalog.segments]
    assert headers == [2]
    (checkpoint,) = [name for name in node.disk.names(DIRECTORY) if name.startswith("checkpoint-")]
    assert node.disk.content(DIRECTORY / checkpoint)[8:10] == b"\2\0"
    assert log_of(node) == [(1, 1, 1, 0, b"event")]


def test_a_directory_that_is_removed_and_copied_back_is_another_replica(tmp_path: Path) -> None:
    """Its files may have the numbers that they had: a file system gives those of what is gone to what comes."""
    for number in range(10):
        directory, copy = tmp_path / f"data{number}", tmp_path / f"copy{number}"
        journal = ReplicatedJournal.open(directory, SMALL)
        first = journal.directory_id
        journal.close()
        shutil.copytree(directory, copy)
        journal = ReplicatedJournal.open(directory, SMALL)
        assert journal.directory_id == first
        journal.promise(9)
        journal.close()
        shutil.rmtree(directory)
        shutil.copytree(copy, directory)
        journal = ReplicatedJournal.open(directory, SMALL, report=lambda _: None)
        assert (journal.directory_id == first, journal.promised) == (False, 0)
        journal.close()


@pytest.mark.parametrize("over", [True, False])
def test_an_older_copy_that_is_put_over_a_directory_makes_it_another_replica(tmp_path: Path, *, over: bool) -> None:
    """Its lock is the same file as before. So is this one, where it is written over; where it is replaced, it is another."""
    directory, copy = tmp_path / "data", tmp_path / "copy"
    journal = ReplicatedJournal.open(directory, SMALL)
    first = journal.directory_id
    journal.promise(1)
    journal.close()
    shutil.copytree(directory, copy)
    journal = ReplicatedJournal.open(directory, SMALL)
    journal.promise(9)
    journal.close()
    if over:
        shutil.copytree(copy, directory, dirs_exist_ok=True)
    else:
        shutil.copy2(copy / REPLICA, directory / "aside")
        (directory / "aside").rename(directory / REPLICA)
    journal = ReplicatedJournal.open(directory, SMALL, report=lambda _: None)
    assert (journal.directory_id == first, journal.promised) == (False, 0)
    journal.close()
