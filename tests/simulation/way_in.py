"""Where a gateway stands in the broker: a listener that listens nowhere, and is given the broker's door as every other one is."""

from __future__ import annotations

from typing import Any

from transport.broker.listener import Host, Listener
from transport.broker.operations import Operations
from transport.security.principal import ANYONE


class WayIn(Listener[Any]):
    """A way to the door, for callers who live in the broker's process, as those of HTTP do as far as the queue knows."""

    def __init__(self) -> None:
        super().__init__("simulated", "127.0.0.1:0", _none, _none)
        self._given: Host | None = None

    async def start(self, host: Host) -> None:
        """As `Listener.start`, with nowhere to listen."""
        self._given = host

    def operations(self) -> Operations:
        """The door, for one request."""
        assert self._given is not None, "the broker has started"
        return self._given.operations(ANYONE)


def _none(*_: Any) -> Any:
    raise AssertionError("nobody connects here")
