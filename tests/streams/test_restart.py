"""Restart with back-off: the pauses to the second, how many there may be, and sources that begin again."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import RestartSettings, RestartSink, RestartSource, Sink, Source
from streams.stages.restarting import Backoff
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle
from tests.streams.restarting import EXACT, ONCE, Made, failing, now

# The pauses


def test_pauses_double_from_the_least_to_the_most() -> None:
    made = Made(lambda _n: failing())

    async def main() -> None:
        running = RestartSource.with_backoff(EXACT, made).run_with(Sink.ignore())
        await settle(40)
        assert made.times == [0, 1, 3, 7, 15, 23, 31, 39]
        running.cancel()

    run_in_virtual_time(main())


@given(st.integers(0, 200), st.floats(0, 1, exclude_max=True), st.floats(0, 3))
def test_the_random_part_stretches_a_pause_by_no_more_than_its_factor(
    restarts: int, chance: float, random_factor: float
) -> None:
    settings_ = RestartSettings(0.5, 64, random_factor, random=lambda: chance)
    backoff = Backoff(settings_, lambda: -1.0, only_on_failures=False)
    pause = [backoff.pause(None) for _ in range(restarts + 1)][-1]
    assert pause == pytest.approx(min(64, 0.5 * 2.0**restarts) * (1 + chance * random_factor))


def test_a_source_that_has_run_for_long_enough_begins_with_the_shortest_pause_again() -> None:
    made = Made(lambda n: Source.tick(100, 1 if n == 3 else 0.5).take(1).concat(failing()))

    async def main() -> None:
        running = RestartSource.with_backoff(EXACT, made).run_with(Sink.ignore())
        await settle(9)
        # 0.5 s is less than the 1 s after which counting begins anew; 1 s is not.
        assert made.times == [0, 1.5, 4, 6, 8.5]
        running.cancel()

    run_in_virtual_time(main())


def test_restarts_are_counted_within_the_time_given_for_that() -> None:
    settings_ = RestartSettings(1, 8, 0, max_restarts=2, max_restarts_within=10)
    made = Made(lambda n: Source.tick(100, 11 if n == 2 else 9).take(1).concat(failing()))

    async def main() -> None:
        with pytest.raises(OSError, match="broken"):
            await RestartSource.with_backoff(settings_, made).run_with(Sink.ignore())
        # The second ran for more than 10 s, so two more restarts were allowed after it.
        assert made.times == [0, 10, 22, 33]
        assert now() == 42

    run_in_virtual_time(main())


@pytest.mark.parametrize("max_restarts", [0, 1, 3])
def test_the_last_failure_is_the_streams_when_no_restart_is_left(max_restarts: int) -> None:
    settings_ = RestartSettings(1, 8, 0, max_restarts=max_restarts)
    made = Made(lambda n: Source.failed(OSError(f"number {n}")))

    async def main() -> None:
        with pytest.raises(OSError, match=f"number {max_restarts + 1}"):
            await RestartSource.with_backoff(settings_, made).run_with(Sink.ignore())
        assert len(made.times) == max_restarts + 1

    run_in_virtual_time(main())


def test_a_failure_that_is_not_worth_a_restart_is_the_streams() -> None:
    settings_ = RestartSettings(1, 8, 0, restart_on=lambda error: not isinstance(error, KeyError))
    made = Made(lambda n: failing() if n < 3 else Source.failed(KeyError("fatal")))

    async def main() -> None:
        with pytest.raises(KeyError, match="fatal"):
            await RestartSource.with_backoff(settings_, made).run_with(Sink.ignore())
        assert len(made.times) == 3

    run_in_virtual_time(main())


def test_a_predicate_that_fails_is_the_failure() -> None:
    def burst(_error: BaseException) -> bool:
        raise ZeroDivisionError

    settings_ = RestartSettings(1, 8, restart_on=burst)

    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await RestartSource.with_backoff(settings_, failing).run_with(Sink.ignore())
        with pytest.raises(ZeroDivisionError):
            await Source.of(1).run_with(RestartSink.with_backoff(settings_, lambda: Sink.foreach(lambda _: 1 / 0)))

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    "wrong",
    [
        {"min_backoff": 0},
        {"min_backoff": 9},
        {"random_factor": -0.1},
        {"max_restarts": -1},
        {"max_restarts_within": 0},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        RestartSettings(**({"min_backoff": 1, "max_backoff": 8} | wrong))


# Sources


def test_a_source_begins_again_when_it_completes_and_its_elements_follow_one_another() -> None:
    made = Made(lambda n: Source.of(n, -n))

    async def main() -> None:
        source = RestartSource.with_backoff(EXACT, made).take(6)
        assert await source.run_with(Sink.collect()) == [1, -1, 2, -2, 3, -3]
        assert made.times == [0, 1, 3]

    run_in_virtual_time(main())


def test_on_failures_only_a_source_that_completes_is_the_end() -> None:
    made = Made(lambda n: Source.of(n).concat(failing()) if n < 3 else Source.of(n))

    async def main() -> None:
        source = RestartSource.on_failures_with_backoff(EXACT, made)
        assert await source.run_with(Sink.collect()) == [1, 2, 3]

    run_in_virtual_time(main())


def test_demand_that_a_source_has_not_met_is_asked_of_the_next() -> None:
    sources = [TestSource[int](), TestSource[int]()]
    made = Made(lambda n: sources[n - 1])

    async def main() -> None:
        sink = TestSink[int](timeout=10)
        RestartSource.with_backoff(EXACT, made).to(sink).run()
        sink.request(5)
        await sources[0].probe.expect_request(5)
        sources[0].probe.send_next(1, 2)
        sources[0].probe.send_error(OSError("broken"))
        sink.request(2)
        await sources[1].probe.expect_request(5)
        sources[1].probe.send_next(3, 4, 5, 6, 7)
        await sink.expect_next(1, 2, 3, 4, 5, 6, 7)
        sink.cancel()
        await sources[1].probe.expect_cancellation()

    run_in_virtual_time(main())


def test_a_factory_that_fails_is_tried_again() -> None:
    def make(n: int) -> Source[int]:
        if n < 3:
            raise ConnectionRefusedError(n)
        return Source.of(n)

    async def main() -> None:
        source = RestartSource.on_failures_with_backoff(EXACT, Made(make))
        assert await source.run_with(Sink.collect()) == [3]
        assert now() == 3

    run_in_virtual_time(main())


def test_cancelling_within_a_pause_ends_everything_at_once() -> None:
    made = Made(lambda _n: failing())

    async def main() -> None:
        sink = TestSink[int]()
        running = RestartSource.with_backoff(EXACT, made).to(sink).run()
        await settle(0.5)
        sink.cancel()
        await running
        assert now() == 0.5
        assert [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()] == []  # type: ignore[attr-defined]
        await settle(100)
        assert made.times == [0]

    run_in_virtual_time(main())


def test_cancelling_a_task_that_awaits_the_stream_cancels_the_source_of_now() -> None:
    source = TestSource[int]()

    async def main() -> None:
        running = RestartSource.with_backoff(EXACT, lambda: source).run_with(Sink.ignore())

        async def wait() -> None:
            await running

        task = asyncio.create_task(wait())
        await source.probe.expect_subscription()
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert source.probe.cancelled
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


def test_a_source_that_has_ended_leaves_nothing_behind_however_often_that_happens() -> None:
    lives: list[weakref.ref[Any]] = []
    closed = 0

    class Life:
        async def elements(self) -> Any:
            nonlocal closed
            try:
                yield 1
                await elapse(0.001)
                raise OSError("broken")
            finally:
                closed += 1

    def make() -> Source[int]:
        life = Life()
        lives.append(weakref.ref(life))
        return Source.from_async_iterable(life.elements)

    async def main() -> None:
        settings_ = RestartSettings(0.001, 0.001, 0)
        running = (
            RestartSource.with_backoff(settings_, make).take(300).concat(Source.tick(1, 1e6)).run_with(Sink.ignore())
        )
        await settle(10)
        gc.collect()
        assert len(lives) == 300
        assert [life() for life in lives if life() is not None] == []
        assert closed == 300
        running.cancel()

    run_in_virtual_time(main())


def test_what_a_source_has_registered_with_its_run_ends_with_it_and_not_with_the_whole() -> None:
    ended: list[float] = []

    def make() -> Source[int]:
        def create(m: Any) -> Any:
            async def last_work() -> None:
                await elapse(0.25)
                ended.append(now())

            m.on_end(last_work)
            return failing().create(m)

        return Source(create)

    async def main() -> None:
        with pytest.raises(OSError, match="broken"):
            await RestartSource.with_backoff(ONCE, make).run_with(Sink.ignore())
        assert ended == [0.25, 1.25]

    run_in_virtual_time(main())


def test_a_failure_inside_the_run_of_a_source_is_a_failure_of_the_source() -> None:
    async def broken() -> None:
        raise OSError("a task of the source")

    def make(n: int) -> Source[int]:
        def create(m: Any) -> Any:
            if n == 1:
                m.spawn(broken(), "broken")
            return Source.tick(1).take(2).create(m)

        return Source(create)

    async def main() -> None:
        source = RestartSource.on_failures_with_backoff(EXACT, Made(make))
        assert await source.run_with(Sink.collect()) == [0, 0, 1]

    run_in_virtual_time(main())
