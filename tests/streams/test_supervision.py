"""Supervision: which operators go on without an element, which begin anew, and what a decider is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from streams import (
    Directive,
    Flow,
    RestartFlow,
    RestartSettings,
    Sink,
    Source,
    StreamClosedError,
    Supervision,
)
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time

NUMBERS = range(6)
BAD = 3


def burst(n: Any) -> Any:
    if n == BAD:
        raise ValueError(f"not {n}")
    return n


def forgetful(n: Any) -> Any:
    return None if n == BAD else n


async def burst_later(n: int, key: int = 0) -> int:
    await elapse(n % 2)
    return int(burst(n))


def add(total: int, n: int) -> int:
    return total + int(burst(n))


def counting() -> Flow[int, tuple[int, int]]:
    def step(count: int, n: int) -> tuple[int, tuple[int, int]]:
        burst(n)
        return count + 1, (count, n)

    return flow().stateful_map(lambda: 0, step)


def flow() -> Flow[int, int]:
    return Flow.identity()


WITHOUT_IT = [0, 1, 2, 4, 5]
# The flow, and what comes out when its function fails on one element and it resumes, and when it restarts.
SUPERVISED: dict[str, tuple[Callable[[], Flow[int, Any]], Any, Any]] = {
    "map": (lambda: flow().map(burst), WITHOUT_IT, WITHOUT_IT),
    "map to None": (lambda: flow().map(forgetful), WITHOUT_IT, WITHOUT_IT),
    "map twice": (lambda: flow().map(lambda n: n).map(burst).map(lambda n: n), WITHOUT_IT, WITHOUT_IT),
    "filter": (lambda: flow().filter(lambda n: burst(n) >= 0), WITHOUT_IT, WITHOUT_IT),
    "filter_not": (lambda: flow().filter_not(lambda n: burst(n) < 0), WITHOUT_IT, WITHOUT_IT),
    "take_while": (lambda: flow().take_while(lambda n: burst(n) < 5), [0, 1, 2, 4], [0, 1, 2, 4]),
    "drop_while": (lambda: flow().drop_while(lambda n: burst(n) < 4), [4, 5], [4, 5]),
    "map_concat": (lambda: flow().map_concat(lambda n: [burst(n)] * 2), [0, 0, 1, 1, 2, 2, 4, 4, 5, 5], None),
    "map_concat, failing within": (
        lambda: flow().map_concat(lambda n: (burst(n + i) for i in (0, 1))),
        [0, 1, 1, 2, 2, 4, 5, 5, 6],
        None,
    ),
    "scan": (lambda: flow().scan(0, add), [0, 0, 1, 3, 7, 12], [0, 0, 1, 3, 0, 4, 9]),
    "fold": (lambda: flow().fold(0, add), [12], [9]),
    "reduce": (lambda: flow().reduce(add), [12], [9]),
    "stateful_map": (counting, [(0, 0), (1, 1), (2, 2), (3, 4), (4, 5)], [(0, 0), (1, 1), (2, 2), (0, 4), (1, 5)]),
    "map_async": (lambda: flow().map_async(2, burst_later), WITHOUT_IT, None),
    "map_async_unordered": (lambda: flow().map_async_unordered(1, burst_later), WITHOUT_IT, None),
    "map_async_partitioned": (
        lambda: flow().map_async_partitioned(4, 1, lambda n: n % 2, burst_later),
        WITHOUT_IT,
        None,
    ),
    "map_async_partitioned by a failing function": (
        lambda: flow().map_async_partitioned(4, 1, burst, burst_later),
        WITHOUT_IT,
        None,
    ),
    "map_async_partitioned_unordered": (
        lambda: flow().map_async_partitioned_unordered(1, 1, lambda n: n % 2, burst_later),
        WITHOUT_IT,
        None,
    ),
    "map_blocking": (lambda: flow().map_blocking(2, burst), WITHOUT_IT, None),
    "map_blocking_unordered": (lambda: flow().map_blocking_unordered(1, burst), WITHOUT_IT, None),
    "grouped_weighted": (lambda: flow().grouped_weighted(90, lambda n: burst(n) + 1), [WITHOUT_IT], [[4, 5]]),
    "throttle": (lambda: flow().throttle(10, 1.0, cost=lambda n: burst(n) and 1), WITHOUT_IT, None),
    "group_by": (lambda: flow().group_by(9, burst).merge_substreams(), WITHOUT_IT, None),
    "flat_map_concat": (lambda: flow().flat_map_concat(lambda n: Source.single(burst(n))), WITHOUT_IT, None),
    "flat_map_merge": (lambda: flow().flat_map_merge(1, lambda n: Source.single(burst(n))), WITHOUT_IT, None),
    "divert_to": (lambda: flow().divert_to(Sink.ignore(), lambda n: burst(n) < 0), WITHOUT_IT, None),
}
each_operator = pytest.mark.parametrize("name", SUPERVISED)


def run(name: str, main: Any) -> Any:
    return asyncio.run(main) if "blocking" in name else run_in_virtual_time(main)


@each_operator
@pytest.mark.parametrize("demand", ["all", "one by one"])
def test_resume_goes_on_without_the_element(name: str, demand: str) -> None:
    make, resumed, _ = SUPERVISED[name]

    async def main() -> None:
        source = Source.from_iterable(NUMBERS).via(make().with_supervision(Supervision.resuming))
        if demand == "all":
            assert await source.run_with(Sink.collect()) == resumed
            return
        sink = TestSink[Any](timeout=10)
        source.to(sink).run()
        for element in resumed:
            await sink.request_next(element)
        sink.request(1)
        await sink.expect_complete()

    run(name, main())


@each_operator
def test_restart_begins_anew_without_the_element(name: str) -> None:
    make, resumed, restarted = SUPERVISED[name]

    async def main() -> None:
        source = Source.from_iterable(NUMBERS).via(make().with_supervision(Supervision.restarting))
        assert await source.run_with(Sink.collect()) == (resumed if restarted is None else restarted)

    run(name, main())


@each_operator
@pytest.mark.parametrize("decider", [None, Supervision.stopping])
def test_stop_and_no_decider_at_all_fail_the_stream_with_a_note_of_the_stage(name: str, decider: Any) -> None:
    make, _, _ = SUPERVISED[name]

    async def main() -> None:
        stage = make() if decider is None else make().with_supervision(decider)
        with pytest.raises((ValueError, TypeError)) as caught:
            await Source.from_iterable(NUMBERS).via(stage).run_with(Sink.collect())
        assert f"in the stage {name.split(' ', 1)[0].split(',', 1)[0]}(" in caught.value.__notes__[0]
        assert len([note for note in caught.value.__notes__ if "in the stage" in note]) == 1

    run(name, main())


@each_operator
def test_every_element_that_fails_is_asked_about_and_nothing_is_lost_but_they(name: str) -> None:
    asked: list[str] = []

    def decide(error: Exception) -> Directive:
        asked.append(type(error).__name__)
        return Directive.RESUME

    async def main() -> None:
        make, resumed, _ = SUPERVISED[name]
        rounds = Source.from_iterable([0, BAD, BAD, 1, 2, BAD, 4, 5])
        result = await rounds.via(make().with_supervision(decide)).run_with(Sink.collect())
        assert len(asked) >= 3
        assert set(asked) <= {"ValueError", "TypeError"}
        if name != "map_concat, failing within":
            assert result == resumed

    run(name, main())


def test_a_decider_holds_for_the_stages_before_it_and_not_for_those_after() -> None:
    async def main() -> None:
        before = Source.from_iterable(NUMBERS).map(burst).with_supervision(Supervision.resuming)
        assert await before.map(abs).run_with(Sink.collect()) == WITHOUT_IT
        after = Source.from_iterable(NUMBERS).with_supervision(Supervision.resuming).map(burst)
        with pytest.raises(ValueError, match="not 3"):
            await after.run_with(Sink.collect())

    run_in_virtual_time(main())


def test_the_decider_closest_to_a_stage_is_the_one_that_is_asked() -> None:
    asked: list[str] = []

    def decider(name: str) -> Any:
        def decide(_error: Exception) -> Directive:
            asked.append(name)
            return Directive.RESUME

        return decide

    async def main() -> None:
        first = flow().map(burst).with_supervision(decider("first"))
        both = first.map(lambda n: 1 // (n - 4) and n).with_supervision(decider("second"))
        await Source.from_iterable(NUMBERS).via(both).run_with(Sink.collect())
        assert asked == ["first", "second"]

    run_in_virtual_time(main())


def test_a_decider_on_a_source_reaches_the_flows_that_it_was_made_of() -> None:
    async def main() -> None:
        source = Source.from_iterable(NUMBERS).via(flow().map(burst).buffer(2)).with_supervision(Supervision.resuming)
        assert await source.run_with(Sink.collect()) == WITHOUT_IT

    run_in_virtual_time(main())


def test_a_decider_may_answer_each_failure_differently() -> None:
    def decide(error: Exception) -> Directive:
        return Directive.RESUME if isinstance(error, ValueError) else Directive.STOP

    async def main() -> None:
        stage = flow().map(burst).map(lambda n: 10 // (n - 5)).with_supervision(decide)
        sink = TestSink[int]()
        running = Source.from_iterable(NUMBERS).via(stage).to(sink).run()
        sink.request(9)
        await sink.expect_next(-2, -3, -4, -10)
        await sink.expect_error(ZeroDivisionError)
        with pytest.raises(ZeroDivisionError):
            await running

    run_in_virtual_time(main())


@pytest.mark.parametrize("wrong", [lambda _: 1 / 0, lambda _: "resume", lambda _: None])
def test_a_decider_that_fails_or_decides_nothing_fails_the_stream_and_is_named(wrong: Any) -> None:
    async def main() -> None:
        with pytest.raises((ZeroDivisionError, TypeError)) as caught:
            await Source.of(BAD).map(burst).with_supervision(wrong).run_with(Sink.collect())
        assert "lambda" in caught.value.__notes__[0]
        assert isinstance(caught.value.__context__, ValueError)

    run_in_virtual_time(main())


def test_a_failure_of_upstream_is_none_of_a_deciders_business() -> None:
    async def main() -> None:
        stage = flow().map(burst).with_supervision(Supervision.resuming)
        with pytest.raises(OSError, match="upstream"):
            await Source.failed(OSError("upstream")).via(stage).run_with(Sink.collect())

    run_in_virtual_time(main())


def test_a_resumed_stage_asks_for_one_element_in_the_place_of_the_one_that_failed() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.map(burst).with_supervision(Supervision.resuming).to(sink).run()
        sink.request(2)
        await source.probe.expect_request(2)
        source.probe.send_next(BAD)
        await source.probe.expect_request(1)
        source.probe.send_next(4, 5)
        await sink.expect_next(4, 5)
        await source.probe.expect_no_request()
        sink.cancel()

    run_in_virtual_time(main())


def test_supervision_and_materialized_values_do_not_get_in_each_others_way() -> None:
    async def main() -> None:
        source = Source.queue(4).map(burst).with_supervision(Supervision.resuming)
        running = source.run_with(Sink.collect())
        for n in NUMBERS:
            await running.value.offer_wait(n)
        running.value.complete()
        assert await running == WITHOUT_IT

    run_in_virtual_time(main())


def test_a_decider_holds_inside_a_flow_that_is_restarted_and_a_stop_restarts_it() -> None:
    def decide(error: Exception) -> Directive:
        return Directive.RESUME if isinstance(error, ValueError) else Directive.STOP

    made: list[Flow[int, int]] = []

    def make() -> Flow[int, int]:
        made.append(flow().map(burst).map(lambda n: n if n != 1 else n // 0))
        return made[-1]

    async def main() -> None:
        restarting: Flow[int, int] = RestartFlow.with_backoff(RestartSettings(1, 1, 0), make)
        stage = restarting.with_supervision(decide)
        assert await Source.from_iterable(NUMBERS).via(stage).run_with(Sink.collect()) == [0, 2, 4, 5]
        assert len(made) == 2

    run_in_virtual_time(main())


def test_a_supervised_part_of_a_run_is_that_run_in_everything_else() -> None:
    seen: list[Any] = []

    def attach(publisher: Any, m: Any) -> Any:
        seen.append(m)
        m.on_end(lambda: seen.append("end"))
        m.spawn(elapse(1e6), "cancelled at the end")
        return publisher

    async def main() -> None:
        stage = Flow(attach).with_supervision(Supervision.resuming)
        assert await Source.of(1).via(stage).run_with(Sink.collect()) == [1]
        m = seen[0]
        assert seen[1:] == ["end"]
        assert m.ended
        with pytest.raises(StreamClosedError):
            m.spawn(elapse(1), "late")
        with pytest.raises(StreamClosedError):
            m.part()
        running = Source.tick(1).via(stage).run_with(Sink.ignore())
        seen[2].fail(OSError("from a part"))
        with pytest.raises(OSError, match="from a part"):
            await running
        running = Source.tick(1).via(stage).run_with(Sink.ignore())
        cancelled: list[bool] = []
        seen[-1].on_cancel(lambda: cancelled.append(True))
        seen[-1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert cancelled == [True]

    run_in_virtual_time(main())


def test_what_is_no_source_and_no_flow_cannot_be_supervised() -> None:
    with pytest.raises(TypeError, match="source or a flow"):
        Flow.with_supervision(Sink.ignore(), Supervision.resuming)  # type: ignore[call-overload]  # what is tested
