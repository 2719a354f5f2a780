"""Every listener that a broker's options ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transport.broker.broker_connection import native_listeners

if TYPE_CHECKING:
    from transport.broker.listener import Listener
    from transport.config.config import BrokerConfig


def configured_listeners(config: BrokerConfig) -> list[Listener[Any]]:
    """For Penstock's own clients, and for those of each gateway with an address: ``Broker(config, listeners=...)``.

    Raises:
        LocalProtocolError: one needs an extra that is not installed.
    """
    return [
        *native_listeners(config.send_address, config.receive_address),
        *(_http(config.http) if config.http else ()),
        *(_amqp(config) if config.amqp or config.amqps else ()),
        *(_smq(config) if config.smq_source or config.smq_sink else ()),
    ]


# What a broker does without is not loaded: AMQP's part is a fifth of the processor time of its start.


def _http(address: str) -> list[Listener[Any]]:
    from transport.gateways.http.listener import HttpListener  # noqa: PLC0415 - as above

    return [HttpListener(address)]


def _amqp(config: BrokerConfig) -> list[Listener[Any]]:
    from transport.gateways.amqp.gateway import Gateway  # noqa: PLC0415 - as above
    from transport.gateways.amqp.listening import amqp_listeners  # noqa: PLC0415
    from transport.gateways.amqp.names import DEFAULT  # noqa: PLC0415

    hosts = {DEFAULT: ""} | dict(config.amqp_virtual_hosts)
    return amqp_listeners(config.amqp, config.amqps, Gateway(hosts, max_message_bytes=config.amqp_max_message_bytes))


def _smq(config: BrokerConfig) -> list[Listener[Any]]:
    from transport.gateways.smq.connections import Place  # noqa: PLC0415 - as above

    place = Place(config.smq_queue, config.declared_queues().get(config.smq_queue))
    return place.listeners(config.smq_source, config.smq_sink)
