"""Cases of the operators with a sink beside the stream, and of the junctions that share a stream out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streams import Flow, GraphBuilder, Sink
from streams.junctions import Balance, Broadcast, Junction, Merge, Partition, Unzip, UnzipWith, Zip, ZipWith
from streams.stages import fan_out as hubs
from streams.stages.fan_in import FAN_IN_PREFETCH
from tests.streams.catalogue.case import FlowCase, SinkCase, SourceCase

WAYS = 2
"""Outputs of the junctions."""


def number_and_negative(n: int) -> tuple[int, int]:
    return n, -n


def parity(n: int) -> int:
    return n % WAYS


def even(numbers: list[int]) -> list[int]:
    return [n for n in numbers if not parity(n)]


def pairs(numbers: list[int]) -> list[Any]:
    return [(n, -n) for n in numbers]


def shared_out(
    junction: Callable[[], Junction[Any, Any]],
    join: Callable[[], Junction[Any, Any]],
    before: Callable[[], Flow[Any, Any]] = Flow.identity,
) -> Callable[[], Flow[Any, Any]]:
    """A flow through a junction whose outputs meet again in another."""

    def make() -> Flow[Any, Any]:
        g = GraphBuilder("shared out")
        begin, split, meet = g.add(before()), g.add(junction()), g.add(join())
        g.connect(begin, split)
        for outlet, inlet in zip(split.outlets, meet.inlets, strict=True):
            g.connect(outlet, inlet)
        return g.build_flow(begin.inlet, meet.outlet)

    return make


def one_output(junction: Callable[[], Junction[Any, Any]]) -> Callable[[], Flow[Any, Any]]:
    """A flow through the first output of a junction; what comes out of the other goes to a sink that takes everything."""

    def make() -> Flow[Any, Any]:
        g = GraphBuilder("one output")
        split = g.add(junction())
        g.connect(split.outlets[1], g.add(Sink.ignore()))
        return g.build_flow(split.inlet, split.outlets[0])

    return make


def to_all(
    hub: Callable[[], hubs.FanOut[Any]], sinks: Callable[[], Sequence[Sink[Any, Any]]]
) -> Callable[[], Sink[Any, list[Any]]]:
    """What `Source.broadcast` and its like put behind a source, as a sink by itself."""
    return lambda: Sink(lambda publisher, m: hubs.attach_fan_out(publisher, m, hub(), sinks()), "to all")


def first_and_sum() -> list[Sink[Any, Any]]:
    """One that cancels after its first element, and one that takes all."""
    return [Sink.head_option(), Sink.fold(0, int.__add__)]


def both_sums() -> list[Sink[Any, Any]]:
    return [Sink.fold(0, int.__add__), Sink.fold(0, int.__add__)]


def pass_first(n: int, _other: int) -> int:
    return n


broadcast = shared_out(lambda: Broadcast(WAYS), lambda: ZipWith(WAYS, pass_first))
unzip_with = shared_out(lambda: UnzipWith(WAYS, number_and_negative), lambda: ZipWith(WAYS, pass_first))
balance = shared_out(lambda: Balance(WAYS), lambda: Merge(WAYS))
balance_for_all = shared_out(lambda: Balance(WAYS, wait_for_all=True), lambda: Merge(WAYS))
partition = shared_out(lambda: Partition(WAYS, parity), lambda: Merge(WAYS))

FLOWS: list[FlowCase] = [
    FlowCase(
        "also_to",
        lambda: Flow.identity().also_to(Sink.ignore()),
        model=list,
        identity=lambda: Flow.identity().also_to(Sink.ignore()),
    ),
    FlowCase(
        "divert_to",
        lambda: Flow.identity().divert_to(Sink.ignore(), lambda n: n % 2),
        model=lambda xs: [x for x in xs if not x % 2],
        ratio=2.0,
        ahead=1,
        identity=lambda: Flow.identity().divert_to(Sink.ignore(), lambda _: False),
    ),
    FlowCase(
        "wire_tap",
        lambda: Flow.identity().wire_tap(Sink.ignore()),
        model=list,
        identity=lambda: Flow.identity().wire_tap(Sink.ignore()),
    ),
    FlowCase(
        "wire_tap, a function",
        lambda: Flow.identity().wire_tap(lambda _: None),
        model=list,
        identity=lambda: Flow.identity().wire_tap(lambda _: None),
    ),
    FlowCase("graph, broadcast", broadcast, model=list, ahead=FAN_IN_PREFETCH, identity=broadcast),
    FlowCase("graph, broadcast, one output", one_output(lambda: Broadcast(WAYS)), model=list),
    # What goes to either output waits at the merge.
    FlowCase("graph, balance, unordered", balance, ahead=WAYS * FAN_IN_PREFETCH, identity=balance),
    FlowCase(
        "graph, balance, wait_for_all, unordered",
        balance_for_all,
        ahead=WAYS * FAN_IN_PREFETCH,
        identity=balance_for_all,
    ),
    FlowCase("graph, partition, unordered", partition, ahead=WAYS * FAN_IN_PREFETCH, identity=partition),
    FlowCase(
        "graph, partition, one output", one_output(lambda: Partition(WAYS, parity)), model=even, ratio=2.0, ahead=1
    ),
    FlowCase(
        "graph, unzip",
        shared_out(lambda: Unzip(WAYS), lambda: Zip(WAYS), lambda: Flow.identity().map(number_and_negative)),
        model=pairs,
        ahead=FAN_IN_PREFETCH,
    ),
    FlowCase("graph, unzip_with", unzip_with, model=list, ahead=FAN_IN_PREFETCH, identity=unzip_with),
]
SOURCES: list[SourceCase] = []
SINKS: list[SinkCase] = [
    SinkCase(
        "broadcast",
        to_all(lambda: hubs.Broadcast(WAYS, eager_cancel=False), first_and_sum),
        result=lambda xs: [xs[0] if xs else None, sum(xs)],
    ),
    SinkCase("balance", to_all(lambda: hubs.Balance(WAYS, wait_for_all=False, eager_cancel=False), both_sums)),
    SinkCase(
        "partition",
        to_all(lambda: hubs.Partition(WAYS, parity, eager_cancel=False), both_sums),
        result=lambda xs: [sum(even(xs)), sum(xs) - sum(even(xs))],
    ),
]
