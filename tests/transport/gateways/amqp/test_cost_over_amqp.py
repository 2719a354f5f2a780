"""What one message over AMQP costs the broker, counted and not timed, as `test_cost_of_a_message` does it for native clients.

A limit is what was counted when it was set, and a little more. Who makes a path longer sees it here, and raises the limit with a reason;
who makes it shorter lowers it.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.transport.gateways.amqp.raw_amqp import HANDSHAKE, methods, published
from tests.transport.test_cost_of_a_message import Count, Peer, Wire, turns, undisturbed
from transport import Broker, BrokerConfig
from transport.broker.acceptor import Factory, Intake
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.frames import FrameDecoder as AmqpDecoder
from transport.gateways.listeners import configured_listeners
from transport.shell.connection import Connection

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the limits are instructions of CPython 3.11")

MANY = 64
TOGETHER = 100
BODY = b"x" * 4096
SHORT = b"x" * 100
# What comes together is one event from the frames on, and is stored, delivered and settled together: of a hundred each is a fortieth, or
# less, of one that comes by itself. That way is longer than a native sender's: through an exchange, and to a connection that has channels.
LIMITS = {
    # A queue may drop what is over its limit, and a record may have that, and schedules beside its messages: 7 of what is published.
    "a message, published and confirmed": 6_100,
    # Those that are alike are read, looked at and written without a step for each; here and below.
    "a hundred messages, published and confirmed together": 8_370,
    "an acknowledgement, and the delivery that it makes room for": 4_950,
    "a hundred messages, delivered together": 4_615,
    "an acknowledgement": 3_270,
    # Tags in a row are looked for together: each by itself was ten times as much.
    "a hundred acknowledgements together": 7_370,
}


class AmqpWire(Wire):
    """What the broker writes, kept as it is."""

    def taken(self) -> bytes:
        data, self._taken = bytes(self._taken), bytearray()
        return data


class AmqpPeer(Peer):
    """A client of AMQP without a socket, with one open channel."""

    wire: AmqpWire

    def __init__(self, factory: Factory) -> None:
        made = factory()
        assert isinstance(made, Connection)
        self.connection = made
        self.wire = AmqpWire()
        made.connection_made(self.wire)

    async def opened(self) -> AmqpPeer:
        self.hear(HANDSHAKE + methods(1, connection.ChannelOpen()))
        await turns()
        return self

    def said(self) -> list[int]:
        """The methods that came since, by their indices."""
        data, at, found = self.wire.taken(), 0, []
        while at < len(data):
            kind, _, size = struct.unpack_from(">BHI", data, at)
            if kind == 1:
                found.append(struct.unpack_from(">I", data, at + 7)[0])
            at += size + 8
        return found


@asynccontextmanager
async def served() -> AsyncIterator[AmqpPeer]:
    """A client of a broker in memory, with a queue."""
    factories: list[Factory] = []

    class Listening:
        sockets = (type("Socket", (), {"getsockname": lambda self: ("127.0.0.1", 1)})(),)

        def close(self) -> None: ...

    async def listen(intake: Intake, *_: Any) -> Any:
        factories.append(intake.factory)
        return Listening()

    config = BrokerConfig(amqp="127.0.0.1:0")
    async with Broker(config, listen=listen, listeners=configured_listeners(config)) as broker:
        peer = await AmqpPeer(factories[2]).opened()
        peer.hear(methods(1, entity.QueueDeclare(queue="q", durable=True), basic.ConfirmSelect()))
        await turns()
        assert peer.said()[-2:] == [entity.QueueDeclareOk.INDEX, basic.ConfirmSelectOk.INDEX]
        yield peer
        for each in list(broker.connections.values()):
            assert each.connection is not None
            each.connection.connection_lost(None)
        await turns()


async def heard(peer: AmqpPeer, said: Sequence[bytes], answers: list[int]) -> float:
    """Instructions of each of these, a turn or more behind the other, and of what is answered to each."""
    with Count() as cost:
        for data in said:
            peer.hear(data)
            await turns()
    assert peer.said() == answers * len(said)
    return cost.instructions / len(said)


def acknowledged(tag: int) -> bytes:
    return methods(1, basic.BasicAck(delivery_tag=tag))


async def measured() -> dict[str, float]:
    with undisturbed():
        return await _measured()


async def _measured() -> dict[str, float]:
    found: dict[str, float] = {}
    one, hundred = published("q", BODY), published("q", SHORT) * TOGETHER
    confirm, delivery = basic.BasicAck.INDEX, basic.BasicDeliver.INDEX
    async with served() as peer:
        await heard(peer, [one] * MANY, [confirm])
        found["a message, published and confirmed"] = await heard(peer, [one] * MANY, [confirm])
        found["a hundred messages, published and confirmed together"] = await heard(peer, [hundred] * 4, [confirm])
        # Those of the first measurement come one by one, and then those that were stored together.
        consumed = methods(1, basic.BasicQos(prefetch_count=1), basic.BasicConsume(queue="q", consumer_tag="c"))
        peer.hear(consumed)
        await turns()
        assert peer.said() == [basic.BasicQosOk.INDEX, basic.BasicConsumeOk.INDEX, delivery]
        tags = range(1, 2 * MANY + 1)
        found["an acknowledgement, and the delivery that it makes room for"] = await heard(
            peer, [acknowledged(tag) for tag in tags], [delivery]
        )
        peer.hear(methods(1, basic.BasicCancel(consumer_tag="c")))
        await turns()
        peer.said()
        last = 2 * MANY + 1
        found["a hundred messages, delivered together"] = (
            await heard(
                peer,
                [methods(1, basic.BasicQos(prefetch_count=0), basic.BasicConsume(queue="q", consumer_tag="d"))],
                [basic.BasicQosOk.INDEX, basic.BasicConsumeOk.INDEX, *[delivery] * (4 * TOGETHER - 1)],
            )
            / 4
        )
        found["an acknowledgement"] = await heard(peer, [acknowledged(last + number) for number in range(MANY)], [])
        last += MANY
        together = [
            b"".join(acknowledged(last + number * TOGETHER + each) for each in range(TOGETHER)) for number in range(3)
        ]
        found["a hundred acknowledgements together"] = await heard(peer, together, [])
    return found


def test_no_part_of_a_messages_way_over_amqp_has_become_longer() -> None:
    found = asyncio.run(measured())
    assert {part: round(cost) for part, cost in found.items() if cost > LIMITS[part]} == {}


def test_no_limit_over_amqp_is_far_above_what_is_counted() -> None:
    found = asyncio.run(measured())
    assert {part: round(cost) for part, cost in found.items() if cost < 0.9 * LIMITS[part]} == {}, "lower the limits"


def test_a_longer_way_over_amqp_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    next_event = AmqpDecoder.next_event

    def longer(decoder: AmqpDecoder) -> Any:
        # What the product does more often is counted, whoever has it do so.
        for _ in range(400):
            decoder.waiting  # noqa: B018 - it is asked for its own sake
        return next_event(decoder)

    monkeypatch.setattr(AmqpDecoder, "next_event", longer)
    found = asyncio.run(measured())
    assert {part for part, cost in found.items() if cost > LIMITS[part]} == set(LIMITS)
