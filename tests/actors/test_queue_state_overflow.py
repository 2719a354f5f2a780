"""Queues that reject what they have no room for, and senders that are to pause."""

from __future__ import annotations

import pytest

from actors.batch import MessageBatch
from actors.errors import SequenceGapError
from actors.queue.operations.delivering import facts_of
from actors.queue.vocabulary.events import Event
from actors.queue.vocabulary.settings import ENTRY_OVERHEAD_BYTES, QueueSettings
from tests.actors.driven import Confirm, Deliver, GrantCapacity, QueueState, replayed

LARGE = 10**9


def batch(count: int, size: int = 1) -> MessageBatch:
    return MessageBatch.from_payloads([b"x" * size] * count)


def rejecting(messages: int = 10, size: int = LARGE, events: list[Event] | None = None) -> QueueState:
    """A queue that rejects, with the named producer "p" on connection "s"."""

    def record(event: Event) -> int:
        if events is not None:
            events.append(event)
        return 0

    queue = QueueState("q", 0, QueueSettings(messages, size, overflow="reject"), record=record)
    connect(queue, "s")
    return queue


def connect(queue: QueueState, connection: str, producer: str | None = "p") -> int | None:
    last = queue.attach_sender(connection, producer)
    queue.request_capacity(connection, 100, LARGE)
    queue.take_effects()
    return last


def send(queue: QueueState, sequence: int, count: int, connection: str = "s") -> int | None:
    return queue.send(connection, sequence, batch(count), 0.0, 0)


def confirms(queue: QueueState) -> list[tuple[int, int | None, bool]]:
    """Number up to which, the queue's number, and whether it was rejected, of each confirmation since the last call."""
    return [
        (effect.up_to, effect.first, effect.rejected is not None)
        for effect in queue.take_effects()
        if isinstance(effect, Confirm)
    ]


def drain(queue: QueueState) -> None:
    """Take out everything."""
    queue.attach_receiver("drain")
    queue.receive("drain", 1000, LARGE, 0.0)
    for effect in queue.take_effects():
        if isinstance(effect, Deliver):
            queue.acknowledge("drain", [(effect.first, len(effect.batch))])
    queue.detach("drain", 0.0)


def test_a_queue_that_rejects_grants_what_is_asked_for_whether_there_is_room_or_not() -> None:
    queue = rejecting(messages=4)
    send(queue, 0, 4)
    queue.take_effects()
    queue.request_capacity("s", 50, 1000)
    assert queue.take_effects() == [GrantCapacity("s", 50, 1000)]


def test_a_batch_for_which_there_is_no_room_is_rejected_in_its_turn_with_the_limit_named() -> None:
    queue = rejecting(messages=10)
    assert send(queue, 0, 8) == 0
    assert send(queue, 8, 3) is None
    effects = queue.take_effects()
    assert [(e.up_to, e.first) for e in effects if isinstance(e, Confirm)] == [(8, 0), (11, None)]
    assert isinstance(effects[1], Confirm)
    assert effects[1].rejected == (
        "queue 'q' is full: 8 of max_messages 10 messages are stored, and a batch of 3 does not fit"
    )
    statistics = queue.statistics(0.0)
    assert (statistics.stored_messages, statistics.total_in, statistics.total_rejected) == (8, 8, 3)


def test_a_batch_that_fits_exactly_is_stored_and_one_that_fits_in_part_is_not() -> None:
    queue = rejecting(messages=10)
    send(queue, 0, 5)
    send(queue, 5, 5)
    assert confirms(queue) == [(5, 0, False), (10, 5, False)]
    drain(queue)
    send(queue, 10, 9)
    send(queue, 19, 2)
    assert confirms(queue) == [(19, 10, False), (21, None, True)]


def test_the_bytes_of_a_queue_are_a_limit_too() -> None:
    queue = rejecting(messages=1000, size=3 * ENTRY_OVERHEAD_BYTES)
    assert queue.send("s", 0, batch(1, ENTRY_OVERHEAD_BYTES), 0.0, 0) == 0
    assert queue.send("s", 1, batch(1, ENTRY_OVERHEAD_BYTES), 0.0, 0) is None
    (confirm,) = [e for e in queue.take_effects() if isinstance(e, Confirm) and e.rejected is not None]
    assert "max_bytes" in str(confirm.rejected)
    assert queue.statistics(0.0).stored_bytes <= 3 * ENTRY_OVERHEAD_BYTES


