"""What type checkers know of streams: checked by mypy --strict, never run. ``assert_type`` fails where a type has become Any."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Never, assert_type

from streams import (
    Flow,
    GraphBuilder,
    Keep,
    KillSwitches,
    Processor,
    Publisher,
    RunnableGraph,
    Running,
    Sink,
    SinkQueue,
    Source,
    SourceQueue,
    SubFlow,
    Subscriber,
    SubSource,
    UniqueKillSwitch,
)
from streams.junctions import Broadcast, Merge
from streams.ports import GraphPart, SinkPart


async def look_up(n: int) -> str:
    return str(n)


async def numbers() -> AsyncIterator[int]:
    yield 1


def lengths(text: str) -> int:
    return len(text)


def measured() -> Flow[str, int]:
    return Flow[str, str].identity().map(lengths)


def written() -> Flow[int, str]:
    return Flow[int, int].identity().map(str)


async def sources_and_flows() -> None:
    assert_type(Source.of(1, 2), Source[int])
    assert_type(Source.from_async_iterable(numbers), Source[int])
    assert_type(Source.of(1).map(str), Source[str])
    assert_type(Source.of(1).map_async(2, look_up).filter(bool).map(lengths), Source[int])
    assert_type(Source.of(1).grouped(2), Source[list[int]])
    assert_type(Source.of(1).zip(Source.of("a")), Source[tuple[int, str]])
    assert_type(Source.of(1).flat_map_concat(lambda n: Source.of(str(n))), Source[str])
    assert_type(measured(), Flow[str, int])
    assert_type(measured().map(str), Flow[str, str])
    assert_type(Source.of("a").via(measured()), Source[int])
    assert_type(Source.of(1).to(Sink.collect()), RunnableGraph[list[int]])
    assert_type(Source.of(1).to(Sink.collect()).run(), Running[list[int]])
    assert_type(await Source.of("a").run_with(Sink.head()), str)
    async for element in Source.of(1).map(str):
        assert_type(element, str)


def substreams(parity: Callable[[int], bool]) -> None:
    groups = Source.of(1).group_by(2, parity)
    assert_type(groups, SubSource[int])
    assert_type(groups.map(str), SubSource[str])
    assert_type(groups.map(str).map(lengths).filter(bool), SubSource[int])
    assert_type(groups.map_async(2, look_up), SubSource[str])
    assert_type(groups.scan(0.0, lambda total, n: total + n), SubSource[float])
    assert_type(groups.grouped(2).merge_substreams(), Source[list[int]])
    assert_type(groups.zip(Source.of("a")), SubSource[tuple[int, str]])
    assert_type(groups.map(str).to(Sink.ignore()), RunnableGraph[int])
    assert_type(Source.of(1).split_after(parity).map(str).concat_substreams(), Source[str])
    nested = groups.group_by(2, parity)
    assert_type(nested.map(str).merge_substreams(), SubSource[str])
    assert_type(nested.map(str).merge_substreams().merge_substreams(), Source[str])
    assert_type(nested.grouped(2).merge_substreams().take(1).concat_substreams(), Source[list[int]])
    assert_type(groups.split_after(parity).take(1).concat_substreams(), SubSource[int])
    assert_type(nested.to(Sink.ignore()), RunnableGraph[int])
    flows = measured().group_by(2, parity)
    assert_type(flows.split_when(parity).map(str).merge_substreams().merge_substreams(), Flow[str, str])
    assert_type(flows.group_by(2, parity).to(Sink.ignore()), Sink[str, int])
    assert_type(flows, SubFlow[str, int])
    assert_type(flows.map(str).take(2), SubFlow[str, str])
    assert_type(flows.map(str).merge_substreams(), Flow[str, str])


async def queues_and_switches() -> None:
    source = Source.queue(10, of=int)
    assert_type(source, Source[int])
    running = source.map(str).run_with(Sink.queue(), Keep.both)
    assert_type(running.materialized(SourceQueue[int]), SourceQueue[int])
    pulled = running.materialized(SinkQueue[str])
    assert_type(pulled, SinkQueue[str])
    assert_type(await pulled.pull(), str | None)
    switched = source.via(KillSwitches.single(), Keep.both)
    assert_type(switched, Source[int])
    assert_type(switched.run_with(Sink.ignore()).materialized(UniqueKillSwitch), UniqueKillSwitch)
    switch = KillSwitches.single()
    assert_type(source.via(switch), Source[int])
    assert_type(source.via(switch, Keep.both).map(str).via(switch), Source[str])
    assert_type(measured().via(switch).map(str), Flow[str, str])
    shared = KillSwitches.shared("all")
    assert_type(source.via(shared.flow), Source[int])
    assert_type(measured().via(shared.flow), Flow[str, int])


def values_that_are_shapes() -> None:
    published = Source.of(1).to(Sink.as_publisher()).run().materialized(Publisher[int])
    assert_type(published, Publisher[int])
    told = Source.as_subscriber().to(Sink.ignore()).run().materialized(Subscriber[str])
    assert_type(told, Subscriber[str])
    processor = measured().to_processor().run().materialized(Processor[str, int])
    assert_type(processor, Processor[str, int])
    assert_type(Source.of(1).to(Sink.as_async_iterator()).run().materialized(AsyncIterator[int]), AsyncIterator[int])


async def graphs() -> None:
    builder = GraphBuilder()
    source = builder.add(Source.of(1))
    fan_out = builder.add(Broadcast[int](2))
    merge = builder.add(Merge[str](2))
    length: Sink[str, int] = Sink.fold(0, lambda so_far, text: so_far + lengths(text))
    everything: Sink[int, list[int]] = Sink.collect()
    total = builder.add(length)
    seen = builder.add(everything)
    builder.connect(source, fan_out)
    builder.connect(fan_out.outlets[0], written(), merge.inlets[0])
    builder.connect(fan_out.outlets[1], seen)
    builder.connect(merge, measured(), written(), total)
    assert_type(source, GraphPart[Never, int])
    assert_type(seen, SinkPart[int, list[int]])
    assert_type(merge, GraphPart[str, str])
    assert_type(builder.build(total), RunnableGraph[int])
    assert_type(builder.build(total, seen, total), RunnableGraph[tuple[int, list[int], int]])
    assert_type(builder.build(total, seen, total, seen, total), RunnableGraph[tuple[Any, ...]])
    switched = builder.add(Source.of(1))
    builder.connect(switched, KillSwitches.single(), seen)
    builder.connect(switched, KillSwitches.shared("all").flow, written(), merge.inlets[1])
    flow = builder.add(measured())
    assert_type(builder.build_source(switched), Source[int])
    assert_type(builder.build_flow(flow, flow), Flow[str, int])
    assert_type(await builder.build(total, seen).run(), tuple[int, list[int]])
    assert_type(Source.of(1).broadcast(Sink.collect(), Sink.collect()), RunnableGraph[list[list[int]]])
    assert_type(await Source.of(1).broadcast(Sink.fold("", _joined), Sink.fold(0, _added)).run(), list[str | int])


def several_sinks() -> None:
    text, total, source = Sink.fold("", _joined), Sink.fold(0, _added), Source.of(1)
    everything: Sink[int, list[int]] = Sink.collect()
    assert_type(source.broadcast(total, total, total, total), RunnableGraph[list[int]])
    assert_type(source.broadcast(text, total, everything), RunnableGraph[list[str | int | list[int]]])
    assert_type(source.balance(total), RunnableGraph[list[int]])
    assert_type(source.balance(text, total), RunnableGraph[list[str | int]])
    assert_type(source.balance(text, total, everything), RunnableGraph[list[str | int | list[int]]])
    assert_type(source.partition(abs, text, total), RunnableGraph[list[str | int]])
    assert_type(source.partition(abs, text, total, everything), RunnableGraph[list[str | int | list[int]]])


def _joined(text: str, n: int) -> str:
    return text + str(n)


def _added(total: int, n: int) -> int:
    return total + n
