"""What a client of AMQP is told of errors that are the broker's: their codes as AMQP's reply codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.errors import QueueError, StorageError
from transport.errors import ForbiddenError, TransportError
from transport.gateways.amqp.basic_methods import BasicPublish
from transport.gateways.amqp.entity_methods import (
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from transport.gateways.amqp.names import Names

_OF_A_CONNECTION: Final = {
    "authentication-failed": ReplyCode.ACCESS_REFUSED,
    "authentication-required": ReplyCode.ACCESS_REFUSED,
    "closed": ReplyCode.CONNECTION_FORCED,
    "connection-closed": ReplyCode.CONNECTION_FORCED,
    "forbidden": ReplyCode.ACCESS_REFUSED,
    "frame-too-large": ReplyCode.FRAME_ERROR,
    "limit-exceeded": ReplyCode.RESOURCE_ERROR,
    "not-leader": ReplyCode.CONNECTION_FORCED,
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


TROUBLES: Final = (QueueError, TransportError, StorageError, TimeoutError)
"""What the broker answers with that does not do what was asked for."""
_EXCHANGES: Final = ExchangeDeclare.INDEX >> 16
"""The class of methods whose resources are exchanges;"""
_EXCHANGE_READ: Final = frozenset({QueueBind.INDEX, QueueUnbind.INDEX})
"""those of queues that read from an exchange;"""
_EXCHANGE_WRITTEN: Final = frozenset({QueueDeclare.INDEX, BasicPublish.INDEX})
"""and those that write to one."""
_NEEDED: Final = {
    QueueDeclare.INDEX: "configure",
    QueueDelete.INDEX: "configure",
    ExchangeDeclare.INDEX: "configure",
    ExchangeDelete.INDEX: "configure",
    QueueBind.INDEX: "write",
    QueueUnbind.INDEX: "write",
    BasicPublish.INDEX: "write",
}
"""The right that RabbitMQ asks for first, where somebody has none at all; of other methods it is to read."""


def refusal_of(error: Exception, names: Names, index: int, channel: int) -> AmqpError:
    """What a channel is told of one of `TROUBLES`, by the names of its virtual host; the log of who did what says the same right.

    Args:
        error: what the broker has answered.
        names: of the virtual host.
        index: the method that has asked.
        channel: where.
    """
    if isinstance(error, StorageError):
        text = f"the broker can store nothing any more and stops: {error}"
        return of_channel("journal-failed", text, index, channel)
    if isinstance(error, TimeoutError):
        return of_channel("timeout", "the broker has not done it in time: try again", index, channel)
    assert isinstance(error, QueueError | TransportError), "they are no others"
    if isinstance(error, ForbiddenError) and error.resource is not None:
        return AmqpError(ReplyCode.ACCESS_REFUSED, _refused(error, error.resource, names, index), index, channel)
    return of_channel(error.code, names.shown(str(error)), index, channel)


def _refused(error: ForbiddenError, resource: str, names: Names, index: int) -> str:
    """RabbitMQ's text of a right that is missing. What a resource is the method tells: rights do not."""
    name, right = names.shown_name(resource), error.right or _NEEDED.get(index, "read")
    if error.log is not None:
        error.log(right)
    exchange = (
        index >> 16 == _EXCHANGES
        or (right == "read" and index in _EXCHANGE_READ)
        or (right == "write" and index in _EXCHANGE_WRITTEN)
    )
    what = names.exchange_text(name) if exchange else names.queue_text(name)
    return f"{right} access to {what} refused for user '{error.user}'"
