"""`Receiver` against a real broker: connections that break, brokers that stop, queues that go, and other receivers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streams import Sink
from streams.testkit import TestSink, settle
from tests.transport.receiver_helpers import fill, numbered, row
from transport import (
    Backoff,
    BrokerError,
    ConnectionLostError,
    Delivery,
    Receiver,
)
from transport.wire.messages import Ack, Command, Deliver, Request, Result

QUICK = Backoff(minimum=0.001, maximum=0.01, give_up_after=15.0)

MIB = 1 << 20


def test_when_the_connection_breaks_it_goes_on_where_the_queue_stands(
    run: Any, serve: Any, peers: Any, cutting: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, cutting(broker.receive_address) as proxy:
            await fill(broker, 200, batch=7)
            proxy.down = [300, 500, 900, 1500, 700]
            receiver = Receiver(proxy.address, queue="orders", max_in_flight=20, reconnect=QUICK)
            seen: dict[int, bytes] = {}
            acknowledged = asyncio.Event()

            def handle(delivery: Delivery) -> None:
                if delivery.sequence in seen:
                    assert delivery.possibly_replayed
                seen[delivery.sequence] = delivery.payload
                delivery.acknowledge()
                if len(seen) == 200:
                    acknowledged.set()

            running = receiver.to(Sink.foreach(handle)).run()
            await acknowledged.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert [seen[number] for number in range(200)] == numbered(200)
            assert proxy.connections >= 6
            facts = await row(broker, peers)
            assert facts["total_acknowledged"] == 200
            assert (facts["ready"], facts["in_flight"]) == (0, 0)

    run(main)


@pytest.mark.parametrize("direction", ["up", "down"])
def test_cut_at_every_frame_boundary_no_message_is_lost(
    run: Any, serve: Any, peers: Any, cutting: Any, direction: str
) -> None:
    async def drained(broker: Any, address: str) -> set[int]:
        seen: set[int] = set()
        everything = asyncio.Event()

        def handle(delivery: Delivery) -> None:
            seen.add(delivery.sequence)
            delivery.acknowledge()
            if len(seen) == 12:
                everything.set()

        running = Receiver(address, queue="orders", max_in_flight=4, reconnect=QUICK).to(Sink.foreach(handle)).run()
        await everything.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return seen

    async def main() -> None:
        async with serve() as broker, cutting(broker.receive_address) as proxy:
            await fill(broker, 12, batch=3)
            await drained(broker, proxy.address)
            whole = bytes(proxy.traffic[0] if direction == "up" else proxy.received[0])
        edges = [0]
        while edges[-1] < len(whole):
            edges.append(edges[-1] + int.from_bytes(whole[edges[-1] : edges[-1] + 4], "big"))
        assert len(edges) > 3
        for cut in sorted({edge + step for edge in edges for step in (-1, 0, 3)} & set(range(1, len(whole)))):
            async with serve() as broker, cutting(broker.receive_address) as proxy:
                await fill(broker, 12, batch=3)
                setattr(proxy, direction, [cut])
                assert await drained(broker, proxy.address) == set(range(12)), cut
                # An acknowledgement that was cut off on its last way leaves its message to be had again, no more.
                facts = await row(broker, peers)
                assert facts["total_acknowledged"] + facts["ready"] == 12, cut
                assert facts["in_flight"] == 0, cut

    run(main)


def test_a_receiver_survives_a_broker_that_stops_and_starts_again(run: Any, serve: Any) -> None:
    async def main() -> None:
        sink: TestSink[Delivery] = TestSink(timeout=10.0)
        async with serve() as broker:
            send_address, receive_address = broker.send_address, broker.receive_address
            running = Receiver(receive_address, queue="orders", reconnect=QUICK).to(sink).run()
            await sink.expect_subscription()
            sink.request(100)
            await fill(broker, 1)
            (await sink.expect_next()).acknowledge()
        async with serve(send_address=send_address, receive_address=receive_address) as again:
            await fill(again, 1)
            delivery = await sink.expect_next()
            assert (delivery.sequence, delivery.possibly_replayed) == (0, False)
            delivery.acknowledge()
            sink.cancel()
            await running

    run(main)


def test_without_a_broker_it_gives_up_when_it_was_told_to(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            address = broker.receive_address
        backoff = Backoff(minimum=0.001, maximum=0.01, give_up_after=0.05)
        with pytest.raises(ConnectionLostError, match="given up after"):
            await Receiver(address, queue="orders", reconnect=backoff).to(Sink.acknowledge()).run()

    run(main)


def test_the_wrong_port_fails_at_once(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            with pytest.raises(BrokerError, match="unknown-role"):
                await Receiver(broker.send_address, queue="orders").to(Sink.acknowledge()).run()

    run(main)


def test_a_queue_that_is_deleted_under_a_receiver_is_created_anew(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            sink: TestSink[Delivery] = TestSink()
            running = Receiver(broker.receive_address, queue="orders", reconnect=QUICK).to(sink).run()
            await sink.expect_subscription()
            sink.request(10)
            await fill(broker, 1)
            await sink.expect_next()
            admin = await opened.open(broker.send_address, "admin", None)
            admin.send(Command(1, "queue.delete", {"name": "orders"}))
            await admin.expect(Result)
            await fill(broker, 2)
            assert [(await sink.expect_next()).payload for _ in range(2)] == numbered(2)
            sink.cancel()
            await running

    run(main)


def test_two_receivers_share_a_queue_and_each_message_goes_to_one(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            done = asyncio.Event()
            seen: list[tuple[str, int]] = []

            def handler(name: str) -> Any:
                def handle(delivery: Delivery) -> None:
                    seen.append((name, delivery.sequence))
                    delivery.acknowledge()
                    if len(seen) == 2000:
                        done.set()

                return handle

            runs = [
                Receiver(broker.receive_address, queue="orders", max_in_flight=50).to(Sink.foreach(handler(name))).run()
                for name in ("one", "two")
            ]
            await fill(broker, 2000, batch=20)
            await done.wait()
            assert sorted(sequence for _, sequence in seen) == list(range(2000))
            shares = [sum(name == who for who, _ in seen) for name in ("one", "two")]
            assert min(shares) > 500
            for running in runs:
                running.cancel()
            await asyncio.wait([asyncio.ensure_future(_ended(running)) for running in runs])

    run(main)


async def _ended(running: Any) -> None:
    with pytest.raises(asyncio.CancelledError):
        await running


def test_a_crashing_receivers_messages_go_to_another_at_once_in_their_old_place(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await fill(broker, 6)
            crashing = await opened.open(broker.receive_address, "receiver")
            crashing.send(Request(4, MIB))
            await crashing.expect(Deliver)
            crashing.send(Ack([(1, 1)]))
            sink: TestSink[Delivery] = TestSink()
            running = Receiver(broker.receive_address, queue="orders").to(sink).run()
            await sink.expect_subscription()
            sink.request(100)
            assert [(await sink.expect_next()).sequence for _ in range(2)] == [4, 5]
            crashing.abort()
            again = await sink.expect_n(3)
            assert [(d.sequence, d.possibly_replayed) for d in again] == [(0, True), (2, True), (3, True)]
            sink.cancel()
            await running

    run(main)


def test_a_silent_receivers_messages_go_to_another(run: Any, serve: Any, peers: Any, jump: Any) -> None:
    async def main() -> None:
        async with serve(heartbeat=2.0) as broker, peers() as opened:
            await fill(broker, 2)
            silent = await opened.open(broker.receive_address, "receiver")
            silent.answers_pings = False
            silent.send(Request(2, MIB))
            await silent.expect(Deliver)
            for _ in range(3):
                jump(2.0)
                await settle()
            received = await Receiver(broker.receive_address, queue="orders").take(2).to(Sink.collect()).run()
            assert [(d.sequence, d.possibly_replayed) for d in received] == [(0, True), (1, True)]

    run(main)
