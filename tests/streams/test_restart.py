"""Restart with back-off: the pauses to the second, what survives a restart and what is lost, and when it is over."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import Flow, RestartFlow, RestartSettings, RestartSink, RestartSource, Sink, Source
from streams.stages.feed import FEED_WINDOW
from streams.stages.restarting import Backoff
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle

EXACT = RestartSettings(min_backoff=1, max_backoff=8, random_factor=0)
ONCE = RestartSettings(min_backoff=1, max_backoff=8, random_factor=0, max_restarts=1)


def now() -> float:
    return asyncio.get_running_loop().time()


def failing() -> Source[int]:
    return Source.failed(OSError("broken"))


class Made:
    """A factory that counts what it has made, and when."""

    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make
        self.times: list[float] = []

    def __call__(self) -> Any:
        self.times.append(now())
        return self.make(len(self.times))


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


# Flows


def test_a_flow_begins_again_when_it_fails_and_loses_what_was_inside() -> None:
    def burst(n: int) -> int:
        if n == 3:
            raise OSError("broken")
        return n

    made = Made(lambda _n: Flow[int, int].identity().grouped(2).map_concat(lambda pair: pair).map(burst))

    async def main() -> None:
        flow: Flow[int, int] = RestartFlow.with_backoff(EXACT, made)
        assert await Source.from_iterable(range(8)).via(flow).run_with(Sink.collect()) == [0, 1, 2, 4, 5, 6, 7]
        assert made.times == [0, 1]

    run_in_virtual_time(main())


def test_what_comes_in_a_pause_is_kept_for_the_next_flow_and_no_more_than_the_window_of_it() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=10)
        made = Made(lambda n: Flow[int, int].identity().map(lambda x: x // (x if n == 1 else 1)))
        source.via(RestartFlow.with_backoff(EXACT, made)).to(sink).run()
        sink.request(1000)
        await source.probe.expect_request(FEED_WINDOW)
        source.probe.send_next(0)
        source.probe.send_next(*range(2, FEED_WINDOW + 1))
        await source.probe.expect_no_request(0.5)
        await sink.expect_next(*range(2, FEED_WINDOW + 1))
        assert now() == 1
        await source.probe.expect_request(FEED_WINDOW)
        sink.cancel()
        await source.probe.expect_cancellation()

    run_in_virtual_time(main())


def test_a_flow_asks_for_no_more_than_the_one_inside_it() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.via(RestartFlow.with_backoff(EXACT, lambda: Flow[int, int].identity().map(abs))).to(sink).run()
        await source.probe.expect_no_request()
        sink.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(-1)
        await sink.expect_next(1)
        await source.probe.expect_no_request()
        sink.cancel()

    run_in_virtual_time(main())


def test_a_flow_ends_when_upstream_has_and_what_is_inside_is_out() -> None:
    async def main() -> None:
        flow: Flow[int, Any] = RestartFlow.with_backoff(EXACT, lambda: Flow[int, int].identity().grouped(2))
        assert await Source.of(1, 2, 3).via(flow).run_with(Sink.collect()) == [[1, 2], [3]]
        assert now() == 0

    run_in_virtual_time(main())


def test_a_failure_of_upstream_goes_through_the_flow_and_ends_the_stream() -> None:
    async def main() -> None:
        seen: list[str] = []
        with pytest.raises(OSError, match="broken"):
            await failing().via(RestartFlow.with_backoff(EXACT, Flow.identity)).run_with(Sink.ignore())
        recovering: Flow[Any, Any] = RestartFlow.with_backoff(EXACT, lambda: Flow.identity().recover(str))
        await failing().via(recovering).run_with(Sink.foreach(seen.append))
        assert seen == ["broken"]
        assert now() == 0

    run_in_virtual_time(main())


@pytest.mark.parametrize("end", ["completes", "fails"])
def test_upstream_that_ends_in_a_pause_with_nothing_held_ends_the_stream(end: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        flow: Flow[int, int] = RestartFlow.with_backoff(EXACT, lambda: Flow[int, int].identity().map(lambda x: 1 // x))
        running = source.via(flow).to(sink).run()
        sink.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(0)
        await settle(0.5)
        if end == "completes":
            source.probe.send_complete()
            await sink.expect_complete()
            await running
        else:
            source.probe.send_error(OSError("upstream"))
            await sink.expect_error(OSError)
            with pytest.raises(OSError, match="upstream"):
                await running
        assert now() == 0.5

    run_in_virtual_time(main())


def test_a_flow_that_completes_early_begins_again_or_on_failures_only_is_the_end() -> None:
    async def main() -> None:
        numbers = Source.from_iterable(range(6))
        again: Flow[int, int] = RestartFlow.with_backoff(EXACT, lambda: Flow[int, int].identity().take(2))
        assert await numbers.via(again).run_with(Sink.collect()) == [0, 1, 2, 3, 4, 5]
        assert now() > 0
        source = TestSource[int]()
        once: Flow[int, int] = RestartFlow.on_failures_with_backoff(EXACT, lambda: Flow[int, int].identity().take(2))
        running = source.via(once).run_with(Sink.collect())
        await source.probe.expect_request(2)
        source.probe.send_next(1, 2)
        assert await running == [1, 2]
        assert source.probe.cancelled

    run_in_virtual_time(main())


@settings(deadline=None)
@given(st.lists(st.integers(0, 9)), st.integers(1, 20), st.booleans())
def test_elements_that_do_not_fail_come_out_once_and_in_order_whatever_fails_between_them(
    elements: list[int], demand: int, keep_asking: bool
) -> None:
    def burst(n: int) -> int:
        if n == 0:
            raise OSError("zero")
        return n

    async def main() -> None:
        flow: Flow[int, int] = RestartFlow.with_backoff(EXACT, lambda: Flow[int, int].identity().map(burst))
        graph = Source.from_iterable(elements).via(flow)
        expected = [n for n in elements if n]
        if keep_asking:
            assert await graph.run_with(Sink.collect()) == expected
            return
        sink = TestSink[int](timeout=1e4)
        graph.to(sink).run()
        sink.request(demand)
        assert await sink.expect_n(min(demand, len(expected))) == expected[:demand]
        sink.cancel()

    run_in_virtual_time(main())


# Sinks


def test_a_sink_begins_again_when_it_fails_and_the_result_is_that_of_the_last() -> None:
    seen: list[int] = []

    def store(n: int) -> None:
        if n == 3:
            raise OSError("broken")
        seen.append(n)

    made = Made(lambda _n: Sink.foreach(store))

    async def main() -> None:
        assert await Source.from_iterable(range(6)).run_with(RestartSink.with_backoff(EXACT, made)) == 2
        assert seen == [0, 1, 2, 4, 5]
        assert made.times == [0, 1]

    run_in_virtual_time(main())


def test_a_sink_that_has_enough_is_followed_by_another_or_on_failures_only_is_the_end() -> None:
    made = Made(lambda _n: Sink.head())

    async def main() -> None:
        settings_ = RestartSettings(1, 8, 0, max_restarts=2)
        assert await Source.from_iterable(range(9)).run_with(RestartSink.with_backoff(settings_, made)) == 2
        assert made.times == [0, 1, 3]
        source = TestSource[int]()
        running = source.run_with(RestartSink.on_failures_with_backoff(EXACT, made))
        await source.probe.expect_request(1)
        source.probe.send_next(7)
        assert await running == 7
        assert source.probe.cancelled

    run_in_virtual_time(main())


@pytest.mark.parametrize("end", ["completes", "fails"])
def test_upstream_that_ends_in_a_pause_ends_a_sink_with_one_more_or_at_once(end: str) -> None:
    made = Made(lambda n: Sink.fold(n, lambda total, element: 1 // element))

    async def main() -> None:
        source = TestSource[int]()
        running = source.run_with(RestartSink.with_backoff(EXACT, made))
        await source.probe.expect_request(FEED_WINDOW)
        source.probe.send_next(0)
        await settle(0.5)
        if end == "completes":
            source.probe.send_complete()
            assert await running == 2
            assert now() == 1
        else:
            source.probe.send_error(OSError("upstream"))
            with pytest.raises(OSError, match="upstream"):
                await running
            assert now() == 0.5

    run_in_virtual_time(main())


def test_a_sink_that_cannot_be_made_is_tried_again_until_no_restart_is_left() -> None:
    def refuse(n: int) -> Sink[int, int]:
        raise ConnectionRefusedError(n)

    async def main() -> None:
        source = TestSource[int]()
        with pytest.raises(ConnectionRefusedError, match="2"):
            await source.run_with(RestartSink.with_backoff(ONCE, Made(refuse)))
        assert source.probe.cancelled
        assert now() == 1

    run_in_virtual_time(main())


def test_cancelling_the_run_cancels_the_sink_of_now_or_the_pause() -> None:
    async def stay(_element: int) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        for sink in (Sink.foreach_async(1, stay), Sink.foreach(lambda _: 1 / 0)):
            source = TestSource[int]()
            running = source.run_with(RestartSink.with_backoff(EXACT, lambda sink=sink: sink))
            await source.probe.expect_request()
            source.probe.send_next(1)
            await settle()
            running.cancel()
            assert source.probe.cancelled
            with pytest.raises(asyncio.CancelledError):
                await running
            assert asyncio.all_tasks() == {asyncio.current_task()}
        await settle(100)

    run_in_virtual_time(main())
