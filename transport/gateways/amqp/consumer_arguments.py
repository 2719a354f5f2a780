"""Arguments of ``basic.consume``. What nobody knows is passed over; texts are RabbitMQ's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.field_types import integer_of
from transport.gateways.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from transport.gateways.amqp.names import Names
    from transport.gateways.amqp.tables import Table

PRIORITY: Final = "x-priority"


def priority_of(arguments: Table, names: Names, queue: str) -> int:
    """A consumer's priority, any integer; 0 where it says none.

    Args:
        arguments: as they came.
        names: of the virtual host.
        queue: the queue's name there.

    Raises:
        AmqpError: PRECONDITION_FAILED: it is no integer.
    """
    field = arguments.field(PRIORITY) if arguments.entries else None
    if field is None:
        return 0

    def refuse(why: str) -> NoReturn:
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"invalid arg '{PRIORITY}' for {names.queue_text(queue)}: {why}")

    return integer_of(field, refuse)
