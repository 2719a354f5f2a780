"""What is told of a connection of AMQP where connections are listed: its client, its channels, and what these hold together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from transport.broker.served import Facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from transport.gateways.amqp.channel import Channel
    from transport.gateways.amqp.names import Names
    from transport.gateways.amqp.negotiation import Client

LOOKED_AT_ONCE: Final = 500
"""Consumers of channels, and channels, that are looked at in one turn of the loop; of one channel all are."""


async def facts_of(client: Client, names: Names | None, channels: Mapping[int, Channel]) -> Facts:
    """The facts of one connection, which may have a hundred thousand consumers: others have their turns meanwhile.

    Args:
        client: what it says of itself.
        names: of its virtual host; None as long as it is in none.
        channels: those that are open, as they come and go.
    """
    count = consumers = demand = in_flight = looked = 0
    prefetch: int | None = 0
    for number, channel in list(channels.items()):
        if channels.get(number) is not channel:
            # It was closed meanwhile, and has nothing any more.
            continue
        count += 1
        looked += 1
        receiving = channel.consuming
        if receiving is not None:
            consumers += receiving.consumers
            demand += receiving.demand
            in_flight += receiving.held
            limit = receiving.prefetch
            prefetch = None if prefetch is None or limit is None else prefetch + limit
            looked += receiving.consumers
        if looked >= LOOKED_AT_ONCE:
            looked = 0
            await asyncio.sleep(0)
    return Facts(
        virtual_host=None if names is None else names.virtual_host,
        product=client.product,
        channels=count,
        consumers=consumers,
        prefetch=prefetch,
        demand=demand,
        in_flight=in_flight,
    )
