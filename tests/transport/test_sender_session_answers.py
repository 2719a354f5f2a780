"""What a sender's session makes of answers: confirmations, rejections, and what is sent again on the next connection."""

from __future__ import annotations

from typing import Any

import pytest

from actors.batch import MessageBatch
from tests.transport.sender_sessions import FULL, offer, opened, shape
from transport.clients.sender_session import Confirmation, SenderSession
from transport.errors import ConfirmedLostError, RemoteProtocolError
from transport.wire.messages import Sent


def sent_in_batches(*batches: list[bytes], **options: Any) -> SenderSession:
    """One that has sent these, and heard nothing yet."""
    session = opened(**options)
    for payloads in batches:
        session.offer(MessageBatch.from_payloads(payloads))
    session.sends()
    return session


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
