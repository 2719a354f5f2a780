"""The actor of a sending connection: what it asks of the queue, what it tells its client, how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import MessageBatch, SendToQueueSubscriber, StageKey
from actors.queue.send_to_queue_subscriber import INITIAL_BYTES, INITIAL_MESSAGES, MAX_BYTES, MAX_MESSAGES, Window
from actors.queue.vocabulary.commands import AttachSender, Left, OfferBatch, RequestCapacity
from actors.queue.vocabulary.replies import (
    CapacityGranted,
    QueueDeleted,
    Refused,
    Reply,
    SenderAttached,
    SentMessages,
    Superseded,
)
from streams.testkit import settle
from tests.actors.stored_queues import Connection as RecordingQueue


class RecordingPort:
    """What the client would be told; ``fails`` makes the first telling a defect."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.fails = False

    def _tell(self, *what: Any) -> None:
        if self.fails:
            self.fails = False
            raise ZeroDivisionError("the port")
        self.told.append(what)

    def tell(self, reply: Reply) -> None:
        match reply:
            case SenderAttached():
                self._tell("attached", reply.last_sequence, *["committed"] * reply.committed)
            case CapacityGranted():
                self._tell("demand", *reply)
            case SentMessages():
                self._tell("sent", reply.up_to, reply.first)

    def refused(self, code: str, text: str, close: bool = True) -> None:
        self._tell("refused", code, text)


class Bench:
    """A sending connection between a recorded queue and a recorded client."""

    def __init__(self, stage: StageKey | None = None) -> None:
        self.received: list[Any] = []
        self.queue = RecordingQueue.start(self.received)
        self.port = RecordingPort()
        self.ref = SendToQueueSubscriber.start(self.queue, "producer", self.port, stage)

    async def tell(self, *messages: Any) -> None:
        for message in messages:
            self.ref.tell(message)
        await settle()

    async def opened(self) -> Bench:
        await settle()
        await self.tell(SenderAttached(None))
        return self

    def requests(self) -> list[tuple[int, int]]:
        return [(m.messages, m.bytes) for m in self.received if isinstance(m, RequestCapacity)]

    async def close(self) -> None:
        await self.ref.stop(block=False)
        await self.queue.stop(block=False)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 10))


def batch(count: int = 1, size: int = 10) -> MessageBatch:
    return MessageBatch.from_payloads([b"x" * size] * count)


def test_it_makes_itself_known_first_with_its_producer_id() -> None:
    async def main() -> None:
        bench = Bench()
        await settle()
        assert bench.received == [AttachSender("producer", connection=bench.ref)]
        assert bench.port.told == []
        await bench.close()

    run(main)


def test_it_names_its_stage_and_tells_its_client_that_the_version_is_committed_already() -> None:
    async def main() -> None:
        stage = StageKey("writer", 3, "0-0")
        bench = Bench(stage)
        await settle()
        assert bench.received == [AttachSender("producer", stage, connection=bench.ref)]
        await bench.tell(SenderAttached(None, committed=True))
        assert bench.port.told == [("attached", None, "committed")]
        await bench.close()

    run(main)


def test_attached_it_tells_its_client_and_asks_for_its_first_window() -> None:
    async def main() -> None:
        bench = Bench()
        await settle()
        await bench.tell(SenderAttached(41))
        assert bench.port.told == [("attached", 41)]
        assert bench.requests() == [(INITIAL_MESSAGES, INITIAL_BYTES)]
        await bench.close()

    run(main)


def test_what_the_queue_grants_is_the_clients_demand() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.tell(CapacityGranted(3, 300), CapacityGranted(0, 50))
        assert bench.port.told[1:] == [("demand", 3, 300), ("demand", 0, 50)]
        await bench.close()

    run(main)


def test_batches_and_confirmations_are_passed_on_in_order() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        first, second = batch(2), batch(3)
        await bench.tell(OfferBatch(0, first), OfferBatch(2, second))
        sends = [message for message in bench.received if isinstance(message, OfferBatch)]
        assert sends == [OfferBatch(0, first, connection=bench.ref), OfferBatch(2, second, connection=bench.ref)]
        await bench.tell(SentMessages(2, 100), SentMessages(5, None))
        assert bench.port.told[-2:] == [("sent", 2, 100), ("sent", 5, None)]
        await bench.close()

    run(main)


