"""The end of a stream that a program takes elements from as it likes: `SinkQueue`, and what ``async for`` over a source is made of."""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from streams.errors import StreamClosedError, TooManyWaitersError, null_element
from streams.materialize import Materialization
from streams.stages.stage import OVER
from streams.subscribers.sinks import SinkSubscriber

T = TypeVar("T")

PULL_PREFETCH: Final = 16
"""Elements asked for ahead of those who take them unless told otherwise, so that a source can work while they do."""

MAX_WAITING_PULLS: Final = 1024
"""Calls of ``pull`` that wait at a time: each holds a task, and more than a few are a program that does not await them."""


Consumer = asyncio.Task[Any] | None
"""Who takes elements: a task, or None for the one loop that a `Prefetch` of its own was made for."""


_pulling: Final[ContextVar[Consumer]] = ContextVar("streams_pulling", default=None)
"""The task that has pulled here. A task that it makes to await a run has a copy, and so tells who waits for that in the end."""


class Prefetch(SinkSubscriber[T, None], Generic[T]):
    """Holds the elements that nobody has taken yet.

    The sink is done when its elements are, and not when the last of them has come here. While one waits, or is with a consumer that has not
    come back, the run goes on. So what a program says about its last elements, their acknowledgement for example, finds the run alive. A
    consumer has come back when it wants the next element, has ended, or awaits the run. Where no consumer is left and a task awaits the
    run, or it has failed, nothing is waited for, and what is here may be taken afterwards.

    Attributes:
        elements: those that wait.
        error: what the stream failed with.
        traceback: that of ``error`` when it came.
        m: the run.
        over: nothing comes any more.
    """

    __slots__ = (
        "_awaited",
        "_consumers",
        "_forgotten",
        "_prefetch",
        "_taken",
        "_waiting",
        "elements",
        "error",
        "m",
        "name",
        "over",
        "traceback",
    )

    def __init__(self, m: Materialization, prefetch: int, name: str, *consumers: Consumer) -> None:
        super().__init__(m)
        self.m: Final = m
        self.name = name
        self.elements: deque[T] = deque()
        self.error: BaseException | None = None
        self.traceback: TracebackType | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        """Those who wait for an element, the next one first. Each stays until it has looked, so that nobody overtakes it."""
        self._prefetch = prefetch
        self._taken = 0
        self.over = False
        self._awaited = False
        self._forgotten = False
        self._consumers: dict[Consumer, bool] = dict.fromkeys(consumers, False)
        """Those who may want more, each with whether it has taken an element and has not come back."""
        m.on_cancel(self._abandon)
        m.on_awaited(self._is_awaited)

    def on_next(self, element: T) -> None:
        """Keeps one."""
        if element is None:
            raise null_element(self.name)
        if not self.future.done():
            self.elements.append(element)
            if self._waiting:
                self._wake_next()

    def on_error(self, error: BaseException) -> None:
        """Keeps the failure for those who come after the last element."""
        if error is None:
            raise null_element(self.name)
        if not self.future.done():
            self.error = error
            self.traceback = error.__traceback__
            self._come_to_its_end()

    def on_complete(self) -> None:
        """The sink is done when the last element is."""
        if not self.future.done():
            self._come_to_its_end()

    def leave(self) -> None:
        """Takes no more: the sink is done, and what waits is dropped."""
        if self.over:
            self._end()
        else:
            self._finish(None)
            self.m.in_context(self._subscription.cancel)
        self.drop()

    def drop(self) -> None:
        """Lets go of what nobody has taken, and says so to each that wants to know it."""
        while self.elements:
            element = self.elements.popleft()
            untaken = getattr(type(element), "__untaken__", None)
            if untaken is not None:
                untaken(element)

    def _abandon(self) -> None:
        """The run is cancelled; where its program has left it to its end, nobody comes for what waits."""
        if self.m.left:
            self.drop()

    def at_work(self, consumer: Consumer) -> None:
        """A consumer that `more` has let in takes what is here, one or several."""
        if consumer in self._consumers:
            self._consumers[consumer] = True

    def take(self) -> T:
        """The oldest; asks for as much again in steps of half."""
        element = self.elements.popleft()
        self._taken += 1
        if self._taken >= (self._prefetch + 1) // 2:
            taken, self._taken = self._taken, 0
            self.m.in_context(self._subscription.request, taken)
        return element

    async def more(self, consumer: Consumer) -> bool:
        """Waits for an element that is the caller's to take at once; False at the end.

        Raises:
            TooManyWaitersError: `MAX_WAITING_PULLS` wait already.
        """
        self._comes(consumer)
        if self.elements and not self._waiting:
            return True
        if self.over and not self.elements:
            self._end_when_done()
            return False
        if len(self._waiting) >= MAX_WAITING_PULLS:
            raise TooManyWaitersError(MAX_WAITING_PULLS, "MAX_WAITING_PULLS")
        turn: asyncio.Future[None] = self.future.get_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._left(turn, takes=0)
            raise
        self._left(turn, takes=1)
        return bool(self.elements)

    def _left(self, turn: asyncio.Future[None], takes: int) -> None:
        """One of those who waited has had its turn, or has given up; the next has its own if there is something left for it."""
        self._waiting.remove(turn)
        if self._waiting and (self.over or len(self.elements) > takes):
            self._wake_next()

    def _wake_next(self) -> None:
        if not self._waiting[0].done():
            self._waiting[0].set_result(None)

    def _first_request(self) -> int:
        return self._prefetch

    def _result(self) -> None:
        return None

    def _stop(self) -> None:
        self.over = True
        self._wake_all()
        for consumer in tuple(self._consumers):
            self._goes(consumer)

    def _wake_all(self) -> None:
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)

    # The end of the stream, and those who are at work on what came before it.

    def _come_to_its_end(self) -> None:
        self.over = True
        self._subscription = OVER
        self._wake_all()
        if self._forgotten:
            self.drop()
        self._end_when_done()

    def forget(self) -> None:
        """Nobody can take anything any more."""
        self._forgotten = True
        if self.over:
            self._come_to_its_end()

    def _end_when_done(self) -> None:
        """The sink is done unless somebody has to come for what waits here, or come back from what he has."""
        if not self.over or self.future.done():
            return
        if self._consumers:
            at_work = bool(self.elements) or any(self._consumers.values())
        else:
            at_work = bool(self.elements) and self.error is None and not self._awaited
        if not at_work:
            self._end()

    def _end(self) -> None:
        if self.error is not None:
            super().on_error(self.error)
        else:
            super().on_complete()

    def _comes(self, consumer: Consumer) -> None:
        """A consumer wants more: it is done with what it had."""
        if self.future.done():
            return
        if consumer is not None and consumer not in self._consumers:
            consumer.add_done_callback(self._ended)
        self._consumers[consumer] = False

    def _goes(self, consumer: Consumer) -> None:
        """A consumer wants nothing any more."""
        if self._consumers.pop(consumer, None) is not None and consumer is not None:
            consumer.remove_done_callback(self._ended)

    def _ended(self, consumer: asyncio.Task[Any]) -> None:
        self._goes(consumer)
        self._end_when_done()

    def _is_awaited(self, task: Consumer) -> None:
        """A task waits for the run: it does not come for an element before that is over."""
        self._goes(task)
        # Or it is a task that a consumer has made to wait for it: by asyncio.gather, or wait_for.
        if (maker := _pulling.get()) is not None:
            self._goes(maker)
        # Tasks that it has just made have not had their first step yet, which may be to pull.
        self.m.loop.call_soon(self._waits_for_nobody_else)

    def _waits_for_nobody_else(self) -> None:
        self._awaited = True
        self._end_when_done()


