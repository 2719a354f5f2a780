"""How a receiver says its priority, what it makes of a broker that knows of none, and who has messages first."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from actors.batch import MessageBatch
from streams import Source
from tests.transport.scripted_clients import Client, scripted, until_end
from transport import Administration, Consumer, Receiver, Sender
from transport.errors import BrokerError, LocalProtocolError, RemoteProtocolError
from transport.wire.messages import VERSION, Deliver, Error, Hello, Request, Welcome
from transport.wire.receiver_priorities import LEAST, MOST, priority_of
from transport.wire.receiver_turns import hears_turns

WRONG = [True, 1.0, "1", None, b"", [], MOST + 1, LEAST - 1]


def hello(**options: Any) -> Hello:
    return Hello(VERSION, "receiver", "orders", None, options)


def test_a_priority_is_any_integer_of_64_bits_and_0_where_none_is_said() -> None:
    assert [priority_of(hello(**said)) for said in ({}, {"priority": LEAST}, {"priority": MOST})] == [0, LEAST, MOST]


@pytest.mark.parametrize("said", WRONG)
def test_what_is_none_is_refused_by_its_name(said: object) -> None:
    with pytest.raises(RemoteProtocolError, match=r"priority is .*, not a whole number of 64 bits"):
        priority_of(hello(priority=said))


@pytest.mark.parametrize("said", WRONG)
def test_a_program_that_gives_none_is_told(said: Any) -> None:
    with pytest.raises(LocalProtocolError, match="it is a whole number of 64 bits"):
        Receiver(queue="orders", priority=said)
    with pytest.raises(LocalProtocolError, match="it is a whole number of 64 bits"):
        Consumer(queue="orders", priority=said)


def test_a_consumer_gives_its_handlers_its_priority() -> None:
    consumer = Consumer(queue="orders", priority=-3)

    @consumer.handler
    async def handle(payload: bytes) -> None:
        """It is never called."""

    assert [binding.receiver.priority for binding in consumer._bindings] == [-3]


def test_the_broker_answers_that_it_counts_and_says_nothing_where_none_was_said(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            for said, answered in (({}, None), ({"priority": 0}, None), ({"priority": -7}, -7)):
                peer = await opened.connect(broker.receive_address)
                peer.send(hello(**said))
                assert (await peer.expect(Welcome)).options.get("priority") == answered
            peer = await opened.connect(broker.receive_address)
            peer.send(hello(priority="high"))
            assert (await peer.expect(Error)).code == "protocol-error"

    run(main)


@pytest.mark.parametrize("priority", [0, 5])
def test_with_a_broker_that_knows_of_none_a_receiver_takes_turns_and_says_so(
    run: Any, caplog: pytest.LogCaptureFixture, priority: int
) -> None:
    async def older(client: Client) -> None:
        # It passes over what it does not know.
        await client.welcome(id_prefix=b"12345678")
        assert isinstance(await client.frame(), Request)
        client.say(Deliver(0, 0, 1, False, MessageBatch.from_payloads([b"tea"])))
        await until_end(client)

    async def main() -> None:
        async with scripted(older) as address:
            async for delivery in Receiver(address, queue="orders", limit=1, priority=priority):
                delivery.acknowledge()

    with caplog.at_level(logging.WARNING, "penstock.receiver"):
        run(main)
    told = [record.getMessage() for record in caplog.records if "knows no priorities" in record.getMessage()]
    assert len(told) == (priority != 0)


async def took(receiver: Receiver) -> list[int]:
    found = []
    async for delivery in receiver:
        delivery.acknowledge()
        found.append(int(delivery.payload))
    return found


def test_messages_go_to_the_receivers_of_the_highest_priority_first(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            wants = {"low": -1, "usual": 0, "high": 5}
            receivers = {
                name: Receiver(broker.receive_address, queue="orders", limit=10, priority=priority)
                for name, priority in wants.items()
            }
            tasks = {name: asyncio.create_task(took(receiver)) for name, receiver in receivers.items()}
            for receiver in receivers.values():
                await receiver.ready()
            async with Administration(broker.send_address) as administration:
                rows = {row["priority"] for row in await administration.connections() if row["role"] == "receiver"}
            numbers = Source.range(30).map(lambda number: b"%d" % number)
            await numbers.to(Sender(broker.send_address, queue="orders")).run()
            found = {name: await task for name, task in tasks.items()}
            assert found == {"high": list(range(10)), "usual": list(range(10, 20)), "low": list(range(20, 30))}
            assert rows == set(wants.values())

    run(main)


def test_of_a_single_active_consumer_the_next_one_has_what_is_left_and_is_told_when_it_waits_and_goes_on(
    run: Any, serve: Any
) -> None:
    told: list[bool] = []

    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("orders", single_active_consumer=True)
            first = Receiver(broker.receive_address, queue="orders", limit=3, client_id="first")
            second = Receiver(broker.receive_address, queue="orders", limit=4, on_waiting=told.append)
            one = asyncio.create_task(took(first))
            await first.ready()
            other = asyncio.create_task(took(second))
            await second.ready()
            row = await administration.queue("orders")
            (holder,) = [each["id"] for each in await administration.connections() if each["client_id"] == "first"]
            assert (row["active"], row["waiting_receivers"]) == (holder, 1)
            with pytest.raises(BrokerError, match="single_active_consumer of queue 'orders' cannot be altered"):
                await administration._command("queue.alter", {"name": "orders", "single_active_consumer": False})
            numbers = Source.range(7).map(lambda number: b"%d" % number)
            await numbers.to(Sender(broker.send_address, queue="orders")).run()
            assert (await one, await other) == ([0, 1, 2], [3, 4, 5, 6])
            assert told == [True, False]
            await administration.delete_queue("orders")

    run(main)


def test_a_receiver_whose_place_another_takes_is_told_so_and_when_it_has_it_again(run: Any, serve: Any) -> None:
    told: list[bool] = []
    changed = asyncio.Condition()

    async def main() -> None:
        async def until_told(*expected: bool) -> None:
            async with changed:
                await changed.wait_for(lambda: told == list(expected))

        def note(waiting: bool) -> None:
            told.append(waiting)
            notes.append(asyncio.create_task(wake()))

        async def wake() -> None:
            async with changed:
                changed.notify_all()

        notes: list[asyncio.Task[None]] = []
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("orders", single_active_consumer=True)
            first = Receiver(broker.receive_address, queue="orders", limit=2, on_waiting=note)
            one = asyncio.create_task(took(first))
            await first.ready()
            assert told == []
            high = Receiver(broker.receive_address, queue="orders", limit=1, priority=1)
            other = asyncio.create_task(took(high))
            await until_told(True)
            sent = Source.range(1).map(lambda number: b"%d" % number)
            await sent.to(Sender(broker.send_address, queue="orders")).run()
            assert await other == [0]
            # Its turn has come, and it is told before any message is there.
            await until_told(True, False)
            await sent.to(Sender(broker.send_address, queue="orders")).run()
            await sent.to(Sender(broker.send_address, queue="orders")).run()
            assert await one == [0, 0]
            assert told == [True, False]
            await asyncio.gather(*notes)

    run(main)


@pytest.mark.parametrize("said", [1, "yes", None])
def test_an_option_of_turns_that_is_no_truth_is_refused(said: object) -> None:
    assert [hears_turns(hello()), hears_turns(hello(turns=True)), hears_turns(hello(turns=False))] == [
        False,
        True,
        False,
    ]
    with pytest.raises(RemoteProtocolError, match=r"turns is .*, neither true nor false"):
        hears_turns(hello(turns=said))


def test_only_who_listens_asks_for_turns() -> None:
    assert "turns" not in Receiver(queue="orders").hello_options
    assert Receiver(queue="orders", on_waiting=print).hello_options["turns"] is True
