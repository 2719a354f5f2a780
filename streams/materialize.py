"""One run of a graph, as its stages see it: what it owns, how its parts are stopped, and where faults go."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextvars import Context, copy_context
from typing import Any, Final, TypeVar

from streams.draining import Drainable, Draining
from streams.errors import FAILURES, StreamClosedError
from streams.last_task import LastTask
from streams.supervision import Decider

M = TypeVar("M")

STOP_TIMEOUT: Final = 10.0
"""Seconds that a run's tasks have to end once they are cancelled, and then its ``on_end`` work; it ends without them, and says so."""

CLEAN_UP_TIMEOUT: Final = 8.0
"""Seconds that the clean-up of a source has, once nobody wants the source any more; then it is cancelled, and reported.
It is shorter than `STOP_TIMEOUT`, so that a run which ends meanwhile still sees the clean-up end."""


class Materialization:
    """What one run of a graph owns. Stages get it when they are attached.

    Attributes:
        loop: the event loop all signals of this run are calls on.
        context: the context variables of whoever has started it.
        decider: what stages do when a user's function fails; None where no `with_supervision` holds.
    """

    __slots__ = (
        "__weakref__",
        "_await_hooks",
        "_cancel_hooks",
        "_cancelled",
        "_cleaning",
        "_draining",
        "_end_hooks",
        "_ended",
        "_endings",
        "_failure",
        "_handed_over",
        "_hands_over",
        "_interrupted",
        "_left",
        "_outcome",
        "_over",
        "_parts",
        "_shutting_down",
        "_sink",
        "_tasks",
        "context",
        "decider",
        "loop",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context | None = None) -> None:
        self.loop: Final = loop
        self.context: Final = copy_context() if context is None else context
        self.decider: Decider | None = None
        self._await_hooks: list[Callable[[asyncio.Task[Any] | None], None]] = []
        self._cancel_hooks: list[Callable[[], None]] = []
        self._cancelled = False
        self._cleaning: set[asyncio.Task[Any]] = set()
        """Tasks that are at their clean-up, which nothing may interrupt."""
        self._draining = Draining()
        self._end_hooks: list[tuple[Callable[[], Awaitable[None] | None], str | None]] = []
        self._ended = False
        self._endings: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._handed_over: BaseException | None = None
        self._hands_over = False
        self._left = False
        self._interrupted: set[asyncio.Task[Any]] = set()
        """Tasks that were cancelled, and may be at their clean-up therefore: a second time would cut that short."""
        self._outcome: asyncio.Future[Any] | None = None
        self._over: asyncio.Future[Any] | None = None
        """What the run's handle waits for; None for a part."""
        self._parts: dict[Part, None] = {}  # as the tasks in the order of their beginning, in which they are ended
        self._shutting_down = False
        self._sink: asyncio.Future[Any] | None = None
        self._tasks: dict[asyncio.Task[Any], None] = {}

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
        tasks, create_task, context = self._tasks, self.loop.create_task, self.context
        told = self._task_over if on_done is None else on_done

        def done(task: asyncio.Task[M]) -> None:
            tasks.pop(task, None)
            self._interrupted.discard(task)
            self._cleaning.discard(task)
            if self._ended:
                # Retrieves the outcome: after the end nobody is left to care for it.
                _ = task.cancelled() or task.exception()
            else:
                told(task)

        def start_task(coro: Coroutine[Any, Any, M]) -> asyncio.Task[M]:
            if self._ended:
                coro.close()
                raise StreamClosedError(f"cannot start {name}: the run has ended")
            # In the run's context: what is going on now may be the business of one element.
            task = create_task(coro, name=name, context=context.copy())
            tasks[task] = None
            task.add_done_callback(done)
            return task

        return start_task

    def _task_over(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def interrupt(self, task: asyncio.Task[Any]) -> None:
        """Cancels a task that `spawn` has started: once, for a second time would cut short what its coroutine does about the first.

        One that has said that it cleans up is left alone. Stages end their tasks by this, and not by ``task.cancel()``.
        """
        if task in self._interrupted or task in self._cleaning or task not in self._tasks:
            return
        self._interrupted.add(task)
        # A loop that shuts down cancels every task by itself; one more time would be the second.
        if not (self._shutting_down and task.cancelling()):
            task.cancel()

    def cleaning_up(self) -> None:
        """Says that the task of now cleans up from here to its end: the end of the run waits for it, and does not interrupt it.

        The task sees to it that this does not take longer than `CLEAN_UP_TIMEOUT`.
        """
        task = asyncio.current_task()
        if task in self._tasks:
            self._cleaning.add(task)

    def clean_ups(self) -> set[asyncio.Task[Any]]:
        """The tasks, of parts too, that were interrupted or clean up, and are not at their end."""
        under_way = self._interrupted | self._cleaning | self._endings
        for part in tuple(self._parts):
            under_way |= part.clean_ups()
        return under_way

    async def left_by(self, sink: asyncio.Future[Any]) -> None:
        """Waits, once ``sink`` has cancelled, until what that has ended is gone: the run if this was its sink, else what cleans up.

        The waiting is bounded: every clean-up has a deadline.
        """
        if self._over is not None and (sink is self._sink or (self._sink is not None and self._sink.done())):
            await asyncio.wait((self._over,))
        elif under_way := self.clean_ups() - {asyncio.current_task()}:
            await asyncio.wait(under_way)

    def shut_down(self) -> None:
        """Cancels a run whose loop shuts down, and has cancelled its tasks already. Why its program left it nobody can say."""
        if not self._cancelled:
            self._left = True
        self._loop_shuts_down()
        self.cancel()

    def _loop_shuts_down(self) -> None:
        self._shutting_down = True
        for part in tuple(self._parts):
            part._loop_shuts_down()

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
        self._parts[part] = None
        return part

    @property
    def ended(self) -> bool:
        """The sink is done: the run's tasks are being cancelled, or gone."""
        return self._ended

    @property
    def cancelled(self) -> bool:
        """The program has ended the run by cancelling it, and nothing in it had failed."""
        return self._cancelled and not self._has_failed()

    def left_at_work(self) -> None:
        """Says that whoever took the elements has gone while at work on one, which may be why: that is no `cancelled`."""
        self._left = True

    @property
    def left(self) -> bool:
        """Whether it was `left_at_work`: nobody will take what waits."""
        return self._left

    def _has_failed(self) -> bool:
        sink = self._sink
        failed = sink is not None and sink.done() and not sink.cancelled() and sink.exception() is not None
        return failed or self._left or self._failure is not None

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Registers what stops a part of the graph: called once if the run is cancelled or fails, at once if it already is."""
        if self._cancelled:
            callback()
        elif not self._ended:
            self._cancel_hooks.append(callback)

    def on_drain(self, source: Drainable) -> None:
        """Registers a source of the graph, which is told when the run is to come to its end in good order."""
        self._draining.add(source)

    def drain(self) -> None:
        """Has the sources complete, so that the run ends when what is under way is done; sources that come later complete at once."""
        self._draining.begin(self)

    def on_awaited(self, callback: Callable[[asyncio.Task[Any] | None], None]) -> None:
        """Registers what is told of each task that begins to wait for the run's handle."""
        self._await_hooks.append(callback)

    def awaited_by(self, task: asyncio.Task[Any] | None) -> None:
        """Says that ``task`` waits for the run's handle, and does nothing else until the end."""
        for hook in self._await_hooks:
            hook(task)
        for part in tuple(self._parts):
            part.awaited_by(task)

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
            except FAILURES as error:  # one stage's fault must not keep the others from stopping
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
        except (
            BaseException
        ) as error:  # whatever a subscriber raises, the stream ends with it instead of waiting for ever
            self.fail(error)
            if not isinstance(error, FAILURES):
                raise

    def in_context(self, callback: Callable[..., object], *arguments: object) -> None:
        """Calls what goes on through the stream where somebody outside of it has called: in the context of the run, not in theirs."""
        self.context.copy().run(callback, *arguments)  # a copy, since the run's own may be entered already

    def call_from_thread(self, callback: Callable[..., object], *arguments: object) -> bool:
        """Has ``callback`` called on the loop's thread; from whatever thread.

        It is called in the context of the run: a thread's own is another, or empty, and what is called then goes on down the stream.

        Returns:
            False if the loop is closed: then nobody waits for it any more.
        """
        try:
            self.loop.call_soon_threadsafe(callback, *arguments, context=self.context)
        except RuntimeError:
            return False
        return True

    def will_hand_over(self) -> None:
        """Says that a part of the run tells a failure to those who come to it, as well as the handle does: see `hand_over`."""
        self._hands_over = True

    def hand_over(self, error: BaseException) -> None:
        """Says that somebody has been told ``error`` otherwise than by the handle.

        If that is what the run fails with, it is not reported as lost where nobody awaits the handle. To be called when it has been told,
        and not before: a failure that nobody has come for is still reported.
        """
        self._handed_over = error
        self._count_as_seen()

    def _count_as_seen(self) -> None:
        """What was handed over need not be reported."""
        told, outcome = self._handed_over, self._outcome
        if told is not None and outcome is not None and self._failure is told:
            _ = outcome.exception()

    def report(self, message: str, error: BaseException) -> None:
        """Tells the loop's exception handler of a fault that has no subscriber left to go to."""
        self.loop.call_exception_handler({"message": message, "exception": error})

    async def _settle(self) -> None:
        """Ends the run: nothing may be started any more, and what was started is over when this returns."""
        self._ended = True
        self._cancel_hooks.clear()
        for part in tuple(self._parts):
            part.end()
        for task in tuple(self._tasks):
            self.interrupt(task)
        await self._wait_for(self._tasks, "tasks")
        if self._endings:
            await asyncio.wait(tuple(self._endings))  # each has its own deadlines
        while self._end_hooks:  # one may come while others are at work
            hooks, self._end_hooks = self._end_hooks, []
            endings: set[asyncio.Task[Any]] = {
                LastTask(self._end(hook), loop=self.loop, name=name) for hook, name in hooks
            }
            await self._wait_for(endings, "on_end callbacks")

    async def _end(self, hook: Callable[[], Awaitable[None] | None]) -> None:
        try:
            ending = hook()
            if ending is not None:
                await ending
        except Exception as error:  # noqa: BLE001 - the outcome of the stream stands; this fault goes to the loop's handler
            self.report("an on_end callback of a stream failed", error)

    async def _wait_for(self, tasks: Collection[asyncio.Task[Any]], what: str) -> None:
        """Waits for ``tasks`` (those, now: there may be fewer meanwhile), within STOP_TIMEOUT."""
        if not tasks:
            return
        _, late = await asyncio.wait(tuple(tasks), timeout=STOP_TIMEOUT)
        if late:
            for task in sorted(late, key=asyncio.Task.get_name):
                if isinstance(task, LastTask):
                    task.release()
            names = ", ".join(sorted(task.get_name() for task in late))
            self.report(f"{what} of a stream have not ended {STOP_TIMEOUT:g} s after it", TimeoutError(names))


class WithinRun(Materialization):
    """A run as something within it sees it: who leaves the run, and who is told its failure, is the affair of the whole."""

    __slots__ = ("_run",)

    def __init__(self, run: Materialization) -> None:
        super().__init__(run.loop, run.context)
        self._draining = run._draining
        self._run = run

    def left_at_work(self) -> None:
        """As the run's."""
        self._run.left_at_work()

    @property
    def left(self) -> bool:
        """As the run's."""
        return self._run.left

    def will_hand_over(self) -> None:
        """As the run's."""
        self._run.will_hand_over()

    def hand_over(self, error: BaseException) -> None:
        """As the run's."""
        self._run.hand_over(error)


class Part(WithinRun):
    """A part of a run, with tasks, hooks and an end of its own; it ends with its run at the latest. Made by `Materialization.part`."""

    __slots__ = ("_on_failure",)

    def __init__(self, run: Materialization, on_failure: Callable[[BaseException], None]) -> None:
        super().__init__(run)
        self._draining = Draining()  # nobody begins it: what a stage has begun for its elements goes on to its own end
        self._on_failure = on_failure

    def fail(self, error: BaseException) -> None:
        """Cancels the part, and tells whoever began it."""
        if not self._ended and not self._cancelled:
            self._failure = error
            self.cancel()
            self._on_failure(error)

    def _has_failed(self) -> bool:
        return super()._has_failed() or self._run._has_failed()

    async def left_by(self, sink: asyncio.Future[Any]) -> None:
        """As the run's, and waits for what cleans up here."""
        if under_way := self.clean_ups() - {asyncio.current_task()}:
            await asyncio.wait(under_way)
        await self._run.left_by(sink)

    def end(self) -> None:
        """Stops the part's tasks and starts its last work, for which the run waits; the second time does nothing."""
        run = self._run
        if self not in run._parts:
            return
        del run._parts[self]
        if self._tasks or self._end_hooks or self._parts or self._endings:
            task = LastTask(self._settle(), loop=self.loop, name="the end of a part of a stream")
            run._endings.add(task)
            task.add_done_callback(run._endings.discard)
        else:
            self._ended = True
            self._cancel_hooks.clear()
