"""A client of AMQP that says whatever it is told to, in whatever order: frames on a socket, every wait with a deadline."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TypeVar

from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.layout import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, PROTOCOL_HEADER
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.method_codec import decode_method
from transport.gateways.amqp.properties import NO_PROPERTIES
from transport.gateways.amqp.tables import Table
from transport.gateways.amqp.writing import content_frames, method_frame

SECONDS = 30.0
FRAME_MAX = 131_072
CAPABILITIES = ("consumer_cancel_notify", "connection.blocked", "authentication_failure_close", "basic.nack")

M = TypeVar("M", bound=Method)


class Frame(NamedTuple):
    """One, as it came."""

    kind: int
    channel: int
    payload: bytes


class Content(NamedTuple):
    """A method with a content."""

    method: Any
    properties: bytes
    body: bytes


def published(
    key: str, body: bytes = b"x", channel: int = 1, exchange: str = "", properties: bytes = NO_PROPERTIES, **said: Any
) -> bytes:
    """A message as a client publishes it."""
    method = basic.BasicPublish(exchange=exchange, routing_key=key, **said)
    return b"".join(map(bytes, content_frames(channel, method, properties, body, FRAME_MAX)))


def methods(channel: int, *said: Method) -> bytes:
    """Methods of one channel in a row."""
    return b"".join(method_frame(channel, each) for each in said)


def start_ok(response: bytes = b"\0guest\0guest", mechanism: str = "PLAIN") -> connection.ConnectionStartOk:
    """Who the client is."""
    properties = Table.of({"capabilities": dict.fromkeys(CAPABILITIES, True)})
    return connection.ConnectionStartOk(
        client_properties=properties, mechanism=mechanism, response=response, locale="en_US"
    )


def tune_ok(channel_max: int = 2_047, frame_max: int = FRAME_MAX, heartbeat: int = 0) -> connection.ConnectionTuneOk:
    """What it agrees to."""
    return connection.ConnectionTuneOk(channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)


CLOSE = connection.ConnectionClose(reply_code=200, reply_text="", class_id=0, method_id=0)
CLOSE_CHANNEL = connection.ChannelClose(reply_code=200, reply_text="", class_id=0, method_id=0)
OPEN = connection.ConnectionOpen(virtual_host="/")
HANDSHAKE = PROTOCOL_HEADER + methods(0, start_ok(), tune_ok(), OPEN)
"""All that a client says before its first channel, not waiting for what it is told."""


class RawClient:
    """One connection.

    Args:
        port: the broker's.
        opens: whether to come as far as ``connection.open-ok`` at once, and to open this many channels.
    """

    def __init__(self, port: int, *, opens: int | None = 1, receive_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(SECONDS)
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self.socket.makefile("rb")
        if opens is not None:
            self.write(
                HANDSHAKE + b"".join(methods(number, connection.ChannelOpen()) for number in range(1, opens + 1))
            )
            for expected in (connection.ConnectionStart, connection.ConnectionTune, connection.ConnectionOpenOk):
                self.expect(expected)
            for number in range(1, opens + 1):
                self.expect(connection.ChannelOpenOk, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.socket.close()

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def say(self, *said: Method, channel: int = 1) -> None:
        self.write(methods(channel, *said))

    def frame(self) -> Frame | None:
        """The next that is no heartbeat; None at the end of the stream."""
        while head := self._file.read(7):
            kind, channel, size = struct.unpack(">BHI", head)
            payload = self._file.read(size)
            assert self._file.read(1) == b"\xce"
            if kind != FRAME_HEARTBEAT:
                return Frame(kind, channel, payload)
        return None

    def method(self, channel: int | None = None) -> Any:
        """The next frame, which is to be a method, of this channel if one is named."""
        frame = self.frame()
        assert frame is not None, "the stream ended"
        assert frame.kind == FRAME_METHOD, frame
        method = decode_method(frame.payload)
        assert channel in (None, frame.channel), (frame.channel, method)
        return method

    def expect(self, kind: type[M], channel: int | None = None) -> M:
        """The next, which is to be of a kind."""
        method = self.method(channel)
        assert isinstance(method, kind), method
        return method

    def content(self) -> Content:
        """A method, its header and its bodies."""
        method = self.method()
        head = self.frame()
        assert head is not None
        assert head.kind == FRAME_HEADER, (method, head)
        (size,) = struct.unpack_from(">Q", head.payload, 4)
        return Content(method, head.payload[12:], self._body(size))

    def _body(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size > 0:
            part = self.frame()
            assert part is not None
            assert part.kind == FRAME_BODY
            parts.append(part.payload)
            size -= len(part.payload)
        return b"".join(parts)

    def ask(self, said: Method, kind: type[M], channel: int = 1) -> M:
        """Say one, and expect the answer next."""
        self.say(said, channel=channel)
        return self.expect(kind, channel)

    def declare(self, queue: str, channel: int = 1, **said: Any) -> entity.QueueDeclareOk:
        return self.ask(entity.QueueDeclare(queue=queue, **said), entity.QueueDeclareOk, channel)

    def ready(self, queue: str, channel: int = 1) -> int:
        """Messages that are ready."""
        return self.declare(queue, channel, passive=True).message_count

    def got(self, queue: str, most: int = 100_000, channel: int = 1) -> list[bytes]:
        """What is ready, taken out."""
        found: list[bytes] = []
        while len(found) < most:
            self.say(basic.BasicGet(queue=queue, no_ack=True), channel=channel)
            frame = self.frame()
            assert frame is not None
            method = decode_method(frame.payload)
            if isinstance(method, basic.BasicGetEmpty):
                return found
            assert isinstance(method, basic.BasicGetOk), method
            head = self.frame()
            assert head is not None
            (size,) = struct.unpack_from(">Q", head.payload, 4)
            found.append(self._body(size))
        return found

    def ended(self, code: int | None = None) -> Sequence[Any]:
        """All methods up to the end of the stream; where a ``code`` is named, the last is ``connection.close`` with it."""
        found = []
        while (frame := self.frame()) is not None:
            if frame.kind == FRAME_METHOD:
                found.append(decode_method(frame.payload))
        if code is not None:
            assert found, "the stream ended without a word"
            assert isinstance(found[-1], connection.ConnectionClose), found[-1]
            assert found[-1].reply_code == code, found[-1]
        return found
