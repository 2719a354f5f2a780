"""Graphs that are no line: what is built, the parts that there are, and the values of a graph."""

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
from streams.stages.relay import Relay
from streams.testkit import run_in_virtual_time
from tests.streams.graph_parts import identity, plus


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
