"""The same pipelines in five ways: plain generators, `async for`, RxPY, aiostream, and `streams`.

Each function runs one pipeline over ``range(elements)`` to its end and returns the sum of what came out, so that nobody can leave
elements out (those that end in nothing return 0). A chain of n stages is map, filter, map, map, filter, map, ... with the same
functions everywhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import reduce
from typing import Any, cast

import reactivex
from aiostream import pipe, stream
from reactivex import operators as rx

from streams import Sink, Source

Step = tuple[str, Callable[[int], int]]


def increment(n: int) -> int:
    return n + 1


def odd(n: int) -> int:
    return n & 1


def spread(n: int) -> int:
    """Makes odd numbers again of what `odd` has let through, so that the next filter has something to keep and to drop."""
    return n >> 1


STEPS: tuple[Step, ...] = (("map", increment), ("filter", odd), ("map", spread))


def steps(stages: int) -> list[Step]:
    """The first ``stages`` steps of the endless chain."""
    return [STEPS[i % len(STEPS)] for i in range(stages)]


class Total:
    """Adds up: the end of every pipeline is one call of `add` for each element."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def add(self, n: int) -> None:
        """One element."""
        self.value += n


# Plain generators


def _map(f: Callable[[int], int], elements: Iterable[int]) -> Iterator[int]:
    for element in elements:
        yield f(element)


def _filter(f: Callable[[int], int], elements: Iterable[int]) -> Iterator[int]:
    for element in elements:
        if f(element):
            yield element


def _generators(elements: int, stages: int) -> Iterable[int]:
    chain: Iterable[int] = range(elements)
    for kind, f in steps(stages):
        chain = _map(f, chain) if kind == "map" else _filter(f, chain)
    return chain


def generators(elements: int, stages: int) -> int:
    """A generator function a stage."""
    total = Total()
    add = total.add
    for element in _generators(elements, stages):
        add(element)
    return total.value


# async for


async def _async_map(f: Callable[[int], int], elements: AsyncIterator[int]) -> AsyncIterator[int]:
    async for element in elements:
        yield f(element)


async def _async_filter(f: Callable[[int], int], elements: AsyncIterator[int]) -> AsyncIterator[int]:
    async for element in elements:
        if f(element):
            yield element


async def _async_range(elements: int) -> AsyncIterator[int]:
    for element in range(elements):
        yield element


def async_for(elements: int, stages: int) -> int:
    """An asynchronous generator function a stage."""

    async def run() -> int:
        total = Total()
        add = total.add
        chain = _async_range(elements)
        for kind, f in steps(stages):
            chain = _async_map(f, chain) if kind == "map" else _async_filter(f, chain)
        async for element in chain:
            add(element)
        return total.value

    return asyncio.run(run())


# RxPY


def _observable(elements: int, stages: int) -> Any:
    operators: list[Any] = [
        rx.map(f) if kind == "map" else rx.filter(cast("Callable[[int], bool]", f)) for kind, f in steps(stages)
    ]
    return reactivex.from_iterable(range(elements)).pipe(*operators)


def rxpy(elements: int, stages: int) -> int:
    """An operator of reactivex a stage; runs on the caller's thread, without demand."""
    total = Total()
    _observable(elements, stages).subscribe(total.add)
    return total.value


# aiostream


def aiostream(elements: int, stages: int) -> int:
    """An operator of aiostream a stage."""

    async def run() -> int:
        total = Total()
        add = total.add
        chain: Any = stream.iterate(range(elements))
        for kind, f in steps(stages):
            chain = chain | (pipe.map(cast("Any", f)) if kind == "map" else pipe.filter(cast("Any", f)))
        async with chain.stream() as running:
            async for element in running:
                add(element)
        return total.value

    return asyncio.run(run())


# streams


def _behind(source: Source[int], stages: int) -> Source[int]:
    for kind, f in steps(stages):
        source = source.map(f) if kind == "map" else source.filter(f)
    return source


def streams(elements: int, stages: int) -> int:
    """Ours, from a range: neighbouring stages are one loop."""
    total = Total()
    _behind(Source.from_iterable(range(elements)), stages).to(Sink.foreach(total.add)).run_blocking()
    return total.value


def streams_one_by_one(elements: int, stages: int) -> int:
    """Ours, from an iterator of which nothing is known: each element is a call."""
    total = Total()
    _behind(Source.from_iterable(iter(range(elements))), stages).to(Sink.foreach(total.add)).run_blocking()
    return total.value


def streams_as_loop(elements: int, stages: int) -> int:
    """Ours, taken with ``async for``."""

    async def run() -> int:
        total = Total()
        add = total.add
        async for element in _behind(Source.from_iterable(range(elements)), stages):
            add(element)
        return total.value

    return asyncio.run(run())


# Other ends than a call for each element


def add(total: int, n: int) -> int:
    return total + n


def generators_reduced(elements: int, stages: int) -> int:
    """``functools.reduce`` over the generators."""
    return reduce(add, _generators(elements, stages), 0)


def generators_ignored(elements: int, stages: int) -> int:
    """A loop that does nothing."""
    for _ in _generators(elements, stages):
        pass
    return 0


def rxpy_reduced(elements: int, stages: int) -> int:
    """``reduce`` behind the chain."""
    return int(_observable(elements, stages).pipe(rx.reduce(add, 0)).run())


def rxpy_ignored(elements: int, stages: int) -> int:
    """Run to the end, which keeps the last element."""
    _observable(elements, stages).run()
    return 0


def streams_reduced(elements: int, stages: int) -> int:
    """``Sink.fold`` behind the chain."""
    return _behind(Source.from_iterable(range(elements)), stages).to(Sink.fold(0, add)).run_blocking()


def streams_ignored(elements: int, stages: int) -> int:
    """Run to the end with ``Sink.ignore``."""
    _behind(Source.from_iterable(range(elements)), stages).to(Sink.ignore()).run_blocking()
    return 0


# Coroutines


async def no_op(n: int) -> int:
    return n


def gather_by_hand(elements: int, parallelism: int) -> int:
    """What one writes without a library: a task for each of ``parallelism`` elements, then the next so many."""

    async def run() -> int:
        total = Total()
        for first in range(0, elements, parallelism):
            numbers = range(first, min(first + parallelism, elements))
            for result in await asyncio.gather(*map(no_op, numbers)):
                total.add(result)
        return total.value

    return asyncio.run(run())


def aiostream_map_async(elements: int, parallelism: int) -> int:
    """``pipe.map`` of a coroutine function."""

    async def run() -> int:
        total = Total()
        mapped: Any = pipe.map(cast("Any", no_op), task_limit=parallelism)
        chain: Any = stream.iterate(range(elements)) | mapped
        async with chain.stream() as running:
            async for element in running:
                total.add(element)
        return total.value

    return asyncio.run(run())


def streams_map_async(elements: int, parallelism: int) -> int:
    """``map_async``: ordered, as aiostream's."""
    total = Total()
    source = Source.from_iterable(range(elements)).map_async(parallelism, no_op)
    source.to(Sink.foreach(total.add)).run_blocking()
    return total.value


def streams_map_async_unordered(elements: int, parallelism: int) -> int:
    """``map_async_unordered``."""
    total = Total()
    source = Source.from_iterable(range(elements)).map_async_unordered(parallelism, no_op)
    source.to(Sink.foreach(total.add)).run_blocking()
    return total.value
