"""The processes of one handler, while a consumer runs: each has one message in it at a time, or one batch.

`concurrent.futures.ProcessPoolExecutor` would do for handlers that never take their process with them. Where one does, that pool fails
everything under way in all of its processes, and one bad message would make its neighbours dead letters. Here each process has a pipe of
its own, so it is known what was in the one that ended. It is replaced when the next message comes.

All processes are fresh interpreters ("spawn"): a fork of a program with threads and an event loop may hang.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.resource_tracker
import os
import signal
import threading
import time
from itertools import count
from multiprocessing.connection import wait

from transport.consumer.by_name import WORKER_NAME, Call
from transport.consumer.carried import CarriedMessage, received_errors
from transport.consumer.failures import NoProcessError
from transport.consumer.worker import HELD_OFF, work
from transport.errors import HandlerProcessError

START_TIMEOUT = 300.0
"""Seconds in which a process must have imported the program: large libraries on a cold disk take minutes."""
EXIT_TIMEOUT = 5.0
"""Seconds in which a process with nothing to do must have ended once it is told, before it is killed."""
REAP_TIMEOUT = 5.0
"""Seconds that the system has to take away a process that is killed."""

_context = multiprocessing.get_context("spawn")
_starting = threading.Lock()
"""Signals are held off one start at a time."""


class _Worker:
    """One process, and the pipe to it."""

    def __init__(self, name: str, call: Call) -> None:
        self.connection, theirs = _context.Pipe()
        self._process = _context.Process(target=work, args=(theirs, call), name=name)
        self._pidfd: int | None = None
        try:
            with _starting, theirs:
                # It would unblock the signals, if it were started within `start`.
                multiprocessing.resource_tracker.ensure_running()
                # The process has them blocked from its first instruction, until it has said what it does about them.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD_OFF)
                try:
                    self._process.start()
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except BaseException:
            self.connection.close()
            raise
        # Tells the end of the process itself. Its pipes stay open for as long as a process that the handler has forked has them.
        with contextlib.suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(self._process.pid or 0)

    @property
    def _end(self) -> int:
        """What can be read when it is no more."""
        return self._process.sentinel if self._pidfd is None else self._pidfd

    def wait(self, timeout: float | None = None) -> None:
        """Returns when it has said something.

        Raises:
            EOFError: it is no more, and has said nothing.
            TimeoutError: neither in time.
        """
        ready = wait([self.connection, self._end], timeout)
        if not ready:
            raise TimeoutError
        if self.connection not in ready:
            raise EOFError

    def kill(self) -> None:
        with contextlib.suppress(ValueError):  # it is seen to its end by another thread
            self._process.kill()

    def no_more(self) -> None:
        """It ends when it has nothing in it."""
        self.connection.close()

    def gone(self, timeout: float) -> str:
        """Waits so long for its end, kills it where it has not come, and says how it has ended."""
        killed = not wait([self._end], timeout)
        if killed:
            self._process.kill()
            wait([self._end], REAP_TIMEOUT)
        code = self._process.exitcode
        self.connection.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        if code is not None:
            self._process.close()
        if killed or code is None:
            return "no more answered"
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        why = ": where nobody did that, the system was short of memory" if -code == signal.SIGKILL else ""
        return f"was killed by {name}{why}"


class Pool:
    """Processes of a handler, started as they are needed; `call` is for as many threads at a time as there may be processes.

    Args:
        name: of the handler.
        call: what they do.
    """

    def __init__(self, name: str, call: Call) -> None:
        self._name = name
        self._call = call
        self._lock = threading.Lock()
        self._left = threading.Condition(self._lock)
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._numbers = count(1)
        self._ended = False

    def open(self) -> None:
        """Starts the first process, so that a program that cannot be started so is known of before there is a message.

        Raises:
            NoProcessError: it cannot.
        """
        self._free(self._start())

    def call(self, messages: list[CarriedMessage]) -> dict[int, Exception]:
        """Has a process call the handler; returns what messages have failed with, by their places. Blocks.

        Raises:
            HandlerProcessError: the process has ended meanwhile, or could not be started.
        """
        worker = self._given(messages)
        try:
            worker.wait()
            failed = received_errors(worker.connection)
        except (EOFError, OSError):
            raise self._failed(worker) from None
        self._free(worker)
        return failed

    def end(self) -> None:
        """Kills what is in a call, and tells the others to end. `gone` waits for them."""
        with self._lock:
            self._ended = True
            for worker in self._workers:
                if worker in self._idle:
                    worker.no_more()
                else:
                    worker.kill()

    def gone(self) -> None:
        """Returns when no process is left. Blocks, for a bounded time."""
        with self._lock:
            idle, self._idle = self._idle, []
        until = time.monotonic() + EXIT_TIMEOUT
        for worker in idle:
            self._removed(worker, max(0.0, until - time.monotonic()))
        with self._lock:  # of the others, those who have called them see to their end
            self._left.wait_for(lambda: not self._workers, REAP_TIMEOUT)

    # Inside

    def _given(self, messages: list[CarriedMessage]) -> _Worker:
        """A process that has got them, and said so."""
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle and not self._ended else None
            fresh = worker is None
            worker = worker or self._start()
            try:
                worker.connection.send(messages)
                worker.wait()
                worker.connection.recv()
                return worker
            except (EOFError, OSError):
                if fresh:  # most likely they have to do with it: they need more memory than there is
                    raise self._failed(worker) from None
            # It has ended with nothing in it, and no message has to do with that.
            self._removed(worker)

    def _failed(self, worker: _Worker) -> HandlerProcessError:
        """It has ended with messages in it."""
        how = self._removed(worker)
        if self._ended:
            return NoProcessError(f"{self._name}: the call was given up")
        return HandlerProcessError(f"{self._name}: the process with the message in it {how}")

    def _start(self) -> _Worker:
        name = f"{WORKER_NAME} {self._name}-{next(self._numbers)}"
        try:
            with self._lock:
                if self._ended:
                    raise NoProcessError(f"{self._name}: the call was given up")
                worker = _Worker(name, self._call)
                self._workers.add(worker)
        except HandlerProcessError:
            raise
        except Exception as error:
            raise self._none(f"cannot be started: {type(error).__name__}: {error}") from error
        try:
            worker.wait(START_TIMEOUT)
            worker.connection.recv()
        except TimeoutError:
            worker.kill()
            self._removed(worker)
            raise self._none(f"was not ready in {START_TIMEOUT:g} s") from None
        except (EOFError, OSError):
            how = self._removed(worker)
            raise self._none(
                f"{how} before it was ready, and has printed why. It imports the program, so what starts that belongs under "
                'if __name__ == "__main__":'
            ) from None
        return worker

    def _none(self, why: str) -> HandlerProcessError:
        if self._ended:
            return NoProcessError(f"{self._name}: the call was given up")
        return NoProcessError(f"{self._name}: a process for it {why}")

    def _free(self, worker: _Worker) -> None:
        """It has nothing in it."""
        with self._lock:
            if not self._ended:
                self._idle.append(worker)
                return
        worker.kill()
        self._removed(worker)

    def _removed(self, worker: _Worker, timeout: float = REAP_TIMEOUT) -> str:
        """Sees it to its end, and says how that was."""
        how = worker.gone(timeout)
        with self._lock:
            self._workers.discard(worker)
            self._left.notify_all()
        return how
