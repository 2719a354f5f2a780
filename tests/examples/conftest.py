"""Programs as processes: a broker for the examples, a demo under observation, and who is left of one."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 100.0
"""What any one program may take on a busy machine."""
MARK = "PENSTOCK_TEST_RUN"


@pytest.fixture
def environment() -> dict[str, str]:
    """The environment of a program that is run from the checkout; what it starts is known by `MARK`."""
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": paths, MARK: uuid.uuid4().hex}


@pytest.fixture
def run_program(environment: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program to its end; it must end well."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr
        return done

    return run


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """The broker of the examples, and where it listens."""

    process: subprocess.Popen[str]
    send_address: str
    receive_address: str


@pytest.fixture
def example_broker(environment: dict[str, str], tmp_path: Path) -> Iterator[RunningBroker]:
    with subprocess.Popen(
        [sys.executable, "examples/broker.py", "127.0.0.1:0", "127.0.0.1:0", str(tmp_path / "data")],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            words = process.stdout.readline().replace(",", "").split()
            yield RunningBroker(process, words[1], words[3])
        finally:
            process.kill()


@dataclass(frozen=True, slots=True)
class RunningDemo:
    """A demo whose output goes to a pipe, and everything it started."""

    process: subprocess.Popen[str]
    run: str

    def read_until(self, text: str, times: int = 1) -> str:
        """Read its output until ``text`` has come so often; what was read."""
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            times -= text in line
            if not times:
                break
        return "".join(lines)

    def left(self) -> list[int]:
        """The ids of the processes that it started, however deep, and that still run."""
        mark = f"{MARK}={self.run}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:
                continue  # it has ended, or is another user's
        return found

    def left_after(self, seconds: float) -> list[int]:
        """Those that still run so many seconds later; waits for their ends, and no longer."""
        deadline = time.monotonic() + seconds
        while (left := self.left()) and (remaining := deadline - time.monotonic()) > 0:
            try:
                descriptor = os.pidfd_open(left[0])
            except ProcessLookupError:
                continue
            try:
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                poll.poll(remaining * 1000)
            finally:
                os.close(descriptor)
        return left


@pytest.fixture
def start_demo(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., RunningDemo]]:
    """Starts a demo in a folder of its own; whatever is left of it in the end is killed."""
    started: list[RunningDemo] = []

    def start(*arguments: object) -> RunningDemo:
        process = subprocess.Popen(
            [sys.executable, "-m", "examples.demo", *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(RunningDemo(process, environment[MARK]))
        return started[-1]

    yield start
    for demo in started:
        demo.process.kill()
        demo.process.communicate()
        for pid in demo.left():
            os.kill(pid, signal.SIGKILL)
