"""A damaged replica's journal is put aside whole, to the end whatever interrupts it; the directory is another replica's then."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest

from journal import JournalFailedError, JournalLockedError, kept, set_aside
from journal.names import REPLICA, is_part
from tests.fault.disk import SimulatedDisk
from tests.fault.faulty_files import Fault, FaultyFiles, Kind, Panic
from tests.journal.replicas import DIRECTORY, Node, log_of

FOLDER = DIRECTORY / "damaged-1"


@cache
def before() -> tuple[SimulatedDisk, str, tuple[Any, ...]]:
    """A replica with a checkpoint and a tail; its id, and its log."""
    node = Node(directory=DIRECTORY).lead(1)
    node.events(5)
    node.commit()
    node.checkpoint(b"state")
    node.events(3)
    node.run()
    node.journal.close()
    rows = tuple(log_of(Node(node.disk.restart(), directory=DIRECTORY)))
    return node.disk.restart(), node.journal.directory_id, rows


def put(files: Any, said: list[str] | None = None) -> None:
    set_aside(files, DIRECTORY, (said if said is not None else []).append)


def moved(disk: SimulatedDisk) -> bool:
    """Whether it was begun, and so is done: the directory is another's, and empty, and the folder has all. Else it is as before."""
    _, directory_id, rows = before()
    node = Node(disk, directory=DIRECTORY)
    if node.journal.directory_id == directory_id:
        assert tuple(log_of(node)) == rows
        return False
    assert (node.journal.next_lsn, node.journal.cluster_id, node.journal.checkpoint_payload) == (1, "", None)
    assert kept(disk, DIRECTORY).damaged == 1
    assert [name for name in disk.names(DIRECTORY) if name.endswith(".part")] == []
    node.journal.close()
    # What was put aside can be read, by whoever moves it to where it was; only whose it was it does not tell any more.
    there = Node(disk.restart(), directory=FOLDER)
    assert tuple(log_of(there)) == rows
    assert there.journal.fresh
    return True


def test_the_journal_is_in_a_folder_and_the_directory_begins_anew() -> None:
    disk, said = before()[0].restart(), []
    put(disk, said)
    assert said == [
        f"{DIRECTORY}: the journal was put aside, into damaged-1; remove that when nobody needs it any more"
    ]
    assert [name for name in disk.names(DIRECTORY) if is_part(name) or name == REPLICA] == []
    assert moved(disk)


def test_a_second_one_comes_beside_the_first() -> None:
    disk = before()[0].restart()
    put(disk)
    node = Node(disk, directory=DIRECTORY).lead(1)
    node.events(1)
    node.run()
    node.journal.close()
    put(disk)
    assert kept(disk, DIRECTORY).damaged == 2
    assert REPLICA in disk.names(DIRECTORY / "damaged-2")


def test_none_is_put_aside_while_it_is_open() -> None:
    disk = before()[0].restart()
    node = Node(disk, directory=DIRECTORY)
    with pytest.raises(JournalLockedError):
        put(disk)
    assert kept(disk, DIRECTORY).damaged == 0
    node.journal.close()


def test_what_was_cut_off_is_counted() -> None:
    node = Node(directory=DIRECTORY).lead(1)
    node.events(6)
    node.run()
    node.journal.close()
    node = Node(node.disk.restart(), directory=DIRECTORY, starts=False)
    assert kept(node.disk, DIRECTORY) == (0, 0, 0)
    node.journal.truncate(4)
    found = kept(node.disk, DIRECTORY)
    assert (found.files, found.damaged) == (1, 0)
    assert found.nbytes > 0


@cache
def calls() -> int:
    files = FaultyFiles(before()[0].restart())
    put(files)
    return len(files.calls)


@pytest.mark.parametrize("kind", [Kind.PANIC_BEFORE, Kind.PANIC_AFTER])
def test_a_death_at_any_call_leaves_it_as_it_was_or_put_aside(kind: Kind) -> None:
    found = set()
    for call in range(calls()):
        disk = before()[0].restart()
        try:
            put(FaultyFiles(disk, Fault(call, kind)))
        except Panic:
            found.add(moved(disk.restart()))
    assert found == {False, True}


def test_a_power_loss_at_any_call_leaves_it_as_it_was_or_put_aside() -> None:
    found = set()
    for call in range(calls()):
        disk = before()[0].restart()
        with pytest.raises(Panic):
            put(FaultyFiles(disk, Fault(call, Kind.PANIC_AFTER)))
        for seed in range(3):
            found.add(moved(disk.crash(Random(100 * call + seed))))
    assert found == {False, True}


def test_a_file_system_that_refuses_is_said_and_the_next_start_goes_on() -> None:
    refused = 0
    for call in range(calls()):
        disk = before()[0].restart()
        try:
            put(FaultyFiles(disk, Fault(call, Kind.EIO)))
        except JournalFailedError:
            refused += 1
            moved(disk.restart())
        except OSError:
            assert moved(disk.restart())  # of the lock, when all is done
    assert refused
