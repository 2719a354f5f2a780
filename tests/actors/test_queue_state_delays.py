"""Delays in the queue's state, and its clocks."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import MessageBatch
from actors.errors import InvalidRequestError, QueueLimitError
from actors.limits import MAX_DELAY_SECONDS, MAX_TTL_SECONDS
from actors.queue.operations import receiving, sending
from actors.queue.state import log as log_module
from actors.queue.state.log import QueueLog
from actors.queue.structures.deadlines import CLOCK_TOLERANCE_US, MAX_CLOCK_CHANGES, Clocks
from actors.queue.vocabulary.events import MessagesAdded
from actors.queue.vocabulary.settings import (
    QueueSettings,
)
from tests.actors.driven import Confirm, Deliver
from tests.actors.ticking import HOUR, LARGE, NOON, US, Ticking, restarted

# --- delays


def test_a_delayed_batch_is_received_when_its_delay_is_over_and_not_before() -> None:
    q = Ticking()
    q.send(2, delay=5.0)
    q.send(1)
    q.queue.receive("r", 10, LARGE, 0.0)
    assert q.delivered() == [2]
    assert q.counts() == (0, 2, 0)
    assert q.queue.next_deadline() == 5.0
    q.at(4.999)
    assert q.delivered() == []
    q.at(5.0)
    assert q.delivered() == [0, 1]


def test_delayed_messages_take_their_old_place_when_their_delay_is_over() -> None:
    q = Ticking()
    q.send(1, delay=5.0)
    q.send(2)
    q.send(1, delay=2.0)
    q.at(6.0)
    assert q.receive() == [0, 1, 2, 3]


def test_a_delayed_message_is_delivered_for_the_first_time_and_not_as_a_replay() -> None:
    q = Ticking()
    q.send(1, delay=5.0)
    q.queue.receive("r", 1, LARGE, 0.0)
    q.at(5.0)
    (delivery,) = (effect for effect in q.queue.take_effects() if isinstance(effect, Deliver))
    assert (delivery.delivery_count, delivery.possibly_replayed) == (1, False)


def test_the_queue_says_the_delay_unless_the_sender_does() -> None:
    q = Ticking(QueueSettings(delay=7.0))
    q.send()
    q.send(delay=0.0)
    q.send(delay=2.0)
    assert q.receive() == [1]
    assert [event.delay_us for event in q.events if isinstance(event, MessagesAdded)] == [7 * US, 0, 2 * US]
    q.at(2.0)
    assert q.receive() == [2]
    q.at(7.0)
    assert q.receive() == [0]


def test_batches_with_different_delays_or_times_to_live_are_not_stored_as_one() -> None:
    q = Ticking()
    for number, (delay, ttl) in enumerate([(1.0, None), (1.0, None), (2.0, None), (2.0, 5.0), (0.0, 5.0)]):
        q.queue.accept("s", number, MessageBatch.from_payloads([b"%03d" % number]), delay, ttl)
    q.queue.store(0.0, NOON)
    added = [event for event in q.events if isinstance(event, MessagesAdded)]
    assert [(len(event.batch), event.delay_us // US, event.ttl_us) for event in added] == [
        (2, 1, None),
        (1, 2, None),
        (1, 2, 5 * US),
        (1, 0, 5 * US),
    ]
    assert q.receive() == [4]


@pytest.mark.parametrize(
    ("delay", "ttl"),
    [
        (-1.0, None),
        (MAX_DELAY_SECONDS + 1, None),
        (float("nan"), None),
        (None, -1.0),
        (None, MAX_TTL_SECONDS + 1),
        (None, float("nan")),
    ],
)
def test_a_delay_or_time_to_live_that_cannot_be_is_refused_and_changes_nothing(
    delay: float | None, ttl: float | None
) -> None:
    q = Ticking()
    before = q.queue.statistics(0.0)
    with pytest.raises(InvalidRequestError, match="is not"):
        q.send(delay=delay, ttl=ttl)
    assert q.queue.statistics(0.0) == before
    q.send()
    assert q.receive() == [0]


def test_a_delayed_send_beyond_the_limit_is_refused_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MAX_DELAYED", 2)
    q = Ticking()
    q.send(3, delay=5.0)
    q.send(3, delay=9.0)
    before = q.queue.statistics(0.0)
    with pytest.raises(QueueLimitError, match="MAX_DELAYED of 2"):
        q.send(delay=1.0)
    assert q.queue.statistics(0.0) == before
    q.send()
    assert q.receive() == [6]
    q.at(5.0)
    q.send(delay=1.0)
    assert q.counts() == (3, 4, 0), "there is room again when a delay is over"


def test_what_is_accepted_and_not_stored_counts_towards_the_limit_of_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MAX_DELAYED", 2)
    q = Ticking()
    for number in range(2):
        q.queue.accept("s", number, MessageBatch.from_payloads([b"x"]), 1.0 + number)
    with pytest.raises(QueueLimitError):
        q.queue.accept("s", 2, MessageBatch.from_payloads([b"x"]), 3.0)
    q.queue.store(0.0, NOON)
    assert q.counts() == (0, 2, 0)


def test_a_queue_that_rejects_rejects_a_delayed_send_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "MAX_DELAYED", 1)
    q = Ticking(QueueSettings(overflow="reject"))
    q.send(delay=5.0)
    q.send(delay=5.0)
    confirms = [effect for effect in q.queue.take_effects() if isinstance(effect, Confirm)]
    assert [(confirm.first, confirm.rejected is None) for confirm in confirms] == [(0, True), (None, False)]
    assert "MAX_DELAYED of 1" in str(confirms[1].rejected)


def test_returning_with_a_delay_beyond_the_limit_is_refused_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receiving, "MAX_DELAYED", 1)
    q = Ticking()
    q.send(3)
    q.receive()
    with pytest.raises(QueueLimitError, match="MAX_DELAYED"):
        q.queue.negative_acknowledge("r", [(0, 1), (2, 1)], 5.0, 0.0)
    assert q.queue.statistics(0.0).in_flight == 3
    q.queue.negative_acknowledge("r", [(0, 1), (2, 1)], 0.0, 0.0)
    assert q.counts() == (2, 0, 0)


@pytest.mark.parametrize("jump", [-5 * HOUR, 5 * HOUR])
def test_a_jump_of_the_time_of_day_changes_no_delay(jump: float) -> None:
    q = Ticking()
    q.send(1, delay=10.0)
    q.now = 1.0
    q.wall += round(jump * US)
    q.send(1, delay=10.0)
    q.at(9.999)
    assert q.receive() == []
    q.at(10.0)
    assert q.receive() == [0]
    q.at(11.0)
    assert q.receive() == [1]


def test_after_a_restart_the_rest_of_a_delay_is_waited_for() -> None:
    q = Ticking()
    q.send(1, delay=100.0)
    q.send(1, delay=30.0)
    q.send(1)
    again = restarted(q, NOON + 40 * US)
    assert again.counts() == (2, 1, 0)
    assert set(again.queue.log.delayed) == {0}
    assert again.drain() == [1, 2]
    again.at(59.9)
    assert again.drain() == []
    again.at(60.0)
    assert again.drain() == [0]


def test_a_time_of_day_that_went_back_makes_no_delay_longer_after_a_restart() -> None:
    q = Ticking()
    q.send(1, delay=100.0)
    q.send(1, delay=30.0)
    again = restarted(q, NOON - round(5 * HOUR) * US)
    assert again.counts() == (0, 2, 0)
    again.at(30.0)
    assert again.drain() == [1]
    again.at(100.0)
    assert again.drain() == [0]


def test_a_time_of_day_that_went_forward_ends_a_delay_over_a_restart() -> None:
    q = Ticking()
    q.send(1, delay=100.0)
    assert restarted(q, NOON + round(5 * HOUR) * US).receive() == [0]


def test_what_failed_in_its_place_goes_on_with_its_delays_whatever_the_time_of_day_did() -> None:
    q = Ticking()
    q.send(1, delay=100.0)
    q.now = 1.0
    q.wall += round(5 * HOUR) * US
    q.send(1, delay=100.0)
    q.queue.reset(2.0)
    q.attach()
    assert q.counts() == (0, 2, 0)
    q.at(100.0)
    assert q.receive() == [0]
    q.at(101.0)
    assert q.receive() == [1]


def test_a_message_delayed_again_by_a_clock_set_back_keeps_its_history() -> None:
    settings = QueueSettings(max_receives=5)
    q = Ticking(settings)
    q.send(3, delay=10.0)
    q.at(10.0)
    q.receive()
    q.queue.negative_acknowledge("r", [(1, 1)], 0.0, 10.0)
    again = restarted(q, NOON - 1000 * US)
    again.at(9.9)
    assert again.counts() == (0, 3, 0)
    again.queue.receive("r", 10, LARGE, 9.9)
    again.at(10.0)
    effects = [effect for effect in again.queue.take_effects() if isinstance(effect, Deliver)]
    assert [(effect.first, effect.delivery_count, effect.possibly_replayed) for effect in effects] == [
        (0, 1, True),
        (1, 2, True),
        (2, 1, True),
    ]


def test_delays_that_are_over_or_whose_batch_is_gone_are_forgotten() -> None:
    q = Ticking()
    q.send(1, delay=5.0)
    q.send(2, delay=50.0)
    assert set(q.queue.log.delayed) == {0, 1}
    q.at(5.0)
    assert set(q.queue.log.delayed) == {1}
    q.queue.purge()
    assert q.queue.log.delayed == {}
    assert q.queue.next_deadline() is None


def test_a_replay_remembers_few_of_the_delays_that_were_over_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "MAX_DELAYED", 5)
    log = QueueLog()
    batch = MessageBatch.from_payloads([b"x"])
    for number in range(100):
        log.apply(MessagesAdded(number, batch, number * US, (), 3 * US))
        assert len(log.delayed) <= 10
    assert {97, 98, 99} <= set(log.delayed)
    for number in range(100, 200):
        log.apply(MessagesAdded(number, batch, 0, (), 1000 * US))
        assert len(log.delayed) <= 10
    assert {197, 198, 199} <= set(log.delayed)


# --- the clocks


def test_clocks_that_are_set_again_and_again_are_remembered_within_a_bound() -> None:
    clocks = Clocks(0.0, 0, before=0)
    for number in range(1, 1000):
        clocks.mark(number, float(number), number * number * US, oldest=0)
        assert clocks.instant_us(number, number * number * US) == number * US
    assert len(clocks._firsts) == MAX_CLOCK_CHANGES


def test_clocks_forget_what_concerns_no_stored_message() -> None:
    clocks = Clocks(0.0, 0, before=0)
    for number in range(10):
        clocks.mark(5, 0.0, number * 7 * US, oldest=0)
    assert len(clocks._firsts) == 2
    for number in range(1, 10):
        clocks.mark(number * 10, 0.0, number * US, oldest=number * 10 - 1)
    assert len(clocks._firsts) == 2


@given(
    changes=st.lists(
        st.tuples(st.floats(0.0, 1e6), st.integers(-(10**13), 10**13), st.integers(1, 3)), min_size=1, max_size=40
    )
)
def test_a_message_is_as_old_as_it_is_however_the_time_of_day_is_set(changes: list[tuple[float, int, int]]) -> None:
    clocks = Clocks(0.0, NOON, before=0)
    now, first = 0.0, 0
    stored: list[tuple[int, float, int]] = []
    for elapsed, jump, count in changes:
        now += elapsed
        wall = NOON + round(now * US) + jump
        clocks.mark(first, now, wall, oldest=0)
        stored.append((first, now, wall))
        first += count
    for sequence, instant, wall in stored:
        assert abs(clocks.instant_us(sequence, wall) - round(instant * US)) <= CLOCK_TOLERANCE_US


def python_calls(run: Callable[[], None]) -> int:
    calls = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls


def calls_for(count: int) -> int:
    q = Ticking()
    batch = MessageBatch.from_payloads([b"x"] * count)

    def run() -> None:
        q.queue.send("s", 0, batch, 0.0, NOON, 1.0, 2.0)
        q.queue.tick(1.0)
        q.queue.next_deadline()
        q.queue.tick(2.0)
        q.queue.next_deadline()

    calls = python_calls(run)
    assert q.queue.log.total_expired == count
    return calls


def test_a_delay_and_an_end_cost_a_batch_the_same_however_many_messages_it_has() -> None:
    assert calls_for(10) == calls_for(10_000)
