"""Workers of Celery and Dramatiq as processes of their own, and the desk at which their tasks say that they run, and wait."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Condition, Thread
from types import TracebackType
from typing import Any, Self

from tests.transport.programs import ROOT

SECONDS = 30.0
"""The deadline of every wait."""


class Worker:
    """One that has begun to consume; a context manager that ends it with all its processes.

    Args:
        words: the module that is run, and its arguments.
        ready: what is in the line that says that it consumes.
        environment: variables that it gets.

    Attributes:
        pid: of its first process, which is at the head of a group of its own.
        said: the lines that it has logged.
    """

    def __init__(self, *words: str, ready: str, environment: dict[str, str]) -> None:
        # Through what ends it with this process, were that killed itself.
        command = [sys.executable, "-m", "examples.demo.child", *words]
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self.said: list[str] = []
        self._more = Condition()
        self._ended = False
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._until(lambda: any(ready in line for line in self.said)):
            self.kill()
            raise AssertionError(f"the worker is not ready: {''.join(self.said)}")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._more:
                self.said.append(line)
                self._more.notify_all()
        with self._more:
            self._ended = True
            self._more.notify_all()

    def _until(self, holds: Callable[[], bool]) -> bool:
        """Wait until it holds of what was said, or nothing more will be."""
        with self._more:
            self._more.wait_for(lambda: holds() or self._ended, SECONDS)
            return holds()

    def says(self, lines: Iterable[str]) -> bool:
        """Wait until it has said all of these, in any order; of its threads one may come between a line and its end."""
        wanted = list(lines)

        def said(line: str) -> bool:
            return any(each.startswith(line) or each.endswith(f"{line}\n") for each in self.said)

        return self._until(lambda: all(map(said, wanted)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            print("".join(self.said[-60:]))
        self.kill()

    def stop(self) -> int:
        """Tell it to finish what it does, and end; its exit code."""
        self._process.terminate()
        return self._process.wait(SECONDS)

    def kill(self) -> None:
        """SIGKILL to all its processes."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(SECONDS)
        self._reader.join(SECONDS)
        if self._process.stdout is not None:
            self._process.stdout.close()


class Held:
    """A task that waits at the desk."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        connection.settimeout(SECONDS)
        self.facts: dict[str, Any] = json.loads(connection.recv(1 << 16))

    def end(self) -> None:
        """Let it go on."""
        with suppress(OSError):
            self._connection.sendall(b".")
        self._connection.close()

    def gone(self) -> bool:
        """Wait until its process has ended."""
        with self._connection:
            return self._connection.recv(1) == b""


class Desk:
    """Where tasks say that they run.

    Attributes:
        port: on the loopback address.
    """

    def __init__(self, listening: socket.socket, opened: ExitStack) -> None:
        self._listening = listening
        self._opened = opened
        listening.settimeout(SECONDS)
        self.port: int = listening.getsockname()[1]

    def next(self) -> Held:
        """The next that comes."""
        connection, _ = self._listening.accept()
        return Held(self._opened.enter_context(connection))


@contextmanager
def desk() -> Iterator[Desk]:
    """One that is there while its test is."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as opened:
        yield Desk(listening, opened)
