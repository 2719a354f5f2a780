"""Operators that look at one element at a time."""

from __future__ import annotations

import sys

import pytest

from streams import UNBOUNDED, Sink, Source
from streams.testkit import TestPublisher, TestSink, TestSource, run_in_virtual_time, settle


def test_a_filter_that_drops_everything_neither_recurses_nor_stalls() -> None:
    count = 200_000
    assert count > 10 * sys.getrecursionlimit()
    assert Source.from_iterable(range(count)).filter(lambda _: False).to(Sink.collect()).run_blocking() == []


def test_a_filter_under_one_by_one_demand_neither_recurses_nor_stalls() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        Source.from_iterable(range(200_001)).filter(lambda n: n == 200_000).to(sink).run()
        assert await sink.request_next() == 200_000

    run_in_virtual_time(main())


def test_drop_of_many_neither_recurses_nor_stalls() -> None:
    assert Source.from_iterable(range(200_002)).drop(200_000).to(Sink.collect()).run_blocking() == [200_000, 200_001]


def test_demand_goes_through_fused_operators_as_it_is() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[str]()
        source.map(lambda n: n + 1).filter(lambda n: n > 1).take_while(lambda n: n < 9).map(str).to(sink).run()
        sink.request(7)
        await source.probe.expect_request(7)
        source.probe.send_next(1, 0)
        await sink.expect_next("2")
        await source.probe.expect_request(1)
        await source.probe.expect_no_request()

    run_in_virtual_time(main())


def test_a_sink_that_asks_once_without_bound_makes_one_request() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.map(str).to(Sink.foreach(len)).run()
        await source.probe.expect_request(UNBOUNDED)
        source.probe.send_next(*range(100))
        source.probe.send_complete()
        assert await running == 100
        await source.probe.expect_no_request()

    run_in_virtual_time(main())


def test_take_completes_with_its_last_element_and_cancels_upstream() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.take(2).to(sink).run()
        sink.request(UNBOUNDED)
        await source.probe.expect_request(2)
        source.probe.send_next(1, 2)
        await sink.expect_next(1, 2)
        await sink.expect_complete()
        assert source.probe.cancelled
        await running

    run_in_virtual_time(main())


def test_take_of_nothing_completes_without_demand() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.take(0).to(sink).run()
        await sink.expect_complete()
        await source.probe.expect_cancellation()
        await source.probe.expect_no_request()

    run_in_virtual_time(main())


def test_elements_still_on_their_way_after_take_is_done_go_nowhere() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.take(1).to(sink).run()
        sink.request(5)
        source.probe.send_next(1)
        source.probe.subscriber.on_next(2)
        source.probe.subscriber.on_complete()
        await sink.expect_next(1)
        await sink.expect_complete()
        await sink.expect_no_message()

    run_in_virtual_time(main())


def test_take_while_can_include_the_element_that_ends_it() -> None:
    graph = Source.repeat(1).scan(0, int.__add__).take_while(lambda n: n < 3, inclusive=True).to(Sink.collect())
    assert graph.run_blocking() == [0, 1, 2, 3]


@pytest.mark.parametrize("operator", ["map", "filter", "take_while", "map_concat"])
def test_a_function_that_raises_cancels_upstream_and_fails_downstream(operator: str) -> None:
    def burst(_element: int) -> int:
        raise KeyError("burst")

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = getattr(source, operator)(burst).to(sink).run()
        sink.request(3)
        source.probe.send_next(1)
        error = await sink.expect_error(KeyError)
        assert operator in error.__notes__[0]
        assert "burst" in error.__notes__[0]
        assert source.probe.cancelled
        source.probe.subscriber.on_complete()
        await sink.expect_no_message()
        with pytest.raises(KeyError):
            await running

    run_in_virtual_time(main())


def test_a_function_that_returns_none_fails_the_stream_rule_2_13() -> None:
    for source in (
        Source.of(1).map(lambda _: None),
        Source.of(1).scan(0, lambda _state, _element: None),  # type: ignore[arg-type,return-value]  # what is tested
        Source.of(1).map_concat(lambda _: [None]),
    ):
        with pytest.raises(TypeError, match=r"2\.13"):
            source.to(Sink.collect()).run_blocking()


@pytest.mark.parametrize(
    "flow", ["map", "filter", "take", "take_while", "drop", "map_concat", "grouped", "buffer", "recover"]
)
def test_a_stage_that_is_sent_none_raises_type_error_rule_2_13(flow: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        getattr(source, flow)(1 if flow in {"take", "drop", "grouped", "buffer"} else str).to(sink).run()
        sink.request(1)
        with pytest.raises(TypeError, match=r"2\.13"):
            source.probe.subscriber.on_next(None)  # type: ignore[arg-type]  # what is tested
        with pytest.raises(TypeError):
            source.probe.subscriber.on_error(None)  # type: ignore[arg-type]  # what is tested
        sink.cancel()
        await settle()

    run_in_virtual_time(main())


@pytest.mark.parametrize("flow", ["map", "take", "map_concat", "grouped", "buffer"])
def test_a_stage_cancels_a_second_subscription_rule_2_5(flow: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        getattr(source, flow)(1 if flow in {"take", "grouped", "buffer"} else str).to(sink).run()
        second = TestPublisher[int]()
        second.subscribe(source.probe.subscriber)
        assert second.cancelled
        assert not source.probe.cancelled
        sink.cancel()

    run_in_virtual_time(main())


def test_scan_emits_its_zero_first_and_also_for_an_empty_stream() -> None:
    assert Source.empty().scan(5, int.__add__).to(Sink.collect()).run_blocking() == [5]

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.scan(0, int.__add__).to(sink).run()
        sink.request(1)
        await sink.expect_next(0)
        await source.probe.expect_no_request()
        sink.request(2)
        await source.probe.expect_request(2)
        source.probe.send_next(4, 5)
        await sink.expect_next(4, 9)

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("take", (-1,)),
        ("drop", (-1,)),
        ("grouped", (0,)),
        ("grouped_within", (0, 1.0)),
        ("grouped_within", (1, 0.0)),
        ("buffer", (0,)),
        ("map_async", (0, str)),
        ("map_async_unordered", (0, str)),
    ],
)
def test_numbers_that_make_no_sense_are_refused_when_the_graph_is_described(
    operator: str, arguments: tuple[object, ...]
) -> None:
    with pytest.raises(ValueError, match=operator):
        getattr(Source.of(1), operator)(*arguments)
