"""Queues that drop their oldest, one thing at a time: what counts, what goes, in which record, in how many steps."""

from __future__ import annotations

import pytest

from actors.batch import MessageBatch
from actors.queue.operations.moving import settle_all, take_parcels
from actors.queue.state.counted import CountedReady
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.budgets import COUNT_BUDGET, DROP_BUDGET
from actors.queue.vocabulary.events import Event, MessagesAdded
from actors.queue.vocabulary.replies import MAXLEN, DeadLetter
from actors.queue.vocabulary.settings import BLOCK, DROP_HEAD, ENTRY_OVERHEAD_BYTES, REJECT_DEAD_LETTER, QueueSettings
from tests.actors.driven import Confirm, Deliver, GrantCapacity, QueueState, reason_of, replayed
from tests.actors.test_queue_state_model import dropped_by

LARGE = 10**9


def batch(count: int, size: int = 1) -> MessageBatch:
    return MessageBatch.from_payloads([b"x" * size] * count)


def dropping(
    messages: int | None = 3, size: int | None = None, events: list[Event] | None = None, **settings: object
) -> QueueState:
    def record(event: Event) -> int:
        if events is not None:
            events.append(event)
        return 0

    declared = {"overflow": DROP_HEAD, **settings}
    queue = QueueState("q", 0, QueueSettings(messages, size, **declared), record=record)  # type: ignore[arg-type]
    queue.attach_sender("s", None)
    queue.request_capacity("s", 10_000, LARGE)
    queue.take_effects()
    return queue


def send(queue: QueueState, *batches: MessageBatch, delay: float | None = None) -> None:
    """Each in a batch of its own."""
    for each in batches:
        sequence = queue.senders["s"].expected or 0
        queue.send("s", sequence, each, 0.0, 0, delay)


def ready(queue: QueueState) -> list[int]:
    """The numbers of what can be received."""
    return [number for part in queue.ready.in_order() for number in range(*part)]


def letters(queue: QueueState) -> list[DeadLetter]:
    return [effect for effect in queue.take_effects() if isinstance(effect, DeadLetter)]


def test_the_record_that_stores_a_batch_says_what_is_dropped_for_it() -> None:
    events: list[Event] = []
    queue = dropping(3, events=events)
    send(queue, batch(2), batch(2))
    assert [event.dropped for event in events if isinstance(event, MessagesAdded)] == [(), ((0, 1),)]
    assert (ready(queue), queue.statistics(0.0).total_dropped) == ([1, 2, 3], 1)
    assert [effect.up_to for effect in queue.take_effects() if isinstance(effect, Confirm)] == [2, 4]


def test_of_a_batch_larger_than_the_limit_the_newest_stay() -> None:
    events: list[Event] = []
    queue = dropping(3, events=events)
    send(queue, batch(1), batch(8))
    (_, added) = events
    assert isinstance(added, MessagesAdded)
    assert (added.dropped, ready(queue)) == (((0, 6),), [6, 7, 8])
    assert replayed(events) == queue.log


def test_a_sender_of_a_queue_that_drops_is_granted_what_it_asks_for_unless_it_is_to_pause() -> None:
    queue = dropping(1)
    send(queue, *[batch(1)] * 5)
    queue.take_effects()
    queue.request_capacity("s", 50, 0)
    assert [type(effect) for effect in queue.take_effects()] == [GrantCapacity]
    queue.pause_senders("the disk is almost full")
    queue.request_capacity("s", 50, 0)
    assert queue.take_effects() == []
    assert not queue.statistics(0.0).full


def test_what_is_held_or_delayed_neither_counts_nor_goes() -> None:
    queue = dropping(2)
    send(queue, batch(2))
    queue.attach_receiver("r")
    queue.receive("r", 2, LARGE, 0.0)
    send(queue, batch(2), delay=5.0)
    send(queue, batch(3))
    assert (ready(queue), queue.leases.in_flight, queue.ready.delayed.messages) == ([5, 6], 2, 2)
    queue.tick(5.0)
    assert ready(queue) == [5, 6], "what is due is the oldest"


