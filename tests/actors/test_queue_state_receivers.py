"""Receivers of the queue's state: demand, acknowledgement, and the queue itself."""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.errors import InvalidRequestError
from actors.queue.state.entries import MemoryEntryTable
from actors.queue.vocabulary.budgets import DISPATCH_BUDGET
from tests.actors.driven import Deliver, QueueState
from tests.actors.receiving import LARGE, delivered, queue_with, receive, store

# --- demand


def test_what_several_held_that_leave_together_is_delivered_in_order() -> None:
    queue = queue_with(4, receivers="abw")
    for taker, number in ("a", 0), ("b", 1), ("b", 2), ("a", 3):
        assert receive(queue, taker, 1) == [range(number, number + 1)]
    queue.receive("w", LARGE, LARGE, 0.0)
    queue.detach("b", 0.0, together=True)
    queue.detach("a", 0.0, together=True)
    assert delivered(queue) == []
    assert queue.next_deadline() == 0.0
    queue.tick(0.0)
    assert [number for _, numbers in delivered(queue) for number in numbers] == [0, 1, 2, 3]


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
    queue = queue_with(*[1] * (DISPATCH_BUDGET + 10))
    assert len(receive(queue, "r", LARGE, 5.0)) == DISPATCH_BUDGET
    assert queue.next_deadline() == 5.0
    store(queue, 1)
    assert delivered(queue) == [], "what comes meanwhile waits for its turn"
    queue.tick(5.0)
    assert [numbers.start for _, numbers in delivered(queue)] == list(range(DISPATCH_BUDGET, DISPATCH_BUDGET + 11))
    assert queue.next_deadline() == 15.0


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
