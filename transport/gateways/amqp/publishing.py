"""``basic.publish`` read by hand: messages in a row, with their headers and bodies, at a fifth of what frame by frame takes.

A message whose method, properties and size are those of the last one is known by the bytes before its body, in one comparison. One that
has a header of its own is known by its method's frame. What is not usual is left to `frames`, which says what is wrong with it.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from transport.gateways.amqp.basic_methods import BasicPublish
from transport.gateways.amqp.contents import BASIC, HEADER_BYTES
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.events import Published
from transport.gateways.amqp.layout import (
    EMPTY_FRAME_BYTES,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_METHOD,
    HEAD_BYTES,
)
from transport.gateways.amqp.method_codec import INDEX, decode_method
from transport.gateways.amqp.properties import check_properties
from transport.wire.receiving import Part

MAX_GROUP_MESSAGES: Final = 256
"""Messages of one event: a share of a turn."""
LEAST_GROUP_MESSAGES: Final = 8
"""The same at first, and once something was given back that no queue took: that goes message by message. Each group then has twice as many
as the last, up to all."""
MAX_GROUP_BYTES: Final = 256 << 10
"""Bytes after which an event has no further message: what one receive brings."""
MAX_KNOWN: Final = 128
"""Publishes that a connection's bytes are compared with: a publisher has some keys that it repeats, or never repeats one."""

_PUBLISH: Final = INDEX.pack(BasicPublish.INDEX)
_BASIC: Final = Struct(">HH").pack(BASIC, 0)
"""Class and weight of a header."""
_METHOD: Final = Struct(">3sII")
"""Type and channel, bytes of the payload, index."""
_SIZE: Final = Struct(">I")
_HEADER: Final = Struct(">3sI4sQ")
"""Type and channel, bytes of the payload, class and weight, bytes of the body."""
_PROPERTIES_AT: Final = HEAD_BYTES + HEADER_BYTES
_NAMES_AT: Final = 6

# A frozen dataclass sets each field through `object`; its slots themselves do so in a third of the time.
_slots: Any = BasicPublish
_set_ticket, _set_exchange, _set_routing_key = (
    _slots.ticket.__set__,
    _slots.exchange.__set__,
    _slots.routing_key.__set__,
)
_set_mandatory, _set_immediate = _slots.mandatory.__set__, _slots.immediate.__set__


def decode_publish(payload: bytes) -> BasicPublish:
    """`decode_method` of a ``basic.publish``, by hand. Errors as there."""
    try:
        at = _NAMES_AT + payload[_NAMES_AT] + 1
        end = at + payload[at] + 1
        bits = payload[end]
        if end + 1 != len(payload):
            raise IndexError(end)
        publish = object.__new__(BasicPublish)
        _set_ticket(publish, payload[4] << 8 | payload[5])
        _set_exchange(publish, payload[_NAMES_AT + 1 : at].decode())
        _set_routing_key(publish, payload[at + 1 : end].decode())
        _set_mandatory(publish, bits & 1 == 1)
        _set_immediate(publish, bits & 2 == 2)
    except (IndexError, UnicodeDecodeError):
        method = decode_method(payload)  # says what is wrong
        assert isinstance(method, BasicPublish)
        return method
    return publish


