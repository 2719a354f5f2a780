"""tick: on a grid, under demand."""

from __future__ import annotations

import asyncio

import pytest

from streams import Sink, Source
from streams.testkit import TestSink, run_in_virtual_time, settle


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
