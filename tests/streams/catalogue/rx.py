"""Operators of reactivex in `Flow.rx`: one case for each class, and for what ends or flushes in a way of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import reactivex
from reactivex import operators as ops

from streams import Flow
from tests.streams.catalogue.case import FlowCase, SinkCase, SourceCase


def rx(*operators: Callable[[Any], Any]) -> Callable[[], Flow[Any, Any]]:
    return lambda: Flow.rx(*operators)


def running_sums(numbers: list[int]) -> list[int]:
    return [sum(numbers[: i + 1]) for i in range(len(numbers))]


FLOWS: list[FlowCase] = [
    FlowCase("rx", rx(), list, identity=rx()),
    FlowCase("rx, map", rx(ops.map(lambda n: n + 1)), lambda ns: [n + 1 for n in ns], identity=rx(ops.map(lambda n: n))),
    FlowCase(
        "rx, map_indexed",
        lambda: Flow.rx(ops.map_indexed(lambda n, i: n + i)),
        lambda ns: [n + i for i, n in enumerate(ns)],
        identity=lambda: Flow.rx(ops.map_indexed(lambda n, _: n)),
    ),
    FlowCase("rx, scan", rx(ops.scan(lambda a, b: a + b)), running_sums),
    FlowCase("rx, do_action", rx(ops.do_action(lambda _: None)), list, identity=rx(ops.do_action(lambda _: None))),
    FlowCase(
        "rx, filter",
        rx(ops.filter(lambda n: n % 2 == 0)),
        lambda ns: [n for n in ns if n % 2 == 0],
        ratio=2,
        identity=rx(ops.filter(lambda _: True)),
    ),
    FlowCase(
        "rx, distinct_until_changed",
        rx(ops.distinct_until_changed(lambda n: n // 3)),
        lambda ns: [next(alike) for _, alike in itertools.groupby(ns, lambda n: n // 3)],
        ratio=3,
    ),
    FlowCase("rx, pairwise", rx(ops.pairwise()), lambda ns: list(itertools.pairwise(ns)), ahead=1),
    FlowCase("rx, skip", rx(ops.skip(5)), lambda ns: ns[5:], ahead=5, identity=rx(ops.skip(0))),
    FlowCase("rx, skip_last", rx(ops.skip_last(3)), lambda ns: ns[:-3], ahead=3),
    FlowCase("rx, take", rx(ops.take(4)), lambda ns: ns[:4], ends=True, identity=rx(ops.take(10**12))),
    FlowCase(
        "rx, take_while",
        rx(ops.take_while(lambda n: n != 5)),
        lambda ns: ns[: ns.index(5)] if 5 in ns else ns,
        ends=True,
        identity=rx(ops.take_while(lambda _: True)),
    ),
    FlowCase("rx, buffer_with_count", rx(ops.buffer_with_count(3)), lambda ns: [ns[i : i + 3] for i in range(0, len(ns), 3)], ratio=3),
    FlowCase("rx, flat_map", rx(ops.flat_map(lambda n: [n, n])), lambda ns: [n for n in ns for _ in "ab"], ratio=0.5, ahead=1, costly=100),
    FlowCase(
        "rx, flat_map of one",
        rx(ops.flat_map(lambda n: [n])),
        list,
        costly=100,
        identity=rx(ops.flat_map(lambda n: [n])),
    ),
    FlowCase(
        "rx, flat_map of observables",
        rx(ops.flat_map(lambda n: reactivex.of(n, -n))),
        lambda ns: [m for n in ns for m in (n, -n)],
        ratio=0.5,
        ahead=1,
        costly=100,
    ),
    FlowCase("rx, start_with", rx(ops.start_with(-2, -1)), lambda ns: [-2, -1, *ns]),
    FlowCase("rx, take_last", rx(ops.take_last(3)), lambda ns: ns[-3:], ratio=float("inf")),
    FlowCase("rx, count", rx(ops.count()), lambda ns: [len(ns)], ratio=float("inf")),
    FlowCase(
        "rx, a chain",
        rx(ops.map(lambda n: n + 1), ops.filter(lambda n: n % 3 == 0), ops.buffer_with_count(2), ops.flat_map(lambda pair: pair)),
        lambda ns: [n + 1 for n in ns if (n + 1) % 3 == 0],
        ratio=3,
        ahead=6,
        costly=100,
    ),
]  # fmt: skip
SOURCES: list[SourceCase] = []
SINKS: list[SinkCase] = []
