"""Processes on one virtual clock: what runs in a process belongs to it, and a crash ends all of it at once.

Everything that a process schedules carries its context, as a task, a callback or a timer; so a process that is killed leaves nothing
behind that could still run, close in good order or say goodbye. That is what makes a crash a crash.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import socket
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Hashable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from actors import LoopActorRegistry
from streams.testkit import DeadlockError, VirtualTimeLoop
from tests.simulation.abandoned import abandon, close
from tests.simulation.handles import PROCESS, Outside, Step, Timer, failed

if TYPE_CHECKING:
    from tests.simulation.network import Network
    from tests.simulation.schedule import Schedule

MOST_TURNS = 1_000_000
"""Turns of the loop in one run: some twenty times what the longest take. What turns longer turns for ever."""

FEW_FUTURES = 1_000
"""So many, and those that are gone are looked for."""

T = TypeVar("T")


class EndlessRunError(Exception):
    """Something is ready in every turn, and nothing comes of it."""


class Process:
    """One life of a client or of the broker.

    Attributes:
        name: who it is; the next life has the same.
        alive: whether its code may still run.
        context: what its callbacks run in.
        frozen: whether it is stopped, as by SIGSTOP.
        jobs: what it has had done on threads, and is not done yet.
        tasks: its tasks that have not ended.
    """

    def __init__(self, name: str, loop: SimulatedLoop) -> None:
        self.name = name
        self.alive = True
        self.frozen = False
        self.jobs: dict[Callable[[], object], None] = {}
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._futures: list[weakref.ref[asyncio.Future[Any]]] = []
        self._many = FEW_FUTURES
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

    def waits_for(self, future: asyncio.Future[Any]) -> None:
        """A task of its, or something else that it may wait for."""
        self._futures.append(weakref.ref(future))
        if len(self._futures) > self._many:
            self._futures = [each for each in self._futures if each() is not None]
            self._many = FEW_FUTURES + 2 * len(self._futures)

    def futures(self) -> list[asyncio.Future[Any]]:
        """All of these that there still are."""
        return [future for each in self._futures if (future := each()) is not None]


class SimulatedLoop(VirtualTimeLoop):
    """A loop whose clock jumps, whose network is simulated, and whose work can be killed process by process.

    There is no input but the simulated. A turn is the clock's next step and what is ready then, in the schedule's order.

    Args:
        schedule: the order of what nobody orders; None for first in, first out.
        threads: how long what is done on a thread takes; None for real threads.

    Attributes:
        network: what ``create_server`` and ``create_connection`` use.
        reports: what was said to the loop's exception handler: each is a defect.
    """

    network: Network
    _ready: deque[Step | Timer]

    def __init__(self, schedule: Schedule | None = None, threads: Callable[[], float] | None = None) -> None:
        super().__init__(io_grace=0.0)
        self._threads = threads
        self._frozen: dict[Process | None, list[tuple[Hashable, Step | Timer]]] = {}
        self.reports: list[str] = []
        self._schedule = schedule
        self._turns = 0
        # Timers, and what is under way from outside, by when they come; what has arrived or is due, with its lane; what pauses.
        self._timers: list[tuple[float, Timer]] = []
        self._outside: list[tuple[float, int, Outside]] = []
        self._launched = 0
        self._events: list[tuple[Hashable, Step | Timer]] = []
        self._paused: list[Step | Timer] = []
        self._owned: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self._killed: list[asyncio.Task[Any]] = []
        self.set_exception_handler(self._note_report)

    def process(self, name: str) -> Process:
        """A new life of ``name``."""
        return Process(name, self)

    def kill(self, process: Process) -> None:
        """End a process between two of its instructions: no callback, task or actor of its runs again."""
        process.alive = False
        self.thaw(process)
        for handle in self._pending():
            if handle.process is process:
                handle.cancel()
        for task in list(process.tasks):
            # It is left as it stands, on purpose: cancelling would let it say goodbye. So would dropping it, for what is dropped is closed,
            # in the midst of whoever lets it go.
            abandon(task)
            self._killed.append(task)
        for future in process.futures():
            if future.done() and not future.cancelled():
                # It has failed in this instant, and nobody comes to look at it.
                future.exception()
        for ref in LoopActorRegistry.get_all(self):
            context = ref.actor_inbox.context
            if context is not None and context.get(PROCESS) is process:
                ref.actor_inbox.abandon()

    def freeze(self, process: Process) -> None:
        """Stop a process, as by SIGSTOP: time passes it by, and what comes for it waits."""
        process.frozen = True
        self._frozen.setdefault(process, [])

    def thaw(self, process: Process) -> None:
        """Have it go on; all that has waited is ready."""
        process.frozen = False
        for lane, handle in self._frozen.pop(process, ()):
            if lane is None:
                self._ready.append(handle)
            else:
                self._events.append((lane, handle))

    def abandon_tasks(self) -> None:
        """Drop every task as it stands, those of killed processes too; before the loop is closed.

        Each is closed here: what still holds one may outlive the loop, and it would say goodbye wherever that is let go of, without a loop.
        """
        left = sorted(asyncio.all_tasks(self), key=asyncio.Task.get_name)
        for task in left:
            abandon(task)
        killed, self._killed = self._killed, []
        for task in (*killed, *left):
            close(task)

    def timers(self) -> int:
        """Timers that are still to come, and what is still under way."""
        return sum(isinstance(handle, asyncio.TimerHandle) and not handle.cancelled() for handle in self._pending())

    # From outside

    def arrive_at(
        self, when: float, lane: Hashable, callback: Callable[[], object], context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Have something come from outside at a time, or sooner if the schedule says so, behind earlier ones of its lane."""
        handle = Outside(lane, when, callback, self, context)
        self._launched += 1
        heapq.heappush(self._outside, (when, self._launched, handle))
        return handle

    def socket_ready(
        self, socket: Hashable, callback: Callable[[], object], context: contextvars.Context | None = None
    ) -> None:
        """A socket can be read or written: this comes in a coming turn, in no order with what ``call_soon`` was given."""
        self._events.append((socket, Step(callback, (), self, context)))

    # asyncio's loop

    def _run_once(self) -> None:
        self._turns += 1
        if self._turns > MOST_TURNS:
            self._turns = 0
            raise EndlessRunError(
                f"{MOST_TURNS} turns of the loop, and virtual time is {self.time():.6f}; next: {self._ready}"
            )
        self._begin_turn()
        ready = self._ready
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            try:
                handle._context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as asyncio's handles
                failed(handle, error)

    def _begin_turn(self) -> None:
        """Have ready, in order, what is to run in this turn."""
        ready, events, schedule = self._ready, self._events, self._schedule
        if self._paused:
            ready.extendleft(reversed(self._paused))
            self._paused = []
        if not ready and not events and not self._stopping:  # type: ignore[attr-defined]
            self._pass_time()
        self._take_due()
        if self._frozen:
            self._set_aside()
        if schedule is not None and self._outside and (stall := schedule.stall()) is not None:
            until = max(self._outside[0][0], self._clock.now + stall)
            while self._outside and self._outside[0][0] <= until:
                self._take_outside()
            if self._frozen:
                self._set_aside()
        if schedule is not None and len(ready) + len(events) > 1:
            self._mix(schedule)
        elif events:
            ready.extend([handle for _, handle in events])
            events.clear()

    def _set_aside(self) -> None:
        """What is ready of those that are frozen waits."""
        ready: list[Step | Timer] = []
        for handle in self._ready:
            held = self._frozen.get(handle.process)
            if held is None:
                ready.append(handle)
            else:
                held.append((None, handle))
        self._ready.clear()
        self._ready.extend(ready)
        events: list[tuple[Hashable, Step | Timer]] = []
        for lane, handle in self._events:
            held = self._frozen.get(handle.process)
            (events if held is None else held).append((lane, handle))
        self._events[:] = events

    def _mix(self, schedule: Schedule) -> None:
        """Have some wait and mix the others: only a program's ``call_soon``, and what shares a lane, stay in their order."""
        pauses = schedule.pauses
        pausing: dict[Process | None, bool] = {None: False}
        mixed: list[tuple[Hashable, Step | Timer]] = []
        events: list[tuple[Hashable, Step | Timer]] = []
        for handle in self._ready:
            process = handle.process
            if process not in pausing:
                pausing[process] = pauses()
            if pausing[process]:
                self._paused.append(handle)
            else:
                mixed.append((process, handle))
        late: dict[Hashable, bool] = {}
        for event in self._events:
            lane, handle = event
            process = handle.process
            if process not in pausing:
                pausing[process] = pauses()
            if lane not in late:
                late[lane] = pauses()
            (events if pausing[process] or late[lane] else mixed).append(event)
        self._events = events
        self._ready = deque(schedule.interleave(mixed))

    def _pass_time(self) -> None:
        """Go on to what comes next, for nothing is left to be done now."""
        timers, outside, clock = self._timers, self._outside, self._clock
        while timers and timers[0][1]._cancelled:
            heapq.heappop(timers)
        while outside and outside[0][2]._cancelled:
            heapq.heappop(outside)
        if timers:
            following = timers[0][0]
            if outside and outside[0][0] < following:
                following = outside[0][0]
        elif outside:
            following = outside[0][0]
        else:
            raise DeadlockError(clock._describe())
        if following > clock.now:
            clock.now = following

    def _take_due(self) -> None:
        """Timers whose time has come, and what arrives now; each of these on its own but for lanes."""
        end = self._clock.now + self._clock_resolution
        timers, outside = self._timers, self._outside
        while timers and timers[0][0] < end:
            _, timer = heapq.heappop(timers)
            if not timer._cancelled:
                self._events.append((timer, timer))
        while outside and outside[0][0] < end:
            self._take_outside()

    def _take_outside(self) -> None:
        _, _, handle = heapq.heappop(self._outside)
        if not handle._cancelled:
            self._events.append((handle if handle.lane is None else handle.lane, handle))

    def _pending(self) -> Iterator[Step | Timer]:
        """All that is to run at some time."""
        yield from list(self._ready)
        yield from self._paused
        yield from [handle for _, handle in self._events]
        yield from [handle for held in self._frozen.values() for _, handle in held]
        yield from [timer for _, timer in self._timers]
        yield from [handle for _, _, handle in self._outside]

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's; a dead process's callbacks are dropped, and so are those of what is collected after the run."""
        handle = Step(callback, args, self, context)
        if self._closed:  # type: ignore[attr-defined]
            handle.cancel()
            return handle
        task = getattr(callback, "__self__", None)
        if isinstance(task, asyncio.Task) and handle.process is not None and task not in handle.process.tasks:
            # A step of it, the first one too: not every task comes from `create_task`.
            self._belongs(task, handle.process)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """The same: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        """As asyncio's; whose it is, is known."""
        future = super().create_future()
        process = PROCESS.get()
        if process is not None:
            process.waits_for(future)
        return future

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """As asyncio's; a dead process's timers are dropped."""
        self._check_closed()  # type: ignore[attr-defined]
        timer = Timer(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, timer))
        return timer

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """The same, so long from now."""
        return self.call_at(self._clock.now + delay, callback, *args, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """On a thread: it is done after a while, and its process is told a while later."""
        threads = self._threads
        if threads is None:
            return super().run_in_executor(executor, func, *args)
        answer: asyncio.Future[T] = self.create_future()
        process = PROCESS.get()

        def work() -> None:
            if process is not None:
                del process.jobs[work]
            result: list[T] = []
            failed: Exception | None = None
            try:
                result.append(func(*args))
            except Exception as error:  # noqa: BLE001 - whoever waits is told
                failed = error

            def tell() -> None:
                if answer.cancelled():
                    return
                if failed is not None:
                    answer.set_exception(failed)
                else:
                    answer.set_result(result[0])

            self.arrive_at(self.time() + threads(), None, tell)

        if process is not None:
            process.jobs[work] = None
        self.arrive_at(self.time() + threads(), None, work)
        return answer

    async def getaddrinfo(self, host: Any, port: Any, **_options: Any) -> Any:
        """A name stands for itself, and the network knows places by their ports."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_options: Any) -> Any:
        """Listen on the simulated network."""
        return self.network.listen(PROCESS.get(), protocol_factory, host, port)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **_options: Any
    ) -> Any:
        """Connect over the simulated network."""
        return await self.network.connect(PROCESS.get(), protocol_factory, port)

    def _belongs(self, task: asyncio.Task[Any], process: Process) -> None:
        """A task belongs to the process in whose context its first step runs, whoever asks something of it later."""
        if task not in self._owned and not task.done():
            self._owned.add(task)
            process.tasks[task] = None
            process.waits_for(task)
            task.add_done_callback(lambda done: process.tasks.pop(done, None))

    def _note_report(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.reports.append(
            f"{context.get('message')}: {error!r}" if error is not None else str(context.get("message"))
        )
