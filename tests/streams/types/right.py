"""What type checkers know of streams: checked by mypy --strict, never run. ``assert_type`` fails where a type has become Any."""

from __future__ import annotations

from asyncio import Future
from collections.abc import AsyncIterator, Callable
from typing import Any, Never, assert_type

from reactivex import Observable

from streams import (
    BidiFlow,
    Flow,
    FlowLike,
    FlowMonitor,
    GraphBuilder,
    GraphPart,
    Keep,
    KillSwitches,
    Materialization,
    Processor,
    Publisher,
    QueueOfferResult,
    RunnableGraph,
    Running,
    SharedKillSwitch,
    Sink,
    SinkLike,
    SinkQueue,
    Source,
    SourceLike,
    SourceQueue,
    SubFlow,
    Subscriber,
    SubSource,
    Termination,
    UniqueKillSwitch,
)
from streams.junctions import Broadcast, Merge
from streams.ports import SinkPart
from streams.testkit import TestPublisher, TestSink, TestSource
from transport.tcp import Binding, bind, outgoing_connection


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
    assert_type(Source.of(1, 2), Source[int, None])
    assert_type(Source.from_async_iterable(numbers), Source[int, None])
    assert_type(Source.of(1).map(str), Source[str, None])
    assert_type(Source.of(1).map_async(2, look_up).filter(bool).map(lengths), Source[int, None])
    assert_type(Source.of(1).grouped(2), Source[list[int], None])
    assert_type(Source.of(1).zip(Source.of("a")), Source[tuple[int, str], None])
    assert_type(Source.of(1).flat_map_concat(lambda n: Source.of(str(n))), Source[str, None])
    assert_type(measured(), Flow[str, int])
    assert_type(measured().map(str), Flow[str, str])
    assert_type(Source.of("a").via(measured()), Source[int])
    assert_type(Source.of(1).to(Sink.collect()), RunnableGraph[list[int], Future[list[int]]])
    assert_type(Source.of(1).to(Sink.collect()).run(), Running[list[int], Future[list[int]]])
    assert_type(await Source.of("a").run_with(Sink.head()), str)
    async for element in Source.of(1).map(str):
        assert_type(element, str)


def substreams(parity: Callable[[int], bool]) -> None:
    groups = Source.of(1).group_by(2, parity)
    assert_type(groups, SubSource[int, None])
    assert_type(groups.map(str), SubSource[str, None])
    assert_type(groups.map(str).map(lengths).filter(bool), SubSource[int, None])
    assert_type(groups.map_async(2, look_up), SubSource[str, None])
    assert_type(groups.scan(0.0, lambda total, n: total + n), SubSource[float, None])
    assert_type(groups.grouped(2).merge_substreams(), Source[list[int], None])
    assert_type(groups.zip(Source.of("a")), SubSource[tuple[int, str], None])
    assert_type(groups.map(str).to(Sink.ignore()), RunnableGraph[int, Future[int]])
    assert_type(Source.of(1).split_after(parity).map(str).concat_substreams(), Source[str, None])
    nested = groups.group_by(2, parity)
    assert_type(nested.map(str).merge_substreams(), SubSource[str, None])
    assert_type(nested.map(str).merge_substreams().merge_substreams(), Source[str, None])
    assert_type(nested.grouped(2).merge_substreams().take(1).concat_substreams(), Source[list[int], None])
    assert_type(groups.split_after(parity).take(1).concat_substreams(), SubSource[int, None])
    assert_type(nested.to(Sink.ignore()), RunnableGraph[int, Future[int]])
    flows = measured().group_by(2, parity)
    assert_type(flows.split_when(parity).map(str).merge_substreams().merge_substreams(), Flow[str, str])
    assert_type(flows.group_by(2, parity).to(Sink.ignore()), Sink[str, int])
    assert_type(flows, SubFlow[str, int])
    assert_type(flows.map(str).take(2), SubFlow[str, str])
    assert_type(flows.map(str).merge_substreams(), Flow[str, str])


