"""A source whose clean-up takes several turns of the loop, and every way in which a stream over it may end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from streams import Keep, RestartSettings, RestartSource, Sink, Source
from streams.testkit import elapse
from streams.testkit.virtual_time import pass_time

CLEAN_UP_TURNS = 4
BETWEEN_ELEMENTS = 0.01
SOON = 0.035
"""Seconds after which a stream is ended from outside: some elements have come, and the source waits for the next."""
NO_END = 1.0
"""Seconds after which a stream that does not end by itself is stopped: an operator may hold back what would have ended it."""


class Resource:
    """Something to be opened and closed, as a connection is; `numbers` uses it.

    Args:
        fail_at: the number at which its user fails.
        end_at: the number at which its user ends.
        at_once: so many numbers come without a pause; the others with one of `BETWEEN_ELEMENTS`.

    Attributes:
        opened: how many times.
        closed: how many times it was closed, and not cut short at it.
    """

    def __init__(self, fail_at: int = -1, end_at: int = -1, at_once: int = 0) -> None:
        self.opened = self.closed = 0
        self._fail_at = fail_at
        self._end_at = end_at
        self._at_once = at_once

    async def numbers(self) -> AsyncIterator[int]:
        self.opened += 1
        try:
            for n in itertools.count():
                if n == self._end_at:
                    return
                if n == self._fail_at:
                    raise OSError("broken above")
                yield n
                if n >= self._at_once:
                    await pass_time(asyncio.get_running_loop(), BETWEEN_ELEMENTS)
        finally:
            for _ in range(CLEAN_UP_TURNS):
                await asyncio.sleep(0)
            self.closed += 1

    def source(self) -> Source[int]:
        return Source.from_async_iterable(self.numbers)


class Consumer:
    """An asynchronous iterator with an ``aclose`` of its own, as clients of queues have it: closed also when it has come to its end."""

    def __init__(self, resource: Resource, count: int) -> None:
        self._resource = resource
        self._left = count
        resource.opened += 1

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> int:
        if not self._left:
            raise StopAsyncIteration
        self._left -= 1
        return self._left

    async def aclose(self) -> None:
        for _ in range(CLEAN_UP_TURNS):
            await asyncio.sleep(0)
        self._resource.closed += 1


Behind = Callable[[Source[Any]], Source[Any]]
End = Callable[[Resource, Behind], Awaitable[None]]


def broken(_element: object) -> Any:
    raise KeyError("broken below")


async def _until_told(source: Source[Any], sink: Sink[Any, Any] | None = None) -> None:
    """Until the run's end is told, whatever that is."""
    running = source.to(sink or Sink.ignore()).run()
    try:
        async with asyncio.timeout(NO_END):
            await running
    except Exception:  # noqa: BLE001 - how it ends is not what is looked at
        pass


async def _take(resource: Resource, behind: Behind) -> None:
    await _until_told(behind(resource.source()).take(1))


async def _take_above(resource: Resource, behind: Behind) -> None:
    await _until_told(behind(resource.source().take(2)))


async def _head(resource: Resource, behind: Behind) -> None:
    await _until_told(behind(resource.source()), Sink.head())


async def _failure_below(resource: Resource, behind: Behind) -> None:
    await _until_told(behind(resource.source()).map(broken))


async def _failure_above(_resource: Resource, behind: Behind) -> None:
    await _until_told(behind(_resource.source()))


async def _timeout_of_the_stream(resource: Resource, behind: Behind) -> None:
    await _until_told(behind(resource.source()).completion_timeout(SOON))


async def _zip(resource: Resource, behind: Behind) -> None:
    await _until_told(behind(resource.source()).zip(Source.of(1)))


async def _restart(resource: Resource, behind: Behind) -> None:
    settings = RestartSettings(BETWEEN_ELEMENTS, BETWEEN_ELEMENTS, max_restarts=2)
    failing = RestartSource.with_backoff(settings, lambda: behind(resource.source()).map(broken))
    await _until_told(failing)


async def _inner(resource: Resource, behind: Behind) -> None:
    await _until_told(Source.of(1, 2).flat_map_concat(lambda _: behind(resource.source()).take(1)))


async def _cancel(resource: Resource, behind: Behind) -> None:
    running = behind(resource.source()).to(Sink.ignore()).run()
    await elapse(SOON)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await running


async def _cancel_of_who_waits(resource: Resource, behind: Behind) -> None:
    async def wait() -> None:
        await behind(resource.source()).to(Sink.ignore()).run()

    with contextlib.suppress(Exception):
        async with asyncio.timeout(SOON):
            await wait()


async def _stop(resource: Resource, behind: Behind) -> None:
    running = behind(resource.source()).to(Sink.ignore()).run()
    await elapse(SOON)
    running.abandon()
    await running.stop()


async def _iteration_left(resource: Resource, behind: Behind) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(NO_END), contextlib.aclosing(behind(resource.source()).iterate()) as elements:
            async for _ in elements:
                break


async def _iteration_timed_out(resource: Resource, behind: Behind) -> None:
    with contextlib.suppress(Exception):
        async with asyncio.timeout(SOON):
            async for _ in behind(resource.source()):
                pass


async def _queue_closed(resource: Resource, behind: Behind) -> None:
    running = behind(resource.source()).to(Sink.queue(), Keep.right).run()
    await elapse(SOON)
    await running.value.aclose()
    assert resource.opened == resource.closed, "before the queue's aclose() had returned"
    await running.stop()


ENDS: dict[str, tuple[End, dict[str, Any]]] = {
    "take": (_take, {}),
    "take, of a source that never waits": (_take, {"at_once": 100}),
    "take above": (_take_above, {}),
    "head": (_head, {}),
    "failure below": (_failure_below, {}),
    "failure above": (_failure_above, {"fail_at": 2}),
    "completion": (_failure_above, {"end_at": 3}),
    "timeout of the stream": (_timeout_of_the_stream, {}),
    "zip": (_zip, {}),
    "restart": (_restart, {}),
    "inner source": (_inner, {}),
    "cancel": (_cancel, {}),
    "cancel of the task that waits": (_cancel_of_who_waits, {}),
    "abandon and stop": (_stop, {}),
    "iteration left": (_iteration_left, {}),
    "iteration timed out": (_iteration_timed_out, {}),
    "queue closed": (_queue_closed, {}),
}
"""How a stream ends, and what the source does meanwhile. Each returns when whoever started the stream has been told."""


async def cut_short(behind: Behind, ends: list[str] | None = None) -> list[str]:
    """The ends in which a clean-up had not run whole when the end was told; ``behind`` puts something behind the source."""
    cut = []
    for name in ends or list(ENDS):
        end, settings = ENDS[name]
        resource = Resource(**settings)
        await end(resource, behind)
        if resource.opened != resource.closed:
            cut.append(f"{name}: {resource.opened} opened, {resource.closed} closed")
    return cut
