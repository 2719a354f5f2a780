"""Leases of the queue's state: deadlines, delays, extensions, returns, and answers that come late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from actors.errors import InvalidRequestError, UnknownAcknowledgementError
from actors.limits import MAX_VISIBILITY_SECONDS, NO_DEADLINE
from actors.queue.operations import receiving
from actors.queue.vocabulary.commands import AlterQueue
from tests.actors.driven import Deliver, Refuse
from tests.actors.receiving import LARGE, delivered, queue_with, receive

# --- leases


def test_a_message_is_receivable_again_at_its_deadline_and_not_before() -> None:
    queue = queue_with(4, receivers="ab")
    receive(queue, "a", 4, now=1.0)
    queue.receive("b", 10, LARGE, 1.0)
    assert queue.next_deadline() == 11.0
    queue.tick(10.999)
    assert delivered(queue) == []
    queue.tick(11.0)
    (delivery,) = queue.take_effects()
    assert isinstance(delivery, Deliver)
    assert (delivery.receiver, delivery.first, delivery.delivery_count) == ("b", 0, 2)
    assert delivery.possibly_replayed


def test_what_comes_back_is_delivered_before_what_is_newer() -> None:
    queue = queue_with(6, receivers="ab")
    receive(queue, "a", 4)
    queue.negative_acknowledge("a", [(1, 2)], 0.0, 0.0)
    assert receive(queue, "b", 10) == [range(1, 3), range(4, 6)]


def test_a_delayed_message_comes_back_when_its_delay_is_over() -> None:
    queue = queue_with(3, receivers="ab")
    receive(queue, "a", 3)
    queue.negative_acknowledge("a", [(0, 1)], 5.0, 2.0)
    queue.receive("b", 10, LARGE, 2.0)
    assert queue.next_deadline() == 7.0
    queue.tick(6.9)
    assert delivered(queue) == []
    assert queue.statistics(6.9).delayed == 1
    queue.tick(7.0)
    assert delivered(queue) == [("b", range(1))]


def test_a_delay_that_ends_when_the_lease_would_have_is_a_delay() -> None:
    queue = queue_with(1, 1)
    receive(queue, "r", 2)
    queue.negative_acknowledge("r", [(0, 1)], 10.0, 0.0)
    queue.tick(10.0)
    statistics = queue.statistics(10.0)
    assert (statistics.ready, statistics.in_flight, statistics.delayed) == (2, 0, 0)


def test_extending_moves_the_deadline_of_what_it_names_only() -> None:
    queue = queue_with(4)
    receive(queue, "r", 4)
    queue.extend("r", [(1, 2)], 30.0, 5.0)
    queue.tick(10.0)
    assert queue.statistics(10.0).ready == 2
    queue.tick(34.9)
    assert queue.statistics(34.9).in_flight == 2
    queue.tick(35.0)
    assert queue.statistics(35.0).ready == 4


def test_what_is_leased_without_a_deadline_comes_back_when_it_is_returned_or_its_receiver_leaves() -> None:
    queue = queue_with(3)
    queue.attach_receiver("holds", NO_DEADLINE)
    receive(queue, "holds", 3, now=1.0)
    # No timer, and no entry of a heap that one would be set for.
    assert queue.next_deadline() is None
    assert len(queue.leases.deadlines) == 0
    queue.tick(1e9)
    assert queue.statistics(1e9).in_flight == 3
    queue.negative_acknowledge("holds", [(1, 1)], 0.0, 1e9)
    queue.acknowledge("holds", [(0, 1)])
    assert queue.statistics(1e9).ready == 1
    queue.detach("holds", 1e9)
    assert receive(queue, "r", 10, now=1e9) == [range(1, 3)]


def test_an_extension_gives_no_deadline_to_who_has_none_and_is_checked_all_the_same() -> None:
    queue = queue_with(1)
    queue.attach_receiver("holds", NO_DEADLINE)
    receive(queue, "holds", 1)
    queue.extend("holds", [(0, 1)], 1.0, 0.0)
    assert queue.next_deadline() is None
    with pytest.raises(UnknownAcknowledgementError):
        queue.extend("holds", [(1, 1)], 1.0, 0.0)


def test_who_has_no_deadline_has_none_when_the_queue_is_altered() -> None:
    queue = queue_with(1)
    queue.attach_receiver("holds", NO_DEADLINE)
    queue.execute(AlterQueue(replace(queue.settings, visibility_timeout=1.0)), 0.0, 0)
    receive(queue, "holds", 1)
    assert queue.next_deadline() is None


def test_it_is_told_for_how_long_a_receiver_has_held_the_oldest_of_what_it_holds() -> None:
    queue = queue_with(2, 2)
    queue.attach_receiver("holds", NO_DEADLINE)
    receive(queue, "holds", 2, now=1.0)
    receive(queue, "holds", 2, now=4.0)
    assert queue.statistics(5.5).held_ms == 4500
    # What is left of a batch has been held since then too.
    queue.acknowledge("holds", [(0, 1)])
    assert queue.statistics(5.5).held_ms == 4500
    queue.acknowledge("holds", [(1, 1)])
    assert queue.statistics(5.5).held_ms == 1500
    queue.acknowledge("holds", [(2, 2)])
    assert queue.statistics(5.5).held_ms == 0


def test_extending_can_also_shorten() -> None:
    queue = queue_with(1)
    receive(queue, "r", 1)
    queue.extend("r", [(0, 1)], 1.0, 5.0)
    assert queue.next_deadline() == 6.0


def test_extending_what_has_expired_is_too_late_and_no_error() -> None:
    queue = queue_with(1)
    receive(queue, "r", 1)
    queue.tick(10.0)
    queue.extend("r", [(0, 1)], 5.0, 10.0)
    assert queue.statistics(10.0).ready == 1


@pytest.mark.parametrize("seconds", [-1.0, MAX_VISIBILITY_SECONDS + 1])
def test_delays_and_extensions_out_of_their_limits_are_refused(seconds: float) -> None:
    queue = queue_with(1)
    receive(queue, "r", 1)
    with pytest.raises(InvalidRequestError):
        queue.extend("r", [(0, 1)], seconds, 0.0)
    with pytest.raises(InvalidRequestError):
        queue.negative_acknowledge("r", [(0, 1)], seconds, 0.0)
    assert queue.statistics(0.0).in_flight == 1


def test_a_receiver_that_detaches_gives_everything_back_at_once_in_its_old_place() -> None:
    queue = queue_with(4, 4, receivers="ab")
    receive(queue, "a", 6)
    queue.acknowledge("a", [(1, 1)])
    queue.receive("b", 100, LARGE, 0.0)
    assert delivered(queue) == [("b", range(6, 8))]
    queue.detach("a", 0.0)
    effects = queue.take_effects()
    assert [(e.first, len(e.batch)) for e in effects if isinstance(e, Deliver)] == [(0, 1), (2, 2), (4, 2)]
    assert all(e.possibly_replayed and e.delivery_count == 2 for e in effects if isinstance(e, Deliver))
    queue.detach("a", 0.0)
    assert queue.take_effects() == []


def test_pieces_that_come_back_one_by_one_are_delivered_as_one() -> None:
    queue = queue_with(8, receivers="ab")
    receive(queue, "a", 8)
    for number in (3, 1, 2, 6, 7, 0, 5, 4):
        queue.negative_acknowledge("a", [(number, 1)], 0.0, 0.0)
    assert receive(queue, "b", 100) == [range(8)]


# --- acknowledgement


def test_an_acknowledgement_may_name_any_part_of_what_is_held() -> None:
    queue = queue_with(5, 5)
    receive(queue, "r", 10)
    queue.acknowledge("r", [(7, 1), (3, 4), (0, 1)])
    assert queue.statistics(0.0).in_flight == 4
    queue.tick(10.0)
    assert receive(queue, "r", 10, now=10.0) == [range(1, 3), range(8, 10)]


@pytest.mark.parametrize(
    "pairs",
    [[(0, 1)], [(2, 3)], [(4, 1)], [(3, 1), (3, 1), (0, 1)], [(2, 2), (3, 2)], [(100, 1)], [(0, 2**63)]],
    ids=["acknowledged", "reaches beyond", "not delivered", "twice", "overlapping", "unknown", "huge"],
)
def test_acknowledging_what_is_not_held_is_refused_and_changes_nothing(pairs: list[tuple[int, int]]) -> None:
    queue = queue_with(5)
    receive(queue, "r", 4)
    queue.acknowledge("r", [(0, 1)])
    before = queue.statistics(0.0)
    commands: tuple[Callable[[], None], ...] = (
        lambda: queue.acknowledge("r", pairs),
        lambda: queue.negative_acknowledge("r", pairs, 0.0, 0.0),
        lambda: queue.extend("r", pairs, 1.0, 0.0),
    )
    for command in commands:
        with pytest.raises(UnknownAcknowledgementError) as caught:
            command()
        assert caught.value.code == "unknown-acknowledgement"
    assert queue.statistics(0.0) == before


@pytest.mark.parametrize("pairs", [[(3, 1), (3, 1)], [(2, 2), (3, 1)], [(1, 3), (2, 1)]])
def test_a_message_is_answered_once_in_a_frame_and_may_be_extended_as_often_as_one_likes(
    pairs: list[tuple[int, int]],
) -> None:
    """To ask for time is no answer: a client that asks again before the first one has left breaks no rule."""
    queue = queue_with(5)
    receive(queue, "r", 4)
    queue.extend("r", pairs, 50.0, 5.0)
    assert queue.statistics(5.0).in_flight == 4
    queue.tick(10.0)
    named = {number for first, count in pairs for number in range(first, first + count)}
    assert queue.statistics(10.0).in_flight == len(named)
    assert queue.next_deadline() == 55.0
    with pytest.raises(UnknownAcknowledgementError):
        queue.acknowledge("r", pairs)
    queue.tick(55.0)
    assert queue.statistics(55.0).in_flight == 0


@pytest.mark.parametrize("pairs", [[(-1, 1)], [(0, 0)], [(1, -1)]])
def test_a_range_of_no_messages_is_refused(pairs: list[tuple[int, int]]) -> None:
    queue = queue_with(5)
    receive(queue, "r", 4)
    with pytest.raises(InvalidRequestError):
        queue.acknowledge("r", pairs)


def test_a_message_cannot_be_acknowledged_on_another_connection() -> None:
    queue = queue_with(1, receivers="ab")
    receive(queue, "a", 1)
    with pytest.raises(UnknownAcknowledgementError):
        queue.acknowledge("b", [(0, 1)])


def test_a_late_acknowledgement_removes_what_nobody_holds() -> None:
    queue = queue_with(3, receivers="ab")
    receive(queue, "a", 3)
    queue.tick(10.0)
    assert receive(queue, "b", 1, now=10.0) == [range(1)]
    queue.acknowledge("a", [(0, 3)])
    statistics = queue.statistics(10.0)
    assert (statistics.in_flight, statistics.ready, statistics.stored_messages) == (1, 0, 1)
    queue.acknowledge("b", [(0, 1)])
    assert queue.log.stored_messages == 0


def test_a_late_acknowledgement_counts_once() -> None:
    queue = queue_with(3)
    receive(queue, "r", 3)
    queue.tick(10.0)
    queue.acknowledge("r", [(0, 2)])
    with pytest.raises(UnknownAcknowledgementError):
        queue.acknowledge("r", [(1, 1)])
    assert queue.statistics(10.0).ready == 1


def test_a_late_acknowledgement_removes_what_is_delayed() -> None:
    queue = queue_with(2, receivers="ab")
    receive(queue, "a", 2)
    queue.tick(10.0)
    receive(queue, "b", 2, now=10.0)
    queue.negative_acknowledge("b", [(0, 2)], 60.0, 10.0)
    queue.acknowledge("a", [(0, 1)])
    assert queue.statistics(10.0).delayed == 1
    assert queue.next_deadline() == 70.0


def test_a_message_delivered_again_to_the_same_receiver_is_answered_as_often_as_it_was_delivered() -> None:
    """The late answer may be under way when the message comes again: no client could help answering twice."""
    queue = queue_with(1)
    receive(queue, "r", 1)
    queue.tick(10.0)
    receive(queue, "r", 1, now=10.0)
    queue.acknowledge("r", [(0, 1)])
    assert queue.log.stored_messages == 0
    queue.acknowledge("r", [(0, 1)])
    with pytest.raises(UnknownAcknowledgementError):
        queue.acknowledge("r", [(0, 1)])


def test_both_answers_may_come_in_one_acknowledgement() -> None:
    queue = queue_with(1)
    receive(queue, "r", 1)
    queue.tick(10.0)
    receive(queue, "r", 1, now=10.0)
    queue.acknowledge("r", [(0, 1), (0, 1)])
    assert queue.log.stored_messages == 0
    with pytest.raises(UnknownAcknowledgementError):
        queue.acknowledge("r", [(0, 1)])


def test_both_answers_may_be_returns_or_extensions_of_one_frame() -> None:
    queue = queue_with(1)
    receive(queue, "r", 1)
    queue.tick(10.0)
    receive(queue, "r", 1, now=10.0)
    queue.extend("r", [(0, 1), (0, 1)], 50.0, 10.0)
    assert queue.next_deadline() == 60.0
    queue.negative_acknowledge("r", [(0, 1), (0, 1)], 0.0, 10.0)
    assert queue.statistics(10.0).ready == 1
    with pytest.raises(UnknownAcknowledgementError):
        queue.negative_acknowledge("r", [(0, 1)], 0.0, 10.0)


def test_a_frame_names_each_message_as_often_as_it_was_delivered_at_most() -> None:
    """Each of them by itself: that another message came twice is no reason to name this one twice."""
    queue = queue_with(4)
    receive(queue, "r", 4)
    queue.tick(10.0)
    assert receive(queue, "r", 3, now=10.0) == [range(3)]
    queue.tick(20.0)
    assert receive(queue, "r", 2, now=20.0) == [range(2)]
    before = queue.statistics(20.0)
    # Delivered 3, 3, 2 and 1 times.
    for pairs in ([(0, 4), (0, 4)], [(2, 1)] * 3, [(0, 2)] * 4, [(0, 3), (0, 3), (1, 2)]):
        for refused in (
            lambda: queue.acknowledge("r", pairs),  # noqa: B023 - called at once
            lambda: queue.negative_acknowledge("r", pairs, 0.0, 20.0),  # noqa: B023 - called at once
        ):
            with pytest.raises(UnknownAcknowledgementError):
                refused()
    assert queue.statistics(20.0) == before
    queue.acknowledge("r", [(0, 4), (1, 2), (0, 2), (0, 1)])
    assert queue.log.stored_messages == 0
    for number in range(4):
        with pytest.raises(UnknownAcknowledgementError):
            queue.acknowledge("r", [(number, 1)])


def test_returning_what_has_expired_gives_it_up() -> None:
    queue = queue_with(1)
    receive(queue, "r", 1)
    queue.tick(10.0)
    queue.negative_acknowledge("r", [(0, 1)], 60.0, 10.0)
    assert queue.statistics(10.0).ready == 1, "it was ready already, and nobody's to delay"
    with pytest.raises(UnknownAcknowledgementError):
        queue.acknowledge("r", [(0, 1)])


def test_a_receiver_that_lets_too_much_expire_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "MAX_EXPIRED_RANGES", 3)
    queue = queue_with(20)
    receive(queue, "r", 20)
    for number in range(0, 20, 2):
        queue.acknowledge("r", [(number, 1)])
    queue.tick(10.0)
    (refusal,) = (effect for effect in queue.take_effects() if isinstance(effect, Refuse))
    assert (refusal.connection, refusal.code, refusal.close) == ("r", "limit-exceeded", True)
    assert "MAX_EXPIRED_RANGES" in refusal.text
    assert queue.statistics(10.0).connections[1:] == ()
    assert queue.statistics(10.0).ready == 10


def test_many_expired_leases_are_handled_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "TIMER_BUDGET", 2)
    queue = queue_with(1, 1, 1)
    receive(queue, "r", 3)
    queue.cancel_demand("r")
    queue.tick(50.0)
    assert queue.statistics(50.0).ready == 2
    assert queue.next_deadline() == 10.0
    queue.tick(50.0)
    assert queue.statistics(50.0).ready == 3
