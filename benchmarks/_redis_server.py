"""A Redis that syncs each command before it answers, started and ended by a benchmark; needs no redis-py."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks._processes import READ_BYTES, START_TIMEOUT, STOP_TIMEOUT, BenchmarkError

PROGRAM = "redis-server"
HOST = "127.0.0.1"
DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--save", "")
"""Each command is in the file and synced before its answer leaves; no snapshots beside it."""
READY = b"Ready to accept connections"
ADDRESS_TAKEN = b"Address already in use"
TRIES = 3
"""Ports that are tried: a free one may be taken by another program before Redis listens on it."""


def missing() -> str | None:
    """What a comparison with Redis lacks on this machine, and how to get it; None where it has all."""
    if shutil.which(PROGRAM) is None:
        return (
            f"the comparison with Redis needs {PROGRAM} and there is none; install it "
            f"(Debian, Ubuntu: sudo apt-get install redis-server)"
        )
    if find_spec("redis") is None:
        return "the comparison with Redis needs redis-py and there is none; make setup installs it"
    return None


class RedisServer:
    """A ``redis-server`` of its own, whose files go into ``folder``; a context manager that ends it.

    Attributes:
        port: where it listens, on the loopback address.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        for _ in range(TRIES):
            self.port = _free_port()
            options = ("--bind", HOST, "--port", str(self.port), "--dir", str(folder))
            self._process = subprocess.Popen(
                [PROGRAM, *options, *DURABLE],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            try:
                said = self._said_until_ready()
            except BaseException:
                self._end(kill=True)
                raise
            if READY in said:
                return
            self._end(kill=True)
            if ADDRESS_TAKEN not in said:
                break
        raise BenchmarkError(f"{PROGRAM} ended before it was ready: {said.decode('utf-8', 'replace').strip()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(kill=kind is not None)

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def _said_until_ready(self) -> bytes:
        """What it has said when it is ready, or when it has ended."""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + START_TIMEOUT
        said = b""
        while READY not in said:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise BenchmarkError(f"{PROGRAM} is not ready after {START_TIMEOUT:g} s")
            part = os.read(descriptor, READ_BYTES)
            if not part:
                break
            said += part
        return said

    def _end(self, kill: bool) -> None:
        assert self._process.stdout is not None
        if kill:
            self._process.kill()
        else:
            self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port