def test_more_is_asked_for_only_as_the_queue_confirms_in_steps_of_half() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        half = INITIAL_MESSAGES // 2
        await bench.tell(OfferBatch(0, batch(half - 1, 0)))
        assert len(bench.requests()) == 1, "not before it is confirmed"
        await bench.tell(SentMessages(half - 1, 0))
        assert len(bench.requests()) == 1, "not for less than half the window"
        await bench.tell(OfferBatch(half - 1, batch(1, 0)), SentMessages(half, half - 1))
        assert bench.requests()[1:] == [(half, 0)]
        await bench.close()

    run(main)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (Refused("demand-exceeded", "too much"), "demand-exceeded"),
        (Superseded(), "taken-over"),
        (QueueDeleted(), "queue-deleted"),
    ],
)
def test_what_ends_the_connection_is_told_once_and_stops_the_sending(message: Any, code: str) -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.tell(message, message, OfferBatch(0, batch()))
        assert [what[1] for what in bench.port.told if what[0] == "refused"] == [code]
        assert not any(isinstance(m, OfferBatch) for m in bench.received)
        await bench.close()

    run(main)


def test_when_it_stops_the_queue_is_told_at_once() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        ref = bench.ref
        ref.stop_nowait()
        await settle()
        assert bench.received[-1] == Left(connection=ref)
        await bench.close()

    run(main)


def test_it_stops_quietly_when_the_queue_is_gone_already() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        await bench.queue.stop(block=False)
        assert await bench.ref.stop(block=False) is True

    run(main)


def test_a_defect_of_its_own_ends_its_connection_and_gives_back_what_it_has() -> None:
    async def main() -> None:
        bench = await Bench().opened()
        ref = bench.ref
        bench.port.fails = True
        await bench.tell(CapacityGranted(1, 1))
        assert bench.port.told[-1][:2] == ("refused", "internal-error")
        assert bench.received[-1] == Left(connection=ref)
        assert not ref.is_alive()
        assert bench.queue.is_alive()
        await bench.queue.stop(block=False)

    run(main)


def use(window: Window, n: int) -> None:
    """The client uses so much, as the actor notes it."""
    window.remaining -= n
    window.used += n


def test_a_window_that_is_used_up_doubles_to_its_maximum() -> None:
    window = Window(4, 16)
    asked = window.due()
    sizes = [window.size]
    for _ in range(200):
        use(window, 1)
        window.outstanding -= 1
        asked += window.due()
        sizes.append(window.size)
    assert asked >= 200
    assert sorted(sizes) == sizes
    assert set(sizes) == {4, 8, 16}


@given(
    st.lists(st.tuples(st.sampled_from(["use", "confirm"]), st.integers(1, 40)), max_size=60),
    st.integers(1, 10),
)
def test_what_is_asked_for_and_not_confirmed_stays_within_the_window(steps: list[tuple[str, int]], size: int) -> None:
    window = Window(size, 64)
    window.due()
    for step, n in steps:
        if step == "use":
            use(window, min(n, max(0, window.remaining)))
        else:
            window.outstanding -= min(n, window.outstanding - window.remaining)
        window.due()
        assert window.remaining >= 0
        assert window.outstanding <= window.size


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=20))
def test_a_message_beyond_the_window_does_not_leave_its_sender_without_demand(sizes: list[int]) -> None:
    # Any message may be sent while any byte is left, so what remains may fall far below zero.
    window = Window(4, 16)
    window.due()
    for size in sizes:
        assert window.remaining > 0, "whoever has nothing under way must be able to send"
        use(window, size)
        window.outstanding -= size
        window.due()


def test_the_windows_are_within_their_limits() -> None:
    assert INITIAL_MESSAGES <= MAX_MESSAGES
    assert INITIAL_BYTES <= MAX_BYTES
