"""map_async: an asynchronous function over the elements, several at a time, in their order or as they are done.

What was asked for and has not come, what is being worked on and what is done but not emitted are together ``parallelism`` at most.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import null_element
from streams.materialize import Materialization
from streams.stages.stage import ControlledStage, I, O

T = TypeVar("T")


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


class _MapAsync(ControlledStage[I, O], Generic[I, O]):
    """What both orders share: starting, demand upstream, stopping. Subclasses keep the results."""

    __slots__ = ("_busy", "_completed", "_f", "_m", "_parallelism", "_started", "_tasks")

    def __init__(
        self,
        downstream: Subscriber[O],
        m: Materialization,
        parallelism: int,
        f: Callable[[I], Awaitable[O]],
        name: str,
    ) -> None:
        super().__init__(downstream, name)
        self._m = m
        self._parallelism = parallelism
        self._f = f
        self._tasks: set[asyncio.Task[O]] = set()
        self._started = False
        self._completed = False
        self._busy = False

    def on_next(self, element: I) -> None:
        """Starts work on ``element``."""
        if element is None:
            raise null_element(self._name)
        if self._done:
            return
        try:
            awaitable = self._f(element)
            coroutine = awaitable if isinstance(awaitable, Coroutine) else _await(awaitable)
            task = self._m.spawn(coroutine, self._name, self._task_done)
        except Exception as error:  # noqa: BLE001 - whatever user code raises goes down the stream
            self._broken(error)
            return
        self._tasks.add(task)
        self._working(task)

    def on_complete(self) -> None:
        """Ends once everything under way is out."""
        self._completed = True
        self._drain()

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - the whole demand counts
        if not self._started:
            self._started = True
            self._upstream.request(self._parallelism)
        self._drain()

    def _finish(self) -> None:
        super()._finish()
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()

    def _task_done(self, task: asyncio.Task[O]) -> None:
        if self._done:
            _ = task.cancelled() or task.exception()
            return
        self._tasks.discard(task)
        self._worked(task)
        self._m.call(self._drain)

    def _drain(self) -> None:
        """Emits what is done, under demand, and asks for as much again; a call from within only leaves its mark."""
        if self._busy:
            return
        self._busy = True
        while not self._done:
            task = self._next_done()
            if task is None:
                if self._completed and self._idle():
                    super().on_complete()
                break
            if task.cancelled():
                self._fail_at(asyncio.CancelledError("the function's task was cancelled"))
            elif (error := task.exception()) is not None:
                self._fail_at(error)
            elif not self._demand:
                break
            else:
                self._taken()
                self._emit(task.result())
        self._busy = False

    def _emit(self, result: O) -> None:
        if result is None:
            self._fail_at(null_element("the function has returned None"))
            return
        self._demand -= 1
        self._push(result)
        if not self._done and not self._completed:
            self._upstream.request(1)

    def _fail_at(self, error: BaseException) -> None:
        self._function_failed(error, self._f)

    @abstractmethod
    def _broken(self, error: Exception) -> None:
        """The function itself has raised instead of returning an awaitable."""

    @abstractmethod
    def _working(self, task: asyncio.Task[O]) -> None:
        """Work on an element has started."""

    @abstractmethod
    def _worked(self, task: asyncio.Task[O]) -> None:
        """Work on an element has ended."""

    @abstractmethod
    def _next_done(self) -> asyncio.Task[O] | None:
        """The task whose result comes next, if it is done."""

    @abstractmethod
    def _taken(self) -> None:
        """The result of `_next_done` is being emitted."""

    @abstractmethod
    def _idle(self) -> bool:
        """Nothing is under way."""


class MapAsync(_MapAsync[I, O], Generic[I, O]):
    """Results in the order of the elements; a failure comes in its element's place, after everything before it."""

    __slots__ = ("_order",)

    def __init__(
        self,
        downstream: Subscriber[O],
        m: Materialization,
        parallelism: int,
        f: Callable[[I], Awaitable[O]],
        name: str = "map_async",
    ) -> None:
        super().__init__(downstream, m, parallelism, f, name)
        self._order: deque[asyncio.Task[O]] = deque()

    def _broken(self, error: Exception) -> None:
        async def fail() -> O:
            raise error

        self._working(self._m.spawn(fail(), self._name, self._task_done))

    def _working(self, task: asyncio.Task[O]) -> None:
        self._order.append(task)

    def _worked(self, task: asyncio.Task[O]) -> None:
        """It keeps its place."""

    def _next_done(self) -> asyncio.Task[O] | None:
        order = self._order
        return order[0] if order and order[0].done() else None

    def _taken(self) -> None:
        self._order.popleft()

    def _idle(self) -> bool:
        return not self._order

    def _finish(self) -> None:
        super()._finish()
        self._order.clear()


class MapAsyncUnordered(_MapAsync[I, O], Generic[I, O]):
    """Results as they are done; a failure ends the stream as soon as it is known."""

    __slots__ = ("_results",)

    def __init__(
        self,
        downstream: Subscriber[O],
        m: Materialization,
        parallelism: int,
        f: Callable[[I], Awaitable[O]],
        name: str = "map_async_unordered",
    ) -> None:
        super().__init__(downstream, m, parallelism, f, name)
        self._results: deque[asyncio.Task[O]] = deque()

    def _broken(self, error: Exception) -> None:
        self._fail_at(error)

    def _working(self, task: asyncio.Task[O]) -> None:
        """It has no place yet."""

    def _worked(self, task: asyncio.Task[O]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._results.appendleft(task)
        else:
            self._results.append(task)

    def _next_done(self) -> asyncio.Task[O] | None:
        return self._results[0] if self._results else None

    def _taken(self) -> None:
        self._results.popleft()

    def _idle(self) -> bool:
        return not self._results and not self._tasks

    def _finish(self) -> None:
        super()._finish()
        self._results.clear()
