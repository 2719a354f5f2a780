"""Watermarks from numbers alone, on a loop whose clock is turned by hand."""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.broker import memory
from transport.broker.memory import (
    THRESHOLDS,
    collect_rarely,
    collect_young,
    kept_bytes,
    machine_bytes,
    memory_limit,
    release_memory,
    resident_bytes,
)
from transport.broker.watermarks import (
    DISK_LIFT,
    MEMORY_LIFT,
    WATERMARK_INTERVAL,
    DiskFloor,
    MemoryWatermark,
    Watermarks,
    free_bytes,
)
from transport.config.config import BrokerConfig

MIB = 2**20
DIRECTORY = Path("data")


class Told:
    """Queues that write down what they are told."""

    def __init__(self) -> None:
        self.pressure: list[bool] = []
        self.pauses: list[str | None] = []

    def set_memory_pressure(self, on: bool) -> None:
        self.pressure.append(on)

    def pause_senders(self, reason: str | None) -> None:
        self.pauses.append(reason)


class HandLoop:
    """The part of a loop that a timer needs; time passes when told."""

    def __init__(self) -> None:
        self.time = 0.0
        self.due: list[tuple[float, Callable[[], None], Any]] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> Any:
        handle = Handle()
        self.due.append((self.time + delay, callback, handle))
        return handle

    def advance(self, seconds: float) -> None:
        self.time += seconds
        ready = [entry for entry in self.due if entry[0] <= self.time]
        self.due = [entry for entry in self.due if entry[0] > self.time]
        for _, callback, handle in ready:
            if not handle.cancelled:
                callback()


class Handle:
    cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Machine:
    """Its figures, and the watermarks that look at them.

    Attributes:
        released: how often freed memory was given back.
    """

    def __init__(self, directory: Path | None = DIRECTORY, **options: Any) -> None:
        self.used, self.limit, self.free = 100 * MIB, 1000 * MIB, 100 * MIB
        self.kept: int | None = None
        self.failing = False
        self.released = 0
        self.told = Told()
        self.loop: Any = HandLoop()
        self.watermarks = Watermarks(
            BrokerConfig(**({"memory_watermark": 0.5, "disk_floor": 10 * MIB} | options)),
            directory,
            self.told,
            used=lambda: self.used,
            limit=lambda: self.limit,
            free=self._free,
            kept=lambda: self.kept,
            release=self._release,
        )

    def _free(self, directory: Path) -> int:
        assert directory == DIRECTORY
        if self.failing:
            raise OSError(5, "Input/output error")
        return self.free

    def _release(self) -> None:
        self.released += 1

    def look(self, **figures: Any) -> None:
        for name, value in figures.items():
            setattr(self, name, value)
        self.watermarks.look()


# Memory


def test_above_the_memory_watermark_caches_go_off_once_and_come_back_once_it_is_well_below() -> None:
    machine = Machine()
    for used in (500, 501, 900, 451, 450, 449, 460, 501):
        machine.look(used=used * MIB)
    assert machine.told.pressure == [True, False, True]
    assert machine.told.pauses == []


def test_with_a_journal_the_memory_watermark_lets_nobody_wait_and_in_memory_it_lets_senders() -> None:
    machine = Machine(None)
    machine.look(used=600 * MIB)
    (reason,) = machine.told.pauses
    assert (
        reason
        == "600 MiB of memory are used, and the watermark is 500 MiB: senders wait until receivers have made room"
    )
    assert machine.watermarks.statistics() == {
        "memory_watermark_bytes": 500 * MIB,
        "memory_pressure": True,
        "paused": reason,
    }
    machine.look(used=400 * MIB)
    assert machine.told.pauses == [reason, None]
    assert machine.watermarks.statistics()["paused"] is None


def test_a_limit_that_is_changed_while_the_broker_runs_counts_at_the_next_look() -> None:
    machine = Machine()
    machine.look(used=400 * MIB)
    machine.look(limit=500 * MIB)
    machine.look(limit=1000 * MIB)
    assert machine.told.pressure == [True, False]


def test_freed_memory_is_given_back_at_every_look_above_the_watermark_and_at_none_below() -> None:
    machine = Machine()
    machine.look(used=400 * MIB)
    assert machine.released == 0
    machine.look(used=600 * MIB)
    machine.look(used=600 * MIB)
    machine.look(used=400 * MIB)
    assert machine.released == 2


@given(st.lists(st.integers(0, 1200), max_size=40), st.floats(0.01, 1.0))
def test_memory_is_over_from_above_the_watermark_until_below_its_share_of_it(uses: list[int], share: float) -> None:
    mark, over = MemoryWatermark(share), False
    for used in uses:
        over = used > int(1000 * share) or (over and used > int(1000 * share) * MEMORY_LIFT)
        changed = mark.reached != over
        assert mark.look(used, 1000) == changed
        assert mark.reached == over


# Disk