async def queues_and_switches() -> None:
    source = Source.queue(10, of=int)
    assert_type(source, Source[int, SourceQueue[int]])
    running = source.map(str).run_with(Sink.queue(), Keep.both)
    assert_type(running.materialized(SourceQueue[int]), SourceQueue[int])
    pulled = running.materialized(SinkQueue[str])
    assert_type(pulled, SinkQueue[str])
    assert_type(await pulled.pull(), str | None)
    switched = source.via(KillSwitches.single(), Keep.both)
    assert_type(switched, Source[int, tuple[SourceQueue[int], UniqueKillSwitch]])
    assert_type(switched.run_with(Sink.ignore()).materialized(UniqueKillSwitch), UniqueKillSwitch)
    switch = KillSwitches.single()
    assert_type(source.via(switch), Source[int, SourceQueue[int]])
    assert_type(
        source.via(switch, Keep.both).map(str).via(switch), Source[str, tuple[SourceQueue[int], UniqueKillSwitch]]
    )
    assert_type(measured().via(switch).map(str), Flow[str, str])
    shared = KillSwitches.shared("all")
    assert_type(source.via(shared.flow), Source[int, SourceQueue[int]])
    assert_type(measured().via(shared.flow), Flow[str, int])


def whose_value_is_kept(of_both: Callable[[SourceQueue[int], UniqueKillSwitch], float]) -> None:
    plain, queue, switch = Source.of(1), Source.queue(1, of=int), KillSwitches.single()
    nothing: Flow[Any, int, None] = Flow[Any, Any].identity().map(lengths)
    assert_type(Source.queue(1), Source[Any, SourceQueue[Any]])
    assert_type(written(), Flow[int, str, Any])
    assert_type(Flow[int, int].identity().map(str), Flow[int, str, None])
    # Without a combination: the first there is.
    assert_type(plain.via(Flow[int, int].identity()), Source[int, None])
    assert_type(plain.via(switch), Source[int, UniqueKillSwitch])
    assert_type(queue.via(switch), Source[int, SourceQueue[int]])
    assert_type(queue.map(str).via(measured()).filter(bool), Source[int, SourceQueue[int]])
    perhaps = queue.map_materialized(lambda offers: offers if len(offers) else None)
    assert_type(perhaps.via(switch), Source[int, SourceQueue[int] | None])
    assert_type(plain.via(nothing), Source[int, None])
    assert_type(queue.via(nothing), Source[int, SourceQueue[int]])
    assert_type(Flow[int, int].identity().via(switch), Flow[int, int, UniqueKillSwitch])
    assert_type(switch.via(Flow[int, int].identity()), Flow[Any, int, UniqueKillSwitch])
    assert_type(Flow[int, int].identity().to(Sink.queue()), Sink[int, None, SinkQueue[int]])
    assert_type(Flow[int, int].identity().via(switch).to(Sink.queue()), Sink[int, None, UniqueKillSwitch])
    # With one: what it makes of the two.
    assert_type(queue.via(switch, Keep.left), Source[int, SourceQueue[int]])
    assert_type(queue.via(switch, Keep.right), Source[int, UniqueKillSwitch])
    assert_type(queue.via(switch, Keep.both), Source[int, tuple[SourceQueue[int], UniqueKillSwitch]])
    assert_type(queue.via(switch, Keep.none), Source[int, None])
    assert_type(queue.via(switch, of_both), Source[int, float])
    assert_type(queue.via(switch, lambda offers, _: offers.offer(1)), Source[int, QueueOfferResult])
    assert_type(Flow[int, int].identity().via(switch, Keep.both), Flow[int, int, tuple[None, UniqueKillSwitch]])
    assert_type(queue.to(Sink.queue(), Keep.both), RunnableGraph[None, tuple[SourceQueue[int], SinkQueue[int]]])
    assert_type(queue.to(Sink.fold(0, lambda a, b: a + b), Keep.right), RunnableGraph[int, Future[int]])
    assert_type(queue.map_materialized(lambda offers: offers.offer(1)), Source[int, QueueOfferResult])
    assert_type(switch.map_materialized(lambda each: each.name), Flow[Any, Any, str])
    assert_type(Sink.ignore().map_materialized(lambda done: done.done()), Sink[object, None, bool])
    # Other sources and sinks beside it.
    assert_type(plain.merge(plain), Source[int, None])
    assert_type(plain.merge(queue), Source[int, SourceQueue[int]])
    assert_type(queue.merge(plain, plain), Source[int, SourceQueue[int]])
    assert_type(plain.zip(queue), Source[tuple[int, int], SourceQueue[int]])
    assert_type(plain.zip_with(queue, _added), Source[int, SourceQueue[int]])
    assert_type(plain.prepend(queue), Source[int, SourceQueue[int]])
    assert_type(plain.concat(queue), Source[int, None])
    assert_type(Flow[int, int].identity().merge(queue), Flow[int, int, SourceQueue[int]])
    assert_type(queue.also_to(Sink.ignore()), Source[int, SourceQueue[int]])
    assert_type(queue.also_to(Sink.queue(), Keep.both), Source[int, tuple[SourceQueue[int], SinkQueue[int]]])
    assert_type(queue.divert_to(Sink.ignore(), bool, Keep.right), Source[int, Future[None]])
    assert_type(queue.wire_tap(print), Source[int, SourceQueue[int]])
    assert_type(plain.wire_tap(Sink.collect(), Keep.right), Source[int, Future[list[int]]])
    assert_type(queue.group_by(2, bool).map(str).merge_substreams(), Source[str, SourceQueue[int]])
    assert_type(queue.group_by(2, bool).to(Sink.ignore()), RunnableGraph[int, SourceQueue[int]])
    assert_type(queue.group_by(2, bool).to(Sink.ignore(), Keep.right), RunnableGraph[int, Future[int]])
    assert_type(queue.broadcast(Sink.collect(), Sink.collect()), RunnableGraph[list[list[int]], SourceQueue[int]])


