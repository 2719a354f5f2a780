"""Arguments of ``basic.consume``. What nobody knows is passed over; texts are RabbitMQ's."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.field_types import boolean_of, integer_of
from transport.gateways.amqp.reply_codes import ReplyCode

if TYPE_CHECKING:
    from transport.gateways.amqp.names import Names
    from transport.gateways.amqp.tables import Table

PRIORITY: Final = "x-priority"
ON_FAILOVER: Final = "x-cancel-on-ha-failover"
"""Of RabbitMQ's mirrored queues; here there are none, so it means nothing."""


def priority_of(arguments: Table, names: Names, queue: str) -> int:
    """A consumer's priority, any integer; 0 where it says none.

    Args:
        arguments: as they came.
        names: of the virtual host.
        queue: the queue's name there.

    Raises:
        AmqpError: PRECONDITION_FAILED: it is no integer, or another argument cannot be.
    """
    if not arguments.entries:
        return 0

    def refuse(name: str, why: str) -> NoReturn:
        raise AmqpError(ReplyCode.PRECONDITION_FAILED, f"invalid arg '{name}' for {names.queue_text(queue)}: {why}")

    said, on_failover = arguments.field(PRIORITY), arguments.field(ON_FAILOVER)
    priority = 0 if said is None else integer_of(said, partial(refuse, PRIORITY))
    if on_failover is not None:
        boolean_of(on_failover, partial(refuse, ON_FAILOVER))
    return priority
