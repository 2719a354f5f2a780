"""Deliveries that are counted, and messages that leave for another queue."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from actors.batch import MessageBatch
from actors.queue.state import ready
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.events import Event, MessagesAdded, MessagesMoved, MessagesReturned
from actors.queue.vocabulary.letters import Origin
from actors.queue.vocabulary.replies import DeadLetter
from actors.queue.vocabulary.settings import DEAD_LETTER_TIMEOUT, QueueSettings
from tests.actors.driven import DeadLettersStored, Deliver, GrantCapacity, QueueState, reason_of, replayed

LARGE = 10**9
US = 1_000_000
THRICE = QueueSettings(max_receives=3)
ONCE = QueueSettings(max_receives=1)


class Recorded:
    """A queue with a sender, a receiver, and what it recorded."""

    def __init__(self, settings: QueueSettings | None = None, number: int = 0, log: QueueLog | None = None) -> None:
        self.events: list[Event] = []
        self.beside: list[Mapping[int, Event]] = []
        self.state = QueueState(
            f"q{number}", number, settings, log=log, record=self.record, record_all=self.record_all, now=0.0
        )
        self.attach()

    def attach(self) -> None:
        self.state.attach_sender("s", None)
        self.state.request_capacity("s", 10**6, LARGE)
        self.state.attach_receiver("r")

    def record(self, event: Event) -> int:
        self.events.append(event)
        return len(self.events)

    def record_all(self, events: Mapping[int, Event]) -> int:
        self.beside.append({number: event for number, event in events.items() if number != self.state.number})
        return self.record(events[self.state.number])

    def send(self, count: int, now: float = 0.0) -> None:
        first = self.state.log.next_sequence
        batch = MessageBatch.from_payloads([b"%03d" % n for n in range(first, first + count)])
        self.state.send("s", first, batch, now, round(now * US))

    def receive(self, count: int = 100, now: float = 0.0) -> list[Deliver]:
        self.state.cancel_demand("r")
        self.state.receive("r", count, LARGE, now)
        effects = [effect for effect in self.state.take_effects() if isinstance(effect, Deliver)]
        self.state.cancel_demand("r")
        return effects

    def return_all(self, count: int, first: int = 0, now: float = 0.0) -> None:
        self.state.negative_acknowledge("r", [(first, count)], 0.0, now)

    def dead_letters(self) -> list[DeadLetter]:
        return [effect for effect in self.state.take_effects() if isinstance(effect, DeadLetter)]

    def counts(self, now: float = 0.0) -> tuple[int, int, int]:
        """Messages ready, leaving, and gone to the dead-letter queue."""
        statistics = self.state.statistics(now)
        held = statistics.in_flight + statistics.reserved + statistics.delayed
        assert statistics.ready + held + statistics.leaving == statistics.stored_messages
        return statistics.ready, statistics.leaving, statistics.total_dead_lettered


def test_a_message_received_too_often_leaves_and_the_others_stay() -> None:
    q = Recorded(THRICE)
    q.send(3)
    for delivery in range(1, 4):
        assert [(e.first, len(e.batch), e.delivery_count) for e in q.receive()] == [(0, 3, delivery)]
        if delivery < 3:
            q.return_all(3)
    q.state.acknowledge("r", [(0, 1)])
    q.return_all(1, first=1)
    (effect,) = q.dead_letters()
    assert (effect.queue, effect.ranges, reason_of(effect)) == (None, ((1, 2),), "max-receives")
    assert effect.batch.payloads.tolist() == [b"001"]
    assert effect.after == 1, "what leaves depends on the event that stored it"
    assert q.counts() == (0, 1, 0)
    assert q.receive() == []


def test_an_expired_lease_and_a_lost_connection_count_as_receives_too() -> None:
    q = Recorded(THRICE)
    q.send(2)
    q.receive()
    q.state.tick(10.0)
    assert q.counts(10.0) == (2, 0, 0)
    q.receive(now=10.0)
    q.state.detach("r", 10.0)
    q.state.attach_receiver("r")
    assert [effect.delivery_count for effect in q.receive(now=10.0)] == [3]
    q.state.detach("r", 10.0)
    assert [effect.ranges for effect in q.dead_letters()] == [((0, 2),)]


def test_with_one_receive_allowed_nothing_is_delivered_twice() -> None:
    q = Recorded(ONCE)
    q.send(4)
    q.receive()
    q.state.acknowledge("r", [(0, 2)])
    q.state.receive("r", 10, LARGE, 0.0)
    q.state.tick(10.0)
    assert [type(effect) for effect in q.state.take_effects()] == [DeadLetter]
    assert q.counts(10.0) == (0, 2, 0)


def test_a_delay_with_which_the_last_receive_is_given_back_does_not_keep_it_from_leaving() -> None:
    q = Recorded(ONCE)
    q.send(1)
    q.receive()
    q.state.negative_acknowledge("r", [(0, 1)], 60.0, 0.0)
    assert q.counts() == (0, 1, 0)


def test_a_queue_that_does_not_count_records_no_return() -> None:
    q = Recorded()
    q.send(2)
    for _ in range(20):
        q.receive()
        q.return_all(2)
    assert [type(event) for event in q.events] == [MessagesAdded]
    assert q.counts() == (2, 0, 0)


def test_what_comes_back_together_is_recorded_together() -> None:
    q = Recorded(THRICE)
    for _ in range(5):
        q.send(3)
    q.receive()
    q.state.detach("r", 0.0)
    assert q.events[5:] == [MessagesReturned(((0, 15, 1),))]


def test_how_often_a_message_was_delivered_survives_a_restart() -> None:
    q = Recorded(THRICE)
    q.send(4)
    q.send(2)
    q.receive()
    q.return_all(2, first=1)
    q.receive(count=1)
    q.return_all(1, first=1)
    again = Recorded(THRICE, log=replayed(q.events))
    assert [(e.first, len(e.batch), e.delivery_count, e.possibly_replayed) for e in again.receive()] == [
        (0, 1, 1, True),
        (1, 1, 3, True),
        (2, 1, 2, True),
        (3, 1, 1, True),
        (4, 2, 1, True),
    ]
    again.return_all(1, first=1)
    assert [effect.ranges for effect in again.dead_letters()] == [((1, 2),)]


def test_what_was_acknowledged_has_no_history_that_a_restart_could_bring_back() -> None:
    q = Recorded(THRICE)
    q.send(4)
    q.receive()
    q.return_all(4)
    q.receive()
    q.state.acknowledge("r", [(1, 2)])
    again = Recorded(THRICE, log=replayed(q.events))
    assert [(e.first, len(e.batch), e.delivery_count) for e in again.receive()] == [(0, 1, 2), (3, 1, 2)]


def test_what_was_leaving_leaves_after_a_restart() -> None:
    q = Recorded(ONCE)
    q.send(3)
    q.receive()
    q.return_all(2)
    again = Recorded(ONCE, log=replayed(q.events))
    assert again.counts() == (1, 2, 0)
    assert again.state.next_deadline() == 0.0
    again.state.tick(0.0)
    assert [effect.ranges for effect in again.dead_letters()] == [((0, 2),)]
    assert again.state.next_deadline() == DEAD_LETTER_TIMEOUT


def test_after_a_failure_in_place_what_was_leaving_leaves() -> None:
    q = Recorded(ONCE)
    q.send(3)
    q.receive()
    q.return_all(2)
    q.state.reset(1.0)
    q.state.tick(1.0)
    assert [effect.ranges for effect in q.dead_letters()] == [((0, 2),)]
    assert q.counts(1.0) == (1, 2, 0)


def test_messages_of_a_released_subscription_are_received_again_however_often_that_was() -> None:
    q = Recorded(QueueSettings(max_receives=2))
    q.send(2)
    q.receive()
    q.return_all(2)
    q.state.open_subscription("o", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
    q.state.reserve("o", 1, 0, messages=10, size=LARGE, wait=0.0, below=None, now=0.0)
    assert q.state.release_subscription("sub", 0.0, force=True) == 2
    again = Recorded(QueueSettings(max_receives=2), log=replayed(q.events))
    for queue, count in ((q, 3), (again, 2)):
        assert [effect.delivery_count for effect in queue.receive()] == [count]
        queue.return_all(2)
        assert [effect.ranges for effect in queue.dead_letters()] == [((0, 2),)]


# --- the other queue


def move(source: Recorded, target: Recorded, now: float = 0.0) -> int:
    """Carry out what both ask for until neither asks for more; returns how many batches were moved."""
    moved = 0
    for _ in range(1000):
        letters = source.dead_letters()
        for letter in letters:
            moved += 1
            target.state.store_dead_letters(letter.batch, Origin(source.state.number, letter.ranges), now, 0)
        for effect in target.state.take_effects():
            if isinstance(effect, DeadLettersStored):
                assert effect.origin.queue == source.state.number
                source.state.dead_letters_stored(effect.origin.ranges, now)
        if not letters:
            return moved
    raise AssertionError("dead letters move without end")


def test_dead_letters_are_in_the_other_queue_and_only_there() -> None:
    source, target = Recorded(ONCE), Recorded(number=1)
    source.send(4)
    source.receive()
    source.state.acknowledge("r", [(1, 1)])
    source.return_all(1)
    source.return_all(2, first=2)
    assert move(source, target) == 2
    assert source.counts() == (0, 0, 3)
    assert source.state.log.stored_messages == 0
    assert source.state.next_deadline() is None
    got = [payload for effect in target.receive() for payload in effect.batch.payloads]
    assert got == [b"000", b"002", b"003"]
    assert not any(isinstance(event, MessagesMoved) for event in source.events), "the other queue's record says it"
    assert sum(isinstance(event, MessagesAdded) for event in target.events) == 2
    assert target.beside == [{0: MessagesMoved(((0, 1),))}, {0: MessagesMoved(((2, 4),))}], "each in one with its batch"


def test_the_answer_depends_on_the_record_of_the_other_queue() -> None:
    target = Recorded(number=1)
    target.send(1)
    target.state.take_effects()
    target.state.store_dead_letters(MessageBatch.from_payloads([b"x"]), Origin(0, ((7, 8),)), 0.0, 0)
    (effect,) = target.state.take_effects()
    assert effect == DeadLettersStored(Origin(0, ((7, 8),)), 2)


def test_one_record_says_it_for_both_queues_after_a_restart() -> None:
    source, target = Recorded(ONCE), Recorded(number=1)
    source.send(3)
    source.receive()
    source.return_all(3)
    move(source, target)
    log = replayed(source.events)
    for beside in target.beside:
        log.apply(beside[0])
    assert log == source.state.log
    assert Recorded(ONCE, log=log).counts() == (0, 0, 3)


def test_dead_letters_are_stored_beyond_any_limit_and_delivered_at_once() -> None:
    target = Recorded(QueueSettings(max_messages=2, overflow="reject"), number=1)
    target.send(2)
    target.state.pause_senders("the disk is full")
    target.state.receive("r", 10, LARGE, 0.0)
    target.state.take_effects()
    target.state.store_dead_letters(MessageBatch.from_payloads([b"x"] * 5), Origin(0, ((0, 5),)), 0.0, 0)
    effects = target.state.take_effects()
    assert [len(effect.batch) for effect in effects if isinstance(effect, Deliver)] == [5]
    assert target.state.log.stored_messages == 7


def test_the_other_queues_time_to_live_holds_for_dead_letters_and_its_delay_does_not() -> None:
    target = Recorded(QueueSettings(ttl=5.0, delay=60.0), number=1)
    target.state.store_dead_letters(MessageBatch.from_payloads([b"x"]), Origin(0, ((0, 1),)), 1.0, US)
    assert target.counts(1.0)[0] == 1
    assert target.state.next_deadline() == 6.0
    target.state.tick(6.0)
    assert target.state.statistics(6.0).total_expired == 1


def test_messages_that_left_make_room_for_senders() -> None:
    source, target = Recorded(QueueSettings(max_messages=4, max_receives=1)), Recorded(number=1)
    source.send(4)
    source.receive()
    source.return_all(4)
    assert source.state.statistics(0.0).capacity_granted == 0, "what is leaving is still stored here"
    move(source, target)
    source.state.take_effects()
    assert source.state.statistics(0.0).capacity_granted == 4


def test_an_answer_that_comes_twice_or_whose_record_was_applied_before_changes_nothing_more() -> None:
    source = Recorded(ONCE)
    source.send(3)
    source.receive()
    source.return_all(2)
    source.state.log.apply(MessagesMoved(((0, 2),)))  # as the storage does when it records the other queue's event
    assert source.state.outbox.messages == 2, "it has not been told"
    assert source.state.statistics(0.0).leaving == 0, "and they are counted where they are"
    for _ in range(2):
        source.state.dead_letters_stored(((0, 2),), 0.0)
        assert source.counts() == (0, 0, 2)
    assert source.state.statistics(0.0).in_flight == 1


def test_an_answer_may_be_for_a_part_of_what_was_handed_over() -> None:
    source = Recorded(ONCE)
    source.send(6)
    source.receive()
    source.return_all(6)
    source.dead_letters()
    source.state.dead_letters_stored(((2, 4),), 5.0)
    assert source.counts() == (0, 4, 2)
    source.state.tick(DEAD_LETTER_TIMEOUT)
    assert sorted(effect.ranges for effect in source.dead_letters()) == [((0, 2),), ((4, 6),)]
    source.state.dead_letters_stored(((0, 2), (4, 6)), 40.0)
    assert source.counts() == (0, 0, 6)
    assert source.state.next_deadline() is None


def test_what_is_not_answered_for_is_handed_over_again_and_again() -> None:
    source, target = Recorded(ONCE), Recorded(number=1)
    source.send(2)
    source.receive()
    source.return_all(2)
    assert len(source.dead_letters()) == 1
    for attempt in range(1, 4):
        assert source.state.next_deadline() == attempt * DEAD_LETTER_TIMEOUT
        source.state.tick(attempt * DEAD_LETTER_TIMEOUT - 0.001)
        assert source.dead_letters() == []
        source.state.tick(attempt * DEAD_LETTER_TIMEOUT)
        (effect,) = source.dead_letters()
        assert effect.ranges == ((0, 2),)
    target.state.store_dead_letters(effect.batch, Origin(0, effect.ranges), 0.0, 0)
    source.state.dead_letters_stored(effect.ranges, 100.0)
    assert source.counts(100.0) == (0, 0, 2)


def test_what_is_not_answered_for_but_is_in_the_log_is_not_handed_over_again() -> None:
    source = Recorded(QueueSettings(max_messages=4, max_receives=1))
    source.send(4)
    source.receive()
    source.return_all(4)
    source.dead_letters()
    source.state.log.apply(MessagesMoved(((0, 4),)))
    source.state.tick(DEAD_LETTER_TIMEOUT)
    effects = source.state.take_effects()
    assert not any(isinstance(effect, DeadLetter) for effect in effects)
    assert sum(effect.messages for effect in effects if isinstance(effect, GrantCapacity)) == 4
    assert source.state.next_deadline() is None
    assert source.counts(DEAD_LETTER_TIMEOUT) == (0, 0, 4)


def test_few_batches_are_under_way_to_the_other_queue_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "DEAD_LETTER_BATCHES", 2)
    source, target = Recorded(ONCE), Recorded(number=1)
    for _ in range(5):
        source.send(3)
    source.receive()
    source.state.detach("r", 0.0)
    letters = source.dead_letters()
    assert [letter.ranges[0][0] for letter in letters] == [0, 3]
    assert source.counts() == (0, 15, 0)
    source.state.dead_letters_stored(letters[0].ranges, 0.0)
    assert [letter.ranges[0][0] for letter in source.dead_letters()] == [6]
    source.state.dead_letters_stored(letters[1].ranges, 0.0)
    source.state.dead_letters_stored(((6, 9),), 0.0)
    assert move(source, target) == 2
    assert source.counts() == (0, 0, 15)


def test_few_bytes_are_under_way_to_the_other_queue_at_a_time_but_one_batch_always(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ready, "DEAD_LETTER_BYTES", 10)
    source, target = Recorded(ONCE), Recorded(number=1)
    for _ in range(3):
        source.send(3)
    source.receive()
    source.state.detach("r", 0.0)
    assert source.state.outbox.sent.messages == 3
    assert move(source, target) == 3
    assert source.counts() == (0, 0, 9)


def test_an_expired_backlog_waits_where_it_is_while_too_much_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "DEAD_LETTER_BATCHES", 2)
    source, target = Recorded(QueueSettings(ttl=5.0, dead_letter_queue="late")), Recorded(number=1)
    for _ in range(8):
        source.send(1)
    source.state.tick(5.0)
    assert source.counts(5.0) == (5, 3, 0)
    assert source.state.next_deadline() == 5.0 + DEAD_LETTER_TIMEOUT
    assert source.receive(now=6.0) == [], "what is expired is not delivered even so"
    source.state.tick(5.0 + DEAD_LETTER_TIMEOUT)
    assert move(source, target, 6.0) == 8
    assert source.counts(6.0) == (0, 0, 8)
    assert [payload for effect in target.receive() for payload in effect.batch.payloads] == [
        b"%03d" % number for number in range(8)
    ]


def test_purging_leaves_alone_what_is_leaving() -> None:
    source = Recorded(ONCE)
    source.send(4)
    source.receive(count=2)
    source.return_all(2)
    assert source.state.purge() == 2
    assert source.counts() == (0, 2, 0)
    source.state.dead_letters_stored(((0, 2),), 0.0)
    assert source.counts() == (0, 0, 2)


def test_a_late_acknowledgement_of_what_is_leaving_is_no_error_and_too_late() -> None:
    source = Recorded(ONCE)
    source.send(2)
    source.receive()
    source.state.tick(10.0)
    source.state.acknowledge("r", [(0, 2)])
    assert source.counts(10.0) == (0, 2, 0)


def test_a_dead_letter_queue_may_have_one_of_its_own() -> None:
    first, second, third = Recorded(ONCE), Recorded(ONCE, number=1), Recorded(number=2)
    first.send(2)
    first.receive()
    first.return_all(2)
    move(first, second)
    second.receive()
    second.return_all(2)
    move(second, third)
    assert (first.counts(), second.counts(), third.counts()) == ((0, 0, 2), (0, 0, 2), (2, 0, 0))
