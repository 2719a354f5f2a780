"""The demo's processes: started, listened to, and all of them gone when the demo is, however it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[2]
TAIL_LINES = 15
"""Lines of a failed process's stderr that are reported."""
MAX_LINE_BYTES = 64 * 2**20
"""The longest line a process may tell: the counts of a folder with a hundred thousand parts fit."""
SILENCE_SECONDS = 120.0
"""A process that should tell something and has not for so long never will."""
STOP_SECONDS = 10.0
"""What a process may take to end after SIGTERM, with all that it started; then it is killed."""


class ProcessFailedError(Exception):
    """A process ended as it should not, or fell silent; the text has the last lines of its stderr."""


class Child:
    """A running process.

    Attributes:
        name: what the demo calls it.
    """

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self._process = process
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._stderr = asyncio.create_task(self._read_stderr(), name=f"stderr of {name}")
        self._awaited: tuple[re.Pattern[str], asyncio.Future[re.Match[str]]] | None = None

    async def first_match(self, pattern: str) -> re.Match[str]:
        """The first line on stderr, from now on, in which ``pattern`` is found."""
        found: asyncio.Future[re.Match[str]] = asyncio.get_running_loop().create_future()
        self._awaited = (re.compile(pattern), found)
        await asyncio.wait((found, self._stderr), timeout=SILENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not found.done():
            raise self._failed(f"did not say {pattern!r}")
        return found.result()

    async def told(self) -> AsyncIterator[dict[str, Any]]:
        """Each line of JSON on stdout, until the process has ended, which it must do well."""
        stdout = self._process.stdout
        assert stdout is not None
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    line = await stdout.readline()
            except TimeoutError:
                raise self._failed(f"has told nothing for {SILENCE_SECONDS:.0f} s") from None
            if not line:
                break
            yield json.loads(line)
        code = await self._process.wait()
        if code != 0:
            await self._gone()
            raise self._failed(f"ended with {_in_words(code)}")

    async def until_it_fails(self) -> None:
        """For a process that is to outlive the others: raises when it ends."""
        code = await self._process.wait()
        await self._gone()
        raise self._failed(f"ended early, with {_in_words(code)}")

    def end_input(self) -> None:
        """Close the process's standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def stop(self) -> None:
        """End it and what it started."""
        self._signal(signal.SIGTERM)
        await self._gone()
        self._signal(signal.SIGKILL)
        await self._process.wait()
        self._stderr.cancel()
        await asyncio.wait((self._stderr,))

    async def _gone(self) -> None:
        """Wait until it and all that inherited its stderr have ended, the JVM for one."""
        await asyncio.wait((self._stderr,), timeout=STOP_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    async def _read_stderr(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        async for raw in stderr:
            line = raw.decode(errors="replace").rstrip()
            self._tail.append(line)
            if self._awaited is not None and not self._awaited[1].done():
                pattern, found = self._awaited
                if match := pattern.search(line):
                    found.set_result(match)

    def _failed(self, what: str) -> ProcessFailedError:
        return ProcessFailedError("\n  ".join([f"the {self.name} {what}; the end of its stderr:", *self._tail]))


class Children:
    """All processes of the demo; leaving the context ends them, the last started first."""

    def __init__(self) -> None:
        self._children: list[Child] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for child in reversed(self._children):
            await child.stop()

    async def start(self, name: str, module: str, *arguments: object) -> Child:
        """Start ``python -m module arguments``, as a process that does not outlive this one."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "examples.demo.child", module, *map(str, arguments)),
            stdin=PIPE if name == "query" else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=ROOT,
            # Spark starts Python processes of its own that import the source from there too.
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))},
            limit=MAX_LINE_BYTES,
            # A group of its own: a terminal's Ctrl-C reaches the demo alone, which then ends the others in order.
            start_new_session=True,
        )
        child = Child(name, process)
        self._children.append(child)
        return child


def _in_words(code: int) -> str:
    return f"exit status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
