"""A broker of its own on a machine, as `penstock broker` starts it; and what is asked of it from the clients' machine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from tests.fault.machines.machines import Machine
from tests.fault.machines.processes import START_SECONDS, STOP_SECONDS, Process
from transport import Administration

SEND_PORT: Final = 9182
RECEIVE_PORT: Final = 9183
LISTENING: Final = r"sending \S+, receiving \S+"
ASK_SECONDS: Final = 20.0


class PlainBroker:
    """One broker after another on a machine, with the same addresses and the same directory on its disk.

    Args:
        machine: where.
        options: of ``penstock broker``, beside its addresses and its directory.
        keeps: whether it keeps anything; one that does not is there to be found out.

    Attributes:
        send: where senders connect.
        receive: where receivers connect.
        data: its directory.
    """

    def __init__(self, machine: Machine, options: Sequence[str] = ("--disk-floor", "0"), *, keeps: bool = True) -> None:
        self._machine = machine
        self._options = options
        self._process: Process | None = None
        self.send = f"{machine.address}:{SEND_PORT}"
        self.receive = f"{machine.address}:{RECEIVE_PORT}"
        self.data = machine.disk.path / "data"
        self._store = ("--data", self.data) if keeps else ("--memory",)

    def start(self) -> Process:
        """Start it, and wait until it listens."""
        # Machines have one another for neighbours, and nobody else: there is nothing to be kept out.
        addresses = ("--send-address", self.send, "--receive-address", self.receive, "--http", "none", "--insecure")
        self._process = self._machine.python(
            "transport.cli", "broker", *addresses, *self._store, *self._options, name="broker"
        )
        self._process.wait_line(LISTENING, START_SECONDS)
        return self._process

    @property
    def process(self) -> Process:
        """The one that was started last."""
        assert self._process is not None
        return self._process

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()

    def stop(self) -> None:
        """SIGTERM, to an end in good order."""
        self.process.stop(STOP_SECONDS)

    def left(self, client: Machine, queue: str) -> int:
        """Messages that it still has, waiting or in flight, asked from another machine."""

        async def ask() -> int:
            async with asyncio.timeout(ASK_SECONDS), Administration(self.send) as administration:
                rows = await administration.queues()
            return sum(row["ready"] + row["in_flight"] for row in rows if row["name"] == queue)

        with client.inside():
            return asyncio.run(ask())