def test_what_comes_back_to_a_queue_at_its_limit_is_dropped_before_anybody_has_it_again() -> None:
    queue = dropping(2)
    send(queue, batch(1))
    queue.attach_receiver("r")
    queue.receive("r", 1, LARGE, 0.0)
    send(queue, batch(2))
    queue.take_effects()
    queue.negative_acknowledge("r", [(0, 1)], 0.0, 0.0)
    assert (ready(queue), queue.statistics(0.0).total_dropped) == ([1, 2], 1)
    # To wait for a delay is not to be ready.
    queue.receive("r", 1, LARGE, 0.0)
    send(queue, batch(1))
    queue.negative_acknowledge("r", [(1, 1)], 5.0, 0.0)
    assert (ready(queue), queue.ready.delayed.messages) == ([2, 3], 1)
    queue.tick(5.0)
    assert (ready(queue), queue.statistics(5.0).total_dropped) == ([2, 3], 2)


def test_who_waits_has_what_comes_before_any_of_it_is_dropped() -> None:
    queue = dropping(2)
    queue.attach_receiver("r")
    queue.receive("r", 3, LARGE, 0.0)
    queue.take_effects()
    send(queue, batch(6))
    (delivered,) = (effect for effect in queue.take_effects() if isinstance(effect, Deliver))
    assert (delivered.first, len(delivered.batch), ready(queue)) == (0, 3, [4, 5])


@pytest.mark.parametrize("size", [0, 10, 500])
def test_a_limit_of_bytes_counts_each_messages_share_of_its_batch(size: int) -> None:
    limit = 4 * ENTRY_OVERHEAD_BYTES
    queue = dropping(None, limit)
    for _ in range(9):
        send(queue, batch(3, size))
        assert isinstance(queue.ready, CountedReady)
        assert queue.ready.bytes <= limit
    left = ready(queue)
    # One more would be too much.
    assert queue.ready.bytes + queue.ready.size_of(left[-3], left[-2]) > limit
    assert left == list(range(left[0], 27)), "the newest"


def test_a_message_larger_than_the_limit_of_bytes_is_gone_as_it_comes() -> None:
    queue = dropping(None, ENTRY_OVERHEAD_BYTES + 100)
    send(queue, batch(1, 5_000), batch(1, 0))
    assert (ready(queue), queue.statistics(0.0).total_dropped) == ([1], 1)


def test_what_is_dropped_where_dead_letters_have_a_place_leaves_for_there_with_the_reason() -> None:
    queue = dropping(2, dead_letter_queue="old")
    send(queue, batch(1), batch(3))
    found = letters(queue)
    assert [(reason_of(each), each.ranges, each.queue) for each in found] == [
        (MAXLEN, ((0, 1),), "old"),
        (MAXLEN, ((1, 2),), "old"),
    ]
    assert (ready(queue), queue.statistics(0.0).leaving) == ([2, 3], 2)
    queue.dead_letters_stored(((0, 2),), 0.0)
    statistics = queue.statistics(0.0)
    assert (statistics.total_dead_lettered, statistics.total_dropped, statistics.leaving) == (2, 0, 0)


def test_what_waits_to_leave_and_may_stay_by_other_settings_is_no_dead_letter_any_more() -> None:
    queue = dropping(2, dead_letter_queue="old", ttl=50.0)
    send(queue, *[batch(1, 3_000_000) for _ in range(8)])
    assert len(letters(queue)) < 6, "others wait for these"
    queue.execute(commands.AlterQueue(QueueSettings(100, None, ttl=50.0)), 0.0, 0)
    assert letters(queue) == []
    assert all(span.reason is None for span in queue.ready._returned)


def test_a_lowered_limit_drops_in_steps_and_others_are_served_between_them() -> None:
    events: list[Event] = []
    queue = dropping(None, events=events, ttl=None)
    many = 3 * DROP_BUDGET + 10
    send(queue, *[batch(1)] * many)
    queue.execute(commands.AlterQueue(QueueSettings(5, None, overflow=DROP_HEAD)), 0.0, 0)
    while queue.next_deadline() is not None:
        # Others have their turn.
        send(queue, batch(1))
        queue.tick(0.0)
    assert len(ready(queue)) == 5
    at_once = [sum(stop - start for start, stop in dropped_by(event)) for event in events]
    assert max(at_once) == DROP_BUDGET
    assert sum(at_once) == queue.log.total_dropped
    assert replayed(events) == queue.log


