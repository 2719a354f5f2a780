"""Processes on one virtual clock: what runs in a process belongs to it, and a crash ends all of it at once.

Everything that a process schedules carries its context, as a task, a callback or a timer; so a process that is killed leaves nothing
behind that could still run, close in good order or say goodbye. That is what makes a crash a crash.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from actors import LoopActorRegistry
from streams import running
from streams.testkit import VirtualTimeLoop

if TYPE_CHECKING:
    from tests.simulation.network import Network

MOST_TURNS = 1_000_000
"""Turns of the loop in one run: some twenty times what the longest take. What turns longer turns for ever."""

T = TypeVar("T")

PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("PROCESS", default=None)
"""Whose code is running; None for the simulation itself."""


class EndlessRunError(Exception):
    """Something is ready in every turn, and nothing comes of it."""


class Process:
    """One life of a client or of the broker.

    Attributes:
        name: who it is; the next life has the same.
        alive: whether its code may still run.
        context: what its callbacks run in.
        tasks: its tasks that have not ended.
    """

    def __init__(self, name: str, loop: SimulatedLoop) -> None:
        self.name = name
        self.alive = True
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._loop = loop
        self.context = contextvars.copy_context()
        self.context.run(PROCESS.set, self)

    def __repr__(self) -> str:
        return f"Process({self.name!r}{'' if self.alive else ', dead'})"

    def spawn(self, coro: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as this process."""
        return self._loop.create_task(coro, name=self.name, context=self.context.copy())

    def call(self, callback: Callable[..., T], *arguments: Any) -> T:
        """Call a function as this process, from the simulation's own code."""
        return self.context.copy().run(callback, *arguments)


class SimulatedLoop(VirtualTimeLoop):
    """A loop whose clock jumps, whose network is simulated, and whose work can be killed process by process.

    Attributes:
        network: what ``create_server`` and ``create_connection`` use.
        reports: what was said to the loop's exception handler: each is a defect.
    """

    network: Network

    def __init__(self) -> None:
        super().__init__(io_grace=0.0)
        self.reports: list[str] = []
        self._turns = 0
        self.set_exception_handler(self._note_report)

    def process(self, name: str) -> Process:
        """A new life of ``name``."""
        return Process(name, self)

    def kill(self, process: Process) -> None:
        """End a process between two of its instructions: no callback, task or actor of its runs again."""
        process.alive = False
        for handle in [*self._ready, *self._scheduled]:  # type: ignore[attr-defined]  # there is no public way to what is scheduled
            if not handle.cancelled() and handle._context.get(PROCESS) is process:
                handle.cancel()
        for task in list(process.tasks):
            # It is dropped as it stands, on purpose: cancelling would let it say goodbye.
            _abandon(task)
        for ref in LoopActorRegistry.get_all(self):
            context = ref.actor_inbox.context
            if context is not None and context.get(PROCESS) is process:
                ref.actor_inbox.abandon()

    def abandon_tasks(self) -> None:
        """Drop every task as it stands; before the loop is closed."""
        for task in asyncio.all_tasks(self):
            _abandon(task)

    def timers(self) -> int:
        """Timers that are still to come."""
        return sum(not handle.cancelled() for handle in self._scheduled)  # type: ignore[attr-defined]

    # asyncio's loop

    def _run_once(self) -> None:
        self._turns += 1
        if self._turns > MOST_TURNS:
            self._turns = 0
            raise EndlessRunError(
                f"{MOST_TURNS} turns of the loop, and virtual time is {self.time():.6f}; next: {self._ready}"
            )  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]  # the one place where every turn begins

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's; a dead process's callbacks are dropped, and so are those of what is collected after the run."""
        if self.is_closed():
            handle = asyncio.Handle(callback, args, self)
            handle.cancel()
            return handle
        handle = super().call_soon(callback, *args, context=context)
        return self._unless_dead(handle, context)

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """The same: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's; a dead process's timers are dropped."""
        handle = super().call_at(when, callback, *args, context=context)
        self._unless_dead(handle, context)
        return handle

    def create_task(self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None) -> Any:
        """As asyncio's; the task belongs to the process in whose context it runs."""
        task = super().create_task(coro, name=name, context=context)
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is not None:
            process.tasks[task] = None
            task.add_done_callback(lambda done: process.tasks.pop(done, None))
        return task

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_options: Any) -> Any:
        """Listen on the simulated network."""
        return self.network.listen(PROCESS.get(), protocol_factory, host, port)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_options: Any
    ) -> Any:
        """Connect over the simulated network."""
        return await self.network.connect(PROCESS.get(), protocol_factory, port)

    def _unless_dead(self, handle: asyncio.Handle, context: contextvars.Context | None) -> asyncio.Handle:
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is not None and not process.alive:
            handle.cancel()
        return handle

    def _note_report(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.reports.append(
            f"{context.get('message')}: {error!r}" if error is not None else str(context.get("message"))
        )


def _abandon(task: asyncio.Task[Any]) -> None:
    coro = task.get_coro()
    if inspect.iscoroutine(coro) and inspect.getcoroutinestate(coro) == inspect.CORO_CREATED:
        coro.close()  # nothing of it has run, so nothing of it can say goodbye
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    running._supervisors.discard(task)