def what_is_there_to_hold() -> None:
    source = Source.of(1)
    assert_type(Source.queue(1, of=int).run_with(Sink.ignore()).value, SourceQueue[int])
    assert_type(source.run_with(Sink.ignore()).value, Future[None])
    assert_type(source.run_with(Sink.fold(0, lambda a, b: a + b)).value, Future[int])
    assert_type(Source.as_subscriber().run_with(Sink.ignore()).value, Subscriber[Any])
    assert_type(source.run_with(Sink.queue()).value, SinkQueue[int])
    assert_type(source.run_with(Sink.as_async_iterator()).value, SinkQueue[int])
    assert_type(source.run_with(Sink.as_publisher()).value, Publisher[int])
    assert_type(source.run_with(Sink.as_observable()).value, Observable[int])
    assert_type(source.map(str).monitor().run_with(Sink.ignore()).value, FlowMonitor[str])
    assert_type(source.watch_termination().run_with(Sink.ignore()).value, Future[Termination])
    assert_type(source.watch_termination(print).run_with(Sink.ignore()).value, Future[None])
    queue = Source.queue(1, of=int)
    assert_type(queue.monitor().to(Sink.ignore()), RunnableGraph[None, SourceQueue[int]])
    assert_type(queue.monitor(Keep.both), Source[int, tuple[SourceQueue[int], FlowMonitor[int]]])
    assert_type(queue.watch_termination(), Source[int, SourceQueue[int]])
    assert_type(queue.watch_termination(combine=Keep.right), Source[int, Future[Termination]])
    assert_type(measured().to_processor().run().value, Processor[str, int])
    assert_type(source.via(KillSwitches.shared("all").flow).run_with(Sink.ignore()).value, SharedKillSwitch)
    assert_type(bind("localhost:0").run_with(Sink.ignore()).value, Binding)
    assert_type(outgoing_connection("localhost:1"), Flow[bytes, bytes, None])
    assert_type(TestSource[int]().to(TestSink[int](), Keep.both).run().value, tuple[TestPublisher[int], Future[None]])
    assert_type(source.to(TestSink[int]()), RunnableGraph[None, Future[None]])


class Short:
    """A flow that has the one method."""

    def attach_flow(self, publisher: Publisher[int], m: Materialization) -> Publisher[str]:
        raise NotImplementedError


class ShortEnd:
    """A sink that has the one method."""

    def attach_sink(self, publisher: Publisher[int], m: Materialization) -> Future[bytes]:
        raise NotImplementedError


class Long(Short):
    """A flow that materializes a value."""

    def create_flow(self, publisher: Publisher[int], m: Materialization) -> tuple[Publisher[str], float]:
        raise NotImplementedError


