"""The role of ``smq``: one message at a time over both protocols in turn, each through a bare socket, so that brokers are compared."""

from __future__ import annotations

import os
import socket
import time
from array import array
from collections.abc import Callable

from benchmarks._paced import spread
from benchmarks._worker import Parent
from transport import MessageBatch, parse_address
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES, FrameDecoder
from transport.wire.messages import VERSION, Demand, Error, Frame, Hello, Ping, Pong, Send, Sent, Welcome

WRITER_BUFFER_BYTES = 8192
"""Of the original's writer: what does not fit with its head is written apart from it."""
READ_BYTES = 64 * 1024
SECONDS = 20.0


class SmqSource:
    """As the original's writer sends: Nagle's algorithm is on, and a large message goes in two writes."""

    def __init__(self, address: str) -> None:
        self._socket = socket.create_connection(parse_address(address), SECONDS)

    def send(self, payload: bytes) -> None:
        """Return when it is confirmed."""
        head = b"M" + len(payload).to_bytes(4, "big")
        if len(head) + len(payload) > WRITER_BUFFER_BYTES:
            self._socket.sendall(head)
            self._socket.sendall(payload)
        else:
            self._socket.sendall(head + payload)
        if self._socket.recv(1) != b"Y":
            raise ConnectionError("the broker did not say Y")

    def close(self) -> None:
        """End in good order."""
        self._socket.sendall(b"E")
        self._socket.close()


class NativeSender:
    """Frames of Penstock's own protocol, written and read with nothing between."""

    def __init__(self, address: str, queue: str) -> None:
        self._socket = socket.create_connection(parse_address(address), SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = FrameDecoder(MAX_FRAME_BYTES)
        self._sequence = self._messages = self._bytes = self._used = 0
        self._write(Hello(VERSION, "sender", queue, "benchmark", {}))
        self._until(lambda frame: isinstance(frame, Welcome))

    def send(self, payload: bytes) -> None:
        """Return when it is confirmed."""
        while self._messages <= self._sequence or self._bytes <= self._used:
            self._until(lambda frame: isinstance(frame, Demand))
        batch = MessageBatch.from_payloads([payload])
        self._write(Send(self._sequence, None, batch))
        self._sequence += 1
        self._used += batch.nbytes
        self._until(lambda frame: isinstance(frame, Sent))

    def close(self) -> None:
        """End."""
        self._socket.close()

    def _write(self, frame: Frame) -> None:
        self._socket.sendall(b"".join(encode(frame)))

    def _until(self, wanted: Callable[[Frame], bool]) -> None:
        found = False
        while not found:
            while (frame := self._next()) is not None:
                if isinstance(frame, Demand):
                    self._messages, self._bytes = frame.messages, frame.bytes
                elif isinstance(frame, Ping):
                    self._write(Pong(frame.token))
                elif isinstance(frame, Error):
                    raise ConnectionError(frame.text)
                found = found or wanted(frame)
            if not found:
                count = self._socket.recv_into(self._decoder.get_buffer())
                if not count:
                    raise ConnectionError("the broker has closed")
                self._decoder.received(count)

    def _next(self) -> Frame | None:
        raw = self._decoder.next_frame()
        return None if raw is None else decode(raw)


def send_one_at_a_time(parent: Parent, source: str, native: str, queue: str, size: int, count: int, skip: int) -> None:
    """``count`` messages of ``size`` bytes over each protocol, alternating message by message; the first ``skip`` do not count."""
    clients: dict[str, SmqSource | NativeSender] = {"smq": SmqSource(source), "native": NativeSender(native, queue)}
    latencies = {name: array("q") for name in clients}
    payload = os.urandom(size)
    for number in range(skip + count):
        for name, client in clients.items():
            begun = time.monotonic_ns()
            client.send(payload)
            if number >= skip:
                latencies[name].append(time.monotonic_ns() - begun)
    for client in clients.values():
        client.close()
    parent.say(**{name: spread(each) for name, each in latencies.items()})
