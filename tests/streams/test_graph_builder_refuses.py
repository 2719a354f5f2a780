"""What GraphBuilder refuses: ports without a connection or with two, of other graphs, of wrong kinds, parts out of reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streams import GraphBuilder, GraphError, Sink, Source
from streams.junctions import (
    Broadcast,
    Interleave,
    Merge,
    MergePrioritized,
    Zip,
)
from tests.streams.graph_parts import plus

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
