"""``running.materialized``, ``build(sink)`` and ``build(value=part)``: values and results that are asked for by what they are."""

from __future__ import annotations

import pytest

from streams import (
    Flow,
    FlowMonitor,
    GraphBuilder,
    GraphError,
    Keep,
    KillSwitches,
    Processor,
    Publisher,
    Sink,
    SinkQueue,
    Source,
    SourceQueue,
    Subscriber,
    UniqueKillSwitch,
)
from streams.junctions import Broadcast
from streams.testkit import elapse, run_in_virtual_time


def test_a_value_is_found_by_its_class_wherever_it_stands() -> None:
    async def main() -> None:
        running = Source.queue(1, of=int).run_with(Sink.queue(), Keep.both)
        assert isinstance(running.materialized(SourceQueue[int]), SourceQueue)
        assert isinstance(running.materialized(SinkQueue), SinkQueue)
        with pytest.raises(TypeError, match="materialized no UniqueKillSwitch"):
            running.materialized(UniqueKillSwitch)
        await running.stop()

    run_in_virtual_time(main())


def test_a_value_is_found_by_its_shape_where_its_class_is_nobodys_business() -> None:
    async def main() -> None:
        running = Source.as_subscriber().run_with(Sink.as_publisher(), Keep.both)
        told, published = running.value
        assert running.materialized(Subscriber[int]) is told
        assert running.materialized(Publisher[int]) in {told, published}  # a subscriber that passes on is one, too
        with pytest.raises(TypeError, match="materialized no SourceQueue"):
            running.materialized(SourceQueue[int])
        await running.stop()
        processing = Flow[int, int].identity().to_processor().run()
        assert processing.materialized(Processor[int, int]) is processing.value
        await processing.stop()

    run_in_virtual_time(main())


@pytest.mark.parametrize("wanted", ["first", "second", "both", "the other way round"])
def test_a_graph_results_in_what_the_named_sinks_do_once_all_are_done(wanted: str) -> None:
    done: list[str] = []

    async def late(n: int) -> int:
        await elapse(1)
        done.append("late")
        return n

    async def main() -> object:
        builder = GraphBuilder()
        fan_out = builder.add(Broadcast[int](2))
        builder.connect(builder.add(Source.of(1, 2)), fan_out)
        total = builder.add(Sink.fold(0, int.__add__))
        count = builder.add(Sink.foreach_async(1, late))
        builder.connect(fan_out.outlets[0], total)
        builder.connect(fan_out.outlets[1], count)
        graphs = {
            "first": builder.build(total),
            "second": builder.build(count),
            "both": builder.build(total, count),
            "the other way round": builder.build(count, total),
        }
        return await graphs[wanted].run()

    assert run_in_virtual_time(main()) == {
        "first": 3,
        "second": 2,
        "both": (3, 2),
        "the other way round": (2, 3),
    }[wanted]  # fmt: skip
    assert done == ["late", "late"]


def test_a_graph_that_is_built_for_the_value_of_a_part_has_that_and_no_other() -> None:
    async def main() -> None:
        builder = GraphBuilder()
        queue = builder.add(Source.queue(4, of=int))
        switch = builder.add(KillSwitches.single())
        end = builder.add(Sink.collect())
        builder.connect(queue, switch)
        builder.connect(switch, end)
        builder.materialize(switch)
        graphs = [builder.build(value=queue), builder.build(end, value=queue)]
        for graph in graphs:
            running = graph.run()
            assert isinstance(running.value, SourceQueue)
            running.value.offer(1)
            running.value.complete()
            assert await running == [1]
        switched = builder.build().run()
        assert isinstance(switched.value, UniqueKillSwitch)
        await switched.stop()

    run_in_virtual_time(main())


def test_open_graphs_hand_on_the_value_of_the_part_they_are_built_for() -> None:
    async def main() -> None:
        builder = GraphBuilder("source")
        queue = builder.add(Source.queue(4, of=int))
        switch = builder.add(KillSwitches.single())
        builder.connect(queue, switch)
        assert isinstance(builder.build_source(switch, value=switch).run_with(Sink.ignore()).value, UniqueKillSwitch)
        builder = GraphBuilder("flow")
        switch = builder.add(KillSwitches.single())
        monitor = builder.add(Flow[int, int].identity().monitor())
        builder.connect(switch, monitor)
        flow = builder.build_flow(switch, monitor, value=monitor)
        assert isinstance(Source.of(1).via(flow).run_with(Sink.ignore()).value, FlowMonitor)
        builder = GraphBuilder("sink")
        pulled = builder.add(Sink.queue())
        switch = builder.add(KillSwitches.single())
        builder.connect(switch, pulled)
        assert isinstance(Source.never().run_with(builder.build_sink(switch, value=pulled)).value, SinkQueue)

    run_in_virtual_time(main())


def test_the_value_of_a_part_of_another_graph_is_refused() -> None:
    other = GraphBuilder("other").add(Source.queue(1))
    builder = GraphBuilder()
    builder.connect(builder.add(Source.of(1)), builder.add(Sink.ignore()))
    with pytest.raises(GraphError, match="another graph"):
        builder.build(value=other)


def test_a_sink_of_another_graph_is_refused() -> None:
    other = GraphBuilder("other").add(Sink.ignore())
    builder = GraphBuilder()
    builder.connect(builder.add(Source.of(1)), builder.add(Sink.ignore()))
    with pytest.raises(GraphError, match="another graph"):
        builder.build(other)
