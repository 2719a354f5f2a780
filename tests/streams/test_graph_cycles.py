"""Graphs with cycles, and sinks beside their stream: how elements go round, and how the run ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streams import Flow, GraphBuilder, Sink, Source
from streams.junctions import (
    Broadcast,
    Concat,
    Merge,
    Zip,
)
from streams.stages.feedback import FEEDBACK_BUDGET
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle
from tests.streams.graph_parts import identity, plus

# Cycles


def counting(limit: int) -> GraphBuilder:
    """1 goes round and is one more each time; the sink takes ``limit`` of them."""
    g = GraphBuilder("counting")
    merge, split = g.add(Merge[int](2)), g.add(Broadcast[int](2))
    g.connect(g.add(Source.of(1).concat(Source.empty())), merge.inlets[0])
    g.connect(merge, split)
    g.connect(split.outlets[0], identity().take(limit), g.add(Sink.collect()))
    g.connect(split.outlets[1], plus(1), merge.inlets[1])
    return g


def test_elements_go_round_a_cycle() -> None:
    assert counting(5000).build().run_blocking() == list(range(1, 5001))


@pytest.mark.parametrize("way", ["the sink has enough", "cancelled"])
def test_nothing_goes_round_when_the_run_is_over(way: str) -> None:
    async def main() -> None:
        rounds: list[int] = []
        g = GraphBuilder()
        merge, split, sink = g.add(Merge[int](2)), g.add(Broadcast[int](2)), TestSink[int]()
        g.connect(g.add(Source.of(1)), merge.inlets[0])
        g.connect(merge, split)
        g.connect(split.outlets[0], g.add(sink))
        g.connect(split.outlets[1], identity().map(lambda n: rounds.append(n) or n), merge.inlets[1])  # type: ignore[func-returns-value]
        running = g.build().run()
        sink.request(1)
        await sink.expect_next(1)
        if way == "cancelled":
            # Whoever still asks is not heard: the cycle is cut by the cancellation itself, before the run is over.
            running.cancel()
            count = len(rounds)
            await settle()
            assert len(rounds) == count
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            sink.cancel()
            await running
            count = len(rounds)
            await settle()
            assert count > 1
            assert len(rounds) == count

    run_in_virtual_time(main())


def test_an_endless_cycle_leaves_turns_for_everybody_else_and_can_be_cancelled() -> None:
    async def main() -> None:
        seen: list[int] = []
        g = GraphBuilder()
        merge, split = g.add(Merge[int](2)), g.add(Broadcast[int](2))
        g.connect(g.add(Source.of(0)), merge.inlets[0])
        g.connect(merge, split)
        g.connect(split.outlets[0], g.add(Sink.foreach(seen.append)))
        g.connect(split.outlets[1], plus(1), merge.inlets[1])
        running = g.build().run()
        for _ in range(10):
            await asyncio.sleep(0)
        assert 0 < len(seen) <= 12 * FEEDBACK_BUDGET
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        count = len(seen)
        await settle()
        assert len(seen) == count

    run_in_virtual_time(main())


def test_a_cycle_through_a_zip_and_a_first_value_makes_a_series() -> None:
    g = GraphBuilder("fibonacci")
    zipped, first = g.add(Zip(2)), g.add(Concat[tuple[int, int]](2))
    split = g.add(Broadcast[Any](2))
    g.connect(g.add(Source.repeat(1)), zipped.inlets[0])
    g.connect(g.add(Source.of((0, 1))), first.inlets[0])
    g.connect(zipped, split)
    g.connect(split.outlets[0], identity().map(lambda row: (row[1][1], sum(row[1]))), first.inlets[1])
    g.connect(first, zipped.inlets[1])
    g.connect(split.outlets[1], identity().map(lambda row: row[1][0]).take(10), g.add(Sink.collect()))
    assert g.build().run_blocking() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]


def test_a_buffer_on_the_way_that_must_wait_lets_a_concat_of_one_source_go_on() -> None:
    g = GraphBuilder()
    split, join = g.add(Broadcast[int](2)), g.add(Concat[int](2))
    g.connect(g.add(Source.of(1, 2, 3)), split)
    g.connect(split.outlets[0], join.inlets[0])
    g.connect(split.outlets[1], identity().buffer(3), join.inlets[1])
    g.connect(join, g.add(Sink.collect()))
    assert g.build().run_blocking() == [1, 2, 3, 1, 2, 3]


def test_a_failure_in_a_cycle_fails_the_run() -> None:
    g = GraphBuilder()
    merge, split = g.add(Merge[int](2)), g.add(Broadcast[int](2))
    g.connect(g.add(Source.of(3)), merge.inlets[0])
    g.connect(merge, split)
    g.connect(split.outlets[0], g.add(Sink.ignore()))
    g.connect(split.outlets[1], identity().map(lambda n: 6 // n - 1 and n - 1), merge.inlets[1])
    with pytest.raises(ZeroDivisionError):
        g.build().run_blocking()


# Sinks beside the stream


def tee(sink: Any) -> Flow[int, int]:
    g = GraphBuilder("tee")
    split = g.add(Broadcast[int](2))
    g.connect(split.outlets[1], g.add(sink))
    return g.build_flow(split, split.outlets[0])


def test_a_sink_beside_the_stream_gets_all_and_its_failure_is_the_runs() -> None:
    seen: list[int] = []
    assert Source.of(1, 2).via(tee(Sink.foreach(seen.append))).to(Sink.collect()).run_blocking() == [1, 2]
    assert seen == [1, 2]
    with pytest.raises(ZeroDivisionError):
        Source.of(1, 0, 2).concat(Source.repeat(1)).via(tee(Sink.foreach(lambda n: 1 // n))).to(
            Sink.ignore()
        ).run_blocking()


def test_a_sink_beside_the_stream_is_stopped_when_the_run_is_over() -> None:
    async def main() -> None:
        source, beside, sink = TestSource[int](), TestSink[int](), TestSink[int]()
        running = source.via(tee(beside)).to(sink).run()
        sink.request(1)
        beside.request(5)
        source.probe.send_next(1)
        await sink.expect_next(1)
        await beside.expect_next(1)
        sink.cancel()
        assert not source.probe.cancelled
        await running
        assert source.probe.cancelled
        await beside.expect_no_message()

    run_in_virtual_time(main())


def test_the_run_waits_for_a_sink_beside_the_stream_that_was_told_the_end() -> None:
    async def main() -> None:
        stored: list[int] = []

        async def store(n: int) -> None:
            await elapse(1.0)
            stored.append(n)

        assert await Source.of(1, 2, 3).via(tee(Sink.foreach_async(1, store))).to(Sink.collect()).run() == [1, 2, 3]
        assert stored == [1, 2, 3]

    run_in_virtual_time(main())


def test_a_failure_that_is_recovered_from_downstream_is_not_the_runs_because_a_sink_beside_it_had_it_too() -> None:
    flow = tee(Sink.ignore()).recover(lambda _: 7)
    assert Source.of(1).concat(Source.failed(OSError())).via(flow).to(Sink.collect()).run_blocking() == [1, 7]


def test_cancelling_the_run_stops_every_source_and_sink_of_the_graph() -> None:
    async def main() -> None:
        g = GraphBuilder()
        sources, sinks = [TestSource[int]() for _ in range(3)], [TestSink[int]() for _ in range(2)]
        merge, split = g.add(Merge[int](3)), g.add(Broadcast[int](2))
        for source, inlet in zip(sources, merge.inlets, strict=True):
            g.connect(g.add(source), inlet)
        g.connect(merge, split)
        for sink, outlet in zip(sinks, split.outlets, strict=True):
            g.connect(outlet, g.add(sink))
        running = g.build().run()
        for sink in sinks:
            sink.request(3)
        sources[1].probe.send_next(7)
        running.cancel()
        assert [source.probe.cancelled for source in sources] == [True] * 3
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [sink.violations for sink in sinks] == [[], []]

    run_in_virtual_time(main())
