"""Graphs that are no line: what is built, what is refused and how it is named, values, cycles, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from streams import Flow, GraphBuilder, GraphError, Keep, Materialization, Sink, Source
from streams.junctions import (
    Balance,
    Broadcast,
    Concat,
    Interleave,
    JunctionPorts,
    Merge,
    MergeLatest,
    MergePreferred,
    MergePrioritized,
    MergeSorted,
    Partition,
    Unzip,
    UnzipWith,
    Zip,
    ZipAll,
    ZipLatest,
    ZipLatestWith,
    ZipWith,
)
from streams.stages.feedback import FEEDBACK_BUDGET
from streams.stages.relay import Relay
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle


def identity() -> Flow[Any, Any]:
    return Flow.identity()


def plus(n: int) -> Flow[int, int]:
    return identity().map(lambda element: element + n)


def diamond() -> Flow[int, tuple[int, int]]:
    g = GraphBuilder("diamond")
    split, join = g.add(Broadcast[int](2)), g.add(Zip(2))
    g.connect(split.outlets[0], join.inlets[0])
    g.connect(split.outlets[1], plus(1), plus(1), join.inlets[1])
    return g.build_flow(split, join)


# What is built


def test_two_ways_meet_again_and_the_graph_runs_any_number_of_times() -> None:
    graph = Source.of(1, 2, 3).via(diamond()).to(Sink.collect())
    assert graph.run_blocking() == [(1, 3), (2, 4), (3, 5)]
    assert graph.run_blocking() == [(1, 3), (2, 4), (3, 5)]
    assert "diamond" in graph.name


def test_a_graph_of_one_sink_results_in_what_that_does_and_one_of_several_in_a_list() -> None:
    def graph(sinks: int) -> Any:
        g = GraphBuilder()
        split = g.add(Broadcast[int](sinks))
        g.connect(g.add(Source.of(1, 2, 3)), split)
        for n in range(sinks):
            g.connect(split.outlets[n], plus(n), g.add(Sink.fold(0, int.__add__)))
        return g.build().run_blocking()

    assert graph(1) == 6
    assert graph(3) == [6, 9, 12]


def test_what_is_built_stays_as_it_is_when_the_builder_goes_on() -> None:
    g = GraphBuilder()
    g.connect(g.add(Source.of(1)), g.add(Sink.collect()))
    graph = g.build()
    g.add(Source.of(2))
    assert graph.run_blocking() == [1]
    with pytest.raises(GraphError, match=r"iterable#2\.outlet"):
        g.build()


def test_partial_graphs_are_sources_flows_and_sinks_and_can_be_nested() -> None:
    inner = GraphBuilder("inner")
    merge = inner.add(Concat[int](2))
    inner.connect(inner.add(Source.of(1, 2)), merge.inlets[0])
    inner.connect(inner.add(Source.of(3)), diamond(), identity().map(sum), merge.inlets[1])
    source = inner.build_source(merge.outlet)

    down = GraphBuilder("down")
    split = down.add(Partition[int](2, lambda n: n % 2))
    down.connect(split.outlets[0], diamond(), down.add(Sink.collect()))
    down.connect(split.outlets[1], down.add(Sink.collect()))
    sink = down.build_sink(split.inlet)

    assert source.to(sink).run_blocking() == [[(2, 4), (8, 10)], [1]]
    g = GraphBuilder("outer")
    g.connect(g.add(source), plus(1), g.add(sink))
    assert g.build().run_blocking() == [[(2, 4)], [3, 9]]


def test_two_lines_side_by_side_are_one_graph() -> None:
    g = GraphBuilder()
    g.connect(g.add(Source.of(1)), g.add(Sink.collect()))
    g.connect(g.add(Source.of(2)), plus(5), g.add(Sink.collect()))
    assert g.build().run_blocking() == [[1], [7]]


def test_parts_can_be_added_in_any_order_and_flows_be_parts() -> None:
    g = GraphBuilder()
    sink, last, middle = g.add(Sink.collect()), g.add(plus(100)), g.add(plus(10))
    g.connect(last, sink)
    g.connect(middle, last)
    g.connect(g.add(Source.of(1)), plus(1), middle)
    assert g.build().run_blocking() == [112]


FAN_INS: list[tuple[Any, list[Any]]] = [
    (Merge[int](3), [1, 2, 3]),
    (MergePreferred[int](3), [1, 2, 3]),
    (MergePrioritized[int]((1, 1, 1)), [1, 2, 3]),
    (MergeSorted[int](3), [1, 2, 3]),
    (MergeLatest[int](3), [[1, 2, 3]]),
    (Interleave[int](3, 2), [1, 2, 3]),
    (Concat[int](3), [1, 2, 3]),
    (Zip(3), [(1, 2, 3)]),
    (ZipWith(3, lambda a, b, c: a + b + c), [6]),
    (ZipAll((0, 0, 0)), [(1, 2, 3)]),
    (ZipLatest(3), [(1, 2, 3)]),
    (ZipLatestWith(3, lambda a, b, c: a + b + c), [6]),
]


@pytest.mark.parametrize(("junction", "expected"), FAN_INS, ids=[junction.name for junction, _ in FAN_INS])
def test_every_fan_in_joins_three(junction: Any, expected: list[Any]) -> None:
    g = GraphBuilder()
    join = g.add(junction)
    for n, inlet in enumerate(join.inlets):
        g.connect(g.add(Source.of(n + 1)), inlet)
    g.connect(join, g.add(Sink.collect()))
    result = g.build().run_blocking()
    assert len(join.inlets) == 3
    assert sorted(result) == expected


FAN_OUTS: list[tuple[Any, list[Any]]] = [
    (Broadcast[Any](2), [[(1, 2), (3, 4)], [(1, 2), (3, 4)]]),
    (Balance[Any](2, wait_for_all=True), [[(1, 2)], [(3, 4)]]),
    (Partition[Any](2, lambda pair: pair[0] // 2), [[(1, 2)], [(3, 4)]]),
    (UnzipWith[Any](2, lambda pair: pair), [[1, 3], [2, 4]]),
    (Unzip(), [[1, 3], [2, 4]]),
]


@pytest.mark.parametrize(("junction", "expected"), FAN_OUTS, ids=[junction.name for junction, _ in FAN_OUTS])
def test_every_fan_out_feeds_two(junction: Any, expected: list[Any]) -> None:
    g = GraphBuilder()
    split = g.add(junction)
    g.connect(g.add(Source.of((1, 2), (3, 4))), split)
    for outlet in split.outlets:
        g.connect(outlet, g.add(Sink.collect()))
    assert g.build().run_blocking() == expected


class Twice:
    """A junction of one's own: hands on from its first input to its first output, and from its second to its second."""

    name, inputs, outputs = "twice", 2, 2

    def create_junction(self, _m: Materialization, /) -> JunctionPorts[Any, Any]:
        relays: list[Relay[Any]] = [Relay(), Relay()]
        return JunctionPorts(relays, relays, value="twice's value")


