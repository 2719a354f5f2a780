"""A sender or receiver whose queue must be there: none is made by a slip, at a broker of any age."""

from __future__ import annotations

from typing import Any

import pytest

from streams import Sink, Source
from transport import Administration, BrokerError, OldBrokerError, Receiver, Sender
from transport.errors import InvalidNameError, RemoteProtocolError
from transport.wire.messages import VERSION, Error, Hello
from transport.wire.queue_named import EXISTING_QUEUE, hello_of, with_queue


def test_a_queue_that_is_not_there_is_refused_and_not_made(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            with pytest.raises(BrokerError, match=r"not-found: .*'oders'"):
                await Source.single(b"a").to(Sender(broker.send_address, queue="oders", create=False)).run()
            with pytest.raises(BrokerError, match=r"not-found: .*'oders'"):
                await Receiver(broker.receive_address, queue="oders", create=False).to(Sink.ignore()).run()
            async with Administration(broker.send_address) as administration:
                assert await administration.queues() == []

    run(main)


def test_a_queue_that_is_there_is_used_and_named_in_what_is_told_of_the_connection(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker, Administration(broker.send_address) as administration:
            await administration.create_queue("orders")
            await Source.single(b"a").to(Sender(broker.send_address, queue="orders", create=False)).run()
            async for delivery in Receiver(broker.receive_address, queue="orders", create=False, limit=1):
                rows = (await administration.statistics())["connections"]
                assert {row["queue"] for row in rows if row["role"] == "receiver"} == {"orders"}
                delivery.acknowledge()

    run(main)


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_broker_from_before_the_option_refuses_hello_and_the_client_says_why(run: Any, play: Any, role: str) -> None:
    def old(peer: Any) -> None:
        assert peer.read(Hello).queue is None
        peer.send(Error("invalid-name", f"HELLO in the role {role} names a queue", close=True))

    broker = play(old)

    async def main() -> None:
        sending = Source.single(b"a").to(Sender(broker.address, queue="q", create=False))
        receiving = Receiver(broker.address, queue="q", create=False).to(Sink.ignore())
        with pytest.raises(OldBrokerError, match="older than this client"):
            await (sending.run() if role == "sender" else receiving.run())

    run(main)


def test_the_option_stands_in_place_of_the_field() -> None:
    assert with_queue(hello_of("sender", "q", "c", {}, create=True)) == (Hello(VERSION, "sender", "q", "c", {}), True)
    hello = hello_of("receiver", "q", None, {"x": 1}, create=False)
    assert (hello.queue, hello.options) == (None, {"x": 1, EXISTING_QUEUE: "q"})
    named, may_make = with_queue(hello)
    assert (named.queue, may_make) == ("q", False)
    with pytest.raises(RemoteProtocolError, match="the field is nil beside the option"):
        with_queue(Hello(VERSION, "sender", "q", "c", {EXISTING_QUEUE: "q"}))
    with pytest.raises(RemoteProtocolError, match="not a name"):
        with_queue(Hello(VERSION, "sender", None, "c", {EXISTING_QUEUE: 7}))
    with pytest.raises(InvalidNameError):
        with_queue(Hello(VERSION, "sender", None, "c", {EXISTING_QUEUE: "a b"}))


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_an_option_that_is_nil_is_none(run: Any, serve: Any, peers: Any, role: str) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            peer = await opened.connect(broker.send_address if role == "sender" else broker.receive_address)
            await peer.hello(role, "orders", **{EXISTING_QUEUE: None})
            assert "orders" in broker.queues

    run(main)
