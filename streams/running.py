"""A run from its start to its end: the task that supervises it, and the handle that its starter holds.

The supervisor waits for the sink and settles the rest before the handle is done. So a handle that is done has left nothing behind. A loop
that shuts down cancels the streams on it like any task. A running stream is held by its supervisor, however few references its starter
keeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeVar, cast, get_origin

from streams.blocked_loop import unwatch, watch
from streams.errors import SURE_OPERATORS, StreamTooDeepError, add_place, storable
from streams.last_task import LastTask
from streams.materialize import Materialization
from streams.type_variables import Generic, V_co

M = TypeVar("M")
V = TypeVar("V")

_supervisors: Final[set[asyncio.Task[None]]] = set()
"""The event loop holds tasks weakly; this holds every running stream until it ends."""


class Running(Coroutine[Any, Any, M], Generic[M, V_co]):
    """The handle of a running stream: awaitable, cancellable, a coroutine where asyncio asks for one, and a block (``async with``).

    Awaiting it gives the sink's result or raises the stream's failure; cancelling a task that awaits it cancels the stream. A failure
    that nobody awaits goes to the loop's exception handler.

    Attributes:
        value: what the graph materialized: the handle of a queue or of a kill switch, say; else the future of the sink's result. Its
            type is the graph's ``V``.
        name: the graph's name.
    """

    __slots__ = ("__weakref__", "_m", "_result", "_waiting", "name", "value")

    def __init__(self, m: Materialization, result: asyncio.Future[M], value: V_co, name: str) -> None:
        self._m: Final = m
        self._result: Final = result
        self._waiting: dict[asyncio.Task[Any] | None, Coroutine[Any, Any, M]] = {}
        """The tasks that have taken the handle for their coroutine, and the waiting of each."""
        self.value: Final = value
        self.name: Final = name

    def __await__(self) -> Generator[Any, None, M]:
        return self._wait().__await__()

    # What makes it a coroutine to asyncio, for ``group.create_task(graph.run())`` and its like: each task has a waiting of its own.

    def send(self, value: Any, /) -> Any:
        """Goes on with the waiting of the task that runs now."""
        task = asyncio.current_task()
        waiting = self._waiting.get(task)
        if waiting is None:
            waiting = self._waiting[task] = self._wait()
        return self._step(task, waiting.send, value)

    def throw(self, error: Any, /, *value_and_traceback: Any) -> Any:
        """Raises ``error``, a cancellation say, where the task of now waits."""
        task = asyncio.current_task()
        waiting = self._waiting.get(task)
        if waiting is None:  # the task was cancelled before its first step
            waiting = self._waiting[task] = self._end_with(error)
            return self._step(task, waiting.send, None)
        return self._step(task, waiting.throw, error, *value_and_traceback)

    async def _end_with(self, error: BaseException) -> M:
        await self.stop()
        raise error

    def close(self) -> None:
        """A task that was never begun lets go of it: cancels, since nobody else may wait."""
        if not self._waiting:
            self.abandon()

    def _step(self, task: asyncio.Task[Any] | None, step: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return step(*arguments)
        except BaseException:
            del self._waiting[task]
            raise

    async def __aenter__(self) -> Running[M, V_co]:
        return self

    async def __aexit__(self, exception: type[BaseException] | None, _error: object, _traceback: object) -> None:
        """At the end of the block waits for the stream, and raises its failure; where the block fails, stops it.

        A stream that was cancelled within the block, with `cancel` or `stop`, has ended as it should. A failure that it had before the
        block's is reported, as any that nobody awaits: it may be why the block has failed.
        """
        if exception is not None:
            if not issubclass(exception, asyncio.CancelledError):
                self._m.left_at_work()
            self.cancel()
            await asyncio.wait((self._result,))
            return
        try:
            await self._wait()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._result.cancelled() or (task is not None and task.cancelling()):
                raise

    async def _wait(self) -> M:
        result = self._result
        if not result.done():
            self._m.awaited_by(asyncio.current_task())
            try:
                await asyncio.wait((result,))
            except asyncio.CancelledError:
                self.cancel()
                await asyncio.wait((result,))
                _ = result.cancelled() or result.exception()
                raise
        return result.result()

    def materialized(self, kind: type[V] | Callable[..., V]) -> V:
        """What the graph materialized, as a thing of this kind: ``running.materialized(SourceQueue[int])``.

        For what has lost its type: a ``Running[int]`` that says nothing of its value, a graph of a `GraphBuilder`. Else ``value`` will do.
        Where several values were kept together (`Keep.both`), it is the first of that kind among them.

        Args:
            kind: a class, or a shape as `Publisher` is: to type checkers that is no ``type[V]``, for nothing can be made of it.

        Raises:
            TypeError: nothing of the kind was materialized.
        """
        wanted: Any = get_origin(kind) or kind
        waiting = [self.value]
        while waiting:
            value = waiting.pop()
            if isinstance(value, wanted):
                return cast("V", value)
            if isinstance(value, tuple):
                waiting += reversed(value)
        raise TypeError(
            f"{self.name} has materialized no {wanted.__name__}, but {self.value!r}: Keep says which values are kept"
        )

    def cancel(self) -> None:
        """Cancels every source upstream; awaiting the handle then raises ``CancelledError``. No effect on a stream that has ended."""
        self._m.in_context(self._m.cancel)

    async def drain(self, within: float | None = None) -> M:
        """Ends the stream in good order, and gives its result: the sources complete, and what is under way is finished.

        What waits in a `SourceQueue` goes on, what a receiver has not handed on goes back to its queue, an iterable is closed. What a
        stage has begun for an element goes on to its own end: the source of a ``flat_map_concat``, say. So a stream can last; after
        ``within`` it is cancelled. Sources of other makes (`Source.from_publisher`) are not told: they end, or the time is over.

        Args:
            within: seconds; None to wait for as long as it takes.

        Raises:
            BaseException: what the stream fails with.
            TimeoutError: it had not ended in time, and was cancelled; everything is gone.
        """
        self._m.loop.call_soon(self._m.drain)  # in a turn of its own, for this may be called from within a signal
        try:
            async with asyncio.timeout(within) as limit:
                return await self._wait()
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(
                    f"{self.name} had not ended {within:g} s after it was told to, and was cancelled"
                ) from None
            raise

    async def stop(self) -> None:
        """Cancels, and waits until everything that the run owned is gone: the clean-up of its sources too, each within its deadline.

        How the stream has ended is not told here, and a failure is not reported: await the handle to know it. `drain` lets what is under
        way be finished.
        """
        self.abandon()
        await asyncio.wait((self._result,))

    def abandon(self) -> None:
        """Cancels, and forgets how the stream ends: a failure is not reported either."""
        self.cancel()
        self._result.add_done_callback(lambda result: result.cancelled() or result.exception())

    def done(self) -> bool:
        """Whether the stream has ended and everything it owned is gone."""
        return self._result.done()

    def __repr__(self) -> str:
        return f"<Running {self.name} {'done' if self.done() else 'running'}>"


def start(
    loop: asyncio.AbstractEventLoop,
    assemble: Callable[[Materialization], tuple[asyncio.Future[M], V]],
    name: str,
) -> Running[M, V]:
    """Puts a graph together on ``loop`` and sets it going.

    Args:
        loop: the loop to run on; this is its thread.
        assemble: attaches source, flows and sink, and returns the sink's future and the materialized value.
        name: seen in the handle, the supervisor's task and failures.
    """
    m = Materialization(loop)
    try:
        sink, value = assemble(m)
    except BaseException as error:
        m.cancel()
        _keep(LastTask(m._settle(), loop=loop, name=f"undo of stream {name}"))
        if (too_deep := _too_deep(error, name)) is not None:
            raise too_deep from None
        raise
    m._sink = sink
    if m._cancelled:
        sink.cancel()
    result: asyncio.Future[M] = loop.create_future()
    m._over = result
    if loop.get_debug():
        watch(m)
    supervisor = LastTask(_supervise(m, sink, result, name), loop=loop, name=f"stream {name}")
    supervisor.release()
    supervisor.add_done_callback(lambda _task: _make_good(m, sink, result, name))
    _keep(supervisor)
    return Running(m, result, value, name)


def _too_deep(error: BaseException, name: str) -> StreamTooDeepError | None:
    """What a ``RecursionError`` says where it is the length of the stream that does not fit the stack."""
    operators = name.count(" -> ") - 1
    return StreamTooDeepError(operators) if type(error) is RecursionError and operators > SURE_OPERATORS else None


def _make_good(m: Materialization, sink: asyncio.Future[M], result: asyncio.Future[M], name: str) -> None:
    """A supervisor that was cancelled before its first step has done nothing: a loop that shuts down now must not wait for ever."""
    if not result.done():
        m.shut_down()
        _keep(LastTask(_stop(m, sink, result, name, interrupted=True), loop=m.loop, name=f"stop of stream {name}"))


def _keep(task: asyncio.Task[None]) -> None:
    _supervisors.add(task)
    task.add_done_callback(_supervisors.discard)


async def _supervise(m: Materialization, sink: asyncio.Future[M], result: asyncio.Future[M], name: str) -> None:
    """Waits for the sink, stops what is left of the run, and only then makes the outcome known."""
    interrupted: asyncio.CancelledError | None = None
    try:
        await asyncio.wait((sink,))
    except asyncio.CancelledError as error:  # the loop is shutting down
        interrupted = error
        m.shut_down()
        sink.cancel()
    # From here on its deadlines end it, and not a loop that shuts down meanwhile.
    task = asyncio.current_task()
    if isinstance(task, LastTask):
        task.protect()
    await _stop(m, sink, result, name, interrupted=interrupted is not None)
    if interrupted is not None:
        raise interrupted


async def _stop(
    m: Materialization, sink: asyncio.Future[M], result: asyncio.Future[M], name: str, *, interrupted: bool
) -> None:
    if sink.cancelled() or (sink.done() and sink.exception() is not None):
        m.cancel()  # sinks and sources beside the one that ended the run
    try:
        await m._settle()
    finally:
        unwatch(m)
        sink.cancel()  # where it is not done, which only a loop that shuts down leaves behind
        _resolve(result, sink, m, name, interrupted)


def _resolve(
    result: asyncio.Future[M], sink: asyncio.Future[M], m: Materialization, name: str, interrupted: bool
) -> None:
    """Hands the outcome to those who await the handle."""
    failure = m._failure
    if failure is None:
        if sink.cancelled():
            result.cancel()
            return
        failure = sink.exception()
        if failure is None:
            result.set_result(sink.result())
            return
    elif not sink.cancelled():
        _ = sink.exception()  # retrieved: the run's failure stands for it
    if interrupted and isinstance(failure, asyncio.CancelledError):
        result.cancel()  # a stage's task was cancelled by the same shutdown: no failure to be reported
        return
    if (too_deep := _too_deep(failure, name)) is not None:
        too_deep.__cause__ = failure  # it may be a function of the user's that recurses
        failure = too_deep
    m._failure = failure
    failure = storable(failure)
    add_place(failure, f"in the stream {name}")
    result.set_exception(failure)
    if m._hands_over:
        m._outcome = result  # held, for what is dropped unseen is reported
        m._count_as_seen()