class PublishReader:
    """Reads publishes of one connection, those of one channel at a time.

    Attributes:
        at: where the bytes begin that were not read.
        begun: the method of a message whose header or body is not there, or not as usual; None where the last one is whole.
        error: what is wrong behind the messages that were given.
        most_messages: of the next event.
    """

    __slots__ = (
        "_before_body",
        "_begins",
        "_body_bytes",
        "_channel",
        "_frame",
        "_known",
        "_last",
        "_layout",
        "_layout_of",
        "_raw",
        "at",
        "begun",
        "error",
        "most_messages",
    )

    def __init__(self) -> None:
        self.at = 0
        self.begun: BasicPublish | None = None
        self.error: AmqpError | None = None
        self.most_messages = MAX_GROUP_MESSAGES
        self._known: dict[bytes, BasicPublish] = {}
        # The last publish of a channel: its method and the method's frame, its properties, and all bytes before a body of that size.
        self._of(0)
        self._last = BasicPublish()
        self._raw = b""
        self._body_bytes = 0
        # Of messages that begin alike: how long that and the body are, and how they are taken apart.
        self._layout_of = 0, 0
        self._layout = Struct("")

    def grows(self) -> bool:
        """Whether the last event may have had fewer messages than others; the next one may have twice as many."""
        if self.most_messages >= MAX_GROUP_MESSAGES:
            return False
        self.most_messages *= 2
        return True

    def publish(self, payload: bytes) -> BasicPublish:
        """The method of a payload, decoded where no equal one was lately; errors as of `decode_method`."""
        method = self._known.get(payload)
        if method is None:
            method = decode_publish(payload)
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[payload] = method
        return method

    def _of(self, channel: int) -> None:
        """Know nothing but how the frames of a channel begin; the body's with what ends the header's."""
        self._channel = channel
        number = channel.to_bytes(2, "big")
        self._begins = (
            bytes((FRAME_METHOD,)) + number,
            bytes((FRAME_HEADER,)) + number,
            bytes((FRAME_END, FRAME_BODY)) + number,
        )
        self._frame = self._before_body = b""

    # One function by hand: a call for each message, or a field of an object, would cost a tenth each.
    def read(  # noqa: PLR0912, PLR0915
        self, buffer: bytes, at: int, channel: int, frame_max: int, most_bytes: int
    ) -> Published | None:
        """The messages of ``channel`` from ``at`` on, the first method of which is there; None where none is complete and as usual."""
        if self._channel != channel:
            self._of(channel)
        method, frame, before_body, raw, body_bytes = (
            self._last,
            self._frame,
            self._before_body,
            self._raw,
            self._body_bytes,
        )
        limit, most_messages = len(buffer), self.most_messages
        method_of, header_of, body_of = self._begins
        known = self._known
        methods: list[BasicPublish] = []
        all_properties: list[bytes] = []
        bodies: list[Part] = []
        size, begun = 0, False
        self.error = self.begun = None
        try:
            while len(methods) < most_messages and size < MAX_GROUP_BYTES:
                if before_body and buffer.startswith(before_body, at):
                    body_at = at + len(before_body)
                    end = body_at + body_bytes
                    if buffer.startswith(before_body, end + 1):
                        most = min(
                            most_messages - len(methods), -(-(MAX_GROUP_BYTES - size) // (body_bytes + len(raw)))
                        )
                        equal = self._equal(buffer, at, before_body, body_bytes, most)
                        if equal:
                            methods += [method] * len(equal)
                            all_properties += [raw] * len(equal)
                            bodies += equal
                            size += len(equal) * (body_bytes + len(raw))
                            at += len(equal) * (len(before_body) + body_bytes + 1)
                            continue
                    if end < limit and buffer[end] == FRAME_END:
                        methods.append(method)
                        all_properties.append(raw)
                        bodies.append(buffer[body_at:end])
                        size += body_bytes + len(raw)
                        at = end + 1
                        continue
                start = at
                if frame and buffer.startswith(frame, at):
                    at += len(frame)
                else:
                    if limit - at < _METHOD.size:
                        break
                    of, length, index = _METHOD.unpack_from(buffer, at)
                    end = at + EMPTY_FRAME_BYTES + length
                    if (
                        of != method_of
                        or index != BasicPublish.INDEX
                        or length > frame_max
                        or end > limit
                        or buffer[end - 1] != FRAME_END
                    ):
                        break
                    payload = buffer[at + HEAD_BYTES : end - 1]
                    method = known.get(payload) or self.publish(payload)
                    frame, before_body = buffer[at:end], b""
                    at = end
                begun = True
                if limit - at < _HEADER.size:
                    break
                of, length, class_and_weight, announced = _HEADER.unpack_from(buffer, at)
                body_head = at + EMPTY_FRAME_BYTES + length
                body_at = body_head + HEAD_BYTES
                end = body_at + announced
                if (
                    of != header_of
                    or class_and_weight != _BASIC
                    or not HEADER_BYTES < length <= frame_max
                    or not 0 < announced <= most_bytes
                    or announced > frame_max
                    or end >= limit
                    or buffer[end] != FRAME_END
                    or not buffer.startswith(body_of, body_head - 1)
                    or _SIZE.unpack_from(buffer, body_at - 4)[0] != announced
                ):
                    break
                properties = buffer[at + _PROPERTIES_AT : body_head - 1]
                if properties != raw:
                    check_properties(properties)
                    raw, before_body = properties, b""
                else:
                    before_body, body_bytes = buffer[start:body_at], announced
                methods.append(method)
                all_properties.append(properties)
                bodies.append(buffer[body_at:end])
                size += announced + len(properties)
                at = end + 1
                begun = False
                if at >= limit:
                    break
        except AmqpError as error:
            self.error = error.about(BasicPublish.INDEX, channel)
        self.at = at
        self.begun = method if begun else None
        self._last, self._frame, self._before_body, self._raw, self._body_bytes = (
            method,
            frame,
            before_body,
            raw,
            body_bytes,
        )
        return Published(channel, methods, all_properties, bodies, size) if methods else None

    def _equal(self, buffer: bytes, at: int, before: bytes, body_bytes: int, most: int) -> list[Part]:
        """The bodies of messages in a row that begin alike and are as long, ``most`` at most."""
        if self._layout_of != (len(before), body_bytes):
            self._layout_of = len(before), body_bytes
            self._layout = Struct(f"{len(before)}s{body_bytes}sB")
        layout = self._layout
        whole = min(most, (len(buffer) - at) // layout.size) * layout.size
        found: list[Part] = []
        for begins, body, ends in layout.iter_unpack(memoryview(buffer)[at : at + whole]):
            if ends != FRAME_END or begins != before:
                break
            found.append(body)
        return found
