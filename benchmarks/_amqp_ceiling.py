"""A peer of one client of AMQP that costs next to nothing: what the client can do at most.

It takes what is published by counting bytes, and confirms all of it at once; and it delivers what it has ready, as much as is acknowledged.
It knows no queue: what it is worth is the other side of a benchmark's client, and nothing more.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Final

from benchmarks._amqp_raw import FRAME_MAX, HOST, RECEIVE_BYTES, SECONDS, SETTLED
from benchmarks._processes import BenchmarkError
from benchmarks._worker import Parent
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp.layout import EMPTY_FRAME_BYTES, FRAME_METHOD, PROTOCOL_HEADER
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.method_codec import decode_method
from transport.gateways.amqp.negotiation import CAPABILITIES
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.tables import Table
from transport.gateways.amqp.writing import content_frames, method_frame

_HEAD: Final = struct.Struct(">BHI")
_START: Final = connection.ConnectionStart(
    server_properties=Table.of({"capabilities": dict.fromkeys(CAPABILITIES, True)})
)


def serve(parent: Parent, messages: int, size: int, window: int) -> None:
    """Serve one client, which publishes or consumes ``messages``."""
    with socket.create_server((HOST, 0)) as listening:
        parent.say(port=listening.getsockname()[1])
        listening.settimeout(SECONDS)
        taken, _ = listening.accept()
        with taken:
            taken.settimeout(SECONDS)
            taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _Served(taken, messages, size, window).serve()


class _Served:
    """One client."""

    def __init__(self, taken: socket.socket, messages: int, size: int, window: int) -> None:
        self._socket = taken
        self._messages, self._size, self._window = messages, size, window
        self._rest = b""
        self._over = False

    def serve(self) -> None:
        while len(self._rest) < len(PROTOCOL_HEADER):
            self._receive()
        self._rest = self._rest[len(PROTOCOL_HEADER) :]
        self._say(0, _START)
        while not self._over:
            kind, channel, payload = self._frame()
            if kind == FRAME_METHOD:
                self._heard(channel, decode_method(payload))

    def _heard(self, channel: int, method: Method) -> None:
        answers: dict[type[Method], Any] = {
            connection.ConnectionOpen: connection.ConnectionOpenOk,
            connection.ChannelOpen: connection.ChannelOpenOk,
            connection.ChannelClose: connection.ChannelCloseOk,
            connection.ConnectionClose: connection.ConnectionCloseOk,
            basic.BasicQos: basic.BasicQosOk,
            basic.ConfirmSelect: basic.ConfirmSelectOk,
        }
        if isinstance(method, connection.ConnectionStartOk):
            self._say(0, connection.ConnectionTune(channel_max=100, frame_max=FRAME_MAX, heartbeat=0))
        elif type(method) in answers:
            self._say(channel, answers[type(method)]())
        elif isinstance(method, basic.BasicConsume):
            self._say(channel, basic.BasicConsumeOk(consumer_tag=method.consumer_tag))
            self._deliver(channel, method)
        if isinstance(method, basic.ConfirmSelect):
            self._take(channel)
        self._over = isinstance(method, connection.ConnectionClose)

    def _take(self, channel: int) -> None:
        """Messages come, each as long as the first."""
        length, confirmed = self._first_bytes(), 0
        received = len(self._rest)
        while confirmed < self._messages:
            count = received // length
            if count > confirmed:
                confirmed = count
                self._socket.sendall(SETTLED.pack(1, channel, 13, basic.BasicAck.INDEX, count, 1, 0xCE))
            if confirmed < self._messages:
                received += len(self._received())
        self._rest = b""

    def _first_bytes(self) -> int:
        """Of method, header and body; they stay."""
        end = 0
        for _ in range(3):
            while len(self._rest) < end + _HEAD.size or len(self._rest) < end + self._bytes_at(end):
                self._receive()
            end += self._bytes_at(end)
        return end

    def _deliver(self, channel: int, consumed: basic.BasicConsume) -> None:
        method = basic.BasicDeliver(
            consumer_tag=consumed.consumer_tag, delivery_tag=0, exchange="", routing_key=consumed.queue
        )
        properties = Properties.of(delivery_mode=2).raw
        one = b"".join(map(bytes, content_frames(channel, method, properties, bytes(self._size), FRAME_MAX)))
        place = _HEAD.size + 4 + 1 + len(consumed.consumer_tag.encode())
        frames = bytearray(one * self._window)
        sent = acknowledged = received = 0
        data = self._rest
        while acknowledged < self._messages:
            count = min(self._window - (sent - acknowledged), self._messages - sent)
            for number in range(count):
                sent += 1
                struct.pack_into(">Q", frames, number * len(one) + place, sent)
            if count:
                self._socket.sendall(memoryview(frames)[: count * len(one)])
            data = self._received()
            received += len(data)
            acknowledged = min(self._messages, received // SETTLED.size)
        # Behind the last acknowledgement the client may have said that it goes.
        beyond = received - self._messages * SETTLED.size
        self._rest = data[len(data) - beyond :]

    # Bytes

    def _say(self, channel: int, method: Method) -> None:
        self._socket.sendall(method_frame(channel, method))

    def _received(self) -> bytes:
        data = self._socket.recv(RECEIVE_BYTES)
        if not data:
            raise BenchmarkError("the client went before it was done")
        return data

    def _receive(self) -> None:
        self._rest += self._received()

    def _bytes_at(self, at: int) -> int:
        return int(_HEAD.unpack_from(self._rest, at)[2]) + EMPTY_FRAME_BYTES

    def _frame(self) -> tuple[int, int, bytes]:
        while len(self._rest) < _HEAD.size or len(self._rest) < self._bytes_at(0):
            self._receive()
        kind, channel, length = _HEAD.unpack_from(self._rest)
        payload = self._rest[_HEAD.size : _HEAD.size + length]
        self._rest = self._rest[length + EMPTY_FRAME_BYTES :]
        return kind, channel, payload
