"""`Receiver` against a real broker: exact acknowledgement, redelivery, reconnection, and the ways in which a run ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest

from actors.batch import MessageBatch
from streams import OneByOneRequestStrategy, Sink, Source
from streams.testkit import TestSink, settle
from transport import (
    Backoff,
    BrokerError,
    ConnectionLostError,
    DeliveredBatch,
    Delivery,
    LocalProtocolError,
    Message,
    Receiver,
    Sender,
)
from transport.errors import InvalidNameError
from transport.wire.codec import encode
from transport.wire.messages import Ack, Command, Deliver, Request, Result, Welcome

QUICK = Backoff(minimum=0.001, maximum=0.01, give_up_after=15.0)
MIB = 1 << 20


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"message %d" % number for number in range(start, start + count)]


async def fill(broker: Any, count: int, queue: str = "orders", batch: int = 1000) -> None:
    sender = Sender(broker.send_address, queue=queue, max_batch_messages=batch)
    await Source.from_iterable(numbered(count)).to(sender).run()


def noting(payloads: list[bytes]) -> Callable[[Delivery], Delivery]:
    """A step that keeps the payloads that go through it."""

    def note(delivery: Delivery) -> Delivery:
        payloads.append(delivery.payload)
        return delivery

    return note


async def row(broker: Any, peers: Any, queue: str = "orders") -> dict[str, Any]:
    """The queue's statistics."""
    async with peers() as opened:
        admin = await opened.open(broker.send_address, "admin", None)
        admin.send(Command(1, "queue.list", {}))
        answer = await admin.expect(Result)
    found: dict[str, Any] = next(entry for entry in json.loads(answer.json) if entry["name"] == queue)
    return found


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


def test_a_rejected_message_comes_again_marked(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 3)
            facts: list[tuple[int, int, bool]] = []

            def handle(delivery: Delivery) -> None:
                facts.append((delivery.sequence, delivery.delivery_count, delivery.possibly_replayed))
                if delivery.delivery_count == 1 and delivery.sequence == 1:
                    delivery.reject()
                else:
                    delivery.acknowledge()

            await Receiver(broker.receive_address, queue="orders", limit=3).to(Sink.foreach(handle)).run()
            assert facts == [(0, 1, False), (1, 1, False), (2, 1, False), (1, 2, True)]

    run(main)


def test_a_rejection_with_a_delay_is_kept_to_it(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 1)
            loop = asyncio.get_running_loop()
            times: list[float] = []

            def handle(delivery: Delivery) -> None:
                times.append(loop.time())
                if len(times) == 1:
                    delivery.reject(0.08)
                else:
                    delivery.acknowledge()

            await Receiver(broker.receive_address, queue="orders", limit=1).to(Sink.foreach(handle)).run()
            assert len(times) == 2
            assert times[1] - times[0] >= 0.08

    run(main)


def test_a_message_held_too_long_goes_to_another_and_the_late_answer_is_ignored(
    run: Any, serve: Any, jump: Any
) -> None:
    async def main() -> None:
        async with serve(visibility_timeout=5.0) as broker:
            await fill(broker, 1)
            slow: TestSink[Delivery] = TestSink()
            # One in flight, so that the message does not come back to the slow one itself.
            slow_run = Receiver(broker.receive_address, queue="orders", max_in_flight=1).to(slow).run()
            held = await slow.request_next()
            jump(5.0)
            other = await Receiver(broker.receive_address, queue="orders").take(1).to(Sink.collect()).run()
            assert (other[0].sequence, other[0].delivery_count, other[0].possibly_replayed) == (0, 2, True)
            held.acknowledge()
            # The late answer is nobody's fault: it is still connected, and gets what comes.
            await fill(broker, 1)
            assert (await slow.request_next()).sequence == 1
            slow.cancel()
            await slow_run

    run(main)


def test_an_extended_message_is_kept_past_the_visibility_timeout(run: Any, serve: Any, peers: Any, jump: Any) -> None:
    async def main() -> None:
        async with serve(visibility_timeout=5.0) as broker:
            await fill(broker, 2)
            sink: TestSink[Delivery] = TestSink()
            running = Receiver(broker.receive_address, queue="orders", max_in_flight=2).to(sink).run()
            await sink.expect_subscription()
            sink.request(2)
            extended, left = await sink.expect_n(2)
            extended.extend(60)
            # Whoever asks comes later than the extension, which leaves with the next turn.
            assert (await row(broker, peers))["in_flight"] == 2
            jump(5.0)
            taken = await Receiver(broker.receive_address, queue="orders").take(1).to(Sink.collect()).run()
            assert taken[0].sequence == left.sequence
            assert (await row(broker, peers))["in_flight"] == 1
            extended.acknowledge()
            sink.cancel()
            await running
            assert (await row(broker, peers))["total_acknowledged"] == 1

    run(main)


def test_what_waits_here_for_demand_is_extended_by_itself(run: Any, serve: Any, peers: Any, jump: Any) -> None:
    async def main() -> None:
        async with serve(visibility_timeout=3.0) as broker:
            await fill(broker, 10)
            sink: TestSink[Delivery] = TestSink()
            running = Receiver(broker.receive_address, queue="orders").to(sink).run()
            first = await sink.request_next()
            first.acknowledge()
            for _ in range(9):
                # An extension is due three times in a visibility timeout; it is there before whoever asks now.
                jump(1.05)
                assert (await row(broker, peers))["total_redelivered"] == 0
            sink.request(9)
            for delivery in await sink.expect_n(9):
                assert delivery.delivery_count == 1
                delivery.acknowledge()
            sink.cancel()
            await running
            assert (await row(broker, peers))["total_acknowledged"] == 10

    run(main)


def test_what_waits_in_a_stream_that_stands_still_goes_to_others_in_the_end(
    run: Any, serve: Any, peers: Any, jump: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transport.clients.receiver.MAX_IDLE_EXTENSIONS", 2)

    async def main() -> None:
        async with serve(visibility_timeout=3.0) as broker:
            await fill(broker, 3)
            stalled: TestSink[Delivery] = TestSink()
            # It has all that it asks for, so that nothing comes to itself again.
            running = Receiver(broker.receive_address, queue="orders", max_in_flight=3).to(stalled).run()
            held = await stalled.request_next()
            held.extend(3600)
            other = Receiver(broker.receive_address, queue="orders", limit=2).map(noting(seen := []))
            others = other.run_with(Sink.acknowledge())
            for _ in range(4):
                jump(1.05)
                await row(broker, peers)
                assert seen == [], "it is extended as long as the stream may stand still"
            for _ in range(4):
                jump(1.05)
                await row(broker, peers)
            assert await others == 2
            assert seen == numbered(3)[1:]
            held.acknowledge()
            stalled.cancel()
            await running

    run(main)


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


def test_what_cannot_be_a_receiver_is_refused_when_it_is_made() -> None:
    with pytest.raises(InvalidNameError):
        Receiver(queue="two words")
    with pytest.raises(LocalProtocolError, match="max_in_flight=0"):
        Receiver(queue="q", max_in_flight=0)
    with pytest.raises(LocalProtocolError, match="limit=0"):
        Receiver(queue="q", limit=0)


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