def test_a_junction_of_ones_own_is_a_part_like_any_other() -> None:
    async def main() -> None:
        g = GraphBuilder()
        twice = g.add(Twice())
        for n, inlet in enumerate(twice.inlets):
            g.connect(g.add(Source.of(n)), inlet)
        for outlet in twice.outlets:
            g.connect(outlet, g.add(Sink.collect()))
        running = g.build().run()
        assert running.value == "twice's value"
        assert await running == [[0], [1]]

    run_in_virtual_time(main())


# What is refused


def test_every_port_that_is_not_connected_is_named() -> None:
    g = GraphBuilder("checkout")
    split, zipped = g.add(Broadcast[int](3)), g.add(Zip(2), name="join")
    g.add(plus(1))
    g.connect(g.add(Source.of(1)), split)
    g.connect(split.outlets[1], zipped.inlets[0])
    g.connect(zipped, g.add(Sink.ignore()))
    with pytest.raises(GraphError) as caught:
        g.build()
    assert caught.value.ports == (
        "broadcast.outlets[0]",
        "broadcast.outlets[2]",
        "join.inlets[1]",
        "identity -> map.inlet",
        "identity -> map.outlet",
    )
    assert all(port in str(caught.value) for port in caught.value.ports)
    assert str(caught.value).startswith("checkout: not connected: ")


