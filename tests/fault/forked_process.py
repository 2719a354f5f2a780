"""A process of ``penstock`` that is forked, as asyncio's are: a start is no more than the start of a broker, without an interpreter's."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.transport.forking import Forked


class ForkedProcess:
    """As `asyncio.subprocess.Process`, as much of it as is asked for; made by `forked`."""

    def __init__(self, process: Forked, stderr: asyncio.StreamReader) -> None:
        self._process = process
        self.stderr = stderr
        self.pid = process.pid
        self.kill = process.kill
        self.terminate = process.terminate
        self.send_signal = process.send_signal
        self._end = asyncio.create_task(self._ended(), name="the end of a forked process")

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    async def wait(self) -> int:
        """Its exit status when it has ended, below zero where a signal did it."""
        return await asyncio.shield(self._end)

    async def _ended(self) -> int:
        status = self._process.status
        if status is None:  # it was started after all
            return await asyncio.to_thread(self._process.wait)
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        while (code := self._process.poll()) is None:
            told.clear()
            loop.add_reader(status, told.set)
            try:
                await told.wait()
            finally:
                loop.remove_reader(status)
        return code


async def forked(command: Sequence[str], folder: Path) -> ForkedProcess:
    """Starts it, its standard error for us."""
    process = Forked(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    stderr = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stderr), process.stderr)
    return ForkedProcess(process, stderr)
