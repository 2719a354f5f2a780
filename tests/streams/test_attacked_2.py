"""What a reader found who tried to break the stages, each with what holds now."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from subprocess import run
from sys import executable
from typing import Any

import pytest

from streams import Flow, Sink, Source, Supervision
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time

NUMBERS = Source.range(5)
NO_NUMBERS = ["3", None, [1]]
NO_FUNCTIONS = [5, "f", None, NUMBERS]


def pulled_slowly(source: Source[Any]) -> list[Any]:
    """What comes out where an element is asked for only when the one before has been there for a second."""

    async def main() -> list[Any]:
        came: list[Any] = []
        running = source.run_with(Sink.queue(1))
        while (element := await running.value.pull()) is not None:
            came.append(element)
            await elapse(1)
        await running
        return came

    return run_in_virtual_time(main())


def nothing(_: object) -> list[int]:
    return []


def test_extrapolate_loses_no_element_behind_its_initial_one() -> None:
    assert pulled_slowly(NUMBERS.extrapolate(nothing, initial=100)) == [100, 0, 1, 2, 3, 4]


def test_extrapolate_asks_for_its_first_element_once_the_initial_one_is_out() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.extrapolate(nothing, initial=100).to(sink).run()
        await sink.expect_subscription()
        await source.probe.expect_no_request(1)
        sink.request(1)
        await sink.expect_next(100)
        await source.probe.expect_request(1)
        await source.probe.expect_no_request(1)
        sink.cancel()
        await source.probe.expect_cancellation()
        await running

    run_in_virtual_time(main())


def test_the_initial_element_of_extrapolate_comes_before_an_end_that_was_there_first() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.extrapolate(nothing, initial=100).to(sink).run()
        await source.probe.expect_subscription()
        source.probe.send_complete()
        sink.request(1)
        await sink.expect_next(100)
        await sink.expect_complete()
        await running

    run_in_virtual_time(main())


def test_an_initial_element_that_cannot_be_extrapolated_is_left_out_under_supervision() -> None:
    def fails_at_100(element: int) -> list[int]:
        if element == 100:
            raise KeyError(element)
        return []

    source = NUMBERS.extrapolate(fails_at_100, initial=100)
    assert pulled_slowly(source.with_supervision(Supervision.resuming)) == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError, match="100"):
        pulled_slowly(source)


@pytest.mark.parametrize(
    "condensed",
    [
        lambda source: source.conflate(lambda left, right: left + right),
        lambda source: source.conflate_with_seed(lambda n: n, lambda left, right: left + right),
        lambda source: source.batch(10, lambda n: n, lambda left, right: left + right),
    ],
    ids=["conflate", "conflate_with_seed", "batch"],
)
def test_an_aggregate_that_waited_for_demand_at_the_end_comes_once(condensed: Callable[[Any], Any]) -> None:
    class AsksForMore(TestSink[int]):
        """Asks from within on_next, as a sink does that takes one element at a time."""

        def on_next(self, element: int) -> None:
            super().on_next(element)
            self.request(1)

    async def main() -> None:
        source, sink = TestSource[int](), AsksForMore()
        running = condensed(source).to(sink).run()
        await source.probe.expect_demand(3)
        source.probe.send_next(1, 2, 3)
        source.probe.send_complete()
        sink.request(1)
        await sink.expect_next(6)
        await sink.expect_complete()
        await running

    run_in_virtual_time(main())


COUNTS: dict[str, Callable[[Any], Any]] = {
    "take": NUMBERS.take,
    "drop": NUMBERS.drop,
    "grouped": NUMBERS.grouped,
    "sliding": NUMBERS.sliding,
    "sliding, step": lambda n: NUMBERS.sliding(2, n),
    "grouped_within": lambda n: NUMBERS.grouped_within(n, 1),
    "buffer": NUMBERS.buffer,
    "batch": lambda n: NUMBERS.batch(n, nothing, max),
    "throttle": lambda n: NUMBERS.throttle(n, 1),
    "delay": lambda n: NUMBERS.delay(1, n),
    "group_by": lambda n: NUMBERS.group_by(n, str),
    "merge_substreams_with_parallelism": NUMBERS.group_by(2, str).merge_substreams_with_parallelism,
    "flat_map_merge": lambda n: NUMBERS.flat_map_merge(n, Source.single),
    "prefix_and_tail": NUMBERS.prefix_and_tail,
    "map_async": lambda n: NUMBERS.map_async(n, elapse),
    "interleave": lambda n: NUMBERS.interleave(NUMBERS, n),
}


@pytest.mark.parametrize("operator", COUNTS)
@pytest.mark.parametrize("value", [*NO_NUMBERS, 2.5, math.nan, math.inf], ids=repr)
def test_a_count_that_is_no_whole_number_is_refused_by_name_when_the_graph_is_built(operator: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{operator.partition(',')[0]}: .* must be a whole number, not "):
        COUNTS[operator](value)


AMOUNTS: dict[str, Callable[[Any], Any]] = {
    "grouped_within": lambda x: NUMBERS.grouped_within(1, x),
    "grouped_weighted": lambda x: NUMBERS.grouped_weighted(x, abs),
    "batch_weighted": lambda x: NUMBERS.batch_weighted(x, abs, nothing, max),
    "throttle": lambda x: NUMBERS.throttle(1, x),
    "delay": NUMBERS.delay,
    "take_within": NUMBERS.take_within,
    "idle_timeout": NUMBERS.idle_timeout,
    "keep_alive": lambda x: NUMBERS.keep_alive(x, int),
    "prefix_and_tail": lambda x: NUMBERS.prefix_and_tail(1, subscription_timeout=x),
}


@pytest.mark.parametrize("operator", AMOUNTS)
@pytest.mark.parametrize("value", [*NO_NUMBERS, math.nan, 0, -1], ids=repr)
def test_seconds_or_a_weight_that_are_no_positive_number_are_refused_by_name_when_the_graph_is_built(
    operator: str, value: Any
) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^{operator}: .* must be (a number|more than 0), not "):
        AMOUNTS[operator](value)


def test_a_throttle_of_endless_periods_is_refused() -> None:
    with pytest.raises(ValueError, match="throttle: per must be finite"):
        NUMBERS.throttle(1, math.inf)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "map": NUMBERS.map,
    "filter": NUMBERS.filter,
    "filter_not": NUMBERS.filter_not,
    "map_concat": NUMBERS.map_concat,
    "stateful_map": lambda f: NUMBERS.stateful_map(f, f),
    "take_while": NUMBERS.take_while,
    "drop_while": NUMBERS.drop_while,
    "scan": lambda f: NUMBERS.scan(0, f),
    "fold": lambda f: NUMBERS.fold(0, f),
    "reduce": NUMBERS.reduce,
    "conflate": NUMBERS.conflate,
    "expand": NUMBERS.expand,
    "extrapolate": NUMBERS.extrapolate,
    "keep_alive": lambda f: NUMBERS.keep_alive(1, f),
    "map_async": lambda f: NUMBERS.map_async(1, f),
    "map_blocking": lambda f: NUMBERS.map_blocking(1, f),
    "group_by": lambda f: NUMBERS.group_by(2, f),
    "split_when": NUMBERS.split_when,
    "split_after": NUMBERS.split_after,
    "flat_map_concat": NUMBERS.flat_map_concat,
    "flat_map_merge": lambda f: NUMBERS.flat_map_merge(2, f),
    "flat_map_prefix": lambda f: NUMBERS.flat_map_prefix(2, f),
    "divert_to": lambda f: NUMBERS.divert_to(Sink.ignore(), f),
    "recover": NUMBERS.recover,
    "recover_with": lambda f: NUMBERS.recover_with(1, f),
    "map_error": NUMBERS.map_error,
    "on_error_complete": NUMBERS.on_error_complete,
    "with_supervision": NUMBERS.with_supervision,
}


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize("value", NO_FUNCTIONS, ids=lambda value: type(value).__name__)
def test_what_is_no_function_is_refused_by_name_when_the_graph_is_built(operator: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"^{operator}: \w+ must be a function, not {type(value).__name__}$"):
        FUNCTIONS[operator](value)


@pytest.mark.parametrize(
    ("operator", "make"),
    [
        ("buffer", lambda: NUMBERS.buffer(1, "drop_head")),  # type: ignore[arg-type]  # what is tested
        ("delay", lambda: NUMBERS.delay(1, 1, "drop_head")),  # type: ignore[arg-type]  # as above
        ("throttle", lambda: NUMBERS.throttle(1, 1, mode="shaping")),  # type: ignore[arg-type]  # as above
    ],
)
def test_a_strategy_given_as_text_is_refused_and_not_taken_for_another(operator: str, make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=rf"^{operator}: \w+ must be one of (OverflowStrategy|ThrottleMode), not '"):
        make()


@pytest.mark.parametrize(
    "weighed",
    [
        lambda f: NUMBERS.grouped_weighted(3, f),
        lambda f: NUMBERS.grouped_within(9, 1, max_weight=3, weight=f),
        lambda f: NUMBERS.batch_weighted(3, f, lambda n: n, max),
        lambda f: NUMBERS.throttle(3, 1, cost=f),
    ],
    ids=["grouped_weighted", "grouped_within", "batch_weighted", "throttle"],
)
def test_a_weight_or_cost_that_is_no_number_fails_the_stream_and_does_not_stop_it_without_a_word(
    weighed: Callable[[Any], Source[Any]],
) -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="returned nan: a weight or cost is a number"):
            await weighed(lambda _: math.nan).run_with(Sink.collect())

    run_in_virtual_time(main())


def test_a_throttle_fails_where_an_elements_cost_would_never_let_it_pass() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="returned inf") as caught:
            await NUMBERS.throttle(3, 1, cost=lambda _: math.inf).run_with(Sink.collect())
        assert any("throttle" in note for note in caught.value.__notes__)

    run_in_virtual_time(main())


PROBES_UNDER_O = """
import asyncio
from streams.testkit import TestSink, TestSource

async def main():
    source, sink = TestSource(), TestSink()
    running = source.to(sink).run()
    sink.request(1)
    await source.probe.expect_demand(1)
    source.probe.send_next(1)
    refused = 0
    try:
        source.probe.send_next(2)
    except AssertionError:
        refused += 1
    try:
        await sink.expect_next(5)
    except AssertionError:
        refused += 1
    sink.cancel()
    await running
    print(refused)

asyncio.run(main())
"""


def test_probes_expect_what_they_say_where_python_leaves_assertions_out() -> None:
    ended = run(
        [executable, "-O", "-c", PROBES_UNDER_O],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert ended.stdout.strip() == "2", ended.stderr


def test_operators_of_a_flow_check_what_they_are_given_as_those_of_a_source_do() -> None:
    with pytest.raises(TypeError, match="grouped: size must be a whole number"):
        Flow.identity().grouped("3")
    with pytest.raises(TypeError, match="map: f must be a function"):
        Flow.identity().group_by(2, str).map(3)
