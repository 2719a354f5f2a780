"""Messages that are taken by request: so many, once, within a time; and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.errors import InvalidRequestError, QueueLimitError
from actors.limits import NO_DEADLINE
from actors.queue.vocabulary import takes
from actors.queue.vocabulary.replies import Lost, MessagesTaken, NothingHeld, TakenSettled, Tell
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.takes import Settlement
from tests.actors.driven import Deliver
from tests.actors.taking import LARGE, TakerState, numbers


def queue_of(*sizes: int, **settings: Any) -> TakerState:
    """A queue with a taker ``t``, which stores batches of so many messages."""
    queue = TakerState("q", 0, QueueSettings(visibility_timeout=10.0, **settings))
    queue.attach_sender("s", None)
    queue.request_capacity("s", LARGE, LARGE)
    queue.take_effects()
    queue.attach_taker()
    for size in sizes:
        store(queue, size)
    return queue


def store(queue: TakerState, count: int, now: float = 0.0) -> None:
    first = queue.log.next_sequence
    queue.send("s", first, MessageBatch.from_payloads([b"%03d" % n for n in range(first, first + count)]), now, 0)
    queue.effects = [effect for effect in queue.effects if str(effect.connection) != "s"]  # type: ignore[union-attr]


def taken(queue: TakerState, *request: Any, **options: Any) -> list[tuple[int, int]]:
    """What a request is given at once."""
    queue.take(*request, **options)
    return numbers(queue.answers()[0])


def test_a_request_is_answered_once_with_what_is_there() -> None:
    queue = queue_of(2, 3)
    assert taken(queue, 1, 4) == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert taken(queue, 2, 4) == [(4, 1)]
    assert queue.statistics(0.0).in_flight == 5
    store(queue, 3)
    assert queue.answers() == [], "it was for once"


def test_without_a_wait_an_empty_queue_answers_with_nothing() -> None:
    queue = queue_of()
    queue.take(1, 10)
    assert queue.answers() == [MessagesTaken(1, ()), NothingHeld(1)]


def test_a_request_waits_for_its_first_message_and_no_longer_than_it_says() -> None:
    queue = queue_of()
    queue.take(1, 10, wait=5.0)
    queue.take(2, 10, wait=7.0)
    assert queue.answers() == []
    assert queue.next_deadline() == 5.0
    queue.tick(4.9)
    assert queue.answers() == []
    queue.tick(5.0)
    assert queue.answers() == [MessagesTaken(1, ())]
    store(queue, 1, 6.0)
    assert numbers(queue.answers()[0]) == [(0, 1)]
    queue.tick(7.0)
    assert queue.answers() == []


def test_what_is_ready_is_shared_among_requests_that_wait_and_receivers() -> None:
    queue = queue_of()
    queue.attach_receiver("r")
    queue.receive("r", 100, LARGE, 0.0)
    for request in range(4):
        queue.take(request, 100, wait=5.0)
    store(queue, 10)
    effects = queue.take_effects()
    assert [len(effect.batch) for effect in effects if isinstance(effect, Deliver)] == [2]
    assert [len(numbers(answer)) for _, answer in queue.told] == [2, 2, 2, 2]


def test_no_more_bytes_are_given_than_asked_for_but_one_message_in_any_case() -> None:
    queue = queue_of(5)
    size = MessageBatch.from_payloads([b"000", b"001"]).nbytes
    assert len(taken(queue, 1, 10, size=size)) == 2
    assert len(taken(queue, 2, 10, size=1)) == 1
    queue = queue_of(1, 1, 1)
    assert len(taken(queue, 1, 10, size=size)) == 1, "in batches of their own they are larger"


def test_what_is_taken_comes_back_after_its_own_time() -> None:
    queue = queue_of(2)
    assert taken(queue, 1, 1, visibility=3.0) == [(0, 1)]
    assert taken(queue, 2, 1) == [(1, 1)]
    assert queue.next_deadline() == 3.0
    queue.tick(3.0)
    assert taken(queue, 3, 9, now=3.0) == [(0, 2)]
    queue.tick(10.0)
    assert taken(queue, 4, 9, now=10.0) == [(1, 2)]


def test_an_old_delivery_settles_nothing_and_is_told_why() -> None:
    queue = queue_of(3)
    queue.take(1, 3, visibility=3.0)
    queue.answers()
    queue.tick(3.0)
    queue.answers()
    assert taken(queue, 2, 1, now=3.0) == [(0, 2)]
    queue.settle(3, [(0, 1), (0, 2), (0, 2), (1, 1), (7, 1)])
    (answer, idle) = queue.answers()
    assert answer == TakenSettled(3, (((0, 1), Lost.EXPIRED), ((1, 1), Lost.EXPIRED), ((7, 1), Lost.GONE)))
    assert idle == NothingHeld(2)
    assert queue.statistics(3.0).total_acknowledged == 1
    queue.settle(4, [(0, 2)])
    assert queue.answers() == [TakenSettled(4, (((0, 2), Lost.GONE),)), NothingHeld(2)]


def test_the_word_that_nothing_is_held_says_which_request_was_heard_last_for_later_ones_may_be_answered_before_it() -> (
    None
):
    # That word waits until what was sent last is on the disk, a message from before does not: its taker must not end behind it.
    queue = queue_of(1, 1)
    assert taken(queue, 1, 1) == [(0, 1)]
    queue._record = lambda _event: 7
    store(queue, 1)
    queue.settle(2, [(0, 1)])
    queue.take(3, 1)
    settled, idle, given = (effect for effect in queue.effects if isinstance(effect, Tell))
    assert (settled.reply, idle.reply) == (TakenSettled(2, ()), NothingHeld(1))
    assert numbers(given.reply) == [(1, 1)]
    assert given.after < idle.after == 7
    queue.give_back_unseen([(1, 1)])
    assert queue.answers()[-1] == NothingHeld(3)


def test_another_takers_delivery_settles_nothing() -> None:
    queue = queue_of(2)
    queue.attach_taker("u")
    assert taken(queue, 1, 1) == [(0, 1)]
    assert taken(queue, 1, 1, taker="u") == [(1, 1)]
    queue.settle(2, [(1, 1)])
    assert queue.answers() == [TakenSettled(2, (((1, 1), Lost.EXPIRED),))]


def test_what_is_returned_is_there_again_at_once_or_after_its_delay() -> None:
    queue = queue_of(2)
    taken(queue, 1, 2)
    queue.settle(2, [(0, 1)], Settlement.RETURN)
    queue.settle(3, [(1, 1)], Settlement.RETURN, seconds=4.0)
    assert queue.answers() == [TakenSettled(2, ()), TakenSettled(3, ()), NothingHeld(1)]
    assert taken(queue, 4, 9) == [(0, 2)]
    queue.tick(4.0)
    assert taken(queue, 5, 9, now=4.0) == [(1, 2)]


def test_a_return_counts_as_a_failure_unless_it_says_otherwise() -> None:
    queue = queue_of(1, max_receives=2)
    for delivery, failed in enumerate((False, False, True), 1):
        assert taken(queue, delivery, 1) == [(0, delivery)]
        queue.settle(9, [(0, delivery)], Settlement.RETURN, failed=failed)
        queue.answers()
    assert taken(queue, 4, 1) == [(0, 4)]
    queue.settle(9, [(0, 4)], Settlement.RETURN)
    assert queue.statistics(0.0).leaving == 1


def test_a_refusal_for_good_leaves_at_once() -> None:
    queue = queue_of(1, max_receives=9)
    taken(queue, 1, 1)
    queue.settle(2, [(0, 1)], Settlement.RETURN, reason="of no use")
    assert queue.statistics(0.0).leaving == 1


def test_an_extension_holds_longer() -> None:
    queue = queue_of(1)
    taken(queue, 1, 1)
    queue.settle(2, [(0, 1)], Settlement.EXTEND, seconds=60.0, now=9.0)
    assert queue.answers() == [TakenSettled(2, ())]
    assert queue.next_deadline() == 69.0


def test_a_request_that_is_cancelled_costs_no_delivery() -> None:
    queue = queue_of()
    queue.take(1, 5, wait=5.0)
    queue.cancel_take(1)
    assert queue.answers() == [NothingHeld(1)]
    queue.cancel_take(1)
    assert queue.answers() == [NothingHeld(1)]
    store(queue, 2)
    assert queue.answers() == []
    assert queue.next_deadline() is None
    assert taken(queue, 2, 5) == [(0, 1), (1, 1)]


def test_what_nobody_saw_comes_back_as_if_it_had_never_been_delivered() -> None:
    queue = queue_of(3, max_receives=1)
    assert taken(queue, 1, 2) == [(0, 1), (1, 1)]
    queue.give_back_unseen([(0, 1), (1, 1), (1, 1), (2, 1)])
    assert queue.answers() == [NothingHeld(1)]
    (answer,) = (queue.take(2, 3), queue.answers()[0])[1:]
    assert numbers(answer) == [(0, 1), (1, 1), (2, 1)]
    assert not any(each.possibly_replayed for each in answer.ranges)
    statistics = queue.statistics(0.0)
    assert (statistics.total_out, statistics.total_redelivered) == (0, 0)
    assert [facts.messages for facts in statistics.connections if facts.role == "taker"] == [3]
    queue.seen(3)
    assert queue.statistics(0.0).total_out == 3


def test_a_taker_is_told_when_it_holds_nothing() -> None:
    queue = queue_of(2)
    taken(queue, 1, 1)
    taken(queue, 2, 1, visibility=4.0)
    queue.settle(3, [(0, 1)])
    assert queue.answers() == [TakenSettled(3, ())]
    queue.tick(4.0)
    assert queue.answers() == [NothingHeld(2)]


def test_a_taker_that_leaves_gives_back_what_it_holds_and_waits_no_more() -> None:
    queue = queue_of(1)
    taken(queue, 1, 1)
    queue.take(2, 1, wait=5.0)
    queue.detach("t", 1.0, failed=False)
    assert queue.answers() == []
    assert queue.next_deadline() is None
    queue.attach_taker()
    assert taken(queue, 1, 5) == [(0, 2)]


def test_of_an_exclusive_queue_only_who_has_it_takes() -> None:
    queue = queue_of(2, exclusive=True)
    queue.attach_taker("second")
    assert taken(queue, 1, 1) == [(0, 1)]
    queue.take(1, 1, taker="second")
    assert queue.answers() == [MessagesTaken(1, (), ready=1), NothingHeld(1)]
    queue.take(2, 9, wait=5.0, taker="second")
    queue.detach("t", 1.0)
    assert numbers(queue.answers()[0]) == [(0, 2), (1, 1)]


@pytest.mark.parametrize(
    "options",
    [
        {"messages": 0},
        {"messages": takes.MAX_TAKE_MESSAGES + 1},
        {"size": 0},
        {"wait": -1.0},
        {"wait": takes.MAX_TAKE_WAIT_SECONDS + 1},
        {"wait": float("nan")},
        {"visibility": 0.0},
        {"visibility": -1.0},
        {"visibility": float("inf")},
    ],
)
def test_a_request_that_cannot_be_is_refused_and_changes_nothing(options: dict[str, Any]) -> None:
    queue = queue_of(1)
    with pytest.raises(InvalidRequestError):
        queue.take(1, **{"messages": 1, **options})
    assert taken(queue, 1, 1) == [(0, 1)]


def test_too_many_requests_and_too_much_held_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.queue.operations.taking.MAX_TAKES", 2)
    monkeypatch.setattr("actors.queue.operations.taking.MAX_TAKEN_MESSAGES", 5)
    queue = queue_of(4)
    assert len(taken(queue, 0, 4)) == 4
    with pytest.raises(QueueLimitError, match="MAX_TAKEN_MESSAGES of 5"):
        queue.take(1, 2)
    queue.take(1, 1, wait=1.0)
    queue.take(2, 1, wait=1.0)
    with pytest.raises(QueueLimitError, match="MAX_TAKES of 2"):
        queue.take(3, 1, wait=1.0)


def test_a_request_whose_number_waits_already_is_refused() -> None:
    queue = queue_of()
    queue.take(1, 1, wait=1.0)
    with pytest.raises(InvalidRequestError, match="request 1 waits already"):
        queue.take(1, 1, wait=1.0)


def test_a_receiver_takes_what_is_ready_and_holds_it_as_what_it_was_delivered() -> None:
    queue = queue_of(2, 1)
    queue.attach_receiver("r", NO_DEADLINE)
    queue.take(1, 1, taker="r")
    (answer,) = queue.answers()
    assert (numbers(answer), answer.ready) == ([(0, 1)], 2)
    statistics = queue.statistics(0.0)
    assert (statistics.in_flight, statistics.total_out) == (1, 1)
    assert queue.next_deadline() is None, "it has no deadline, as its receiver has none"
    queue.acknowledge("r", [(0, 1)])
    queue.take(2, 5, taker="r")
    (answer,) = queue.answers()
    assert (numbers(answer), answer.ready) == ([(1, 1), (2, 1)], 0)
    queue.take(3, 1, taker="r")
    assert queue.answers() == [MessagesTaken(3, ())]
    queue.detach("r", 1.0)
    assert queue.statistics(1.0).ready == 2
    assert taken(queue, 4, 1) == [(1, 2)]


def test_a_receiver_that_takes_is_no_taker() -> None:
    queue = queue_of(1)
    queue.attach_receiver("r")
    queue.take(1, 1, taker="r")
    queue.answers()
    for settles in (lambda: queue.settle(2, [(0, 1)], taker="r"), lambda: queue.give_back_unseen([(0, 1)], taker="r")):
        with pytest.raises(InvalidRequestError, match="is no taker"):
            settles()
    with pytest.raises(InvalidRequestError, match="attached as a receiver already"):
        queue.attach_taker()
    queue.tick(10.0)
    assert queue.statistics(10.0).ready == 1, "its deadline is the receiver's"
    queue.acknowledge("r", [(0, 1)])
    assert queue.statistics(10.0).stored_messages == 0, "a late answer is one of a receiver"


def test_without_a_wait_what_is_there_is_taken_behind_a_step_that_is_under_way_and_nothing_is_waited_for() -> None:
    queue = queue_of()
    for request in range(300):
        queue.take(request, 1, wait=5.0)
    store(queue, 301)
    assert len(queue.answers()) == 256
    queue.attach_receiver("r")
    queue.take(1000, 1, taker="r")
    queue.take(1001, 1, taker="r")
    assert queue.answers() == []
    assert queue.next_deadline() == 0.0
    queue.tick(0.0)
    mine = {answer.request: len(answer.ranges) for answer in queue.answers() if answer.request >= 1000}
    assert mine == {1000: 1, 1001: 0}
    assert queue.next_deadline() == 10.0, "no wait is left"


def test_many_requests_are_answered_in_steps_that_are_bounded() -> None:
    queue = queue_of()
    for request in range(300):
        queue.take(request, 1, wait=5.0)
    store(queue, 300)
    assert len(queue.answers()) == 256
    assert queue.next_deadline() == 0.0
    queue.tick(5.0)
    answers = queue.answers()
    assert [len(numbers(answer)) for answer in answers] == [1] * 44, "whose turn it is is not told of its time before"


def test_the_messages_of_one_request_count_as_so_many_deliveries() -> None:
    queue = queue_of(*[1] * 600)
    queue.attach_taker("u")
    queue.take(1, 600)
    queue.tick(0.0)
    assert queue.answers() == [], "it is answered when it has all"
    queue.tick(0.0)
    assert [len(numbers(answer)) for answer in queue.answers()] == [600]
    for request in range(3):
        queue.take(request, 200, wait=5.0, taker="u")
    queue.detach("t", 0.0)
    for _ in range(3):
        assert [len(numbers(answer)) for answer in queue.answers()] == [200]
        queue.tick(0.0)
    assert (queue.answers(), queue.unfinished_at) == ([], None)
