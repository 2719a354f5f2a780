"""A transfer that is whole comes into the place of a replica's journal, to the end whatever interrupts it; the replica stays who it was."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from journal import (
    JournalDamagedError,
    JournalError,
    JournalFailedError,
    JournalLockedError,
    ReplicaError,
    TransferTarget,
    diverged_records,
    repair,
    verify,
)
from journal.backup import Manifest
from journal.installing import install
from journal.names import INCOMING, INSTALLING
from journal.restore import back_up_directory
from tests.fault.disk import ROOT, SimulatedDisk
from tests.fault.faulty_files import Fault, FaultyFiles, Kind, Panic
from tests.journal.replicas import DIRECTORY, SMALL, Node, log_of, logs, plain, ship
from tests.journal.test_transfer import fill, filled, more, source_of, wanted

OWN_TAIL = 5
"""Records of the follower's log that were never committed."""


@cache
def leader() -> Node:
    return filled()


@cache
def received() -> tuple[SimulatedDisk, int, str]:
    """A follower far behind, with a tail of its own and a transfer that is whole; where the new log begins, and who it is."""
    node = Node().lead(1)
    node.events(3)
    node.commit()
    node.checkpoint(b"old")
    node.events(OWN_TAIL)
    node.run()
    node.journal.promise(7)
    directory_id = node.journal.directory_id
    node.journal.close()
    source = source_of(leader())
    fill(source, TransferTarget(DIRECTORY / INCOMING, SMALL, node.disk))
    source.release()
    return node.disk.restart(), source.lsn, directory_id


def put(files: Any) -> None:
    install(files, DIRECTORY, received()[1], 4, lambda _: None)


def backup(directory: Path, disk: SimulatedDisk) -> None:
    back_up_directory(directory, ROOT / "backup", Manifest(0, 0, 0, "", {}), disk)


def opened(disk: SimulatedDisk) -> Node:
    return Node(disk, directory=DIRECTORY)


def is_new(node: Node) -> None:
    """The node has what was sent, and nothing of what it had, and is who it was."""
    _, lsn, directory_id = received()
    assert node.journal.checkpoint_payload == b"the state"
    assert (node.journal.next_lsn, node.journal.log_start) == (lsn, lsn)
    assert (node.journal.directory_id, node.journal.promised) == (directory_id, 7)
    assert not node.journal.fresh
    assert wanted(node) == wanted(leader())
    names = node.disk.names(DIRECTORY)
    assert INSTALLING not in names
    assert INCOMING not in names


def test_a_replica_goes_on_as_who_it_was_with_what_was_sent() -> None:
    disk, lsn, _ = received()
    disk = disk.restart()
    put(disk)
    assert [found for found in verify(DIRECTORY, disk.restart()) if found.fatal] == []
    node = opened(disk)
    is_new(node)
    behind = Node(leader().disk.restart())
    behind.journal.committed(behind.journal.next_lsn)
    behind.lead(9)
    more(behind, 90, 93)
    ship(behind, node)
    node.run()
    assert log_of(node) == log_of(behind, lsn)
    is_same = opened(node.disk.restart())
    assert is_same.journal.position == behind.journal.position


def test_what_was_never_committed_is_kept_beside_it_and_said() -> None:
    disk = received()[0].restart()
    reports: list[str] = []
    install(disk, DIRECTORY, received()[1], 4, reports.append)
    kept = [name for name in disk.names(DIRECTORY) if name.startswith("diverged-")]
    assert [name for name in kept if name not in reports[-1]] == []
    numbers = [row[0] for name in kept for row in plain(diverged_records(disk, DIRECTORY / name))]
    assert numbers[-OWN_TAIL:] == list(range(4, 4 + OWN_TAIL))


def test_what_is_all_committed_leaves_nothing_beside_it() -> None:
    disk = received()[0].restart()
    install(disk, DIRECTORY, received()[1], 4 + OWN_TAIL, pytest.fail)
    assert [name for name in disk.names(DIRECTORY) if name.startswith("diverged-")] == []
    is_new(opened(disk))


