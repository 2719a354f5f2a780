"""map_async: an asynchronous function over the elements, several at a time, in their order or as they are done.

A coroutine that never waits is not worth a task of its own. So a worker, which is one task, goes on from element to element as long
as their coroutines do not wait; when one does, the worker stays with it, and others are started for what else there is to do. Each
element's coroutine has a copy of the context variables to itself, as if it were a task that is started where the element comes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from types import CoroutineType, coroutine
from typing import Any, Generic, TypeVar

from streams.contract import Subscriber
from streams.materialize import Materialization
from streams.publishers.iterable import EMIT_BUDGET
from streams.stages.in_flight import InFlight, Place
from streams.stages.stage import I, O, describe

T = TypeVar("T")


async def _await(awaitable: Awaitable[T]) -> T:
    return await awaitable


@coroutine
def _turn() -> Generator[None, None, None]:
    """Gives the loop a turn."""
    yield


@coroutine
def _rest(context: Context, work: Coroutine[Any, Any, T], awaited: Any) -> Generator[Any, Any, T]:
    """Runs ``work``, which waits for ``awaited``, to its end; ``yield from work``, but in ``context``."""
    while True:
        step: Callable[[Any], Any] = work.send
        value: Any
        try:
            value = yield awaited
        except BaseException as error:  # noqa: BLE001 - cancellation above all: it is the coroutine's to deal with
            step, value = work.throw, error
        try:
            awaited = context.run(step, value)
        except StopIteration as stop:
            result: T = stop.value
            return result


class MapAsync(InFlight[I, O], Generic[I, O]):
    """Results in the order of the elements; a failure comes in its element's place, after everything before it."""

    __slots__ = ("_f", "_spawn", "_starting", "_tasks", "_waiting", "_working")

    def __init__(
        self,
        downstream: Subscriber[O],
        m: Materialization,
        parallelism: int,
        f: Callable[..., Awaitable[O]],
        name: str = "map_async",
    ) -> None:
        super().__init__(downstream, m, parallelism, name)
        self._f = f
        self._spawn = m.spawner(describe(name, f), self._worker_over)
        self._tasks: dict[asyncio.Task[None], None] = {}
        """In the order in which they were started, and are ended."""
        self._waiting: deque[tuple[Place, I, Context]] = deque()
        """Elements that no worker has taken yet; never for longer than a turn of the loop."""
        self._starting = 0
        """Workers that have not had their first turn."""
        self._working = False
        """A worker is at work right now, and will look for more."""

    def _begin(self, place: Place, element: I) -> None:
        self._waiting.append((place, element, copy_context()))
        if not self._working and not self._starting:
            self._start_workers()

    def _blamed(self) -> Callable[..., Any]:
        return self._f

    def _finish(self) -> None:
        super()._finish()
        self._waiting.clear()
        tasks, self._tasks = self._tasks, {}
        for task in tasks:
            # The worker of now too: where the user's function has ended the stage, it may be about to wait for something.
            self._m.interrupt(task)

    def _start_workers(self) -> None:
        """Starts a worker for each element that waits for one."""
        while self._starting < len(self._waiting):
            self._starting += 1
            try:
                self._tasks[self._spawn(self._work())] = None
            except Exception as error:  # noqa: BLE001 - the run has ended, or the loop is closed
                self._fail(error)

    def _worker_over(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._m.fail(error)

    async def _work(self) -> None:
        """A worker: takes elements until there are no more, or one's coroutine has waited."""
        self._starting -= 1
        self._working = True
        waiting = self._waiting
        budget = EMIT_BUDGET
        try:
            while waiting:
                place, element, context = waiting.popleft()
                if not await self._work_on(place, element, context):
                    return
                self._m.call(self._settled, place)
                budget -= 1
                if not budget:
                    budget = EMIT_BUDGET
                    self._working = False
                    await _turn()
                    self._working = True
        finally:
            self._working = False
            self._start_workers()

    async def _work_on(self, place: Place, element: I, context: Context) -> bool:
        """Brings about the outcome of one element; False if the worker was cancelled meanwhile."""
        try:
            awaitable = context.run(self._call, place, element)
            work = awaitable if type(awaitable) is CoroutineType else _await(awaitable)
            try:
                awaited = context.run(work.send, None)
            except StopIteration as stop:
                place.result = stop.value
                return True
            self._working = False
            self._start_workers()
            place.result = await _rest(context, work, awaited)
            self._working = True
        except asyncio.CancelledError:
            if not self._done and not self._m.ended:
                place.fail(asyncio.CancelledError("the function's task was cancelled"), self._f)
                self._m.call(self._settled, place)
            return False
        except Exception as error:  # noqa: BLE001 - whatever user code raises goes down the stream
            self._working = True
            place.fail(error, self._f, element)
        return True

    def _call(self, _place: Place, element: I) -> Any:
        return self._f(element)


class MapAsyncUnordered(MapAsync[I, O], Generic[I, O]):
    """Results as they are done; a failure ends the stream as soon as it is known."""

    __slots__ = ()

    ordered = False

    def __init__(
        self,
        downstream: Subscriber[O],
        m: Materialization,
        parallelism: int,
        f: Callable[[I], Awaitable[O]],
        name: str = "map_async_unordered",
    ) -> None:
        super().__init__(downstream, m, parallelism, f, name)
