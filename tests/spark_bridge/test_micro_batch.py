"""How a micro-batch is made up of what several brokers have, on ledgers that are played by the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_bridge.ledger import Order
from spark_bridge.ledgers import Ledgers
from spark_bridge.micro_batch import MAX_ROUNDS, MicroBatchPlan, shares
from spark_bridge.options import SourceOptions
from tests.examples_tried import tried
from transport.clients.subscription_client import Reservation, SubscriptionState

DEADLINE = 30.0
PLENTY = 10**9
FOREVER_MS = int(DEADLINE * 1000)


class PlayedBroker:
    """A queue of ``ready`` messages of ``size`` bytes each, with one ledger; stands in for the client of it."""

    def __init__(self, ready: int = 0, size: int = 1) -> None:
        self.ready = ready
        self.size = size
        self.high = 0
        self.committed = 0
        self.full = False
        self.tells_bytes = True
        self.asked: list[tuple[int, int]] = []
        self.waits = threading.Event()
        """Set when a reservation waits for messages."""
        self.arrived = threading.Event()
        """To be set for one that waits."""

    def open(self) -> SubscriptionState:
        return SubscriptionState(1, self.committed, self.high, self.high + self.ready, b"12345678")

    def reserve(
        self, start: int, messages: int, size: int, *, wait_ms: int = 0, below: int | None = None
    ) -> Reservation:
        self.asked.append((messages, size))
        if self.high == start and not self.ready and wait_ms:
            self.waits.set()
            assert self.arrived.wait(DEADLINE)
        took = 0
        if self.high == start:
            took = min(self.ready, messages, max(1, size // self.size))
            if below is not None:
                took = min(took, below - self.high)
            self.ready -= took
            self.high += took
        facts: dict[str, Any] = {"backlog": self.ready, "full": self.full}
        if self.tells_bytes:
            facts["reserved_bytes"] = took * self.size if took else None
        return Reservation(min(self.high, start + messages), facts)

    def commit(self, position: int) -> int:
        self.committed = max(self.committed, position)
        return self.committed

    def beat(self) -> float:
        return DEADLINE

    def close(self) -> None:
        self.arrived.set()


Play = Callable[..., "Stage"]


class Stage:
    """A query over played brokers."""

    def __init__(self, brokers: dict[str, PlayedBroker], **options: Any) -> None:
        self.brokers = brokers
        self.ledgers = Ledgers(SourceOptions(queue="q", subscription="s", brokers=tuple(brokers), **options))
        self.at = {broker: played.high for broker, played in brokers.items()}

    def plan(self, rows: int = PLENTY, size: int = PLENTY, wait_ms: int = 0, **more: Any) -> dict[str, int]:
        """The rows that the next batch has of each broker."""
        before = self.at
        self.at = MicroBatchPlan(self.ledgers, before, rows=rows, size=size, **more).run(wait_ms)
        return {broker: self.at[broker] - before[broker] for broker in before}

    def ledgers_are_idle(self) -> None:
        """Waits for what a plan has asked and not waited for: a ledger that is busy does what it owes with its next request."""
        for ledger in self.ledgers:
            if ledger.future is not None:
                ledger.future.exception(DEADLINE)
                self.ledgers.collect(ledger)


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    stages: list[Stage] = []

    def make(brokers: dict[str, PlayedBroker], **options: Any) -> Stage:
        monkeypatch.setattr("spark_bridge.ledger.connect", lambda _options, broker, **_named: brokers[broker])
        stages.append(Stage(brokers, **options))
        return stages[-1]

    yield make
    for stage in stages:
        stage.ledgers.close()


@given(st.integers(1, 10**9), st.integers(1, 64))
def test_shares_are_even_and_only_where_there_is_less_than_one_for_each_more_than_there_is(
    total: int, takers: int
) -> None:
    parts = shares(total, takers)
    assert len(parts) == takers
    assert max(parts) - min(parts) <= 1
    assert sum(parts) == max(total, takers)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=tried(60))
@given(st.lists(st.integers(0, 40), min_size=1, max_size=MAX_ROUNDS), st.integers(1, 100), st.booleans())
def test_a_batch_is_as_full_as_it_can_be_and_never_fuller(
    play: Play, ready: list[int], rows: int, tells_bytes: bool
) -> None:
    brokers = {f"b{index}:1": PlayedBroker(count) for index, count in enumerate(ready)}
    for played in brokers.values():
        played.tells_bytes = tells_bytes
    stage = play(brokers)
    left, turn = sum(ready), 0
    while left:
        got = stage.plan(rows, turn=turn)
        assert sum(got.values()) <= rows
        if tells_bytes:
            assert sum(got.values()) == min(rows, left)
        assert sum(got.values()) > 0
        left -= sum(got.values())
        turn += 1
    assert stage.at == {f"b{index}:1": count for index, count in enumerate(ready)}
    assert sum(stage.plan(rows).values()) == 0


def test_brokers_with_enough_share_a_batch_evenly(play: Play) -> None:
    stage = play({"a:1": PlayedBroker(100), "b:1": PlayedBroker(100), "c:1": PlayedBroker(100)})
    assert stage.plan(rows=30) == {"a:1": 10, "b:1": 10, "c:1": 10}


def test_what_one_does_not_use_goes_to_the_others(play: Play) -> None:
    stage = play({"a:1": PlayedBroker(2), "b:1": PlayedBroker(100), "c:1": PlayedBroker(0)})
    assert stage.plan(rows=30) == {"a:1": 2, "b:1": 28, "c:1": 0}


@pytest.mark.parametrize("tells_bytes", [True, False])
def test_a_broker_that_has_everything_fills_the_bytes_of_a_batch(play: Play, tells_bytes: bool) -> None:
    brokers = {"a:1": PlayedBroker(0), "b:1": PlayedBroker(1000, size=10)}
    brokers["b:1"].tells_bytes = tells_bytes
    assert play(brokers).plan(size=1000) == {"a:1": 0, "b:1": 100}


def test_bytes_that_a_broker_did_not_use_go_to_the_others_where_it_says_so(play: Play) -> None:
    brokers = {"a:1": PlayedBroker(10, size=10), "b:1": PlayedBroker(1000, size=10)}
    assert play(brokers).plan(size=1000) == {"a:1": 10, "b:1": 90}


def test_fewer_rows_than_brokers_go_to_them_in_turn(play: Play) -> None:
    stage = play({"a:1": PlayedBroker(9), "b:1": PlayedBroker(9), "c:1": PlayedBroker(9)})
    got = [stage.plan(rows=1, turn=turn) for turn in range(6)]
    assert all(sum(rows.values()) == 1 for rows in got)
    assert stage.at == {"a:1": 2, "b:1": 2, "c:1": 2}


def test_what_one_has_is_not_held_up_by_waiting_for_another(play: Play) -> None:
    silent, other = PlayedBroker(), PlayedBroker()
    stage = play({"a:1": silent, "b:1": other})
    got: list[dict[str, int]] = []
    planner = threading.Thread(target=lambda: got.append(stage.plan(rows=10, wait_ms=FOREVER_MS)))
    planner.start()
    assert silent.waits.wait(DEADLINE)
    assert other.waits.wait(DEADLINE)
    other.ready = 3
    other.arrived.set()
    planner.join(DEADLINE)
    assert got == [{"a:1": 0, "b:1": 3}]
    # It still waits there, and the next batch is planned without it, too.
    other.ready = 50
    assert stage.plan(rows=10, wait_ms=FOREVER_MS) == {"a:1": 0, "b:1": 10}
    silent.ready = 4
    silent.arrived.set()
    future = stage.ledgers["a:1"].future
    assert future is not None
    future.result(DEADLINE)
    assert stage.plan(rows=10, wait_ms=FOREVER_MS) == {"a:1": 4, "b:1": 6}


def test_what_an_earlier_request_brought_never_makes_a_batch_too_large(play: Play) -> None:
    silent, other = PlayedBroker(), PlayedBroker(1)
    stage = play({"a:1": silent, "b:1": other})
    stage.ledgers["a:1"].request(Order(0, 100, PLENTY, wait_ms=FOREVER_MS))
    assert silent.waits.wait(DEADLINE)
    silent.ready = 100
    silent.arrived.set()
    future = stage.ledgers["a:1"].future
    assert future is not None
    future.result(DEADLINE)
    assert stage.plan(rows=30) == {"a:1": 30, "b:1": 0}
    assert stage.plan(rows=30) == {"a:1": 29, "b:1": 1}


def test_only_what_was_there_at_the_mark_is_taken_and_nothing_of_a_broker_without_one(play: Play) -> None:
    stage = play({"a:1": PlayedBroker(10), "b:1": PlayedBroker(10), "c:1": PlayedBroker(10)})
    assert stage.plan(below={"a:1": 4, "b:1": 10}) == {"a:1": 4, "b:1": 10, "c:1": 0}
    assert stage.brokers["c:1"].asked == []


def test_a_queue_that_its_last_batch_fills_is_relieved_of_it_whatever_the_others_do(play: Play) -> None:
    filled, other = PlayedBroker(5), PlayedBroker(5)
    stage = play({"a:1": filled, "b:1": other})
    stage.plan()
    filled.full, other.ready = True, 1
    assert stage.plan() == {"a:1": 0, "b:1": 1}
    assert (filled.committed, other.committed) == (5, 0)


def test_an_acknowledgement_does_not_wait_for_a_broker_that_is_asked_for_messages(play: Play) -> None:
    silent, other = PlayedBroker(5), PlayedBroker(5)
    stage = play({"a:1": silent, "b:1": other})
    stage.plan()
    other.arrived.set()
    stage.ledgers_are_idle()
    stage.ledgers["a:1"].request(Order(5, 1, PLENTY, wait_ms=FOREVER_MS))
    assert silent.waits.wait(DEADLINE)
    for ledger in stage.ledgers:
        ledger.acknowledge(5)
    stage.ledgers.settle()
    assert other.committed == 5
    silent.arrived.set()
    other.ready = 1
    stage.plan(wait_ms=FOREVER_MS)
    stage.ledgers_are_idle()
    stage.ledgers.settle()
    assert silent.committed == 5
