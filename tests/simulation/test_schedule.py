"""The simulated loop's turns: what asyncio orders stays in order, everything else comes in any."""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from streams.testkit import DeadlockError, elapse
from tests.simulation.loop import SimulatedLoop
from tests.simulation.schedule import Schedule

SEEDS = range(60)


def run(main: Callable[[SimulatedLoop], Coroutine[Any, Any, None]], schedule: Schedule | None = None) -> None:
    loop = SimulatedLoop(schedule)
    try:
        loop.run_until_complete(loop.create_task(main(loop)))
    finally:
        loop.close()
    assert loop.reports == []


def mixed(seed: int, rush: float = 0.0, pause: float = 0.0) -> Schedule:
    return Schedule(Random(seed), rush, pause)


def orders(scene: Callable[[SimulatedLoop, list[str]], None], rush: float = 0.0, pause: float = 0.0) -> set[str]:
    """Every order in which a scene's parts were noted, over many seeds."""
    found: set[str] = set()
    for seed in SEEDS:
        noted: list[str] = []

        async def main(loop: SimulatedLoop, noted: list[str] = noted) -> None:
            scene(loop, noted)
            await elapse(1.0)

        run(main, mixed(seed, rush, pause))
        found.add("".join(noted))
    return found


def every_order(letters: str, *lanes: str) -> set[str]:
    """All orders of letters in which those of a lane stay in theirs."""
    found = {"".join(order) for order in itertools.permutations(letters)}
    return {order for order in found if all("".join(sorted(set(lane), key=order.index)) == lane for lane in lanes)}


def test_interleaving_gives_every_order_that_keeps_lanes_and_no_other() -> None:
    schedule = mixed(1)
    items = [("x", "a"), ("x", "b"), ("y", "c"), ("z", "d")]
    found = {"".join(schedule.interleave(items)) for _ in range(500)}
    assert found == every_order("abcd", "ab")


def test_what_one_program_calls_soon_stays_in_order_and_programs_and_events_come_in_every_order() -> None:
    def scene(loop: SimulatedLoop, noted: list[str]) -> None:
        one, other = loop.process("one"), loop.process("other")
        for letter in "ab":
            loop.call_soon(noted.append, letter, context=one.context)
        loop.call_soon(noted.append, "c", context=other.context)
        loop.socket_ready("a socket", lambda: noted.append("d"), one.context)

    assert orders(scene) == every_order("abcd", "ab")
    assert orders(scene, pause=0.3) == every_order("abcd", "ab")


def test_a_task_is_of_the_process_that_began_it_whoever_asks_something_of_it() -> None:
    async def main(loop: SimulatedLoop) -> None:
        one, other = loop.process("one"), loop.process("other")
        done: list[str] = []

        async def work() -> None:
            await elapse(1.0)
            done.append("whole")

        task = one.spawn(work())
        await elapse(0.1)
        loop.call_soon(task.get_name, context=other.context)
        await elapse(0.1)
        assert (list(one.tasks), list(other.tasks)) == ([task], [])
        loop.kill(other)
        await task
        assert done == ["whole"]

    run(main)


def test_timers_of_the_same_moment_and_what_arrives_then_come_in_every_order() -> None:
    def scene(loop: SimulatedLoop, noted: list[str]) -> None:
        for letter in "ab":
            loop.call_at(0.5, noted.append, letter)
        for letter in "cd":
            loop.arrive_at(0.5, "a lane", lambda letter=letter: noted.append(letter))  # type: ignore[misc]  # bound now

    assert orders(scene) == every_order("abcd", "cd")


def test_timers_keep_the_order_of_their_times_and_fire_on_time() -> None:
    for seed in SEEDS:
        fired: list[float] = []

        async def main(loop: SimulatedLoop, fired: list[float] = fired) -> None:
            for when in (0.3, 0.1, 0.2):
                loop.call_at(when, lambda: fired.append(loop.time()))
            await elapse(1.0)

        run(main, mixed(seed, pause=0.3))
        assert fired == [0.1, 0.2, 0.3]


