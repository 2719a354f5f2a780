"""Cases of the operators whose elements meet those of other sources, and of graphs built of junctions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streams import Flow, GraphBuilder, Source
from streams.junctions import Broadcast, Concat, Merge, Zip
from streams.publishers.iterable import EMIT_BUDGET
from streams.stages.fan_in import FAN_IN_PREFETCH
from tests.streams.catalogue.case import FlowCase

A_FEW = (-1, -2, -3)
"""What another source has, where it has an end."""

WITH_THE_FIRST_ROW = EMIT_BUDGET + 2 * FAN_IN_PREFETCH
"""What an input of the operators that combine the latest may give ahead: what it gave while the other had none takes no place, and as in a
merge one may have a whole turn of the loop before the other gets one."""


def flow() -> Flow[Any, Any]:
    """The beginning of every case's flow."""
    return Flow.identity()


def few() -> Source[int]:
    return Source.from_iterable(A_FEW)


def endless() -> Source[int]:
    return Source.repeat(-1)


def interleaved(numbers: list[int], segment: int) -> list[int]:
    mine, others, result = list(numbers), list(A_FEW), []
    while mine or others:
        result += mine[:segment] + others[:segment]
        del mine[:segment], others[:segment]
    return result


def latest_with_one(numbers: list[int]) -> list[tuple[int, int]]:
    return [(n, -1) for n in numbers]


def diamond() -> Flow[int, tuple[int, int]]:
    """Each number and its square, by two ways that meet again."""
    g = GraphBuilder("diamond")
    split, join = g.add(Broadcast[int](2)), g.add(Zip(2))
    g.connect(split.outlets[0], join.inlets[0])
    g.connect(split.outlets[1], flow().map(lambda n: n * n), join.inlets[1])
    return g.build_flow(split, join)


def between() -> Flow[int, int]:
    """The few, then what flows in, then the few again."""
    g = GraphBuilder("between")
    all_of_it = g.add(Concat[int](3))
    g.connect(g.add(few()), all_of_it.inlets[0])
    g.connect(g.add(few()), all_of_it.inlets[2])
    return g.build_flow(all_of_it.inlets[1], all_of_it)


def through_a_merge() -> Flow[int, int]:
    """What flows in, through a merge with nothing and a broadcast to one."""
    g = GraphBuilder("merge of nothing")
    merge, split = g.add(Merge[int](2)), g.add(Broadcast[int](1))
    g.connect(g.add(Source.empty()), merge.inlets[1])
    g.connect(merge, split)
    return g.build_flow(merge.inlets[0], split.outlets[0])


def case(
    name: str,
    make: Callable[[], Flow[Any, Any]],
    model: Callable[[list[int]], list[Any]] | None = None,
    *,
    ratio: float = 1.0,
    ahead: int | None = FAN_IN_PREFETCH,
    ends: bool = False,
    identity: Callable[[], Flow[Any, Any]] | None = None,
) -> FlowCase:
    return FlowCase(name, make, model, ratio=ratio, ahead=ahead, ends=ends, identity=identity)


FLOWS: list[FlowCase] = [
    case(
        "merge",
        lambda: flow().merge(Source.empty(), Source.empty()),
        lambda numbers: numbers,
        identity=lambda: flow().merge(Source.empty()),
    ),
    # As they come: an input may have a whole turn of the loop before the other gets one.
    case("merge, endless other", lambda: flow().merge(endless()), ratio=0.5, ahead=EMIT_BUDGET + FAN_IN_PREFETCH),
    case(
        "merge_preferred",
        lambda: flow().merge_preferred(Source.empty()),
        lambda numbers: numbers,
        identity=lambda: flow().merge_preferred(Source.empty()),
    ),
    case(
        "merge_prioritized",
        lambda: flow().merge_prioritized(Source.empty(), 3, 1),
        lambda numbers: numbers,
        identity=lambda: flow().merge_prioritized(Source.empty(), 3, 1),
    ),
    case(
        "merge_sorted",
        lambda: flow().merge_sorted(few(), key=abs),
        lambda numbers: _merge_sorted(numbers, list(A_FEW), abs),
        identity=lambda: flow().merge_sorted(Source.empty()),
    ),
    case("merge_latest", lambda: flow().merge_latest(endless()), ratio=0.5, ahead=WITH_THE_FIRST_ROW),
    case(
        "interleave",
        lambda: flow().interleave(few(), 2),
        lambda numbers: interleaved(numbers, 2),
        identity=lambda: flow().interleave(Source.empty(), 1),
    ),
    case("interleave, endless other", lambda: flow().interleave(endless(), 1), ratio=0.5, ahead=FAN_IN_PREFETCH + 1),
    case(
        "concat",
        lambda: flow().concat(few()),
        lambda numbers: [*numbers, *A_FEW],
        ahead=0,
        identity=lambda: flow().concat(Source.empty()),
    ),
    case(
        "prepend",
        lambda: flow().prepend(few()),
        lambda numbers: [*A_FEW, *numbers],
        ahead=0,
        identity=lambda: flow().prepend(Source.empty()),
    ),
    case(
        "or_else",
        lambda: flow().or_else(few()),
        lambda numbers: numbers or list(A_FEW),
        ahead=0,
        identity=lambda: flow().or_else(Source.empty()),
    ),
    case("zip", lambda: flow().zip(endless()), latest_with_one),
    case("zip, of three", lambda: flow().zip(endless(), endless()), lambda numbers: [(n, -1, -1) for n in numbers]),
    case(
        "zip_with",
        lambda: flow().zip_with(endless(), lambda n, other: n + other),
        lambda numbers: [n - 1 for n in numbers],
        identity=lambda: flow().zip_with(endless(), lambda n, _other: n),
    ),
    case(
        "zip_all",
        lambda: flow().zip_all(few(), 0, 0),
        lambda numbers: [
            ((numbers[i] if i < len(numbers) else 0), (A_FEW[i] if i < len(A_FEW) else 0))
            for i in range(max(len(numbers), len(A_FEW)))
        ],
    ),
    case("zip_latest", lambda: flow().zip_latest(endless()), ratio=0.5, ahead=WITH_THE_FIRST_ROW),
    case(
        "zip_latest_with",
        lambda: flow().zip_latest_with(endless(), lambda n, _: n),
        ratio=0.5,
        ahead=WITH_THE_FIRST_ROW,
    ),
    case("graph, diamond", diamond, lambda numbers: [(n, n * n) for n in numbers]),
    case("graph, concat", between, lambda numbers: [*A_FEW, *numbers, *A_FEW], ahead=0),
    case("graph, merge", through_a_merge, lambda numbers: numbers, identity=through_a_merge),
]


def _merge_sorted(mine: list[int], others: list[int], key: Callable[[int], int]) -> list[int]:
    """As the operator does it, whether or not the numbers that flow in are sorted."""
    result = []
    while mine and others:
        if key(others[0]) < key(mine[0]):
            result.append(others[0])
            others = others[1:]
        else:
            result.append(mine[0])
            mine = mine[1:]
    return result + mine + others
