"""Direct reply-to: a client hears the answers to what it asks, and declares no queue for them (RabbitMQ's extension).

Who consumes from ``amq.rabbitmq.reply-to`` gets a queue whose name nobody can guess, and which goes with that consumer. What its channel
publishes with this name in ``reply_to`` says the queue's name instead; whoever answers publishes there, through the default exchange.
"""

from __future__ import annotations

from secrets import token_urlsafe
from typing import TYPE_CHECKING, Final

from actors.queue.vocabulary.settings import QueueSettings
from transport.gateways.amqp.equivalence import DeclaredWith
from transport.gateways.amqp.errors import AmqpError
from transport.gateways.amqp.properties import FLAGS, Properties, flags_of
from transport.gateways.amqp.queue_arguments import settings_of
from transport.gateways.amqp.reply_codes import ReplyCode
from transport.gateways.amqp.tables import EMPTY_TABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from transport.gateways.amqp.events import Published

REPLY_TO: Final = "amq.rabbitmq.reply-to"
REPLY_TO_FLAG: Final = FLAGS["reply_to"]


def is_place(queue: str) -> bool:
    """Whether a queue is where somebody hears direct replies: it is published to, and not used by its name in any other way."""
    return queue.startswith(f"{REPLY_TO}.")


class DirectReply:
    """One channel's.

    Args:
        declare: makes a queue of this name, with settings and what AMQP keeps of them, which goes with the connection.

    Attributes:
        queue: what stands for `REPLY_TO` on this channel; empty where nobody consumes from there.
    """

    def __init__(self, declare: Callable[[str, QueueSettings, bytes], None]) -> None:
        self.queue = ""
        self._declare = declare

    def begin(self, *, no_ack: bool) -> str:
        """Make the queue, for a consumer that begins; its name.

        Raises:
            AmqpError: PRECONDITION_FAILED: one consumes from there already, or would acknowledge.
        """
        if not no_ack:
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, "reply consumer cannot acknowledge")
        if self.queue:
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, "reply consumer already set")
        queue = f"{REPLY_TO}.{token_urlsafe(16)}"
        settings = QueueSettings(**settings_of(EMPTY_TABLE, queue), durable=False)
        self._declare(queue, settings, DeclaredWith(True, EMPTY_TABLE).kept())
        self.queue = queue
        return queue

    def not_consumed(self, queue: str, text: str) -> AmqpError:
        """Why nobody consumes from a place by its name, which texts speak of as ``text``."""
        own = queue == self.queue
        why = "multiple consumers are unsupported for" if own else "only creator channel may consume from"
        return AmqpError(ReplyCode.PRECONDITION_FAILED, f"{why} {text}")

    def left(self, queue: str) -> None:
        """A consumer of this queue is gone."""
        if queue == self.queue:
            self.queue = ""

    def named_in(self, event: Published) -> Published:
        """The same messages; where they ask for direct replies, with the queue's name, if there is one."""
        if not self.queue:
            return event
        return event._replace(properties=[self._named(raw) for raw in event.properties])

    def _named(self, raw: bytes) -> bytes:
        if not flags_of(raw) & REPLY_TO_FLAG:
            return raw
        properties = Properties(raw)
        return properties.replaced(reply_to=self.queue).raw if properties.reply_to == REPLY_TO else raw