def test_a_queue_that_begins_to_drop_counts_its_bytes_in_steps_and_drops_nothing_too_much() -> None:
    queue = dropping(None, overflow=BLOCK)
    many = 2 * COUNT_BUDGET + 5
    send(queue, *[batch(1)] * many)
    limit = (many - 3) * (ENTRY_OVERHEAD_BYTES + batch(1).nbytes)
    queue.execute(commands.AlterQueue(QueueSettings(None, limit, overflow=DROP_HEAD)), 0.0, 0)
    assert isinstance(queue.ready, CountedReady)
    assert not queue.ready.is_counted
    while queue.next_deadline() is not None:
        queue.tick(0.0)
    assert queue.ready.is_counted
    assert ready(queue) == list(range(3, many))
    queue.execute(commands.AlterQueue(QueueSettings(None, limit, overflow=BLOCK)), 0.0, 0)
    assert not isinstance(queue.ready, CountedReady)


def test_a_start_drops_again_what_is_over_the_limit() -> None:
    events: list[Event] = []
    queue = dropping(3, events=events)
    send(queue, batch(3))
    queue.attach_receiver("r")
    queue.receive("r", 2, LARGE, 0.0)
    send(queue, batch(2))
    again = QueueState("q", 0, queue.settings, log=replayed(events))
    assert again.next_deadline() == 0.0
    again.tick(0.0)
    assert ready(again) == [2, 3, 4]
    assert again.next_deadline() is None


def test_an_event_that_drops_changes_nothing_when_it_is_seen_again() -> None:
    events: list[Event] = []
    queue = dropping(2, events=events)
    send(queue, batch(2), batch(5), batch(1))
    log = replayed(events)
    for event in [*events, *events]:
        log.apply(event)
    assert log == queue.log
    assert (log.total_dropped, log.stored_messages) == (6, 2)


def test_what_is_moved_away_and_comes_back_is_over_the_limit_again() -> None:
    queue = dropping(3)
    send(queue, batch(3))
    parcels = take_parcels(queue, 3, 2, b"prefix00", 0.0)
    send(queue, batch(2))
    assert ready(queue) == [2, 3, 4]
    settle_all(queue, tuple(parcels), 0.0)
    assert ready(queue) == [2, 3, 4]


def test_what_a_queue_refuses_to_dead_letters_is_handed_over_with_the_reason_and_nothing_of_it_stays() -> None:
    queue = dropping(2, overflow=REJECT_DEAD_LETTER, dead_letter_queue="full")
    send(queue, batch(2))
    queue.take_effects()
    queue.send("s", 2, batch(1), 0.0, 5)
    effects = queue.take_effects()
    (letter,) = (effect for effect in effects if isinstance(effect, DeadLetter))
    (confirm,) = (effect for effect in effects if isinstance(effect, Confirm))
    assert (reason_of(letter), letter.queue, letter.ranges, len(letter.batch)) == (MAXLEN, "full", (), 1)
    assert "is full" in (confirm.rejected or "")
    assert queue.log.stored_messages == 2
    queue.pause_senders("the disk is almost full")
    queue.send("s", 2, batch(1), 0.0, 5)
    assert letters(queue) == [], "that is no limit of the queue"


def test_a_dead_letter_queue_may_be_named_for_what_is_dropped_alone() -> None:
    assert QueueSettings(overflow=DROP_HEAD, dead_letter_queue="old").dead_letters_named
    assert QueueSettings(overflow=REJECT_DEAD_LETTER, dead_letter_exchange="old").dead_letters_named
    assert QueueSettings(dead_letter_queue="old").keeps_dead_letters, "or for what a receiver refuses"
    with pytest.raises(ValueError, match="not one of block, reject, reject-dead-letter, drop-head"):
        QueueSettings(overflow="drop-tail")


def test_a_timer_that_rings_late_delivers_what_is_due_in_order_before_anything_is_dropped() -> None:
    queue = QueueState("q", 0, QueueSettings(overflow="drop-head", max_messages=2, ttl=100.0, visibility_timeout=10.0))
    queue.attach_sender("s", None)
    queue.request_capacity("s", 100, 10**6)
    queue.attach_receiver("r")
    queue.send("s", 0, MessageBatch.from_payloads([b"later"]), 0.0, 0, 15.0)
    queue.receive("r", 3, 10**6, 0.0)
    for number in range(1, 4):
        queue.send("s", number, MessageBatch.from_payloads([b"held"]), 0.0, 0)
    queue.take_effects()
    queue.receive("r", 10, 10**6, 0.0)
    queue.tick(20.0)
    delivered = [
        number
        for effect in queue.take_effects()
        if isinstance(effect, Deliver)
        for number in range(effect.first, effect.first + len(effect.batch))
    ]
    assert delivered == [0, 1, 2, 3]
    assert queue.statistics(20.0).total_dropped == 0
