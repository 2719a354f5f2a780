"""Two flows side by side: joined, stacked, turned round."""

from __future__ import annotations

from typing import Any

import pytest

from streams import BidiFlow, Flow, GraphBuilder, GraphError, Sink, Source
from streams.junctions import Broadcast, Merge
from streams.testkit import TestSink, TestSource, run_in_virtual_time


def codec() -> BidiFlow[int, str, str, int]:
    return BidiFlow.from_functions(str, int)


def framing() -> BidiFlow[str, bytes, bytes, str]:
    return BidiFlow.from_functions(lambda text: text.encode() + b"\n", lambda line: line.decode().strip())


def collected(flow: Flow[Any, Any], *elements: Any) -> Any:
    return Source.from_iterable(elements).via(flow).to(Sink.collect()).run_blocking()


def test_a_codec_joined_with_a_flow_is_a_flow() -> None:
    doubled = codec().join(Flow[str, str].identity().map(lambda text: text * 2))
    assert collected(doubled, 1, 23) == [11, 2323]


def test_layers_are_stacked_and_the_way_back_is_the_other_way_round() -> None:
    seen: list[bytes] = []

    def wire(line: bytes) -> bytes:
        seen.append(line)
        return line

    stack = codec().atop(framing())
    assert collected(stack.join(Flow[bytes, bytes].identity().map(wire)), 7, 8) == [7, 8]
    assert seen == [b"7\n", b"8\n"]
    assert "atop" in stack.name


def test_a_stack_and_its_reverse_joined_let_everything_through() -> None:
    stack = codec().atop(framing())
    assert collected(stack.atop(stack.reversed()).join(Flow[int, int].identity()), 1, 2) == [1, 2]
    assert collected(BidiFlow[Any, Any, Any, Any].identity().join(Flow[Any, Any].identity()), 3) == [3]


def test_demand_failures_and_cancellation_go_all_the_way() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.via(codec().atop(framing()).join(Flow.identity())).to(sink).run()
        await source.probe.expect_no_request()
        sink.request(2)
        await source.probe.expect_request(2)
        source.probe.send_next(5)
        await sink.expect_next(5)
        sink.cancel()
        await source.probe.expect_cancellation()
        with pytest.raises(ValueError, match="invalid literal"):
            await Source.of(1).via(codec().join(Flow[str, str].identity().map(lambda _: "x"))).to(Sink.ignore()).run()

    run_in_virtual_time(main())


def test_a_bidi_flow_is_a_junction_and_is_built_from_a_graph() -> None:
    g = GraphBuilder("counted")
    split, merge = g.add(Broadcast[int](2)), g.add(Merge[int](2))
    back = g.add(Flow[int, int].identity())
    g.connect(split.outlets[1], merge.inlets[1])
    g.connect(back, merge.inlets[0])
    with pytest.raises(GraphError, match="twice"):
        g.build_bidi(split, split.outlets[0], split, merge)
    both = g.build_bidi(split, split.outlets[0], back, merge)
    assert sorted(collected(both.join(Flow[int, int].identity().map(lambda n: n * 10)), 1, 2)) == [1, 2, 10, 20]

    outer = GraphBuilder()
    part = outer.add(codec())
    outer.connect(outer.add(Source.of(1)), part.inlets[0])
    outer.connect(outer.add(Source.of("2")), part.inlets[1])
    for outlet in part.outlets:
        outer.connect(outlet, outer.add(Sink.collect()))
    assert outer.build().run_blocking() == [["1"], [2]]


@pytest.mark.parametrize("wrong", [print, Sink.ignore(), Source.of(1)])
def test_only_flows_are_joined(wrong: Any) -> None:
    with pytest.raises(TypeError):
        codec().join(wrong)
    with pytest.raises(TypeError):
        BidiFlow.from_flows(wrong, Flow[int, int].identity())
