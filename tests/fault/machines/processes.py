"""A process of a machine: known by its descriptor, never by its name; what it prints is heard line by line."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.fault.machines import namespaces
from tests.standing_still import wait_until_still

FIRST_LINES: Final = 50
"""Lines of each process that are kept from its start."""
TAIL_LINES: Final = 200
"""Of what it printed that are kept."""
TOLD_LINES: Final = 20
"""Of them that an error has."""
READ_BYTES: Final = 64 * 1024
START_SECONDS: Final = 30.0
"""In which a process is ready: far more than any takes here, on a machine with much else to do."""
STOP_SECONDS: Final = 20.0
"""In which one ends that is told to stop."""

Heard = Callable[[str], None]
"""Told of each line, in the thread that reads."""
Ended = Callable[[], None]
"""Told of the end, in that thread."""


class ProcessError(Exception):
    """A process ended, or did not do in time what it was to do; the text has the end of what it printed."""


class Process:
    """A running process.

    Args:
        name: how errors call it.
        popen: it, with its standard output as a pipe that its standard error goes to as well.
        heard: told of each line.
        ended: told once that it has ended, and that all has been heard.
        log: where its lines are kept whole.

    Attributes:
        name: how errors call it.
        pid: its id.
        code: how it ended; None while it lives.
    """

    def __init__(
        self,
        name: str,
        popen: subprocess.Popen[bytes],
        log: Path,
        heard: Heard | None = None,
        ended: Ended | None = None,
    ) -> None:
        self.name = name
        self.pid = popen.pid
        self.code: int | None = None
        self._popen = popen
        self._heard = heard
        self._ended = ended
        self._changed = threading.Condition()
        self._lines: deque[str] = deque(maxlen=TAIL_LINES)
        # Who waits for what it says at its start may come late, and it may say thousands of lines a second by then.
        self._first: list[str] = []
        self._over = False
        self._descriptor = os.pidfd_open(popen.pid)
        self._reader = threading.Thread(target=self._read, args=(log,), name=f"reads {name}", daemon=True)
        self._reader.start()

    def wait_line(self, pattern: str, seconds: float = START_SECONDS) -> re.Match[str]:
        """The first kept line that ``pattern`` is found in, waited for if need be."""
        sought = re.compile(pattern)

        def found() -> re.Match[str] | None:
            return next((match for line in (*self._first, *self._lines) if (match := sought.search(line))), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._over, seconds)
            if (match := found()) is not None:
                return match
        raise self.failed("ended" if self.code is not None else f"did not say {pattern!r} within {seconds:.0f} s")

    def wait_until(self, what: str, done: Callable[[], bool], seconds: float) -> None:
        """Wait until ``done``, which is asked whenever a line has been heard; ``what`` is for the error."""
        with self._changed:
            self._changed.wait_for(lambda: done() or self._over, seconds)
            if done():
                return
        raise self.failed(f"ended with {self.code}" if self._over else f"has not {what} within {seconds:.0f} s")

    def wait_end(self, seconds: float = STOP_SECONDS) -> int:
        """How it ended, waited for. What it printed has been heard by then."""
        with self._changed:
            self._changed.wait_for(lambda: self._over, seconds)
            if self.code is None:
                raise self.failed(f"has not ended within {seconds:.0f} s")
            return self.code

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing where it is gone."""
        with self._changed, suppress(ProcessLookupError):
            if self._descriptor >= 0:
                signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        """SIGKILL; returns when it is gone.

        Raises:
            ProcessError: it had ended by itself before.
        """
        self.signal(signal.SIGKILL)
        if self.wait_end() != -signal.SIGKILL:
            raise self.failed(f"had ended by itself, with {self.code}, before it was killed")

    def pause(self) -> None:
        """SIGSTOP; returns when all its threads stand still."""
        self.signal(signal.SIGSTOP)
        wait_until_still(self.pid)

    def resume(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def pause_for(self, seconds: float) -> None:
        """`pause`, and `resume` after so long, or as soon as it is gone."""
        self.pause()
        with self._changed:
            self._changed.wait_for(lambda: self._over, seconds)
        self.resume()

    def memory(self) -> int:
        """Bytes of memory that it has at present (RSS)."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """SIGTERM; returns when it has ended in good order.

        Raises:
            ProcessError: it did not, or not in time.
        """
        self.signal(signal.SIGTERM)
        if self.wait_end(seconds) != 0:
            raise self.failed(f"ended with {self.code} when told to stop")

    def join(self) -> None:
        """Wait until nothing of it is left: not its children either, if they have its pipe. For who has killed them all."""
        self._reader.join(namespaces.END_SECONDS)

    @property
    def running(self) -> bool:
        """Whether it lives; one that stands still does."""
        return self.code is None

    @property
    def said(self) -> list[str]:
        """The end of what it printed."""
        with self._changed:
            return list(self._lines)

    def failed(self, what: str) -> ProcessError:
        """An error that says ``what``, and the end of what it printed."""
        return ProcessError("\n  ".join([f"{self.name} {what}; the end of what it printed:", *self.said[-TOLD_LINES:]]))

    def _read(self, log: Path) -> None:
        """Hear all that is printed, and how it ends. What it had printed by then has been heard when `wait_end` returns.

        Its children may have the pipe for longer: nobody waits for them, but they are heard, or what they write would kill them.
        """
        assert self._popen.stdout is not None
        pipe = self._popen.stdout.fileno()
        waiting = select.poll()
        waiting.register(pipe, select.POLLIN)
        waiting.register(self._descriptor, select.POLLIN)
        rest, printing = b"", True
        with log.open("ab", buffering=0) as kept, self._popen.stdout:
            while printing or not self._over:
                left = self.code is not None and not self._over
                ready = {file for file, _ in waiting.poll(0 if left else None)}
                data = os.read(pipe, READ_BYTES) if pipe in ready else b""
                kept.write(data)
                if pipe in ready and not data:
                    printing = False
                    waiting.unregister(pipe)
                    data = b"\n" if rest else b""
                *lines, rest = (rest + data).split(b"\n")
                code = None
                if self._descriptor in ready:
                    waiting.unregister(self._descriptor)
                    code = self._popen.wait()
                with self._changed:
                    for line in lines:
                        self._hear(line)
                    self.code = code if code is not None else self.code
                    over = left and not data
                    self._over = self._over or over
                    self._changed.notify_all()
                if over and self._ended is not None:
                    self._ended()
            with self._changed:
                os.close(self._descriptor)
                self._descriptor = -1

    def _hear(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        if len(self._first) < FIRST_LINES:
            self._first.append(text)
        self._lines.append(text)
        if self._heard is not None:
            self._heard(text)
