"""Cases of the operators that make streams of a stream, or one stream of many."""

from __future__ import annotations

import math
from typing import Any

from streams import Flow, Sink, Source
from streams.operators.substreams import SPLIT_BREADTH
from streams.stages.flatten import SUBSTREAM_PREFETCH
from tests.streams.catalogue.case import FlowCase, SinkCase, SourceCase

KEYS = 4
LENGTH = 3
"""Elements in a substream that is split off."""


def key(n: int) -> int:
    return n % KEYS


def cut(n: int) -> bool:
    return n % LENGTH == 0


def grouped() -> Flow[Any, Any]:
    return Flow.identity().group_by(KEYS, key).merge_substreams()


def in_parallel() -> Flow[Any, Any]:
    return Flow.identity().group_by(KEYS, key).merge_substreams_with_parallelism(KEYS)


def prefix_and_tail() -> Flow[Any, Any]:
    return (
        Flow.identity()
        .prefix_and_tail(2, subscription_timeout=math.inf)
        .flat_map_concat(lambda pair: Source.from_iterable(pair[0]).concat(pair[1]))
    )


FLOWS: list[FlowCase] = [
    FlowCase("group_by", grouped, model=list, ahead=KEYS * SUBSTREAM_PREFETCH + 1, identity=grouped),
    FlowCase(
        "group_by, merge_substreams_with_parallelism",
        in_parallel,
        model=list,
        ahead=KEYS * SUBSTREAM_PREFETCH + 1,
        identity=in_parallel,
    ),
    FlowCase(
        "group_by, closed substreams recreated",
        lambda: (
            Flow.identity().group_by(KEYS, key, allow_closed_substream_recreation=True).take(LENGTH).merge_substreams()
        ),
        model=list,
        ahead=KEYS * LENGTH + 1,
    ),
    FlowCase(
        "split_when",
        lambda: Flow.identity().split_when(cut).concat_substreams(),
        model=list,
        identity=lambda: Flow.identity().split_when(cut).concat_substreams(),
    ),
    FlowCase(
        "split_when, merged",
        lambda: Flow.identity().split_when(cut).merge_substreams(),
        model=list,
        ahead=SPLIT_BREADTH * LENGTH + 1,
    ),
    FlowCase(
        "split_when, merge_substreams_with_parallelism",
        lambda: Flow.identity().split_when(cut).merge_substreams_with_parallelism(2),
        model=list,
        ahead=2 * LENGTH + 1,
    ),
    FlowCase(
        "split_after",
        lambda: Flow.identity().split_after(cut).concat_substreams(),
        model=list,
        identity=lambda: Flow.identity().split_after(cut).concat_substreams(),
    ),
    FlowCase(
        "split_after, merged",
        lambda: Flow.identity().split_after(cut).merge_substreams(),
        model=list,
        ahead=SPLIT_BREADTH * LENGTH + 1,
    ),
    FlowCase(
        "flat_map_concat",
        lambda: Flow.identity().flat_map_concat(lambda n: Source.of(n, n)),
        model=lambda xs: [x for x in xs for _ in range(2)],
        ratio=0.5,
        ahead=1,
        identity=lambda: Flow.identity().flat_map_concat(Source.single),
    ),
    FlowCase(
        "flat_map_merge",
        lambda: Flow.identity().flat_map_merge(KEYS, Source.single),
        model=list,
        ahead=KEYS,
        identity=lambda: Flow.identity().flat_map_merge(1, Source.single),
    ),
    # No identity: the prefix holds back what comes, and its pair cannot go on before it is asked for, not at the end of upstream either.
    FlowCase("prefix_and_tail", prefix_and_tail, model=list, ahead=1),
    FlowCase(
        "flat_map_prefix",
        lambda: Flow.identity().flat_map_prefix(2, lambda _: Flow.identity()),
        model=lambda xs: xs[2:],
        ahead=2,
    ),
]
SOURCES: list[SourceCase] = []
SINKS: list[SinkCase] = [
    SinkCase(
        "group_by, to a sink each",
        lambda: Flow.identity().group_by(KEYS, key).to(Sink.ignore()),
        result=lambda xs: len(set(map(key, xs))),
    ),
    SinkCase(
        "split_when, to a sink each",
        lambda: Flow.identity().split_when(cut).to(Sink.ignore()),
        result=lambda xs: len([x for i, x in enumerate(xs) if not i or cut(x)]),
    ),
]
