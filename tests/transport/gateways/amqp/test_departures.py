"""`transport.gateways.amqp.departures`: many consumers that leave together have several turns of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from actors import GetStatistics
from tests.transport.conftest import FREE_PORT, until
from tests.transport.gateways.amqp.async_amqp import AsyncClient
from tests.transport.gateways.amqp.raw_amqp import published
from transport import Broker, BrokerConfig
from transport.gateways.amqp import basic_methods as basic
from transport.gateways.amqp import connection_methods as connection
from transport.gateways.amqp import departures
from transport.gateways.amqp import entity_methods as entity
from transport.gateways.amqp.departures import Departures
from transport.gateways.amqp.gateway import Gateway
from transport.gateways.amqp.layout import FRAME_BODY
from transport.gateways.amqp.listening import amqp_listeners
from transport.gateways.amqp.tables import Table

MANY = 30
"""Consumers of one channel."""
CLOSE_ALL = connection.ConnectionClose(reply_code=200, class_id=0, method_id=0)
CLOSE = connection.ChannelClose(reply_code=200, class_id=0, method_id=0)
SECONDS = 5.0

C = TypeVar("C", bound=AsyncClient)
Run = Callable[[Callable[[], Any]], None]


class Leaving:
    """Consumers of one channel, in their place."""

    def __init__(self, name: str, many: int, left: list[str]) -> None:
        self.name, self.is_over = name, False
        self._many, self._left = many, left

    def step(self) -> None:
        if not self._many:
            self.is_over = True
            return
        self._many -= 1
        self._left.append(self.name)


def put(to: Departures, leaving: Leaving) -> None:
    to.put(leaving)


@pytest.fixture
def one_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn has no time, and one consumer leaves in each."""
    monkeypatch.setattr(departures, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(departures, "TOGETHER", 1)


def test_few_leave_at_once(run: Run) -> None:
    async def main() -> None:
        left: list[str] = []
        line = Departures()
        put(line, Leaving("a", 2, left))
        put(line, Leaving("b", 1, left))
        assert left == ["a", "a", "b"]
        assert not line

    run(main)


@pytest.mark.usefixtures("one_a_turn")
def test_many_leave_one_after_another_in_turns_of_their_own(run: Run) -> None:
    async def main() -> None:
        left: list[str] = []
        line = Departures()
        put(line, Leaving("a", 2, left))
        put(line, Leaving("b", 2, left))
        assert left == []
        seen = []
        while line:
            await asyncio.sleep(0)
            seen.append(len(left))
        assert left == ["a", "a", "b", "b"]
        assert max(after - before for before, after in pairwise(seen)) == 1

    run(main)


@pytest.mark.usefixtures("one_a_turn")
def test_all_leave_at_once_as_the_broker_ends(run: Run) -> None:
    async def main() -> None:
        left: list[str] = []
        line = Departures()
        put(line, Leaving("a", 3, left))
        line.hurry()
        assert left == ["a"] * 3
        assert not line
        await asyncio.sleep(0)

    run(main)


class Reading(AsyncClient):
    """One that keeps what it is delivered."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    def frame_received(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == FRAME_BODY:
            self.bodies.append(payload)


class Gated(Departures):
    """Nobody leaves before the gate is open."""

    is_open = True

    def _turn(self) -> None:
        if self.is_open:
            super()._turn()
        else:
            self._begin_turn()


class Amqp:
    """A broker, and how its clients connect."""

    def __init__(self, departures: Gated, broker: Broker, port: int) -> None:
        self.departures, self.broker, self._port = departures, broker, port

    async def client(self, kind: type[C] = AsyncClient) -> C:
        return await kind.open("127.0.0.1", self._port)

    def receivers(self, queue: str) -> int:
        return self.broker.queues.find(queue).receivers


@asynccontextmanager
async def serving() -> AsyncIterator[Amqp]:
    gated = Gated()
    listeners = amqp_listeners(FREE_PORT, None, Gateway(departures=gated))
    async with Broker(BrokerConfig(), listeners=listeners) as broker:
        yield Amqp(gated, broker, listeners[0].addresses[0].port)


async def with_consumers(amqp: Amqp, queue: str, *, auto_delete: bool = False) -> AsyncClient:
    """A client whose channel has many consumers of a queue, each with a message."""
    client = await amqp.client()
    await client.ask(entity.QueueDeclare(queue=queue, auto_delete=auto_delete), entity.QueueDeclareOk)
    await client.ask(basic.BasicQos(prefetch_count=1), basic.BasicQosOk)
    for number in range(MANY):
        await client.ask(basic.BasicConsume(queue=queue, consumer_tag=str(number)), basic.BasicConsumeOk)
    client.transport.write(b"".join(published(queue, b"%d" % number) for number in range(MANY)))
    for _ in range(MANY):
        await client.until(basic.BasicDeliver)
    return client


async def got(client: AsyncClient, queue: str, *, opened: bool = False) -> list[int]:
    """How many more are there with each message of a queue that has come back, and nothing else is said.

    Args:
        client: asks for each, and gives none back.
        queue: where.
        opened: whether the answer to the opening of its channel comes first.
    """
    tags = []
    if opened:
        while not client.came:
            await client.more()
        assert isinstance(client.came.popleft().method, connection.ChannelOpenOk)
    while True:
        client.say(basic.BasicGet(queue=queue))
        while not client.came:
            await client.more()
        method = client.came.popleft().method
        if isinstance(method, basic.BasicGetEmpty):
            return tags
        assert isinstance(method, basic.BasicGetOk)
        assert method.redelivered
        tags.append(method.message_count)


@pytest.mark.usefixtures("one_a_turn")
def test_who_has_the_answer_to_the_close_of_a_channel_finds_all_back_and_the_queue_free(run: Run) -> None:
    async def main() -> None:
        async with serving() as amqp:
            client, other = await with_consumers(amqp, "q"), await amqp.client()
            amqp.departures.is_open = False
            client.say(CLOSE)
            await until(lambda: bool(amqp.departures))
            assert not client.came
            amqp.departures.is_open = True
            await client.until(connection.ChannelCloseOk)
            assert not amqp.departures
            declared = await other.ask(entity.QueueDeclare(queue="q", passive=True), entity.QueueDeclareOk)
            assert (declared.message_count, declared.consumer_count) == (MANY, 0)
            await other.ask(basic.BasicConsume(queue="q", exclusive=True), basic.BasicConsumeOk)
            # The connection goes on, and so does a channel of this number.
            await client.ask(connection.ChannelOpen(), connection.ChannelOpenOk)
            client.transport.abort()
            other.transport.abort()

    run(main)


@pytest.mark.usefixtures("one_a_turn")
def test_a_queue_that_goes_with_its_last_consumer_is_gone_with_the_answer(run: Run) -> None:
    async def main() -> None:
        async with serving() as amqp:
            client, other = await with_consumers(amqp, "q", auto_delete=True), await amqp.client()
            await client.ask(CLOSE, connection.ChannelCloseOk)
            refused = await other.ask(entity.QueueDeclare(queue="q", passive=True), connection.ChannelClose)
            assert refused.reply_code == 404
            client.transport.abort()
            other.transport.abort()

    run(main)


@pytest.mark.usefixtures("one_a_turn")
def test_a_connection_that_closes_behind_its_channel_hears_both_answers(run: Run) -> None:
    async def main() -> None:
        async with serving() as amqp:
            client = await with_consumers(amqp, "q")
            client.say(CLOSE)
            client.say(CLOSE_ALL, channel=0)
            answers = []
            while len(answers) < 2:
                while client.came:
                    answers.append(type(client.came.popleft().method))
                if len(answers) < 2:
                    await client.more()
            assert answers == [connection.ChannelCloseOk, connection.ConnectionCloseOk]

    run(main)


@pytest.mark.usefixtures("one_a_turn")
def test_what_a_connection_held_that_is_lost_comes_back_in_its_old_order(run: Run) -> None:
    async def main() -> None:
        async with serving() as amqp:
            client, other = await with_consumers(amqp, "q"), await amqp.client()
            client.transport.abort()
            await until(lambda: not amqp.receivers("q"))
            # Each is counted with those behind it.
            assert await got(other, "q") == list(reversed(range(MANY)))
            other.transport.abort()

    run(main)


@pytest.mark.usefixtures("one_a_turn")
def test_what_a_connection_held_that_is_closed_comes_back_and_nothing_more_goes_to_it(run: Run) -> None:
    async def main() -> None:
        async with serving() as amqp:
            client, other = await with_consumers(amqp, "q"), await amqp.client()
            amqp.departures.is_open = False
            await client.ask(CLOSE_ALL, connection.ConnectionCloseOk, 0)
            while not client.gone:
                await client.more()
            # Those that get nothing more, and those that leave.
            await until(lambda: len(amqp.departures) == 2)
            amqp.departures.is_open = True
            await until(lambda: not amqp.receivers("q"))
            assert await got(other, "q") == list(reversed(range(MANY)))
            other.transport.abort()

    run(main)


@pytest.mark.usefixtures("one_a_turn")
def test_a_message_that_comes_while_they_leave_is_lost_on_none_of_them(run: Run) -> None:
    """They have no limit, so each would take whatever comes until it has left."""

    async def main() -> None:
        async with serving() as amqp:
            client, other = await amqp.client(), await amqp.client()
            await client.ask(entity.QueueDeclare(queue="q"), entity.QueueDeclareOk)
            for number in range(MANY):
                await client.ask(basic.BasicConsume(queue="q", consumer_tag=str(number)), basic.BasicConsumeOk)
            amqp.departures.is_open = False
            client.transport.abort()
            await until(lambda: bool(amqp.departures))
            other.transport.write(published("q", b"late"))
            declared = await other.ask(entity.QueueDeclare(queue="q", passive=True), entity.QueueDeclareOk)
            assert (declared.message_count, declared.consumer_count) == (0, MANY)
            amqp.departures.is_open = True
            await until(lambda: not amqp.receivers("q"))
            assert await got(other, "q") == [0]
            other.transport.abort()

    run(main)


@pytest.mark.usefixtures("one_a_turn")
def test_what_was_asked_for_and_comes_behind_the_end_of_its_channel_is_told_nobody(run: Run) -> None:
    async def main() -> None:
        async with serving() as amqp:
            client, other = await amqp.client(), await amqp.client()
            await client.ask(entity.QueueDeclare(queue="q"), entity.QueueDeclareOk)
            client.transport.write(published("q", b"asked for"))
            await client.ask(entity.QueueDeclare(queue="q", passive=True), entity.QueueDeclareOk)
            amqp.departures.is_open = False
            client.say(basic.BasicGet(queue="q"), basic.BasicAck(delivery_tag=99))
            closed = (await client.until(connection.ChannelClose))[1]
            assert closed.reply_code == 406
            # The queue has given it, and it is held by who leaves.
            declared = await other.ask(entity.QueueDeclare(queue="q", passive=True), entity.QueueDeclareOk)
            assert declared.message_count == 0
            amqp.departures.is_open = True
            await until(lambda: not amqp.receivers("q"))
            client.say(connection.ChannelCloseOk(), connection.ChannelOpen())
            assert await got(client, "q", opened=True) == [0]
            client.transport.abort()
            other.transport.abort()

    run(main)


@pytest.mark.usefixtures("one_a_turn")
def test_all_is_back_and_nobody_waits_as_a_broker_drains(run: Run) -> None:
    async def main() -> None:
        async with serving() as amqp:
            client = await with_consumers(amqp, "q")
            amqp.departures.is_open = False
            await amqp.broker.drain(SECONDS)
            assert not amqp.departures
            while not client.gone:
                await client.more()
            figures = await amqp.broker.queues.get("q").ask(GetStatistics(parties=False), block=False)
            assert (figures.ready, figures.attached_receivers) == (MANY, 0)

    run(main)


def test_what_a_channel_held_by_gets_and_by_a_consumer_comes_back_as_the_queue_had_it(run: Run) -> None:
    """As RabbitMQ has it: whoever waits gets the oldest first, whichever way the channel had it."""

    async def main() -> None:
        async with serving() as amqp:
            client, other = await amqp.client(), await amqp.client(Reading)
            await client.ask(entity.QueueDeclare(queue="q"), entity.QueueDeclareOk)
            client.transport.write(b"".join(published("q", b"%d" % number) for number in range(4)))
            await client.ask(basic.BasicQos(prefetch_count=1), basic.BasicQosOk)
            await client.ask(basic.BasicConsume(queue="q", consumer_tag="a"), basic.BasicConsumeOk)
            await client.until(basic.BasicDeliver)
            for _ in range(2):
                await client.ask(basic.BasicGet(queue="q"), basic.BasicGetOk)
            await client.ask(basic.BasicConsume(queue="q", consumer_tag="b"), basic.BasicConsumeOk)
            await client.until(basic.BasicDeliver)
            await other.ask(basic.BasicConsume(queue="q"), basic.BasicConsumeOk)
            # Three hold something of the queue: a the first, who got the next two, and b the last.
            client.say(basic.BasicAck(delivery_tag=99))
            assert (await client.until(connection.ChannelClose))[1].reply_code == 406
            while len(other.bodies) < 4:
                await other.more()
            assert other.bodies == [b"0", b"1", b"2", b"3"]
            client.transport.abort()
            other.transport.abort()

    run(main)


async def failing_once(amqp: Amqp, channels: int, consumers: int) -> AsyncClient:
    """A client that has all messages of a queue where each may fail once. Its consumers, so many of each channel, have no limit."""
    client = await amqp.client()
    await client.ask(entity.QueueDeclare(queue="q", arguments=Table.of({"x-delivery-limit": 1})), entity.QueueDeclareOk)
    for channel in range(1, channels + 1):
        if channel > 1:
            await client.ask(connection.ChannelOpen(), connection.ChannelOpenOk, channel)
        for number in range(consumers):
            await client.ask(basic.BasicConsume(queue="q", consumer_tag=str(number)), basic.BasicConsumeOk, channel)
    client.transport.write(b"".join(published("q", b"%d" % number) for number in range(MANY)))
    for _ in range(MANY):
        await client.until(basic.BasicDeliver)
    return client


@pytest.mark.parametrize("channels", [1, 2, 9])
@pytest.mark.parametrize("consumers", [1, 3])
@pytest.mark.parametrize("slow", [False, True])
def test_what_a_lost_connection_held_has_failed_once_however_many_consumers_it_had(
    run: Run, request: pytest.FixtureRequest, channels: int, consumers: int, slow: bool
) -> None:
    """Nothing of it comes to one that is yet to leave, be it that they leave one a turn."""
    if slow:
        request.getfixturevalue("one_a_turn")

    async def main() -> None:
        async with serving() as amqp:
            client, other = await failing_once(amqp, channels, consumers), await amqp.client()
            client.transport.abort()
            await until(lambda: not amqp.receivers("q"))
            assert await got(other, "q") == list(reversed(range(MANY)))
            other.transport.abort()

    run(main)


@pytest.mark.usefixtures("one_a_turn")
def test_what_comes_for_one_that_is_yet_to_leave_has_not_failed_there(run: Run) -> None:
    async def main() -> None:
        async with serving() as amqp:
            client, other = await amqp.client(), await amqp.client(Reading)
            declared = entity.QueueDeclare(queue="q", arguments=Table.of({"x-delivery-limit": 1}))
            await client.ask(declared, entity.QueueDeclareOk)
            await client.ask(basic.BasicConsume(queue="q"), basic.BasicConsumeOk)
            amqp.departures.is_open = False
            client.transport.abort()
            await until(lambda: bool(amqp.departures))
            other.transport.write(published("q", b"late"))
            declared_ok = await other.ask(entity.QueueDeclare(queue="q", passive=True), entity.QueueDeclareOk)
            assert declared_ok.message_count == 0
            amqp.departures.is_open = True
            await until(lambda: not amqp.receivers("q"))
            # It may fail once, and does so now.
            await other.ask(basic.BasicGet(queue="q"), basic.BasicGetOk)
            other.say(basic.BasicNack(delivery_tag=1, requeue=True))
            await other.ask(basic.BasicGet(queue="q"), basic.BasicGetOk)
            other.transport.abort()

    run(main)