class Beginning:
    """A source."""

    def create(self, m: Materialization) -> tuple[Publisher[int], str]:
        raise NotImplementedError


def parts_of_ones_own() -> None:
    plain, queue = Source.of(1), Source.queue(1, of=int)
    assert_type(plain.via(Short()), Source[str, None])
    assert_type(plain.via(Long()), Source[str, float])
    assert_type(queue.via(Short()), Source[str, SourceQueue[int]])
    assert_type(queue.via(Long()), Source[str, SourceQueue[int]])
    assert_type(queue.via(Long(), Keep.both), Source[str, tuple[SourceQueue[int], float]])
    assert_type(queue.via(Short(), Keep.both), Source[str, tuple[SourceQueue[int], None]])
    assert_type(plain.to(ShortEnd()), RunnableGraph[bytes, Future[bytes]])
    assert_type(queue.to(ShortEnd(), Keep.both), RunnableGraph[bytes, tuple[SourceQueue[int], Future[bytes]]])
    assert_type(plain.merge(Beginning()), Source[int, str])


async def types_that_say_nothing_of_the_value(
    source: Source[int],
    flow: Flow[int, str],
    sink: Sink[int, bytes],
    graph: RunnableGraph[bytes],
    running: Running[bytes],
) -> None:
    """As they were written before there was more to write: nothing but the value is Any, and Any it stays."""
    like: SourceLike[int] = source
    of_flow: FlowLike[int, str] = flow
    of_sink: SinkLike[int, bytes] = sink
    assert_type(Source.of(1).via(of_flow), Source[str, None])
    assert_type(source.via(of_flow), Source[str])
    assert_type(source.via(of_flow, Keep.right), Source[str, None])
    assert_type(Flow[int, int].identity().via(of_flow).to(Sink.head()).name, str)
    assert_type(source.to(of_sink).run_blocking(), bytes)
    assert_type(Source.of(1).run_with(of_sink).value, Future[bytes])
    assert_type(source.to(of_sink, Keep.right).run().value, Future[bytes])
    GraphBuilder().add(of_flow)
    GraphBuilder().add(of_sink)
    assert_type(source.also_to(of_sink), Source[int])
    several: list[Source[int]] = [source, Source.of(1), Source.queue(1, of=int)]
    assert_type(running.value, Any)
    assert_type(graph.run().value, Any)
    assert_type(source.to(sink), RunnableGraph[bytes])
    assert_type(source.via(flow), Source[str])
    assert_type(source.via(of_flow), Source[str])
    assert_type(source.to(of_sink), RunnableGraph[bytes])
    assert_type(Source.of(1).via(flow), Source[str])
    assert_type(Source.of(1).to(sink), RunnableGraph[bytes])
    assert_type(source.merge(like, *several), Source[int])
    assert_type(Source.of(1).merge(source), Source[int])
    assert_type(source.map(str), Source[str])
    assert_type(source.monitor(), Source[int])
    assert_type(source.watch_termination(), Source[int])
    assert_type(source.via(KillSwitches.single()), Source[int])
    assert_type(source.via(flow, Keep.both), Source[str, tuple[Any, Any]])
    assert_type(source.to(Sink.collect()), RunnableGraph[list[int]])
    assert_type(source.to(Sink.foreach(lambda n: n + 1)), RunnableGraph[int])
    assert_type(await source.run_with(Sink.fold(0, lambda a, b: a + b)), int)
    assert_type(source.via(Flow[Any, Any].identity().map(lambda n: len([n]))), Source[int])
    assert_type(flow.to(Sink.fold("", lambda a, b: a + b)), Sink[int, str])
    assert_type(source.group_by(2, bool), SubSource[int])
    assert_type(source.broadcast(Sink.collect(), Sink.collect()), RunnableGraph[list[list[int]]])
    assert_type(source.map_materialized(lambda value: value.offer(1)), Source[int])


