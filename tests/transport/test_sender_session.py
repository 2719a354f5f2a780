"""A sender's state without I/O: numbers, batches, demand, confirmation, what is sent again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from actors.batch import Message, MessageBatch
from actors.errors import BatchError
from transport.clients.sender_batches import DEFAULT_BATCH_BYTES, DEFAULT_BATCH_MESSAGES, MESSAGE_OVERHEAD_BYTES
from transport.clients.sender_session import OPEN_WHILE_UNCONFIRMED, Confirmation, SenderSession
from transport.errors import ConfirmedLostError, LocalProtocolError, MessageTooLargeError, RemoteProtocolError
from transport.wire.codec import encode
from transport.wire.frames import MAX_BODY_BYTES, MAX_FRAME_BYTES
from transport.wire.messages import Send, Sent
from transport.wire.timing import Timed, Timing

FULL = "the queue is full"


def opened(messages: int = 1_000_000, size: int = 1 << 40, last: int | None = None, **limits: Any) -> SenderSession:
    session = SenderSession(**limits)
    session.connected(last)
    session.granted(messages, size)
    return session


def offer(session: SenderSession, *elements: Any) -> None:
    for element in elements:
        session.offer(element)


def shape(frames: list[Send]) -> list[tuple[int, list[bytes]]]:
    return [(frame.sequence, frame.batch.payloads.tolist()) for frame in frames]


def timed(frames: list[Send]) -> list[tuple[list[bytes], Any]]:
    return [(frame.batch.payloads.tolist(), frame.properties) for frame in frames]


def sent_in_batches(*batches: list[bytes], **options: Any) -> SenderSession:
    """One that has sent these, and heard nothing yet."""
    session = opened(**options)
    for payloads in batches:
        session.offer(MessageBatch.from_payloads(payloads))
    session.sends()
    return session


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


def test_confirmations_come_batch_by_batch_with_the_queues_number_of_the_last() -> None:
    session = opened()
    for payloads in ([b"a", b"b"], [b"c"], [b"d"]):
        session.offer(MessageBatch.from_payloads(payloads))
    session.sends()
    assert session.unconfirmed_messages == 4
    assert session.sent(Sent(2, 10)) == [Confirmation(0, 2, 10)]
    assert session.sent(Sent(4, 13)) == [Confirmation(2, 1, None), Confirmation(3, 1, 13)]
    assert session.idle
    assert (session.unconfirmed_messages, session.confirmed_messages) == (0, 4)


def test_a_confirmation_said_twice_confirms_once() -> None:
    session = opened()
    offer(session, b"a")
    session.sends()
    assert session.sent(Sent(1, 0)) == [Confirmation(0, 1, 0)]
    assert session.sent(Sent(1, 0)) == []


def test_what_is_unconfirmed_is_sent_again_with_the_same_numbers_under_new_demand() -> None:
    session = opened()
    for payloads in ([b"a", b"b"], [b"c"]):
        session.offer(MessageBatch.from_payloads(payloads))
    session.sends()
    assert session.connected(None) == []
    assert session.sends() == []
    session.granted(10, 1000)
    assert shape(session.sends()) == [(0, [b"a", b"b"]), (2, [b"c"])]
    assert session.resent == 3


def test_what_the_broker_has_stored_is_confirmed_by_its_welcome() -> None:
    session = opened()
    for payloads in ([b"a", b"b"], [b"c"]):
        session.offer(MessageBatch.from_payloads(payloads))
    session.sends()
    assert session.connected(2) == [Confirmation(0, 2, None)]
    session.granted(10, 1000)
    assert shape(session.sends()) == [(2, [b"c"])]
    assert session.resent == 1


def test_of_a_batch_that_is_stored_in_part_the_rest_is_sent_again() -> None:
    session = sent_in_batches([b"a", b"b", b"c"])
    assert session.connected(2) == [Confirmation(0, 2, None)]
    session.granted(10, 1000)
    assert shape(session.sends()) == [(2, [b"c"])]
    assert (session.confirmed_messages, session.resent) == (2, 1)


@pytest.mark.parametrize("again", [None, 2])
def test_what_was_to_be_sent_again_and_was_not_keeps_its_number_over_the_next_reconnect(again: int | None) -> None:
    session = sent_in_batches([b"a", b"b"], [b"c", b"d"], [b"e"])
    session.sent(Sent(2, 0))
    session.connected(2)
    session.granted(1, 1000)
    assert shape(session.sends()) == [(2, [b"c"])]
    session.connected(again)
    session.granted(10, 1000)
    assert shape(session.sends()) == [(2, [b"c"]), (3, [b"d"]), (4, [b"e"])]


@pytest.mark.parametrize("stored", [1, 3, 4, 5])
def test_what_waits_to_be_sent_again_and_is_found_stored_after_all_is_confirmed_and_not_sent(stored: int) -> None:
    session = sent_in_batches([b"a", b"b"], [b"c", b"d"], [b"e"])
    assert session.connected(0) == []
    assert sum(confirmation.count for confirmation in session.connected(stored)) == stored
    session.granted(10, 1000)
    assert [payload for _, payloads in shape(session.sends()) for payload in payloads] == [
        b"a",
        b"b",
        b"c",
        b"d",
        b"e",
    ][stored:]
    assert (session.confirmed_messages, session.unconfirmed_messages, session.unsent_bytes) == (stored, 5 - stored, 0)
    session.connected(5)
    assert session.idle


@pytest.mark.parametrize("last", [0, 1, 2])
def test_a_broker_that_has_less_than_it_confirmed_is_an_error_that_says_what_is_lost(last: int) -> None:
    session = sent_in_batches([b"a", b"b", b"c"], [b"d"], client_id="till-7")
    session.sent(Sent(3, 0))
    with pytest.raises(ConfirmedLostError, match=f"'till-7' below {last}, but had confirmed those below 3") as caught:
        session.connected(last)
    assert (caught.value.stored, caught.value.confirmed, caught.value.code) == (last, 3, "data-loss")


def test_a_broker_that_remembers_nothing_is_sent_what_is_unconfirmed_with_the_same_numbers() -> None:
    session = sent_in_batches([b"a", b"b", b"c"], [b"d"])
    session.sent(Sent(3, 0))
    assert session.confirmed_up_to == 3
    assert session.connected(None) == []
    session.granted(10, 1000)
    assert shape(session.sends()) == [(3, [b"d"])]


@pytest.mark.parametrize("last", [5, 1000])
def test_a_broker_that_has_more_than_was_sent_means_another_sender_of_the_name(last: int) -> None:
    session = sent_in_batches([b"a", b"b", b"c"], [b"d"], client_id="till-7")
    session.sent(Sent(3, 0))
    with pytest.raises(RemoteProtocolError, match="client id of its own"):
        session.connected(last)


def test_a_new_message_that_is_said_to_be_stored_already_is_not_taken_for_confirmed() -> None:
    session = sent_in_batches([b"a"])
    with pytest.raises(RemoteProtocolError, match="was sent for the first time"):
        session.sent(Sent(1, None))
    assert session.confirmed_messages == 0


def test_a_message_that_is_sent_again_may_be_stored_already() -> None:
    session = sent_in_batches([b"a"])
    session.connected(None)
    session.granted(1, 100)
    session.sends()
    assert session.sent(Sent(1, None)) == [Confirmation(0, 1, None)]


def test_a_confirmation_of_what_was_never_sent_is_the_brokers_fault() -> None:
    session = sent_in_batches([b"a"])
    with pytest.raises(RemoteProtocolError, match="only what is numbered below 1 was sent"):
        session.sent(Sent(2, 0))
    assert session.confirmed_messages == 0


def test_a_rejected_batch_is_not_confirmed_and_its_numbers_are_used_again() -> None:
    session = sent_in_batches([b"a"], [b"b", b"c"])
    assert session.sent(Sent(1, 0)) == [Confirmation(0, 1, 0)]
    assert session.sent(Sent(3, None, FULL)) == [Confirmation(1, 2, None, FULL)]
    assert (session.confirmed_messages, session.rejected_messages, session.unconfirmed_messages) == (1, 2, 0)
    assert session.idle
    offer(session, b"d")
    assert shape(session.sends()) == [(1, [b"d"])]
    assert session.sent(Sent(2, 1)) == [Confirmation(1, 1, 1)]


def test_after_a_rejection_nothing_leaves_before_everything_under_way_is_answered() -> None:
    session = sent_in_batches([b"a"], [b"b"], [b"c"])
    offer(session, b"d")
    session.sent(Sent(1, None, FULL))
    assert session.sends(complete=True) == []
    session.sent(Sent(2, None, "it follows a batch that was rejected"))
    assert session.sends(complete=True) == []
    session.sent(Sent(3, None, "it follows a batch that was rejected"))
    assert shape(session.sends(complete=True)) == [(0, [b"d"])]
    assert session.rejected_messages == 3


def test_what_is_stored_behind_a_rejected_batch_is_the_brokers_fault() -> None:
    session = sent_in_batches([b"a"], [b"b"])
    session.sent(Sent(1, None, FULL))
    with pytest.raises(RemoteProtocolError, match="message 1 is stored, though 0, sent before it, was rejected"):
        session.sent(Sent(2, 0))


@pytest.mark.parametrize("up_to", [1, 3])
def test_a_rejection_names_a_batch_that_is_under_way(up_to: int) -> None:
    session = sent_in_batches([b"a", b"b"], [b"c", b"d"])
    with pytest.raises(RemoteProtocolError, match="there is none under way"):
        session.sent(Sent(up_to, None, FULL))


@pytest.mark.parametrize("reason", ["", FULL])
@pytest.mark.parametrize("last", [0, None])
def test_a_rejection_whose_followers_are_unanswered_outlives_its_connection(last: int | None, reason: str) -> None:
    session = sent_in_batches([b"a"], [b"b"], [b"c"])
    session.sent(Sent(1, None, reason))
    assert session.connected(last) == []
    session.granted(10, 1000)
    assert shape(session.sends()) == [(0, [b"b"]), (1, [b"c"])]
    assert (session.rejected_messages, session.resent) == (1, 2)


def test_after_a_rejection_the_broker_cannot_have_stored_what_followed() -> None:
    session = sent_in_batches([b"a"], [b"b"])
    session.sent(Sent(1, None, FULL))
    with pytest.raises(RemoteProtocolError, match="client id of its own"):
        session.connected(2)


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


class SenderAgainstModel(RuleBasedStateMachine):
    """A broker that stores in order, rejects and drops connections at will.

    It must end up with each message once, in order, but for those that the sender was told are rejected.
    """

    def __init__(self) -> None:
        super().__init__()
        self.session = SenderSession(max_batch_messages=4, max_batch_bytes=40)
        self.session.connected(None)
        self.offered: list[bytes] = []
        self.stored: list[bytes] = []
        self.under_way: list[Send] = []
        self.unheard: list[Sent] = []
        self.refused_up_to: int | None = None
        self.rejected: list[bytes] = []
        self.granted_messages = self.granted_bytes = 0
        self.sent_messages = self.sent_bytes = 0
        self.confirmed = 0

    @rule(payload=st.binary(max_size=50))
    def offer(self, payload: bytes) -> None:
        self.session.offer(payload)
        self.offered.append(payload)

    @rule(payloads=st.lists(st.binary(max_size=10), min_size=1, max_size=6))
    def offer_batch(self, payloads: list[bytes]) -> None:
        self.session.offer(MessageBatch.from_payloads(payloads))
        self.offered += payloads

    @rule(messages=st.integers(0, 10), size=st.integers(0, 300))
    def grant(self, messages: int, size: int) -> None:
        self.session.granted(messages, size)
        self.granted_messages += messages
        self.granted_bytes += size

    @rule(complete=st.booleans())
    def send(self, complete: bool) -> None:
        for frame in self.session.sends(complete):
            count = len(frame.batch)
            assert self.sent_messages + count <= self.granted_messages
            assert self.sent_bytes + frame.batch.prefix_bytes(count - 1) < self.granted_bytes
            self.sent_messages += count
            self.sent_bytes += frame.batch.nbytes
            self.under_way.append(frame)

    @precondition(lambda self: self.under_way)
    @rule(reject=st.booleans())
    def answer(self, reject: bool) -> None:
        frame = self.under_way.pop(0)
        up_to = frame.sequence + len(frame.batch)
        if frame.sequence == self.refused_up_to:
            self.refused_up_to = up_to
            self.unheard.append(Sent(up_to, None, "it follows a batch that was rejected"))
            return
        assert frame.sequence == len(self.stored), "a gap, or a number used twice"
        self.refused_up_to = None
        if reject:
            self.refused_up_to = up_to
            self.unheard.append(Sent(up_to, None, FULL))
        else:
            self.unheard.append(Sent(up_to, len(self.stored)))
            self.stored += frame.batch.payloads.tolist()

    @precondition(lambda self: self.unheard)
    @rule()
    def hear(self) -> None:
        self.note(self.session.sent(self.unheard.pop(0)))

    @rule(forgetful=st.booleans())
    def reconnect(self, forgetful: bool) -> None:
        self.under_way.clear()
        self.unheard.clear()
        self.refused_up_to = None
        self.granted_messages = self.granted_bytes = self.sent_messages = self.sent_bytes = 0
        # A producer that the broker knows nothing of yet has stored nothing.
        known = len(self.stored) or (None if forgetful else 0)
        self.note(self.session.connected(known))

    def note(self, confirmations: list[Confirmation]) -> None:
        for confirmation in confirmations:
            if confirmation.rejected is not None:
                assert confirmation.sequence >= self.confirmed
                # The first that are neither confirmed nor rejected before are the ones this is about.
                start = self.confirmed
                self.rejected += self.offered[start : start + confirmation.count]
                del self.offered[start : start + confirmation.count]
                continue
            assert confirmation.sequence == self.confirmed, "confirmations come in order, each once"
            self.confirmed += confirmation.count

    @invariant()
    def what_is_confirmed_was_offered_and_is_stored_in_order(self) -> None:
        assert self.stored[: self.confirmed] == self.offered[: self.confirmed]

    @invariant()
    def what_is_confirmed_is_stored(self) -> None:
        assert self.confirmed <= len(self.stored)
        assert self.confirmed == self.session.confirmed_messages

    @invariant()
    def every_message_is_somewhere_once(self) -> None:
        session = self.session
        assert session.unsent_messages + session.unconfirmed_messages + self.confirmed == len(self.offered)
        assert session.idle is (self.confirmed == len(self.offered))
        assert session.unsent_bytes >= 0

    def teardown(self) -> None:
        self.reconnect(forgetful=False)
        self.grant(10_000, 1_000_000)
        self.send(complete=True)
        while self.under_way:
            self.answer(reject=False)
        while self.unheard:
            self.hear()
        assert self.session.idle
        assert self.session.rejected_messages == len(self.rejected)
        assert self.stored == self.offered


@pytest.mark.hypothesis
def test_whatever_happens_each_message_is_stored_once_in_order() -> None:
    run_state_machine_as_test(SenderAgainstModel)
