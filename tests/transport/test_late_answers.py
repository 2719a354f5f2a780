"""What crosses on the way: a message comes again while the client's answer to its earlier delivery has not arrived yet.

The broker must end no connection for it, whatever the client had to answer and however long the way was. An answer more than there
were deliveries stays a violation.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from actors.batch import MessageBatch
from actors.errors import UnknownAcknowledgementError
from actors.queue.vocabulary.replies import DeadLetter
from actors.queue.vocabulary.settings import QueueSettings
from streams import MaxInFlightRequestStrategy
from streams.testkit import TestSink
from tests.actors.driven import Deliver as Delivered
from tests.actors.driven import QueueState, Refuse
from tests.decoding import FrameDecoder
from tests.examples_tried import tried
from transport import Delivery, Receiver
from transport.clients.receiver_session import ReceiverSession
from transport.wire.codec import decode, encode
from transport.wire.frames import MAX_FRAME_BYTES
from transport.wire.messages import Ack, Deliver, Demand, Extend, Frame, Nack, Ping, Pong, Request, Send

LARGE = 10**9
MIB = 1024 * 1024
VISIBILITY = 3.0
NAMES = ("a", "b")

KINDS = (
    QueueSettings(visibility_timeout=VISIBILITY),
    QueueSettings(visibility_timeout=VISIBILITY, exclusive=True),
    QueueSettings(visibility_timeout=VISIBILITY, max_receives=2),
    QueueSettings(visibility_timeout=VISIBILITY, max_receives=4, exclusive=True),
    QueueSettings(visibility_timeout=VISIBILITY, ttl=8.0),
)


class Client:
    """One receiving connection: the real session, and both ways between it and the queue."""

    def __init__(self, max_in_flight: int) -> None:
        self.session = ReceiverSession("q", MaxInFlightRequestStrategy(max_in_flight), lambda: None)
        self.session.connected(b"12345678")
        self.down: deque[Deliver] = deque()
        self.up: deque[Frame] = deque()
        self.open: list[Delivery] = []
        self.requested = (0, 0)


class ClientsAndQueue(RuleBasedStateMachine):
    """Two clients that break no rule, and a queue; what either says arrives some time later, in order."""

    @initialize(kind=st.sampled_from(KINDS), max_in_flight=st.sampled_from([2, 20]))
    def begin(self, kind: QueueSettings, max_in_flight: int) -> None:
        self.now = 0.0
        self.queue = QueueState("q", 0, kind)
        self.queue.attach_sender("s", None)
        self.queue.request_capacity("s", LARGE, LARGE)
        self.clients = {name: Client(max_in_flight) for name in NAMES}
        for name in NAMES:
            self.queue.attach_receiver(name)
            self.say(name)
            self.reach(name, 10)
        self.send(3)

    def settle(self) -> None:
        for effect in self.queue.take_effects():
            assert not isinstance(effect, Refuse), effect
            if isinstance(effect, Delivered):
                frame = Deliver(
                    effect.first, effect.enqueued_us, effect.delivery_count, effect.possibly_replayed, effect.batch
                )
                self.clients[str(effect.receiver)].down.append(frame)
            elif isinstance(effect, DeadLetter):
                self.queue.dead_letters_stored(effect.ranges, self.now)

    @rule(count=st.integers(1, 6))
    def send(self, count: int) -> None:
        batch = MessageBatch.from_payloads([b"x"] * count)
        self.queue.send("s", self.queue.log.next_sequence, batch, self.now, 0)
        self.settle()

    @rule(seconds=st.sampled_from([0.5, VISIBILITY, VISIBILITY + 1]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.queue.tick(self.now)
        self.settle()

    @rule()
    def purge(self) -> None:
        self.queue.purge()
        self.settle()

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 5))
    def arrive(self, name: str, count: int) -> None:
        client = self.clients[name]
        for _ in range(min(count, len(client.down))):
            batch = client.session.delivered(client.down.popleft())
            client.open += [Delivery(batch, index, b"") for index in range(len(batch))]

    @rule(
        name=st.sampled_from(NAMES),
        answers=st.lists(
            st.tuples(st.integers(0, 30), st.sampled_from(["acknowledge", "acknowledge", "reject", "delay", "extend"])),
            min_size=1,
            max_size=6,
        ),
    )
    def answer(self, name: str, answers: list[tuple[int, str]]) -> None:
        open_ = self.clients[name].open
        for index, how in answers:
            if not open_:
                return
            place = index % len(open_)
            if how == "extend":
                open_[place].extend(5.0)
            elif how == "delay":
                open_.pop(place).reject(1.0)
            else:
                getattr(open_.pop(place), how)()

    @rule(name=st.sampled_from(NAMES), times=st.integers(1, 2))
    def extend_all_that_waits(self, name: str, times: int) -> None:
        for delivery in self.clients[name].open * times:
            delivery.extend(VISIBILITY)

    @rule(name=st.sampled_from(NAMES))
    def say(self, name: str) -> None:
        client = self.clients[name]
        due = client.session.demand()
        client.up += [*client.session.answers(), *([due] if due else [])]

    @rule(name=st.sampled_from(NAMES), count=st.integers(1, 5))
    def reach(self, name: str, count: int) -> None:
        client = self.clients[name]
        for _ in range(min(count, len(client.up))):
            self.handle(name, over_the_wire(client.up.popleft()))
            self.settle()

    def handle(self, name: str, frame: Frame) -> None:
        client = self.clients[name]
        if isinstance(frame, Ack):
            self.queue.acknowledge(name, frame.ranges)
        elif isinstance(frame, Nack):
            self.queue.negative_acknowledge(name, frame.ranges, frame.delay_ms / 1000, self.now, frame.failed)
        elif isinstance(frame, Extend):
            self.queue.extend(name, frame.ranges, frame.ms / 1000, self.now)
        elif isinstance(frame, Request):
            messages, size = client.requested
            client.requested = (frame.messages, frame.bytes)
            self.queue.receive(name, frame.messages - messages, frame.bytes - size, self.now)

    def teardown(self) -> None:
        """Everything is acknowledged in the end, every delivery once; then nothing is remembered of it, and one answer more is too many."""
        if not hasattr(self, "clients"):
            return
        for _ in range(1000):
            for name, client in self.clients.items():
                self.arrive(name, len(client.down))
                for delivery in client.open:
                    delivery.acknowledge()
                client.open.clear()
                self.say(name)
                self.reach(name, len(client.up))
            if not self.queue.log.stored_messages and not any(client.down for client in self.clients.values()):
                break
            self.wait(0.5)
        statistics = self.queue.statistics(self.now)
        assert (statistics.in_flight, statistics.ready, statistics.stored_messages) == (0, 0, 0)
        for name in NAMES:
            for number in range(self.queue.log.next_sequence):
                with pytest.raises(UnknownAcknowledgementError):
                    self.queue.acknowledge(name, [(number, 1)])


def over_the_wire(frame: Frame) -> Frame:
    """What the other side makes of it."""
    (raw,) = FrameDecoder(MAX_FRAME_BYTES).receive_data(b"".join(bytes(part) for part in encode(frame)))
    return decode(raw)


@pytest.mark.hypothesis
def test_a_client_that_answers_each_delivery_once_is_never_refused_whatever_crosses_on_the_way() -> None:
    run_state_machine_as_test(ClientsAndQueue, settings=settings(max_examples=tried(60), stateful_step_count=60))


ONCE = (0, 1)


@pytest.mark.parametrize(
    "answers",
    [
        [Ack([ONCE]), Ack([ONCE])],
        [Ack([ONCE, ONCE])],
        [Nack([ONCE], 0), Ack([ONCE])],
        [Ack([ONCE]), Nack([ONCE], 5000)],
        [Nack([ONCE, ONCE], 0, False)],
        [Extend([ONCE], 60_000), Extend([ONCE, ONCE, ONCE], 60_000), Ack([ONCE]), Extend([ONCE], 60_000), Ack([ONCE])],
    ],
    ids=["acks", "one ack", "nack and ack", "ack and nack", "one nack", "extended"],
)
def test_both_deliveries_of_a_message_are_answered_on_one_connection_and_a_third_answer_ends_it(
    run: Any, serve: Any, peers: Any, answers: list[Frame]
) -> None:
    async def main() -> None:
        # What expires is to expire, however slow the machine: the demand is for two, so it comes twice and not once more.
        async with serve(visibility_timeout=0.02) as broker, peers() as opened:
            await store_one(broker, opened)
            slow = await opened.open(broker.receive_address, "receiver", client_id="slow")
            slow.send(Request(2, MIB))
            counts = [(await slow.expect(Deliver)).delivery_count for _ in range(2)]
            assert counts == [1, 2]
            slow.send(*answers, Ping(7))
            assert await slow.expect(Pong) == Pong(7)
            slow.send(Ack([ONCE]))
            assert (await slow.refusal()).code == "unknown-acknowledgement"

    run(main)


def test_a_program_answers_both_copies_that_it_has_and_asks_for_more_time_as_often_as_it_likes(
    run: Any, serve: Any, peers: Any
) -> None:
    async def main() -> None:
        async with serve(visibility_timeout=0.02) as broker, peers() as opened:
            await store_one(broker, opened)
            sink: TestSink[Delivery] = TestSink()
            running = Receiver(broker.receive_address, queue="orders", max_in_flight=2).to(sink).run()
            await sink.expect_subscription()
            sink.request(3)
            first, second = await sink.expect_n(2)
            assert (first.delivery_count, second.delivery_count) == (1, 2)
            for delivery in (first, second, first, second):
                delivery.extend(60)
                delivery.extend(30)
            first.acknowledge()
            second.acknowledge()
            # It is still connected, and gets what comes.
            await store_one(broker, opened, "another")
            third = await sink.expect_next()
            assert (third.sequence, third.delivery_count) == (1, 1)
            third.acknowledge()
            sink.cancel()
            await running

    run(main)


def test_a_program_may_ask_for_more_time_twice_before_it_has_asked_at_all(run: Any, serve: Any, peers: Any) -> None:
    async def main() -> None:
        async with serve() as broker, peers() as opened:
            await store_one(broker, opened)
            sink: TestSink[Delivery] = TestSink()
            running = Receiver(broker.receive_address, queue="orders").to(sink).run()
            delivery = await sink.request_next()
            delivery.extend(60)
            delivery.extend(60)
            await store_one(broker, opened, "another")
            assert (await sink.request_next()).sequence == 1
            delivery.acknowledge()
            sink.cancel()
            await running
            # Another client that says so in one frame is understood too; in two frames it always was.
            other = await opened.open(broker.receive_address, "receiver", client_id="other")
            other.send(Request(1, MIB))
            assert (await other.expect(Deliver)).first == 1
            other.send(Extend([(1, 1), (1, 1)], 60_000), Ack([(1, 1)]), Ping(7))
            assert await other.expect(Pong) == Pong(7)

    run(main)


async def store_one(broker: Any, opened: Any, name: str = "one") -> None:
    sender = await opened.open(broker.send_address, "sender", client_id=name)
    await sender.expect(Demand)
    sender.send(Send(0, None, MessageBatch.from_payloads([b"x"])))
