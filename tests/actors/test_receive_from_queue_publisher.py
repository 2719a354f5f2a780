"""The actor of a receiving connection: demand in bounded steps, deliveries, answers, how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from actors import (
    MessageBatch,
    ReceivedMessages,
    ReceiveFromQueuePublisher,
    Writable,
)
from actors.queue.receive_from_queue_publisher import HALF_BYTES, HALF_MESSAGES, STEP_BYTES, STEP_MESSAGES
from actors.queue.vocabulary.commands import (
    Acknowledged,
    AttachReceiver,
    DemandSignalled,
    Extended,
    Left,
    Rejected,
)
from actors.queue.vocabulary.prefetch import AcknowledgedForMore
from actors.queue.vocabulary.replies import QueueDeleted, ReceiverAttached, Refused, Reply
from streams.testkit import settle
from tests.actors.stored_queues import Connection as RecordingQueue


class RecordingPort:
    """What the client would be told; ``fails`` makes the first telling a defect."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.fails = False

    def tell(self, reply: Reply) -> None:
        if self.fails and isinstance(reply, ReceivedMessages):
            raise ZeroDivisionError("the port")
        self.told.append("attached" if isinstance(reply, ReceiverAttached) else reply)

    def refused(self, code: str, text: str, close: bool = True) -> None:
        self.told.append((code, text))


