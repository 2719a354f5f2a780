"""Delayed messages and times to live in a `QueueState`."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.batch import MessageBatch
from actors.errors import InvalidRequestError, QueueLimitError
from actors.limits import MAX_TTL_SECONDS, MAX_VISIBILITY_SECONDS
from actors.queue.operations import dispatch, receiving, sending
from actors.queue.state import log as log_module
from actors.queue.state.entries import Entry, MemoryEntryTable
from actors.queue.state.log import QueueLog
from actors.queue.structures.deadlines import CLOCK_TOLERANCE_US, MAX_CLOCK_CHANGES, Clocks
from actors.queue.vocabulary.events import Event, MessagesAdded, MessagesExpired
from actors.queue.vocabulary.replies import DeadLetter
from actors.queue.vocabulary.settings import (
    ENTRY_OVERHEAD_BYTES,
    QueueSettings,
)
from tests.actors.driven import Confirm, Deliver, QueueState, Reserved, reason_of, replayed

LARGE = 10**9
HOUR = 3600.0
US = 1_000_000
NOON = 1_700_000_000 * US
"""The time of day, in microseconds since the epoch, at which the clock of deadlines shows 0."""


class Ticking:
    """A queue with a sender and a receiver, an event log, and clocks that a test moves."""

    def __init__(self, settings: QueueSettings | None = None, log: QueueLog | None = None, wall: int = NOON) -> None:
        self.events: list[Event] = []
        self.now = 0.0
        self.wall = wall
        self.queue = QueueState("q", 0, settings, log=log, record=self.record, now=0.0, wall_us=wall)
        self.attach()

    def attach(self) -> None:
        self.queue.attach_sender("s", None)
        self.queue.request_capacity("s", 10**6, LARGE)
        self.queue.attach_receiver("r")
        self.queue.take_effects()

    def record(self, event: Event) -> int:
        self.events.append(event)
        return len(self.events)

    def send(self, count: int = 1, delay: float | None = None, ttl: float | None = None) -> None:
        first = self.queue.log.next_sequence
        batch = MessageBatch.from_payloads([b"%03d" % n for n in range(first, first + count)])
        self.queue.send("s", first, batch, self.now, self.wall + round(self.now * US), delay, ttl)

    def at(self, now: float) -> None:
        """Let it be ``now``, with a tick whenever the queue asks for one, and never for nothing."""
        for _ in range(1000):
            deadline = self.queue.next_deadline()
            if deadline is None or deadline > now:
                break
            self.now = max(self.now, deadline)
            self.queue.tick(self.now)
        else:
            raise AssertionError("the queue asks for ticks without end")
        self.now = now

    def receive(self, count: int = 100) -> list[int]:
        """The numbers of what is delivered to a demand for so many, which ends with it."""
        self.queue.cancel_demand("r")
        self.queue.receive("r", count, LARGE, self.now)
        got = self.delivered()
        self.queue.cancel_demand("r")
        return got

    def drain(self) -> list[int]:
        """The numbers of what is delivered, and acknowledged."""
        got = self.receive()
        self.queue.acknowledge("r", [(number, 1) for number in got])
        return got

    def delivered(self) -> list[int]:
        numbers: list[int] = []
        for effect in self.queue.take_effects():
            if isinstance(effect, Deliver):
                assert effect.batch.payloads.tolist() == [
                    b"%03d" % (effect.first + i) for i in range(len(effect.batch))
                ]
                numbers += range(effect.first, effect.first + len(effect.batch))
        return numbers

    def counts(self) -> tuple[int, int, int]:
        """Messages ready and delayed, and expired so far."""
        statistics = self.queue.statistics(self.now)
        in_flight = statistics.in_flight + statistics.reserved + statistics.leaving
        assert statistics.ready + statistics.delayed + in_flight == statistics.stored_messages
        return statistics.ready, statistics.delayed, statistics.total_expired


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
        (MAX_VISIBILITY_SECONDS + 1, None),
        (float("nan"), None),
        (None, 0.0),
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


def restarted(q: Ticking, wall: int, settings: QueueSettings | None = None) -> Ticking:
    """The queue after a restart from its events, at the time 0 of a new clock of deadlines."""
    return Ticking(settings or q.queue.settings, replayed(q.events), wall)


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


# --- times to live


def test_a_message_nobody_receives_in_its_time_is_dropped_at_the_head_with_no_receiver() -> None:
    q = Ticking()
    q.send(3, ttl=5.0)
    assert q.queue.next_deadline() == 5.0
    q.at(4.999)
    assert q.counts() == (3, 0, 0)
    q.at(5.0)
    assert q.counts() == (0, 0, 3)
    assert q.events[-1] == MessagesExpired(((0, 3),))
    assert q.queue.next_deadline() is None
    assert q.queue.log.stored_bytes == 0


def test_an_expired_message_is_never_delivered_even_if_the_timer_is_late() -> None:
    q = Ticking()
    q.send(2, ttl=5.0)
    q.send(2)
    q.now = 5.0
    assert q.receive() == [2, 3]
    assert q.counts() == (0, 0, 2)


def test_what_is_behind_a_live_message_expires_when_it_gets_to_the_head() -> None:
    q = Ticking()
    q.send(1)
    q.send(2, ttl=5.0)
    q.send(1)
    q.at(20.0)
    assert q.counts() == (4, 0, 0)
    assert q.queue.next_deadline() is None
    assert q.receive(1) == [0]
    assert q.queue.next_deadline() == 5.0
    q.at(20.0)
    assert q.counts() == (1, 0, 2)
    assert q.receive() == [3]


def test_neighbours_that_expire_together_are_one_event() -> None:
    q = Ticking()
    for _ in range(20):
        q.send(2, ttl=5.0)
    added = len(q.events)
    q.at(5.0)
    assert q.events[added:] == [MessagesExpired(((0, 40),))]


def test_the_smaller_of_the_queues_and_the_senders_time_to_live_holds() -> None:
    q = Ticking(QueueSettings(ttl=10.0))
    q.send(1, ttl=3.0)
    q.send(1, ttl=60.0)
    q.send(1)
    assert [event.ttl_us for event in q.events if isinstance(event, MessagesAdded)] == [3 * US, 10 * US, 10 * US]


def test_what_a_receiver_holds_does_not_expire_until_it_comes_back() -> None:
    q = Ticking()
    q.send(3, ttl=5.0)
    assert q.receive() == [0, 1, 2]
    q.at(6.0)
    assert q.queue.statistics(6.0).in_flight == 3
    q.queue.acknowledge("r", [(0, 1)])
    q.queue.negative_acknowledge("r", [(1, 1)], 0.0, 6.0)
    assert q.counts() == (0, 0, 1)
    q.at(10.0)
    assert q.counts() == (0, 0, 2), "the lease of the third ended"


def test_the_time_to_live_does_not_stop_for_a_delay() -> None:
    q = Ticking()
    q.send(1, delay=3.0, ttl=5.0)
    q.send(1, delay=6.0, ttl=5.0)
    q.at(3.0)
    assert q.receive() == [0]
    q.at(6.0)
    assert q.counts() == (0, 0, 1)


def test_a_reservation_gets_nothing_that_is_expired() -> None:
    q = Ticking()
    q.queue.open_subscription("o", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
    q.send(2, ttl=5.0)
    q.send(2)
    q.now = 5.0
    q.queue.reserve("o", 1, 0, messages=10, size=LARGE, wait=0.0, below=None, now=5.0)
    (answer,) = (effect for effect in q.queue.take_effects() if isinstance(effect, Reserved))
    assert answer.end == 2
    assert [part.first for part in q.queue.fetch("o", 0, 2)] == [2]


def test_a_waiting_reservation_that_wants_only_newer_messages_does_not_keep_the_head_from_expiring() -> None:
    q = Ticking()
    q.send(2, ttl=5.0)
    q.queue.open_subscription("o", "sub", "own", epoch=None, starting="latest", owner_timeout=None)
    q.queue.reserve("o", 1, 0, messages=10, size=LARGE, wait=9.0, below=None, now=0.0)
    q.at(5.0)
    assert q.counts() == (0, 0, 2)


def test_a_large_expired_backlog_is_dropped_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "EXPIRY_BUDGET", 3)
    q = Ticking()
    for _ in range(8):
        q.send(1, ttl=5.0)
    q.send(1)
    q.now = 5.0
    q.queue.receive("r", 10, LARGE, 5.0)
    assert q.counts() == (6, 0, 3)
    assert q.queue.next_deadline() == 5.0
    q.at(5.0)
    assert q.delivered() == [8]
    assert q.counts() == (0, 0, 8)


def test_a_portion_of_what_is_expired_is_no_larger_for_many_receivers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "EXPIRY_BUDGET", 3)
    q = Ticking()
    names = ("r", "two", "three", "four")
    for name in names[1:]:
        q.queue.attach_receiver(name)
    for name in names:
        q.queue.receive(name, 1, LARGE, 0.0)
    q.send(1, delay=5.0)
    for _ in range(8):
        q.send(1, delay=5.0, ttl=4.0)
    q.queue.tick(5.0)
    assert q.counts() == (5, 0, 3)


def test_expiring_makes_room_for_senders() -> None:
    q = Ticking(QueueSettings(max_messages=4))
    q.queue.detach("s", 0.0)
    q.queue.attach_sender("s", None)
    q.queue.request_capacity("s", 10, LARGE)
    q.send(4, ttl=5.0)
    assert q.queue.statistics(0.0).capacity_granted == 0
    q.at(5.0)
    assert q.queue.statistics(5.0).capacity_granted == 4


def test_what_expires_goes_to_the_dead_letter_queue_only_where_one_is_named() -> None:
    q = Ticking(QueueSettings(max_receives=3, ttl=5.0))
    q.send(1)
    q.at(5.0)
    assert q.counts() == (0, 0, 1)
    named = Ticking(QueueSettings(dead_letter_queue="late", ttl=5.0))
    named.send(2)
    named.at(5.0)
    (effect,) = (effect for effect in named.queue.take_effects() if isinstance(effect, DeadLetter))
    assert (effect.queue, effect.ranges, reason_of(effect)) == ("late", ((0, 2),), "expired")
    assert named.queue.statistics(5.0).leaving == 2


@pytest.mark.parametrize("jump", [-5 * HOUR, 5 * HOUR])
def test_a_jump_of_the_time_of_day_expires_nothing_and_freezes_nothing(jump: float) -> None:
    q = Ticking()
    q.send(1, ttl=10.0)
    q.now = 4.0
    q.wall += round(jump * US)
    q.send(1, ttl=10.0)
    q.at(9.9)
    assert q.counts() == (2, 0, 0)
    q.at(10.0)
    assert q.counts() == (1, 0, 1)
    assert q.queue.statistics(10.0).oldest_ms == 6000
    q.at(13.9)
    assert q.counts() == (1, 0, 1)
    q.at(14.0)
    assert q.counts() == (0, 0, 2)


def test_after_a_restart_a_message_has_the_rest_of_its_time() -> None:
    q = Ticking()
    q.send(1, ttl=100.0)
    q.send(1, ttl=20.0)
    again = restarted(q, NOON + 40 * US)
    assert again.queue.statistics(0.0).oldest_ms == 40_000
    again.at(59.9)
    assert again.counts() == (2, 0, 0)
    again.at(60.0)
    assert again.counts() == (0, 0, 2)


def test_a_time_of_day_that_went_back_over_a_restart_gives_no_message_more_than_its_time() -> None:
    q = Ticking()
    q.send(1, ttl=100.0)
    again = restarted(q, NOON - round(5 * HOUR) * US)
    assert again.queue.statistics(0.0).oldest_ms == 0
    again.send(1, ttl=10.0)
    again.at(100.0)
    assert again.counts() == (0, 0, 2)


class Forgetful(MemoryEntryTable):
    """A table that can have entries forget, as one in a journal does, and counts how often one is read again."""

    __slots__ = ("batches", "loads")

    def __init__(self) -> None:
        super().__init__(ENTRY_OVERHEAD_BYTES)
        self.batches: dict[int, tuple[MessageBatch, int, int | None]] = {}
        self.loads = 0

    def add(self, event: MessagesAdded, number: int) -> int:
        size = super().add(event, number)
        self.batches[event.first] = event.batch, event.enqueued_us, event.ttl_us
        entry = self._entries[event.first] = Entry(event.first, event.first + len(event.batch), self)
        assert not entry.known
        return size

    def load(self, entry: Entry) -> MessageBatch:
        self.loads += 1
        batch, enqueued_us, ttl_us = self.batches[entry.first]
        return entry.know(batch, enqueued_us=enqueued_us, ttl_us=ttl_us)


def test_looking_for_the_next_deadline_reads_the_head_once_and_nothing_else() -> None:
    table = Forgetful()
    log = QueueLog(table)
    for first in range(0, 20, 2):
        log.apply(MessagesAdded(first, MessageBatch.from_payloads([b"x"] * 2), NOON, ttl_us=9 * US))
    queue = QueueState("q", 0, log=log, now=0.0, wall_us=NOON)
    for _ in range(5):
        assert queue.next_deadline() == 9.0
        entry = table.at(0)
        assert entry is not None
        entry.forget()
    assert table.loads == 1


def test_a_queue_that_never_had_a_time_to_live_reads_nothing_to_know_that() -> None:
    table = Forgetful()
    queue = QueueState("q", 0, log=QueueLog(table))
    queue.attach_sender("s", None)
    queue.request_capacity("s", 100, LARGE)
    for number in range(10):
        queue.send("s", number, MessageBatch.from_payloads([b"x"]), 0.0, NOON)
        assert queue.next_deadline() is None
    assert table.loads == 0


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
