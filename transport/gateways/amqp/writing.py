"""Frames of AMQP as a server writes them: methods, contents in as many bodies as it takes, confirms, and deliveries in a row.

Deliveries of a batch differ in little: what is before the tag, and behind it, is made once for each exchange and key. All is put into one
list of parts, which its caller joins, or writes as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from struct import Struct
from typing import Final

from transport.gateways.amqp.basic_methods import BasicAck, BasicDeliver, BasicNack
from transport.gateways.amqp.contents import BASIC, HEADER_BYTES
from transport.gateways.amqp.layout import (
    EMPTY_FRAME_BYTES,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEAD,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
)
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.method_codec import encode_method, short_string
from transport.wire.receiving import Part

MAX_KNOWN_HEADERS: Final = 64
"""Properties and sizes whose header is remembered while deliveries are written."""
FEW: Final = 4
"""Deliveries of which it is looked whether they are alike; of fewer each is written by itself, which takes as long."""
MAX_COPIED_BYTES: Final = 4_096
"""Of a body that is put together with what stands around it; a larger one is a part of its own."""

_END: Final = bytes((FRAME_END,))
BODY_END: Final[Part] = memoryview(_END)
"""Behind a body: this very object, which no body is, so that whoever writes parts knows where a frame of a body ends."""
HEARTBEAT: Final = FRAME_HEAD.pack(FRAME_HEARTBEAT, 0, 0) + _END
_HEADER: Final = Struct(">BHIHHQ")
_CONFIRM: Final = Struct(">BHIIQBB")
_CONFIRM_PAYLOAD_BYTES: Final = 13
_DELIVERED: Final = Struct(">QB")
_TAG_AND_BIT_BYTES: Final = _DELIVERED.size
_INDEX: Final = Struct(">I")


def method_frame(channel: int, method: Method) -> bytes:
    """The frame of a method; raises LocalProtocolError for an argument that does not fit its type."""
    payload = encode_method(method)
    return FRAME_HEAD.pack(FRAME_METHOD, channel, len(payload)) + payload + _END


def confirm(channel: int, tag: int, multiple: bool, *, stored: bool = True) -> bytes:
    """What a publisher is told: its message with this number was stored, or was not; with ``multiple`` all before it too."""
    # Of a nack the second bit is ``requeue``, which means nothing to a publisher, and is set by default.
    index, bits = (BasicAck.INDEX, multiple) if stored else (BasicNack.INDEX, multiple | 2)
    return _CONFIRM.pack(FRAME_METHOD, channel, _CONFIRM_PAYLOAD_BYTES, index, tag, bits, FRAME_END)


def content_frames(channel: int, method: Method, properties: bytes, body: Part, frame_max: int) -> list[Part]:
    """A method with its content, as ``basic.return`` and ``basic.get-ok`` are; the body is passed on uncopied."""
    parts: list[Part] = [method_frame(channel, method)]
    _put_content(parts, channel, properties, body, frame_max)
    return parts


class Deliveries:
    """Writes the deliveries of one consumer.

    Args:
        channel: where it consumes.
        consumer_tag: its tag.
        frame_max: the largest frame that its client takes, with head and end.

    Raises:
        LocalProtocolError: a tag of more than 255 bytes.
    """

    __slots__ = ("_channel", "_frame_max", "_key", "_prefix", "_tag", "_tail")

    def __init__(self, channel: int, consumer_tag: str, frame_max: int) -> None:
        self._channel = channel
        self._tag = short_string(consumer_tag)
        self._frame_max = frame_max
        # Of the last exchange and key: the frame before the tag, and behind the bit, with its end.
        self._key: tuple[str, str] | None = None
        self._prefix = self._tail = b""

    def put(
        self,
        parts: list[Part],
        first_tag: int,
        redelivered: bool,
        exchange: str,
        routing_key: str,
        properties: Sequence[bytes],
        bodies: Sequence[Part],
    ) -> None:
        """Adds messages of one exchange and key, whose delivery tags count from ``first_tag`` on, to ``parts``.

        Raises:
            LocalProtocolError: an exchange or a key of more than 255 bytes.
        """
        if self._key != (exchange, routing_key):
            self._prepare(exchange, routing_key)
        if len(bodies) >= FEW and self._put_alike(parts, first_tag, redelivered, properties, bodies):
            return
        prefix, tail, channel = self._prefix, self._tail, self._channel
        pack = _DELIVERED.pack
        room = self._frame_max - EMPTY_FRAME_BYTES
        # Of properties and size: all that stands between the bit and the body.
        known: dict[tuple[bytes, int], bytes] = {}
        put = parts.append
        tag = first_tag
        for raw, body in zip(properties, bodies, strict=True):
            size = len(body)
            put(prefix)
            put(pack(tag, redelivered))
            tag += 1
            if not 0 < size <= room:
                put(tail)
                _put_content(parts, channel, raw, body, self._frame_max)
                continue
            between = known.get((raw, size))
            if between is None:
                if len(known) >= MAX_KNOWN_HEADERS:
                    known.clear()
                between = tail + _header(channel, raw, size) + FRAME_HEAD.pack(FRAME_BODY, channel, size)
                known[raw, size] = between
            put(between)
            put(body)
            put(BODY_END)

    def _put_alike(
        self, parts: list[Part], first_tag: int, redelivered: bool, properties: Sequence[bytes], bodies: Sequence[Part]
    ) -> bool:
        """Add messages that differ in nothing but their bodies, all as long, without a step of Python for each; False where they differ."""
        raw, size, count = properties[0], len(bodies[0]), len(bodies)
        # A small body is copied once more, and thereby is a part less.
        if not 0 < size <= min(MAX_COPIED_BYTES, self._frame_max - EMPTY_FRAME_BYTES):
            return False
        if properties.count(raw) != count or set(map(len, bodies)) != {size} or set(map(type, bodies)) != {bytes}:
            return False
        between = self._tail + _header(self._channel, raw, size) + FRAME_HEAD.pack(FRAME_BODY, self._channel, size)
        layout = Struct(f">{len(self._prefix)}sQB{len(between)}s{size}s")
        tags = range(first_tag, first_tag + count)
        whole = map(layout.pack, repeat(self._prefix), tags, repeat(redelivered), repeat(between), bodies)
        parts += chain.from_iterable(zip(whole, repeat(BODY_END)))
        return True

    def _prepare(self, exchange: str, routing_key: str) -> None:
        tail = short_string(exchange) + short_string(routing_key) + _END
        length = _INDEX.size + len(self._tag) + _TAG_AND_BIT_BYTES + len(tail) - len(_END)
        head = FRAME_HEAD.pack(FRAME_METHOD, self._channel, length)
        self._prefix = head + _INDEX.pack(BasicDeliver.INDEX) + self._tag
        self._tail = tail
        self._key = (exchange, routing_key)


def _header(channel: int, properties: bytes, size: int) -> bytes:
    """The frame of a content header."""
    return _HEADER.pack(FRAME_HEADER, channel, HEADER_BYTES + len(properties), BASIC, 0, size) + properties + _END


def _put_content(parts: list[Part], channel: int, properties: bytes, body: Part, frame_max: int) -> None:
    """Adds a header, and as many bodies as it takes; none for an empty one."""
    size = len(body)
    room = frame_max - EMPTY_FRAME_BYTES
    parts.append(_header(channel, properties, size))
    if 0 < size <= room:
        parts += FRAME_HEAD.pack(FRAME_BODY, channel, size), body, BODY_END
        return
    view = memoryview(body)
    for at in range(0, size, room):
        part = view[at : at + room]
        parts += FRAME_HEAD.pack(FRAME_BODY, channel, len(part)), part, BODY_END
