"""Exclusive queues: one receiver at a time, in strict order."""

from __future__ import annotations

import pytest

from actors.batch import MessageBatch
from actors.errors import InvalidRequestError, SubscriptionNotFoundError
from actors.queue.operations import receiving
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.driven import Deliver, QueueState

LARGE = 10**9
EXCLUSIVE = QueueSettings(exclusive=True)


def exclusive(settings: QueueSettings = EXCLUSIVE, receivers: str = "ab") -> QueueState:
    queue = QueueState("q", 0, settings)
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10**6, LARGE)
    for name in receivers:
        queue.attach_receiver(name)
    queue.take_effects()
    return queue


def store(queue: QueueState, count: int, now: float = 0.0, delay: float | None = None) -> None:
    first = queue.log.next_sequence
    queue.send("s", first, MessageBatch.from_payloads([b"x"] * count), now, 0, delay)


def delivered(queue: QueueState) -> list[tuple[object, list[int]]]:
    return [
        (effect.receiver, list(range(effect.first, effect.first + len(effect.batch))))
        for effect in queue.take_effects()
        if isinstance(effect, Deliver)
    ]


def test_the_first_receiver_has_the_queue_and_the_next_ones_are_told_that_they_wait() -> None:
    queue = exclusive(receivers="")
    assert [queue.attach_receiver(name) for name in "abc"] == [False, True, True]
    statistics = queue.statistics(0.0)
    assert [facts.waiting for facts in statistics.connections] == [False, False, True, True]
    assert statistics.waiting_receivers == 2


def test_receivers_of_a_queue_that_is_not_exclusive_do_not_wait() -> None:
    queue = exclusive(QueueSettings(), receivers="")
    assert [queue.attach_receiver(name) for name in "abc"] == [False, False, False]
    assert queue.statistics(0.0).waiting_receivers == 0


def test_only_the_holder_gets_messages_whatever_the_others_ask_for() -> None:
    queue = exclusive()
    queue.receive("b", 10, LARGE, 0.0)
    store(queue, 5)
    assert delivered(queue) == []
    assert queue.statistics(0.0).demand_waiting == 0
    queue.receive("a", 3, LARGE, 0.0)
    assert delivered(queue) == [("a", [0, 1, 2])]


def test_when_the_holder_goes_the_next_in_line_is_served_at_once_from_the_first_message_on() -> None:
    queue = exclusive(receivers="abc")
    store(queue, 5)
    queue.receive("a", 3, LARGE, 0.0)
    queue.receive("c", 10, LARGE, 0.0)
    queue.receive("b", 2, LARGE, 0.0)
    queue.receive("b", 2, LARGE, 0.0)
    queue.acknowledge("a", [(0, 1)])
    queue.take_effects()
    queue.detach("a", 0.0)
    effects = [effect for effect in queue.take_effects() if isinstance(effect, Deliver)]
    assert [(e.receiver, e.first, len(e.batch), e.possibly_replayed) for e in effects] == [
        ("b", 1, 2, True),
        ("b", 3, 2, False),
    ]
    assert [facts.waiting for facts in queue.statistics(0.0).connections[1:]] == [False, True]
    queue.detach("b", 0.0)
    assert delivered(queue) == [("c", [1, 2]), ("c", [3, 4])]


def test_one_in_line_that_goes_changes_nothing_for_the_others() -> None:
    queue = exclusive(receivers="abc")
    queue.receive("b", 10, LARGE, 0.0)
    queue.receive("c", 10, LARGE, 0.0)
    queue.detach("b", 0.0)
    store(queue, 1)
    assert delivered(queue) == []
    queue.detach("a", 0.0)
    assert delivered(queue) == [("c", [0])]


def test_a_receiver_that_comes_back_stands_at_the_end_of_the_line() -> None:
    queue = exclusive()
    queue.detach("a", 0.0)
    assert queue.attach_receiver("a")
    queue.receive("a", 10, LARGE, 0.0)
    queue.receive("b", 10, LARGE, 0.0)
    store(queue, 1)
    assert delivered(queue) == [("b", [0])]


