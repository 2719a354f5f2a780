"""What stands at the held point, as the harness sees it: the gate that a worker waits at, and processes that must be gone."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

GONE_SECONDS = 30.0
"""In which every process of a killed driver must have ended by itself: a worker finishes its call and finds its socket closed."""


@dataclass(frozen=True, slots=True)
class Held:
    """A worker at the gate.

    Attributes:
        pid: its process.
        point: where it stands.
        batch: in which batch.
    """

    pid: int
    point: str
    batch: int
    writer: asyncio.StreamWriter

    @property
    def alive(self) -> bool:
        """Whether its process still runs."""
        return running(self.pid)

    def release(self) -> None:
        """Let it go on; one that died meanwhile takes no notice."""
        self.writer.close()


class Gate:
    """Holds the first worker that comes after `arm`, and lets every other pass."""

    def __init__(self) -> None:
        self.address = ""
        self._server: asyncio.Server | None = None
        self._awaited: asyncio.Future[Held] | None = None
        self._point: str | None = None
        self._held: list[Held] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._come, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        for held in self._held:
            held.release()
        self._server.close()
        await self._server.wait_closed()

    def arm(self, point: str | None = None) -> asyncio.Future[Held]:
        """The next worker that comes, or that comes to ``point``, held until it is released."""
        self._point = point
        self._awaited = asyncio.get_running_loop().create_future()
        return self._awaited

    async def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = json.loads(await reader.readline())
        if self._awaited is None or self._awaited.done() or self._point not in (None, said["point"]):
            writer.close()
            return
        self._held = [one for one in self._held if not one.writer.is_closing()]
        self._held.append(Held(said["pid"], said["point"], said["batch"], writer))
        self._awaited.set_result(self._held[-1])


def processes_of(session: int) -> list[int]:
    """The processes of a session (as of ``setsid``) that still run."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if _state_and_session(pid)[1] == session and running(pid)]


def running(pid: int) -> bool:
    """Whether there is such a process, and it is more than an entry that nobody has waited for."""
    return _state_and_session(pid)[0] not in ("", "Z", "X")


def _state_and_session(pid: int) -> tuple[str, int]:
    with suppress(OSError):
        # After the name in brackets: state, parent, group, session.
        state, _, _, session = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:4]
        return state, int(session)
    return "", -1


async def gone(session: int) -> list[int]:
    """Wait for the end of all processes of ``session``; those that do not end in time are killed, and returned."""
    with suppress(TimeoutError):
        async with asyncio.timeout(GONE_SECONDS):
            while left := processes_of(session):
                await ended(left[0])
        return []
    left = processes_of(session)
    for pid in left:
        kill(pid)
    return left


async def ended(pid: int) -> None:
    """Wait for the end of any process."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(descriptor, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def kill(pid: int) -> None:
    """SIGKILL, if it still runs."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
