"""Times to live: what nobody receives in its time is dropped or dies, and never delivered."""

from __future__ import annotations

import pytest

from actors.batch import MessageBatch
from actors.limits import MAX_TTL_SECONDS
from actors.queue.operations import heads
from actors.queue.operations.dead_letters import packed_facts, with_facts
from actors.queue.state.entries import Entry, MemoryEntryTable
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.events import MessagesAdded, MessagesExpired
from actors.queue.vocabulary.replies import DeadLetter
from actors.queue.vocabulary.settings import (
    ENTRY_OVERHEAD_BYTES,
    QueueSettings,
)
from tests.actors.driven import QueueState, Reserved, reason_of
from tests.actors.ticking import HOUR, LARGE, NOON, US, Ticking, restarted

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


def test_what_has_no_time_to_live_goes_to_who_wants_it_as_it_comes_and_the_rest_expires() -> None:
    q = Ticking()
    q.queue.receive("r", 2, LARGE, q.now)
    q.send(3, ttl=0.0)
    assert q.delivered() == [0, 1]
    assert q.counts() == (0, 0, 1)
    assert q.events[-1] == MessagesExpired(((2, 3),))
    assert q.queue.next_deadline() == 10.0, "of the leases alone"
    # What its receiver returns is too late for anybody.
    q.queue.negative_acknowledge("r", [(0, 1)], 0.0, q.now)
    assert q.receive() == []
    assert q.counts() == (0, 0, 2)


def test_what_has_no_time_to_live_does_not_wait_behind_what_has() -> None:
    q = Ticking()
    q.send(1)
    q.send(1, ttl=0.0)
    assert q.counts() == (2, 0, 0), "it expires at the head"
    q.send(1)
    assert q.receive() == [0, 2]
    assert q.counts() == (0, 0, 1)


def test_what_has_no_time_to_live_is_too_late_though_a_coarse_clock_has_not_moved_since_it_came() -> None:
    q = Ticking()
    q.send(1)
    # A loop's time may be of its turn's beginning, in milliseconds, and the wall's is that of the call.
    q.wall += 900
    q.send(1, ttl=0.0)
    q.send(1)
    assert q.receive() == [0, 2]
    assert q.counts() == (0, 0, 1)


def test_of_a_queue_without_a_time_to_live_all_that_nobody_wants_dies() -> None:
    q = Ticking(QueueSettings(ttl=0.0, dead_letter_queue="late"))
    q.send(2, ttl=60.0)
    (letter,) = [effect for effect in q.queue.take_effects() if isinstance(effect, DeadLetter)]
    assert (letter.queue, letter.ranges, reason_of(letter)) == ("late", ((0, 2),), "expired")
    q.queue.dead_letters_stored(((0, 2),), q.now)
    assert q.counts() == (0, 0, 0)


def test_two_queues_without_a_time_to_live_that_name_each_other_come_to_rest() -> None:
    q = Ticking(QueueSettings(ttl=0.0, dead_letter_queue="other"))

    def comes(batch: MessageBatch) -> list[DeadLetter]:
        first = q.queue.log.next_sequence
        q.queue.log.apply(MessagesAdded(first, batch, NOON, ttl_us=0), q.record(MessagesExpired(())))
        q.queue.catch_up(q.now)
        return [effect for effect in q.queue.take_effects() if isinstance(effect, DeadLetter)]

    (letter,) = comes(batch_of(b"x", b"y"))
    q.queue.dead_letters_stored(letter.ranges, q.now)
    in_the_other = with_facts(letter.batch, packed_facts("expired", "other", NOON, 0))
    assert comes(in_the_other) == []
    assert q.counts() == (0, 0, 2)
    # Where somebody has tried it since it goes on.
    (letter,) = comes(with_facts(letter.batch, packed_facts("rejected", "other", NOON, 1)))
    assert len(letter.batch) == 2


def test_however_much_of_it_comes_whoever_wants_all_of_it_gets_it_in_steps() -> None:
    q = Ticking()
    q.queue.receive("r", 10_000, LARGE, q.now)
    for number in range(800):
        # Alternately, so that each is a batch of its own.
        q.queue.accept("s", number, batch_of(b"%03d" % number), None, 5.0 if number % 2 else 0.0)
    q.queue.store(q.now, q.wall)
    got = q.delivered()
    assert len(got) < 800, "a dispatch has a budget"
    while (deadline := q.queue.next_deadline()) is not None and deadline <= q.now:
        q.queue.tick(q.now)
        got += q.delivered()
    assert got == list(range(800))
    assert q.counts() == (0, 0, 0)


def test_what_others_put_into_the_queue_comes_when_the_queue_notices() -> None:
    q = Ticking(QueueSettings(ttl=0.0))
    q.queue.receive("r", 1, LARGE, q.now)
    q.queue.log.apply(MessagesAdded(0, batch_of(b"000", b"001"), NOON, ttl_us=0), q.record(MessagesExpired(())))
    q.now = 3.0
    q.queue.catch_up(q.now)
    assert q.delivered() == [0]
    assert q.counts() == (0, 0, 1)


def test_after_a_restart_it_is_too_late_for_all_of_it() -> None:
    q = Ticking()
    q.send(1)
    q.send(1, ttl=0.0)
    again = restarted(q, NOON)
    assert again.receive() == [0]
    assert again.counts() == (0, 0, 1)


def test_a_time_to_live_may_be_ten_years() -> None:
    q = Ticking(QueueSettings(ttl=MAX_TTL_SECONDS))
    q.send()
    assert q.queue.next_deadline() == MAX_TTL_SECONDS
    q.at(MAX_TTL_SECONDS - 1.0)
    assert q.counts() == (1, 0, 0)
    q.at(MAX_TTL_SECONDS)
    assert q.counts() == (0, 0, 1)


def batch_of(*payloads: bytes) -> MessageBatch:
    return MessageBatch.from_payloads(list(payloads))


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
    monkeypatch.setattr(heads, "EXPIRY_BUDGET", 3)
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
    monkeypatch.setattr(heads, "EXPIRY_BUDGET", 3)
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