def test_demand_that_was_cancelled_in_line_is_not_served_later() -> None:
    queue = exclusive()
    queue.receive("b", 10, LARGE, 0.0)
    queue.cancel_demand("b")
    store(queue, 1)
    queue.detach("a", 0.0)
    assert delivered(queue) == []
    queue.receive("b", 1, LARGE, 0.0)
    assert delivered(queue) == [("b", [0])]


def test_a_message_that_comes_back_goes_before_all_that_were_not_delivered() -> None:
    queue = exclusive()
    store(queue, 5)
    queue.receive("a", 2, LARGE, 0.0)
    queue.negative_acknowledge("a", [(1, 1)], 0.0, 0.0)
    queue.take_effects()
    queue.receive("a", 10, LARGE, 0.0)
    assert delivered(queue) == [("a", [1]), ("a", [2, 3, 4])]


def test_a_message_given_back_with_a_delay_holds_up_what_is_behind_it() -> None:
    queue = exclusive()
    store(queue, 5)
    queue.receive("a", 3, LARGE, 0.0)
    queue.negative_acknowledge("a", [(1, 1)], 5.0, 0.0)
    queue.negative_acknowledge("a", [(0, 1)], 0.0, 0.0)
    queue.take_effects()
    queue.receive("a", 10, LARGE, 0.0)
    assert delivered(queue) == [("a", [0])], "what is before it goes on"
    assert queue.next_deadline() == 5.0
    queue.tick(5.0)
    assert delivered(queue) == [("a", [1]), ("a", [3, 4])]


def test_a_batch_sent_with_a_delay_holds_up_what_is_behind_it() -> None:
    queue = exclusive()
    queue.receive("a", 10, LARGE, 0.0)
    store(queue, 1)
    store(queue, 2, delay=5.0)
    store(queue, 1)
    assert delivered(queue) == [("a", [0])]
    queue.tick(5.0)
    assert delivered(queue) == [("a", [1, 2]), ("a", [3])]


def test_what_is_held_up_does_not_expire_before_it_is_its_turn() -> None:
    queue = exclusive(QueueSettings(exclusive=True, ttl=3.0))
    store(queue, 1, delay=2.0)
    store(queue, 1)
    assert queue.next_deadline() == 2.0
    queue.tick(2.0)
    assert queue.next_deadline() == 3.0
    queue.tick(3.0)
    assert queue.statistics(3.0).total_expired == 2


def test_a_message_that_left_for_the_dead_letter_queue_holds_nothing_up() -> None:
    queue = exclusive(QueueSettings(exclusive=True, max_receives=1))
    store(queue, 3)
    queue.receive("a", 1, LARGE, 0.0)
    queue.negative_acknowledge("a", [(0, 1)], 5.0, 0.0)
    queue.take_effects()
    queue.receive("a", 10, LARGE, 0.0)
    assert delivered(queue) == [("a", [1, 2])]


def test_a_holder_that_is_let_go_for_its_expired_leases_loses_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "MAX_EXPIRED_RANGES", 2)
    queue = exclusive()
    store(queue, 10)
    queue.receive("a", 10, LARGE, 0.0)
    for number in range(0, 10, 2):
        queue.acknowledge("a", [(number, 1)])
    queue.receive("b", 1, LARGE, 0.0)
    queue.take_effects()
    queue.tick(10.0)
    assert delivered(queue) == [("b", [1])]
    assert queue.statistics(10.0).waiting_receivers == 0


def test_a_subscription_cannot_be_owned_on_an_exclusive_queue_nor_read() -> None:
    queue = exclusive()
    with pytest.raises(InvalidRequestError, match="'q' is exclusive"):
        queue.open_subscription("o", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
    with pytest.raises(SubscriptionNotFoundError):
        queue.open_subscription("o", "sub", "read", epoch=1, starting="earliest", owner_timeout=None)
    assert queue.log.ledgers == {}


def test_after_the_queue_began_anew_who_comes_first_has_it() -> None:
    queue = exclusive()
    queue.reset(1.0)
    assert [queue.attach_receiver(name) for name in "ba"] == [False, True]
