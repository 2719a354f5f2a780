"""A source of what an asynchronous iterable gives: one element at a time, and only when it is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import add_place, null_element
from streams.materialize import Materialization
from streams.publishers.iterable import EMIT_BUDGET
from streams.publishers.nobody import NOBODY

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class AsyncIterablePublisher(Publisher[T_co], Generic[T_co]):
    """Publishes an asynchronous iterable, opened anew for each subscriber and closed (``aclose``) when that has gone.

    Args:
        m: the run.
        opened: gives the iterable.
        name: the source's, in failures of the iterable; None where these say themselves where they come from.
    """

    __slots__ = ("_m", "_name", "_opened")

    def __init__(self, m: Materialization, opened: Callable[[], AsyncIterable[T_co]], name: str | None = None) -> None:
        self._m = m
        self._opened = opened
        self._name = name

    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """Starts the task that will pull."""
        if subscriber is None:
            raise null_element("subscribe")
        puller = _Puller(self._m, subscriber, self._opened, self._name)
        subscriber.on_subscribe(puller)
        puller.start()


class _Puller(Subscription, Generic[T]):
    """One subscription: a task that waits for demand, awaits an element, and passes it on."""

    __slots__ = ("_demand", "_done", "_m", "_name", "_opened", "_pushing", "_subscriber", "_task", "_wanted")

    def __init__(
        self, m: Materialization, subscriber: Subscriber[T], opened: Callable[[], AsyncIterable[T]], name: str | None
    ) -> None:
        self._m = m
        self._name = name
        self._subscriber = subscriber
        self._opened = opened
        self._demand = 0
        self._done = False
        self._pushing = False
        self._task: asyncio.Task[None] | None = None
        self._wanted: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Begins, unless the subscriber has cancelled at once."""
        if not self._done:
            self._task = self._m.spawn(self._run(), "async iterable")

    def request(self, n: int) -> None:
        """Adds to the demand."""
        if self._done:
            return
        if n < 1:
            subscriber = self._subscriber
            self.cancel()
            subscriber.on_error(invalid_demand(n))
            return
        self._demand = add_demand(self._demand, n)
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)

    def cancel(self) -> None:
        """Interrupts the iterable where it waits."""
        if self._done:
            return
        self._done = True
        self._subscriber = NOBODY
        # From within on_next the task is the one that is running: it looks at ``_done`` when that returns.
        if self._task is not None and not self._pushing:
            self._task.cancel()

    async def _run(self) -> None:
        iterator: AsyncIterator[T] | None = None
        try:
            iterator = aiter(self._opened())
            await self._pull(iterator)
        except asyncio.CancelledError:
            if not self._done:  # not by the subscriber: the iterable itself was cancelled, or the loop is shutting down
                self._signal_error(asyncio.CancelledError("the asynchronous iterable was cancelled"))
            raise
        except Exception as error:  # noqa: BLE001 - the iterable is user code
            self._signal_error(error)
        finally:
            await self._close(iterator)

    async def _pull(self, iterator: AsyncIterator[T]) -> None:
        budget = EMIT_BUDGET
        while not self._done:
            if not self._demand:
                self._wanted = self._m.loop.create_future()
                await self._wanted
                continue
            try:
                element = await anext(iterator)
            except StopAsyncIteration:
                if not self._done:
                    self._done = True
                    self._m.call(self._subscriber.on_complete)
                return
            if element is None:
                raise null_element("the asynchronous iterable of the source")
            self._demand -= 1
            self._pass_on(element)
            budget -= 1
            if not budget:  # an iterable that never suspends would keep the loop to itself
                budget = EMIT_BUDGET
                await asyncio.sleep(0)

    def _pass_on(self, element: T) -> None:
        if self._done:
            return  # cancelled while the iterable, unmoved by that, made one more
        self._pushing = True
        try:
            self._subscriber.on_next(element)
        except Exception as error:  # noqa: BLE001 - a subscriber has raised: to be treated as cancelled (2.13), and never unnoticed
            self._done = True
            self._m.fail(error)
        finally:
            self._pushing = False

    def _signal_error(self, error: BaseException) -> None:
        if not self._done:
            self._done = True
            if self._name is not None:
                add_place(error, f"in the source {self._name}")
            self._subscriber.on_error(error)

    async def _close(self, iterator: Any) -> None:
        close = getattr(iterator, "aclose", None)
        if close is None:
            return
        try:
            await close()
        except Exception as error:  # noqa: BLE001 - nobody is subscribed any more
            self._m.report("the asynchronous iterable of a source failed while it was being closed", error)
