"""What is told of a connection of AMQP where connections are listed: its client, its channels, and what these hold together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transport.broker.served import Facts

if TYPE_CHECKING:
    from collections.abc import Collection

    from transport.gateways.amqp.channel import Channel
    from transport.gateways.amqp.negotiation import Client


def facts_of(client: Client, virtual_host: str, channels: Collection[Channel]) -> Facts:
    """The facts of one connection.

    Args:
        client: what it says of itself.
        virtual_host: where it is.
        channels: those that are open.
    """
    receiving = [channel.receiving for channel in channels]
    limits = [each.prefetch for each in receiving]
    return Facts(
        virtual_host=virtual_host,
        product=client.product,
        channels=len(receiving),
        consumers=sum(each.consumers for each in receiving),
        prefetch=None if None in limits else sum(filter(None, limits)),
        demand=sum(each.demand for each in receiving),
        in_flight=sum(each.held for each in receiving),
    )
