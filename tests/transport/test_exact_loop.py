"""The loop of ``penstock broker`` tells the time as asyncio's own does, and calls nobody before it."""

from __future__ import annotations

import asyncio
import time

import pytest

exact_loop = pytest.importorskip("transport.shell.exact_loop", reason="uvloop is not installed")

pytestmark = pytest.mark.event_loop

LOOKS = 200
DELAYS = [number * 0.000_13 for number in range(100)]
"""Seconds: of all parts of a millisecond."""


def test_its_clock_is_that_of_deadlines_and_is_not_rounded() -> None:
    async def look() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(LOOKS):
            before, now, after = time.monotonic(), loop.time(), time.monotonic()
            assert before <= now <= after

    with asyncio.Runner(loop_factory=exact_loop.ExactLoop) as runner:
        runner.run(look())


def test_a_timer_is_never_early() -> None:
    async def early() -> list[float]:
        loop = asyncio.get_running_loop()
        found = []
        for delay in DELAYS:
            due, called = loop.time() + delay, loop.create_future()
            loop.call_at(due, lambda called=called: called.set_result(loop.time()))
            found.append(await called - due)
        return [late for late in found if late < 0]

    with asyncio.Runner(loop_factory=exact_loop.ExactLoop) as runner:
        assert runner.run(early()) == []


def test_a_time_that_is_past_is_at_once() -> None:
    async def called() -> bool:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        loop.call_at(loop.time() - 5, done.set_result, True)
        async with asyncio.timeout(5):
            return await done

    with asyncio.Runner(loop_factory=exact_loop.ExactLoop) as runner:
        assert runner.run(called())


@pytest.mark.parametrize("when", [float("inf"), 1e300])
def test_a_time_that_never_comes_may_be_waited_for(when: float) -> None:
    async def waited() -> bool:
        loop = asyncio.get_running_loop()
        timer = loop.call_at(when, pytest.fail)
        async with asyncio.timeout_at(when):
            await asyncio.sleep(0)
        timer.cancel()
        return True

    with asyncio.Runner(loop_factory=exact_loop.ExactLoop) as runner:
        assert runner.run(waited())


def test_a_timer_that_is_cancelled_calls_nobody() -> None:
    async def called() -> list[str]:
        loop = asyncio.get_running_loop()
        said: list[str] = []
        first = loop.call_at(loop.time() + 0.002, said.append, "cancelled")
        done = loop.create_future()
        loop.call_at(loop.time() + 0.004, done.set_result, None)
        first.cancel()
        await done
        return said

    with asyncio.Runner(loop_factory=exact_loop.ExactLoop) as runner:
        assert runner.run(called()) == []
