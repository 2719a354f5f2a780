"""What has failed waits before it is tried again, longer each time, and over a restart; without a place it is dropped in the end."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import pytest

from actors.queue.state import retries
from actors.queue.state.retries import RETRY_JITTER, Retries, retry_delay
from actors.queue.vocabulary.commands import Left, Rejected
from actors.queue.vocabulary.events import MessagesDropped, MessagesReturned
from actors.queue.vocabulary.replies import MessagesTaken, ReceivedMessages, Tell
from actors.queue.vocabulary.settings import MAX_RECEIVES_LIMIT, REJECTED_FAILURES, QueueSettings
from tests.actors.driven import QueueState, reason_of, replayed
from tests.actors.test_queue_state_dead_letters import LARGE, US, Recorded

WAITS = QueueSettings(retry_delay=2.0, retry_max_delay=10.0)
THRICE = QueueSettings(retry_delay=2.0, retry_max_delay=10.0, max_receives=3)
DROPS = QueueSettings(max_receives=2, drop_failed=True)


@pytest.fixture(autouse=True)
def without_jitter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "RETRY_JITTER", 0.0)


def numbers(q: Recorded, now: float) -> list[int]:
    """What can be received now, which is held from then on."""
    return [n for e in q.receive(now=now) for n in range(e.first, e.first + len(e.batch))]


def restarted(q: Recorded, now: float, wall_us: int) -> Recorded:
    """The queue as a start finds it."""
    after = Recorded(q.state.settings, log=replayed(q.events))
    after.events = list(q.events)
    after.state = QueueState(
        "q0", 0, q.state.settings, log=replayed(q.events), record=after.record, now=now, wall_us=wall_us
    )
    after.attach()
    return after


def test_each_failure_has_a_message_wait_twice_as_long_up_to_the_most() -> None:
    q = Recorded(WAITS)
    q.send(1)
    now = 0.0
    for wait in (2.0, 4.0, 8.0, 10.0, 10.0):
        assert numbers(q, now) == [0]
        q.return_all(1, now=now)
        assert q.counts(now)[0] == 0
        assert q.state.next_deadline() == now + wait
        q.state.tick(now + wait - 0.001)
        assert numbers(q, now + wait - 0.001) == []
        now += wait
        q.state.tick(now)


def test_a_delay_of_its_own_goes_before_that_of_the_queue() -> None:
    q = Recorded(WAITS)
    q.send(1)
    assert numbers(q, 0.0) == [0]
    q.state.negative_acknowledge("r", [(0, 1)], 0.5, 0.0)
    assert q.state.next_deadline() == 0.5


def test_what_nobody_tried_comes_again_at_once_and_has_not_failed() -> None:
    q = Recorded(THRICE)
    q.send(1)
    for _ in range(10):
        assert numbers(q, 0.0) == [0]
        q.state.negative_acknowledge("r", [(0, 1)], 0.0, 0.0, failed=False)
    assert numbers(q, 0.0) == [0]
    assert [type(event) for event in q.events[1:]] == []


def test_a_lost_receiver_and_a_lease_that_is_over_have_messages_wait() -> None:
    q = Recorded(WAITS)
    q.send(2)
    assert numbers(q, 0.0) == [0, 1]
    q.state.tick(10.0)
    assert numbers(q, 10.0) == []
    q.state.tick(12.0)
    assert numbers(q, 12.0) == [0, 1]
    q.state.detach("r", 12.0)
    q.state.attach_receiver("r")
    assert numbers(q, 12.0) == []
    q.state.tick(16.0)
    assert numbers(q, 16.0) == [0, 1]


def test_what_is_worn_out_leaves_at_once_however_long_it_would_wait() -> None:
    q = Recorded(THRICE)
    q.send(1)
    for now in (0.0, 2.0, 6.0):
        q.state.tick(now)
        assert numbers(q, now) == [0]
        q.return_all(1, now=now)
    (letter,) = q.dead_letters()
    assert reason_of(letter) == "max-receives"
    returned = q.events[-1]
    assert isinstance(returned, MessagesReturned)
    assert (returned.returns, returned.delays) == (((0, 1, 3),), ())


def test_what_waits_for_its_retry_waits_on_after_a_kill_and_no_longer() -> None:
    q = Recorded(WAITS)
    q.send(3)
    assert numbers(q, 0.0) == [0, 1, 2]
    q.return_all(2, now=0.0)
    assert q.events[-1] == MessagesReturned(((0, 2, 1),), 0, (2 * US,))
    after = restarted(q, 100.0, round(1.5 * US))
    assert numbers(after, 100.0) == [2], "what was held comes at once"
    assert after.state.next_deadline() is not None
    after.state.tick(100.5)
    assert numbers(after, 100.5) == [0, 1]
    after.return_all(2, now=100.5)
    after.state.tick(104.4)
    assert numbers(after, 104.4) == [], "the second failure counts on from the first"
    after.state.tick(104.5)
    assert numbers(after, 104.5) == [0, 1]


@pytest.mark.parametrize("how", ["given back", "lost", "lease over"])
def test_a_wait_is_kept_over_a_restart_though_nothing_was_stored_since_the_time_of_day_was_set(how: str) -> None:
    q = Recorded(WAITS)
    q.send(1)
    assert numbers(q, 0.0) == [0]
    lease, leapt = q.state.settings.visibility_timeout, 1_000_000 * US
    failed_at = lease if how == "lease over" else 1.0
    match how:
        case "given back":
            q.state.execute(Rejected([(0, 1)], 0.0, True, cast("Any", "r")), failed_at, leapt)
        case "lost":
            q.state.forget("r", failed_at, leapt)
        case _:
            q.state.tick(failed_at, leapt)
    assert q.events[-1] == MessagesReturned(((0, 1, 1),), leapt, (2 * US,))
    after = restarted(q, 100.0, leapt + US)
    assert numbers(after, 100.0) == []
    after.state.tick(101.0)
    assert numbers(after, 101.0) == [0]


def test_a_time_of_day_that_went_back_makes_no_wait_longer() -> None:
    q = Recorded(WAITS)
    q.state.clocks.mark(0, 0.0, 5_000 * US, 0)
    q.send(1)
    assert numbers(q, 0.0) == [0]
    q.return_all(1, now=0.0)
    after = restarted(q, 100.0, 0)
    after.state.tick(102.0)
    assert numbers(after, 102.0) == [0]


def test_what_was_to_be_tried_while_the_broker_was_down_is_there_at_once() -> None:
    q = Recorded(WAITS)
    q.send(1)
    assert numbers(q, 0.0) == [0]
    q.return_all(1, now=0.0)
    after = restarted(q, 100.0, 60 * US)
    assert numbers(after, 100.0) == [0]
    assert not after.state.log.retries


def test_a_wait_that_is_over_is_forgotten_and_so_is_that_of_what_is_gone() -> None:
    q = Recorded(WAITS)
    q.send(4)
    assert numbers(q, 0.0) == [0, 1, 2, 3]
    q.return_all(4, now=0.0)
    assert [(each.start, each.stop) for each in q.state.log.retries] == [(0, 4)]
    assert q.state.purge() == 4
    assert not q.state.log.retries
    assert not replayed(q.events).retries
    q.send(1, 1.0)
    assert numbers(q, 1.0) == [4]
    q.return_all(1, first=4, now=1.0)
    q.state.tick(3.0)
    assert not q.state.log.retries


def test_an_event_that_is_seen_again_changes_nothing() -> None:
    q = Recorded(WAITS)
    q.send(3)
    assert numbers(q, 0.0) == [0, 1, 2]
    q.return_all(2, now=0.0)
    log = replayed(q.events)
    before = log.retries.rows()
    log.apply(q.events[-1], len(q.events))
    assert log.retries.rows() == before == [(0, 2, 2 * US, 2 * US)]


def test_over_the_most_that_may_wait_what_fails_comes_back_at_once_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.queue.operations.failing.MAX_DELAYED", 2)
    q = Recorded(WAITS)
    for _ in range(4):
        q.send(1)
    assert numbers(q, 0.0) == [0, 1, 2, 3]
    q.return_all(4, now=0.0)
    assert numbers(q, 0.0) == [2, 3]
    q.state.tick(2.0)
    assert numbers(q, 2.0) == [0, 1]


def test_in_an_exclusive_queue_nothing_passes_what_waits_for_its_retry() -> None:
    q = Recorded(QueueSettings(retry_delay=2.0, exclusive=True))
    q.send(2)
    assert [e.first for e in q.receive(1)] == [0]
    q.return_all(1, now=0.0)
    assert numbers(q, 0.0) == []
    q.state.tick(2.0)
    assert numbers(q, 2.0) == [0, 1]


@pytest.mark.parametrize("failures", [1, 2, 3, 50, MAX_RECEIVES_LIMIT])
def test_a_delay_differs_from_message_to_message_within_its_share(
    monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    monkeypatch.setattr(retries, "RETRY_JITTER", RETRY_JITTER)
    plain = min(2.0 * 2 ** min(failures - 1, 20), 10.0)
    found = [retry_delay(WAITS, failures, number) for number in range(100)]
    assert found == [retry_delay(WAITS, failures, number) for number in range(100)], "a start comes to the same"
    assert all(plain * 0.8 <= delay <= plain * 1.2 for delay in found)
    steps = sorted(found)
    widest = max(later - sooner for sooner, later in pairwise(steps))
    assert widest < 0.4 * plain * 0.05, "what failed together is spread over all of it"


def test_without_a_retry_delay_nothing_waits_and_one_above_the_most_is_not_cut() -> None:
    assert retry_delay(QueueSettings(), 5, 0) == 0.0
    assert retry_delay(QueueSettings(retry_delay=90.0), 1, 0) == 90.0
    assert retry_delay(QueueSettings(retry_delay=90.0), 9, 0) == 90.0
    assert retry_delay(QueueSettings(retry_delay=3.0, retry_max_delay=0.0), 4, 0) == 3.0


def test_a_log_that_sees_no_wait_end_keeps_a_bounded_number_and_those_that_are_due_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retries, "MAX_DELAYED", 10)
    kept = Retries()
    for number in range(0, 200, 2):
        kept.note(number, number + 1, number, 1)
    rows = kept.rows()
    assert len(rows) <= 30
    assert [row[0] for row in rows[-10:]] == list(range(180, 200, 2))


# --- no place for dead letters


def test_what_has_failed_too_often_is_dropped_where_the_queue_says_so() -> None:
    q = Recorded(DROPS)
    q.send(2)
    assert numbers(q, 0.0) == [0, 1]
    q.return_all(2, now=0.0)
    assert numbers(q, 0.0) == [0, 1]
    q.state.acknowledge("r", [(1, 1)])
    q.return_all(1, now=0.0)
    assert q.dead_letters() == []
    assert q.events[-1] == MessagesDropped(((0, 1),))
    assert (q.counts(), q.state.log.total_dropped) == ((0, 0, 0), 1)
    assert q.state.log.stored_messages == 0


def test_a_queue_that_drops_keeps_no_dead_letters_and_gives_its_room_back() -> None:
    q = Recorded(QueueSettings(max_messages=1, max_receives=1, drop_failed=True))
    assert not q.state.settings.keeps_dead_letters
    q.state.request_capacity("s", 1, LARGE)
    q.state.take_effects()
    q.send(1)
    assert numbers(q, 0.0) == [0]
    q.return_all(1, now=0.0)
    assert [getattr(effect, "messages", 0) for effect in q.state.take_effects()] == [1], "there is room for another"


def test_what_a_receiver_refuses_for_good_is_kept_where_a_place_is_named_without_a_limit() -> None:
    q = Recorded(QueueSettings(dead_letter_queue="lost"))
    q.send(2)
    for _ in range(20):
        assert numbers(q, 0.0) == [0, 1]
        q.return_all(2, now=0.0)
    assert len(q.events) == 1, "nothing is counted that has no limit"
    assert numbers(q, 0.0) == [0, 1]
    q.state.execute(Rejected([(0, 1)], 0.0, True, "r", "no such order", drops=True), 0.0, 0)  # type: ignore[arg-type]
    (letter,) = q.dead_letters()
    assert (letter.queue, reason_of(letter)) == ("lost", "rejected")
    assert q.events[-1] == MessagesReturned(((0, 1, REJECTED_FAILURES),))


# --- receivers that leave it to the queue what counts


@pytest.mark.parametrize(("settings", "failed"), [(THRICE, True), (QueueSettings(), False), (WAITS, True)])
def test_a_receiver_may_leave_it_to_the_queue_whether_what_it_gives_back_has_failed(
    settings: QueueSettings, failed: bool
) -> None:
    q = Recorded(settings)
    q.send(2)
    assert numbers(q, 0.0) == [0, 1]
    q.state.execute(Rejected([(0, 1)], 0.0, None, "r"), 0.0, 0)  # type: ignore[arg-type]
    q.state.execute(Left(None, "r"), 0.0, 0)  # type: ignore[arg-type]
    returned = [event.returns for event in q.events if isinstance(event, MessagesReturned)]
    assert returned == ([((0, 1, 1),), ((1, 2, 1),)] if failed else [])


def test_of_what_one_held_that_leaves_that_has_not_failed_which_its_client_never_had() -> None:
    q = Recorded(THRICE)
    q.send(3)
    assert numbers(q, 0.0) == [0, 1, 2]
    q.state.execute(Left(None, "r", unseen=[(1, 2)]), 0.0, 0)  # type: ignore[arg-type]
    assert [event.returns for event in q.events if isinstance(event, MessagesReturned)] == [((0, 1, 1),)]


# --- what receivers are told


def told(state: QueueState, kind: type) -> list[Any]:
    effects = queue_effects(state)
    return [effect.reply for effect in effects if isinstance(effect, Tell) and isinstance(effect.reply, kind)]


def queue_effects(state: QueueState) -> list[Any]:
    from actors.queue.state.core import QueueCore

    return QueueCore.take_effects(state)


def test_a_delivery_says_how_often_a_message_has_failed_beside_how_often_it_was_delivered() -> None:
    q = Recorded(QueueSettings(max_receives=5))
    q.send(1)
    found = []
    for failed in (True, False, True, True):
        q.state.receive("r", 1, LARGE, 0.0)
        (received,) = told(q.state, ReceivedMessages)
        found.append((received.delivery_count, received.failures))
        q.state.negative_acknowledge("r", [(0, 1)], 0.0, 0.0, failed)
    assert found == [(1, 0), (2, 1), (3, 1), (4, 2)]
    assert told(q.state, MessagesTaken) == []
