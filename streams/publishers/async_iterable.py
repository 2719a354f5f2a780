"""A source of what an asynchronous iterable gives: one element at a time, and only when it is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any, Generic, TypeVar

from streams import materialize
from streams.contract import Publisher, Subscriber
from streams.errors import add_place, null_element
from streams.materialize import Materialization
from streams.publishers.iterable import EMIT_BUDGET, used_up
from streams.publishers.nobody import NOBODY, DemandSubscription

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class AsyncIterablePublisher(Publisher[T_co], Generic[T_co]):
    """Publishes an asynchronous iterable, opened anew for each subscriber and closed (``aclose``) when that has gone.

    The clean-up of the iterable is never interrupted, has `CLEAN_UP_TIMEOUT`, and comes before the end that the subscriber is told.

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
        self._m.on_drain(puller)
        subscriber.on_subscribe(puller)
        puller.start()


class _Puller(DemandSubscription[T], Generic[T]):
    """One subscription: a task that waits for demand, awaits an element, and passes it on."""

    __slots__ = (
        "_begun",
        "_deadline",
        "_m",
        "_name",
        "_opened",
        "_overdue",
        "_pushing",
        "_task",
        "_wanted",
    )

    def __init__(
        self, m: Materialization, subscriber: Subscriber[T], opened: Callable[[], AsyncIterable[T]], name: str | None
    ) -> None:
        super().__init__(subscriber)
        self._m = m
        self._name = name
        self._opened = opened
        self._begun = False
        self._deadline: asyncio.TimerHandle | None = None
        self._overdue = False
        self._pushing = False
        self._task: asyncio.Task[None] | None = None
        self._wanted: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Begins; where the subscriber has cancelled at once, only to close what is open already."""
        if not self._done or isinstance(self._opened, _Given):
            self._task = self._m.spawn(self._run(), "async iterable")

    def _demanded(self) -> None:
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)

    def _stop(self) -> None:
        """Interrupts the iterable where it waits, once: what it does about that, its clean-up, runs whole."""
        if self._task is not None:
            self._limit_clean_up()
            # From within on_next the task is the one that is running: it looks at ``_done`` when that returns. So it does at its
            # beginning, which it must not miss where there is something to close.
            if not self._pushing and (self._begun or not isinstance(self._opened, _Given)):
                self._m.interrupt(self._task)

    async def _run(self) -> None:
        """Pulls, closes the iterable, and only then tells the end: whoever hears of it finds nothing of the source at work."""
        iterator: AsyncIterator[T] | None = None
        failure: BaseException | None = None
        self._begun = True
        try:
            iterator = aiter(self._opened())
            await self._pull(iterator)
        except asyncio.CancelledError:
            # Not by the subscriber if it is to be told: the iterable itself was cancelled, or the loop is shutting down.
            failure = asyncio.CancelledError("the asynchronous iterable was cancelled")
            raise
        except Exception as error:  # noqa: BLE001 - the iterable is user code
            failure = error
        except BaseException as error:  # the program is to end; this stream ends with it, and has not completed
            self._done = True
            self._subscriber = NOBODY
            self._m.fail(error)
            raise
        finally:
            try:
                await self._close(iterator)
            finally:
                self._tell_end(failure)

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

    def _tell_end(self, failure: BaseException | None) -> None:
        if self._done:
            return
        self._done = True
        if failure is None:
            self._m.call(self._subscriber.on_complete)
            return
        if self._name is not None:
            add_place(failure, f"in the source {self._name}")
        self._subscriber.on_error(failure)

    async def _close(self, iterator: Any) -> None:
        close = getattr(iterator, "aclose", None)
        if close is None:
            return
        self._m.cleaning_up()
        self._limit_clean_up()
        try:
            await close()
        except asyncio.CancelledError:
            if not self._overdue:  # the loop is shutting down
                raise
        except Exception as error:  # noqa: BLE001 - nobody is subscribed any more
            self._m.report("the asynchronous iterable of a source failed while it was being closed", error)

    def _limit_clean_up(self) -> None:
        """The clean-up begins now, and has `CLEAN_UP_TIMEOUT`."""
        if self._deadline is None and self._task is not None:
            self._deadline = self._m.loop.call_later(materialize.CLEAN_UP_TIMEOUT, self._clean_up_hangs)
            self._task.add_done_callback(self._cleaned_up)

    def _cleaned_up(self, _task: asyncio.Task[None]) -> None:
        if self._deadline is not None:
            self._deadline.cancel()

    def _clean_up_hangs(self) -> None:
        if self._task is None:
            return
        self._overdue = True
        # An iterator that hung at its interruption may hang at its ``aclose`` as well.
        self._deadline = self._m.loop.call_later(materialize.CLEAN_UP_TIMEOUT, self._clean_up_hangs)
        self._m.report(
            "the clean-up of an asynchronous iterable was cancelled: it had not ended "
            f"{materialize.CLEAN_UP_TIMEOUT:g} s after the stream wanted no more of it",
            TimeoutError(self._name or "asynchronous iterable"),
        )
        self._task.cancel()


class _Given(Generic[T]):
    """Opens an iterator of the caller's, which is open already: once, for the run closes it, even one that takes nothing of it."""

    __slots__ = ("_iterator", "_used")

    def __init__(self, iterator: AsyncIterator[T]) -> None:
        self._iterator = iterator
        self._used = False

    def __call__(self) -> AsyncIterable[T]:
        if self._used:
            raise used_up(self._iterator)
        self._used = True
        return self._iterator


def async_opener(
    iterable: AsyncIterable[T] | Callable[[], AsyncIterable[T]],
) -> Callable[[], AsyncIterable[T]]:
    """What opens ``iterable`` for a run: an iterator once, for the run closes it; an iterable any number of times.

    Raises:
        TypeError: it is neither an asynchronous iterable nor callable.
    """
    if isinstance(iterable, AsyncIterator):
        return _Given(iterable)
    if isinstance(iterable, AsyncIterable):
        return lambda: iterable
    if callable(iterable):
        return iterable
    raise TypeError(
        f"from_async_iterable: needs an asynchronous iterable or a function that returns one, not {type(iterable).__name__}"
    )
