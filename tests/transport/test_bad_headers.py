"""Headers that another client did not write as a map: an error for that message alone, and nobody is stuck behind it."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from actors.batch import BinaryColumn
from streams import Sink, Source
from transport import BadHeadersError, Delivery, Message, MessageBatch, Receiver, Sender
from transport.clients.administration import Administration
from transport.wire.messages import Demand, Send, Sent

BAD = [
    b"\xc1",
    msgpack.packb([1]),
    msgpack.packb({"a": 1}),
    msgpack.packb({1: "a"}),
    b"\x81\xa1a",
    b"\x80x",
    b"\x81" * 2000,
]


def batch(packed: bytes) -> MessageBatch:
    """Three messages, of which the second has ``packed`` for its headers."""
    made = MessageBatch.from_messages(
        [Message(b"a", headers={"n": "1"}), Message(b"b"), Message(b"c", headers={"n": "3"})]
    )
    assert made.headers is not None
    made.headers = BinaryColumn.from_values([made.headers[0], packed, made.headers[2]])
    return made


async def sent(opened: Any, broker: Any, packed: bytes) -> None:
    """By a client that does not check."""
    sender = await opened.open(broker.send_address, "sender", "q")
    await sender.expect(Demand)
    sender.send(Send(0, None, batch(packed)))
    assert await sender.expect_later(Sent) == Sent(3, 0)


@pytest.mark.parametrize("packed", BAD, ids=lambda packed: repr(packed[:6]))
def test_a_receiver_gets_an_error_for_that_message_and_goes_on(run: Any, serve: Any, peers: Any, packed: bytes) -> None:
    seen: list[Any] = []
    said: list[str] = []

    def handle(delivery: Delivery) -> None:
        try:
            seen.append(delivery.headers)
        except BadHeadersError as error:
            seen.append((error.sequence, delivery.headers_raw, delivery.payload))
            said.append(str(error))
        delivery.acknowledge()

    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await sent(opened, broker, packed)
            await Receiver(broker.receive_address, queue="q", limit=3).to(Sink.foreach(handle)).run()
            assert seen == [{"n": "1"}, (1, packed, b"b"), {"n": "3"}]
            assert said[0].startswith("message 1 of queue 'q' has headers that cannot be read (")
            assert "headers_raw has the bytes" in said[0]

    run(main)


def test_a_handler_that_does_not_expect_them_fails_until_the_message_is_a_dead_letter(
    run: Any, serve: Any, peers: Any
) -> None:
    handled: list[bytes] = []

    def handle(delivery: Delivery) -> None:
        assert delivery.headers is not None
        handled.append(delivery.payload)
        delivery.acknowledge()

    async def main() -> None:
        async with serve(max_receives=2) as broker, peers() as opened:
            await sent(opened, broker, b"\xc1")
            for _ in range(2):
                receiver = Receiver(broker.receive_address, queue="q", max_in_flight=1, limit=3)
                with pytest.raises(BadHeadersError):
                    await receiver.to(Sink.foreach(handle)).run()
            await Receiver(broker.receive_address, queue="q", max_in_flight=1, limit=1).to(Sink.foreach(handle)).run()
            assert handled == [b"a", b"c"]
            dead: list[bytes] = []

            def bury(delivery: Delivery) -> None:
                dead.append(delivery.headers_raw)
                delivery.acknowledge()

            await Receiver(broker.receive_address, queue="q.dead", limit=1).to(Sink.foreach(bury)).run()
            assert dead == [b"\xc1"]
            async with Administration(broker.send_address) as administration:
                assert all(row["stored_messages"] == 0 for row in await administration.queues())

    run(main)


@pytest.mark.parametrize("headers", [{"a": 1}, {1: "a"}, {"a": None}, {b"a": "b"}, {str(n): "" for n in range(65)}])
def test_our_clients_check_what_they_send(run: Any, serve: Any, headers: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            with pytest.raises(ValueError, match="header"):
                await (
                    Source.from_iterable([Message(b"x", headers=headers)])
                    .to(Sender(broker.send_address, queue="q"))
                    .run()
                )

    run(main)


def test_a_message_without_headers_has_no_raw_ones(run: Any, serve: Any) -> None:
    seen: list[Any] = []

    async def main() -> None:
        async with serve() as broker:
            await Source.from_iterable([b"x"]).to(Sender(broker.send_address, queue="q")).run()

            def handle(delivery: Delivery) -> None:
                seen.append((delivery.headers, delivery.headers_raw))
                delivery.acknowledge()

            await Receiver(broker.receive_address, queue="q", limit=1).to(Sink.foreach(handle)).run()
            assert seen == [({}, b"")]

    run(main)
