"""The owner of a subscription says what its queue is bound to: that is then all of it, and nobody else's word counts."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from actors.exchanges.errors import ExchangeNotFoundError
from transport import Administration, Binding, BrokerError
from transport.clients.subscription_client import SubscriptionClient
from transport.errors import ForbiddenError
from transport.security.principal import ANYONE, Grant, Grants, Principal, Right


def owner(broker: Any, *keys: str, exchange: str = "amq.topic", **options: Any) -> SubscriptionClient:
    bind = [Binding(exchange, key) for key in keys]
    return SubscriptionClient(
        broker.receive_address, queue="q", subscription="s", mode="own", bind=bind, owner_wait=0.0, **options
    )


async def opened(client: SubscriptionClient) -> int:
    """Open, and leave it open; the epoch."""
    return (await asyncio.to_thread(client.open)).epoch


async def bindings(administration: Administration) -> list[tuple[str, str, str]]:
    return [(row["source"], row["destination"], row["key"]) for row in await administration.bindings()]


def test_another_owner_of_the_subscription_leaves_the_queue_the_bindings_that_it_says(
    run: Any, serve: Any, caplog: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("other")
            await administration.bind("amq.topic", "other", "a.#")
            with owner(broker, "a.#", "c") as first:
                await opened(first)
            # By hand, from another exchange: the option does not speak of that.
            await administration.bind("amq.direct", "q", "a")
            with caplog.at_level(logging.INFO, "penstock.audit"), owner(broker, "b.#", "c") as second:
                await opened(second)
            assert await bindings(administration) == [
                ("amq.topic", "other", "a.#"),
                ("amq.topic", "q", "c"),
                ("amq.direct", "q", "a"),
                ("amq.topic", "q", "b.#"),
            ]
            with owner(broker, exchange="amq.topic") as third:
                await opened(third)
            assert len(await bindings(administration)) == 4, "who names none changes none"

    run(main)
    told = [record.getMessage() for record in caplog.records]
    assert sum("binding.delete q a.# of amq.topic" in text for text in told) == 1
    # The other one was there.
    assert sum("binding.create q b.# of amq.topic" in text for text in told) == 1
    assert len(told) == 2


def test_who_is_refused_the_subscription_binds_nothing(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            with owner(broker, "a") as first, owner(broker, "b") as second:
                epoch = await opened(first)
                with pytest.raises(BrokerError, match="is connected") as caught:
                    await opened(second)
                assert caught.value.code == "subscription-owned"
                assert await bindings(administration) == [("amq.topic", "q", "a")]
                with owner(broker, "c", take_over=True) as third:
                    assert await opened(third) > epoch
                    with owner(broker, "a", epoch=epoch) as late, pytest.raises(BrokerError) as caught:
                        await opened(late)
                    assert caught.value.code == "stale-epoch"
                    assert await bindings(administration) == [("amq.topic", "q", "c")]

    run(main)


def test_all_bindings_of_a_queue_take_the_rights_of_each(run: Any, serve: Any) -> None:
    topic, queue = Grant("amq.topic", Right.READ), Grant("q", Right.WRITE)

    def alice(*grants: Grant) -> Principal:
        return Principal("alice", grants=Grants(grants))

    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            operations = broker._host().operations
            await administration.create_queue("q")
            await administration.bind("amq.topic", "q", "a")
            for who, refusal in (
                (alice(queue), "may not read 'amq.topic'"),
                (alice(topic), "may not write 'q'"),
            ):
                with pytest.raises(ForbiddenError, match=refusal):
                    await operations(who).bind_only("q", [Binding("amq.topic", "b")])
            assert await bindings(administration) == [("amq.topic", "q", "a")]
            await operations(alice(topic, queue)).bind_only("q", [Binding("amq.topic", "b")])
            assert await bindings(administration) == [("amq.topic", "q", "b")]
            with pytest.raises(ExchangeNotFoundError, match="no exchange 'none'"):
                await operations(ANYONE).bind_only("q", [Binding("none")])

    run(main)
