"""`Receiver` against a real broker: exact acknowledgement, limits, and the ways in which a run ends."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from actors.batch import MessageBatch
from streams import OneByOneRequestStrategy, Sink, Source
from streams.testkit import TestSink
from tests.transport.receiver_helpers import fill, noting, numbered, row
from transport import (
    DeliveredBatch,
    Delivery,
    LocalProtocolError,
    Message,
    Receiver,
    Sender,
)
from transport.errors import InvalidNameError
from transport.wire.codec import encode
from transport.wire.messages import Deliver, Welcome


def test_every_message_comes_once_in_order_and_acknowledged_it_is_gone(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 3000)
            receiver = Receiver(broker.receive_address, queue="orders", limit=3000)
            seen: list[bytes] = []
            assert await receiver.map(noting(seen)).to(Sink.acknowledge()).run() == 3000
            assert seen == numbered(3000)
            facts = await row(broker, peers)
            assert (facts["ready"], facts["in_flight"], facts["total_acknowledged"]) == (0, 0, 3000)
            assert facts["total_redelivered"] == 0

    run(main)


@pytest.mark.parametrize("max_in_flight", [1, 2, 7, 1000])
def test_never_more_than_max_in_flight_is_delivered_and_unacknowledged(
    run: Any, serve: Any, peers: Any, max_in_flight: int
) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 300)
            sink: TestSink[Delivery] = TestSink()
            running = Receiver(broker.receive_address, queue="orders", max_in_flight=max_in_flight).to(sink).run()
            await sink.expect_subscription()
            sink.request(1000)
            handed = await sink.expect_n(min(300, max_in_flight))
            await sink.expect_no_message(0.02)
            assert (await row(broker, peers))["in_flight"] == min(300, max_in_flight)
            for delivery in handed:
                delivery.acknowledge()
            if max_in_flight < 300:
                assert await sink.expect_next()
            sink.cancel()
            await running

    run(main)


def test_bytes_in_flight_are_bounded_give_or_take_one_message(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await Source.from_iterable([b"x" * 1000] * 50).to(Sender(broker.send_address, queue="orders")).run()
            sink: TestSink[Delivery] = TestSink()
            running = Receiver(broker.receive_address, queue="orders", max_in_flight_bytes=5000).to(sink).run()
            await sink.expect_subscription()
            sink.request(1000)
            await sink.expect_n(5)
            await sink.expect_no_message(0.02)
            assert (await row(broker, peers))["in_flight"] == 5
            sink.cancel()
            await running

    run(main)


def test_a_message_larger_than_the_byte_limit_still_comes(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            payloads = [bytes([number]) * 50_000 for number in range(5)]
            await Source.from_iterable(payloads).to(Sender(broker.send_address, queue="orders")).run()
            receiver = Receiver(broker.receive_address, queue="orders", max_in_flight_bytes=100, limit=5)
            seen: list[bytes] = []
            await receiver.map(noting(seen)).to(Sink.acknowledge()).run()
            assert seen == payloads

    run(main)


def test_one_by_one_hands_over_one_at_a_time(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 5)
            receiver = Receiver(broker.receive_address, queue="orders", strategy=OneByOneRequestStrategy(), limit=5)
            assert await receiver.to(Sink.acknowledge()).run() == 5
            assert (await row(broker, peers))["total_acknowledged"] == 5

    run(main)


def test_batches_come_as_they_were_delivered(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 100, batch=10)
            source = Receiver(broker.receive_address, queue="orders", limit=100).batches()
            batches: list[DeliveredBatch] = []

            def note(batch: DeliveredBatch) -> DeliveredBatch:
                batches.append(batch)
                return batch

            await source.map(note).to(Sink.acknowledge()).run()
            assert [payload for batch in batches for payload in batch.payloads()] == numbered(100)
            assert all(len(batch) >= 1 and not batch.possibly_replayed for batch in batches)

    run(main)


def test_take_gives_back_what_it_did_not_take_at_once(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 50)
            first = await Receiver(broker.receive_address, queue="orders").take(3).to(Sink.acknowledge()).run()
            assert first == 3
            facts = await row(broker, peers)
            assert (facts["ready"], facts["in_flight"], facts["total_acknowledged"]) == (47, 0, 3)
            receiver = Receiver(broker.receive_address, queue="orders", limit=47)
            rest: list[bytes] = []
            await receiver.map(noting(rest)).to(Sink.acknowledge()).run()
            assert rest == numbered(47, 3)

    run(main)


@pytest.mark.parametrize("limit", [1, 9, 10, 11])
def test_a_limit_takes_exactly_so_many_from_the_queue(run: Any, serve: Any, peers: Any, limit: int) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 40)
            receiver = Receiver(broker.receive_address, queue="orders", max_in_flight=5, limit=limit)
            assert await receiver.to(Sink.acknowledge()).run() == limit
            facts = await row(broker, peers)
            assert (facts["total_out"], facts["total_acknowledged"], facts["total_redelivered"]) == (limit, limit, 0)

    run(main)


def test_leaving_an_async_loop_sends_its_acknowledgements(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 20)
            async with aclosing(Receiver(broker.receive_address, queue="orders").iterate()) as deliveries:
                async for delivery in deliveries:
                    delivery.acknowledge()
                    if delivery.sequence == 6:
                        break
            facts = await row(broker, peers)
            assert (facts["total_acknowledged"], facts["in_flight"], facts["ready"]) == (7, 0, 13)

    run(main)


def test_a_cancelled_run_sends_its_acknowledgements_and_gives_the_rest_back(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 30)
            seen = asyncio.Event()

            def handle(delivery: Delivery) -> None:
                if delivery.sequence < 10:
                    delivery.acknowledge()
                if delivery.sequence == 29:
                    seen.set()

            running = Receiver(broker.receive_address, queue="orders").to(Sink.foreach(handle)).run()
            await seen.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            facts = await row(broker, peers)
            assert (facts["total_acknowledged"], facts["in_flight"], facts["ready"]) == (10, 0, 20)

    run(main)


def test_a_failing_handler_gives_back_what_it_did_not_acknowledge(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 10)

            def handle(delivery: Delivery) -> Delivery:
                if delivery.sequence == 4:
                    raise ZeroDivisionError("handler")
                return delivery

            with pytest.raises(ZeroDivisionError, match="handler"):
                await Receiver(broker.receive_address, queue="orders").map(handle).to(Sink.acknowledge()).run()
            facts = await row(broker, peers)
            assert (facts["total_acknowledged"], facts["in_flight"], facts["ready"]) == (4, 0, 6)

    run(main)


def test_what_cannot_be_a_receiver_is_refused_when_it_is_made() -> None:
    with pytest.raises(InvalidNameError):
        Receiver(queue="two words")
    with pytest.raises(LocalProtocolError, match="max_in_flight=0"):
        Receiver(queue="q", max_in_flight=0)
    with pytest.raises(LocalProtocolError, match="limit=0"):
        Receiver(queue="q", limit=0)


@pytest.mark.parametrize("limit", ["max_in_flight", "max_in_flight_bytes"])
def test_more_in_flight_than_a_frame_can_ask_for_is_refused_and_not_waited_for(limit: str) -> None:
    with pytest.raises(LocalProtocolError, match="the most that can be asked for"):
        Receiver(queue="orders", **{limit: 2**64})  # type: ignore[arg-type]  # of the two


def test_a_broker_that_delivers_more_than_was_requested_is_not_believed(run: Any) -> None:
    async def overdeliver(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4096)
        writer.writelines(encode(Welcome(1, 1, {"heartbeat_ms": 5000, "id_prefix": b"12345678"})))
        writer.writelines(encode(Deliver(0, 1, 1, False, MessageBatch.from_payloads([b"x"] * 11))))
        await reader.read()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(overdeliver, "127.0.0.1", 0)
        async with server:
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(Exception, match="were requested"):
                await Receiver(address, queue="orders", max_in_flight=10).to(Sink.acknowledge()).run()

    run(main)


def test_a_receiver_of_dead_letters_sees_why_and_where_they_died(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            message = Message(b"poison", key=b"k", headers={"own": "x"})
            await Source.single(message).to(Sender(broker.send_address, queue="orders")).run()
            rejecting = Receiver(broker.receive_address, queue="orders").take(1)
            await rejecting.to(Sink.foreach(lambda delivery: delivery.reject())).run()
            letters: list[Delivery] = []
            dead = Receiver(broker.receive_address, queue="orders.dead", limit=1)
            await dead.map(lambda delivery: letters.append(delivery) or delivery).to(Sink.acknowledge()).run()
            (letter,) = letters
            assert (letter.payload, letter.key) == (b"poison", b"k")
            headers = dict(letter.headers)
            assert 0 < int(headers.pop("penstock-dead-sent-us")) <= letter.enqueued_us
            assert headers == {
                "own": "x",
                "penstock-dead-reason": "max-receives",
                "penstock-dead-queue": "orders",
                "penstock-dead-deliveries": "1",
            }

    run(main)
