"""A fault at each call that a run makes: the journal fails clearly and for good, and a restart finds all that was reported."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import pytest

from journal import Journal, JournalError
from journal.files import OsFiles
from tests.fault.defects import believing_short_writes, hasty, retrying
from tests.fault.disk import SimulatedDisk
from tests.fault.faulty_files import WRITING, Call, Fault, FaultyFiles, Kind
from tests.fault.history import HistoryError
from tests.fault.workload import End, Opener, Outcome, Workload

SEEDS = (1, 2, 3)
FIRST_AND_MORE = (1, pytest.param(2, marks=pytest.mark.soak), pytest.param(3, marks=pytest.mark.soak))
"""Calls of one run, and of the others where there is time."""
SIXTHS = (0, *(pytest.param(sixth, marks=pytest.mark.soak) for sixth in range(1, 6)))
"""Every sixth call, which comes to calls of every kind; and where there is time, the others."""
STEPS = 150
FAILING = {"create", "write", "sync", "sync_directory", "allocate", "truncate", "rename"}
"""Operations whose failure the journal cannot go on from; that a file could not be removed it may pass over."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A directory that a killed process left, with a torn tail maybe, and the calls that the next process makes on it."""

    workload: Workload
    disk: SimulatedDisk
    calls: tuple[Call, ...]

    def sites(self, *operations: str) -> list[int]:
        return [index for index, call in enumerate(self.calls) if call.operation in operations]


@cache
def scene(seed: int) -> Scene:
    workload = Workload(seed)
    disk = SimulatedDisk()
    workload.live(FaultyFiles(disk, Fault(90 + seed, Kind.PANIC_WITHIN)), STEPS)
    disk = disk.crash(Random(seed))
    files = FaultyFiles(disk.restart())
    assert copy.deepcopy(workload).live(files, STEPS).end is End.CLOSED
    return Scene(workload, disk, tuple(files.calls))


def run(seed: int, fault: Fault, opener: Opener = Journal.open) -> tuple[Outcome, FaultyFiles]:
    """One life with a fault, the next process on the same machine, and a third after a power loss."""
    begin = scene(seed)
    workload = copy.deepcopy(begin.workload)
    workload.opener = opener
    disk = begin.disk.restart()
    files = FaultyFiles(disk, fault)
    outcome = workload.live(files, STEPS)
    workload.opener = Journal.open
    disk = disk.restart()
    for steps in (20, 0):
        after = workload.live(FaultyFiles(disk), steps)
        if after.end is not End.CLOSED:
            raise HistoryError(f"seed {seed}, {fault}: the next start failed: {after.failure!r}") from after.failure
        disk = disk.crash(Random(seed))
    return outcome, files


def verify_failed_for_good(outcome: Outcome, files: FaultyFiles) -> None:
    """The failure is said, with the system's reason, and nothing was written or synced after it."""
    if outcome.end is not End.FAILED:
        raise HistoryError(f"the journal went on: {outcome.end}")
    struck = files.struck[-1]
    if not isinstance(outcome.failure, JournalError):
        raise HistoryError(f"failed with {outcome.failure!r}")
    if not any(reason in str(outcome.failure) for reason in ("No space left on device", "Input/output error")):
        raise HistoryError(f"does not say why: {outcome.failure}")
    later = [call for call in files.calls[struck + 1 :] if call.operation in WRITING]
    if later:
        raise HistoryError(f"after {files.calls[struck]} failed, the journal went on with {later}")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_runs_make_every_kind_of_call(seed: int) -> None:
    made = {call.operation for call in scene(seed).calls}
    assert made >= {"create", "write", "sync", "sync_directory", "allocate", "rename", "unlink", "read", "lock"}


@pytest.mark.parametrize("sixth", SIXTHS)
@pytest.mark.parametrize("seed", FIRST_AND_MORE)
@pytest.mark.parametrize("kind", [Kind.EIO, Kind.ENOSPC, Kind.SHORT_ENOSPC])
def test_an_error_at_any_call_that_writes_fails_the_journal_for_good_and_loses_nothing(
    kind: Kind, seed: int, sixth: int
) -> None:
    sites = scene(seed).sites(*(("write",) if kind is Kind.SHORT_ENOSPC else FAILING))
    assert len(sites) > 30
    for site in sites[sixth::6]:
        outcome, files = run(seed, Fault(site, kind))
        verify_failed_for_good(outcome, files)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_file_that_cannot_be_removed_loses_nothing(seed: int) -> None:
    sites = scene(seed).sites("unlink")
    assert sites
    for site in sites:
        outcome, files = run(seed, Fault(site, Kind.EIO))
        assert files.struck
        assert outcome.end in {End.CLOSED, End.FAILED}


