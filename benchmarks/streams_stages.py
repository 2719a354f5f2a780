"""Nanoseconds an element, and an element and stage, of the streams toolkit beside four other ways to write the same pipeline.

All run in this process, one after the other and round after round, so that what the machine does meanwhile hits them alike. Every
pipeline ends in the same call for each element, and the sums must agree.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks import _chains
from benchmarks._processes import BenchmarkError
from benchmarks._report import Figure, Report, medians

LENGTHS: Final = (1, 3, 10)
"""Stages of the chains."""
WAYS: Final[dict[str, Callable[[int, int], int]]] = {
    "generators": _chains.generators,
    "async for": _chains.async_for,
    "RxPY": _chains.rxpy,
    "aiostream": _chains.aiostream,
    "streams": _chains.streams,
    "streams, one by one": _chains.streams_one_by_one,
    "streams, async for": _chains.streams_as_loop,
}
ENDS: Final[dict[str, dict[str, Callable[[int, int], int]]]] = {
    "a call for each": {"generators": _chains.generators, "RxPY": _chains.rxpy, "streams": _chains.streams},
    "reduced": {
        "generators": _chains.generators_reduced,
        "RxPY": _chains.rxpy_reduced,
        "streams": _chains.streams_reduced,
    },
    "ignored": {
        "generators": _chains.generators_ignored,
        "RxPY": _chains.rxpy_ignored,
        "streams": _chains.streams_ignored,
    },
}
"""map | filter | map with each of three ends: how much of the time is the chain's depends on it."""
ENDS_STAGES: Final = 3
SLOW: Final = {"aiostream": 10}
"""Ways that get that many times fewer elements, for the run to end."""
COROUTINES: Final[dict[str, Callable[[int, int], int]]] = {
    "gather by hand": _chains.gather_by_hand,
    "aiostream": _chains.aiostream_map_async,
    "streams": _chains.streams_map_async,
    "streams, unordered": _chains.streams_map_async_unordered,
}
PARALLELISM: Final = (1, 16)
"""Coroutines at a time."""


def run(elements: int, coroutines: int, rounds: int) -> Report:
    """Times every way in turn.

    Args:
        elements: of a chain.
        coroutines: elements of a map_async.
        rounds: of each.
    """
    measured = [_round(elements, coroutines) for _ in range(rounds)]
    figures = [figure for stages in LENGTHS for figure in _chain_figures(measured, stages)]
    figures += [figure for end in ENDS for figure in _end_figures(measured, end)]
    figures += [figure for parallelism in PARALLELISM for figure in _coroutine_figures(measured, parallelism)]
    return Report(
        benchmark="streams",
        measures="time for one element through a chain of map, filter, map, ..., and through map_async of a coroutine that does nothing",
        ceiling="the same functions in a chain of plain generators",
        parameters={"elements": elements, "coroutines": coroutines, "rounds": rounds},
        figures=figures,
        rounds=measured,
    )


def _round(elements: int, coroutines: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for stages in LENGTHS:
        for way, pipeline in WAYS.items():
            found[f"{way} {stages}"] = _time(way, pipeline, elements, stages, _chains.generators)
    for end, ways in ENDS.items():
        for way, pipeline in ways.items():
            expected = _nothing if end == "ignored" else _chains.generators
            found[f"{way} {end}"] = _time(way, pipeline, elements, ENDS_STAGES, expected)
    for parallelism in PARALLELISM:
        for way, pipeline in COROUTINES.items():
            found[f"{way} async {parallelism}"] = _time(
                way, pipeline, coroutines, parallelism, lambda count, _: sum(range(count))
            )
    return found


def _nothing(_elements: int, _stages: int) -> int:
    return 0


def _time(
    way: str,
    pipeline: Callable[[int, int], int],
    elements: int,
    setting: int,
    expected: Callable[[int, int], int],
) -> float:
    """Nanoseconds an element.

    Raises:
        BenchmarkError: the sum is not what it should be.
    """
    count = elements // SLOW.get(way, 1)
    gc.collect()
    began = time.perf_counter()
    total = pipeline(count, setting)
    seconds = time.perf_counter() - began
    if total != expected(count, setting):
        raise BenchmarkError(f"{way} with {setting} has lost elements: {total} is not {expected(count, setting)}")
    return seconds / count * 1e9


def _chain_figures(measured: list[dict[str, Any]], stages: int) -> list[Figure]:
    chain = " | ".join(kind for kind, _ in _chains.steps(stages)) if stages <= 3 else f"chain of {stages}"
    ours = medians(measured, f"streams {stages}")
    figures = []
    for way in WAYS:
        value = medians(measured, f"{way} {stages}")
        figures.append(Figure(f"{chain}: {way}", value, "ns/element"))
        figures.append(Figure(f"{chain}: {way}, a stage", value / stages, "ns/element/stage"))
    for way in ("RxPY", "aiostream", "async for"):
        name = f"{chain}: streams is faster than {way}"
        figures.append(Figure(name, medians(measured, f"{way} {stages}") / ours, "times"))
    figures.append(Figure(f"{chain}: streams to generators", ours / medians(measured, f"generators {stages}"), "times"))
    return figures


def _end_figures(measured: list[dict[str, Any]], end: str) -> list[Figure]:
    name = f"map | filter | map, {end}"
    found = {way: medians(measured, f"{way} {end}") for way in ENDS[end]}
    return [
        *(Figure(f"{name}: {way}", value, "ns/element") for way, value in found.items()),
        Figure(f"{name}: streams is faster than RxPY", found["RxPY"] / found["streams"], "times", 3.0),
        Figure(f"{name}: streams to generators", found["streams"] / found["generators"], "times", 4.0, better="less"),
    ]


def _coroutine_figures(measured: list[dict[str, Any]], parallelism: int) -> list[Figure]:
    name = f"map_async({parallelism})"
    figures = [
        Figure(f"{name}: {way}", medians(measured, f"{way} async {parallelism}"), "ns/element") for way in COROUTINES
    ]
    faster = medians(measured, f"aiostream async {parallelism}") / medians(measured, f"streams async {parallelism}")
    figures.append(Figure(f"{name}: streams is faster than aiostream", faster, "times", 2.0))
    return figures
