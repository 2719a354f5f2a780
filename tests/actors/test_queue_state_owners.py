"""Owners of a subscription: epochs, readers, and what becomes of reservations when nobody owns it."""

from __future__ import annotations

import pytest

from actors.errors import (
    DataLossError,
    InvalidRequestError,
    QueueLimitError,
    StaleEpochError,
    SubscriptionNotFoundError,
    SubscriptionOwnedError,
)
from actors.queue.operations import subscribing
from actors.queue.vocabulary.events import Event
from actors.queue.vocabulary.replies import SubscriptionOpened as SubscriptionFacts
from actors.queue.vocabulary.settings import QueueSettings
from tests.actors.driven import Deliver, QueueState, Refuse, Reserved, replayed
from tests.actors.subscribing import (
    LARGE,
    answers,
    ask,
    fetched,
    own,
    payloads,
    plainly,
    queue_with,
    read,
    reserve,
    snapshot_of,
    store,
)


def test_each_owner_has_a_greater_epoch_and_the_older_one_is_stale() -> None:
    queue = queue_with(4)
    assert own(queue, "one") == SubscriptionFacts(1, 0, 0, 4)
    ask(queue, 0, 2, connection="one")
    assert own(queue, "two") == SubscriptionFacts(2, 0, 2, 4)
    for command in (
        lambda: ask(queue, 2, 1, connection="one"),
        lambda: queue.commit_position("one", 1),
        lambda: queue.fetch("one", 0, 1),
    ):
        with pytest.raises(StaleEpochError, match="subscription of its own") as caught:
            command()
        assert (caught.value.code, caught.value.epoch, caught.value.current) == ("stale-epoch", 1, 2)
    assert fetched(queue, 0, 2, "two") == payloads(0, 1)


def test_an_owners_wait_ends_when_another_takes_over() -> None:
    queue = queue_with()
    own(queue, "one")
    ask(queue, 0, 5, wait=5.0, connection="one")
    own(queue, "two")
    (refusal,) = queue.take_effects()
    assert isinstance(refusal, Refuse)
    assert (refusal.connection, refusal.code, refusal.request, refusal.close) == ("one", "stale-epoch", 1, False)
    store(queue, 1)
    assert queue.statistics(0.0).ready == 1
    assert queue.next_deadline() is None


def test_readers_fetch_for_their_owner_only() -> None:
    queue = queue_with(4)
    own(queue)
    reserve(queue, 0, 4)
    assert read(queue, "reader", 1) == SubscriptionFacts(1, 0, 4, 4)
    assert fetched(queue, 1, 3, "reader") == payloads(1, 2)
    with pytest.raises(InvalidRequestError, match="only the owner"):
        queue.commit_position("reader", 1)
    with pytest.raises(InvalidRequestError, match="only the owner"):
        ask(queue, 4, 1, connection="reader")
    own(queue, "next")
    with pytest.raises(StaleEpochError):
        queue.fetch("reader", 1, 3)
    with pytest.raises(StaleEpochError):
        read(queue, "late", 1)


def test_a_subscription_must_be_opened_as_the_protocol_says() -> None:
    queue = queue_with(1)
    with pytest.raises(SubscriptionNotFoundError, match="'other'"):
        read(queue, "reader", 1, "other")
    own(queue)
    with pytest.raises(InvalidRequestError, match="epoch"):
        read(queue, "reader", None)
    with pytest.raises(InvalidRequestError, match="'steal'"):
        queue.open_subscription("x", "sub", "steal", epoch=None, starting="earliest", owner_timeout=None)
    with pytest.raises(InvalidRequestError, match="'middle'"):
        own(queue, "x", starting="middle")
    with pytest.raises(InvalidRequestError, match="in the past"):
        own(queue, "x", owner_timeout=-1.0)
    with pytest.raises(InvalidRequestError, match="'sub' open"):
        own(queue)
    with pytest.raises(InvalidRequestError, match="no subscription open"):
        queue.fetch("x", 0, 0)
    with pytest.raises(InvalidRequestError, match="backwards"):
        queue.fetch("owner", 1, 0)
    with pytest.raises(InvalidRequestError, match="at least"):
        ask(queue, 0, 0)
    with pytest.raises(SubscriptionNotFoundError):
        queue.release_subscription("other", 0.0)


def test_the_subscriptions_of_a_queue_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribing, "MAX_SUBSCRIPTIONS", 1)
    queue = queue_with()
    own(queue)
    with pytest.raises(QueueLimitError, match="MAX_SUBSCRIPTIONS of 1"):
        queue.open_subscription("x", "second", "own", epoch=None, starting="earliest", owner_timeout=None)
    own(queue, "again")


def test_reservations_do_not_expire() -> None:
    queue = queue_with(3)
    own(queue)
    reserve(queue, 0, 3)
    assert queue.next_deadline() is None
    queue.tick(1e6)
    assert queue.statistics(1e6).reserved == 3


