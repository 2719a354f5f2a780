"""A broker process that is there to be killed, and what tells the killer when: its first words, or what it does to its files."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.fault.forked_process import ForkedProcess, forked
from tests.transport.forking import CHILD, MODULE

ROOT = Path(__file__).resolve().parents[2]
AGAIN = "read again: "
"""In the line that it logs when it has read its settings again."""
LISTENING = re.compile(r"sending \S+, receiving \S+")
START_SECONDS = 30.0
"""In which a broker must listen: far more than any recovery here takes, on a machine with much else to do."""
STOP_SECONDS = 20.0
"""In which it must end after SIGTERM, its journal closed."""
TAIL_LINES = 30
DEFECT = "defect of ours"
"""Lines of its stderr that are reported when it ends by itself."""
IN_MODIFY = 0x2
IN_CREATE, IN_DELETE, IN_MOVED_TO, IN_CLOSE_WRITE = 0x100, 0x200, 0x80, 0x8
FILE_EVENTS = IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_CLOSE_WRITE
EVENT_HEADER_BYTES = 16
LENGTH_AT = 12
READ_BYTES = 64 * 1024


class BrokerDiedError(Exception):
    """The broker ended, or did not listen, though nobody had killed it; the text has the end of its stderr."""


class ReservedPort:
    """A port that nobody else gets while this process lives, though it does not listen there.

    A broker that starts again must find its port free; without this the kernel could hand it out meanwhile, even to a client that
    tries to connect to it, which would then be connected to itself.
    """

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def close(self) -> None:
        """Give it back."""
        self._socket.close()


class DirectoryWatch:
    """Tells of each file that is made, renamed, closed after writing, or removed in a directory (inotify, so on Linux only).

    With ``events`` it tells of other things, such as what is written (``IN_MODIFY``).
    """

    def __init__(self, directory: Path, told: Callable[[int], None], events: int = FILE_EVENTS) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0 or libc.inotify_add_watch(self._descriptor, os.fsencode(directory), events) < 0:
            raise OSError(ctypes.get_errno(), f"inotify: {os.strerror(ctypes.get_errno())}", str(directory))
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    def _read(self) -> None:
        data = os.read(self._descriptor, READ_BYTES)
        position = events = 0
        while position < len(data):
            length = int.from_bytes(data[position + LENGTH_AT : position + EVENT_HEADER_BYTES], sys.byteorder)
            position += EVENT_HEADER_BYTES + length
            events += 1
        self._told(events)

    def close(self) -> None:
        """Watch no more."""
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)


class Broker:
    """One broker after another on the same ports and the same directory; leaving the context kills the one that runs.

    Args:
        options: of ``penstock broker``, beside its addresses.
        program: the module that is run.

    Attributes:
        send_address: where senders connect.
        receive_address: where receivers connect.
        starts: how often it was started.
        defects: lines of its log that tell of a defect of ours.
        reloads: how often it has read its settings again.
    """

    def __init__(self, options: Sequence[str], program: str = "transport.cli") -> None:
        self._program = program
        self._ports = [ReservedPort(), ReservedPort()]
        self.send_address, self.receive_address = (port.address for port in self._ports)
        self._options = options
        self._process: ForkedProcess | Process | None = None
        self._stderr: asyncio.Task[None] | None = None
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._listens = asyncio.Event()
        self.starts = self.reloads = 0
        self.defects: list[str] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            if self._process.returncode is None:
                self._process.kill()
            await self._ended()
        for port in self._ports:
            port.close()

    async def spawn(self) -> None:
        """Start the process, and do not wait for it."""
        assert self._process is None, "the one before must have ended"
        addresses = ("--send-address", self.send_address, "--receive-address", self.receive_address)
        self._listens.clear()
        self._tail.clear()
        self.starts += 1
        # Through what ends it with this process, were that killed itself.
        command = (sys.executable, "-m", CHILD, self._program, "broker", *addresses, *self._options)
        if self._program == MODULE:
            self._process = await forked(command, ROOT)
        else:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, cwd=ROOT
            )
        self._stderr = asyncio.create_task(self._read_stderr(self._process), name="the broker's stderr")

    @property
    def pid(self) -> int:
        """Its process, while there is one."""
        assert self._process is not None
        return self._process.pid

    @property
    def listens(self) -> bool:
        """Whether it has said that it listens."""
        return self._listens.is_set()

    async def listening(self) -> None:
        """Wait until it says that it listens."""
        assert self._stderr is not None
        listens = asyncio.create_task(self._listens.wait())
        try:
            await asyncio.wait((listens, self._stderr), timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            listens.cancel()
        if not self._listens.is_set():
            raise self._died(f"does not listen within {START_SECONDS:.0f} s")

    async def start(self) -> None:
        """`spawn`, and `listening`."""
        await self.spawn()
        await self.listening()

    async def kill(self) -> None:
        """SIGKILL; returns when it is gone."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        code = await self._ended()
        if code != -signal.SIGKILL:
            raise self._died(f"had ended by itself, with {code}, before it was killed")

    def hang_up(self) -> None:
        """SIGHUP: it is to read its settings again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    async def stop(self) -> None:
        """SIGTERM; returns when it has ended in good order."""
        assert self._process is not None
        self._process.terminate()
        async with asyncio.timeout(STOP_SECONDS):
            code = await self._ended()
        if code != 0:
            raise self._died(f"ended with {code} when told to stop")

    async def until_it_dies(self) -> None:
        """Raises when it ends, which it is not to do by itself."""
        assert self._stderr is not None
        await asyncio.wait((self._stderr,))
        raise self._died("ended by itself")

    async def _ended(self) -> int:
        assert self._process is not None
        assert self._stderr is not None
        code = await self._process.wait()
        await self._stderr
        self._process = None
        return code

    async def _read_stderr(self, process: ForkedProcess | Process) -> None:
        assert process.stderr is not None
        async for raw in process.stderr:
            line = raw.decode(errors="replace").rstrip()
            self._tail.append(line)
            if DEFECT in line:
                self.defects.append(line)
            if AGAIN in line:
                self.reloads += 1
            if LISTENING.search(line):
                self._listens.set()

    def _died(self, what: str) -> BrokerDiedError:
        return BrokerDiedError(
            "\n  ".join([f"the broker of start {self.starts} {what}; the end of its stderr:", *self._tail])
        )