def test_below_the_disk_floor_senders_wait_and_the_reason_says_what_exceeds_what() -> None:
    machine = Machine()
    for free in (100, 10, 9, 1, 10, 10.9):
        machine.look(free=int(free * MIB))
    (reason,) = machine.told.pauses
    assert reason == "at data 9 MiB are free, and the disk floor is 10 MiB: senders wait until there is room"
    machine.look(free=11 * MIB)
    assert machine.told.pauses == [reason, None]
    assert machine.told.pressure == []


def test_a_broker_in_memory_asks_no_disk() -> None:
    machine = Machine(None)
    machine.look(free=0)
    assert machine.told.pauses == []


def test_a_floor_of_zero_is_no_floor() -> None:
    machine = Machine(disk_floor=0)
    machine.look(free=0)
    machine.look(failing=True)
    assert machine.told.pauses == []


def test_a_disk_that_cannot_be_asked_lets_senders_wait_until_it_can() -> None:
    machine = Machine()
    machine.look(failing=True)
    machine.look(failing=True)
    machine.look(failing=False)
    reason, lifted = machine.told.pauses
    assert lifted is None
    assert reason == (
        "at data how much is free cannot be read (Input/output error), and the disk floor is 10 MiB: "
        "senders wait until it can be read; is the folder there?"
    )


@given(st.lists(st.one_of(st.just(OSError()), st.integers(0, 300)), max_size=40), st.integers(0, 200))
def test_a_disk_is_too_full_from_below_the_floor_until_above_its_multiple(
    frees: list[int | OSError], floor: int
) -> None:
    mark, full = DiskFloor(floor), False
    for free in frees:
        full = floor > 0 and (isinstance(free, OSError) or free < floor or (full and free < floor * DISK_LIFT))
        changed = mark.reached != full
        assert mark.look(free) == changed
        assert mark.reached == full


# The timer


def test_it_looks_at_the_start_and_then_every_interval_until_it_is_stopped() -> None:
    machine = Machine()
    machine.free = 0
    machine.watermarks.start(machine.loop)
    assert len(machine.told.pauses) == 1
    machine.free = 100 * MIB
    machine.loop.advance(WATERMARK_INTERVAL * 0.9)
    assert len(machine.told.pauses) == 1
    machine.loop.advance(WATERMARK_INTERVAL * 0.1)
    assert machine.told.pauses[1] is None
    for number in range(2, 6):
        machine.free = 0 if number % 2 == 0 else 100 * MIB
        machine.loop.advance(WATERMARK_INTERVAL)
        assert len(machine.told.pauses) == number + 1
    machine.watermarks.stop()
    machine.free = 0
    machine.loop.advance(10 * WATERMARK_INTERVAL)
    assert len(machine.told.pauses) == 6
    assert machine.loop.due == []


def test_a_look_that_fails_is_not_the_last_one() -> None:
    machine = Machine()
    machine.watermarks.start(machine.loop)
    used = machine.used
    machine.used = "not a number"
    with pytest.raises(TypeError):
        machine.loop.advance(WATERMARK_INTERVAL)
    machine.used = used
    machine.free = 0
    machine.loop.advance(WATERMARK_INTERVAL)
    assert len(machine.told.pauses) == 1


def test_it_can_be_stopped_before_it_is_started_and_twice() -> None:
    machine = Machine()
    machine.watermarks.stop()
    machine.watermarks.start(machine.loop)
    machine.watermarks.stop()
    machine.watermarks.stop()
    assert all(handle.cancelled for _, _, handle in machine.loop.due)


def test_what_changes_is_logged_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    for used, free in ((1, 100), (600, 100), (600, 1), (600, 100), (1, 100)):
        machine.look(used=used * MIB, free=free * MIB)
    assert [record.message for record in caplog.records] == [
        "600 MiB of memory are used, and the watermark is 500 MiB: caches are off",
        "at data 1 MiB are free, and the disk floor is 10 MiB: senders wait until there is room",
        "there is room again: senders go on",
        "1 MiB of memory are used, and the watermark is 500 MiB: caches are on again",
    ]


def test_on_a_real_loop_with_real_figures_nothing_is_wrong(tmp_path: Path) -> None:
    told = Told()

    async def main() -> None:
        watermarks = Watermarks(BrokerConfig(memory_watermark=1.0, disk_floor=1), tmp_path, told)
        watermarks.start(asyncio.get_running_loop())
        watermarks.stop()
        assert 0 < watermarks.memory.used < watermarks.memory.watermark

    asyncio.run(main())
    assert (told.pressure, told.pauses) == ([], [])


def test_the_least_memory_that_there_is_is_over_the_watermark_and_the_fullest_disk_below_the_floor(
    tmp_path: Path,
) -> None:
    told = Told()
    Watermarks(BrokerConfig(memory_watermark=1e-9, disk_floor=2**62), tmp_path, told).look()
    assert told.pressure == [True]
    (reason,) = told.pauses
    assert reason is not None
    assert str(tmp_path) in reason


