"""Blocking reads and writes beside an event loop, abandonable.

A pipe may block for ever in either direction. asyncio's own executor waits for its threads when the process ends, so a read of
stdin that never returns would hold the process; these threads are daemons and are simply left behind.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

PIPE_ATOMIC_BYTES = 4096
"""POSIX's PIPE_BUF on Linux: what a pipe that polls writable takes without blocking."""


class BlockingWorker:
    """A daemon thread that makes one blocking call at a time for the running loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def call(self, function: Callable[[], T]) -> T:
        """``function()`` in the thread. When the caller is cancelled the call goes on and its outcome is dropped."""
        future: asyncio.Future[T] = self._loop.create_future()

        def execute() -> None:
            try:
                result = function()
            except Exception as error:  # noqa: BLE001 - whatever it is belongs to the caller
                self._tell(future.set_exception, future, error)
            else:
                self._tell(future.set_result, future, result)

        self._calls.put(execute)
        return await future

    def post(self, action: Callable[[], None]) -> None:
        """Run ``action``, which must not raise, after the calls made before; nobody waits for it."""
        self._calls.put(action)

    def close(self) -> None:
        """Let the thread end once its present call returns."""
        self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

    def _tell(self, settle: Callable[[Any], None], future: asyncio.Future[T], outcome: object) -> None:
        try:
            self._loop.call_soon_threadsafe(_settle, settle, future, outcome)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            self._calls.put(None)


class Output:
    """Writes to a file descriptor, in order, wholly; the loop goes on while the other side does not read.

    Attributes:
        fd: the descriptor.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        mode = os.fstat(fd).st_mode
        self._is_file = stat.S_ISREG(mode)
        self._is_pipe = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._worker: BlockingWorker | None = None
        self._watcher: BlockingWorker | None = None

    async def write(self, data: bytes) -> None:
        """Write all of ``data``; when this returns the operating system has it.

        Raises:
            BrokenPipeError: the reader is gone.
        """
        if self._takes_at_once(len(data)):
            _write_all(self.fd, data)
            return
        if self._worker is None:
            self._worker = BlockingWorker("penstock-output")
        await self._worker.call(lambda: _write_all(self.fd, data))

    async def reader_gone(self) -> None:
        """Return when the reader of a pipe has closed it; wait for ever on anything else."""
        if not self._is_pipe:
            await asyncio.get_running_loop().create_future()
        self._watcher = BlockingWorker("penstock-output-watch")
        poll = select.poll()
        # No event asked for: what remains are errors and hang-ups, which always report.
        poll.register(self.fd, 0)
        await self._watcher.call(poll.poll)

    def close(self) -> None:
        """Let the threads end; the descriptor stays open."""
        for worker in (self._worker, self._watcher):
            if worker is not None:
                worker.close()

    def _takes_at_once(self, size: int) -> bool:
        if self._is_file:
            return True
        return self._is_pipe and size <= PIPE_ATOMIC_BYTES and self._poll.poll(0) == [(self.fd, select.POLLOUT)]


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _settle(settle: Callable[[T], None], future: asyncio.Future[Any], outcome: T) -> None:
    if not future.done():
        settle(outcome)
