"""What a client of AMQP is told of errors that are the broker's: their codes as AMQP's reply codes."""

from __future__ import annotations

from typing import Final

from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.reply_codes import ReplyCode

_OF_A_CONNECTION: Final = {
    "authentication-failed": ReplyCode.ACCESS_REFUSED,
    "authentication-required": ReplyCode.ACCESS_REFUSED,
    "connection-closed": ReplyCode.CONNECTION_FORCED,
    "forbidden": ReplyCode.ACCESS_REFUSED,
    "frame-too-large": ReplyCode.FRAME_ERROR,
    "limit-exceeded": ReplyCode.RESOURCE_ERROR,
    "protocol-error": ReplyCode.SYNTAX_ERROR,
    "shutting-down": ReplyCode.CONNECTION_FORCED,
    "timeout": ReplyCode.CONNECTION_FORCED,
}
"""What ends a connection. What is not here is a trouble of the broker."""

_OF_A_CHANNEL: Final = {
    "forbidden": ReplyCode.ACCESS_REFUSED,
    "not-found": ReplyCode.NOT_FOUND,
    "queue-deleted": ReplyCode.NOT_FOUND,
    "shutting-down": ReplyCode.CONNECTION_FORCED,
}
"""What ends a channel, or its connection where the reply code is of that kind. What is not here is a precondition that does not hold."""

TROUBLE: Final = frozenset({"internal-error", "journal-failed", "timeout"})
"""Codes of what is nobody's fault but the broker's."""


def of_connection(code: str, text: str) -> AmqpError:
    """The error that ends a connection for an error with this code and text of the broker's."""
    return AmqpError(_OF_A_CONNECTION.get(code, ReplyCode.INTERNAL_ERROR), text)


def of_channel(code: str, text: str, index: int, channel: int) -> AmqpError:
    """The same of what one channel has asked for, by the method with this index."""
    if code in TROUBLE:
        return AmqpError(ReplyCode.INTERNAL_ERROR, text, index, channel)
    return AmqpError(_OF_A_CHANNEL.get(code, ReplyCode.PRECONDITION_FAILED), text, index, channel)
