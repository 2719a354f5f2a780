"""AMQP's frames out of a stream of bytes, without I/O: bytes in, events out (AMQP 0-9-1, 4.2.1 to 4.2.6).

What clients say most is read by hand, and in groups: a publish whose method equals the last one is known by its bytes, with its header
and body behind it, and acknowledgements in a row become one list. All else goes frame by frame.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from transport.gateways.amqp.basic_methods import BasicAck, BasicNack, BasicPublish, BasicReject
from transport.gateways.amqp.connection_methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
)
from transport.gateways.amqp.contents import (
    HEADER_BYTES,
    MAX_MESSAGE_BYTES,
    UNFINISHED_MESSAGES,
    Content,
    too_large,
)
from transport.gateways.amqp.errors import AmqpError, WrongProtocolError, frame_text
from transport.gateways.amqp.events import (
    Event,
    Heartbeat,
    MethodReceived,
    ProtocolHeader,
    Published,
    Refused,
    Settled,
)
from transport.gateways.amqp.layout import (
    EMPTY_FRAME_BYTES,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEAD,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    HEAD_BYTES,
    MIN_FRAME_MAX,
    PROTOCOL_HEADER,
)
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.method_codec import INDEX, decode_method
from transport.gateways.amqp.publishing import PublishReader
from transport.gateways.amqp.reply_codes import ReplyCode

MAX_GROUP_TAGS: Final = 1024
"""Acknowledgements of one event."""
MAX_KNOWN_METHODS: Final = 16
"""Methods, beside publishes, that a connection's bytes are compared with: who polls says one again and again."""
MAX_KNOWN_METHOD_BYTES: Final = 128
"""Of one that is kept to be compared with."""

_AMQP: Final = b"AMQP"
_VERSIONS: Final = {PROTOCOL_HEADER: (0, 9, 1), b"AMQP\x01\x01\0\x09": (0, 9, 0)}
_CONTENT_HEADER: Final = Struct(">HHQ")
_HEADER_AT: Final = HEAD_BYTES + HEADER_BYTES
_SETTLE: Final = Struct(">11sQH")
_SETTLE_PAYLOAD_BYTES: Final = 13
_SETTLES: Final = frozenset({BasicAck.INDEX, BasicNack.INDEX, BasicReject.INDEX})
_LAST_WORDS: Final = frozenset({ChannelClose.INDEX, ChannelCloseOk.INDEX})
_LAST_WORDS_OF_ALL: Final = frozenset({ConnectionClose.INDEX, ConnectionCloseOk.INDEX})
_SECRETS_CLASS: Final = ConnectionClose.INDEX >> 16
"""Methods of the class connection have secrets: they are not kept."""


