"""Handlers that fail: the stream stops, or the message goes back, or becomes a dead letter, and the others go on."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from streams import Sink, Source
from streams.testkit import settle
from tests.transport.receiver_helpers import fill, row
from transport import Backoff, Delivery, LocalProtocolError, Receiver, Sender
from transport.clients.handler_failures import LOG_INTERVAL, MAX_LOGGED, HandlerFailures, reason_of
from transport.errors import ImpossibleTimeError, TransportError

POISON = b"message 3"


class Handler:
    """Fails on one message, as often as it is told to."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.seen: list[bytes] = []

    async def __call__(self, delivery: Delivery) -> Delivery:
        return self.now(delivery)

    def now(self, delivery: Delivery) -> Delivery:
        if delivery.payload == POISON and self.left:
            self.left -= 1
            raise ValueError("cannot read it")
        self.seen.append(delivery.payload)
        return delivery


WAYS: dict[str, Callable[[Receiver, Handler], Any]] = {
    "handle": lambda orders, handler: orders.handle(4, handler).to(Sink.acknowledge()),
    "handle_blocking": lambda orders, handler: orders.handle_blocking(4, handler.now).to(Sink.acknowledge()),
    "map": lambda orders, handler: orders.map(handler.now).to(Sink.acknowledge()),
    "map_async": lambda orders, handler: orders.map_async(4, handler).to(Sink.acknowledge()),
    "map_async_unordered": lambda orders, handler: orders.map_async_unordered(4, handler).to(Sink.acknowledge()),
    "foreach": lambda orders, handler: orders.to(Sink.foreach(lambda delivery: handler.now(delivery).acknowledge())),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_message_whose_handler_fails_comes_again_and_the_others_go_on(
    run: Any, serve: Any, peers: Any, way: str
) -> None:
    handler = Handler(failures=2)

    async def main() -> None:
        async with serve(max_receives=5) as broker:
            await fill(broker, 10)
            orders = Receiver(broker.receive_address, queue="orders", limit=10, on_failure="return", retry_delay=0.01)
            await WAYS[way](orders, handler).run()
            statistics = orders.statistics()
            assert (statistics.returned, statistics.rejected) == (2, 0)
            assert statistics.last_failure == "ValueError: cannot read it"
            left = await row(broker, peers)
            assert (left["ready"], left["in_flight"], left["delayed"]) == (0, 0, 0)

    run(main)
    assert Counter(handler.seen) == Counter({b"message %d" % n: 1 for n in range(10)})


def test_max_receives_bounds_how_often_a_message_comes_again(run: Any, serve: Any) -> None:
    handler = Handler(failures=100)

    async def main() -> None:
        async with serve(max_receives=3) as broker:
            await fill(broker, 5)
            orders = Receiver(broker.receive_address, queue="orders", limit=4, on_failure="return", retry_delay=0)
            running = orders.handle(1, handler).to(Sink.acknowledge()).run()
            letter = (
                await Receiver(broker.receive_address, queue="orders.dead", limit=1).map(_kept).to(Sink.head()).run()
            )
            await running
            assert letter == (
                POISON,
                {
                    "penstock-dead-reason": "max-receives",
                    "penstock-dead-error": "ValueError: cannot read it",
                    "penstock-dead-deliveries": "3",
                },
            )
            assert orders.statistics().returned == 3

    run(main)


def _kept(delivery: Delivery) -> tuple[bytes, dict[str, Any]]:
    told = ("penstock-dead-reason", "penstock-dead-error", "penstock-dead-deliveries")
    delivery.acknowledge()
    return delivery.payload, {name: delivery.headers[name] for name in told if name in delivery.headers}


@pytest.mark.parametrize("durable", [False, True])
def test_a_message_whose_handler_fails_is_a_dead_letter_at_once(
    run: Any, serve: Any, tmp_path: Any, durable: bool
) -> None:
    handler = Handler(failures=1)

    async def main() -> None:
        async with serve(max_receives=10, **({"directory": tmp_path} if durable else {})) as broker:
            await fill(broker, 5)
            orders = Receiver(broker.receive_address, queue="orders", limit=4, on_failure="reject")
            await orders.handle(2, handler).to(Sink.acknowledge()).run()
            letter = (
                await Receiver(broker.receive_address, queue="orders.dead", limit=1).map(_kept).to(Sink.head()).run()
            )
            assert letter == (
                POISON,
                {
                    "penstock-dead-reason": "rejected",
                    "penstock-dead-error": "ValueError: cannot read it",
                    "penstock-dead-deliveries": "1",
                },
            )
            assert orders.statistics().rejected == 1

    run(main)


def test_a_receiver_that_is_to_reject_says_at_once_where_there_are_no_dead_letters(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            orders = Receiver(broker.receive_address, queue="orders", on_failure="reject")
            with pytest.raises(
                LocalProtocolError,
                match=r"keeps no dead letters.*--max-receives 5 --no-drop-failed; --address takes the sending",
            ):
                await orders.to(Sink.acknowledge()).run()

    run(main)


def test_a_message_can_be_made_a_dead_letter_by_hand(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve(max_receives=10) as broker:
            await fill(broker, 2)

            def refuse(delivery: Delivery) -> None:
                with pytest.raises(LocalProtocolError, match="at most 300 bytes"):
                    delivery.dead_letter("x" * 301)
                delivery.dead_letter("no such customer")
                delivery.dead_letter("said twice")
                delivery.acknowledge()

            await Receiver(broker.receive_address, queue="orders").take(2).to(Sink.foreach(refuse)).run()
            letters = Receiver(broker.receive_address, queue="orders.dead", limit=2).map(_kept)
            assert [said["penstock-dead-error"] for _, said in await letters.take(2).to(Sink.collect()).run()] == [
                "no such customer"
            ] * 2

    run(main)


def test_a_queue_without_dead_letters_refuses_that_and_the_message_stays(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 1)
            async for delivery in Receiver(broker.receive_address, queue="orders", limit=1):
                with pytest.raises(LocalProtocolError, match="keeps no dead letters"):
                    delivery.dead_letter("no")
                delivery.acknowledge()

    run(main)


def test_without_on_failure_the_stream_fails_as_ever(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 5)
            with pytest.raises(ValueError, match="cannot read it"):
                await (
                    Receiver(broker.receive_address, queue="orders").handle(1, Handler(1)).to(Sink.acknowledge()).run()
                )

    run(main)


def test_a_batch_whose_handler_fails_comes_again_whole(run: Any, serve: Any) -> None:
    sizes: list[int] = []

    async def main() -> None:
        async with serve() as broker:
            await fill(broker, 6)

            def handle(batch: Any) -> Any:
                sizes.append(len(batch))
                if len(sizes) == 1:
                    raise ValueError("not now")
                return batch

            orders = Receiver(broker.receive_address, queue="orders", limit=6, on_failure="return", retry_delay=0.01)
            await orders.batches().map(handle).to(Sink.acknowledge()).run()
            assert orders.statistics().returned == 1

    run(main)
    assert sum(sizes[1:]) == 6


def test_an_element_made_of_a_delivery_fails_the_stream(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            await Source.of(b"x").to(Sender(broker.send_address, queue="orders")).run()
            orders = Receiver(broker.receive_address, queue="orders", on_failure="return")
            with pytest.raises(ValueError, match="invalid literal"):
                await orders.map(lambda delivery: delivery.payload).map(int).to(Sink.ignore()).run()

    run(main)


def test_a_receiver_that_is_drained_finishes_what_is_at_hand_and_gives_back_the_rest_uncounted(
    run: Any, serve: Any, peers: Any
) -> None:
    handled: list[bytes] = []

    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await fill(broker, 20)
            at_work, go_on = asyncio.Event(), asyncio.Event()

            async def handle(delivery: Delivery) -> None:
                handled.append(delivery.payload)
                if len(handled) == 3:
                    at_work.set()
                await go_on.wait()

            orders = Receiver(broker.receive_address, queue="orders")
            running = orders.handle(3, handle).to(Sink.acknowledge()).run()
            await at_work.wait()
            ending = asyncio.ensure_future(running.drain(within=10))
            await settle()
            assert not ending.done()
            go_on.set()
            assert await ending == 3
            left = await row(broker, peers)
            assert (left["ready"], left["in_flight"]) == (17, 0)

    run(main)
    assert len(handled) == 3


def test_a_receiver_that_cannot_be_drained_in_time_gives_back_what_is_at_hand(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve(max_receives=1) as broker:
            await fill(broker, 5)
            at_work = asyncio.Event()

            async def handle(_delivery: Delivery) -> None:
                at_work.set()
                await asyncio.Event().wait()

            running = Receiver(broker.receive_address, queue="orders").handle(2, handle).to(Sink.acknowledge()).run()
            await at_work.wait()
            with pytest.raises(TimeoutError, match="was cancelled"):
                await running.drain(within=0.05)
            assert (await row(broker, peers))["ready"] == 5

    run(main)


class Given:
    """What a handler failed on."""

    delivery_count = 1
    queue = "orders"
    sequence = 7

    def __init__(self) -> None:
        self.answers: list[object] = []

    def reject(self, delay: float = 0.0, _error: str | None = None) -> None:
        self.answers.append(delay)

    def dead_letter(self, reason: str) -> None:
        self.answers.append(reason)


def test_a_new_try_waits_longer_with_each_delivery() -> None:
    failures = HandlerFailures("return", Backoff(minimum=1, maximum=5, jitter=0))
    given = Given()
    for given.delivery_count in (1, 2, 3, 4, 1000):
        assert failures(given, ValueError("x"))
    assert given.answers == [1, 2, 4, 5, 5]


def test_of_many_failures_in_a_row_some_are_logged_and_the_others_counted(caplog: Any) -> None:
    now = 0.0
    failures = HandlerFailures("return", 0.5, clock=lambda: now)
    error = ValueError("secret?")
    with caplog.at_level(logging.WARNING, "penstock.receiver"):
        for _ in range(MAX_LOGGED + 7):
            failures(Given(), error)
        assert len(caplog.records) == MAX_LOGGED
        now = LOG_INTERVAL
        failures(Given(), error)
    assert "a handler failed on message 7 of queue orders" in caplog.messages[0]
    assert "7 failures before it were not logged" in caplog.messages[-1]
    assert "given back to the queue after try 1, to be tried again in 0.5 s, unless" in caplog.messages[0]
    assert all(record.exc_info[1] is error for record in caplog.records)


def test_a_reason_fits_however_long_the_exceptions_text_is() -> None:
    assert reason_of(ValueError("é" * 1000)) == ("ValueError: " + "é" * 1000).encode()[:300].decode(errors="ignore")
    assert reason_of(KeyError()) == "KeyError"
    assert reason_of(ValueError("\ud800")) == "ValueError: ?"


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"on_failure": "ignore"}, LocalProtocolError, "on_failure is 'ignore', not 'stop', 'return' or 'reject'"),
        ({"retry_delay": -1}, ImpossibleTimeError, "retry_delay is -1"),
        ({"retry_delay": Backoff(maximum=50_000)}, ImpossibleTimeError, "12 hours"),
    ],
)
def test_what_cannot_be_is_refused_when_the_receiver_is_described(
    wrong: dict[str, Any], error: type[TransportError], text: str
) -> None:
    with pytest.raises(error, match=text):
        Receiver(queue="orders", **wrong)
