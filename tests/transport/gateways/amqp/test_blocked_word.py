"""When a client that is read no more hears why (`connections.AmqpConnection.waiting_changed`, `blocked.BlockedWord`)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from transport.broker.served import Connections
from transport.gateways.amqp.channel_port import Waiting
from transport.gateways.amqp.connection_limits import MOST_WAITING_BYTES
from transport.gateways.amqp.connection_methods import ConnectionBlocked, ConnectionUnblocked
from transport.gateways.amqp.connections import AmqpConnection
from transport.gateways.amqp.gateway import Gateway
from transport.gateways.amqp.protocol import AmqpProtocol


class Shell:
    """What it tells the client, and whether it reads it."""

    def __init__(self) -> None:
        self.said: list[type] = []
        self.reads = True

    def send(self, event: Any) -> None:
        self.said.append(type(event.method))

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Publishes:
    """A channel of which so much waits, and a queue that is asked for the reason."""

    def __init__(self) -> None:
        self.counted = Waiting()
        self.waits = self.asked = 0
        self.publishing = self

    def counts(self) -> Waiting:
        return Waiting(self.waits)

    def explain(self) -> bool:
        self.asked += 1
        return True


def test_a_queue_that_has_no_reason_yet_is_asked_again_when_something_is_stored_and_as_much_waits() -> None:
    loop = asyncio.new_event_loop()
    try:
        host = cast("Any", SimpleNamespace(connections=Connections(10), loop=loop))
        client, shell, channel = AmqpConnection(Gateway(), host, AmqpProtocol()), Shell(), Publishes()
        client.connection = cast("Any", shell)
        client.capabilities = frozenset({"connection.blocked"})
        port = cast("Any", channel)
        client._channels[1] = port
        channel.waits = MOST_WAITING_BYTES + 1
        client.waiting_changed(port)
        assert (shell.reads, channel.asked) == (False, 1)
        # What it has room for is on its way there.
        client.blocked(None)
        client.waiting_changed(port)
        assert channel.asked == 2
        client.blocked("it is full")
        client.waiting_changed(port)
        assert (shell.said, channel.asked) == ([ConnectionBlocked], 2)
        channel.waits = 0
        client.waiting_changed(port)
        assert shell.said == [ConnectionBlocked, ConnectionUnblocked]
        assert shell.reads
    finally:
        loop.close()
