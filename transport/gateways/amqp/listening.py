"""Where clients of AMQP connect, in plain and under TLS."""

from __future__ import annotations

from functools import partial
from typing import Any

from transport.broker.listener import Listener
from transport.config.listener_names import AMQP, AMQPS
from transport.gateways.amqp.connections import AmqpConnection
from transport.gateways.amqp.gateway import Gateway
from transport.gateways.amqp.protocol import AmqpProtocol
from transport.gateways.amqp.virtual_hosts import HostsListener


def amqp_listeners(plain: str | None, secured: str | None, gateway: Gateway | None = None) -> list[Listener[Any]]:
    """Where clients connect in plain, and under TLS."""
    gateway = gateway or Gateway()
    return [
        HostsListener(
            name,
            address,
            partial(AmqpProtocol, gateway.max_message_bytes),
            partial(AmqpConnection, gateway),
            gateway.virtual_hosts,
            protected=tls,
        )
        for name, address, tls in ((AMQP, plain, False), (AMQPS, secured, True))
        if address
    ]
