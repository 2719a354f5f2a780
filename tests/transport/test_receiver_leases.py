"""`Receiver` against a real broker: what is rejected, held too long or extended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streams import Sink
from streams.testkit import TestSink
from tests.transport.receiver_helpers import fill, noting, numbered, row
from transport import (
    Delivery,
    Receiver,
)


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


def test_a_receiver_without_a_deadline_holds_what_it_has_until_it_ends(
    run: Any, serve: Any, peers: Any, jump: Any
) -> None:
    async def main() -> None:
        async with serve(visibility_timeout=5.0) as broker:
            await fill(broker, 2)
            sink: TestSink[Delivery] = TestSink()
            holds = Receiver(broker.receive_address, queue="orders", max_in_flight=2, deadline=False)
            running = holds.to(sink).run()
            await sink.expect_subscription()
            sink.request(2)
            (first, _) = await sink.expect_n(2)
            jump(5.0)
            # The broker has had its turn behind the jump, and nothing has come back.
            figures = await row(broker, peers)
            assert (figures["in_flight"], figures["ready"], figures["total_redelivered"]) == (2, 0, 0)
            assert figures["held_ms"] >= 5_000
            first.acknowledge()
            sink.cancel()
            await running
            figures = await row(broker, peers)
            assert (figures["in_flight"], figures["ready"], figures["total_acknowledged"]) == (0, 1, 1)

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
    monkeypatch.setattr("transport.clients.receiver_stage.MAX_IDLE_EXTENSIONS", 2)

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
