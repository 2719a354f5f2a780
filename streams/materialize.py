"""One run of a graph: what it owns, how it ends, and the handle that its starter holds.

A run owns the tasks its stages spawn and one task of its own, the supervisor, which waits for the sink and settles the rest before
the handle is done. So a handle that is done has left nothing behind, a loop that shuts down cancels the streams on it like any task,
and a running stream is held by its supervisor however few references its starter keeps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Final, Generic, TypeVar

from streams.blocked_loop import unwatch, watch
from streams.errors import StreamClosedError, storable
from streams.supervision import Decider

M = TypeVar("M")

STOP_TIMEOUT: Final = 10.0
"""Seconds that a run's tasks have to end once they are cancelled, and then its ``on_end`` work; it ends without them, and says so."""

_supervisors: Final[set[asyncio.Task[None]]] = set()
"""The event loop holds tasks weakly; this holds every running stream until it ends."""


class Materialization:
    """What one run of a graph owns. Stages get it when they are attached.

    Attributes:
        loop: the event loop all signals of this run are calls on.
        decider: what stages do when a user's function fails; None where no `with_supervision` holds.
    """

    __slots__ = (
        "__weakref__",
        "_cancel_hooks",
        "_cancelled",
        "_end_hooks",
        "_ended",
        "_endings",
        "_failure",
        "_parts",
        "_sink",
        "_tasks",
        "decider",
        "loop",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: Final = loop
        self.decider: Decider | None = None
        self._cancel_hooks: list[Callable[[], None]] = []
        self._cancelled = False
        self._end_hooks: list[tuple[Callable[[], Awaitable[None] | None], str | None]] = []
        self._ended = False
        self._endings: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._parts: set[Part] = set()
        self._sink: asyncio.Future[Any] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(
        self,
        coro: Coroutine[Any, Any, M],
        name: str,
        on_done: Callable[[asyncio.Task[M]], None] | None = None,
    ) -> asyncio.Task[M]:
        """Starts a task that the run owns: it is cancelled, and waited for, at the end of the run.

        Args:
            coro: what to run.
            name: the task's name, seen in debuggers.
            on_done: called with the task when it is done, unless the run has ended; without it, a task that fails fails the run.

        Raises:
            StreamClosedError: the run has ended.
        """
        return self.spawner(name, on_done)(coro)

    def spawner(
        self, name: str, on_done: Callable[[asyncio.Task[M]], None] | None = None
    ) -> Callable[[Coroutine[Any, Any, M]], asyncio.Task[M]]:
        """What `spawn` does, as a function of the coroutine alone: for stages that start a task for each element."""
        tasks, create_task = self._tasks, self.loop.create_task
        told = self._task_over if on_done is None else on_done

        def done(task: asyncio.Task[M]) -> None:
            tasks.discard(task)
            if self._ended:
                # Retrieves the outcome: after the end nobody is left to care for it.
                _ = task.cancelled() or task.exception()
            else:
                told(task)

        def start_task(coro: Coroutine[Any, Any, M]) -> asyncio.Task[M]:
            if self._ended:
                coro.close()
                raise StreamClosedError(f"cannot start {name}: the run has ended")
            task = create_task(coro, name=name)
            tasks.add(task)
            task.add_done_callback(done)
            return task

        return start_task

    def _task_over(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def part(self, on_failure: Callable[[BaseException], None] | None = None) -> Part:
        """Begins a part of the run that may end before it: one life of a source that is restarted, or one substream.

        What is created with the part instead of the run is let go of at the part's `end`, so that any number of them can come and go.

        Args:
            on_failure: called instead of `fail`; without it a failure of the part is one of the run.

        Raises:
            StreamClosedError: the run has ended.
        """
        if self._ended:
            raise StreamClosedError("cannot begin a part of a run that has ended")
        part = Part(self, on_failure or self.fail)
        part.decider = self.decider
        if self._cancelled:
            part.cancel()
        self._parts.add(part)
        return part

    @property
    def ended(self) -> bool:
        """The sink is done: the run's tasks are being cancelled, or gone."""
        return self._ended

    def supervised(self, decider: Decider) -> Materialization:
        """This run as the stages see it that ``decider`` holds for."""
        return _Supervised(self, decider)

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Registers what stops a part of the graph: called once if the run is cancelled or fails, at once if it already is."""
        if self._cancelled:
            callback()
        elif not self._ended:
            self._cancel_hooks.append(callback)

    def on_end(self, finish: Callable[[], Awaitable[None] | None], name: str | None = None) -> None:
        """Registers last work that the handle waits for, whatever way the run ends: what a connection has still to say, for example.

        It is started when the sink is done and the run's tasks are over, and has `STOP_TIMEOUT`; a plain function is called then.
        ``name`` is what it is called where it has not ended in time.
        """
        self._end_hooks.append((finish, name))

    def fail(self, error: BaseException) -> None:
        """Ends the run with ``error``: upstream is cancelled and the handle raises it. The first failure counts."""
        if self._ended or self._cancelled:
            return
        self._failure = error
        self.cancel()

    def cancel(self) -> None:
        """Stops everything upstream through the sinks' subscriptions; the second time does nothing."""
        if self._cancelled or self._ended:
            return
        self._cancelled = True
        for part in tuple(self._parts):
            part.cancel()
        hooks, self._cancel_hooks = self._cancel_hooks, []
        for hook in hooks:
            try:
                hook()
            except Exception as error:  # noqa: BLE001 - one stage's fault must not keep the others from stopping
                self.report("a stage failed while it was being cancelled", error)
        if self._sink is not None:
            self._sink.cancel()

    def owns(self, task: asyncio.Task[Any]) -> bool:
        """Whether the run, or a part of it, has started ``task`` and it is not done."""
        return task in self._tasks or any(part.owns(task) for part in tuple(self._parts))

    def call(self, callback: Callable[..., object], *arguments: object) -> None:
        """Calls what signals downstream from a timer or a task: what a subscriber raises there, against rule 2.13, fails the run."""
        try:
            callback(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever a subscriber raises, it must not get lost in the loop
            self.fail(error)

    def report(self, message: str, error: BaseException) -> None:
        """Tells the loop's exception handler of a fault that has no subscriber left to go to."""
        self.loop.call_exception_handler({"message": message, "exception": error})

    async def _settle(self) -> None:
        """Ends the run: nothing may be started any more, and what was started is over when this returns."""
        self._ended = True
        self._cancel_hooks.clear()
        for part in tuple(self._parts):
            part.end()
        for task in self._tasks:
            if not task.cancelling():  # a second time would interrupt what its coroutine does about the first
                task.cancel()
        await self._wait_for(self._tasks, "tasks")
        if self._endings:
            await asyncio.wait(tuple(self._endings))  # each has its own deadlines
        hooks, self._end_hooks = self._end_hooks, []
        if hooks:
            endings = {self.loop.create_task(self._end(hook), name=name) for hook, name in hooks}
            await self._wait_for(endings, "on_end callbacks")

    async def _end(self, hook: Callable[[], Awaitable[None] | None]) -> None:
        try:
            ending = hook()
            if ending is not None:
                await ending
        except Exception as error:  # noqa: BLE001 - the outcome of the stream stands; this fault goes to the loop's handler
            self.report("an on_end callback of a stream failed", error)

    async def _wait_for(self, tasks: set[asyncio.Task[Any]], what: str) -> None:
        """Waits for ``tasks`` (those, now: the set may shrink meanwhile), within STOP_TIMEOUT."""
        if not tasks:
            return
        _, late = await asyncio.wait(tuple(tasks), timeout=STOP_TIMEOUT)
        if late:
            names = ", ".join(sorted(task.get_name() for task in late))
            self.report(f"{what} of a stream have not ended {STOP_TIMEOUT:g} s after it", TimeoutError(names))


class Part(Materialization):
    """A part of a run, with tasks, hooks and an end of its own; it ends with its run at the latest. Made by `Materialization.part`."""

    __slots__ = ("_on_failure", "_run")

    def __init__(self, run: Materialization, on_failure: Callable[[BaseException], None]) -> None:
        super().__init__(run.loop)
        self._run = run
        self._on_failure = on_failure

    def fail(self, error: BaseException) -> None:
        """Cancels the part, and tells whoever began it."""
        if not self._ended and not self._cancelled:
            self.cancel()
            self._on_failure(error)

    def end(self) -> None:
        """Stops the part's tasks and starts its last work, for which the run waits; the second time does nothing."""
        run = self._run
        if self not in run._parts:
            return
        run._parts.discard(self)
        if self._tasks or self._end_hooks or self._parts or self._endings:
            task = self.loop.create_task(self._settle(), name="the end of a part of a stream")
            run._endings.add(task)
            task.add_done_callback(run._endings.discard)
        else:
            self._ended = True
            self._cancel_hooks.clear()


class _Supervised(Materialization):
    """A run seen by stages under supervision: everything is the run's but the decider."""

    __slots__ = ("_run",)

    def __init__(self, run: Materialization, decider: Decider) -> None:
        super().__init__(run.loop)
        self._run = run
        self.decider = decider

    def spawner(
        self, name: str, on_done: Callable[[asyncio.Task[M]], None] | None = None
    ) -> Callable[[Coroutine[Any, Any, M]], asyncio.Task[M]]:
        """As the run's."""
        return self._run.spawner(name, on_done)

    @property
    def ended(self) -> bool:
        """As the run's."""
        return self._run.ended

    def part(self, on_failure: Callable[[BaseException], None] | None = None) -> Part:
        """As the run's, under the same decider."""
        part = self._run.part(on_failure)
        part.decider = self.decider
        return part

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """As the run's."""
        self._run.on_cancel(callback)

    def on_end(self, finish: Callable[[], Awaitable[None] | None], name: str | None = None) -> None:
        """As the run's."""
        self._run.on_end(finish, name)

    def fail(self, error: BaseException) -> None:
        """As the run's."""
        self._run.fail(error)

    def cancel(self) -> None:
        """As the run's."""
        self._run.cancel()


class Running(Generic[M]):
    """The handle of a running stream: awaitable, cancellable.

    Awaiting it gives the sink's result or raises the stream's failure; cancelling a task that awaits it cancels the stream. A failure
    that nobody awaits goes to the loop's exception handler.

    Attributes:
        value: what the graph materialized: the handle of a queue or of a kill switch, say; else the future of the sink's result.
        name: the graph's name.
    """

    __slots__ = ("__weakref__", "_m", "_result", "name", "value")

    def __init__(self, m: Materialization, result: asyncio.Future[M], value: Any, name: str) -> None:
        self._m: Final = m
        self._result: Final = result
        self.value: Final = value
        self.name: Final = name

    def __await__(self) -> Generator[Any, None, M]:
        return self._wait().__await__()

    async def _wait(self) -> M:
        result = self._result
        if not result.done():
            try:
                await asyncio.wait((result,))
            except asyncio.CancelledError:
                self.cancel()
                await asyncio.wait((result,))
                _ = result.cancelled() or result.exception()
                raise
        return result.result()

    def cancel(self) -> None:
        """Cancels every source upstream; awaiting the handle then raises ``CancelledError``. No effect on a stream that has ended."""
        self._m.cancel()

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
    assemble: Callable[[Materialization], tuple[asyncio.Future[M], Any]],
    name: str,
) -> Running[M]:
    """Puts a graph together on ``loop`` and sets it going.

    Args:
        loop: the loop to run on; this is its thread.
        assemble: attaches source, flows and sink, and returns the sink's future and the materialized value.
        name: seen in the handle, the supervisor's task and failures.
    """
    m = Materialization(loop)
    try:
        sink, value = assemble(m)
    except BaseException:
        m.cancel()
        _keep(loop.create_task(m._settle(), name=f"undo of stream {name}"))
        raise
    m._sink = sink
    if m._cancelled:
        sink.cancel()
    result: asyncio.Future[M] = loop.create_future()
    if loop.get_debug():
        watch(m)
    _keep(loop.create_task(_supervise(m, sink, result, name), name=f"stream {name}"))
    return Running(m, result, value, name)


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
        m.cancel()
        sink.cancel()
    if sink.cancelled() or sink.exception() is not None:
        m.cancel()  # sinks and sources beside the one that ended the run
    try:
        await m._settle()
    finally:
        unwatch(m)
        _resolve(result, sink, m._failure, name, interrupted is not None)
    if interrupted is not None:
        raise interrupted


def _resolve(
    result: asyncio.Future[M], sink: asyncio.Future[M], failure: BaseException | None, name: str, interrupted: bool
) -> None:
    """Hands the outcome to those who await the handle."""
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
    failure = storable(failure)
    failure.add_note(f"in the stream {name}")
    result.set_exception(failure)
