"""The map beside the queues keeps what was confirmed, through power losses, failing calls and flipped bits, and is never a mix."""

from __future__ import annotations

import copy
import logging
from collections import Counter
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import pytest

from actors.errors import StorageError
from actors.storage import Storage, repair_storage, verify_storage
from actors.storage.durable_map import Sections
from journal import ManualCommitter
from streams.testkit import run_in_virtual_time
from tests.fault.disk import SimulatedDisk
from tests.fault.faulty_files import WRITING, Call, Fault, FaultyFiles, Kind
from tests.fault.history import HistoryError
from tests.fault.map_program import Change, MapProgram, entries_of, fold, verify_map_survives
from tests.fault.store_program import DATA, SMALL
from tests.fault.workload import End

CHUNK = 20
CHUNKS = (0, *(pytest.param(first, marks=pytest.mark.soak) for first in range(CHUNK, 200, CHUNK)))
SIXTHS = (0, *(pytest.param(sixth, marks=pytest.mark.soak) for sixth in range(1, 6)))
"""Every sixth call, which comes to calls of every kind; and where there is time, the others."""
STEPS = 120
RECORD_HEADER = 28
CHANGES: list[Change] = [
    ("smq", "a", b"one"),
    ("smq", "b", b"two"),
    ("smq", "a", b"three"),
    ("subscriptions", "c", b"x" * 20),
    ("smq", "b", None),
    ("subscriptions", "c", b""),
]
GROUPS = [[0, 1], [2], [3, 4], [5]]


@pytest.mark.parametrize("first", CHUNKS)
def test_what_was_confirmed_survives_power_losses(first: int) -> None:
    for seed in range(first, first + CHUNK):
        verify_map_survives(seed)


def test_the_runs_see_what_they_are_meant_to_see() -> None:
    seen: Counter[str] = Counter()
    for seed in range(15):
        seen += verify_map_survives(seed)
    assert {"life that died", "life that closed", "checkpoint", "unconfirmed changes lost", "entries left"} <= set(seen)


@cache
def scene() -> tuple[MapProgram, SimulatedDisk, tuple[Call, ...]]:
    """A directory that a killed process left, and the calls that the next one makes on it."""
    program, disk = MapProgram(5), SimulatedDisk()
    program.live(FaultyFiles(disk, Fault(90, Kind.PANIC_WITHIN)), STEPS)
    disk = disk.crash(Random(5))
    files = FaultyFiles(disk.restart())
    assert copy.deepcopy(program).live(files, STEPS).end is End.CLOSED
    return program, disk, tuple(files.calls)


def run(fault: Fault) -> End:
    """One life with a fault, the next process on the same machine, and a third after a power loss."""
    begun, left, _ = scene()
    program, disk = copy.deepcopy(begun), left.restart()
    end = program.live(FaultyFiles(disk, fault), STEPS).end
    disk = disk.restart()
    for steps in (20, 0):
        assert program.live(FaultyFiles(disk), steps).end is End.CLOSED, f"{fault}: the next start failed"
        disk = disk.crash(Random(5))
    return end


@pytest.mark.parametrize("sixth", SIXTHS)
@pytest.mark.parametrize("kind", [Kind.PANIC_BEFORE, Kind.PANIC_WITHIN, Kind.PANIC_AFTER])
def test_a_panic_around_any_call_loses_nothing_confirmed(kind: Kind, sixth: int) -> None:
    calls = scene()[2]
    sites = [site for site, call in enumerate(calls) if kind is not Kind.PANIC_WITHIN or call.operation == "write"]
    assert len(sites) > 30
    for site in sites[sixth::6]:
        assert run(Fault(site, kind)) is End.DIED


@pytest.mark.parametrize("sixth", SIXTHS)
@pytest.mark.parametrize("kind", [Kind.EIO, Kind.ENOSPC])
def test_a_failing_call_loses_nothing_confirmed(kind: Kind, sixth: int) -> None:
    sites = [site for site, call in enumerate(scene()[2]) if call.operation in WRITING]
    ends = Counter(run(Fault(site, kind)) for site in sites[sixth::6])
    assert ends[End.FAILED] > 10
    assert not ends[End.DIED]