def test_nothing_comes_in_that_is_not_whole_and_nothing_into_what_is_open() -> None:
    disk = SimulatedDisk()
    node = Node(disk).lead(1)
    with pytest.raises(JournalLockedError):
        put(disk)
    node.journal.close()
    with pytest.raises(JournalError):
        put(disk)
    target = TransferTarget(DIRECTORY / INCOMING, SMALL, disk)
    target.close()
    with pytest.raises(ReplicaError, match="no transfer that is whole"):
        put(disk)
    assert opened(disk).journal.next_lsn == 1


@pytest.mark.parametrize("look", [verify, repair, backup])
def test_what_was_begun_is_neither_repaired_nor_taken_for_damage_nor_backed_up(look: Any) -> None:
    disk = received()[0].restart()
    with pytest.raises(Panic):
        put(FaultyFiles(disk, Fault(calls() // 2, Kind.PANIC_AFTER)))
    disk = disk.restart()
    assert INSTALLING in disk.names(DIRECTORY)
    with pytest.raises(ReplicaError, match="start its node"):
        look(DIRECTORY, disk)
    is_new(opened(disk))


def test_a_note_that_is_damaged_is_said() -> None:
    disk = received()[0].restart()
    with pytest.raises(Panic):
        put(FaultyFiles(disk, Fault(calls() // 2, Kind.PANIC_AFTER)))
    disk = disk.restart()
    content = bytearray(disk.content(DIRECTORY / INSTALLING))
    content[3] ^= 4
    disk.replace(DIRECTORY / INSTALLING, bytes(content))
    with pytest.raises(JournalDamagedError, match=INSTALLING):
        opened(disk)


@cache
def calls() -> int:
    files = FaultyFiles(received()[0].restart())
    put(files)
    return len(files.calls)


def settled(disk: SimulatedDisk) -> bool:
    """Whether it is the new journal. If not, it is the old one, whole, and the new one can still come."""
    node = opened(disk)
    if node.journal.checkpoint_payload == b"old":
        assert [row[0] for row in log_of(node)][-1] == 3 + OWN_TAIL
        node.journal.close()
        put(disk)
        is_new(opened(disk))
        return False
    is_new(node)
    assert [found for found in verify(DIRECTORY, disk.restart()) if found.fatal] == []
    return True


@pytest.mark.parametrize("kind", [Kind.PANIC_BEFORE, Kind.PANIC_WITHIN, Kind.PANIC_AFTER])
def test_a_death_at_any_call_leaves_the_old_journal_or_the_new_one(kind: Kind) -> None:
    found = set()
    for call in range(calls()):
        disk = received()[0].restart()
        try:
            put(FaultyFiles(disk, Fault(call, kind)))
        except Panic:
            found.add(settled(disk.restart()))
    assert found == {False, True}


def test_a_power_loss_at_any_call_leaves_the_old_journal_or_the_new_one() -> None:
    found = set()
    for call in range(calls()):
        disk = received()[0].restart()
        with pytest.raises(Panic):
            put(FaultyFiles(disk, Fault(call, Kind.PANIC_AFTER)))
        for seed in range(2):
            found.add(settled(disk.crash(Random(100 * call + seed))))
    assert found == {False, True}


def test_a_second_interruption_is_no_worse_than_one() -> None:
    random = Random(7)
    for call in range(calls() // 3, calls()):
        disk = received()[0].restart()
        with pytest.raises(Panic):
            put(FaultyFiles(disk, Fault(call, Kind.PANIC_AFTER)))
        left = disk.crash(random)
        files = FaultyFiles(left, Fault(random.randrange(60), Kind.PANIC_AFTER))
        try:
            Node(files, directory=DIRECTORY)
        except Panic:
            settled(left.crash(random))


def test_a_file_system_that_refuses_is_said_and_the_next_start_goes_on() -> None:
    refused = 0
    for call in range(0, calls(), 3):
        disk = received()[0].restart()
        try:
            put(FaultyFiles(disk, Fault(call, Kind.EIO)))
        except (JournalFailedError, JournalDamagedError):
            refused += 1
            settled(disk.restart())
    assert refused
    assert logs(received()[0])
