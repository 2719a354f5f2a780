"""`transport.gateways.amqp.pace`: whoever wants a backlog at once has so much of it in a turn of the loop, and others have their turns."""

from __future__ import annotations

import asyncio

import pytest

from actors.errors import NextTurnError
from tests.transport.gateways.amqp.raw_amqp import methods, published
from tests.transport.gateways.amqp.test_cost_over_amqp import AmqpPeer, served
from tests.transport.test_cost_of_a_message import turns
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp.pace import MESSAGES_A_TURN, STEP_MESSAGES, Pace

TOGETHER = 250
MESSAGES = 8 * TOGETHER * 4


async def filled(peer: AmqpPeer) -> None:
    for _ in range(MESSAGES // TOGETHER):
        peer.hear(published("q", b"x") * TOGETHER)
        await turns()
    peer.said()


async def by_turn(peer: AmqpPeer, messages: int) -> list[int]:
    """How many messages each turn of the loop has delivered, until there were so many."""
    found: list[int] = []
    while sum(found) < messages:
        await asyncio.sleep(0)
        found.append(peer.said().count(basic.BasicDeliver.INDEX))
        assert len(found) < MESSAGES, "nothing more comes"
    return found


@pytest.mark.parametrize("prefetch", [0, 5_000])
def test_a_turn_delivers_so_many_messages_of_a_backlog_and_all_of_them_come(prefetch: int) -> None:
    async def main() -> None:
        async with served() as peer:
            await filled(peer)
            peer.hear(methods(1, basic.BasicQos(prefetch_count=prefetch), basic.BasicConsume(queue="q")))
            found = await by_turn(peer, prefetch or MESSAGES)
            assert max(found) < MESSAGES_A_TURN + TOGETHER
            assert sum(found) == (prefetch or MESSAGES)

    asyncio.run(main())


def test_who_cancels_while_much_waits_for_its_turn_gets_nothing_more_and_the_rest_goes_back() -> None:
    async def main() -> None:
        async with served() as peer:
            await filled(peer)
            peer.hear(methods(1, basic.BasicConsume(queue="q", consumer_tag="c", no_ack=True)))
            had = sum(await by_turn(peer, 1))
            peer.hear(methods(1, basic.BasicCancel(consumer_tag="c")))
            await turns()
            *before, last = peer.said()
            assert last == basic.BasicCancelOk.INDEX
            had += before.count(basic.BasicDeliver.INDEX)
            assert had < STEP_MESSAGES < MESSAGES, "some of what the queue has handed over waited"
            peer.hear(methods(1, basic.BasicConsume(queue="q", consumer_tag="d", no_ack=True)))
            assert sum(await by_turn(peer, MESSAGES - had)) == MESSAGES - had

    asyncio.run(main())


def test_all_connections_together_have_so_many_messages_of_a_turn() -> None:
    async def main() -> None:
        pace = Pace()
        pace.take(MESSAGES_A_TURN - 1)
        pace.take(700)
        with pytest.raises(NextTurnError):
            pace.take(1)
        await asyncio.sleep(0)
        pace.take(1)

    asyncio.run(main())
