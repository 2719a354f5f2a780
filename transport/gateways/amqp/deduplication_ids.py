"""The id by which a message over AMQP is told from others: its header ``x-deduplication-header``, as RabbitMQ's plugin has it.

A text, bytes, or an integer, which is the text of its decimal digits. Any other value is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.limits import DEDUPLICATION_HEADER, MAX_DEDUPLICATION_ID_BYTES
from transport.gateways.amqp.basic_methods import BasicPublish
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.field_types import INTEGERS
from transport.gateways.amqp.plain_tables import is_text
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from actors.batch import HeaderValue

NAME: Final = DEDUPLICATION_HEADER.encode()
"""What is among the bytes of properties that have one."""


def id_of(raw: bytes) -> HeaderValue | None:
    """The id that these properties say; None where they say none."""
    try:
        table = Properties(raw).headers
    except AmqpError:
        # The header that carries them is no secret: somebody else wrote it.
        return None
    field = None if table is None else table.field(DEDUPLICATION_HEADER)
    value = None if field is None else field.value
    if isinstance(value, bytes | bytearray):
        return bytes(value) or None
    if isinstance(value, str):
        # Bytes that are no UTF-8 are kept in a text as surrogates.
        return (value if is_text(value) else value.encode("utf-8", "surrogateescape")) or None
    return str(value) if field is not None and field.kind in INTEGERS else None


def check_id(raw: bytes) -> None:
    """Raise AmqpError, PRECONDITION_FAILED, for properties with an id that is too long."""
    said = id_of(raw) or b""
    size = len(said.encode() if isinstance(said, str) else said)
    if size > MAX_DEDUPLICATION_ID_BYTES:
        text = (
            f"{DEDUPLICATION_HEADER} of {size} bytes exceeds {MAX_DEDUPLICATION_ID_BYTES}: send a digest of it instead"
        )
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, text, BasicPublish.INDEX)