class FrameDecoder:
    """The server's side of one connection's stream; each event only when it is asked for.

    A channel is open from its ``channel.open`` to a close, of which it hears itself. On one that is not open nothing is put together. Who
    tells a channel or the connection to close says so, by `discard_channel` or `discard_all`.

    Args:
        max_message_bytes: of one message's body.

    Attributes:
        pieces: frames of contents that have come.
        frame_max: the limit in force, with a frame's head and end; as RabbitMQ, a payload of this size passes too.
        publishing: what reads messages.
    """

    __slots__ = (
        "_at",
        "_buffer",
        "_channels",
        "_deaf",
        "_discarded",
        "_error",
        "_greeted",
        "_held",
        "_methods",
        "_need",
        "_ready",
        "_rest",
        "_unfinished",
        "frame_max",
        "max_message_bytes",
        "pieces",
        "publishing",
    )

    def __init__(self, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self.frame_max = MIN_FRAME_MAX
        self.max_message_bytes = max_message_bytes
        # What was received and not looked at; and a frame that is only partly there, with the bytes that it needs.
        self._buffer, self._at = b"", 0
        self._rest, self._need = bytearray(), 0
        self._greeted = self._deaf = False
        self._ready: Event | None = None
        self._error: AmqpError | None = None
        # Open channels and what each is putting together; what of it was announced; channels that are being closed.
        self._channels: dict[int, Content | None] = {}
        self._unfinished = self._held = self.pieces = 0
        self._discarded: set[int] = set()
        self._methods: dict[bytes, Method] = {}
        self.publishing = PublishReader()

    def receive(self, data: memoryview | bytes) -> None:
        """Take what has come; ``data`` is valid during the call."""
        if self._error is not None:
            return
        if self._rest:
            self._rest += data
            if len(self._rest) < self._need:
                return
            received, self._rest = bytes(self._rest), bytearray()
        else:
            received = bytes(data)
        self._buffer = self._buffer[self._at :] + received if self._at < len(self._buffer) else received
        self._at = 0

    def next_event(self) -> Event | None:
        """The next event that is complete; None where there is none.

        Raises:
            AmqpError: the peer broke the protocol. The stream cannot be read on.
        """
        if not self.waiting:
            return None
        event, self._ready = self._ready, None
        if event is None:
            assert self._error is not None
            raise self._error
        return event

    @property
    def waiting(self) -> bool:
        """Whether `next_event` would give one now, or raise."""
        if self._ready is None and self._error is None:
            if self._at >= len(self._buffer):
                return False
            try:
                self._ready = self._parse()
            except AmqpError as error:
                self._fail(error)
        return self._ready is not None or self._error is not None

    @property
    def kept(self) -> int:
        """Bytes that were received and are held, beside those of methods that are remembered."""
        held = len(self._buffer) - self._at + len(self._rest) + self._held
        return held + self._ready.size if isinstance(self._ready, Published) else held

    @property
    def whole(self) -> int:
        """Bytes that will be held when the frame that has begun is complete, or the contents that have; 0 where none has."""
        left = self._unfinished - self._held
        kept = self.kept
        if self._rest:
            return max(kept - len(self._rest) + self._need, kept + left)
        return kept + left if left else 0

    def let_go(self) -> None:
        """Keep nothing: the stream is read no more."""
        self.discard_all()
        self._buffer, self._at, self._rest = b"", 0, bytearray()

    def discard_channel(self, channel: int) -> None:
        """A channel was told to close: all that comes there is passed over, but its own close and the answer to ours."""
        self._close(channel)
        self._discarded.add(channel)
        self._drop_ready(_LAST_WORDS, channel)

    def discard_all(self) -> None:
        """The connection was told to close: all that comes is passed over, but its own close and the answer to ours."""
        self._deaf = True
        self._channels.clear()
        self._unfinished = self._held = 0
        self._drop_ready(_LAST_WORDS_OF_ALL, None)

    def _drop_ready(self, unless: frozenset[int], channel: int | None) -> None:
        """Let go of the event that was looked at beforehand, if it is of this channel, or of any for None, and not one of these."""
        ready = self._ready
        if isinstance(ready, MethodReceived) and ready.method.INDEX in unless:
            return
        if channel is None or getattr(ready, "channel", None) == channel:
            self._ready = None

    def _open(self, channel: int) -> None:
        """Contents are put together there from now on."""
        self._close(channel)
        self._channels[channel] = None

    def _close(self, channel: int) -> None:
        """What has begun there is let go."""
        content = self._channels.pop(channel, None)
        if content is not None:
            self._unfinished -= content.left + content.kept
            self._held -= content.kept

    def _fail(self, error: AmqpError) -> None:
        """The stream ends with this error; nothing of it is kept."""
        self._error = error
        self._buffer, self._at, self._rest = b"", 0, bytearray()
        self._channels.clear()
        self._unfinished = self._held = 0

    def _parse(self) -> Event | None:
        """The next event, looking at as many frames as it takes."""
        if not self._greeted and self._buffer:
            return self._header()
        while self._at < len(self._buffer):
            buffer, at = self._buffer, self._at
            if len(buffer) - at < HEAD_BYTES:
                self._wait(HEAD_BYTES)
                return None
            kind, channel, size = FRAME_HEAD.unpack_from(buffer, at)
            if size > self.frame_max:
                limit = self.frame_max - EMPTY_FRAME_BYTES
                text = f"{frame_text(kind, b'')}: {{frame_too_large,{size},{limit}}}"
                raise AmqpError(ReplyCode.FRAME_ERROR, text)
            end = at + HEAD_BYTES + size
            if end >= len(buffer):
                self._wait(size + EMPTY_FRAME_BYTES)
                return None
            if buffer[end] != FRAME_END:
                shown = frame_text(kind, buffer[at + HEAD_BYTES : end])
                raise AmqpError(ReplyCode.FRAME_ERROR, f"{shown}: {{invalid_frame_end_marker,{buffer[end]}}}")
            event = self._frame(kind, channel, at, end)
            if event is not None:
                return event
        return None

    def _wait(self, need: int) -> None:
        """Keep what has come of a frame that will have ``need`` bytes, or needs so many to be known."""
        self._rest += memoryview(self._buffer)[self._at :]
        self._need = need
        self._buffer, self._at = b"", 0

    def _header(self) -> Event | None:
        """The protocol header; whatever cannot be one is refused with its first byte that differs."""
        first = self._buffer[: len(PROTOCOL_HEADER)]
        if not _AMQP.startswith(first[: len(_AMQP)]):
            what = "an HTTP request" if first.startswith(b"GET ") else "TLS" if first[0] == 0x16 else "another protocol"
            raise WrongProtocolError(f"this is {what}, and not AMQP 0-9-1")
        if len(first) < len(PROTOCOL_HEADER):
            self._wait(len(first) + 1)
            return None
        version = _VERSIONS.get(first)
        if version is None:
            raise WrongProtocolError(f"AMQP version {'-'.join(map(str, first[4:]))} is not 0-9-1")
        self._greeted = True
        self._at = len(PROTOCOL_HEADER)
        return ProtocolHeader(version)

    def _frame(self, kind: int, channel: int, at: int, end: int) -> Event | None:
        """A frame that is complete, from ``at`` to its end octet at ``end``: what it says, or None where that is not all."""
        buffer = self._buffer
        if kind == FRAME_METHOD:
            if end - at < HEAD_BYTES + INDEX.size:
                raise self._unknown(kind, at, end)
            if self._channels.get(channel, self) is None:
                (index,) = INDEX.unpack_from(buffer, at + HEAD_BYTES)
                if index == BasicPublish.INDEX:
                    return self._publishes(channel)
                if index in _SETTLES and end - at == HEAD_BYTES + _SETTLE_PAYLOAD_BYTES:
                    return self._settles(channel, index)
        self._at = end + 1
        if kind == FRAME_METHOD:
            return self._method(channel, buffer[at + HEAD_BYTES : end])
        if kind in (FRAME_HEADER, FRAME_BODY):
            if kind == FRAME_HEADER and end - at < _HEADER_AT:
                raise self._unknown(kind, at, end)
            if self._deaf or channel in self._discarded:
                return None
            return self._part(kind, channel, buffer[at + HEAD_BYTES : end])
        if kind != FRAME_HEARTBEAT or end > at + HEAD_BYTES:
            raise self._unknown(kind, at, end)
        if channel:
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, frame_text(kind, b""))
        return Heartbeat()

    def _unknown(self, kind: int, at: int, end: int) -> AmqpError:
        shown = frame_text(kind, self._buffer[at + HEAD_BYTES : end])
        return AmqpError(ReplyCode.FRAME_ERROR, f"{shown}: unknown_frame")

    def _publishes(self, channel: int) -> Event | None:
        """Messages of one channel in a row; what is not complete, or out of order, goes on frame by frame."""
        reader = self.publishing
        event = reader.read(self._buffer, self._at, channel, self.frame_max, self.max_message_bytes)
        self._at = reader.at
        if reader.error is not None:
            self._fail(reader.error)
        elif reader.begun is not None:
            self._channels[channel] = Content(reader.begun)
        return event

    def _settles(self, channel: int, index: int) -> Settled:
        """Acknowledgements of one channel in a row that differ in their tags alone; the first is complete."""
        buffer, at = self._buffer, self._at
        step = _SETTLE.size
        most = min((len(buffer) - at) // step, MAX_GROUP_TAGS)
        head, _, last = _SETTLE.unpack_from(buffer, at)
        tags: list[int] = []
        for begin, tag, end in _SETTLE.iter_unpack(memoryview(buffer)[at : at + most * step]):
            if end != last or begin != head:
                break
            tags.append(tag)
        self._at = at + len(tags) * step
        bits = last >> 8
        if index == BasicAck.INDEX:
            return Settled(channel, index, tags, bits & 1 == 1, False)
        multiple = index == BasicNack.INDEX and bits & 1 == 1
        return Settled(channel, index, tags, multiple, (bits >> 1 if index == BasicNack.INDEX else bits) & 1 == 1)

    def _method(self, channel: int, payload: bytes) -> Event | None:
        """A method that is not in a group."""
        (index,) = INDEX.unpack_from(payload)
        if self._deaf and index not in _LAST_WORDS_OF_ALL:
            return None
        if channel in self._discarded and index not in _LAST_WORDS:
            return None
        content = self._channels.get(channel)
        if content is not None:
            raise content.unexpected().about(0, channel)
        try:
            method = self._known(index, payload)
        except AmqpError as error:
            raise error.about(index, channel) from None
        if method.CONTENT and channel in self._channels:
            if not isinstance(method, BasicPublish):
                raise AmqpError(ReplyCode.COMMAND_INVALID, "unimplemented method", index, channel)
            self._channels[channel] = Content(method)
            return None
        if index == ChannelOpen.INDEX and channel:
            self._open(channel)
        elif index in _LAST_WORDS:
            self._close(channel)
            if index == ChannelCloseOk.INDEX:
                self._discarded.discard(channel)
        return MethodReceived(channel, method)

    def _known(self, index: int, payload: bytes) -> Method:
        """The method of a payload, decoded where no equal one was lately."""
        if index == BasicPublish.INDEX:
            return self.publishing.publish(payload)
        method = self._methods.get(payload)
        if method is None:
            method = decode_method(payload)
            if len(payload) <= MAX_KNOWN_METHOD_BYTES and index >> 16 != _SECRETS_CLASS:
                if len(self._methods) >= MAX_KNOWN_METHODS:
                    self._methods.clear()
                self._methods[payload] = method
        return method

    def _part(self, kind: int, channel: int, payload: bytes) -> Event | None:
        """A header or a body of a channel's content."""
        self.pieces += 1
        content = self._channels.get(channel)
        if content is None:
            text = frame_text(kind, payload) if not channel else "expected method frame, got non method frame instead"
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, text, 0, channel)
        try:
            if kind == FRAME_BODY:
                content.fragment(payload)
                self._held += len(payload)
            else:
                class_id, weight, size = _CONTENT_HEADER.unpack_from(payload)
                content.header(payload, class_id, weight, size)
                self._held += content.kept
                self._unfinished += content.kept + size
                if size > self.max_message_bytes:
                    self.discard_channel(channel)
                    return Refused(channel, too_large(size, self.max_message_bytes, content.method.INDEX, channel))
                most = UNFINISHED_MESSAGES * self.max_message_bytes + self.frame_max
                if self._unfinished > most:
                    text = f"messages that are not complete would be {self._unfinished} bytes, {most} at most may be"
                    raise AmqpError(ReplyCode.RESOURCE_ERROR, text)
        except AmqpError as error:
            raise error.about(content.method.INDEX, channel) from None
        if content.left:
            return None
        self._open(channel)
        assert content.properties is not None
        return Published(channel, [content.method], [content.properties], [content.body], content.kept)
