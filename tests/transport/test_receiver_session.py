"""A receiver's state without I/O: demand by its strategy and limits, answers joined into ranges."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from actors.batch import Message, MessageBatch
from streams import (
    MaxInFlightRequestStrategy,
    OneByOneRequestStrategy,
    RequestStrategy,
    WatermarkRequestStrategy,
    ZeroRequestStrategy,
)
from transport.clients.delivery import DeliveredBatch, Delivery
from transport.clients.receiver_session import ReceiverSession
from transport.errors import RemoteProtocolError, TransportError
from transport.wire.codec import encode
from transport.wire.messages import MAX_EXTENSION_MS, Ack, Deliver, Extend, Frame, Nack, Request


class Session(ReceiverSession):
    """One that is connected, and counts the notifications."""

    __slots__ = ("notified",)

    def __init__(
        self, strategy: RequestStrategy | None = None, max_in_flight_bytes: int = 1 << 20, limit: int | None = None
    ) -> None:
        self.notified = 0
        super().__init__("q", strategy or MaxInFlightRequestStrategy(1000), self._count, max_in_flight_bytes, limit)
        self.connected(b"12345678")

    def _count(self) -> None:
        self.notified += 1


def frame(first: int, count: int, size: int = 1, **facts: int) -> Deliver:
    batch = MessageBatch.from_payloads([b"x" * size] * count)
    return Deliver(first, 1_700_000_000_000_000, facts.get("delivery_count", 1), bool(facts.get("replayed", 0)), batch)


def deliveries(batch: DeliveredBatch) -> list[Delivery]:
    return [Delivery(batch, index, payload) for index, payload in enumerate(batch.payloads())]


def request(session: ReceiverSession) -> Request:
    due = session.demand()
    assert due is not None
    return due


def test_the_first_request_is_the_strategys_whole_demand() -> None:
    assert Session(MaxInFlightRequestStrategy(10), 500).demand() == Request(10, 500)


def test_nothing_is_requested_again_while_nothing_is_acknowledged() -> None:
    session = Session(MaxInFlightRequestStrategy(10))
    request(session)
    session.delivered(frame(0, 10))
    assert session.demand() is None


def test_demand_is_renewed_in_steps_of_half_as_messages_are_acknowledged() -> None:
    session = Session(MaxInFlightRequestStrategy(10))
    request(session)
    handed = deliveries(session.delivered(frame(0, 10)))
    for delivery in handed[:4]:
        delivery.acknowledge()
    assert session.demand() is None
    handed[4].acknowledge()
    assert request(session).messages == 15


@pytest.mark.parametrize(
    ("strategy", "first"),
    [(OneByOneRequestStrategy(), 1), (WatermarkRequestStrategy(20), 20), (MaxInFlightRequestStrategy(7), 7)],
)
def test_any_strategy_decides_how_much_is_requested(strategy: RequestStrategy, first: int) -> None:
    assert request(Session(strategy)).messages == first


def test_the_zero_strategy_requests_no_message() -> None:
    assert request(Session(ZeroRequestStrategy())).messages == 0


def test_byte_demand_is_renewed_once_half_of_it_is_settled() -> None:
    session = Session(MaxInFlightRequestStrategy(1000), 1000)
    assert request(session).bytes == 1000
    batches = [session.delivered(frame(index, 1, 292)) for index in range(3)]
    assert batches[0].nbytes == 300
    batches[0].acknowledge()
    assert session.demand() is None
    batches[1].acknowledge()
    assert request(session).bytes == 1600


def test_with_a_limit_never_more_is_requested_than_is_left_of_it() -> None:
    session = Session(MaxInFlightRequestStrategy(10), limit=12)
    assert request(session).messages == 10
    batch = session.delivered(frame(0, 10))
    batch.acknowledge()
    assert request(session).messages == 12
    rest = session.delivered(frame(10, 2))
    rest.reject()
    # What was given back is still to be had.
    assert request(session).messages == 14


def test_more_than_was_requested_is_the_brokers_fault() -> None:
    session = Session(MaxInFlightRequestStrategy(3))
    request(session)
    session.delivered(frame(0, 2))
    with pytest.raises(RemoteProtocolError, match="2 messages delivered, 1 were requested"):
        session.delivered(frame(2, 2))


def test_demand_is_withdrawn_before_anything_is_answered_and_what_crosses_is_taken() -> None:
    session = Session(MaxInFlightRequestStrategy(10))
    request(session)
    batch = session.delivered(frame(0, 2))
    batch.acknowledge()
    session.withdraw()
    assert session.answers() == [Request(0, 0), Ack([(0, 2)])]
    session.withdraw()
    session.delivered(frame(2, 3)).give_back()
    assert session.answers() == [Nack([(2, 3)], 0, failed=False)]


def test_no_demand_is_withdrawn_where_there_is_none_or_its_connection_is_gone() -> None:
    session = Session(MaxInFlightRequestStrategy(2))
    session.withdraw()
    assert (session.answers(), session.notified) == ([], 0)
    request(session)
    session.withdraw()
    session.connected(b"12345678")
    assert session.answers() == []
    request(session)
    session.delivered(frame(0, 2))
    session.withdraw()
    assert session.answers() == []


def test_acknowledgements_in_order_join_into_one_range() -> None:
    session = Session()
    request(session)
    for delivery in deliveries(session.delivered(frame(100, 50))):
        delivery.acknowledge()
    assert session.answers() == [Ack([(100, 50)])]
    assert session.answers() == []
    assert session.notified == 1


def test_acknowledgements_out_of_order_are_all_said() -> None:
    session = Session()
    request(session)
    handed = deliveries(session.delivered(frame(0, 6)))
    for index in (3, 4, 0, 1, 5):
        handed[index].acknowledge()
    (answer,) = session.answers()
    assert isinstance(answer, Ack)
    assert sorted(number for first, count in answer.ranges for number in range(first, first + count)) == [0, 1, 3, 4, 5]


def test_answering_twice_says_it_once() -> None:
    session = Session()
    request(session)
    batch = session.delivered(frame(0, 2))
    first, second = deliveries(batch)
    first.acknowledge()
    first.acknowledge()
    first.reject()
    first.extend(5)
    second.reject(1.5)
    second.acknowledge()
    assert session.answers() == [Ack([(0, 1)]), Nack([(1, 1)], 1500)]
    assert session.in_flight == 0


def test_a_whole_batch_is_answered_as_one_range_and_once() -> None:
    session = Session()
    request(session)
    batch = session.delivered(frame(7, 5))
    batch.extend(2)
    batch.acknowledge()
    batch.acknowledge()
    batch.reject()
    batch.extend(3)
    assert session.answers() == [Extend([(7, 5)], 2000), Ack([(7, 5)])]


def test_what_is_extended_again_before_it_has_left_is_said_once_and_the_last_word_counts() -> None:
    session = Session()
    request(session)
    batch = session.delivered(frame(0, 3))
    handed = deliveries(batch)
    for _ in range(1000):
        batch.extend(10)
    handed[1].extend(60)
    handed[2].extend(5)
    handed[2].extend(60)
    handed[0].extend(7)
    assert session.answers() == [Extend([(0, 3)], 10_000), Extend([(1, 1), (2, 1)], 60_000), Extend([(0, 1)], 7000)]
    assert session.answers() == []


def test_of_a_message_that_came_twice_the_acknowledgement_is_said_before_the_return() -> None:
    session = Session()
    request(session)
    (first,) = deliveries(session.delivered(frame(0, 1)))
    (second,) = deliveries(session.delivered(frame(0, 1)))
    first.reject()
    second.acknowledge()
    assert session.answers() == [Ack([(0, 1)]), Nack([(0, 1)], 0)]


def test_rejections_are_grouped_by_their_delay() -> None:
    session = Session()
    request(session)
    for index, delivery in enumerate(deliveries(session.delivered(frame(0, 4)))):
        delivery.reject(index % 2)
    assert session.answers() == [Nack([(0, 1), (2, 1)], 0), Nack([(1, 1), (3, 1)], 1000)]


@pytest.mark.parametrize(("seconds", "ms"), [(0.0, 1), (0.0004, 1), (1.5, 1500), (43200, MAX_EXTENSION_MS)])
def test_an_extension_is_in_milliseconds_and_at_least_one(seconds: float, ms: int) -> None:
    session = Session()
    request(session)
    session.delivered(frame(0, 1)).extend(seconds)
    assert session.answers() == [Extend([(0, 1)], ms)]


@pytest.mark.parametrize(("seconds", "ms"), [(0.0, 0), (0.0004, 1), (0.25, 250), (43200, MAX_EXTENSION_MS)])
def test_a_delay_is_in_milliseconds_and_not_at_once_unless_it_is_zero(seconds: float, ms: int) -> None:
    session = Session()
    request(session)
    session.delivered(frame(0, 1)).reject(seconds)
    assert session.answers() == [Nack([(0, 1)], ms)]


@pytest.mark.parametrize("seconds", [-1, 43200.001, 50000, math.nan, math.inf, -math.inf, "5", True, None])
def test_a_time_that_cannot_be_is_refused_and_answers_nothing(seconds: Any) -> None:
    session = Session()
    request(session)
    batch = session.delivered(frame(0, 2))
    delivery = deliveries(batch)[0]
    for answer, what in (
        (batch.reject, "delay"),
        (batch.extend, "the extension"),
        (delivery.reject, "delay"),
        (delivery.extend, "the extension"),
    ):
        with pytest.raises(ValueError, match=rf"^{what} is {re.escape(repr(seconds))}[;,] ") as raised:
            answer(seconds)
        assert isinstance(raised.value, TransportError)
    assert session.answers() == []
    delivery.acknowledge()
    assert session.answers() == [Ack([(0, 1)])]


def test_answers_to_an_earlier_connections_deliveries_are_void() -> None:
    session = Session(limit=5)
    request(session)
    batch = session.delivered(frame(0, 3))
    handed = deliveries(session.delivered(frame(3, 1)))
    session.connected(b"12345678")
    batch.acknowledge()
    handed[0].reject()
    handed[0].extend(1)
    assert session.answers() == []
    assert (session.in_flight, session.acknowledged, session.notified) == (0, 0, 0)
    assert request(session).messages == 5


def test_answers_that_had_not_left_are_void_after_a_reconnect() -> None:
    session = Session()
    request(session)
    session.delivered(frame(0, 3)).acknowledge()
    session.connected(b"12345678")
    assert session.answers() == []


def test_only_acknowledgements_that_were_said_count_after_a_reconnect() -> None:
    session = Session(limit=5)
    request(session)
    session.delivered(frame(0, 2)).acknowledge()
    assert session.answers() == [Ack([(0, 2)])]
    session.delivered(frame(2, 3)).acknowledge()
    assert session.acknowledged == 5
    session.connected(b"12345678")
    assert session.acknowledged == 2
    assert request(session).messages == 3


@pytest.mark.parametrize("base", [0, 2**33])
def test_thousands_of_scattered_answers_fit_their_frames(base: int) -> None:
    session = Session(MaxInFlightRequestStrategy(10_000))
    request(session)
    handed = deliveries(session.delivered(frame(base, 4000)))
    for delivery in handed[::2]:
        delivery.acknowledge()
    for delivery in handed[1::4]:
        delivery.reject()
    for delivery in handed[3::4]:
        delivery.extend(5)
    frames = session.answers()
    named = {Ack: 0, Nack: 0, Extend: 0}
    for answer in frames:
        assert isinstance(answer, Ack | Nack | Extend)
        assert encode(answer)
        named[type(answer)] += sum(count for _, count in answer.ranges)
    assert named == {Ack: 2000, Nack: 1000, Extend: 1000}


def test_a_delivery_shows_what_the_sender_gave_and_the_broker_added() -> None:
    session = Session()
    request(session)
    messages = [Message(b"a", b"k", {"h": "v", "b": b"\x00"}), Message(b"b")]
    batch = session.delivered(Deliver(9, 123, 2, True, MessageBatch.from_messages(messages)))
    first, second = deliveries(batch)
    assert (first.queue, first.sequence, first.payload, first.key) == ("q", 9, b"a", b"k")
    assert first.headers == {"h": "v", "b": b"\x00"}
    assert (second.key, second.headers) == (None, {})
    assert (second.sequence, second.enqueued_us, second.delivery_count, second.possibly_replayed) == (10, 123, 2, True)
    assert second.id == b"12345678" + (10).to_bytes(8, "big")
    assert "10" in repr(second)
    assert "9-10" in repr(batch)


def test_an_id_that_the_sender_gave_is_the_messages() -> None:
    session = Session()
    request(session)
    ids = [bytes([number]) * 16 for number in range(2)]
    batch = session.delivered(
        Deliver(0, 1, 1, False, MessageBatch.from_messages([Message(b"x", id=identity) for identity in ids]))
    )
    assert [delivery.id for delivery in deliveries(batch)] == ids


class ReceiverAgainstModel(RuleBasedStateMachine):
    """A broker that delivers within the demand, and knows exactly what the connection holds."""

    LIMIT_MESSAGES = 20
    LIMIT_BYTES = 400

    def __init__(self) -> None:
        super().__init__()
        self.session = Session(MaxInFlightRequestStrategy(self.LIMIT_MESSAGES), self.LIMIT_BYTES)
        self.pending = False
        self.next = 0
        self.held: set[int] = set()
        self.handed: list[Delivery] = []
        self.open: list[Delivery] = []
        self.demand_messages = self.demand_bytes = 0
        self.used_messages = self.used_bytes = 0
        self.bytes_of: dict[int, int] = {}

    @rule()
    def request(self) -> None:
        due = self.session.demand()
        if due is not None:
            assert due.messages >= self.demand_messages
            assert due.bytes >= self.demand_bytes
            self.demand_messages, self.demand_bytes = due.messages, due.bytes

    @precondition(lambda self: self.demand_messages > self.used_messages and self.demand_bytes > self.used_bytes)
    @rule(count=st.integers(1, 5), size=st.integers(0, 60))
    def deliver(self, count: int, size: int) -> None:
        whole = MessageBatch.from_payloads([b"x" * size] * count)
        fits = min(self.demand_messages - self.used_messages, whole.count_within(self.demand_bytes - self.used_bytes))
        batch = whole.slice(0, fits)
        self.used_messages += fits
        self.used_bytes += batch.nbytes
        delivered = self.session.delivered(Deliver(self.next, 1, 1, False, batch))
        self.held.update(range(self.next, self.next + fits))
        self.open += deliveries(delivered)
        self.next += fits

    @precondition(lambda self: self.open)
    @rule(data=st.data(), answer=st.sampled_from(["acknowledge", "reject", "extend"]))
    def answer(self, data: st.DataObject, answer: str) -> None:
        index = data.draw(st.integers(0, len(self.open) - 1))
        if answer == "extend":
            self.open[index].extend(1)
        else:
            getattr(self.open.pop(index), answer)()

    @rule()
    def say(self) -> None:
        settled: set[int] = set()
        for said in self.session.answers():
            assert isinstance(said, Ack | Nack | Extend)
            for first, count in said.ranges:
                numbers = set(range(first, first + count))
                assert numbers <= self.held - settled, "an answer about what is not held closes the connection"
                if not isinstance(said, Extend):
                    settled |= numbers
        self.held -= settled
        assert self.held == {delivery.sequence for delivery in self.open}

    @rule()
    def reconnect(self) -> None:
        self.session.connected(b"12345678")
        self.demand_messages = self.demand_bytes = self.used_messages = self.used_bytes = 0
        self.held.clear()
        self.open.clear()

    @invariant()
    def what_is_held_and_under_way_is_within_the_limits(self) -> None:
        assert self.session.in_flight == len(self.open)
        assert self.demand_messages - self.used_messages + len(self.open) <= self.LIMIT_MESSAGES

    @invariant()
    def a_receiver_that_holds_nothing_is_not_stuck(self) -> None:
        if not self.open:
            self.request()
            assert self.demand_messages > self.used_messages
            assert self.demand_bytes > self.used_bytes


@pytest.mark.hypothesis
def test_whatever_is_answered_when_demand_and_answers_are_exact() -> None:
    run_state_machine_as_test(ReceiverAgainstModel)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=10), st.randoms())
def test_acknowledged_in_any_order_every_message_is_named_once(sizes: list[int], random: object) -> None:
    session = Session()
    request(session)
    handed: list[Delivery] = []
    first = 0
    for size in sizes:
        handed += deliveries(session.delivered(frame(first, size)))
        first += size
    getattr(random, "shuffle")(handed)  # noqa: B009 - hypothesis' Random is private to it
    for delivery in handed:
        delivery.acknowledge()
    frames: list[Frame] = session.answers()
    named = [
        n
        for said in frames
        if isinstance(said, Ack)
        for start, count in said.ranges
        for n in range(start, start + count)
    ]
    assert sorted(named) == list(range(first))


def test_a_delivery_that_is_kept_keeps_no_neighbours() -> None:
    messages = [
        Message(bytes([number]) * 10_000, key=b"k%d" % number, headers={"n": str(number)}) for number in range(100)
    ]
    made = MessageBatch.from_messages(messages)
    body = b"".join(made.buffers())
    session = Session(MaxInFlightRequestStrategy(100))
    session.demand()
    batch = session.delivered(Deliver(7, 0, 1, False, MessageBatch.from_body(*made.descriptor(), body)))
    deliveries = [Delivery(batch, index, payload) for index, payload in enumerate(batch.split())]
    assert batch.batch.held_bytes() < 5_000
    assert len(batch) == batch.unsettled == 100
    kept = deliveries[42]
    assert (kept.payload, kept.key, kept.headers) == (b"\x2a" * 10_000, b"k42", {"n": "42"})
    assert kept.id == b"12345678" + (7 + 42).to_bytes(8, "big")
    for delivery in deliveries:
        delivery.acknowledge()
    assert session.answers() == [Ack([(7, 100)])]