# The readers


def group_tree(root: Path, groups: str, limits: dict[str, str]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for path, text in limits.items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.mark.parametrize(
    ("groups", "limits", "limit"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "500\n"}, 500),
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "400\n"}, 400),
        ("0::/a/b\n", {"a/b/memory.max": "300\n", "a/memory.max": "400\n", "memory.max": "350"}, 300),
        # A container with a name space of its own sees itself as the root.
        ("0::/\n", {"memory.max": "200\n"}, 200),
        ("0::/\n", {"memory.max": "max\n"}, 1000),
        ("0::/../other\n", {"memory.max": "200\n"}, 200),
        # Both versions at once.
        ("0::/x\n", {"unified/x/memory.max": "100\n"}, 100),
        ("5:memory:/c\n4:cpu:/c\n", {"memory/c/memory.limit_in_bytes": "90\n"}, 90),
        ("5:memory:/c/d\n", {"memory/c/memory.limit_in_bytes": "80\n"}, 80),
        ("5:cpu,memory:/c\n", {"cpu,memory/c/memory.limit_in_bytes": "70\n"}, 70),
        # A container without a name space of its own: the path is the host's, and only the mount's root is here.
        ("5:memory:/docker/abc\n", {"memory/memory.limit_in_bytes": "60\n"}, 60),
        ("5:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, 1000),
        ("5:memory:/\n", {"memory/memory.limit_in_bytes": "-1\n"}, 1000),
        ("0::/\n", {"memory.max": "nonsense \xff\n"}, 1000),
        ("0::/\n", {"memory.max": "0\n"}, 1000),
        ("", {}, 1000),
        ("nonsense\n::\n1:\n", {}, 1000),
        ("0::/a:b\n", {"a:b/memory.max": "50\n"}, 50),
    ],
)
def test_the_memory_limit_is_the_least_of_the_machines_and_every_groups(
    tmp_path: Path, groups: str, limits: dict[str, str], limit: int
) -> None:
    assert memory_limit(group_tree(tmp_path, groups, limits), 1000) == limit


def test_without_control_groups_the_machine_is_the_limit(tmp_path: Path) -> None:
    assert memory_limit(tmp_path) == machine_bytes() > 0
    assert 0 < memory_limit() <= machine_bytes()


def test_the_free_bytes_of_a_file_system_are_those_that_its_tools_tell(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) > 0
    with pytest.raises(FileNotFoundError):
        free_bytes(tmp_path / "absent")


def test_memory_that_was_freed_in_small_parts_is_given_back() -> None:
    # Of many sizes, with every hundredth kept in between: what the allocator cannot give back from its end.
    sizes = random.Random(1)
    parts = [bytes(sizes.randrange(600, 3000)) for _ in range(60_000)]
    kept = parts[::100]
    full = resident_bytes()
    del parts
    if (freed := kept_bytes()) is not None:
        assert freed > 50 * MIB, "the C library tells of it"
    release_memory()
    assert resident_bytes() < full - 50 * MIB
    assert len(kept) == 600


def freed_by_release() -> int:
    """How many pieces of memory are given back when three thousand tuples have been freed just before, of which Python keeps many."""
    tuples = [tuple(range(number, number + 5)) for number in range(3000)]
    del tuples
    before = sys.getallocatedblocks()
    release_memory()
    return before - sys.getallocatedblocks()


def test_a_broker_process_frees_what_python_keeps_to_use_again_and_in_another_that_is_its_programs_business() -> None:
    before = gc.get_threshold()
    try:
        assert freed_by_release() < 500
        collect_rarely()
        assert freed_by_release() > 1500
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_giving_memory_back_frees_young_cycles_and_a_full_collection_comes_when_it_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = gc.get_threshold()
    monkeypatch.setattr(memory, "THRESHOLDS", (150, 1, 300))
    monkeypatch.setattr(memory._Rounds, "counted", 0)
    try:
        collect_rarely()
        young = weakref.ref(Cycle())
        release_memory()
        assert young() is None
        aged = Cycle()
        gc.collect(1)
        gc.collect(1)
        seen = weakref.ref(aged)
        del aged
        for due in (False, True):
            for _ in range(200):
                gc.collect(1)
            assert seen() is not None
            release_memory()
            assert (seen() is None) is due
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def test_young_objects_are_left_to_a_program_that_has_a_broker_in_it() -> None:
    young = weakref.ref(Cycle())
    collect_young()
    assert young() is not None


def test_a_broker_process_does_not_look_for_cycles_among_all_that_it_has_at_the_start() -> None:
    before = gc.get_threshold()
    try:
        collect_rarely()
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold() == THRESHOLDS
        young, older, everything = THRESHOLDS
        assert young * older * everything >= 5_000_000, "rarely among all there is: Python's own is 200,000 at most"
        assert young * (older + 1) <= 15_000, "no more at a time than takes a turn of the loop five milliseconds"
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
