"""The roles of ``websocket``: a sender and a receiver of ready-made batches through a bare socket, over TCP or WebSocket.

Both are the same but for what carries the bytes, and each frame is a message of its own, as a page's would be.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from itertools import cycle

from benchmarks._payloads import batches, make_payloads
from benchmarks._worker import Parent
from transport import parse_address
from transport.gateways.http.websocket_frames import mask
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES, FrameDecoder
from transport.wire.messages import (
    VERSION,
    Ack,
    Cancel,
    Deliver,
    Demand,
    Error,
    Frame,
    Hello,
    Ping,
    Pong,
    Request,
    Send,
    Sent,
    Welcome,
)

SECONDS = 60.0
READ_BYTES = 256 * 1024
_HANDSHAKE = (
    "GET /ws HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: penstock.1\r\n\r\n"
)


class Tcp:
    """The stream as it is."""

    def __init__(self, address: str) -> None:
        self.socket = socket.create_connection(parse_address(address), SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def write(self, data: bytes) -> None:
        """Write it."""
        self.socket.sendall(data)

    def read(self) -> Iterator[bytes]:
        """What has come, in pieces."""
        yield self.received()

    def received(self) -> bytes:
        """What the socket has; ConnectionError at the end."""
        if data := self.socket.recv(READ_BYTES):
            return data
        raise ConnectionError("the broker has ended the connection")


class WebSocket(Tcp):
    """The stream in messages."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.socket.sendall(_HANDSHAKE.format(address).encode())
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += self.socket.recv(1)
        if not head.startswith(b"HTTP/1.1 101 "):
            raise ConnectionError(head.decode())
        self._kept = b""

    def write(self, data: bytes) -> None:
        """Write it as one message."""
        key, size = os.urandom(4), len(data)
        masked = bytearray(data)
        mask(key, masked)
        head = bytes((0x82, 0x80 | size)) if size < 126 else b"\x82\xfe" + struct.pack(">H", size)
        if size >= 1 << 16:
            head = b"\x82\xff" + struct.pack(">Q", size)
        self.socket.sendall(head + key + masked)

    def read(self) -> Iterator[bytes]:
        """As of `Tcp`: the payloads of messages."""
        data = self._kept + self.received()
        at = 0
        while len(data) - at > 1 and data[at] == 0x82:
            size, start = data[at + 1], at + 2
            if size > 125:
                width = 2 if size == 126 else 8
                size, start = int.from_bytes(data[start : start + width], "big"), start + width
            if len(data) < start or start + size > len(data):
                break
            yield data[start : start + size]
            at = start + size
        self._kept = data[at:]


class _Client:
    """Frames over either."""

    def __init__(self, address: str, websocket: bool, hello: Hello) -> None:
        self._stream = WebSocket(address) if websocket else Tcp(address)
        self._decoder = FrameDecoder(MAX_FRAME_BYTES)
        # What the queue has asked for: messages, and bytes. It may come together with WELCOME.
        self.granted = 0, 0
        self.say(hello)
        self.until(lambda frame: isinstance(frame, Welcome))

    def say(self, frame: Frame) -> None:
        """Write a frame."""
        self._stream.write(b"".join(encode(frame)))

    def until(self, wanted: Callable[[Frame], bool]) -> None:
        """Take what comes, a receive at a time, until a frame of it is what is ``wanted``."""
        found = False
        while not found:
            for frame in self._frames(list(self._stream.read())):
                if isinstance(frame, Ping):
                    self.say(Pong(frame.token))
                    continue
                if isinstance(frame, Error):
                    raise ConnectionError(f"{frame.code}: {frame.text}")
                if isinstance(frame, Demand):
                    self.granted = frame.messages, frame.bytes
                found = wanted(frame) or found

    def _frames(self, pieces: list[bytes]) -> Iterator[Frame]:
        decoder = self._decoder
        for piece in pieces:
            at = 0
            while at < len(piece):
                view = decoder.get_buffer()
                size = min(len(view), len(piece) - at)
                view[:size] = piece[at : at + size]
                at += size
                decoder.received(size)
                while (raw := decoder.next_frame()) is not None:
                    yield decode(raw)
                decoder.handled()

    def close(self) -> None:
        """End."""
        self._stream.socket.close()


def send(parent: Parent, address: str, websocket: bool, queue: str, messages: int, size: int, batch: int) -> None:
    """Send ``messages`` payloads in batches made beforehand, as fast as they are asked for."""
    ready = list(batches(make_payloads(messages, size), min(messages, 10_000), batch))
    client = _Client(address, websocket, Hello(VERSION, "sender", queue, "benchmark", {}))
    confirmed = 0

    def heard(frame: Frame) -> bool:
        nonlocal confirmed
        if isinstance(frame, Sent):
            confirmed = frame.up_to
        return True

    parent.say(ready=True)
    parent.wait()
    started, cpu = time.monotonic(), time.process_time()
    sent = used = 0
    turns = cycle(ready)
    while sent < messages:
        one = next(turns)
        while sent + len(one) > client.granted[0] or used + one.nbytes > client.granted[1]:
            client.until(heard)
        client.say(Send(sent, None, one))
        sent, used = sent + len(one), used + one.nbytes
    while confirmed < messages:
        client.until(heard)
    parent.say(started=started, ended=time.monotonic(), messages=confirmed, cpu_s=time.process_time() - cpu)
    client.close()


def receive(parent: Parent, address: str, websocket: bool, queue: str, messages: int, max_in_flight: int) -> None:
    """Receive ``messages``, and acknowledge each delivery as it comes."""
    client = _Client(address, websocket, Hello(VERSION, "receiver", queue, "benchmark", {}))
    got = deliveries = 0

    def heard(frame: Frame) -> bool:
        nonlocal got, deliveries
        assert isinstance(frame, Deliver), frame
        got, deliveries = got + len(frame.batch), deliveries + 1
        client.say(Ack([(frame.first, len(frame.batch))]))
        client.say(Request(min(messages, got + max_in_flight), 1 << 40))
        return True

    parent.say(ready=True)
    parent.wait()
    cpu = time.process_time()
    client.say(Request(min(messages, max_in_flight), 1 << 40))
    while got < messages:
        client.until(heard)
    ended = time.monotonic()
    client.say(Cancel(False))
    parent.say(ended=ended, messages=got, elements=deliveries, cpu_s=time.process_time() - cpu)
    parent.wait()
    client.close()