def test_a_batch_larger_than_the_queue_may_hold_is_told_to_be_smaller_however_empty_the_queue_is() -> None:
    few, small = rejecting(messages=3), rejecting(size=2 * ENTRY_OVERHEAD_BYTES)
    assert send(few, 0, 10) is None
    assert small.send("s", 0, batch(1, 2 * ENTRY_OVERHEAD_BYTES), 0.0, 0) is None
    too_many, too_large = (
        effect.rejected for queue in (few, small) for effect in queue.take_effects() if isinstance(effect, Confirm)
    )
    assert too_many == (
        "a batch of 10 messages is larger than queue 'q' may hold, max_messages 3: send smaller batches (max_batch_messages)"
    )
    assert too_large is not None
    assert f"is larger than queue 'q' may hold, max_bytes {2 * ENTRY_OVERHEAD_BYTES}: send smaller" in too_large


def test_what_was_accepted_and_is_not_stored_yet_takes_room() -> None:
    queue = rejecting(messages=10)
    for number in range(0, 15, 5):
        queue.accept("s", number, batch(5))
    queue.store(0.0, 0)
    assert confirms(queue) == [(5, 0, False), (10, 5, False), (15, None, True)]
    assert queue.log.stored_messages == 10


def test_what_was_sent_behind_a_rejected_batch_is_rejected_too_so_that_the_order_stays() -> None:
    queue = rejecting(messages=10)
    send(queue, 0, 8)
    send(queue, 8, 5)
    drain(queue)
    queue.take_effects()
    send(queue, 13, 1)
    (confirm,) = (effect for effect in queue.take_effects() if isinstance(effect, Confirm))
    assert confirm.rejected == "messages sent before, from number 8 on, were rejected"
    send(queue, 8, 2)
    send(queue, 10, 1)
    assert confirms(queue) == [(10, 8, False), (11, 10, False)]


def test_the_rejected_numbers_are_used_again_by_the_same_messages_or_others() -> None:
    queue = rejecting(messages=10)
    send(queue, 0, 8)
    send(queue, 8, 5)
    send(queue, 8, 3)
    send(queue, 8, 2)
    assert confirms(queue) == [(8, 0, False), (13, None, True), (11, None, True), (10, 8, False)]
    assert queue.log.producers == {"p": 10}


def test_a_rejected_batch_sent_again_after_a_reconnect_is_stored_if_there_is_room_then() -> None:
    queue = rejecting(messages=10)
    send(queue, 0, 8)
    send(queue, 8, 5)
    queue.detach("s", 0.0)
    drain(queue)
    assert connect(queue, "t") == 8, "nothing that was rejected counts as stored"
    send(queue, 8, 5, "t")
    assert confirms(queue) == [(13, 8, False)]


def test_after_a_restart_nothing_that_was_rejected_counts_as_stored() -> None:
    events: list[Event] = []
    queue = rejecting(messages=10, events=events)
    send(queue, 0, 8)
    send(queue, 8, 5)
    again = QueueState("q", 0, queue.settings, log=replayed(events))
    assert connect(again, "t") == 8
    assert send(again, 8, 2, "t") == 8


def test_a_producer_of_which_nothing_is_known_begins_again_at_what_was_rejected() -> None:
    queue = rejecting(messages=10)
    connect(queue, "other", None)
    send(queue, 0, 10, "s")
    queue.take_effects()
    send(queue, 7, 1, "other")
    send(queue, 8, 1, "other")
    assert confirms(queue) == [(8, None, True), (9, None, True)]
    drain(queue)
    queue.take_effects()
    assert send(queue, 7, 1, "other") == 10


def test_a_gap_with_nothing_rejected_before_it_is_refused_as_ever() -> None:
    queue = rejecting(messages=10)
    send(queue, 0, 2)
    with pytest.raises(SequenceGapError):
        send(queue, 3, 1)
    send(queue, 2, 9)
    send(queue, 2, 8)
    with pytest.raises(SequenceGapError):
        send(queue, 11, 1)
    assert queue.log.stored_messages == 10


def test_a_resent_batch_that_is_known_is_confirmed_however_full_the_queue_is() -> None:
    queue = rejecting(messages=10)
    send(queue, 0, 6)
    send(queue, 6, 4)
    queue.detach("s", 0.0)
    connect(queue, "t")
    send(queue, 6, 4, "t")
    send(queue, 10, 1, "t")
    assert confirms(queue) == [(10, None, False), (11, None, True)]


