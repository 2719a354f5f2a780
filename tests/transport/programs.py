"""``penstock`` as a running process, for tests: every wait on it has a deadline."""

from __future__ import annotations

import asyncio
import os
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from streams import Source
from tests.transport import forking
from tests.transport.forking import Forked
from transport import Sender
from transport.clients.administration import Administration

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 30.0
COMMAND = [sys.executable, "-m", "transport.cli"]


class Program:
    """A running ``penstock``, every wait on it bounded by ``DEADLINE``."""

    def __init__(
        self,
        *arguments: str,
        stdin: Any = subprocess.PIPE,
        stdout: Any = subprocess.PIPE,
        stderr: Any = subprocess.PIPE,
        before: Sequence[str] = (),
    ) -> None:
        start = subprocess.Popen if before else Forked
        self.process = start(
            [*before, *COMMAND, *arguments], cwd=ROOT, stdin=stdin, stdout=stdout, stderr=stderr, bufsize=0
        )
        # Pipes unless told otherwise; the tests know which.
        self.stdin: Any = self.process.stdin
        self.stdout: Any = self.process.stdout
        self.stderr: Any = self.process.stderr
        self._buffers: dict[int, bytes] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(DEADLINE)
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()

    def line(self, stream: Any) -> bytes:
        """The next line of ``stream``, without its newline."""
        buffer = self._buffers.get(stream.fileno(), b"")
        while b"\n" not in buffer:
            buffer += self._read(stream)
        line, _, self._buffers[stream.fileno()] = buffer.partition(b"\n")
        return line

    def rest(self, stream: Any) -> bytes:
        """Everything up to the end of ``stream``."""
        buffer = bytearray(self._buffers.pop(stream.fileno(), b""))
        while part := self._read(stream, at_end=b""):
            buffer += part
        return bytes(buffer)

    def end(self) -> int:
        return self.process.wait(DEADLINE)

    def finish(self) -> tuple[int, bytes, str]:
        """Exit code, standard output and standard error."""
        out, err = self.process.communicate(timeout=DEADLINE)
        return self.process.returncode, out, err.decode()

    def _read(self, stream: Any, at_end: bytes | None = None) -> bytes:
        ready, _, _ = select.select([stream], [], [], DEADLINE)
        assert ready, "nothing came in time"
        part = os.read(stream.fileno(), 1 << 16)
        if not part:
            assert at_end is not None, f"the stream ended: {self.stderr.read().decode()}"
            return at_end
        return part


class BrokerProcess(Program):
    """A broker on free ports, in memory unless its options say where."""

    def __init__(self, *options: str, before: Sequence[str] = ()) -> None:
        where = () if {"--data", "--config"} & set(options) else ("--memory",)
        super().__init__(
            "broker",
            "--send-address",
            "127.0.0.1:0",
            "--receive-address",
            "127.0.0.1:0",
            *where,
            *options,
            stdin=subprocess.DEVNULL,
            before=before,
        )
        try:
            said = self.line(self.stderr).decode()
            while " WARNING penstock.storage: " in said:
                # What a start after a damage has to tell comes first.
                said = self.line(self.stderr).decode()
            words = said.replace(",", "").split()
            assert words[:3] == ["penstock", "broker:", "sending"], said
        except BaseException:
            self.__exit__()
            raise
        self.said = said
        self.sending, self.receiving = words[3], words[5]

    def statistics(self, queue: str) -> dict[str, Any]:
        async def ask() -> dict[str, Any]:
            async with Administration(self.sending) as administration:
                found = [row for row in await administration.queues() if row["name"] == queue]
                return found[0]

        return asyncio.run(ask())

    def until(self, queue: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The queue's figures once ``holds`` of them."""

        async def watch() -> dict[str, Any]:
            async with asyncio.timeout(DEADLINE), Administration(self.sending) as administration:
                while True:
                    for row in await administration.queues():
                        if row["name"] == queue and holds(row):
                            return row

        return asyncio.run(watch())

    def until_requested_by(self, receivers: int, queue: str) -> None:
        """Returns once so many receivers have asked for messages: a process that is connected may still be held up before it asks."""

        async def watch() -> None:
            async with asyncio.timeout(DEADLINE), Administration(self.sending) as administration:
                asking = 0
                while asking < receivers:
                    rows = (await administration.statistics())["connections"]
                    asking = sum(
                        row["queue"] == queue and row["role"] == "receiver" and row["demand"] > 0 for row in rows
                    )

        asyncio.run(watch())

    def run(self, verb: str, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        """A whole run of ``penstock verb``."""
        words = [*verb.split(), *arguments, "--address", self.address_of(verb)]
        code, out, err = forking.run(words, stdin, DEADLINE)
        return code, out, err.decode()

    def start(self, verb: str, *arguments: str, **streams: Any) -> Program:
        return Program(verb, *arguments, "--address", self.address_of(verb), **streams)

    def address_of(self, verb: str) -> str:
        return self.receiving if verb == "receive" else self.sending

    def fill(self, queue: str, lines: list[bytes]) -> None:
        """A message for each of ``lines``, sent by no process of its own: what is tested is what comes after."""

        async def send() -> None:
            async with asyncio.timeout(DEADLINE):
                await Source.from_iterable(lines).to(Sender(self.sending, queue=queue)).run()

        asyncio.run(send())
