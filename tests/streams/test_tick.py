"""tick: on a grid, under demand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from streams import Sink, Source
from streams.publishers.tick import TICK_GRACE
from streams.testkit import TestSink, VirtualTimeLoop, run_in_virtual_time, settle


def now() -> float:
    return asyncio.get_running_loop().time()


def timers() -> list[asyncio.TimerHandle]:
    return [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]


def test_ticks_count_and_keep_their_interval() -> None:
    async def main() -> None:
        seen: list[tuple[int, float]] = []
        await Source.tick(2.0, initial_delay=1.0).take(4).to(Sink.foreach(lambda n: seen.append((n, now())))).run()
        assert seen == [(0, 1.0), (1, 3.0), (2, 5.0), (3, 7.0)]
        assert timers() == []

    run_in_virtual_time(main())


def test_a_tick_that_nobody_asks_for_is_dropped_and_the_grid_stays() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        running = Source.tick(1.0).to(sink).run()
        await sink.expect_no_message(10.5)
        await sink.request_next(0)
        assert now() == 11.0
        await sink.expect_no_message(5.25)
        await sink.request_next(1)
        assert now() == 17.0
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())


def test_no_timer_runs_without_demand_or_after_the_end() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        running = Source.tick(1.0).to(sink).run()
        await settle()
        assert timers() == []
        sink.request(5)
        assert len(timers()) == 1
        sink.cancel()
        assert timers() == []
        await running

    run_in_virtual_time(main())


def test_ticks_do_not_drift() -> None:
    async def main() -> None:
        await Source.tick(0.1).take(1001).to(Sink.ignore()).run()
        assert now() == pytest.approx(100.0, abs=1e-6)

    run_in_virtual_time(main())


@pytest.mark.parametrize(("seconds", "delay"), [(0, 0), (-1, 0), (1, -1)])
def test_intervals_that_make_no_sense_are_refused(seconds: float, delay: float) -> None:
    with pytest.raises(ValueError, match="tick"):
        Source.tick(seconds, delay)


def test_a_request_for_less_than_one_fails_the_stream_rule_3_9() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        running = Source.tick(1.0).to(sink).run()
        sink.request(1)
        sink.request(0)
        await sink.expect_error(ValueError)
        await sink.expect_no_message(5)
        with pytest.raises(ValueError, match=r"3\.9"):
            await running

    run_in_virtual_time(main())


def test_on_a_real_clock_the_first_tick_comes_at_once_and_is_not_dropped() -> None:
    async def main() -> None:
        began = now()
        assert await Source.tick(60.0).take(1).run_with(Sink.collect()) == [0]
        assert await Source.tick(60.0).scan(0, max).scan(0, max).take(2).run_with(Sink.collect()) == [0, 0]
        assert await Source.tick(60.0).map_async(1, at_once).take(1).run_with(Sink.collect()) == [0]
        assert now() - began < 30

    async def at_once(number: int) -> int:
        return number

    asyncio.run(main())


class LateLoop(VirtualTimeLoop):
    """A loop whose time goes on while a callback is at work, as far as the test says."""

    late = 0.0

    def time(self) -> float:
        return super().time() + self.late


def run_late(main: Callable[[LateLoop], Coroutine[Any, Any, None]]) -> None:
    async def begin() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, LateLoop)
        await main(loop)

    with asyncio.Runner(loop_factory=LateLoop) as runner:
        runner.run(begin())


def test_a_tick_that_became_due_while_downstream_was_at_work_comes_when_that_is_done() -> None:
    async def main(loop: LateLoop) -> None:
        seen: list[tuple[int, float]] = []

        def work(number: int) -> None:
            seen.append((number, now()))
            if number < 2:
                loop.late += 1.25  # longer than the interval

        await Source.tick(1.0).take(4).run_with(Sink.foreach(work))
        # 1 is due at 1.0 and 2 at 2.0; then the grid is kept, and none of it is made up for.
        assert seen == [(0, 0.0), (1, 1.25), (2, 2.5), (3, 3.0)]

    run_late(main)


def test_ticks_that_were_missed_are_dropped_but_for_the_last() -> None:
    async def main(loop: LateLoop) -> None:
        seen: list[tuple[int, float]] = []

        def work(number: int) -> None:
            seen.append((number, now()))
            if number == 0:
                loop.late += 10.5

        await Source.tick(1.0).take(3).run_with(Sink.foreach(work))
        assert seen == [(0, 0.0), (1, 10.5), (2, 11.0)]

    run_late(main)


def test_demand_that_comes_a_moment_after_the_tick_still_gets_it() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        running = Source.tick(1.0).to(sink).run()
        await sink.expect_no_message(3.0 + TICK_GRACE / 2)
        await sink.request_next(0)
        assert now() == pytest.approx(3.0 + TICK_GRACE / 2)
        await sink.expect_no_message(0.5)
        await sink.request_next(1)
        assert now() == pytest.approx(4.0)
        await sink.expect_no_message(1.0 + TICK_GRACE * 2)
        await sink.request_next(2)
        assert now() == pytest.approx(6.0)
        running.abandon()

    run_in_virtual_time(main())


def test_a_stream_that_is_cancelled_before_its_clock_starts_sets_no_timer() -> None:
    async def main() -> None:
        running = Source.tick(1.0).to(Sink.ignore()).run()
        running.abandon()
        await settle()
        assert timers() == []

    run_in_virtual_time(main())
