"""An event loop whose clock jumps: what waits for a timer is tested at once, and exactly.

When nothing is ready, the clock moves to the next timer instead of the process waiting for it. When there is no timer either, nothing
can ever happen again, and the loop says so and names what waits.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar

from streams.errors import StreamError

T = TypeVar("T")

CLOCK_RESOLUTION: Final = 1e-7
"""Virtual seconds within which two times are the same."""


class DeadlockError(StreamError):
    """Nothing is ready, no timer is set and no input comes: everything waits, for ever."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose ``time()`` starts at 0 and moves only from timer to timer.

    Sockets and threads work, but take no virtual time: with a timer set, the clock does not wait for them.

    Args:
        io_grace: real seconds to wait for a socket or a thread before it is called a deadlock.
    """

    def __init__(self, io_grace: float = 1.0) -> None:
        self._clock = _Clock(io_grace)
        super().__init__(self._clock)
        self._clock.loop = self
        # The loop fires timers up to this much early. It must be more than a float's rounding, also years from 0, or a timer could be
        # neither due nor ahead.
        self._clock_resolution = CLOCK_RESOLUTION

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._clock.now

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109 - the base class's signature
        """Waits for the executor's threads in real time."""
        self._clock.real = True
        try:
            await super().shutdown_default_executor()
        finally:
            self._clock.real = False


class _Clock(selectors.BaseSelector):
    """A selector that moves the clock where the real one would wait.

    Attributes:
        now: virtual seconds.
        real: wait in real time instead.
        loop: whose tasks are named when they all wait.
    """

    def __init__(self, io_grace: float) -> None:
        self.now = 0.0
        self.real = False
        self.loop: asyncio.AbstractEventLoop | None = None
        self._io_grace = io_grace
        self._selector = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Input that is there; else moves the clock by ``timeout``; else waits for input a little, and gives up."""
        if self.real:
            return self._selector.select(timeout)
        ready = self._selector.select(0)
        if ready:
            return ready
        if timeout is not None:
            self.now += max(0.0, timeout)
            return ready
        ready = self._selector.select(self._io_grace)
        if not ready:
            raise DeadlockError(self._describe())
        return ready

    def _describe(self) -> str:
        waiting = [] if self.loop is None else [task for task in asyncio.all_tasks(self.loop) if not task.done()]
        names = ", ".join(sorted(f"{task.get_name()} ({_place(task)})" for task in waiting))
        return f"at virtual time {self.now:g} nothing is ready and no timer is set; waiting: {names or 'no task'}"

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """As the real selector."""
        return self._selector.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """As the real selector."""
        return self._selector.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """As the real selector."""
        return self._selector.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """As the real selector."""
        return self._selector.get_map()

    def close(self) -> None:
        """As the real selector."""
        self._selector.close()


def _place(task: asyncio.Task[Any]) -> str:
    frames = task.get_stack(limit=1)
    if not frames:
        return "not started"
    code = frames[-1].f_code
    return f"{code.co_qualname}:{frames[-1].f_lineno}"


def run_in_virtual_time(coro: Coroutine[Any, Any, T], io_grace: float = 1.0) -> T:
    """Runs ``coro`` to its end on a `VirtualTimeLoop`, as ``asyncio.run`` does on an ordinary one.

    Raises:
        DeadlockError: everything waits for something that cannot come.
    """
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(io_grace)) as runner:
        return runner.run(coro)


async def elapse(seconds: float) -> None:
    """Lets ``seconds`` of virtual time pass; a test that would really wait is refused.

    Raises:
        RuntimeError: the running loop is not a `VirtualTimeLoop`.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualTimeLoop):
        raise RuntimeError("elapse() passes virtual time only; run the test with run_in_virtual_time()")
    await pass_time(loop, seconds)


def _passed(future: asyncio.Future[None]) -> None:
    if not future.done():  # whoever waits may have been cancelled in this very turn of the loop
        future.set_result(None)


async def pass_time(loop: asyncio.AbstractEventLoop, seconds: float) -> None:
    """Waits until ``seconds`` of the loop's time have passed; on an ordinary loop that is real time."""
    passed: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, _passed, passed)
    try:
        await passed
    finally:
        timer.cancel()
