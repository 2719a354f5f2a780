"""Messages that a receiver refuses for good: dead letters at once, with what it said."""

from __future__ import annotations

from typing import Any, cast

from actors.queue.vocabulary.commands import AlterQueue, Rejected
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesReturned
from actors.queue.vocabulary.replies import DeadLetter
from actors.queue.vocabulary.settings import MAX_RECEIVES_LIMIT, REJECTED_FAILURES, QueueSettings
from tests.actors.driven import reason_of, replayed
from tests.actors.test_queue_state_dead_letters import Recorded

THRICE = QueueSettings(max_receives=3)


def letters(recorded: Recorded) -> list[DeadLetter]:
    return [effect for effect in recorded.state.take_effects() if isinstance(effect, DeadLetter)]


def test_what_is_refused_leaves_at_its_first_delivery_with_what_was_said_of_it() -> None:
    recorded = Recorded(THRICE)
    recorded.send(3)
    recorded.receive()
    recorded.state.negative_acknowledge("r", [(1, 1)], 0.0, 0.0, reason="ValueError: no number")
    (letter,) = letters(recorded)
    assert letter.ranges == ((1, 2),)
    headers = letter.batch.message(0).headers
    assert headers is not None
    assert headers["penstock-dead-reason"] == "rejected"
    assert headers["penstock-dead-error"] == "ValueError: no number"
    assert headers["penstock-dead-deliveries"] == "1"


def test_a_message_refused_beside_one_that_failed_keeps_its_own_reason() -> None:
    recorded = Recorded(QueueSettings(max_receives=1))
    recorded.send(2)
    recorded.receive()
    recorded.state.negative_acknowledge("r", [(0, 1)], 0.0, 0.0, reason="no")
    recorded.state.negative_acknowledge("r", [(1, 1)], 0.0, 0.0)
    assert [(letter.ranges, reason_of(letter)) for letter in letters(recorded)] == [
        (((0, 1),), "rejected"),
        (((1, 2),), "max-receives"),
    ]


def test_a_refusal_outlives_a_restart_but_not_what_was_said() -> None:
    recorded = Recorded(THRICE)
    recorded.send(1)
    recorded.receive()
    recorded.state.negative_acknowledge("r", [(0, 1)], 0.0, 0.0, reason="no")
    assert recorded.events[-1] == MessagesReturned(((0, 1, REJECTED_FAILURES),))
    again = Recorded(THRICE, log=replayed(recorded.events))
    again.state.tick(0.0)
    (letter,) = letters(again)
    headers = letter.batch.message(0).headers
    assert headers is not None
    assert headers["penstock-dead-reason"] == "rejected"
    assert headers["penstock-dead-deliveries"] == "1"
    assert "penstock-dead-error" not in headers


def test_a_queue_that_keeps_no_dead_letters_gets_it_back() -> None:
    recorded = Recorded()
    recorded.send(1)
    recorded.receive()
    recorded.state.negative_acknowledge("r", [(0, 1)], 0.0, 0.0, reason="no")
    (delivery,) = recorded.receive()
    assert (delivery.first, delivery.delivery_count) == (0, 2)


def test_no_number_of_failures_is_taken_for_a_refusal() -> None:
    recorded = Recorded()
    recorded.send(1)
    for _ in range(MAX_RECEIVES_LIMIT + 3):
        recorded.receive()
        recorded.state.negative_acknowledge("r", [(0, 1)], 0.0, 0.0)
    (span,) = recorded.state.ready.some_from(0, 10, delayed=False)
    assert span.failures == MAX_RECEIVES_LIMIT


def test_what_is_refused_to_be_dropped_leaves_where_there_is_a_place_for_it_and_is_gone_elsewhere() -> None:
    """The queue knows which when it hears of it. Who rejects may have been told before that changed, or be told after its messages."""
    recorded = Recorded(THRICE)
    recorded.send(2)
    recorded.receive()
    drop(recorded, 0)
    (letter,) = letters(recorded)
    assert (letter.ranges, reason_of(letter)) == (((0, 1),), "rejected")
    recorded.state.execute(AlterQueue(QueueSettings(max_receives=None)), 0.0, 0)
    recorded.state.take_effects()
    drop(recorded, 1)
    assert letters(recorded) == []
    assert recorded.events[-1] == MessagesAcknowledged(((1, 2),))


def drop(recorded: Recorded, number: int) -> None:
    rejected = Rejected(((number, 1),), 0.0, True, cast("Any", "r"), "no", drops=True)
    recorded.state.execute(rejected, 0.0, 0)
