"""What a replica keeps aside goes when it is of no use: what a dropped transfer has left, and the oldest of what was cut off its log."""

from __future__ import annotations

from random import Random

import pytest

from journal import JournalFailedError, JournalLockedError, TransferTarget, diverged, diverged_records
from journal.diverged import diverged_name
from journal.names import stem_of
from journal.transfer_target import discard_transfer
from tests.fault.disk import ROOT, SimulatedDisk
from tests.fault.faulty_files import Fault, FaultyFiles, Kind, Panic
from tests.journal.replicas import DIRECTORY, SMALL, Node, plain
from tests.journal.test_installing import put, received
from tests.journal.test_transfer import NEW, complete, in_memory, take_all

TAIL = 3


def dropped(*, whole: bool = False) -> SimulatedDisk:
    """With a transfer that broke off behind several segments, or ended before it came into its place."""
    disk = SimulatedDisk()
    target = TransferTarget(NEW, SMALL, disk)
    if whole:
        take_all(target)
    else:
        target.add(in_memory()[0])
        target.close()
    return disk


@pytest.mark.parametrize("whole", [False, True])
def test_what_a_transfer_has_left_is_removed_with_its_folder(whole: bool) -> None:
    disk = dropped(whole=whole)
    assert discard_transfer(disk, NEW)
    assert NEW.name not in disk.names(ROOT)
    assert NEW.name not in disk.crash(Random(1)).names(ROOT)
    assert not discard_transfer(disk, NEW)


def test_a_transfer_that_is_being_taken_is_not_removed() -> None:
    disk = dropped()
    target = TransferTarget(NEW, SMALL, disk)
    with pytest.raises(JournalLockedError):
        discard_transfer(disk, NEW)
    take_all(target)
    complete(disk)


def test_a_file_system_that_refuses_is_said() -> None:
    disk = dropped()
    with pytest.raises(JournalFailedError):
        discard_transfer(FaultyFiles(disk, Fault(3, Kind.EIO)), NEW)
    assert discard_transfer(disk, NEW)


@pytest.mark.parametrize("whole", [False, True])
def test_a_death_or_power_loss_at_any_call_leaves_nothing_that_a_later_transfer_goes_on_behind(whole: bool) -> None:
    files = FaultyFiles(dropped(whole=whole))
    discard_transfer(files, NEW)
    began = 0
    for call in range(len(files.calls)):
        disk = dropped(whole=whole)
        with pytest.raises(Panic):
            discard_transfer(FaultyFiles(disk, Fault(call, Kind.PANIC_AFTER)), NEW)
        for left in (disk.restart(), *(disk.crash(Random(100 * call + seed)) for seed in range(3))):
            target = TransferTarget(NEW, SMALL, left, replace=True)
            began += target.next_lsn == 0
            take_all(target)
            complete(left)
    assert began > len(files.calls)


# What was cut off


def cut_again(node: Node, turn: int) -> Node:
    """Another tail, of this turn's records, is cut off."""
    node.start()
    node.lead(10 + turn).event(b"turn %d" % turn)
    node.run()
    node = node.killed(starts=False)
    node.journal.truncate(node.journal.next_lsn - 1)
    return node


def kept(node: Node) -> list[str]:
    return [name for name in node.disk.names(DIRECTORY) if name.startswith("diverged-")]


def turns(node: Node) -> set[bytes]:
    return {row[4] for name in kept(node) for row in plain(diverged_records(node.disk, DIRECTORY / name))}


def stopped() -> Node:
    node = Node().lead(1)
    node.events(5)
    node.commit()
    node.run()
    return node.killed(starts=False)


def test_the_oldest_of_many_goes_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diverged, "MAX_DIVERGED_FILES", TAIL)
    node = stopped()
    for turn in range(12):
        node = cut_again(node, turn)
        assert len(kept(node)) == min(turn + 1, TAIL)
        assert turns(node) == {b"turn %d" % each for each in range(max(0, turn + 1 - TAIL), turn + 1)}
    [said] = [line for line in node.reports if "the oldest" in line]
    assert f"more than {TAIL} files" in said


def test_the_oldest_of_much_goes_and_the_newest_stays_however_large_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    node = stopped()
    for turn in range(4):
        node = cut_again(node, turn)
    assert len(kept(node)) == 4
    monkeypatch.setattr(diverged, "MAX_DIVERGED_BYTES", 0)
    again = node.killed(starts=False)
    assert turns(again) == {b"turn 3"}
    assert any("is removed, for there was more than" in line for line in again.reports)


def test_what_cannot_be_removed_stays_and_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    node = stopped()
    for turn in range(2):
        node = cut_again(node, turn)
    monkeypatch.setattr(diverged, "MAX_DIVERGED_FILES", 1)
    reports = list[str]()
    diverged.bound_diverged(FaultyFiles(node.disk, Fault(0, Kind.EIO, "unlink")), DIRECTORY, reports.append)
    assert len(kept(node)) == 2
    assert ["cannot be removed" in line for line in reports] == [True]
    diverged.bound_diverged(node.disk, DIRECTORY, reports.append)
    assert turns(node) == {b"turn 1"}


def test_names_are_numbered_by_age_whatever_was_there() -> None:
    names: set[str] = set()
    for number, stem in enumerate((stem_of(9, 3), stem_of(4, 2), stem_of(9, 3)), 1):
        names.add(found := diverged_name(stem, names))
        assert found == (f"diverged-{stem}.segment" if number == 1 else f"diverged-{number}-{stem}.segment")
    assert diverged_name(stem_of(1, 1), {*names, "diverged-40-" + stem_of(2, 2) + ".segment", "x"}).startswith(
        "diverged-41-"
    )


def test_an_install_keeps_what_it_replaces_under_names_of_their_own_and_says_them() -> None:
    disk = received()[0].restart()
    put(disk)
    node = Node(disk, directory=DIRECTORY)
    before = set(kept(node))
    assert before
    node = cut_again(node.killed(starts=False), 1)
    assert before < set(kept(node))
    assert b"turn 1" in turns(node)
