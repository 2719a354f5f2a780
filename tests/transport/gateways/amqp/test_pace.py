"""`transport.gateways.amqp.pace`: whoever wants a backlog at once has so much of it in a turn of the loop, and others have their turns."""

from __future__ import annotations

import asyncio
import struct
from typing import Any, cast

import pytest

from actors.batch import MessageBatch
from actors.queue.vocabulary.replies import ReceivedMessages
from tests.transport.gateways.amqp.raw_amqp import methods, published
from tests.transport.gateways.amqp.test_cost_over_amqp import AmqpPeer, served
from tests.transport.test_cost_of_a_message import turns
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.consuming import Consumer
from transport.gateways.amqp.pace import MESSAGES_A_TURN, Pace

TOGETHER = 250
MESSAGES = 8 * TOGETHER * 4


async def filled(peer: AmqpPeer) -> None:
    for _ in range(MESSAGES // TOGETHER):
        peer.hear(published("q", b"x") * TOGETHER)
        await turns()
    peer.said()


def indices(data: bytes) -> list[int]:
    """Of the methods that were written."""
    at, found = 0, []
    while at < len(data):
        kind, _, size = struct.unpack_from(">BHI", data, at)
        if kind == 1:
            found.append(struct.unpack_from(">I", data, at + 7)[0])
        at += size + 8
    return found


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
            assert max(found) <= 2 * MESSAGES_A_TURN, "what two turns have delivered may be written together"
            assert sum(found) == (prefetch or MESSAGES)

    asyncio.run(main())


@pytest.mark.parametrize("turns_before", [2, 3, 4])
@pytest.mark.parametrize("ends", ["cancel", "channel"])
def test_who_ends_while_much_waits_for_its_turn_gets_nothing_more_and_the_rest_goes_back_at_once(
    ends: str, turns_before: int
) -> None:
    async def main() -> None:
        async with served() as peer:
            await filled(peer)
            peer.hear(methods(2, connection.ChannelOpen()))
            await turns()
            peer.said()
            peer.hear(methods(1, basic.BasicConsume(queue="q", consumer_tag="c", no_ack=True)))
            for _ in range(turns_before):
                await asyncio.sleep(0)
            looks = methods(2, entity.QueueDeclare(queue="q", passive=True))
            if ends == "cancel":
                peer.hear(methods(1, basic.BasicCancel(consumer_tag="c")) + looks)
            else:
                close = connection.ChannelClose(reply_code=200, reply_text="", class_id=0, method_id=0)
                peer.hear(methods(1, close) + looks)
            await turns()
            data = peer.wire.taken()
            said = indices(data)
            assert said[-1] == entity.QueueDeclareOk.INDEX
            had = said.count(basic.BasicDeliver.INDEX)
            assert 0 < had < MESSAGES, "some of what the queue has handed over waited"
            assert data.endswith(struct.pack(">IIB", MESSAGES - had, 0, 0xCE)), "messages and consumers"
            peer.hear(methods(2, basic.BasicConsume(queue="q", consumer_tag="d", no_ack=True)))
            assert sum(await by_turn(peer, MESSAGES - had)) == MESSAGES - had

    asyncio.run(main())


def test_all_connections_together_have_so_many_messages_of_a_turn_and_take_turns() -> None:
    class Waits:
        def __init__(self, messages: int) -> None:
            self.messages = messages

        def go_on(self) -> bool:
            now = min(self.messages, pace.room)
            assert not now or pace.takes(now)
            self.messages -= now
            return self.messages > 0

    pace = Pace()

    async def main() -> None:
        assert pace.takes(MESSAGES_A_TURN - 1)
        assert not pace.takes(2)
        first, second = Waits(MESSAGES_A_TURN + 2), Waits(1)
        pace.join(first)
        pace.join(second)
        assert (first.messages, second.messages, pace.room) == (MESSAGES_A_TURN + 1, 1, 0)
        await asyncio.sleep(0)
        assert (first.messages, second.messages) == (1, 1)
        await asyncio.sleep(0)
        assert (first.messages, second.messages, pace.room) == (0, 0, MESSAGES_A_TURN - 2)

    asyncio.run(main())


def test_a_consumer_that_fails_on_what_waited_ends_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    class Host:
        def __init__(self) -> None:
            self.refused: list[str] = []

        def delivered(self, *_: object) -> None:
            raise ValueError("on purpose")

        def consumer_refused(self, _: object, code: str, __: str) -> None:
            self.refused.append(code)

    async def main() -> None:
        host, pace = Host(), Pace()
        consumer = Consumer(cast("Any", host), "c", "q", no_ack=True, prefetch=0, window=1, pace=pace)
        assert pace.takes(MESSAGES_A_TURN)
        batch = MessageBatch.from_payloads([b"x"] * (2 * MESSAGES_A_TURN))
        consumer.tell(ReceivedMessages(0, batch, 1, 1, False))
        assert not host.refused
        await asyncio.sleep(0)
        assert host.refused == ["internal-error"]
        assert not consumer.go_on()
        assert "on purpose" in caplog.text

    asyncio.run(main())
