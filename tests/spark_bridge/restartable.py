"""Brokers that go away and come back, for tests of what their clients do meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def numbers(start: int, stop: int) -> list[bytes]:
    """One message a number."""
    return [b"%d" % number for number in range(start, stop)]


class Restartable:
    """A durable broker that may be stopped and started again at the same addresses."""

    def __init__(self, make: Callable[..., Any], folder: Path) -> None:
        self._make = make
        self._config: dict[str, Any] = {"directory": str(folder)}
        self.start()
        self._config |= {"send_address": self.running.sending, "receive_address": self.running.receiving}

    def start(self) -> None:
        self.running = self._make(**self._config)
        self.address: str = self.running.receiving

    def stop(self) -> None:
        self.running.close_connections()  # or it would wait for its clients to close them
        self.running.stop()

    def send(self, start: int, stop: int) -> None:
        self.running.send("q", numbers(start, stop))

    def base(self, epoch: int) -> int:
        """Up to where the ledger is acknowledged."""
        with self.running.client(mode="read", epoch=epoch) as client:
            return int(client.open().base)
