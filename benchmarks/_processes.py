"""The outside of a benchmark's processes: start a role, hear what it says, look at what it uses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from transport import Administration

START_TIMEOUT = 60.0
"""Seconds in which a role must be ready; importing PySpark takes a few."""
STOP_TIMEOUT = 15.0
"""Seconds in which a role must end once it is told to."""
CONNECT_TIMEOUT = 30.0
"""Seconds in which clients must be connected."""
CONNECT_CHECK = 0.02
"""Seconds between two looks at whether they are."""
READ_BYTES = 64 * 1024
MIB = 2**20
ROOT = Path(__file__).resolve().parent.parent

Facts = dict[str, Any]


class BenchmarkError(Exception):
    """A run that measured nothing: a process failed or fell silent, or what arrived is not what was sent."""


class Worker:
    """A process that runs one role; a context manager that ends it.

    Args:
        role: ``module:function`` under ``benchmarks``, called with a `Parent` and the arguments.
        arguments: JSON values.
    """

    def __init__(self, role: str, **arguments: Any) -> None:
        self.role = role
        self._received = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks._worker", f"benchmarks.{role}", json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            # Processes that a role starts, Spark's Python workers, find the packages by this.
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The end of its input tells a role to end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if kind is not None:
            self._process.kill()
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def go(self, **facts: Any) -> None:
        """Let the role go on, with ``facts``."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(facts).encode() + b"\n")
        self._process.stdin.flush()

    def hear(self, timeout: float = START_TIMEOUT) -> Facts:
        """What it says next.

        Raises:
            BenchmarkError: it ended, or said nothing for ``timeout`` seconds.
        """
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + timeout
        while b"\n" not in self._received:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise BenchmarkError(f"{self.role} has said nothing for {timeout:g} s")
            part = os.read(descriptor, READ_BYTES)
            if not part:
                raise BenchmarkError(f"{self.role} ended with exit code {self._process.wait(STOP_TIMEOUT)}")
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        facts: Facts = json.loads(line)
        return facts


def cpu_seconds(pid: int) -> float:
    """Processor time that process ``pid`` has used, all its threads, those that have ended too.

    To the nanosecond: ``/proc`` counts in the kernel's ticks of 10 ms, and a short run may take none.
    """
    # Linux's number for the processor clock of another process, as clock_getcpuclockid(3) makes it.
    return time.clock_gettime(~pid << 3 | 2)


def context_switches(pid: int) -> int:
    """How often the threads that process ``pid`` has now have given way, by waiting or because others were to run."""
    switches = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            lines = status.read_text("utf-8", "replace").splitlines()
            switches += sum(int(line.split()[1]) for line in lines if "ctxt_switches:" in line)
    return switches


def resident_bytes(pid: int) -> int:
    """Memory of process ``pid`` that is in RAM."""
    return int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_resident_bytes(pid: int) -> int:
    """The most that `resident_bytes` has been since process ``pid`` began."""
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise BenchmarkError(f"the kernel does not say how much memory process {pid} has had")


def statistics(send_address: str) -> Facts:
    """The broker's figures."""

    async def ask() -> Facts:
        async with Administration(send_address) as administration:
            return await administration.statistics()

    return asyncio.run(ask())


def queue_facts(figures: Facts, queue: str) -> Facts:
    """One queue's figures; BenchmarkError where there is none of that name."""
    for facts in figures["queues"]:
        if facts["name"] == queue:
            found: Facts = facts
            return found
    raise BenchmarkError(f"the broker knows no queue {queue!r}")


def storage_facts(figures: Facts) -> Facts:
    """The journal's figures; BenchmarkError where the broker keeps none."""
    found: Facts | None = figures.get("storage")
    if found is None:
        raise BenchmarkError("the broker was to keep a journal, and says that it keeps none")
    return found


def await_broker(send_address: str, what: str, holds: Callable[[Facts], bool]) -> None:
    """Return when ``holds`` is true of the broker's figures; BenchmarkError after ``CONNECT_TIMEOUT``."""

    async def ask() -> None:
        async with Administration(send_address) as administration:
            deadline = time.monotonic() + CONNECT_TIMEOUT
            while not holds(await administration.statistics()):
                if time.monotonic() > deadline:
                    raise BenchmarkError(f"not so within {CONNECT_TIMEOUT:g} s: {what}")
                await asyncio.sleep(CONNECT_CHECK)

    asyncio.run(ask())


def await_receivers(send_address: str, queue: str, count: int) -> None:
    """Return when ``queue`` has ``count`` receivers."""
    await_broker(
        send_address,
        f"{count} receivers of {queue}",
        lambda figures: any(one["name"] == queue and one["receivers"] >= count for one in figures["queues"]),
    )
