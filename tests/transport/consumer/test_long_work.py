"""Handlers that work for longer than their queue's visibility timeout: the message stays theirs, up to a bound."""

from __future__ import annotations

import asyncio
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from streams import MaxInFlightRequestStrategy, Sink
from tests.transport.consumer.test_consumer import counted, sent
from tests.transport.receiver_helpers import row
from transport import Consumer, Delivery, LocalProtocolError, MessageBatch, Receiver
from transport.clients.at_work import AtWork
from transport.clients.delivery import DeliveredBatch
from transport.clients.receiver_session import ReceiverSession
from transport.wire.messages import Deliver

SESSION = ("orders", MaxInFlightRequestStrategy(1), lambda: None)
VISIBILITY = 3.0
STEP = 1.05
"""Seconds: an extension is due three times in a visibility timeout. It is at the broker before whoever asks after it."""


@pytest.mark.parametrize("kind", ["async", "plain", "batch", "gathering"])
def test_a_message_stays_with_its_handler_for_as_long_as_it_works(
    run: Any, serve: Any, peers: Any, jump: Any, kind: str
) -> None:
    async def main() -> None:
        async with serve(visibility_timeout=VISIBILITY, max_receives=1) as broker:
            begun, go_on, released = asyncio.Event(), asyncio.Event(), threading.Event()
            loop = asyncio.get_running_loop()
            noted, done, note = counted(1)
            consumer = Consumer(broker.receive_address, queue="orders", concurrency=1, max_handling=60.0)

            async def awaited(payload: bytes) -> None:
                begun.set()
                await go_on.wait()
                note(payload)

            def called(payload: bytes) -> None:
                loop.call_soon_threadsafe(begun.set)
                assert released.wait(20)
                note(payload)

            async def batch(payloads: list[bytes]) -> None:
                begun.set()
                if kind == "batch":
                    await go_on.wait()
                note(payloads[0])

            if kind in ("batch", "gathering"):
                consumer.batch_handler(max_messages=2, max_wait=0.001 if kind == "batch" else 9.5 * STEP)(batch)
            else:
                consumer.handler(awaited if kind == "async" else called)
            task = asyncio.create_task(consumer.serve())
            await sent(broker, b"x")
            if kind == "gathering":
                while (await row(broker, peers))["in_flight"] != 1:
                    pass
            else:
                await begun.wait()
            for _ in range(9):
                jump(STEP)
                figures = await row(broker, peers)
                assert (figures["total_redelivered"], figures["in_flight"]) == (0, 1)
            go_on.set()
            released.set()
            if kind == "gathering":
                jump(STEP)  # the rest of its time
            await done.wait()
            consumer.stop()
            await task
            figures = await row(broker, peers)
            assert (figures["total_acknowledged"], figures["total_redelivered"]) == (1, 0)
            assert noted == [b"x"]

    run(main)


@pytest.mark.parametrize("max_handling", [0.0, 4.0])
def test_a_message_that_is_worked_on_for_too_long_goes_to_others(
    run: Any, serve: Any, peers: Any, until: Any, jump: Any, max_handling: float
) -> None:
    async def main() -> None:
        async with serve(visibility_timeout=VISIBILITY) as broker:
            await sent(broker, b"x")
            begun = asyncio.Event()
            consumer = Consumer(
                broker.receive_address, queue="orders", max_in_flight=1, max_handling=max_handling, grace=0.0
            )

            @consumer.handler
            async def hangs(payload: bytes) -> None:
                begun.set()
                await asyncio.Event().wait()

            task = asyncio.create_task(consumer.serve())
            await begun.wait()
            kept = 0
            while (await row(broker, peers))["in_flight"]:
                jump(STEP)
                kept += 1
            # The last extension is due before the bound, and holds for a visibility timeout.
            assert kept * STEP <= max_handling + VISIBILITY + 2 * STEP
            assert kept * STEP >= max_handling
            assert kept * STEP >= VISIBILITY - STEP
            taken = await Receiver(broker.receive_address, queue="orders").take(1).to(Sink.collect()).run()
            assert taken[0].delivery_count == 2
            consumer.stop()
            await task

    run(main)


def test_a_handler_that_extends_by_itself_is_not_cut_short(run: Any, serve: Any, peers: Any, jump: Any) -> None:
    async def main() -> None:
        async with serve(visibility_timeout=VISIBILITY) as broker:
            await sent(broker, b"x")
            begun, go_on = asyncio.Event(), asyncio.Event()
            consumer = Consumer(broker.receive_address, queue="orders", max_handling=1.0)

            @consumer.handler
            async def work(delivery: Delivery) -> None:
                delivery.extend(60)
                begun.set()
                await go_on.wait()

            task = asyncio.create_task(consumer.serve())
            await begun.wait()
            for _ in range(9):
                assert (await row(broker, peers))["total_redelivered"] == 0
                jump(STEP)
            go_on.set()
            consumer.stop()
            await task
            assert (await row(broker, peers))["total_acknowledged"] == 1

    run(main)


@pytest.mark.parametrize("max_handling", [-1.0, float("nan")])
def test_a_bound_that_is_no_time_is_refused(max_handling: float) -> None:
    with pytest.raises(LocalProtocolError, match="max_handling"):
        Consumer(queue="orders", max_handling=max_handling)


def test_who_is_at_work_is_known_though_a_collection_lets_other_threads_begin_work_meanwhile() -> None:
    def delivery(number: int) -> Delivery:
        batch = MessageBatch.from_payloads([b"x"])
        return Delivery(
            DeliveredBatch(Deliver(number, 0, 1, False, batch), "orders", ReceiverSession(*SESSION)), 0, b"x"
        )

    class Garbage:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            others.submit(work.begin, delivery(-1)).result()

    loop = asyncio.new_event_loop()
    work = AtWork(60.0, loop)
    begun = [work.begin(delivery(number)) for number in range(6000)]
    before = gc.get_threshold()
    with ThreadPoolExecutor(1) as others:
        try:
            for threshold in range(10, 200, 10):
                Garbage()
                gc.set_threshold(threshold)
                assert set(work.still()) >= set(begun)
        finally:
            gc.set_threshold(*before)
            gc.collect()
    loop.close()