def written() -> tuple[SimulatedDisk, Path]:
    """The map's changes in some group commits and one segment, as a process that was killed left them."""
    disk = SimulatedDisk()

    async def main() -> None:
        committer = ManualCommitter()
        storage = Storage.open(DATA, SMALL, files=disk, committer=committer)
        storage.start(lambda _: None)
        committer.run()
        for group in GROUPS:
            for change in group:
                storage.put(*CHANGES[change])
            committer.run()
        storage._journal.abandon()

    run_in_virtual_time(main())
    left = disk.restart()
    (name,) = [name for name in left.names(DATA) if name.endswith(".segment") and not name.startswith("spare")]
    return left, DATA / name


def start(disk: SimulatedDisk) -> Storage:
    return Storage.open(DATA, SMALL, files=disk)


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_is_refused_or_leaves_the_map_as_it_was_before_the_last_commit(
    bit: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    left, segment = written()
    content = left.content(segment).rstrip(b"\0")
    refused = cut = 0
    for offset in range(len(content)):
        disk = left.restart()
        changed = bytearray(left.content(segment))
        changed[offset] ^= 1 << bit
        disk.replace(segment, bytes(changed))
        try:
            storage = start(disk)
        except StorageError:
            refused += 1
            continue
        cut += 1
        # Nobody can tell a bad record of the last group from one that was not finished.
        assert storage.sections.number in {len(CHANGES) - len(GROUPS[-1]), len(CHANGES)}
        assert entries_of(storage) == fold(CHANGES[: storage.sections.number])
    assert refused > 4 * cut > 0


def test_a_flipped_bit_of_a_checkpoint_that_has_the_map_is_refused() -> None:
    left, _ = written()

    async def close() -> None:
        start(left).start(lambda _: None).close()

    run_in_virtual_time(close())
    left = left.restart()
    checkpoint = DATA / max(name for name in left.names(DATA) if name.startswith("checkpoint-"))
    assert entries_of(start(left.restart())) == fold(CHANGES)
    for offset in range(len(left.content(checkpoint))):
        disk = left.restart()
        changed = bytearray(left.content(checkpoint))
        changed[offset] ^= 4
        disk.replace(checkpoint, bytes(changed))
        with pytest.raises(StorageError):
            start(disk)


def test_verify_finds_a_damaged_change_and_after_repair_the_start_says_how_many_are_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk, segment = written()
    assert verify_storage(DATA, disk) == []
    changed = bytearray(disk.content(segment))
    changed[changed.index(b"three")] ^= 1
    disk.replace(segment, bytes(changed))
    assert [finding.fatal for finding in verify_storage(DATA, disk)] == [True]
    with pytest.raises(StorageError, match="repair"):
        start(disk.restart())
    assert repair_storage(DATA, disk)
    with caplog.at_level(logging.WARNING):
        storage = start(disk)
    assert [record.getMessage() for record in caplog.records if "map" in record.getMessage()] == [
        "1 changes of the durable map are lost with records that were damaged: what they changed is as it was before"
    ]
    assert entries_of(storage) == fold(CHANGES[:2] + CHANGES[3:])
    assert storage.sections.number == len(CHANGES)


def first_caught() -> HistoryError | None:
    for seed in range(60):
        try:
            verify_map_survives(seed)
        except HistoryError as caught:
            return caught
    return None


def test_a_checkpoint_without_the_map_is_caught() -> None:
    def forgetful(sections: Sections, number: int, _entries: Any) -> None:
        sections.number = number

    with mock.patch.object(Sections, "restore", forgetful):
        assert first_caught() is not None


def test_a_removal_that_is_forgotten_is_caught() -> None:
    apply = Sections.apply

    def keeping(sections: Sections, event: Any, lsn: int = 0) -> None:
        apply(sections, event if event.value is not None or sections.last_event else event._replace(value=b"?"), lsn)

    with mock.patch.object(Sections, "apply", keeping):
        assert first_caught() is not None


def test_a_confirmation_before_the_sync_is_caught() -> None:
    def hasty(program: MapProgram, storage: Storage) -> None:
        put(program, storage)
        program.confirmed = len(program.changes)

    put = MapProgram._put
    with mock.patch.object(MapProgram, "_put", hasty):
        assert first_caught() is not None
