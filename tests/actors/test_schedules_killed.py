"""Whenever the broker dies, between any two calls of the disk: each time of a schedule is in all of its queues once, or in none yet."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from actors.queue.vocabulary.settings import QueueSettings
from actors.storage.with_entries import EventsWithEntries
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.schedules_bench import START, Schedules
from tests.actors.stored_queues import turns
from tests.actors.test_letters_killed import DATA, WatchedFiles
from tests.fault.disk import SimulatedDisk

ROOM = 3
"""Messages that the small queue has room for."""
END = 150
EVERY_TIME = list(range(10, END + 1, 10))


async def steps(bench: Schedules, seconds: int) -> None:
    """Second by second, each with commits, in which the process may die."""
    for _ in range(seconds):
        await elapse(1)
        await turns()
        await bench.settled()


async def whole_life(files: WatchedFiles) -> None:
    """Messages are stored in several queues, one waits for room and has it, and a checkpoint is made."""
    bench = Schedules(DATA, files=files)
    bench.queues.declare("small", QueueSettings(max_messages=ROOM))
    await bench.bound("fanout", "x", a="", b="")
    files.watches = True
    bench.declare("every 10s", "all", exchange="x", missed="all")
    bench.declare("every 10s", "waits", queue="small", missed="all")
    await steps(bench, 55)
    await bench.acknowledge("small", ROOM)
    await steps(bench, 10)
    bench.storage._checkpoints.make()
    await steps(bench, 30)
    await bench.die()


async def judged(disk: SimulatedDisk) -> int:
    """How many times were dealt with by what is on the disk; all the others are in the next life."""
    bench = Schedules(DATA, files=disk)
    before = bench.times("a")
    assert before == bench.times("b") == EVERY_TIME[: len(before)], "in both or in none"
    if list(bench.schedules) != ["all", "waits"]:
        await bench.die()
        return -1
    assert bench.schedules.get("all").progress.fired == len(before)
    bench.time_of_day = START + END
    bench.queues.get("small").tell(bench.queues.alter("small", {"max_messages": 1_000}))
    await bench.passes(5)
    assert bench.times("a") == bench.times("b") == EVERY_TIME, "once"
    found = bench.times("small")
    assert found == EVERY_TIME[-len(found) :], "once, but for what was acknowledged"
    assert len(EVERY_TIME) - len(found) <= ROOM
    await bench.die()
    return len(before)


def test_each_time_is_there_once_whenever_the_process_dies_or_the_power_goes() -> None:
    async def main() -> None:
        files = WatchedFiles(SimulatedDisk())
        # A group of one record each: the process may die between any two.
        with mock.patch("journal.writer.GROUP_RECORDS", 1):
            await whole_life(files)
        left = [await judged(disk) for disk in files.left[::3]]
        assert len(left) > 20
        assert max(left) == 9
        assert set(left) >= {0, 1, 2, 3, 4, 5, 6, 7, 8}

    run_in_virtual_time(main())


def test_a_message_that_is_recorded_apart_from_its_progress_is_found() -> None:
    """What this looks for it finds: a broker that would record the two one behind the other."""

    real = EventsWithEntries.record_with_entries

    def apart(storage: Any, events: Any, entries: Any) -> int:
        number: int = storage.record_all(events)
        return real(storage, {}, entries) or number

    async def main() -> None:
        files = WatchedFiles(SimulatedDisk())
        with (
            mock.patch("journal.writer.GROUP_RECORDS", 1),
            mock.patch.object(EventsWithEntries, "record_with_entries", apart),
        ):
            await whole_life(files)
        with pytest.raises(AssertionError):  # noqa: PT012 - one of them finds it
            for disk in files.left:
                await judged(disk)

    run_in_virtual_time(main())
