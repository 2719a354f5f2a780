"""A sender's state without I/O: what a message may be, numbers, batches, demand, timing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import Message, MessageBatch
from actors.errors import BatchError
from tests.transport.sender_sessions import offer, opened, shape
from transport.clients.sender_batches import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_MESSAGES, MESSAGE_OVERHEAD_BYTES
from transport.clients.sender_session import OPEN_WHILE_UNCONFIRMED, SenderSession
from transport.errors import LocalProtocolError, MessageTooLargeError
from transport.wire.codec import encode
from transport.wire.frames import MAX_BODY_BYTES, MAX_FRAME_BYTES
from transport.wire.messages import Send, Sent
from transport.wire.timing import Timed, Timing


def timed(frames: list[Send]) -> list[tuple[list[bytes], Any]]:
    return [(frame.batch.payloads.tolist(), frame.properties) for frame in frames]


def test_messages_of_one_turn_leave_as_one_batch_numbered_from_zero() -> None:
    session = opened()
    offer(session, b"a", b"b", b"c")
    assert shape(session.sends()) == [(0, [b"a", b"b", b"c"])]
    offer(session, b"d")
    assert shape(session.sends()) == [(3, [b"d"])]


def test_a_full_batch_is_closed_by_messages_and_by_bytes() -> None:
    session = opened(max_batch_messages=2, max_batch_bytes=10)
    offer(session, b"a", b"b", b"c", b"x" * 10, b"d")
    assert shape(session.sends(complete=True)) == [(0, [b"a", b"b"]), (2, [b"c", b"x" * 10]), (4, [b"d"])]


def test_a_message_over_the_batch_bytes_goes_alone() -> None:
    session = opened(max_batch_bytes=10)
    offer(session, b"a", b"x" * 11, b"b")
    assert shape(session.sends(complete=True)) == [(0, [b"a"]), (1, [b"x" * 11]), (2, [b"b"])]


def test_a_batch_that_is_not_full_waits_while_two_are_under_way_and_leaves_at_the_end() -> None:
    session = opened()
    for element in (b"a", b"b"):
        offer(session, element)
        assert len(session.sends()) == 1
    offer(session, b"c")
    assert session.sends() == []
    assert OPEN_WHILE_UNCONFIRMED == 2
    assert shape(session.sends(complete=True)) == [(2, [b"c"])]


def test_confirmation_lets_the_waiting_batch_go() -> None:
    session = opened()
    for element in (b"a", b"b"):
        offer(session, element)
        session.sends()
    offer(session, b"c", b"d")
    assert session.sends() == []
    session.sent(Sent(1, 0))
    assert shape(session.sends()) == [(2, [b"c", b"d"])]


def test_nothing_leaves_without_demand_for_messages_and_bytes() -> None:
    session = SenderSession()
    session.connected(None)
    offer(session, b"a", b"b")
    assert session.sends() == []
    session.granted(1, 0)
    assert session.sends() == []
    session.granted(0, 1)
    assert shape(session.sends()) == [(0, [b"a"])]
    assert session.unsent_messages == 1


def test_a_batch_is_cut_to_the_demand_for_messages() -> None:
    session = opened(messages=2)
    session.offer(MessageBatch.from_payloads([b"a", b"b", b"c"]))
    assert shape(session.sends()) == [(0, [b"a", b"b"])]
    session.granted(5, 0)
    assert shape(session.sends()) == [(2, [b"c"])]


@given(
    st.lists(st.binary(max_size=30), min_size=1, max_size=30),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 200)), max_size=12),
)
def test_only_the_last_message_of_a_batch_leads_beyond_the_demand_for_bytes(
    payloads: list[bytes], grants: list[tuple[int, int]]
) -> None:
    session = SenderSession()
    session.connected(None)
    session.offer(MessageBatch.from_payloads(payloads))
    granted_messages = granted_bytes = messages = size = 0
    for more_messages, more_bytes in grants:
        session.granted(more_messages, more_bytes)
        granted_messages += more_messages
        granted_bytes += more_bytes
        for frame in session.sends():
            count = len(frame.batch)
            assert frame.sequence == messages
            assert size < granted_bytes
            assert messages + count <= granted_messages
            assert size + frame.batch.prefix_bytes(count - 1) < granted_bytes or count == 1
            messages += count
            size += frame.batch.nbytes
        # Nothing that might leave is held back.
        assert messages == len(payloads) or messages == granted_messages or size >= granted_bytes


def test_the_largest_message_fits_a_frame_and_a_larger_one_is_refused() -> None:
    largest = MAX_BODY_BYTES - MESSAGE_OVERHEAD_BYTES
    session = opened()
    session.offer(b"\x00" * largest)
    (frame,) = session.sends(complete=True)
    assert sum(len(bytes(part)) for part in encode(frame)) <= MAX_FRAME_BYTES
    with pytest.raises(MessageTooLargeError) as caught:
        session.offer(b"\x00" * (largest + 1))
    assert (caught.value.size, caught.value.limit) == (largest + 1, largest)
    with pytest.raises(MessageTooLargeError):
        opened().offer(Message(b"\x00" * largest, key=b"k"))
    with pytest.raises(MessageTooLargeError):
        opened().offer(MessageBatch.from_payloads([b"\x00" * MAX_FRAME_BYTES]))


def test_a_message_too_large_is_refused_when_it_is_offered_however_large_batches_may_be() -> None:
    # Later, when the batch is closed, nobody is there to be told.
    session = opened(max_batch_bytes=MAX_BODY_BYTES)
    with pytest.raises(MessageTooLargeError):
        session.offer(b"\x00" * (MAX_BODY_BYTES - 1))


def test_a_message_that_fits_a_frame_with_its_headers_is_taken() -> None:
    session = opened()
    session.offer(Message(b"x", headers={"blob": b"\x00" * (5 * 1024 * 1024)}))
    (frame,) = session.sends(complete=True)
    assert sum(len(bytes(part)) for part in encode(frame)) <= MAX_FRAME_BYTES


def test_a_batch_over_a_frame_is_sent_in_parts() -> None:
    payloads = [bytes([number]) * 3_000_000 for number in range(12)]
    session = opened()
    session.offer(MessageBatch.from_payloads(payloads))
    frames = session.sends(complete=True)
    assert len(frames) > 1
    assert all(frame.batch.nbytes <= MAX_BODY_BYTES for frame in frames)
    assert [payload for frame in frames for payload in frame.batch.payloads.tolist()] == payloads


@pytest.mark.parametrize("element", ["text", 1, None, object(), [b"x"]])
def test_what_is_no_message_is_refused_with_advice(element: Any) -> None:
    with pytest.raises(LocalProtocolError, match=r"encode it in a map\(\)"):
        opened().offer(element)


@pytest.mark.parametrize(
    "message",
    [
        Message(b"x", id=b"short"),
        Message(b"x", headers={f"h{number}": "v" for number in range(65)}),
        Message(b"x", headers={"h": 1}),  # type: ignore[dict-item]  # a wrong one is what the test is about
        Message("text"),  # type: ignore[arg-type]  # as above
        Message(b"x", key="text"),  # type: ignore[arg-type]  # as above
    ],
    ids=["id", "headers", "header", "payload", "key"],
)
def test_a_message_that_cannot_be_sent_is_refused_when_it_is_offered(message: Message) -> None:
    # Later, when the batch is closed, nobody is there to be told.
    with pytest.raises((BatchError, LocalProtocolError)):
        opened().offer(message)


IDENTITY = bytes(range(16))


@pytest.mark.parametrize(
    "elements",
    [
        [b"a", Message(b"b", id=IDENTITY)],
        [Message(b"a", id=IDENTITY), b"b"],
        [Message(b"a", id=IDENTITY), Message(b"b")],
        [Message(b"a"), Message(b"b", id=IDENTITY), b"c", Message(b"d", id=IDENTITY)],
        [bytearray(b"a"), memoryview(b"b"), Message(b"c", b"k", {"h": "v"}), b"d"],
    ],
)
def test_elements_of_every_kind_keep_their_order_and_their_parts(elements: list[Any]) -> None:
    session = opened()
    offer(session, *elements)
    found = [message for frame in session.sends(complete=True) for message in frame.batch.messages()]
    wanted = [element if isinstance(element, Message) else Message(bytes(element)) for element in elements]
    assert found == wanted


def test_messages_that_differ_in_timing_leave_in_batches_of_their_own_in_order() -> None:
    session = opened()
    offer(session, b"a", b"b", Timed(b"c", delay=1.5), Timed(b"d", delay=1.5), Timed(b"e", ttl=60), b"f")
    assert timed(session.sends(complete=True)) == [
        ([b"a", b"b"], None),
        ([b"c", b"d"], {"delay_ms": 1500}),
        ([b"e"], {"ttl_ms": 60_000}),
        ([b"f"], None),
    ]


def test_the_hot_path_too_keeps_what_differs_in_timing_apart() -> None:
    session = opened()
    session.offer(Timed(b"a", delay=1))
    session.offer_payload(b"b")
    session.offer_payload(b"c")
    assert timed(session.sends(complete=True)) == [([b"a"], {"delay_ms": 1000}), ([b"b", b"c"], None)]


def test_an_element_of_its_own_timing_takes_the_rest_from_the_sender() -> None:
    session = opened(timing=Timing(delay=2, ttl=9))
    offer(session, b"a", Timed(b"b", delay=2), Timed(b"c", delay=0), Timed(Message(b"d", b"key"), ttl=1))
    assert timed(session.sends(complete=True)) == [
        ([b"a", b"b"], {"delay_ms": 2000, "ttl_ms": 9000}),
        ([b"c"], {"delay_ms": 0, "ttl_ms": 9000}),
        ([b"d"], {"delay_ms": 2000, "ttl_ms": 1000}),
    ]


def test_a_timed_batch_keeps_its_timing_in_parts_and_when_it_is_sent_again() -> None:
    session = opened(messages=2)
    session.offer(Timed(MessageBatch.from_payloads([b"a", b"b", b"c"]), delay=3))
    assert timed(session.sends()) == [([b"a", b"b"], {"delay_ms": 3000})]
    session.connected(1)
    session.granted(10, 1000)
    assert timed(session.sends()) == [([b"b"], {"delay_ms": 3000}), ([b"c"], {"delay_ms": 3000})]


def test_what_is_timed_is_measured_and_counted_as_any_other() -> None:
    session = opened()
    offer(session, b"abc", Timed(b"de", delay=1), b"f")
    assert session.take_measure()[0] == 3
    assert session.unsent_messages == 3
    assert session.take_measure() == (0, 0)


def test_a_client_that_begins_anew_numbers_on_from_what_is_stored() -> None:
    session = opened(last=41)
    offer(session, b"a")
    assert shape(session.sends()) == [(41, [b"a"])]


@pytest.mark.parametrize("limits", [(0, 10), (10, 0), (-1, 1), (1, MAX_BODY_BYTES + 1)])
def test_batches_that_cannot_be_are_refused(limits: tuple[int, int]) -> None:
    with pytest.raises(LocalProtocolError, match="at least 1 message"):
        SenderSession(*limits)


def test_the_default_batch_is_a_thousand_messages_or_a_mebibyte() -> None:
    assert (DEFAULT_BATCH_MESSAGES, DEFAULT_BATCH_BYTES) == (1000, 1024 * 1024)
