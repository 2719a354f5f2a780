"""Delivery, leases and acknowledgement in a `QueueState`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.errors import InvalidRequestError, UnknownAcknowledgementError
from actors.limits import MAX_VISIBILITY_SECONDS
from actors.queue.operations import receiving
from actors.queue.state.entries import MemoryEntryTable
from actors.queue.vocabulary import settings as limits
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.driven import Deliver, QueueState, Refuse

LARGE = 10**9


def queue_with(*sizes: int, receivers: str = "r") -> QueueState:
    """A queue that stores batches of these sizes, and has receivers without demand."""
    queue = QueueState("q", 0, QueueSettings(visibility_timeout=10.0))
    queue.attach_sender("s", None)
    queue.request_capacity("s", LARGE, LARGE)
    for name in receivers:
        queue.attach_receiver(name)
    for size in sizes:
        store(queue, size)
    queue.take_effects()
    return queue


def store(queue: QueueState, count: int, now: float = 0.0) -> None:
    first = queue.log.next_sequence
    queue.send("s", first, MessageBatch.from_payloads([b"%03d" % n for n in range(first, first + count)]), now, 0)


def delivered(queue: QueueState) -> list[tuple[object, range]]:
    """Who got what since the last call, each payload being its number."""
    result: list[tuple[object, range]] = []
    for effect in queue.take_effects():
        if isinstance(effect, Deliver):
            numbers = range(effect.first, effect.first + len(effect.batch))
            assert effect.batch.payloads.tolist() == [b"%03d" % n for n in numbers]
            result.append((effect.receiver, numbers))
    return result


def receive(queue: QueueState, name: str, count: int, now: float = 0.0) -> list[range]:
    queue.receive(name, count, LARGE, now)
    return [numbers for _, numbers in delivered(queue)]


# --- demand


def test_a_receiver_never_gets_more_than_its_demand() -> None:
    queue = queue_with(10)
    assert receive(queue, "r", 3) == [range(3)]
    store(queue, 5)
    assert delivered(queue) == []


def test_demand_cumulates() -> None:
    queue = queue_with()
    for _ in range(4):
        receive(queue, "r", 2)
    store(queue, 10)
    assert delivered(queue) == [("r", range(8))]


def test_messages_go_out_the_moment_they_come() -> None:
    queue = queue_with()
    receive(queue, "r", 100)
    store(queue, 3)
    assert delivered(queue) == [("r", range(3))]


def test_a_delivery_is_a_part_of_one_stored_batch() -> None:
    queue = queue_with(3, 3)
    assert receive(queue, "r", 5) == [range(3), range(3, 5)]


def test_ready_messages_are_shared_in_proportion_to_demand() -> None:
    queue = queue_with(receivers="abc")
    queue.receive("a", 10, LARGE, 0.0)
    queue.receive("b", 20, LARGE, 0.0)
    queue.receive("c", 70, LARGE, 0.0)
    store(queue, 50)
    shares = Counter({name: len(numbers) for name, numbers in delivered(queue)})
    assert shares == {"a": 5, "b": 10, "c": 35}


def test_nobody_is_always_first() -> None:
    queue = queue_with(receivers="abc")
    for name in "abc":
        queue.receive(name, 100, LARGE, 0.0)
    got: Counter[object] = Counter()
    for _ in range(30):
        store(queue, 1)
        got.update(name for name, _ in delivered(queue))
    assert got == {"a": 10, "b": 10, "c": 10}


def test_asking_for_more_does_not_cost_a_waiting_receiver_its_turn() -> None:
    queue = queue_with(receivers="ab")
    queue.receive("a", 1, LARGE, 0.0)
    queue.receive("b", 1, LARGE, 0.0)
    queue.receive("a", 5, LARGE, 0.0)
    store(queue, 1)
    assert delivered(queue) == [("a", range(1))]


def test_byte_demand_lets_one_message_lead_beyond_it_and_then_holds() -> None:
    queue = queue_with(10)  # each message 3 bytes and an offset of 4
    queue.receive("r", 10, 20, 0.0)
    assert delivered(queue) == [("r", range(3))], "4 + 3 * 7 = 25 bytes"
    queue.receive("r", 0, 5, 0.0)
    assert delivered(queue) == [], "what led beyond it is made good first"
    queue.receive("r", 0, 1, 0.0)
    assert delivered(queue) == [("r", range(3, 4))]


def test_a_message_larger_than_the_byte_demand_left_is_delivered_alone() -> None:
    queue = queue_with()
    queue.send("s", 0, MessageBatch.from_payloads([b"x" * 5000] * 3), 0.0, 0)
    queue.receive("r", 3, 1, 0.0)
    (delivery,) = (effect for effect in queue.take_effects() if isinstance(effect, Deliver))
    assert (delivery.first, len(delivery.batch)) == (0, 1)


def test_messages_without_bytes_and_bytes_without_messages_are_no_demand() -> None:
    queue = queue_with(3, receivers="ab")
    queue.receive("a", 3, 0, 0.0)
    queue.receive("b", 0, 100, 0.0)
    assert delivered(queue) == []
    assert queue.statistics(0.0).demand_waiting == 0


def test_cancelled_demand_is_gone_and_what_is_held_stays() -> None:
    queue = queue_with(2)
    receive(queue, "r", 10)
    queue.cancel_demand("r")
    store(queue, 2)
    assert delivered(queue) == []
    queue.acknowledge("r", [(0, 2)])
    assert queue.log.stored_messages == 2


def test_deliveries_beyond_the_budget_go_on_with_the_next_tick() -> None:
    queue = queue_with(*[1] * (limits.DISPATCH_BUDGET + 10))
    assert len(receive(queue, "r", LARGE, 5.0)) == limits.DISPATCH_BUDGET
    assert queue.next_deadline() == 5.0
    store(queue, 1)
    assert delivered(queue) == [], "what comes meanwhile waits for its turn"
    queue.tick(5.0)
    assert [numbers.start for _, numbers in delivered(queue)] == list(
        range(limits.DISPATCH_BUDGET, limits.DISPATCH_BUDGET + 11)
    )
    assert queue.next_deadline() == 15.0


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


# --- the queue


def test_purging_drops_what_nobody_holds() -> None:
    queue = queue_with(5, 5, 5)
    receive(queue, "r", 7)
    queue.negative_acknowledge("r", [(0, 1)], 60.0, 0.0)
    queue.negative_acknowledge("r", [(2, 1)], 0.0, 0.0)
    assert queue.purge() == 10
    statistics = queue.statistics(0.0)
    assert (statistics.ready, statistics.delayed, statistics.in_flight) == (0, 0, 5)
    assert (statistics.total_purged, statistics.total_acknowledged) == (10, 0)
    queue.acknowledge("r", [(1, 1), (3, 4)])
    assert queue.log.stored_messages == 0
    assert queue.purge() == 0


def memory_table(queue: QueueState) -> MemoryEntryTable:
    table = queue.log.table
    assert isinstance(table, MemoryEntryTable)
    return table


def test_sequence_numbers_never_go_back() -> None:
    queue = queue_with(5)
    queue.purge()
    store(queue, 1)
    assert queue.log.next_sequence == 6


def test_when_everything_is_acknowledged_nothing_is_kept() -> None:
    queue = queue_with(*[3] * 300)
    receive(queue, "r", 300)
    while queue.next_deadline() == 0.0:
        queue.tick(0.0)
    queue.receive("r", LARGE, LARGE, 0.0)
    for _ in range(5):
        queue.tick(0.0)
    queue.negative_acknowledge("r", [(0, 30)], 1.0, 0.0)
    queue.tick(1.0)
    for number in range(900):
        queue.acknowledge("r", [(number, 1)])
    core = queue
    table = memory_table(queue)
    assert (len(table), len(table._firsts)) == (0, 0)
    assert (len(core.leases.deadlines._heap), len(core.ready.delayed.due._heap)) == (0, 0)
    assert (len(core.receivers["r"].held), core.ready.first()) == (0, None)
    assert queue.next_deadline() is None
    assert queue.log.stored_bytes == 0


def test_dead_places_never_outnumber_live_ones() -> None:
    queue = queue_with(*[1] * 1000)
    for _ in range(8):
        queue.receive("r", 200, LARGE, 0.0)
        queue.tick(0.0)
    for number in range(900):
        queue.acknowledge("r", [(number, 1)])
    assert len(queue.leases.deadlines._heap) <= 200
    table = memory_table(queue)
    assert len(table._firsts) <= 200
    entry = table.at(950)
    assert entry is not None
    assert (entry.first, entry.stop) == (950, 951)
    assert table.at(5) is None


def test_the_oldest_age_is_that_of_the_next_message() -> None:
    queue = queue_with()
    queue.send("s", 0, MessageBatch.from_payloads([b"000"]), 100.0, 1_000_000_000)
    queue.send("s", 1, MessageBatch.from_payloads([b"001"]), 102.0, 1_002_000_000)
    assert queue.statistics(103.5).oldest_ms == 3500
    receive(queue, "r", 1, now=103.5)
    assert queue.statistics(103.5).oldest_ms == 1500


def test_a_restart_from_the_state_makes_everything_ready_and_possibly_replayed() -> None:
    queue = queue_with(4, receivers="ab")
    receive(queue, "a", 3)
    queue.acknowledge("a", [(1, 1)])
    assert queue.reset(1.0) == ["s", "a", "b"]
    queue.attach_receiver("c")
    queue.receive("c", 10, LARGE, 1.0)
    effects = queue.take_effects()
    assert [(e.first, len(e.batch), e.possibly_replayed) for e in effects if isinstance(e, Deliver)] == [
        (0, 1, True),
        (2, 2, True),
    ]
    with pytest.raises(InvalidRequestError):
        queue.acknowledge("a", [(0, 1)])


def python_calls(count: int) -> int:
    """How many Python functions it takes to send, deliver, return, deliver again and acknowledge a batch."""
    queue = queue_with()
    batch = MessageBatch.from_payloads([b"x" * 10] * count)
    calls = 0

    def profile(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(profile)
    try:
        queue.receive("r", 3 * count, LARGE, 0.0)
        queue.send("s", 0, batch, 0.0, 0)
        queue.negative_acknowledge("r", [(0, count)], 0.0, 0.0)
        queue.acknowledge("r", [(0, count)])
        queue.take_effects()
        queue.next_deadline()
    finally:
        sys.setprofile(None)
    assert queue.log.stored_messages == 0
    return calls


def test_the_cost_is_per_batch_and_not_per_message() -> None:
    assert python_calls(10) == python_calls(10_000)
