"""What each operator adds to an element: a range through one operator into a fold, less the same without the operator.

The source calls ``on_next`` for each element (it is an iterator of which nothing is known), as it does in front of most operators.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks._report import Figure, Report, medians
from streams import Flow, OverflowStrategy, Sink, Source, ThrottleMode


def _start() -> Flow[int, int]:
    return Flow[int, int].identity()


async def _no_op(n: int) -> int:
    return n


OPERATORS: Final[dict[str, Callable[[], Flow[int, Any]]]] = {
    "map": lambda: _start().map(lambda n: n),
    "filter": lambda: _start().filter(lambda _: True),
    "map_concat": lambda: _start().map_concat(lambda n: (n,)),
    "scan": lambda: _start().scan(0, lambda _, n: n),
    "take": lambda: _start().take(2**62),
    "drop": lambda: _start().drop(1),
    "take_while": lambda: _start().take_while(lambda _: True),
    "zip_with_index": lambda: _start().zip_with_index(),
    "grouped(10)": lambda: _start().grouped(10),
    "sliding(10)": lambda: _start().sliding(10),
    "grouped_within(10, 1 s)": lambda: _start().grouped_within(10, 1.0),
    "buffer(64)": lambda: _start().buffer(64),
    "buffer(64), drop_head": lambda: _start().buffer(64, OverflowStrategy.DROP_HEAD),
    "conflate": lambda: _start().conflate(lambda _, n: n),
    "throttle, enforcing": lambda: _start().throttle(10**9, 1.0, mode=ThrottleMode.ENFORCING),
    "idle_timeout": lambda: _start().idle_timeout(60.0),
    "keep_alive": lambda: _start().keep_alive(60.0, lambda: 0),
    "monitor": lambda: _start().monitor(),
    "recover": lambda: _start().recover(lambda _: 0),
    "map_async(16)": lambda: _start().map_async(16, _no_op),
    "map_async_unordered(16)": lambda: _start().map_async_unordered(16, _no_op),
    "merge with nothing": lambda: _start().merge(Source.empty()),
    "concat": lambda: _start().concat(Source.empty()),
    "zip": lambda: _start().zip(Source.repeat(0)),
    "also_to": lambda: _start().also_to(Sink.ignore()),
    "wire_tap": lambda: _start().wire_tap(lambda _: None),
    "group_by, 10 keys": lambda: _start().group_by(10, lambda n: n % 10).merge_substreams(),
    "flat_map_concat of 100": lambda: _start().grouped(100).flat_map_concat(Source.from_iterable),
    "flat_map_merge of 100": lambda: _start().grouped(100).flat_map_merge(4, Source.from_iterable),
}


def run(elements: int, rounds: int) -> Report:
    """Times every operator in turn.

    Args:
        elements: through each.
        rounds: of each.
    """
    measured = [_round(elements) for _ in range(rounds)]
    bare = medians(measured, "nothing")
    figures = [Figure("source and fold alone", bare, "ns/element")]
    figures += [Figure(name, medians(measured, name) - bare, "ns/element more") for name in OPERATORS]
    return Report(
        benchmark="operators",
        measures="what one operator adds to an element that flows from an iterator into a fold",
        ceiling="the same without the operator, in the first line",
        parameters={"elements": elements, "rounds": rounds},
        figures=figures,
        rounds=measured,
    )


def _round(elements: int) -> dict[str, Any]:
    found = {"nothing": _time(_start, elements)}
    for name, flow in OPERATORS.items():
        found[name] = _time(flow, elements)
    return found


def _time(flow: Callable[[], Flow[int, Any]], elements: int) -> float:
    graph = Source.iterable(lambda: iter(range(elements))).via(flow()).to(Sink.fold(0, lambda count, _: count + 1))
    gc.collect()
    began = time.perf_counter()
    graph.run_blocking()
    return (time.perf_counter() - began) / elements * 1e9
