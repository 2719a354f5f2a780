"""Loop futures: awaiting, blocking in other threads, refusing to block a loop, and pykka's derived futures."""

from __future__ import annotations

import asyncio
import operator
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pykka
import pytest

from actors.errors import BlockingCallOnLoopError
from actors.runtime.loop_future import LoopFuture


def test_a_value_set_before_is_there_at_once() -> None:
    future: LoopFuture[int] = LoopFuture()
    assert repr(future) == "<LoopFuture unset>"
    assert not future.done()
    future.set(7)
    assert repr(future) == "<LoopFuture set>"
    assert future.done()
    assert [future.get(), future.get(timeout=0)] == [7, 7]


def test_none_is_a_value() -> None:
    future: LoopFuture[None] = LoopFuture()
    future.set()
    assert future.done()
    assert future.get(timeout=0) is None


def test_an_exception_is_raised_each_time_with_its_traceback() -> None:
    future: LoopFuture[int] = LoopFuture()
    try:
        raise ZeroDivisionError("here")
    except ZeroDivisionError:
        future.set_exception()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="here") as caught:
            future.get()
        assert caught.traceback[-1].name == "test_an_exception_is_raised_each_time_with_its_traceback"


def test_an_exception_given_as_a_class_only_is_made() -> None:
    future: LoopFuture[int] = LoopFuture()
    future.set_exception((LookupError, None, None))
    with pytest.raises(LookupError):
        future.get()


@pytest.mark.parametrize(
    "second",
    [lambda future: future.set(2), lambda future: future.set_exception((LookupError, None, None))],
    ids=["set", "set_exception"],
)
def test_a_second_result_is_refused_as_in_pykka(second: Callable[[LoopFuture[int]], None]) -> None:
    valued: LoopFuture[int] = LoopFuture()
    valued.set(1)
    hooked: LoopFuture[int] = LoopFuture()
    hooked.set_get_hook(lambda _timeout: 1)
    for future in (valued, hooked):
        with pytest.raises(queue.Full):
            second(future)
        assert future.get() == 1
    with pytest.raises(queue.Full):
        valued.set_get_hook(lambda _timeout: 3)


def test_a_get_hook_runs_once_with_the_timeout() -> None:
    timeouts: list[float | None] = []

    def hook(timeout: float | None) -> int:
        timeouts.append(timeout)
        return 5

    future: LoopFuture[int] = LoopFuture()
    future.set_get_hook(hook)
    assert [future.get(timeout=2), future.get(timeout=3)] == [5, 5]
    assert timeouts == [2]


def test_get_in_a_thread_waits_until_the_loop_sets_the_value() -> None:
    async def scenario() -> int:
        future: LoopFuture[int] = LoopFuture()
        waiting = asyncio.get_running_loop().run_in_executor(None, lambda: future.get(timeout=30))
        asyncio.get_running_loop().call_soon(future.set, 9)
        return await waiting

    assert asyncio.run(scenario()) == 9


def test_get_gives_up_after_its_timeout_and_forgets_its_waiter() -> None:
    future: LoopFuture[int] = LoopFuture()
    with pytest.raises(pykka.Timeout, match=r"0\.001 seconds"):
        future.get(timeout=0.001)
    assert not future._waiters
    future.set(1)
    assert future.get() == 1


def test_get_of_an_unset_future_on_a_loop_is_refused_at_once() -> None:
    async def scenario() -> None:
        future: LoopFuture[int] = LoopFuture()
        for unset in (future, future.map(str)):
            with pytest.raises(BlockingCallOnLoopError, match="await the future instead"):
                unset.get(timeout=60)
        future.set(3)
        assert future.get() == 3
        assert future.map(str).get() == "3"

    asyncio.run(scenario())


def test_many_tasks_await_one_future_that_a_thread_sets() -> None:
    async def scenario() -> list[int]:
        future: LoopFuture[int] = LoopFuture()

        async def wait() -> int:
            return await future

        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            tasks = [group.create_task(wait()) for _ in range(20)]
            # Scheduled behind the tasks' first steps, so that they are all waiting by then.
            asyncio.get_running_loop().call_soon(threading.Thread(target=future.set, args=(4,)).start)
        return [task.result() for task in tasks]

    assert asyncio.run(scenario()) == [4] * 20


