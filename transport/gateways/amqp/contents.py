"""Contents that are put together of several frames: a state machine for each channel (AMQP 0-9-1, 4.2.6).

A content takes the memory that has come of it, never what was announced. The texts of errors are RabbitMQ's.
"""

from __future__ import annotations

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from typing import Final

from transport.gateways.amqp.basic_methods import BasicPublish
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.methods import CLASS_IDS
from transport.gateways.amqp.properties import check_properties
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.wire.frames import MAPPED_BYTES
from transport.wire.receiving import Part

MAX_MESSAGE_BYTES: Final = 128 << 20
"""Of one body, unless a broker is told otherwise: what RabbitMQ 3 takes. Who sends a larger one has the channel closed."""
MAX_ANNOUNCED_BYTES: Final = 512 << 20
"""Of one body, whatever a broker is told: who announces more has the connection closed, as RabbitMQ does."""
UNFINISHED_MESSAGES: Final = 2
"""Largest messages that one connection may have begun and not ended, over all of its channels."""
BASIC: Final = CLASS_IDS["basic"]


class Content:
    """A message whose method has come: its header is expected, then its bodies.

    Attributes:
        method: what it came with.
        properties: their bytes; None until the header has come.
        left: bytes of the body that are still to come.
        kept: bytes that are held of it.
    """

    __slots__ = ("_body", "_come", "left", "method", "properties")

    def __init__(self, method: BasicPublish, properties: bytes | None = None, left: int = 0) -> None:
        self.method = method
        self.properties = properties
        self.left = left
        self._body: Part | mmap = b""
        self._come = 0

    @property
    def kept(self) -> int:
        """Bytes that are held of it."""
        return len(self.properties or b"") + self._come

    @property
    def body(self) -> Part:
        """What has come of the body."""
        return memoryview(self._body)[: self._come] if isinstance(self._body, mmap) else self._body

    def header(self, payload: bytes, class_id: int, weight: int, size: int) -> None:
        """The header has come, ``payload`` with its properties behind twelve bytes.

        Raises:
            AmqpError: UNEXPECTED_FRAME: not this one's. FRAME_ERROR: a body beyond ``MAX_ANNOUNCED_BYTES``.
                SYNTAX_ERROR: malformed properties.
        """
        if self.properties is not None:
            raise self.unexpected()
        if weight:
            raise self.unexpected()
        if class_id != BASIC:
            text = f"expected content header for class {BASIC}, got one for class {class_id} instead"
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, text, self.method.INDEX)
        if size > MAX_ANNOUNCED_BYTES:
            text = f"content body size {size} exceeds maximum allowed size {MAX_ANNOUNCED_BYTES}"
            raise AmqpError(ReplyCode.FRAME_ERROR, text, self.method.INDEX)
        properties = payload[HEADER_BYTES:]
        check_properties(properties)
        self.properties = properties
        self.left = size

    def fragment(self, part: bytes) -> None:
        """A body frame has come.

        Raises:
            AmqpError: UNEXPECTED_FRAME: a header is expected. FRAME_ERROR: more than was announced.
        """
        if self.properties is None:
            raise self.unexpected()
        if len(part) > self.left:
            text = "content body frame exceeds remaining content size"
            raise AmqpError(ReplyCode.FRAME_ERROR, text, self.method.INDEX)
        come, whole = self._come, self._come + self.left
        self._come += len(part)
        self.left -= len(part)
        if not come and not self.left:
            self._body = part
            return
        # One buffer: a list of small parts would take forty times their size.
        if not come:
            self._body = bytearray() if whole < MAPPED_BYTES else _mapping(whole)
        if isinstance(self._body, mmap):
            self._body[come : self._come] = part
        elif isinstance(self._body, bytearray):
            self._body += part

    def unexpected(self) -> AmqpError:
        """The error for a frame that is not what is expected."""
        if self.properties is None:
            text = f"expected content header for class {BASIC}, got non content header frame instead"
        else:
            text = "expected content body, got non content body frame instead"
        return AmqpError(ReplyCode.UNEXPECTED_FRAME, text, self.method.INDEX)


def _mapping(size: int) -> mmap | bytearray:
    """Memory that takes a page when it is written to, and is the system's again at its end; a buffer that grows where it maps no more."""
    try:
        return mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    except OSError:
        return bytearray()


HEADER_BYTES: Final = 12
"""Of a content header, before the properties: class, weight, size of the body."""


def too_large(size: int, limit: int, index: int, channel: int) -> AmqpError:
    """The error for a body over the limit of messages, which closes its channel."""
    text = f"message size {size} is larger than configured max size {limit}"
    return AmqpError(ReplyCode.PRECONDITION_FAILED, text, index, channel)