def values_of_graphs() -> None:
    builder = GraphBuilder()
    queue = builder.add(Source.queue(1, of=int))
    switching: Flow[int, int, UniqueKillSwitch] = KillSwitches.single()
    switch = builder.add(switching)
    pulled: Sink[int, None, SinkQueue[int]] = Sink.queue()
    end = builder.add(pulled)
    ignored = builder.add(Sink.ignore())
    assert_type(queue, GraphPart[Never, int, SourceQueue[int]])
    assert_type(switch, GraphPart[int, int, UniqueKillSwitch])
    assert_type(end, SinkPart[int, None, SinkQueue[int]])
    assert_type(ignored, SinkPart[object, None, Future[None]])
    codec = builder.add(BidiFlow.from_flows(measured(), KillSwitches.single(), Keep.right))
    assert_type(codec, GraphPart[Any, Any, UniqueKillSwitch])
    assert_type(builder.add(Short()), GraphPart[int, str, None])
    assert_type(builder.add(ShortEnd()), SinkPart[int, bytes, Future[bytes]])
    assert_type(builder.build(), RunnableGraph[Any])
    assert_type(builder.build(end), RunnableGraph[None])
    assert_type(builder.build(value=queue), RunnableGraph[Any, SourceQueue[int]])
    assert_type(builder.build(end, value=queue), RunnableGraph[None, SourceQueue[int]])
    assert_type(builder.build(end, end, end, value=queue), RunnableGraph[tuple[None, None, None], SourceQueue[int]])
    assert_type(builder.build_source(queue, value=end), Source[int, SinkQueue[int]])
    assert_type(builder.build_flow(end, queue, value=queue), Flow[int, int, SourceQueue[int]])
    assert_type(builder.build_sink(end, value=end), Sink[int, Any, SinkQueue[int]])


def values_of_two_flows(there: Flow[int, str], switch: Flow[int, str, UniqueKillSwitch]) -> None:
    codec = BidiFlow.from_functions(str, lengths)
    assert_type(BidiFlow.from_flows(there, measured()), BidiFlow[int, str, str, int])
    held = BidiFlow.from_flows(switch, Flow[str, str].identity().map(lengths), Keep.left)
    assert_type(held, BidiFlow[int, str, str, int, UniqueKillSwitch])
    assert_type(held.reversed(), BidiFlow[str, int, int, str, UniqueKillSwitch])
    assert_type(held.join(Flow[str, str].identity()), Flow[int, int, UniqueKillSwitch])
    assert_type(held.join(Flow[str, str].identity(), Keep.both), Flow[int, int, tuple[UniqueKillSwitch, None]])
    assert_type(codec.join(KillSwitches.single()), Flow[object, int, UniqueKillSwitch])


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
    assert_type(source, GraphPart[Never, int, None])
    assert_type(seen, SinkPart[int, list[int]])
    assert_type(merge, GraphPart[str, str, None])
    assert_type(fan_out, GraphPart[int, int, None])
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
    assert_type(
        Source.of(1).broadcast(Sink.collect(), Sink.collect()), RunnableGraph[list[list[int]], Future[list[list[int]]]]
    )
    assert_type(await Source.of(1).broadcast(Sink.fold("", _joined), Sink.fold(0, _added)).run(), list[str | int])


def several_sinks() -> None:
    text, total, source = Sink.fold("", _joined), Sink.fold(0, _added), Source.of(1)
    everything: Sink[int, list[int]] = Sink.collect()
    assert_type(source.broadcast(total, total, total, total), RunnableGraph[list[int], Future[list[int]]])
    assert_type(
        source.broadcast(text, total, everything),
        RunnableGraph[list[str | int | list[int]], Future[list[str | int | list[int]]]],
    )
    assert_type(source.balance(total), RunnableGraph[list[int], Future[list[int]]])
    assert_type(source.balance(text, total), RunnableGraph[list[str | int], Future[list[str | int]]])
    assert_type(
        source.balance(text, total, everything),
        RunnableGraph[list[str | int | list[int]], Future[list[str | int | list[int]]]],
    )
    assert_type(source.partition(abs, text, total), RunnableGraph[list[str | int], Future[list[str | int]]])
    assert_type(
        source.partition(abs, text, total, everything),
        RunnableGraph[list[str | int | list[int]], Future[list[str | int | list[int]]]],
    )


def _joined(text: str, n: int) -> str:
    return text + str(n)


def _added(total: int, n: int) -> int:
    return total + n