def test_what_is_under_way_arrives_ahead_of_its_time_while_there_is_work_in_the_order_of_its_lane() -> None:
    def scene(loop: SimulatedLoop, noted: list[str]) -> None:
        def work(left: int) -> None:
            noted.append("w")
            if left:
                loop.call_soon(work, left - 1)

        loop.call_soon(work, 2)
        for when, letter in ((0.2, "a"), (0.3, "b")):
            loop.arrive_at(when, "a lane", lambda letter=letter: noted.append(letter))  # type: ignore[misc]  # bound now

    assert orders(scene) == {"wwwab"}
    found = orders(scene, rush=0.5)
    assert {"wawbw", "wwabw", "awbww"} & found
    assert all(order.replace("w", "") == "ab" for order in found)


def test_nothing_of_a_killed_program_runs_wherever_it_waits() -> None:
    for seed in SEEDS:
        noted: list[str] = []

        async def main(loop: SimulatedLoop, noted: list[str] = noted) -> None:
            doomed = loop.process("doomed")
            doomed.call(loop.call_soon, lambda: loop.call_soon(noted.append, "soon"))
            doomed.call(loop.call_later, 0.1, noted.append, "timer")
            doomed.call(loop.arrive_at, 0.1, None, lambda: noted.append("arrival"))
            await asyncio.sleep(0)
            doomed.call(loop.socket_ready, "a socket", lambda: noted.append("socket"))
            loop.kill(doomed)
            noted.append("killed")
            doomed.call(loop.call_soon, noted.append, "after")
            await elapse(1.0)
            assert loop.timers() == 0

        run(main, mixed(seed, rush=0.5, pause=0.3))
        assert noted[-1] == "killed"


def test_a_killed_program_says_no_goodbye_when_nobody_holds_it_any_more() -> None:
    noted: list[str] = []

    async def lives(waits_for: asyncio.Future[None]) -> None:
        try:
            await waits_for
        finally:
            noted.append("goodbye")
            waits_for.get_loop().call_soon(noted.append, "somebody")

    async def main(loop: SimulatedLoop) -> None:
        doomed = loop.process("doomed")
        doomed.spawn(lives(doomed.call(loop.create_future)))
        doomed.spawn(lives(asyncio.get_running_loop().create_future()))
        await asyncio.sleep(0)
        loop.kill(doomed)
        del doomed
        gc.collect()
        await elapse(1.0)
        assert noted == []

    run(main)


def test_what_failed_as_a_program_was_killed_is_not_reported_and_what_a_living_one_never_looks_at_is() -> None:
    async def main(loop: SimulatedLoop) -> None:
        doomed, careless = loop.process("doomed"), loop.process("careless")

        async def watches(failing: asyncio.Future[None]) -> None:
            await asyncio.wait((failing,))
            failing.exception()

        async def fails() -> None:
            raise LookupError("a task")

        async def waits_for_it() -> None:
            await asyncio.wait((doomed.spawn(fails()),))

        async def gathers() -> None:
            await asyncio.gather(fails())

        failing = doomed.call(loop.create_future)
        doomed.spawn(gathers())
        await asyncio.sleep(0)
        doomed.spawn(watches(failing))
        doomed.spawn(waits_for_it())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        failing.set_exception(LookupError("a future"))
        loop.kill(doomed)
        careless.call(loop.create_future).set_exception(LookupError("careless"))

    loop = SimulatedLoop()
    loop.run_until_complete(loop.create_task(main(loop)))
    loop.abandon_tasks()
    gc.collect()
    loop.close()
    assert loop.reports == ["Future exception was never retrieved: LookupError('careless')"]


def test_nothing_left_to_wait_for_is_a_deadlock() -> None:
    async def main(loop: SimulatedLoop) -> None:
        loop.call_later(0.5, lambda: None).cancel()
        loop.arrive_at(0.5, None, lambda: None).cancel()
        await loop.create_future()

    with pytest.raises(DeadlockError, match="main"):
        run(main, mixed(0))
