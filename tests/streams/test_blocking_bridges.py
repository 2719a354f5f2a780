"""Iterables that block, functions that block for their effect, and sources in synchronous code."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest

from streams import Sink, Source
from streams.publishers.blocking_iterable import BLOCKING_AHEAD
from streams.testkit import TestSink
from tests.streams.generated.resources import Resource


def in_time(coroutine: object) -> object:
    return asyncio.run(asyncio.wait_for(coroutine, 30))  # type: ignore[arg-type]


def test_a_blocking_iterable_is_gone_through_in_a_thread_and_closed_there() -> None:
    threads: set[int] = set()
    closed = threading.Event()

    def numbers() -> Iterator[int]:
        try:
            for n in range(1000):
                threads.add(threading.get_ident())
                yield n
        finally:
            threads.add(threading.get_ident())
            closed.set()

    async def main() -> None:
        source = Source.from_blocking_iterable(numbers)
        assert await source.to(Sink.collect()).run() == list(range(1000))
        assert closed.is_set()
        closed.clear()
        assert await source.take(3).to(Sink.collect()).run() == [0, 1, 2]
        assert closed.is_set(), "before the run's end was told"

    in_time(main())
    assert threading.get_ident() not in threads


def test_an_iterable_is_opened_once_a_run_and_in_the_thread_alone() -> None:
    opened: list[int] = []

    class Rows:
        def __iter__(self) -> Iterator[int]:
            opened.append(threading.get_ident())
            return iter([1, 2])

    async def main() -> None:
        source = Source.from_blocking_iterable(Rows())
        assert opened == []
        assert await source.to(Sink.collect()).run() == [1, 2]

    in_time(main())
    assert len(opened) == 1
    assert threading.get_ident() not in opened


def test_the_loop_goes_on_while_the_iterable_blocks() -> None:
    gate = threading.Event()

    def numbers() -> Iterator[int]:
        yield 1
        assert gate.wait(20)
        yield 2

    async def main() -> None:
        sink = TestSink[int]()
        running = Source.from_blocking_iterable(numbers).to(sink).run()
        sink.request(5)
        await sink.expect_next(1)  # although the next one is waited for in the same go
        gate.set()
        await sink.expect_next(2)
        await sink.expect_complete()
        await running

    in_time(main())


def test_no_more_is_taken_than_was_asked_for() -> None:
    taken: list[int] = []

    def numbers() -> Iterator[int]:
        for n in range(10 * BLOCKING_AHEAD):
            taken.append(n)
            yield n

    async def main() -> None:
        sink = TestSink[int]()
        running = Source.from_blocking_iterable(numbers).to(sink).run()
        sink.request(3)
        await sink.expect_next(0, 1, 2)
        await sink.expect_no_message(0.05)
        assert taken == [0, 1, 2]
        sink.cancel()
        await running

    in_time(main())


def test_a_failure_and_a_none_of_the_iterable_fail_the_stream() -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise OSError("broken")

    async def main() -> None:
        with pytest.raises(OSError, match="broken") as raised:
            await Source.from_blocking_iterable(broken).to(Sink.ignore()).run()
        assert "in the source blocking iterable" in raised.value.__notes__
        with pytest.raises(TypeError, match=r"2\.13"):
            await Source.from_blocking_iterable([1, None]).to(Sink.ignore()).run()

    in_time(main())


def test_a_blocking_function_may_return_none() -> None:
    saved: set[int] = set()
    where: set[int] = set()

    def save(n: int) -> None:
        where.add(threading.get_ident())
        saved.add(n)

    async def main() -> None:
        assert await Source.range(50).to(Sink.foreach_blocking(4, save)).run() == 50
        with pytest.raises(ZeroDivisionError) as raised:
            await Source.of(0).to(Sink.foreach_blocking(1, lambda n: 1 // n)).run()
        assert any("foreach_blocking" in note for note in raised.value.__notes__)

    in_time(main())
    assert saved == set(range(50))
    assert threading.get_ident() not in where
    with pytest.raises(ValueError, match="parallelism"):
        Sink.foreach_blocking(0, save)


def test_synchronous_code_iterates_over_a_source() -> None:
    async def later(n: int) -> int:
        await asyncio.sleep(0)
        return n * n

    assert list(Source.range(40).map_async(4, later).iterate_blocking()) == [n * n for n in range(40)]


def test_leaving_the_for_ends_the_run_and_its_clean_up() -> None:
    resource = Resource(at_once=100)
    with contextlib.closing(resource.source().iterate_blocking(2)) as elements:
        for n in elements:
            if n == 5:
                break
    assert (resource.opened, resource.closed) == (1, 1)


def test_a_failure_comes_after_the_elements_before_it() -> None:
    elements = Source.of(2, 1, 0).map(lambda n: 2 // n).iterate_blocking()
    assert [next(elements), next(elements)] == [1, 2]
    with pytest.raises(ZeroDivisionError):
        next(elements)


def test_elements_for_synchronous_code_are_not_begun_within_a_loop_either() -> None:
    elements = Source.of(1).iterate_blocking()

    async def main() -> None:
        with pytest.raises(RuntimeError, match="would block the event loop"):
            next(elements)

    in_time(main())


def test_iterating_would_block_a_loop_and_is_refused_there() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="async for"):
            Source.of(1).iterate_blocking()

    in_time(main())
    with pytest.raises(ValueError, match="prefetch"):
        Source.of(1).iterate_blocking(0)
