"""A connection of AMQP to any broker, whose answers are plain facts that can be compared with another broker's."""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, Final, NamedTuple

from pamqp import header as pamqp_header

from tests.transport.gateways.amqp.raw_amqp import CLOSE, HANDSHAKE, methods
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp.layout import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.method_codec import decode_method

SECONDS: Final = 30.0
"""In which what is awaited must come: a broker that is silent for so long has a defect."""
RECEIVE_BYTES: Final = 1 << 18
ENDED: Final = "the stream ended"
CONFIRMS: Final = ("basic.ack", "basic.nack")
_HEAD: Final = struct.Struct(">BHI")
_NEITHER_HAS: Final = ("x-last-death-", "penstock-dead-")
"""Beginnings of headers that one broker adds to a dead letter, and the other does not: the first came with RabbitMQ 3.13."""
_DEATHS: Final = "x-death"
_NEW_LINE: Final = re.compile(r"\n *")
_COUNT: Final = "x-delivery-count"


class Heard(NamedTuple):
    """One thing that a broker said.

    Attributes:
        channel: where; 0 for the connection.
        name: of the method, or `ENDED`.
        facts: its arguments by name, and of a content its properties and body.
    """

    channel: int
    name: str
    facts: dict[str, Any]


class SilentBrokerError(Exception):
    """What was awaited did not come."""