def test_released_messages_come_back_in_their_old_place_possibly_replayed() -> None:
    queue = queue_with(3, 3)
    own(queue)
    reserve(queue, 0, 2)
    queue.attach_receiver("r")
    assert queue.release_subscription("sub", 0.0, force=True) == 2
    queue.receive("r", 10, LARGE, 0.0)
    effects = [e for e in queue.take_effects() if isinstance(e, Deliver)]
    assert [(e.first, len(e.batch), e.delivery_count, e.possibly_replayed) for e in effects] == [
        (0, 2, 2, True),
        (2, 1, 1, False),
        (3, 3, 1, False),
    ]
    (facts,) = queue.statistics(0.0).subscriptions
    assert (facts.base, facts.high) == (2, 2)
    assert queue.release_subscription("sub", 0.0, force=True) == 0
    with pytest.raises(DataLossError):
        queue.fetch("owner", 0, 2)


def test_nothing_is_released_from_an_owner_that_is_connected_unless_it_is_forced() -> None:
    queue = queue_with(3)
    plainly(queue, "owner", "spark@vm/7")
    reserve(queue, 0, 2)
    with pytest.raises(SubscriptionOwnedError, match=r"\(spark@vm/7\): end that one first.* With force"):
        queue.release_subscription("sub", 0.0)
    assert queue.statistics(0.0).reserved == 2
    queue.detach("owner", 1.0)
    assert queue.release_subscription("sub", 1.0) == 2
    own(queue, "next")
    ask(queue, 2, 2, connection="next")
    assert queue.release_subscription("sub", 2.0, force=True) == 2


def test_an_owner_away_for_too_long_loses_its_reservations() -> None:
    queue = queue_with(3)
    own(queue, owner_timeout=30.0)
    reserve(queue, 0, 3)
    queue.detach("owner", 100.0)
    assert queue.next_deadline() == 130.0
    queue.tick(129.9)
    assert queue.statistics(129.9).reserved == 3
    queue.tick(130.0)
    assert (queue.statistics(130.0).reserved, queue.statistics(130.0).ready) == (0, 3)


def test_an_owner_that_comes_back_in_time_keeps_its_reservations() -> None:
    queue = queue_with(3)
    own(queue, owner_timeout=30.0)
    reserve(queue, 0, 3)
    queue.detach("owner", 100.0)
    assert own(queue, "again", owner_timeout=30.0) == SubscriptionFacts(2, 0, 3, 3)
    queue.tick(1000.0)
    assert fetched(queue, 0, 3, "again") == payloads(0, 1, 2)


def test_readers_do_not_stand_in_for_an_owner_nor_do_those_replaced() -> None:
    queue = queue_with(3)
    own(queue, "one", owner_timeout=30.0)
    own(queue, "two", owner_timeout=30.0)
    read(queue, "reader", 2)
    queue.detach("one", 0.0)
    assert queue.next_deadline() is None, "another owns it"
    queue.detach("two", 5.0)
    assert queue.next_deadline() == 35.0
    queue.detach("reader", 6.0)
    assert queue.next_deadline() == 35.0


def test_a_waiting_owner_that_detaches_waits_no_more() -> None:
    queue = queue_with()
    own(queue)
    ask(queue, 0, 5, wait=5.0)
    queue.detach("owner", 0.0)
    store(queue, 2)
    assert answers(queue) == []
    assert queue.statistics(0.0).ready == 2


def test_an_owner_that_is_connected_is_not_replaced_unasked_and_named() -> None:
    queue = queue_with(4)
    plainly(queue, "one", "host/1")
    before = snapshot_of(queue.log.ledgers["sub"])
    with pytest.raises(
        SubscriptionOwnedError,
        match=r"'sub' has an owner that is connected \(host/1\): end that one, or take the subscription over$",
    ):
        plainly(queue, "two", "host/2")
    assert snapshot_of(queue.log.ledgers["sub"]) == before
    ask(queue, 0, 2, connection="one")
    queue.detach("one", 0.0)
    assert plainly(queue, "two", "host/2").epoch == 2
    with pytest.raises(SubscriptionOwnedError, match="host/2"):
        plainly(queue, "three")


def test_a_restarted_queue_has_no_owner_that_lives() -> None:
    events: list[Event] = []
    plainly(queue_with(events=events), "one")
    again = QueueState("q", 0, QueueSettings(), log=replayed(events))
    assert plainly(again, "two").epoch == 2


def test_a_reservation_says_how_many_subscriptions_live() -> None:
    queue = queue_with(4)
    plainly(queue, "one")
    queue.open_subscription("x", "other", "own", epoch=None, starting="earliest", owner_timeout=None)
    live = []
    for start in range(2):
        ask(queue, start, 1, connection="one")
        live += [e.facts.live_subscriptions for e in queue.take_effects() if isinstance(e, Reserved)]
        queue.detach("x", 0.0)
    assert live == [2, 1]


def test_the_picture_says_who_owns_a_subscription_and_since_when_nobody_does() -> None:
    queue = queue_with(4)
    plainly(queue, "one", "host/1", now=1.0)
    ask(queue, 0, 1, connection="one")
    [facts] = queue.statistics(5.0).subscriptions
    assert (facts.owned, facts.owner, facts.backlog, facts.opened_us, facts.idle_ms) == (True, "host/1", 4, 7, 0)
    queue.detach("one", 6.0)
    [facts] = queue.statistics(8.5).subscriptions
    assert (facts.owned, facts.owner, facts.idle_ms) == (False, "host/1", 2500)
