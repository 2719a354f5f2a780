"""Every listener that a broker's options ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transport.broker.broker_connection import native_listeners
from transport.gateways.amqp.gateway import Gateway
from transport.gateways.amqp.listening import amqp_listeners
from transport.gateways.amqp.names import DEFAULT
from transport.gateways.http.listener import HttpListener
from transport.gateways.smq.connections import Place

if TYPE_CHECKING:
    from transport.broker.listener import Listener
    from transport.config.config import BrokerConfig


def configured_listeners(config: BrokerConfig) -> list[Listener[Any]]:
    """For Penstock's own clients, and for those of each gateway with an address: ``Broker(config, listeners=...)``.

    Raises:
        LocalProtocolError: one needs an extra that is not installed.
    """
    smq = Place(config.smq_queue, config.declared_queues().get(config.smq_queue))
    gateway = Gateway({DEFAULT: ""} | dict(config.amqp_virtual_hosts), max_message_bytes=config.amqp_max_message_bytes)
    return [
        *native_listeners(config.send_address, config.receive_address),
        *([HttpListener(config.http)] if config.http else []),
        *amqp_listeners(config.amqp, config.amqps, gateway),
        *smq.listeners(config.smq_source, config.smq_sink),
    ]
