"""``running.materialized`` and ``build(sink)``: values and results that are asked for by what they are."""

from __future__ import annotations

import pytest

from streams import (
    Flow,
    GraphBuilder,
    GraphError,
    Keep,
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


def test_a_sink_of_another_graph_is_refused() -> None:
    other = GraphBuilder("other").add(Sink.ignore())
    builder = GraphBuilder()
    builder.connect(builder.add(Source.of(1)), builder.add(Sink.ignore()))
    with pytest.raises(GraphError, match="another graph"):
        builder.build(other)