def test_of_a_batch_whose_beginning_is_stored_the_rest_is_stored_however_full_the_queue_is() -> None:
    queue = rejecting(messages=10)
    send(queue, 0, 10)
    queue.detach("s", 0.0)
    connect(queue, "t")
    send(queue, 8, 4, "t")
    assert confirms(queue)[-1] == (12, None, False)
    assert queue.log.stored_messages == 12


def test_a_sender_that_is_rejected_uses_its_permits_and_gets_others() -> None:
    queue = rejecting(messages=1)
    send(queue, 0, 1)
    assert queue.statistics(0.0).capacity_granted == 99
    send(queue, 1, 40)
    assert queue.statistics(0.0).capacity_granted == 59
    queue.request_capacity("s", 41, 0)
    assert queue.statistics(0.0).capacity_granted == 100


def test_one_senders_rejection_is_no_other_senders() -> None:
    queue = rejecting(messages=10)
    connect(queue, "other", None)
    send(queue, 0, 8)
    send(queue, 8, 3)
    send(queue, 0, 2, "other")
    send(queue, 11, 1)
    assert confirms(queue) == [(8, 0, False), (11, None, True), (2, 8, False), (12, None, True)]


# --- pausing


def blocking(messages: int = 10) -> QueueState:
    return QueueState("q", 0, QueueSettings(messages))


def granted(queue: QueueState) -> int:
    return sum(effect.messages for effect in queue.take_effects() if isinstance(effect, GrantCapacity))


def test_while_senders_pause_nothing_is_granted_and_afterwards_what_was_asked_for() -> None:
    queue = blocking()
    queue.pause_senders("the disk is almost full")
    connections = ("a", "b")
    for name in connections:
        queue.attach_sender(name, None)
        queue.request_capacity(name, 4, LARGE)
    assert granted(queue) == 0
    assert queue.statistics(0.0).paused == "the disk is almost full"
    queue.pause_senders(None)
    assert granted(queue) == 8
    assert queue.statistics(0.0).paused is None


def test_what_was_granted_before_a_pause_may_still_come() -> None:
    queue = blocking()
    queue.attach_sender("s", None)
    queue.request_capacity("s", 4, LARGE)
    queue.pause_senders("why")
    assert queue.send("s", 0, batch(4), 0.0, 0) == 0
    queue.request_capacity("s", 4, LARGE)
    queue.take_effects()
    assert queue.statistics(0.0).capacity_granted == 0


def test_a_pause_does_not_concern_receivers() -> None:
    queue = blocking()
    queue.attach_sender("s", None)
    queue.request_capacity("s", 20, LARGE)
    queue.send("s", 0, batch(10), 0.0, 0)
    queue.pause_senders("why")
    queue.take_effects()
    queue.attach_receiver("r")
    queue.receive("r", 10, LARGE, 0.0)
    queue.acknowledge("r", [(0, 10)])
    effects = queue.take_effects()
    assert [type(effect) for effect in effects] == [Deliver], "no room is granted that there is"
    queue.pause_senders(None)
    assert granted(queue) == 10


def test_a_queue_that_rejects_rejects_everything_with_the_reason_while_senders_pause() -> None:
    queue = rejecting(messages=10)
    queue.pause_senders("the disk is almost full")
    queue.request_capacity("s", 10, LARGE)
    assert granted(queue) == 10
    send(queue, 0, 1)
    (confirm,) = (effect for effect in queue.take_effects() if isinstance(effect, Confirm))
    assert confirm.rejected == "queue 'q' takes nothing now: the disk is almost full"
    queue.pause_senders(None)
    send(queue, 0, 1)
    assert confirms(queue) == [(1, 0, False)]


def test_a_pause_goes_on_when_the_queue_begins_anew() -> None:
    queue = blocking()
    queue.pause_senders("why")
    queue.reset(1.0)
    queue.attach_sender("s", None)
    queue.request_capacity("s", 4, LARGE)
    assert granted(queue) == 0
    queue.pause_senders(None)
    assert granted(queue) == 4


def test_a_subscription_is_told_that_nothing_comes_in_while_senders_pause() -> None:
    queue = blocking()
    queue.pause_senders("why")
    assert facts_of(queue, 0.0)["full"]
    queue.pause_senders(None)
    assert not facts_of(queue, 0.0)["full"]