class Bench:
    """A receiving connection between a recorded queue and a recorded client."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.queue = RecordingQueue.start(self.received)
        self.port = RecordingPort()
        self.ref = ReceiveFromQueuePublisher.start(self.queue, self.port)

    async def tell(self, *messages: Any) -> None:
        for message in messages:
            self.ref.tell(message)
        await settle()

    def asked(self) -> list[tuple[int, int]]:
        return [(m.messages, m.bytes) for m in self.received if isinstance(m, DemandSignalled)]

    async def close(self) -> None:
        await self.ref.stop(block=False)
        await self.queue.stop(block=False)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 10))


def delivery(first: int, count: int, size: int = 0) -> ReceivedMessages:
    return ReceivedMessages(first, MessageBatch.from_payloads([b"x" * size] * count), 1, 1, False)


def test_it_makes_itself_known_and_tells_its_client_when_it_is() -> None:
    async def main() -> None:
        bench = Bench()
        await settle()
        assert bench.received == [AttachReceiver(connection=bench.ref)]
        await bench.tell(ReceiverAttached())
        assert bench.port.told == ["attached"]
        await bench.close()

    run(main)


def test_small_demand_is_passed_on_as_it_comes() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.tell(DemandSignalled(10, 1000), DemandSignalled(5, 0))
        assert bench.asked() == [(10, 1000), (5, 0)]
        await bench.close()

    run(main)


def test_great_demand_reaches_the_queue_in_bounded_steps() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.tell(DemandSignalled(1 << 40, 1 << 50))
        assert bench.asked() == [(STEP_MESSAGES, STEP_BYTES)]
        first = 0
        for _ in range(300):
            await bench.tell(delivery(first, 1000))
            first += 1000
            outstanding = sum(messages for messages, _ in bench.asked()) - first
            assert 0 < outstanding <= STEP_MESSAGES
        await bench.close()

    run(main)


def test_bytes_are_asked_for_in_bounded_steps_too() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.tell(DemandSignalled(1 << 40, 1 << 50))
        size = 1 << 20
        used = 0
        for number in range(40):
            message = delivery(number, 1, size)
            used += message.batch.nbytes
            await bench.tell(message)
            outstanding = sum(asked for _, asked in bench.asked()) - used
            assert 0 < outstanding <= STEP_BYTES
        await bench.close()

    run(main)


def test_a_message_larger_than_a_step_does_not_end_the_demand() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.tell(DemandSignalled(100, 1 << 40))
        for number in range(5):
            await bench.tell(delivery(number, 1, STEP_BYTES + (STEP_BYTES // 2)))
            asked = sum(size for _, size in bench.asked())
            assert asked > (number + 1) * (STEP_BYTES + STEP_BYTES // 2)
        await bench.close()

    run(main)


def test_nothing_is_asked_for_while_the_socket_takes_nothing() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.tell(Writable(False), DemandSignalled(10, 1000))
        assert bench.asked() == []
        await bench.tell(Writable(True))
        assert bench.asked() == [(10, 1000)]
        await bench.close()

    run(main)


def test_what_arrives_while_the_socket_is_full_still_goes_out() -> None:
    async def main() -> None:
        bench = Bench()
        message = delivery(0, 2)
        await bench.tell(DemandSignalled(10, 1000), Writable(False), message)
        assert bench.port.told == [message]
        await bench.close()

    run(main)


def test_answers_are_passed_on_in_the_order_they_came() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.tell(Extended([(0, 3)], 5.0), Rejected([(0, 1)], 1.5), Acknowledged([(1, 2)]))
        assert bench.received[1:] == [
            Extended([(0, 3)], 5.0, connection=bench.ref),
            Rejected([(0, 1)], 1.5, connection=bench.ref),
            Acknowledged([(1, 2)], connection=bench.ref),
        ]
        await bench.close()

    run(main)


@pytest.mark.parametrize(
    ("message", "code"),
    [(Refused("unknown-acknowledgement", "what?"), "unknown-acknowledgement"), (QueueDeleted(), "queue-deleted")],
)
def test_what_ends_the_connection_is_told_once_and_nothing_is_delivered_after(message: Any, code: str) -> None:
    async def main() -> None:
        bench = Bench()
        await bench.tell(message, message, delivery(0, 1), DemandSignalled(5, 500))
        assert [told[0] for told in bench.port.told] == [code]
        assert bench.asked() == []
        await bench.close()

    run(main)


def test_when_it_stops_the_queue_takes_everything_back() -> None:
    async def main() -> None:
        bench = Bench()
        await settle()
        bench.ref.stop_nowait()
        await settle()
        assert bench.received[-1] == Left(connection=bench.ref)
        await bench.close()

    run(main)


def test_a_defect_of_its_own_ends_its_connection_and_gives_back_what_it_has() -> None:
    async def main() -> None:
        bench = Bench()
        bench.port.fails = True
        await bench.tell(delivery(0, 1))
        assert bench.port.told[-1][0] == "internal-error"
        assert bench.received[-1] == Left(connection=bench.ref)
        assert not bench.ref.is_alive()
        assert bench.queue.is_alive()
        await bench.queue.stop(block=False)

    run(main)


def test_who_wants_messages_without_end_asks_for_none_with_each_delivery_before_half_of_a_step_has_come() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.tell(DemandSignalled(1 << 60, 1_000))
        assert bench.asked() == [(STEP_MESSAGES, 1_000)]
        await bench.tell(delivery(0, 1), delivery(1, HALF_MESSAGES - 2))
        assert len(bench.asked()) == 1
        await bench.tell(delivery(HALF_MESSAGES - 1, 1))
        assert bench.asked()[1:] == [(HALF_MESSAGES, 0)]
        await bench.close()

    run(main)


def test_bytes_are_asked_for_as_long_as_half_of_a_step_is_not_met_be_there_messages_enough() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.tell(DemandSignalled(1 << 60, HALF_BYTES), DemandSignalled(0, 10), DemandSignalled(0, 10))
        assert bench.asked() == [(STEP_MESSAGES, HALF_BYTES), (0, 10)]
        await bench.close()

    run(main)


def test_an_acknowledgement_that_asks_for_more_is_one_word_to_the_queue() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.tell(DemandSignalled(2, 1_000))
        await bench.tell(AcknowledgedForMore(((0, 1),), 1))
        assert bench.received[-1] == AcknowledgedForMore(((0, 1),), 1, bench.ref)
        assert len(bench.asked()) == 1
        await bench.close()

    run(main)


def test_while_the_socket_takes_nothing_it_acknowledges_and_asks_for_more_later() -> None:
    async def main() -> None:
        bench = Bench()
        await bench.tell(DemandSignalled(2, 1_000), Writable(False))
        await bench.tell(AcknowledgedForMore(((0, 1),), 1))
        assert bench.received[-1] == Acknowledged(((0, 1),), bench.ref)
        await bench.tell(Writable(True))
        assert bench.asked()[1:] == [(1, 0)]
        await bench.close()

    run(main)


def test_what_is_acknowledged_as_it_is_written_is_passed_on_with_that() -> None:
    async def main() -> None:
        bench = Bench()
        await settle()

        class Settles(RecordingPort):
            def tell(self, reply: Reply) -> None:
                super().tell(reply)
                if isinstance(reply, ReceivedMessages):
                    bench.ref.tell(Acknowledged(((reply.first, 1),)))
                    assert bench.received[-1] != Acknowledged(((reply.first, 1),), bench.ref)

        port = Settles()
        ref = bench.ref = ReceiveFromQueuePublisher.start(bench.queue, port)
        await settle()
        ref.deliver(delivery(7, 1))
        assert ref.actor_inbox.empty()
        await settle()
        assert bench.received[-1] == Acknowledged(((7, 1),), ref)
        await bench.close()

    run(main)