@pytest.mark.parametrize("seed", FIRST_AND_MORE)
def test_a_read_that_fails_fails_the_journal_or_is_reported_and_loses_nothing(seed: int) -> None:
    sites = scene(seed).sites("read", "open", "size", "names", "lock")
    assert len(sites) > 10
    for site in sites:
        outcome, _ = run(seed, Fault(site, Kind.EIO))
        assert "Input/output error" in f"{outcome.failure} {outcome.reports}"


@pytest.mark.parametrize("seed", FIRST_AND_MORE)
def test_a_short_write_is_continued(seed: int) -> None:
    sites = scene(seed).sites("write")
    assert len(sites) > 10
    for site in sites:
        outcome, _ = run(seed, Fault(site, Kind.SHORT))
        assert outcome.end is End.CLOSED, f"seed {seed}, call {site}: {outcome.failure!r}"


@pytest.mark.parametrize("sixth", SIXTHS)
@pytest.mark.parametrize("seed", FIRST_AND_MORE)
@pytest.mark.parametrize("kind", [Kind.PANIC_BEFORE, Kind.PANIC_WITHIN, Kind.PANIC_AFTER])
def test_a_panic_around_any_call_loses_nothing(kind: Kind, seed: int, sixth: int) -> None:
    sites = scene(seed).sites("write") if kind is Kind.PANIC_WITHIN else range(len(scene(seed).calls))
    assert len(sites) > 30
    for site in sites[sixth::6]:
        outcome, files = run(seed, Fault(site, kind))
        assert files.dead
        assert outcome.end is End.DIED


@pytest.mark.parametrize("seed", FIRST_AND_MORE)
def test_a_disk_that_fills_up_fails_the_journal_clearly_and_room_brings_it_back_whole(seed: int) -> None:
    failed = 0
    for capacity in range(1000, 40_000, 1000):
        workload = Workload(seed)
        disk = SimulatedDisk(capacity)
        outcome = workload.live(FaultyFiles(disk), STEPS)
        if outcome.end is End.FAILED:
            failed += 1
            assert "No space left on device" in str(outcome.failure)
        disk = disk.crash(Random(capacity)) if capacity % 2000 else disk.restart()
        disk.capacity = None
        assert workload.live(disk, 10).end is End.CLOSED
    assert failed > 10


@pytest.mark.parametrize("sixth", SIXTHS)
@pytest.mark.parametrize("kind", [Kind.PANIC_BEFORE, Kind.PANIC_WITHIN, Kind.PANIC_AFTER, Kind.EIO])
def test_on_real_files_too_a_fault_at_any_call_loses_nothing(kind: Kind, sixth: int, tmp_path: Path) -> None:
    begin = FaultyFiles(OsFiles())
    assert Workload(1, directory=tmp_path / "whole").live(begin, 60).end is End.CLOSED
    sites = [site for site, call in enumerate(begin.calls) if call.operation in WRITING]
    assert len(sites) > 30
    for site in sites[sixth * 3 :: 18]:
        workload = Workload(1, directory=tmp_path / str(site))
        files = FaultyFiles(OsFiles(), Fault(site, kind))
        outcome = workload.live(files, 60)
        files.release()
        assert outcome.end is (End.FAILED if kind is Kind.EIO else End.DIED) or files.calls[site].operation == "unlink"
        assert workload.live(OsFiles(), 10).end is End.CLOSED


def first_caught(kind: Kind, defect: Opener, operation: str) -> HistoryError | None:
    for seed in SEEDS:
        for site in scene(seed).sites(operation):
            try:
                outcome, files = run(seed, Fault(site, kind), defect)
                if kind is not Kind.SHORT:
                    verify_failed_for_good(outcome, files)
            except HistoryError as caught:
                return caught
    return None


def test_a_journal_that_tries_a_failed_sync_again_is_caught() -> None:
    assert first_caught(Kind.EIO, retrying, "sync") is not None


def test_a_journal_that_takes_a_short_write_for_a_whole_one_is_caught() -> None:
    assert first_caught(Kind.SHORT, believing_short_writes, "write") is not None


def test_a_journal_that_reports_before_it_syncs_is_caught() -> None:
    assert first_caught(Kind.EIO, hasty, "write") is not None
