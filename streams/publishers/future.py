"""A source of one element that has to be waited for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from streams.contract import Publisher, Subscriber
from streams.errors import FAILURES, null_element
from streams.materialize import Materialization
from streams.publishers.nobody import NOBODY, DemandSubscription

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Awaited = Awaitable[T] | concurrent.futures.Future[T] | Callable[[], Awaitable[T]]
"""What `Source.future` is given."""


class FuturePublisher(Publisher[T_co], Generic[T_co]):
    """Publishes what an awaitable gives, and completes with it.

    Args:
        m: the run.
        wait: a coroutine function, called when the element is asked for.
    """

    __slots__ = ("_m", "_wait")

    def __init__(self, m: Materialization, wait: Callable[[], Any]) -> None:
        self._m = m
        self._wait = wait

    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """Begins to wait at the first request."""
        if subscriber is None:
            raise null_element("subscribe")
        waiter = _Waiter(self._m, subscriber, self._wait)
        self._m.on_drain(waiter)
        subscriber.on_subscribe(waiter)


class _Waiter(DemandSubscription[T], Generic[T]):
    """One subscription: a task that waits, from the first request on."""

    __slots__ = ("_m", "_task", "_wait")

    def __init__(self, m: Materialization, subscriber: Subscriber[T], wait: Callable[[], Any]) -> None:
        super().__init__(subscriber)
        self._m = m
        self._wait = wait
        self._task: asyncio.Task[T] | None = None

    def _demanded(self) -> None:
        """Starts the waiting, the first time."""
        if self._task is None:
            self._task = self._m.spawn(self._wait(), "future", lambda task: self._m.call(self._waited, task))

    def _stop(self) -> None:
        """Ends the waiting."""
        if self._task is not None:
            self._m.interrupt(self._task)

    def _finish(self) -> Subscriber[T]:
        self._done = True
        subscriber, self._subscriber = self._subscriber, NOBODY
        return subscriber

    def _waited(self, task: asyncio.Task[T]) -> None:
        if self._done:
            _ = task.cancelled() or task.exception()
        elif task.cancelled():
            self._finish().on_error(asyncio.CancelledError("what Source.future waits for was cancelled"))
        elif (error := task.exception()) is not None:
            error.add_note("in the source future")
            self._finish().on_error(error)
        elif (element := task.result()) is None:
            self._finish().on_error(null_element("what Source.future waits for has given None"))
        else:
            self._deliver(element)

    def _deliver(self, element: T) -> None:
        try:
            self._subscriber.on_next(element)
        except FAILURES as error:  # a subscriber has raised: to be treated as cancelled (2.13), and never unnoticed
            self._finish()
            self._m.fail(error)
        if not self._done:
            self._finish().on_complete()


def waiting(awaited: Awaited[T]) -> Callable[[], Any]:
    """The coroutine function that waits for ``awaited``. What is the stream's own is cancelled with it, a future of others is not.

    Raises:
        TypeError: it cannot be awaited, nor does it look like a function.
    """
    if isinstance(awaited, (asyncio.Future, concurrent.futures.Future)):
        return lambda: _of_others(awaited)
    if inspect.iscoroutine(awaited):
        return _once(awaited)
    if inspect.isawaitable(awaited):
        return lambda: _own(lambda: awaited)
    if callable(awaited):
        return lambda: _own(awaited)
    raise TypeError(f"future needs an awaitable or a function that returns one, not {type(awaited).__name__}")


def _once(coroutine: Coroutine[Any, Any, T]) -> Callable[[], Coroutine[Any, Any, T]]:
    """Gives ``coroutine`` itself, and not within another: so it is closed also where it is cancelled before it has begun.

    It does so once: a second task would send into it, and cancel it, under the hands of the first.
    """
    left = [coroutine]
    return lambda: left.pop() if left else _refused()


async def _refused() -> Any:
    raise RuntimeError("Source.future was given a coroutine, which is for one run: give the function that makes it")


async def _own(function: Callable[[], Awaitable[T]]) -> T:
    return await function()


async def _of_others(future: asyncio.Future[T] | concurrent.futures.Future[T]) -> T:
    if isinstance(future, concurrent.futures.Future):
        future = asyncio.wrap_future(future)
        # Its failure is known to those who hold the real one, also when nobody waits here any more.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait((future,))
    return future.result()
