"""One record for several queues, exchanges and transient queues, through power losses, failing calls and crashes: all of it or nothing."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from random import Random
from typing import Any
from unittest import mock

import pytest

from actors.exchanges.definitions import Definitions
from actors.queue import found_queues
from actors.queue.vocabulary.events import MessagesAdded
from actors.storage import Storage, codec, contents
from actors.storage.durable_definitions import DurableDefinitions
from actors.storage.together import decode_in_turn, decode_together
from journal import housekeeping
from journal.reclaim import weigh
from tests.fault.disk import SimulatedDisk
from tests.fault.faulty_files import WRITING, Call, Fault, FaultyFiles, Kind
from tests.fault.history import HistoryError
from tests.fault.queues_program import QueuesProgram, verify_queues_survive
from tests.fault.workload import End, Outcome

CHUNK = 20
CHUNKS = (0, *(pytest.param(first, marks=pytest.mark.soak) for first in range(CHUNK, 200, CHUNK)))
"""First seeds; `make soak` runs ten thousand."""
SEEING = range(60)
"""Seeds in which everything happens that may."""
TRIED = range(100)
"""Seeds within which a defect must show."""
SEEDS = (6, pytest.param(0, marks=pytest.mark.soak), pytest.param(3, marks=pytest.mark.soak))
"""Every call of one run, and of the others where there is time."""
NTHS = (0, *(pytest.param(nth, marks=pytest.mark.soak) for nth in range(1, 6)))
"""Every sixth call, which comes to calls of every kind; and where there is time, the others."""
STEPS = 120
FAILING = {"create", "write", "sync", "sync_directory", "allocate", "truncate", "rename"}
"""Operations whose failure nobody can go on from; that a file could not be removed may be passed over."""


@pytest.mark.parametrize("first", CHUNKS)
def test_what_was_answered_survives_power_losses_in_all_its_queues(first: int) -> None:
    for seed in range(first, first + CHUNK):
        verify_queues_survive(seed)


def test_the_runs_see_what_they_are_meant_to_see() -> None:
    seen: Counter[str] = Counter()
    wanted = {
        "life that died",
        "life that closed",
        "checkpoint",
        "unconfirmed changes lost",
        "record of several queues",
        "record of several queues in a combined segment",
        "record of durable and transient queues",
        "record of transient queues alone",
        "dead letters to several queues",
        "commit over several queues",
        "several events of a queue in one record",
        "transaction that publishes and settles",
        "queue that went with its bindings",
        "transient queue that was forgotten",
    }
    for seed in SEEING:
        seen += verify_queues_survive(seed)
        if all(seen[each] for each in wanted):
            return
    pytest.fail(f"not seen: {[each for each in wanted if not seen[each]]}")


# --- a fault at each call


@cache
def scene(seed: int) -> tuple[QueuesProgram, SimulatedDisk, tuple[Call, ...]]:
    """A directory that a killed process left, and the calls that the next one makes on it."""
    program, disk = QueuesProgram(seed), SimulatedDisk()
    program.live(FaultyFiles(disk, Fault(220, Kind.PANIC_WITHIN)), 250)
    disk = disk.crash(Random(seed))
    files = FaultyFiles(disk.restart())
    assert copy.deepcopy(program).live(files, STEPS).end is End.CLOSED
    return program, disk, tuple(files.calls)


def sites(seed: int, *operations: str) -> list[int]:
    return [site for site, call in enumerate(scene(seed)[2]) if not operations or call.operation in operations]


def run(seed: int, fault: Fault) -> tuple[Outcome, FaultyFiles]:
    """One life with a fault, the next process on the same machine, and a third after a power loss."""
    begun, left, _ = scene(seed)
    program, files = copy.deepcopy(begun), FaultyFiles(left.restart(), fault)
    outcome = program.live(files, STEPS)
    disk: Any = files._inner.restart()
    for steps in (20, 0):
        after = program.live(FaultyFiles(disk), steps)
        assert after.end is End.CLOSED, f"{fault}: the next start failed: {after.failure!r}"
        disk = disk.crash(Random(seed))
    return outcome, files


@pytest.mark.parametrize("nth", NTHS)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [Kind.PANIC_BEFORE, Kind.PANIC_WITHIN, Kind.PANIC_AFTER])
def test_a_crash_at_any_call_leaves_all_of_a_record_or_nothing(kind: Kind, seed: int, nth: int) -> None:
    found = sites(seed, "write") if kind is Kind.PANIC_WITHIN else sites(seed)
    assert len(found) > 30
    for site in found[nth::6]:
        outcome, files = run(seed, Fault(site, kind))
        assert files.dead
        assert outcome.end is End.DIED


@pytest.mark.parametrize("nth", NTHS)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [Kind.EIO, Kind.ENOSPC, Kind.SHORT_ENOSPC])
def test_a_call_that_fails_ends_the_store_clearly_and_loses_nothing_that_was_answered(
    kind: Kind, seed: int, nth: int
) -> None:
    found = sites(seed, *({"write"} if kind is Kind.SHORT_ENOSPC else FAILING))
    assert len(found) > 30
    for site in found[nth::6]:
        outcome, files = run(seed, Fault(site, kind))
        assert outcome.end is End.FAILED, f"call {site}: it went on"
        reason = "Input/output error" if kind is Kind.EIO else "No space left on device"
        assert reason in str(outcome.failure)
        later = [call for call in files.calls[files.struck[-1] + 1 :] if call.operation in WRITING]
        assert not later, f"after {files.calls[files.struck[-1]]} failed, it went on with {later}"


@pytest.mark.parametrize("nth", NTHS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_read_that_fails_loses_nothing(seed: int, nth: int) -> None:
    found = sites(seed, "read", "open", "size", "names", "lock", "unlink")
    assert len(found) > 30
    ends = Counter(run(seed, Fault(site, Kind.EIO))[0].end for site in found[nth::6])
    assert ends[End.FAILED] > 10
    assert not ends[End.DIED]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_disk_that_fills_up_ends_the_store_clearly_and_room_brings_it_back_whole(seed: int) -> None:
    failed = 0
    for capacity in range(4_000, 40_000, 2_000):
        program = QueuesProgram(seed)
        disk: Any = SimulatedDisk(capacity)
        outcome = program.live(FaultyFiles(disk), STEPS)
        if outcome.end is End.FAILED:
            failed += 1
            assert "No space left on device" in str(outcome.failure)
        disk = disk.crash(Random(capacity)) if capacity % 4_000 else disk.restart()
        disk.capacity = None
        assert program.live(disk, 10).end is End.CLOSED
    assert failed > 2, "the disk hardly ever filled up"


# --- what it must find


@contextmanager
def record_without_one_of_its_queues() -> Iterator[None]:
    """A start has what several queues got in all of them but the last."""

    def left_out(payload: memoryview) -> Any:
        found = decode_together(payload)
        added = [number for number, event in found.events.items() if type(event) is MessagesAdded]
        kept = {number: event for number, event in found.events.items() if len(added) < 2 or number != added[-1]}
        return found._replace(events=kept)

    with mock.patch.object(contents, "decode_together", left_out):
        yield


@contextmanager
def one_queue_by_a_record_of_its_own() -> Iterator[None]:
    """What several queues get has a record for the last of them, just behind that for the others."""
    record_all = Storage.record_all

    def divided(storage: Storage, events: Mapping[int, Any], version: Any = None) -> int:
        added = [number for number, event in events.items() if type(event) is MessagesAdded]
        if len(added) < 2:
            return record_all(storage, events, version)
        record_all(storage, {number: event for number, event in events.items() if number != added[-1]}, version)
        return record_all(storage, {added[-1]: events[added[-1]]})

    with mock.patch.object(Storage, "record_all", divided):
        yield


@contextmanager
def definitions_answered_before_they_are_durable() -> Iterator[None]:
    change = DurableDefinitions.change_definitions

    def hasty(self: DurableDefinitions, *changed: Any) -> int:
        change(self, *changed)
        return 0

    with mock.patch.object(DurableDefinitions, "change_definitions", hasty):
        yield


@contextmanager
def definitions_recorded_after_their_answer() -> Iterator[None]:
    advance, record = Storage._advance, Storage._record_changes
    left: list[Any] = []

    def put_off(storage: Storage, *changed: Any) -> int:
        left.append(changed)
        return storage.durable

    def later(storage: Storage) -> None:
        while left and not storage._checkpoints.halted:
            record(storage, *left.pop(0))
        advance(storage)

    with mock.patch.object(Storage, "_record_changes", put_off), mock.patch.object(Storage, "_advance", later):
        yield


@contextmanager
def checkpoints_without_definitions() -> Iterator[None]:
    def forgetful(definitions: Definitions, definitive: Any) -> None:
        definitions.number = definitive.number

    with mock.patch.object(Definitions, "restore", forgetful):
        yield


@contextmanager
def everything_answered_before_it_is_durable() -> Iterator[None]:
    carry_out = QueuesProgram._carry_out

    def hasty(program: QueuesProgram, *done: Any) -> None:
        carry_out(program, *done)
        program._changes[-1].answered = True

    with mock.patch.object(QueuesProgram, "_carry_out", hasty):
        yield


@contextmanager
def dead_letters_that_stay_where_they_were() -> Iterator[None]:
    decode = codec.decode_stored

    def staying(*asked: Any) -> Any:
        return decode(*asked)[0], None

    with mock.patch.object(codec, "decode_stored", staying):
        yield


@contextmanager
def transient_queues_that_a_start_keeps() -> Iterator[None]:
    with mock.patch.object(found_queues, "_forget_transient", return_value=None):
        yield


@contextmanager
def segments_that_are_dead_when_one_queue_is_done() -> Iterator[None]:
    """A segment is given back though another queue wants some of what it holds."""

    def hasty(segments: Any, live: Any) -> Any:
        def one_of(stream: int, first: int, stop: int) -> int:
            return live(stream, first, stop) if stream % 2 else 0

        return weigh(segments, one_of)

    with mock.patch.object(housekeeping, "weigh", hasty):
        yield


@contextmanager
def commits_that_one_queue_misses() -> Iterator[None]:
    ended = contents.ended_stages

    def halved(*asked: Any) -> Any:
        found = ended(*asked)
        return dict(list(found.items())[:1])

    with mock.patch.object(contents, "ended_stages", halved):
        yield


@contextmanager
def settlements_that_a_start_has_by_half() -> Iterator[None]:
    def halved(payload: memoryview) -> Any:
        return decode_in_turn(payload)[:1]

    with mock.patch.object(contents, "decode_in_turn", halved):
        yield


DEFECTS = [
    settlements_that_a_start_has_by_half,
    record_without_one_of_its_queues,
    one_queue_by_a_record_of_its_own,
    definitions_answered_before_they_are_durable,
    definitions_recorded_after_their_answer,
    checkpoints_without_definitions,
    everything_answered_before_it_is_durable,
    dead_letters_that_stay_where_they_were,
    transient_queues_that_a_start_keeps,
    segments_that_are_dead_when_one_queue_is_done,
    commits_that_one_queue_misses,
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.__name__)
def test_a_defect_is_found_within_a_few_seeds(defect: Callable[[], AbstractContextManager[None]]) -> None:
    with defect():
        for seed in TRIED:
            try:
                verify_queues_survive(seed)
            except HistoryError:
                return
    pytest.fail(f"none of {len(TRIED)} seeds found it")