@pytest.mark.parametrize("port", range(7))
def test_a_graph_that_lacks_any_one_connection_is_refused_with_both_its_ports(port: int) -> None:
    g = GraphBuilder()
    split, join = g.add(Broadcast[int](3)), g.add(Merge[int](3))
    connections: list[tuple[Any, Any]] = [(g.add(Source.of(1)).outlet, split.inlet)]
    connections += list(zip(split.outlets[:2], join.inlets[:2], strict=True))
    connections += [(g.add(Source.of(2)).outlet, join.inlets[2]), (split.outlets[2], g.add(Sink.ignore()).inlet)]
    connections += [(join.outlet, g.add(Sink.ignore()).inlet), (g.add(Source.of(1)).outlet, g.add(Sink.ignore()).inlet)]
    left_out = connections.pop(port)
    for outlet, inlet in connections:
        g.connect(outlet, inlet)
    with pytest.raises(GraphError) as caught:
        g.build()
    assert set(caught.value.ports) == {repr(end) for end in left_out}


def test_connecting_a_port_twice_is_refused_and_changes_nothing() -> None:
    g = GraphBuilder()
    source, other, sink = g.add(Source.of(1)), g.add(Source.of(2)), g.add(Sink.collect())
    g.connect(source, sink)
    with pytest.raises(GraphError, match=r"collect\.inlet is connected already, to iterable\.outlet"):
        g.connect(other, plus(1), sink)
    with pytest.raises(GraphError, match=r"iterable\.outlet is connected already, to collect\.inlet"):
        g.connect(source, g.add(Sink.collect()))
    with pytest.raises(GraphError) as caught:
        g.build()
    assert caught.value.ports == ("iterable#2.outlet", "collect#2.inlet")


def test_ports_of_another_graph_and_of_the_wrong_kind_are_refused() -> None:
    g, other = GraphBuilder("mine"), GraphBuilder("other")
    source, sink, foreign = g.add(Source.of(1)), g.add(Sink.collect()), other.add(Sink.collect())
    split = g.add(Broadcast[int](2))
    wrong: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: g.connect(source, foreign), GraphError, r"collect\.inlet belongs to another graph than mine"),
        (lambda: g.materialize(foreign), GraphError, "belongs to another graph"),
        (lambda: g.connect(sink.inlet, sink), TypeError, r"begins at an output, not at the input collect\.inlet"),
        (lambda: g.connect(source, source.outlet), TypeError, r"ends at an input, not at the output iterable\.outlet"),
        (lambda: g.connect(source, Sink.ignore(), sink), TypeError, "takes flows between its ports, not Sink"),
        (lambda: g.connect(source), TypeError, "takes an output"),
        (lambda: g.connect(source, print), TypeError, "not at builtin_function_or_method"),
        (lambda: g.connect(split, sink), GraphError, "broadcast has 2 outputs: name one"),
        (lambda: g.connect(sink, split), GraphError, "collect has 0 outputs"),
        (lambda: g.connect(source, source), GraphError, "iterable has 0 inputs"),
        (lambda: g.add(print), TypeError, "takes a source, flow, sink or junction"),
        (lambda: g.add(Source.of(1), name="collect"), GraphError, "has a part named 'collect' already"),
        (g.materialize, TypeError, "one or more parts"),
        (lambda: g.build_flow(split, split.outlets[0]), GraphError, r"broadcast\.outlets\[1\]"),
        (lambda: Broadcast[int](0), ValueError, "outputs must be more than 0"),
        (lambda: Merge[int](0), ValueError, "inputs must be more than 0"),
        (lambda: MergePrioritized[int]((1, 0)), ValueError, "a weight must be more than 0"),
        (lambda: Interleave[int](2, 0), ValueError, "segment_size must be more than 0"),
    ]
    for call, error, message in wrong:
        with pytest.raises(error, match=message):
            call()


