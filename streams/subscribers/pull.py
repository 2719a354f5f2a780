"""The end of a stream that a program takes elements from as it likes: `SinkQueue`, and what ``async for`` over a source is made of."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Final, Generic, TypeVar

from streams.errors import StreamClosedError, TooManyWaitersError, null_element
from streams.materialize import Materialization
from streams.subscribers.sinks import SinkSubscriber

T = TypeVar("T")

PULL_PREFETCH: Final = 16
"""Elements asked for ahead of those who take them unless told otherwise, so that a source can work while they do."""

MAX_WAITING_PULLS: Final = 1024
"""Calls of ``pull`` that wait at a time: each holds a task, and more than a few are a program that does not await them."""


class Prefetch(SinkSubscriber[T, None], Generic[T]):
    """Holds the elements that nobody has taken yet.

    Attributes:
        elements: those that wait.
        error: what the stream failed with.
        traceback: that of ``error`` when it came.
        m: the run.
    """

    __slots__ = ("_prefetch", "_taken", "_waiting", "elements", "error", "m", "name", "traceback")

    def __init__(self, m: Materialization, prefetch: int, name: str) -> None:
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
        m.on_cancel(self._abandon)

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
        if error is not None and not self.future.done():
            self.error = error
            self.traceback = error.__traceback__
        super().on_error(error)

    def leave(self) -> None:
        """Takes no more: the sink is done, and what waits is dropped."""
        if not self.future.done():
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

    def take(self) -> T:
        """The oldest; asks for as much again in steps of half."""
        element = self.elements.popleft()
        self._taken += 1
        if self._taken >= (self._prefetch + 1) // 2:
            taken, self._taken = self._taken, 0
            self.m.in_context(self._subscription.request, taken)
        return element

    async def more(self) -> bool:
        """Waits for an element that is the caller's to take at once; False at the end.

        Raises:
            TooManyWaitersError: `MAX_WAITING_PULLS` wait already.
        """
        if self.elements and not self._waiting:
            return True
        if self.future.done() and not self.elements:
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
        if self._waiting and (self.future.done() or len(self.elements) > takes):
            self._wake_next()

    def _wake_next(self) -> None:
        if not self._waiting[0].done():
            self._waiting[0].set_result(None)

    def _first_request(self) -> int:
        return self._prefetch

    def _result(self) -> None:
        return None

    def _stop(self) -> None:
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)


class SinkQueue(Generic[T]):
    """The handle of `Sink.queue`: elements are pulled one by one, or with ``async for``. To be used on the loop's thread.

    ``contextlib.aclosing`` around it cancels the stream when the block is left.
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
        prefetched = self._prefetched
        if await prefetched.more():
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
