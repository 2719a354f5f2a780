"""`async for` over a source, and ``for`` in synchronous code, under back-pressure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from typing import Final, TypeVar

from streams.contract import Publisher
from streams.graph import connect
from streams.materialize import Materialization
from streams.shapes import SourceLike
from streams.sink import Sink
from streams.subscribers.pull import PULL_PREFETCH, Prefetch
from streams.subscribers.sinks import attach

T = TypeVar("T")

ITERATION_PREFETCH: Final = PULL_PREFETCH
"""Elements asked for ahead of the loop's body, so that a source can work while the body does."""


async def iterate(source: SourceLike[T], prefetch: int) -> AsyncGenerator[T, None]:
    """Runs ``source`` and yields what comes, then raises its failure if it has one; closing the generator ends the run."""
    holder: list[Prefetch[T]] = []

    def attach_prefetch(publisher: Publisher[T], m: Materialization) -> asyncio.Future[None]:
        holder.append(Prefetch(m, prefetch, "async for", None))
        return attach(publisher, holder[0])

    running = connect(source, Sink(attach_prefetch, "async for")).run()
    prefetched = holder[0]
    try:
        while await prefetched.more(None):
            prefetched.at_work(None)
            while prefetched.elements:
                try:
                    yield prefetched.take()
                except BaseException:
                    # The loop was left, by itself or by a failure, with this one in its hands: GeneratorExit says so, or the
                    # cancellation of a task that was to close this, by an event loop that shuts down.
                    prefetched.m.left_at_work()
                    prefetched.drop()
                    raise
        await running
    finally:
        await running.stop()


def iterate_blocking(source: SourceLike[T], prefetch: int) -> Generator[T, None, None]:
    """`iterate` on an event loop of its own, which runs whenever the next element is waited for."""
    _refuse_to_block_a_loop()
    return _iterate_blocking(source, prefetch)


def _refuse_to_block_a_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "iterate_blocking() would block the event loop that runs in this thread: use async for over the source instead"
    )


def _iterate_blocking(source: SourceLike[T], prefetch: int) -> Generator[T, None, None]:
    _refuse_to_block_a_loop()  # it may be begun elsewhere than it was made
    with asyncio.Runner() as runner:
        elements = iterate(source, prefetch)

        try:
            while found := runner.run(_next(elements)):
                yield found[0]
        finally:
            runner.run(elements.aclose())


async def _next(elements: AsyncGenerator[T, None]) -> tuple[T, ...]:
    """The next element, if there is one."""
    try:
        return (await anext(elements),)
    except StopAsyncIteration:
        return ()