def test_a_graph_without_a_sink_or_with_parts_out_of_reach_is_refused() -> None:
    with pytest.raises(GraphError, match="has no sink"):
        GraphBuilder("nothing").build()
    closed = GraphBuilder("closed")
    flow = closed.add(plus(1), name="round")
    closed.connect(flow, flow)
    closed.connect(closed.add(Source.of(1)), closed.add(Sink.ignore()))
    with pytest.raises(GraphError, match="nothing ever goes into round") as caught:
        closed.build()
    assert caught.value.ports == ("round",)
    trap = GraphBuilder("trap")
    merge = trap.add(Merge[int](2))
    trap.connect(trap.add(Source.of(1)), merge.inlets[0])
    trap.connect(merge, merge.inlets[1])
    trap.connect(trap.add(Source.of(1), name="good"), trap.add(Sink.ignore()))
    with pytest.raises(GraphError, match="nothing ever comes out of merge, iterable"):
        trap.build()


# Materialized values


def test_the_first_value_that_a_part_has_is_the_graphs_unless_parts_are_named() -> None:
    async def main() -> None:
        def graph(choose: Callable[[GraphBuilder, list[Any]], None]) -> Any:
            g = GraphBuilder()
            merge, sink = g.add(Merge[int](2)), g.add(Sink.collect())
            queues = [g.add(Source.queue(4).map_materialized(lambda q, n=n: (n, q))) for n in range(2)]
            for queue, inlet in zip(queues, merge.inlets, strict=True):
                g.connect(queue, inlet)
            g.connect(merge, sink)
            choose(g, [*queues, sink])
            return g.build()

        running = graph(lambda g, parts: None).run()
        assert running.value[0] == 0
        running.abandon()
        running = graph(lambda g, parts: g.materialize(parts[1])).run()
        assert running.value[0] == 1
        running.abandon()
        running = graph(lambda g, parts: g.materialize(*parts)).run()
        assert [value[0] for value in running.value[:2]] == [0, 1]
        assert isinstance(running.value[2], asyncio.Future)
        running.abandon()
        running = graph(lambda g, parts: g.materialize(parts[1], parts[0], combine=Keep.both)).run()
        (_, one), (_, other) = running.value
        for n, queue in enumerate((one, other)):
            queue.offer(n)
            queue.complete()
        assert sorted(await running) == [0, 1]

    run_in_virtual_time(main())


def test_a_graph_whose_parts_have_no_value_has_its_result() -> None:
    async def main() -> None:
        g = GraphBuilder()
        split = g.add(Broadcast[int](2))
        g.connect(g.add(Source.of(1)), split)
        for outlet in split.outlets:
            g.connect(outlet, g.add(Sink.collect()))
        running = g.build().run()
        assert await running.value == [[1], [1]]
        assert await running == [[1], [1]]

    run_in_virtual_time(main())


def test_the_values_of_partial_graphs_are_those_of_their_parts() -> None:
    async def main() -> None:
        g = GraphBuilder()
        merge = g.add(Merge[int](2))
        g.connect(g.add(Source.queue(4)), merge.inlets[1])
        flow = g.build_flow(merge.inlets[0], merge)
        running = Source.of(1).via(flow).to(Sink.collect()).run()
        running.value.offer(2)
        running.value.complete()
        assert sorted(await running) == [1, 2]

    run_in_virtual_time(main())


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
