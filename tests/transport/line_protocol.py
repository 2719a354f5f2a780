"""A protocol of text lines that are sent back: what another protocol than Penstock's own needs to be a listener of a broker."""

from __future__ import annotations

from transport.broker.listener import Listener
from transport.broker.served import Served
from transport.errors import FrameTooLargeError
from transport.wire.carried import DataProtocol

MAX_LINE = 1024


class Lines(DataProtocol[bytes]):
    def __init__(self) -> None:
        super().__init__()
        self._received = bytearray()

    def receive_data(self, data: memoryview) -> None:
        self._received += data

    def read(self) -> bytes | None:
        end = self._received.find(b"\n", 0, MAX_LINE + 1)
        if end < 0:
            if len(self._received) > MAX_LINE:
                raise FrameTooLargeError(len(self._received), MAX_LINE, "send shorter lines", "line")
            return None
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return line

    def send(self, event: bytes) -> list[bytes]:
        return [event + b"\n"]

    def last_words(self, code: str, text: str) -> list[bytes]:
        return [f"{code}: {text}\n".encode()]

    @property
    def waiting(self) -> bool:
        return len(self._received) > MAX_LINE or b"\n" in self._received

    @property
    def kept(self) -> int:
        return len(self._received)


class Echo(Served[bytes]):
    def event_received(self, event: bytes, work: int) -> None:
        assert self.connection is not None
        self.connection.send(event)


def echo_listener(address: str = "127.0.0.1:0", protocol: type[Lines] = Lines) -> Listener[Lines]:
    return Listener("echo", address, protocol, lambda host, _lines: Echo(host.connections, host.loop.time(), "echo"))
