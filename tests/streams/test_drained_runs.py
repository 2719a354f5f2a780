"""Runs that end in good order: `Running.drain` has the sources complete, and waits for what is under way."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from streams import KillSwitches, RestartSettings, RestartSource, Running, Sink, Source, StreamClosedError
from streams.testkit import run_in_virtual_time


async def passes(seconds: float) -> None:
    """So much of the loop's time."""
    passed = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, passed.set)
    await passed.wait()


async def counting() -> AsyncIterator[int]:
    for n in itertools.count():
        await asyncio.sleep(0)
        yield n


ENDLESS: dict[str, Callable[[], Source[Any, Any]]] = {
    "repeat": lambda: Source.repeat(1),
    "from_iterable": lambda: Source.from_iterable(itertools.count),
    "from_async_iterable": lambda: Source.from_async_iterable(counting),
    "from_blocking_iterable": lambda: Source.from_blocking_iterable(itertools.count),
    "tick": lambda: Source.tick(0.001),
    "never": Source.never,
    "future": lambda: Source.future(asyncio.Event().wait),
    "queue": lambda: Source.queue(4, of=int),
    "lazy": lambda: Source.lazy(lambda: Source.repeat(1)),
    "concat": lambda: Source.repeat(1).concat(Source.repeat(2)).concat(Source.never()),
    "merge": lambda: Source.repeat(1).merge(Source.never()),
    "zip": lambda: Source.repeat(1).zip(Source.repeat(2)),
    "restart": lambda: RestartSource.with_backoff(RestartSettings(0.01, 1.0), lambda: Source.repeat(1)),
    "restart, in its pause": lambda: RestartSource.with_backoff(RestartSettings(100.0, 100.0), Source.empty),
    "supervised": lambda: Source.repeat(1).map(lambda n: n).with_supervision(lambda _: None),  # type: ignore[arg-type,return-value]
    "switched": lambda: Source.repeat(1).via(KillSwitches.single()),
    "throttled": lambda: Source.repeat(1).throttle(1, 0.001),
}


@pytest.mark.parametrize("name", ENDLESS)
@pytest.mark.parametrize("turns", [0, 5])
def test_a_source_without_end_completes_and_the_run_gives_its_result(name: str, turns: int) -> None:
    async def main() -> None:
        running = ENDLESS[name]().to(Sink.fold(0, lambda count, _: count + 1)).run()
        for _ in range(turns):
            await asyncio.sleep(0)
        assert await running.drain(10) >= 0
        assert running.done()
        assert await running.drain() >= 0  # the second time gives the same

    asyncio.run(main())


def test_what_is_under_way_is_finished() -> None:
    begun: list[int] = []
    done: list[int] = []

    async def work(n: int) -> int:
        begun.append(n)
        await passes(1)
        done.append(n)
        return n

    async def main() -> None:
        running = Source.from_iterable(itertools.count).map_async(3, work).to(Sink.collect()).run()
        await passes(2.5)
        assert await running.drain() == begun == sorted(done) == list(range(9))

    run_in_virtual_time(main())


def test_what_waits_in_a_queue_goes_on_and_no_more_is_taken() -> None:
    async def later(n: int) -> int:
        await passes(1)
        return n

    async def main() -> None:
        running = Source.queue(8, of=int).map_async(1, later).to(Sink.collect()).run()
        for n in range(5):
            assert running.value.offer(n)
        assert await running.drain() == [0, 1, 2, 3, 4]
        with pytest.raises(StreamClosedError, match="has ended"):
            running.value.offer(9)

    run_in_virtual_time(main())


def test_a_source_that_a_stage_has_begun_for_an_element_goes_on_to_its_own_end() -> None:
    async def main() -> None:
        inner = Source.tick(1.0).take(3)
        running = Source.of(1).concat(Source.never()).flat_map_concat(lambda _: inner).to(Sink.collect()).run()
        await passes(0.5)
        assert await running.drain() == [0, 1, 2]

    run_in_virtual_time(main())


def test_what_takes_longer_than_it_may_is_cancelled_and_that_is_told() -> None:
    cancelled: list[int] = []

    async def work(n: int) -> int:
        try:
            await passes(1000)
        except asyncio.CancelledError:
            cancelled.append(n)
            raise
        return n

    async def main() -> None:
        running = Source.of(1, 2).map_async(2, work).to(Sink.ignore()).run()
        await passes(1)
        with pytest.raises(
            TimeoutError, match=r"iterable -> map_async -> ignore had not ended 5 s after it was told to"
        ):
            await running.drain(5)
        assert running.done()
        assert asyncio.get_running_loop().time() < 10

    run_in_virtual_time(main())
    assert sorted(cancelled) == [1, 2]


def test_a_failure_on_the_way_to_the_end_is_raised() -> None:
    async def fail(_n: int) -> int:
        await passes(1)
        raise ValueError("late")

    async def main() -> None:
        running = Source.of(1).concat(Source.never()).map_async(2, fail).to(Sink.ignore()).run()
        await passes(0.5)
        with pytest.raises(ValueError, match="late"):
            await running.drain(10)

    run_in_virtual_time(main())


def test_a_block_over_a_run_that_was_drained_ends_at_once() -> None:
    async def main() -> None:
        async with Source.repeat(1).to(Sink.ignore()).run() as running:
            await asyncio.sleep(0)
            await running.drain()
            assert running.done()

    asyncio.run(main())


def test_it_may_be_asked_for_from_a_function_of_the_stream() -> None:
    ending: list[asyncio.Task[int]] = []

    async def main() -> None:
        def look(n: int) -> None:
            if n == 3:
                ending.append(asyncio.ensure_future(running.drain()))

        running: Running[int, Any] = Source.tick(1.0).to(Sink.foreach(look)).run()
        assert await running == 4
        assert await ending[0] == 4

    run_in_virtual_time(main())


def test_a_line_that_is_cut_off_is_no_line() -> None:
    read, write = os.pipe()
    pipe = os.fdopen(read, "rb", buffering=0)

    async def main() -> list[bytes]:
        heard = asyncio.Event()

        def note(line: bytes) -> bytes:
            heard.set()
            return line

        running = Source.lines(pipe).map(note).to(Sink.collect()).run()
        os.write(write, b"one\nhal")
        await heard.wait()
        result = asyncio.ensure_future(running.drain())
        await asyncio.sleep(0)
        os.close(write)  # what reads cannot be interrupted
        return await result

    with pipe:
        assert asyncio.run(main()) == [b"one"]


def test_a_file_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(1 << 20))

    async def main() -> None:
        running = Source.file(path, chunk_bytes=16).throttle(1, 0.001).to(Sink.ignore()).run()
        await passes(0.01)
        await running.drain(10)
        assert running.done()

    asyncio.run(main())
