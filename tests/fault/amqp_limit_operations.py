"""Random operations on quorum queues with ``x-delivery-limit``: deliveries that are given back, until they are too many.

Each queue belongs to one channel, which gives back all that it holds or nothing: RabbitMQ delivers what came back in the order in which
that did, and a broker of ours in its old place. And no channel has a prefetch: RabbitMQ 3.10 lets a consumer have one message more for each
that has failed too often.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.fault.amqp_arguments import HOUR_MS
from tests.fault.amqp_view import CHANNELS, DEAD, SESSIONS, ChannelView, Operation, Place, View
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.method import Method
from transport.gateways.amqp.properties import Properties
from transport.gateways.amqp.tables import Table

MOST_HELD: Final = 12
FURTHER: Final[dict[str, Any]] = {
    "x-message-ttl": HOUR_MS,
    "x-expires": HOUR_MS,
    "x-single-active-consumer": True,
    "x-max-in-memory-length": 5,
    "x-max-in-memory-bytes": 1_000,
    "x-quorum-initial-group-size": 1,
    "x-queue-leader-locator": "client-local",
}
"""Arguments of quorum queues that may be there beside a limit of deliveries."""


class LimitOperations:
    """Random ones; as ``Operations``.

    Args:
        random: decides.
        view: what is known when an operation is asked for.
    """

    def __init__(self, random: Random, view: View) -> None:
        self._random = random
        self._view = view
        self._messages = 0
        self._weights: dict[Callable[[Place], Operation | None], int] = {
            self._declare: 12,
            self._publish: 30,
            self._get: 20,
            self._consume: 10,
            self._cancel: 4,
            self._settle: 20,
            self._give_back: 40,
            self._recover: 6,
            self._close_channel: 5,
            self._purge: 1,
            self._delete: 2,
        }

    def next(self) -> Operation:
        """One more."""
        while True:
            place = self._random.choice(SESSIONS), self._random.choice(CHANNELS)
            if len(self._channel(place).held) > MOST_HELD:
                operation = self._settle(place)
            else:
                (make,) = self._random.choices(list(self._weights), list(self._weights.values()))
                operation = make(place)
            if operation is not None:
                return operation

    def _channel(self, place: Place) -> ChannelView:
        return self._view.channels[place]

    def _queue(self, place: Place) -> str:
        """The one of this channel."""
        return self._view.named(f"q{SESSIONS.index(place[0]) * len(CHANNELS) + CHANNELS.index(place[1])}")

    def _is_there(self, place: Place) -> bool:
        return self._queue(place) in self._view.queues

    def _often(self, share: float) -> bool:
        return self._random.random() < share

    def _declare(self, place: Place) -> Operation:
        # RabbitMQ 3.10 takes what is no number too; 4 refuses it.
        limit = self._random.choice([0, 1, 2, 2, 5])
        said: dict[str, Any] = {"x-queue-type": "quorum", "x-delivery-limit": limit}
        if self._often(0.5):
            said["x-dead-letter-exchange"] = self._view.named(DEAD)
            if self._often(0.4):
                said["x-dead-letter-routing-key"] = "gone"
            if self._often(0.4):
                said["x-dead-letter-strategy"] = "at-most-once"
        said |= {name: value for name, value in FURTHER.items() if self._often(0.15)}
        if self._only_gets(place) and self._often(0.5):
            # What a consumer gives back a quorum queue delivers before it looks at its limit. A classic one drops first, and so does ours.
            said["x-max-length"] = self._random.choice([1, 2, 4])
            if self._often(0.5):
                said["x-overflow"] = "drop-head"
        if self._often(0.05):
            del said["x-delivery-limit"]
            if not self._is_there(place):
                return self._declare(place)
        return Operation(*place, entity.QueueDeclare(queue=self._queue(place), durable=True, arguments=Table.of(said)))

    def _publish(self, place: Place) -> Operation:
        if not self._channel(place).confirms:
            # What is confirmed is delivered before anything else is done.
            return Operation(*place, basic.ConfirmSelect())
        bodies = []
        for _ in range(self._random.choice([1, 1, 2, 3])):
            self._messages += 1
            bodies.append(b"m%d" % self._messages)
        properties: dict[str, Any] = {}
        if self._often(0.3):
            properties["headers"] = Table.of({"colour": "red"})
        if self._often(0.2):
            properties["content_type"] = "text/plain"
        method = basic.BasicPublish(routing_key=self._queue(place), mandatory=self._often(0.3))
        return Operation(*place, method, Properties.of(**properties).raw, tuple(bodies))

    def _get(self, place: Place) -> Operation | None:
        if self._channel(place).tag or self._channel(place).held or not self._is_there(place):
            return None
        if self._queue(place) in self._view.single:
            # RabbitMQ refuses it of a quorum queue, and not of a classic one.
            return None
        no_ack = not self._only_gets(place) or self._often(0.1)
        return Operation(*place, basic.BasicGet(queue=self._queue(place), no_ack=no_ack))

    def _only_gets(self, place: Place) -> bool:
        """Whether this channel consumes nothing. One that does holds all that there is, so all of that comes back in order."""
        return place[1] == CHANNELS[0]

    def _consume(self, place: Place) -> Operation | None:
        # What is held already would come back behind what is consumed.
        if self._only_gets(place) or self._channel(place).tag or self._channel(place).held:
            return None
        if not self._is_there(place):
            return None
        return Operation(*place, basic.BasicConsume(queue=self._queue(place), consumer_tag="tag"))

    def _cancel(self, place: Place) -> Operation | None:
        tag = self._channel(place).tag
        return Operation(*place, basic.BasicCancel(consumer_tag=tag)) if tag else None

    def _settle(self, place: Place) -> Operation | None:
        held = self._channel(place).held
        if not held:
            return None
        tag, multiple = self._random.choice(held), self._often(0.3)
        settled: Method = self._random.choice(
            [
                basic.BasicAck(delivery_tag=tag, multiple=multiple),
                basic.BasicNack(delivery_tag=tag, multiple=multiple, requeue=False),
                basic.BasicReject(delivery_tag=tag, requeue=False),
            ]
        )
        return Operation(*place, settled)

    def _give_back(self, place: Place) -> Operation | None:
        held = self._channel(place).held
        if not held:
            return None
        if len(held) == 1 and self._often(0.5):
            return Operation(*place, basic.BasicReject(delivery_tag=held[0], requeue=True))
        return Operation(*place, basic.BasicNack(delivery_tag=self._random.choice([0, held[-1]]), multiple=True))

    def _recover(self, place: Place) -> Operation:
        return Operation(*place, basic.BasicRecover(requeue=True))

    def _close_channel(self, place: Place) -> Operation:
        return Operation(*place, connection.ChannelClose(reply_code=200, reply_text="", class_id=0, method_id=0))

    def _purge(self, place: Place) -> Operation | None:
        return Operation(*place, entity.QueuePurge(queue=self._queue(place))) if self._is_there(place) else None

    def _delete(self, place: Place) -> Operation | None:
        return Operation(*place, entity.QueueDelete(queue=self._queue(place))) if self._is_there(place) else None
