"""When a receiver's acknowledgements leave, and what gathering them costs nobody."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import MessageBatch
from streams import Sink
from streams.testkit import TestSink, elapse, run_in_virtual_time, settle
from transport import Delivery, Receiver
from transport.clients.gathering import (
    GATHER_MESSAGES,
    GATHER_SECONDS,
    MOST_STRAIGHT,
    AcknowledgementGathering,
)
from transport.clients.receiver import ReceiverStage
from transport.wire.messages import VERSION, Ack, Deliver, Frame, Nack, Request, Welcome

MOMENT = GATHER_SECONDS / 10


def test_the_first_after_a_pause_leaves_at_once() -> None:
    gathering = AcknowledgementGathering()
    assert gathering.due(1, 1, 0.0) == 0
    assert gathering.due(1, 2, GATHER_SECONDS) == 0


def test_those_that_follow_leave_together_when_the_time_is_over() -> None:
    gathering = AcknowledgementGathering()
    gathering.due(1, 1, 0.0)
    for number in range(1, 9):
        wait = gathering.due(number, 1 + number, number * MOMENT)
        assert abs(wait - (GATHER_SECONDS - number * MOMENT)) < 1e-9
    assert gathering.due(9, 10, GATHER_SECONDS) == 0


def test_so_many_messages_wait_for_no_others() -> None:
    gathering = AcknowledgementGathering()
    gathering.due(1, 1, 0.0)
    assert gathering.due(GATHER_MESSAGES - 1, 64, MOMENT) > 0
    assert gathering.due(GATHER_MESSAGES, 65, MOMENT) == 0


def test_where_nothing_comes_while_they_are_held_back_they_leave_straight_for_a_while_and_then_for_longer() -> None:
    gathering = AcknowledgementGathering()
    now, held = 0.0, []
    straight = 0
    for number in range(20 * MOST_STRAIGHT):
        # A queue of one message: the next comes only when this one's acknowledgement has left.
        while gathering.due(1, number, now) > 0:
            held.append(straight)
            straight = -1
            now += GATHER_SECONDS
        straight += 1
        now += MOMENT
    runs = [straight for straight in held if straight > 0]
    assert runs[0] <= 1
    assert runs[1:4] == [GATHER_MESSAGES, 2 * GATHER_MESSAGES, 4 * GATHER_MESSAGES]
    assert max(runs) == MOST_STRAIGHT


def test_a_delivery_that_comes_while_they_are_held_back_shows_that_nobody_waits_for_them() -> None:
    gathering = AcknowledgementGathering()
    gathering.due(1, 1, 0.0)
    assert gathering.due(1, 2, MOMENT) > 0
    assert gathering.due(1, 2, GATHER_SECONDS) == 0  # nothing came: straight for a while
    for number in range(GATHER_MESSAGES):
        assert gathering.due(1, 3 + number, GATHER_SECONDS + MOMENT) == 0
    assert gathering.due(1, 100, GATHER_SECONDS + MOMENT) > 0
    assert gathering.due(2, 101, GATHER_SECONDS + 2 * MOMENT) > 0  # one came
    assert gathering.due(2, 101, 2 * GATHER_SECONDS + MOMENT) == 0
    assert gathering.due(1, 102, 2 * GATHER_SECONDS + 2 * MOMENT) > 0, "gathering goes on"


@given(st.lists(st.tuples(st.floats(0, 2 * GATHER_SECONDS), st.integers(1, 70), st.integers(0, 5)), max_size=60))
def test_no_acknowledgement_is_held_back_for_longer_than_the_time(steps: list[tuple[float, int, int]]) -> None:
    gathering = AcknowledgementGathering()
    now, received, waiting, since = 0.0, 0, 0, 0.0
    for seconds, messages, delivered in steps:
        later = now + seconds
        if waiting and later > since + GATHER_SECONDS:
            # The timer runs out first.
            assert gathering.due(waiting, received, since + GATHER_SECONDS) == 0
            waiting = 0
        now = later
        received += delivered
        since = since if waiting else now
        waiting += messages
        wait = gathering.due(waiting, received, now)
        assert now + wait <= since + GATHER_SECONDS + 1e-9
        if wait:
            assert waiting < GATHER_MESSAGES
        else:
            waiting = 0


class Link:
    """The link of a receiver, whose broker is the test."""

    made: Link

    def __init__(self, _addresses: object, _hello: object, user: ReceiverStage[Any], _reconnect: object) -> None:
        Link.made = self
        self.user = user
        self.is_open = False
        self.writable = True
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sent: list[Frame] = []

    def start(self) -> None:
        self.is_open = True
        self.user.link_opened(Welcome(VERSION, 1, {"id_prefix": bytes(8)}))

    def send(self, frame: Frame) -> None:
        self.sent.append(frame)

    def progressed(self) -> None: ...

    def finish(self) -> None:
        self.is_open = False
        self.over.set_result(None)

    abort = finish

    def deliver(self, first: int, count: int = 1) -> None:
        batch = MessageBatch.from_payloads([b"x"] * count)
        self.user.link_frame(Deliver(first, 0, 1, False, batch))

    async def said(self) -> list[Frame]:
        """What the receiver has said since this was asked last."""
        await settle()
        sent, self.sent = self.sent, []
        return sent


@pytest.fixture
def broker_is_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transport.clients.receiver.BrokerLink", Link)


@pytest.mark.usefixtures("broker_is_the_test")
def test_acknowledgements_one_by_one_are_one_frame_every_few_milliseconds() -> None:
    async def main() -> None:
        running = Receiver(queue="q").to(Sink.acknowledge()).run()
        assert [type(frame) for frame in await Link.made.said()] == [Request]
        Link.made.deliver(0)
        assert await Link.made.said() == [Ack([(0, 1)])], "the first at once"
        for number in range(1, 5):
            await elapse(MOMENT)
            Link.made.deliver(number)
            assert await Link.made.said() == []
        await elapse(GATHER_SECONDS)
        assert await Link.made.said() == [Ack([(1, 4)])]
        await elapse(10 * GATHER_SECONDS)
        assert await Link.made.said() == []
        Link.made.deliver(5)
        assert await Link.made.said() == [Ack([(5, 1)])], "after a pause at once again"
        await running.stop()

    run_in_virtual_time(main())


@pytest.mark.usefixtures("broker_is_the_test")
def test_whoever_needs_the_demand_that_an_acknowledgement_gives_waits_for_nothing() -> None:
    async def main() -> None:
        running = Receiver(queue="q", max_in_flight=2).to(Sink.acknowledge()).run()
        await Link.made.said()
        for number in range(50):
            Link.made.deliver(number)
            assert [type(frame) for frame in await Link.made.said()] == [Ack, Request]
        await running.stop()

    run_in_virtual_time(main())


@pytest.mark.usefixtures("broker_is_the_test")
def test_what_is_rejected_takes_the_acknowledgements_that_wait_with_it() -> None:
    async def main() -> None:
        sink: TestSink[Delivery] = TestSink()
        running = Receiver(queue="q").to(sink).run()
        await sink.expect_subscription()
        sink.request(10)
        await Link.made.said()
        Link.made.deliver(0, 3)
        first, second, third = await sink.expect_n(3)
        first.acknowledge()
        assert await Link.made.said() == [Ack([(0, 1)])]
        second.acknowledge()
        assert await Link.made.said() == []
        third.reject()
        assert await Link.made.said() == [Ack([(1, 1)]), Nack([(2, 1)], 0, failed=True)]
        sink.cancel()
        await running

    run_in_virtual_time(main())


@pytest.mark.usefixtures("broker_is_the_test")
def test_what_waits_leaves_when_the_run_ends() -> None:
    async def main() -> None:
        running = Receiver(queue="q").to(Sink.acknowledge()).run()
        await Link.made.said()
        Link.made.deliver(0)
        await Link.made.said()
        Link.made.deliver(1)
        assert await Link.made.said() == []
        await running.stop()
        assert [frame for frame in await Link.made.said() if type(frame) is Ack] == [Ack([(1, 1)])]

    run_in_virtual_time(main())


@pytest.mark.usefixtures("broker_is_the_test")
def test_a_connection_that_is_lost_while_they_wait_leaves_the_next_one_nothing_to_say_and_a_clock_that_runs() -> None:
    async def main() -> None:
        running = Receiver(queue="q").to(Sink.acknowledge()).run()
        link = Link.made
        await link.said()
        link.deliver(0)
        await link.said()
        link.deliver(1)
        assert await link.said() == []
        link.is_open = False
        link.user.link_lost(None)
        await elapse(2 * GATHER_SECONDS)
        link.start()
        assert [type(frame) for frame in await link.said()] == [Request]
        link.deliver(1)
        assert await link.said() == [Ack([(1, 1)])]
        link.deliver(2)
        assert await link.said() == []
        await elapse(GATHER_SECONDS)
        assert await link.said() == [Ack([(2, 1)])]
        await running.stop()

    run_in_virtual_time(main())
