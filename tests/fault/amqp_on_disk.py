"""Waiting until a broker of ours has all that it was told on its disk: before, it delivers nothing of it, and what came earlier goes first.

RabbitMQ delivers what is not on its disk yet. So of two messages, the one just published and the one before it in its queue's order only
by its priority or for it came back, ours gives first the one that is durable. How long a disk takes is nothing that brokers differ in.
"""

from __future__ import annotations

from typing import Final

from tests.fault.amqp_peer import Peer
from tests.transport.gateways.amqp.raw_amqp import published
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.tables import Table

QUEUE: Final = "on-disk"
PERSISTENT: Final = b"\x10\x00\x02"
"""Properties: ``delivery_mode`` is 2, and there are no others."""
CHANNEL: Final = 1


class OnDisk:
    """A connection of its own, and a queue of one message: what is confirmed there is on the disk behind all that was told before.

    Args:
        port: where the broker speaks AMQP.
    """

    def __init__(self, port: int) -> None:
        self._peer = Peer(port, (CHANNEL,))
        self._published = 0
        self._do(basic.ConfirmSelect(), "confirm.select-ok")
        arguments = Table.of({"x-max-length": 1})
        self._do(entity.QueueDeclare(queue=QUEUE, durable=True, arguments=arguments), "queue.declare-ok")

    def wait(self) -> None:
        """Return when it is; SilentBrokerError where it takes too long."""
        self._published += 1
        self._peer.owed.setdefault(CHANNEL, set()).add(self._published)
        self._peer.write(published(QUEUE, b"", CHANNEL, properties=PERSISTENT))
        self._peer.await_confirms(CHANNEL)
        assert not self._peer.closed, self._peer.heard
        self._peer.confirmed.clear()

    def close(self) -> None:
        """Leave nothing."""
        self._do(entity.QueueDelete(queue=QUEUE), "queue.delete-ok")
        self._peer.close()

    def _do(self, method: basic.ConfirmSelect | entity.QueueDeclare | entity.QueueDelete, answer: str) -> None:
        self._peer.say(CHANNEL, method)
        self._peer.await_one(lambda heard: heard.name == answer)
        self._peer.heard.clear()