def test_a_cancelled_await_leaves_the_future_to_others() -> None:
    async def scenario() -> None:
        future: LoopFuture[int] = LoopFuture()

        async def wait() -> int:
            return await future

        impatient, patient = asyncio.create_task(wait()), asyncio.create_task(wait())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await future
        impatient.cancel()
        await asyncio.wait([impatient])
        assert impatient.cancelled()
        assert len(future._waiters or ()) == 1
        future.set(8)
        assert await patient == 8

    asyncio.run(scenario())


def test_setting_a_future_whose_waiter_is_on_a_closed_loop_is_no_error() -> None:
    future: LoopFuture[int] = LoopFuture()
    loop = asyncio.new_event_loop()
    awaiting = future.__await__()

    async def begin() -> None:
        next(awaiting)

    loop.run_until_complete(begin())
    loop.close()
    future.set(1)
    assert future.get() == 1
    awaiting.close()


def test_map_filter_reduce_and_join_work_as_in_pykka() -> None:
    future: LoopFuture[Any] = LoopFuture()
    other: LoopFuture[str] = LoopFuture()
    derived: list[LoopFuture[Any]] = [
        future.map(len),
        future.filter(lambda item: item > 1),
        future.reduce(operator.add),
        future.reduce(operator.add, 10),
        future.join(other),
        future.map(sum).map(str),
    ]
    future.set([1, 2, 3])
    other.set("x")
    expected = [3, [2, 3], 6, 16, [[1, 2, 3], "x"], "6"]
    assert [each.get(timeout=1) for each in derived] == expected


def test_derived_futures_can_be_awaited_before_their_sources_are_set() -> None:
    async def scenario() -> None:
        future: LoopFuture[Any] = LoopFuture()
        other: LoopFuture[str] = LoopFuture()

        async def wait(derived: LoopFuture[Any]) -> Any:
            return await derived

        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(wait(derived))
                for derived in (
                    future.map(len),
                    future.filter(lambda item: item > 1),
                    future.reduce(operator.add),
                    future.join(other),
                    future.map(sum).map(str),
                )
            ]
            asyncio.get_running_loop().call_soon(future.set, [1, 2, 3])
            asyncio.get_running_loop().call_soon(other.set, "x")
        assert [task.result() for task in tasks] == [3, [2, 3], 6, [[1, 2, 3], "x"], "6"]

    asyncio.run(scenario())


def test_a_derived_future_raises_what_its_source_or_function_raises() -> None:
    async def scenario() -> None:
        failed: LoopFuture[int] = LoopFuture()
        failed.set_exception((LookupError, LookupError("source"), None))
        with pytest.raises(LookupError, match="source"):
            await failed.map(str)
        valued: LoopFuture[int] = LoopFuture()
        valued.set(0)
        with pytest.raises(ZeroDivisionError):
            await valued.map(lambda value: 1 / value)

    asyncio.run(scenario())


def test_joining_a_threading_future_does_not_block_the_loop() -> None:
    async def scenario() -> Any:
        ours: LoopFuture[int] = LoopFuture()
        theirs: pykka.ThreadingFuture[int] = pykka.ThreadingFuture()
        loop = asyncio.get_running_loop()
        loop.call_soon(ours.set, 1)
        # The loop must be free to run this while the join below is awaited.
        loop.call_soon(theirs.set, 2)
        async with asyncio.timeout(30):
            return await ours.join(theirs)

    assert asyncio.run(scenario()) == [1, 2]


def test_threads_that_race_to_set_a_future_have_one_winner() -> None:
    def race(future: LoopFuture[int], barrier: threading.Barrier, value: int) -> bool:
        barrier.wait(timeout=30)
        try:
            future.set(value)
        except queue.Full:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        for _ in range(50):
            future: LoopFuture[int] = LoopFuture()
            barrier = threading.Barrier(4)
            outcomes = [pool.submit(race, future, barrier, value) for value in range(4)]
            won = [value for value, outcome in enumerate(outcomes) if outcome.result(timeout=30)]
            assert won == [future.get(timeout=1)]


def test_get_all_of_pykka_takes_loop_futures() -> None:
    futures: list[LoopFuture[int]] = [LoopFuture() for _ in range(3)]
    for value, future in enumerate(futures):
        future.set(value)
    assert pykka.get_all(futures) == [0, 1, 2]
