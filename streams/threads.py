"""A few threads of a stage's own, for what would block the loop.

They are started as they are needed, and are daemons. So a call that never returns is left behind at the end of the run, and does not keep
the process. The threads of `concurrent.futures` would: the interpreter waits for those when it exits.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any

Done = Callable[[Any, BaseException | None], None]
"""Called on the loop's thread with what a call has returned and None, or with None and what it has raised."""
_Job = tuple[Context, Callable[[Any], Any], Any, Done]


class Threads:
    """Up to ``limit`` threads that call functions and tell the loop how that went. All methods are for the loop's thread.

    Args:
        loop: the loop that is told.
        limit: threads, at most; calls beyond that wait for one.
        name: what the threads are called, with a number behind it.
    """

    __slots__ = (
        "_calls",
        "_context",
        "_exited",
        "_jobs",
        "_last",
        "_limit",
        "_loop",
        "_name",
        "_running",
        "_stopped",
        "_threads",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, name: str) -> None:
        self._loop = loop
        self._limit = limit
        self._name = name
        self._context = copy_context()
        """What the loop is told is told in: a thread's own context is empty, and what is called then goes on down the stream."""
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._last: list[tuple[Context, Callable[[Any], Any]]] = []
        self._calls = 0
        self._threads: list[threading.Thread] = []
        self._running = 0
        self._stopped = False
        self._exited: asyncio.Future[None] | None = None

    def call(self, f: Callable[[Any], Any], argument: Any, done: Done) -> None:
        """Has a thread call ``f(argument)``, with the context variables of here and now.

        Raises:
            RuntimeError: the system gives no thread, and there is none.
        """
        if self._calls >= self._running and self._running < self._limit:
            self._start_thread()
        self._calls += 1
        self._jobs.put((copy_context(), f, argument, done))

    def last(self, f: Callable[[Any], Any]) -> None:
        """Has one thread call ``f`` with None as its last work, and ends the threads; nobody is told how that went."""
        if not self._stopped:
            if self._running:
                self._last.append((copy_context(), f))
            self.stop()

    def stop(self) -> None:
        """Ends the threads: those in a call when that returns, and nobody is told of it."""
        if not self._stopped:
            self._stopped = True
            for _ in range(self._running):
                self._jobs.put(None)

    async def ended(self) -> None:
        """Returns when the threads are gone, which `stop` has told them."""
        self.stop()
        if self._running:
            self._exited = self._loop.create_future()
            await self._exited
        for thread in self._threads:
            thread.join()  # it has said that it is at its end

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._run, name=f"{self._name}-{len(self._threads) + 1}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more to give: those that there are do the work
            if not self._running:
                raise
            return
        # Counted once it is there: one that is not would be waited for at the end.
        self._running += 1
        self._threads.append(thread)

    def _run(self) -> None:
        """A thread's work."""
        while (job := self._jobs.get()) is not None and not self._stopped:
            context, f, argument, done = job
            result: Any = None
            failure: BaseException | None = None
            try:
                result = context.run(f, argument)
            except BaseException as error:  # noqa: BLE001 - whatever the call raises, sys.exit() too, is its outcome
                failure = error
            self._tell(self._called, done, result, failure)
            # A thread that waits must not keep what it last worked on.
            del job, context, f, argument, done, result, failure
        while self._last:
            last_context, last = self._last.pop()
            with contextlib.suppress(Exception):
                last_context.run(last, None)
        self._tell(self._thread_over)

    def _tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            self._loop.call_soon_threadsafe(callback, *arguments, context=self._context)

    def _called(self, done: Done, result: Any, error: BaseException | None) -> None:
        self._calls -= 1
        if not self._stopped:
            done(result, error)

    def _thread_over(self) -> None:
        self._running -= 1
        if not self._running and self._exited is not None and not self._exited.done():
            self._exited.set_result(None)
