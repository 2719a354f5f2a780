"""`Sender` against a real broker: what is rejected or delayed, and a sender without a name of its own."""

from __future__ import annotations

from typing import Any

import pytest

from streams import Sink, Source
from streams.testkit import TestSource
from tests.transport.sender_helpers import QUICK, numbered, stored
from transport import (
    Confirmation,
    Delivery,
    Receiver,
    Sender,
)
from transport.errors import QueueFullError
from transport.wire.messages import (
    VERSION,
    Hello,
)
from transport.wire.timing import Timed


def test_a_queue_that_rejects_fails_its_sender_and_holds_what_it_confirmed_and_nothing_behind(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve(max_queue_messages=20, overflow="reject") as broker:
            confirmed: list[Confirmation] = []
            flow = Sender(broker.send_address, queue="orders", max_batch_messages=7)
            with pytest.raises(QueueFullError, match="'orders' rejected") as caught:
                await Source.from_iterable(numbered(100)).via(flow).to(Sink.foreach(confirmed.append)).run()
            count = sum(confirmation.count for confirmation in confirmed)
            assert 0 < count <= 20
            assert caught.value.sequence == count
            assert await stored(broker, peers, count) == numbered(count)

    run(main)


def test_a_sender_that_drops_what_is_rejected_sends_the_rest(run: Any, serve: Any, peers: Any, until: Any) -> None:
    async def main() -> None:
        async with serve(max_queue_messages=20, overflow="reject") as broker:
            source: TestSource[bytes] = TestSource()
            sender = Sender(broker.send_address, queue="orders", max_batch_messages=10, on_rejected="drop")
            answers: list[Confirmation] = []
            running = source.via(sender).to(Sink.foreach(answers.append)).run()
            await source.probe.expect_request()
            source.probe.send_next(*numbered(16))
            await until(lambda: sum(answer.count for answer in answers) == 16)
            assert not any(answer.rejected for answer in answers)
            source.probe.send_next(*numbered(10))
            await until(lambda: sum(answer.count for answer in answers) == 26)
            kept = sum(answer.count for answer in answers if answer.rejected is None)
            assert 16 <= kept <= 20
            assert len(await stored(broker, peers, kept)) == kept
            source.probe.send_next(b"after")
            source.probe.send_complete()
            await running
            assert (answers[-1].sequence, answers[-1].count, answers[-1].rejected) == (kept, 1, None)
            assert await stored(broker, peers, 1) == [b"after"]

    run(main)


def test_delayed_messages_come_after_their_delay_and_in_batches_of_their_own(
    run: Any, serve: Any, until: Any, jump: Any
) -> None:
    delay = 10.0

    async def main() -> None:
        async with serve() as broker:
            elements = [b"a", Timed(b"later", delay=delay), b"b"]
            await Source.from_iterable(elements).to(Sender(broker.send_address, queue="orders")).run()
            found: list[Delivery] = []

            def note(delivery: Delivery) -> None:
                found.append(delivery)
                delivery.acknowledge()

            running = Receiver(broker.receive_address, queue="orders").take(3).to(Sink.foreach(note)).run()
            await until(lambda: len(found) == 2)
            jump(delay)
            await running
            assert [(d.payload, d.sequence) for d in found] == [(b"a", 0), (b"b", 2), (b"later", 1)]

    run(main)


def test_a_sender_without_a_name_of_its_own_says_so_and_others_are_not_forgotten_for_it(run: Any, serve: Any) -> None:
    async def main() -> None:
        async with serve() as broker:
            for client_id in (None, "named", None):
                sender = Sender(broker.send_address, queue="orders", client_id=client_id, reconnect=QUICK)
                assert (await Source.single(b"x").to(sender).run()).messages == 1
            log = broker.queues.logs()["orders"]
            assert dict(log.producers) == {"named": 1}
            assert len(log.temporary) == 2

    run(main)


def test_a_sender_without_a_name_of_its_own_duplicates_nothing_when_its_connection_breaks(
    run: Any, serve: Any, peers: Any, cutting: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, cutting(broker.send_address) as proxy:
            # The answer to HELLO comes through, confirmations of what was sent do not all.
            proxy.down = [400, 400, 400, 400]
            sender = Sender(proxy.address, queue="orders", reconnect=QUICK, max_batch_messages=10)
            summary = await Source.from_iterable(numbered(500)).to(sender).run()
            assert summary.messages == 500
            assert proxy.connections > 1
            assert await stored(broker, peers, 500) == numbered(500)

    run(main)


@pytest.mark.parametrize("value", [1, "yes", None])
def test_an_option_temporary_that_is_neither_true_nor_false_is_refused(
    run: Any, serve: Any, peers: Any, value: Any
) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            peer = await opened.connect(broker.send_address)
            peer.send(Hello(VERSION, "sender", "orders", "p", {"temporary": value}))
            error = await peer.refusal()
            assert (error.code, "temporary" in error.text) == ("protocol-error", True)

    run(main)
