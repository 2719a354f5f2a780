"""Other settings for a queue that lives: what follows of each, with what was given out before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.queue.operations import judging
from actors.queue.state.permits import WINDOWED_MESSAGES
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.replies import DeadLetter
from actors.queue.vocabulary.settings import DEAD_LETTER_BATCHES, DEAD_LETTER_TIMEOUT, REJECT, QueueSettings
from actors.queue.vocabulary.stages import StageKey
from tests.actors.driven import Confirm, Deliver, GrantCapacity, QueueState, Refuse

LARGE = 10**9
US = 1_000_000


def queue_of(**settings: Any) -> QueueState:
    return QueueState("q", 1, QueueSettings(**settings))


def alter(queue: QueueState, now: float = 0.0, after: int = 0, **changed: Any) -> None:
    settings = replace(queue.settings, **changed)
    assert queue.execute(commands.AlterQueue(settings, after), now, 0) == settings


def batch(*payloads: bytes) -> MessageBatch:
    return MessageBatch.from_payloads(payloads)


def sending(queue: QueueState, name: str = "s", messages: int = 1000) -> None:
    queue.attach_sender(name, None)
    queue.request_capacity(name, messages, LARGE)


def granted(queue: QueueState) -> int:
    return sum(effect.messages for effect in queue.take_effects() if isinstance(effect, GrantCapacity))


def delivered(queue: QueueState) -> list[Deliver]:
    return [effect for effect in queue.take_effects() if isinstance(effect, Deliver)]


# Limits


def test_a_raised_limit_is_granted_at_once_though_the_queue_was_full() -> None:
    queue = queue_of(max_messages=4)
    sending(queue)
    assert granted(queue) == 4
    queue.send("s", 0, batch(b"1", b"2", b"3", b"4"), 0.0, 0)
    assert granted(queue) == 0
    alter(queue, max_messages=5)
    assert granted(queue) == 1


def test_below_a_lowered_limit_what_was_granted_may_come_and_no_more_is_until_enough_is_acknowledged() -> None:
    queue = queue_of(max_messages=8)
    sending(queue)
    assert granted(queue) == 8
    alter(queue, max_messages=2)
    queue.send("s", 0, batch(*[b"m"] * 8), 0.0, 0)
    assert granted(queue) == 0
    queue.attach_receiver("r")
    queue.receive("r", 8, LARGE, 0.0)
    queue.acknowledge("r", [(0, 6)])
    assert granted(queue) == 0
    queue.acknowledge("r", [(6, 1)])
    assert granted(queue) == 1


def test_windows_follow_from_a_small_queue_to_a_large_one_and_back() -> None:
    queue = queue_of(max_messages=WINDOWED_MESSAGES - 1)
    sending(queue, messages=10**6)
    small = granted(queue)
    assert small == WINDOWED_MESSAGES - 1, "all there is"
    alter(queue, max_messages=100_000)
    assert 0 < granted(queue) + small < 100_000, "a window, for others are to have some too"
    alter(queue, max_messages=10)
    assert granted(queue) == 0
    held = queue.capacity.messages
    queue.send("s", 0, batch(*[b"m"] * held), 0.0, 0)
    assert (granted(queue), queue.capacity.messages) == (0, 0)


def test_a_large_queue_grants_a_busy_sender_again_after_each_change() -> None:
    queue = queue_of(max_messages=100_000)
    sending(queue, messages=10**6)
    sent = 0
    for number in range(50):
        alter(queue, max_messages=(100_000, 5_000, 100)[number % 3])
        queue.attach_receiver("r")
        queue.receive("r", LARGE, LARGE, 0.0)
        count = queue.capacity.messages
        assert count > 0
        queue.send("s", sent, batch(*[b"m"] * count), 0.0, 0)
        queue.acknowledge("r", [(sent, count)])
        sent += count
        queue.detach("r", 0.0)
    assert queue.log.stored_messages == 0


# Overflow


def test_a_queue_that_begins_to_reject_grants_all_that_is_wanted_and_refuses_what_does_not_fit() -> None:
    queue = queue_of(max_messages=2)
    sending(queue, messages=50)
    assert granted(queue) == 2
    alter(queue, overflow=REJECT)
    assert granted(queue) == 48
    assert queue.send("s", 0, batch(b"1", b"2", b"3"), 0.0, 0) is None
    assert queue.send("s", 0, batch(b"1", b"2"), 0.0, 0) == 0


def test_behind_what_was_rejected_nothing_is_stored_though_the_queue_does_not_reject_any_more() -> None:
    queue = queue_of(max_messages=2, overflow=REJECT)
    queue.attach_sender("s", "p")
    queue.request_capacity("s", 50, LARGE)
    assert queue.send("s", 0, batch(b"1", b"2", b"3"), 0.0, 0) is None
    alter(queue, overflow="block", max_messages=10)
    queue.take_effects()
    # It was on its way: stored, it would stand before what was rejected, and that would be taken for known.
    assert queue.send("s", 3, batch(b"4"), 0.0, 0) is None
    (confirmed,) = [effect for effect in queue.take_effects() if isinstance(effect, Confirm)]
    assert confirmed.rejected is not None
    assert queue.send("s", 0, batch(b"1", b"2", b"3"), 0.0, 0) == 0


# Times


def test_a_longer_visibility_timeout_counts_for_what_is_delivered_next() -> None:
    queue = queue_of(visibility_timeout=2.0)
    sending(queue)
    queue.send("s", 0, batch(b"1", b"2"), 0.0, 0)
    queue.attach_receiver("r")
    queue.receive("r", 1, LARGE, 0.0)
    alter(queue, visibility_timeout=20.0)
    queue.receive("r", 1, LARGE, 1.0)
    queue.tick(2.0)
    assert queue.statistics(2.0).in_flight == 1
    assert queue.next_deadline() == 21.0


def test_a_receiver_that_is_connected_keeps_the_longer_time_and_one_that_comes_has_the_new_one() -> None:
    queue = queue_of(visibility_timeout=20.0)
    sending(queue)
    queue.send("s", 0, batch(b"1", b"2", b"3"), 0.0, 0)
    queue.attach_receiver("old")
    alter(queue, visibility_timeout=2.0)
    queue.receive("old", 1, LARGE, 0.0)
    assert queue.next_deadline() == 20.0
    queue.attach_receiver("new")
    queue.receive("new", 1, LARGE, 0.0)
    assert queue.next_deadline() == 2.0
    # It was told before the change, and its actor came to the queue behind it.
    queue.execute(commands.AttachReceiver("late", 11.0), 0.0, 0)  # type: ignore[arg-type]
    queue.negative_acknowledge("new", [(1, 1)], 0.0, 0.0)
    queue.detach("new", 0.0)
    queue.receive("late", 1, LARGE, 0.0)
    assert queue.next_deadline() == 11.0


def test_delay_and_time_to_live_are_of_what_is_sent_next() -> None:
    queue = queue_of()
    sending(queue)
    queue.send("s", 0, batch(b"before"), 0.0, 0)
    alter(queue, delay=5.0, ttl=9.0)
    queue.send("s", 1, batch(b"after"), 0.0, 0)
    alter(queue, delay=0.0, ttl=None)
    queue.attach_receiver("r")
    queue.receive("r", 1, LARGE, 1.0)
    assert [bytes(each.batch.payloads[0]) for each in delivered(queue)] == [b"before"]
    queue.tick(5.0)
    assert queue.statistics(5.0).ready == 1
    queue.tick(10.0)
    assert queue.statistics(10.0).total_expired == 1
    assert queue.statistics(10.0).in_flight == 1, "what was stored before has no time to live"


# Dead letters


def failed_messages(count: int, **settings: Any) -> QueueState:
    """A queue of messages that have failed once each, ready again."""
    queue = queue_of(**settings)
    sending(queue)
    for number in range(count):
        queue.send("s", number, batch(b"%d" % number), 0.0, 0)
    queue.attach_receiver("r")
    queue.receive("r", count, LARGE, 0.0)
    queue.negative_acknowledge("r", [(0, count)], 0.0, 0.0)
    return queue


def letters(queue: QueueState) -> list[DeadLetter]:
    return [effect for effect in queue.take_effects() if isinstance(effect, DeadLetter)]


@pytest.mark.parametrize("before", [None, 3])
def test_what_has_failed_so_often_leaves_as_soon_as_that_is_too_often(before: int | None) -> None:
    queue = failed_messages(2, max_receives=before)
    queue.take_effects()
    alter(queue, max_receives=1, dead_letter_queue="dead")
    assert [(letter.queue, letter.ranges) for letter in letters(queue)] == [("dead", ((0, 1),)), ("dead", ((1, 2),))]


def test_what_waits_for_a_delay_leaves_too_and_what_is_held_when_it_comes_back() -> None:
    queue = queue_of(max_receives=5)
    sending(queue)
    queue.send("s", 0, batch(b"1", b"2"), 0.0, 0)
    queue.attach_receiver("r")
    queue.receive("r", 2, LARGE, 0.0)
    queue.negative_acknowledge("r", [(0, 1)], 50.0, 0.0)
    queue.take_effects()
    alter(queue, max_receives=1)
    assert [letter.ranges for letter in letters(queue)] == [((0, 1),)]
    assert queue.statistics(0.0).delayed == 0
    queue.negative_acknowledge("r", [(1, 1)], 0.0, 0.0)
    assert [letter.ranges for letter in letters(queue)] == [((1, 2),)]


def test_what_waited_to_leave_and_need_not_any_more_is_ready_in_its_old_place() -> None:
    count = DEAD_LETTER_BATCHES + 10
    queue = failed_messages(count, max_receives=1)
    assert len(letters(queue)) == DEAD_LETTER_BATCHES
    alter(queue, max_receives=None)
    assert queue.statistics(0.0).leaving == DEAD_LETTER_BATCHES, "these were handed over"
    queue.receive("r", count, LARGE, 0.0)
    assert [each.first for each in delivered(queue)] == list(range(DEAD_LETTER_BATCHES, count))


def test_what_waited_to_leave_goes_to_the_dead_letter_queue_of_now() -> None:
    count = DEAD_LETTER_BATCHES + 3
    queue = failed_messages(count, max_receives=1, dead_letter_queue="old")
    assert {letter.queue for letter in letters(queue)} == {"old"}
    alter(queue, dead_letter_queue="new")
    queue.dead_letters_stored(((0, DEAD_LETTER_BATCHES),), 0.0)
    assert [letter.queue for letter in letters(queue)] == ["new"] * 3
    # Whoever has not answered is asked again, be it another.
    queue.tick(DEAD_LETTER_TIMEOUT)
    assert [letter.queue for letter in letters(queue)] == ["new"] * 3


def test_what_expired_and_waited_to_leave_is_dropped_where_no_queue_wants_it_any_more() -> None:
    count = DEAD_LETTER_BATCHES + 3
    queue = queue_of(ttl=1.0, dead_letter_queue="late")
    sending(queue)
    for number in range(count):
        queue.send("s", number, batch(b"m"), 0.0, 0)
    queue.tick(2.0)
    assert len(letters(queue)) == DEAD_LETTER_BATCHES
    alter(queue, 2.0, dead_letter_queue=None)
    assert queue.statistics(2.0).total_expired == 3
    queue.dead_letters_stored(((0, DEAD_LETTER_BATCHES),), 2.0)
    assert queue.log.stored_messages == 0


def test_what_a_subscription_gives_back_is_judged_by_the_settings_of_now() -> None:
    queue = failed_messages(1, max_receives=5)
    queue.detach("r", 0.0)
    queue.open_subscription("sub", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
    queue.reserve("sub", 1, 0, messages=1, size=LARGE, wait=0.0, below=None, now=0.0)
    alter(queue, max_receives=1)
    assert letters(queue) == []
    assert queue.release_subscription("sub", 0.0, force=True) == 1
    assert [letter.ranges for letter in letters(queue)] == [((0, 1),)]


# Transactions


def test_what_may_be_staged_follows_and_what_is_staged_stays() -> None:
    queue = queue_of(max_staged_messages=2)
    key = StageKey("w", 1, "s")
    queue.attach_stage("t", key, 0.0)
    queue.request_capacity("t", 10, 100_000)
    assert granted(queue) == 2
    queue.send("t", 0, batch(b"1", b"2"), 0.0, 0)
    queue.take_effects()
    alter(queue, max_staged_messages=5)
    assert granted(queue) == 2, "beside the one by which it would have been told that there is no room"
    queue.send("t", 2, batch(b"3", b"4", b"5"), 0.0, 0)
    alter(queue, max_staged_messages=1)
    assert queue.log.staged_messages == 5
    assert not [effect for effect in queue.take_effects() if isinstance(effect, Refuse)]


# Durability


def test_whatever_goes_out_behind_a_change_waits_for_its_record() -> None:
    queue = queue_of()
    sending(queue)
    queue.send("s", 0, batch(b"1"), 0.0, 0)
    queue.attach_receiver("r")
    alter(queue, after=70, visibility_timeout=3.0)
    queue.receive("r", 1, LARGE, 0.0)
    assert [each.after for each in delivered(queue)] == [70]


def test_a_queue_that_failed_goes_on_with_the_settings_of_now() -> None:
    queue = queue_of(max_messages=5)
    alter(queue, max_messages=9, overflow=REJECT)
    queue.reset(0.0)
    sending(queue, messages=20)
    assert granted(queue) == 20
    assert queue.send("s", 0, batch(*[b"m"] * 10), 0.0, 0) is None
    assert queue.send("s", 0, batch(*[b"m"] * 9), 0.0, 0) == 0


# Step by step


def with_many_that_failed(count: int) -> QueueState:
    """Every other of so many messages of their own failed once, and all are ready."""
    queue = queue_of(max_receives=9)
    sending(queue)
    for number in range(count):
        queue.send("s", number, batch(b"m"), 0.0, 0)
    queue.attach_receiver("r")
    queue.receive("r", count, LARGE, 0.0)
    queue.cancel_demand("r")
    queue.negative_acknowledge("r", [(number, 1) for number in range(count)], 0.0, 0.0, failed=False)
    queue.receive("r", count, LARGE, 0.0)
    queue.cancel_demand("r")
    queue.negative_acknowledge("r", [(number, 1) for number in range(0, count, 2)], 0.0, 0.0)
    queue.negative_acknowledge("r", [(number, 1) for number in range(1, count, 2)], 0.0, 0.0, failed=False)
    queue.take_effects()
    return queue


def test_what_came_back_is_judged_in_steps_and_nothing_is_delivered_before_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judging, "JUDGE_BUDGET", 10)
    queue = with_many_that_failed(100)
    alter(queue, max_receives=1)
    queue.receive("r", 100, LARGE, 0.0)
    queue.open_subscription("o", "sub", "own", epoch=None, starting="earliest", owner_timeout=None)
    queue.reserve("o", 1, 0, messages=5, size=LARGE, wait=0.0, below=None, now=0.0)
    assert queue.statistics(0.0).reserved == 0
    steps = 1
    while queue.judging is not None:
        assert delivered(queue) == []
        assert queue.next_deadline() == 0.0
        assert queue.outbox.messages <= 10 * steps
        queue.tick(0.0)
        steps += 1
    assert steps >= 10
    assert [effect.first for effect in delivered(queue)] == list(range(1, 100, 2))


def test_what_waits_to_leave_comes_back_in_steps_and_leaves_as_if_it_had_waited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queue = with_many_that_failed(200)
    alter(queue, max_receives=1)
    assert queue.outbox.messages == 100
    sent = {number for span in queue.outbox.sent for number in range(span.start, span.stop)}
    monkeypatch.setattr(judging, "JUDGE_BUDGET", 10)
    queue.take_effects()
    alter(queue, max_receives=3)
    # The second was handed over before, and answered for too late.
    queue.dead_letters_stored(((0, 1), (198, 199)), 0.0)
    assert not [effect for effect in queue.take_effects() if isinstance(effect, DeadLetter)], "it is in doubt"
    while queue.judging is not None:
        assert queue.outbox.messages + queue.ready.messages == 198
        queue.tick(0.0)
    assert queue.outbox.messages == len(sent) - 1 == DEAD_LETTER_BATCHES - 1
    queue.receive("r", 200, LARGE, 0.0)
    assert [effect.first for effect in delivered(queue)] == [n for n in range(200) if n not in sent | {198}]


def test_other_settings_in_the_midst_of_it_begin_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "JUDGE_BUDGET", 10)
    queue = with_many_that_failed(100)
    for receives in (1, 2, 1):
        alter(queue, max_receives=receives)
        queue.tick(0.0)
        assert queue.judging is not None
    while queue.judging is not None:
        queue.tick(0.0)
    assert (queue.outbox.messages, queue.ready.messages) == (50, 50)