class SinkQueue(Generic[T]):
    """The handle of `Sink.queue`: elements are pulled one by one, or with ``async for``. To be used on the loop's thread.

    ``contextlib.aclosing`` around it cancels the stream when the block is left.

    The run goes on until those who pull are done with the last elements: until each task that has pulled wants the next one, has ended, or
    awaits the run. So who takes from a receiver acknowledges its last deliveries in time. A task that has pulled
    and now awaits the run wants nothing more: where no other task pulls, the run ends, and what waits can still be pulled.
    """

    __slots__ = ("_prefetched",)

    def __init__(self, prefetched: Prefetch[T]) -> None:
        self._prefetched = prefetched
        prefetched.m.will_hand_over()

    async def pull(self) -> T | None:
        """Waits for the next element; None once the stream has ended. Those who wait are served in turn.

        Raises:
            BaseException: what the stream failed with, after the elements that came before.
            StreamClosedError: the run was cancelled.
            TooManyWaitersError: `MAX_WAITING_PULLS` wait already.
        """
        prefetched, consumer = self._prefetched, asyncio.current_task()
        if prefetched.elements and not prefetched._waiting and prefetched._consumers.get(consumer):
            # It comes for the next while it counts as being at work, and goes on: to wait for `more` would change nothing.
            return prefetched.take()
        if _pulling.get() is not consumer:
            _pulling.set(consumer)
        if await prefetched.more(consumer):
            prefetched.at_work(consumer)
            return prefetched.take()
        if prefetched.error is not None:
            prefetched.m.hand_over(prefetched.error)
            # As it came: each raise adds to the traceback, and those who pull again would make it longer without end.
            raise prefetched.error.with_traceback(prefetched.traceback)
        if prefetched.future.cancelled():
            raise StreamClosedError("the run that this queue belongs to was cancelled")
        return None

    def cancel(self) -> None:
        """Takes no more: upstream is cancelled, what waits is dropped, and the sink is done."""
        self._prefetched.leave()

    async def aclose(self) -> None:
        """Cancels, as ``contextlib.aclosing`` wants it: returns when what that ends is gone, the clean-up of the source too."""
        self.cancel()
        await self._prefetched.m.left_by(self._prefetched.future)

    def __del__(self) -> None:
        # On whatever thread. A run that waited for somebody to come would be there for good.
        if not self._prefetched.future.done():
            self._prefetched.m.call_from_thread(self._prefetched.forget)

    def __aiter__(self) -> SinkQueue[T]:
        return self

    async def __anext__(self) -> T:
        element = await self.pull()
        if element is None:
            raise StopAsyncIteration
        return element

    def __len__(self) -> int:
        """How many elements wait to be pulled."""
        return len(self._prefetched.elements)