class Peer:
    """One connection, opened at once.

    Args:
        port: the broker's, on loopback.
        channels: numbers of the channels to be opened.

    Attributes:
        heard: all that came and was not taken, in order; confirms are not among it.
        closed: channels that the broker has closed, and 0 where it has closed the connection.
        owed: numbers of messages that were published and are not confirmed, by channel.
        confirmed: those that were, and whether they are stored, by channel, not taken yet.
    """

    def __init__(self, port: int, channels: Iterable[int]) -> None:
        self.heard: list[Heard] = []
        self.closed: set[int] = set()
        self.owed: dict[int, set[int]] = {}
        self.confirmed: dict[int, dict[int, bool]] = {}
        self._socket = socket.create_connection(("127.0.0.1", port), SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()
        # A method whose content is not whole yet: its channel, itself, properties, size, and what there is of the body.
        self._begun: tuple[int, Method] | None = None
        self._properties: dict[str, Any] = {}
        self._size = 0
        self._body = b""
        self.write(HANDSHAKE)
        self.await_one(lambda heard: heard.name == "connection.open-ok")
        for channel in channels:
            self.open(channel)
        self.heard.clear()

    def open(self, channel: int) -> None:
        """Open a channel, as a client does whose channel was closed."""
        self.closed.discard(channel)
        self.owed.pop(channel, None)
        self.confirmed.pop(channel, None)
        self.say(channel, connection.ChannelOpen())
        self.await_one(lambda heard: heard.channel == channel and heard.name == "channel.open-ok")
        self.heard[:] = [heard for heard in self.heard if heard.name != "channel.open-ok"]

    def close(self) -> None:
        """Go as a client goes."""
        if 0 not in self.closed:
            self.say(0, CLOSE)
            self.await_one(lambda heard: heard.name in ("connection.close-ok", ENDED))
        self._socket.close()

    def say(self, channel: int, *said: Method) -> None:
        """Write methods."""
        self.write(methods(channel, *said))

    def write(self, data: bytes) -> None:
        """Write frames; a broker that has gone meanwhile is found out when it is heard."""
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            if 0 not in self.closed:
                self._ended()

    def await_one(self, wanted: Callable[[Heard], bool]) -> None:
        """Hear until this comes, or the end of the stream."""
        seen = 0
        deadline = time.monotonic() + SECONDS
        while True:
            for heard in self.heard[seen:]:
                if wanted(heard) or heard.name == ENDED:
                    return
            seen = len(self.heard)
            self._hear(deadline)

    def await_confirms(self, channel: int) -> None:
        """Hear until nothing is owed on a channel, or it is closed."""
        deadline = time.monotonic() + SECONDS
        while self.owed.get(channel) and not self.closed & {0, channel}:
            self._hear(deadline)

    def _hear(self, deadline: float) -> None:
        self._socket.settimeout(max(0.001, deadline - time.monotonic()))
        try:
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            raise SilentBrokerError(f"nothing came for {SECONDS:g} s; before that {self.heard[-3:]}") from None
        except ConnectionResetError:
            data = b""
        if not data:
            self._ended()
            return
        self._received += data
        at = 0
        while len(self._received) - at >= _HEAD.size:
            kind, channel, size = _HEAD.unpack_from(self._received, at)
            begin = at + _HEAD.size
            if len(self._received) <= begin + size:
                break
            assert self._received[begin + size] == 0xCE, "a frame without an end"
            at = begin + size + 1
            self._frame(kind, channel, bytes(self._received[begin : begin + size]))
        del self._received[:at]

    def _frame(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == FRAME_METHOD:
            method = decode_method(payload)
            if type(method).CONTENT:
                self._begun, self._body = (channel, method), b""
            else:
                self._method(channel, method)
        elif kind == FRAME_HEADER:
            head = pamqp_header.ContentHeader()
            head.unmarshal(payload)
            assert head.properties is not None
            self._properties = _told(dict(head.properties))
            self._size = head.body_size
            self._content_if_whole()
        elif kind == FRAME_BODY:
            self._body += payload
            self._content_if_whole()
        else:
            assert kind == FRAME_HEARTBEAT, kind

    def _content_if_whole(self) -> None:
        if len(self._body) < self._size or self._begun is None:
            return
        (channel, method), self._begun = self._begun, None
        facts = _facts(method) | {"properties": self._properties, "body": self._body}
        self.heard.append(Heard(channel, method.NAME, facts))

    def _method(self, channel: int, method: Method) -> None:
        if isinstance(method, basic.BasicAck | basic.BasicNack):
            self._confirm(channel, method.delivery_tag, method.multiple, isinstance(method, basic.BasicAck))
            return
        self.heard.append(Heard(channel, method.NAME, _facts(method)))
        if isinstance(method, connection.ChannelClose):
            self.closed.add(channel)
            self.say(channel, connection.ChannelCloseOk())
        elif isinstance(method, connection.ConnectionClose):
            self.closed.add(0)
            self.write(methods(0, connection.ConnectionCloseOk()))

    def _confirm(self, channel: int, tag: int, multiple: bool, stored: bool) -> None:
        owed = self.owed.setdefault(channel, set())
        told = {each for each in owed if each <= tag} if multiple else {tag} & owed
        if not told:
            # Nobody is told twice, nor of what they have not published.
            self.heard.append(Heard(channel, "a confirm of nothing", {"tag": tag, "multiple": multiple}))
        owed -= told
        self.confirmed.setdefault(channel, {}).update(dict.fromkeys(told, stored))

    def _ended(self) -> None:
        self.closed.add(0)
        self.heard.append(Heard(0, ENDED, {}))


def _facts(method: Method) -> dict[str, Any]:
    facts = {field.name: getattr(method, field.name) for field in fields(method)}  # type: ignore[arg-type]
    if "reply_text" in facts:
        # Erlang begins a new line where a term would be too long.
        facts["reply_text"] = _NEW_LINE.sub("", facts["reply_text"])
    return facts


def _told(properties: dict[str, Any]) -> dict[str, Any]:
    """Those that were set; of a dead letter's history without its times."""
    told = {name: value for name, value in properties.items() if value is not None}
    if headers := told.get("headers"):
        # Of a message that is got RabbitMQ 3 says that it has not failed, of one that is delivered it does not.
        own = {
            name: value
            for name, value in headers.items()
            if (name, value) != (_COUNT, 0) and not name.startswith(_NEITHER_HAS)
        }
        if isinstance(deaths := own.get(_DEATHS), list):
            own[_DEATHS] = _history(deaths)
            # Where a queue gives its dead letters another key RabbitMQ 3 takes the header out; 4 does not, nor does a broker of ours.
            own.pop("CC", None)
        told["headers"] = own
        if not own:
            del told["headers"]
    return told


def _history(deaths: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last death, and those before it in an order of their own: RabbitMQ 3 turns theirs round with each that comes."""
    told = [{name: value for name, value in sorted(death.items()) if name != "time"} for death in deaths]
    return told[:1] + sorted(told[1:], key=repr)
