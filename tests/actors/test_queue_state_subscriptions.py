"""Delivery ledgers of a `QueueState`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.batch import MessageBatch
from actors.errors import (
    DataLossError,
    InvalidRequestError,
    QueueLimitError,
    StaleEpochError,
    SubscriptionNotFoundError,
    SubscriptionOwnedError,
)
from actors.queue.operations import subscribing
from actors.queue.state.subscriptions import Ledger
from actors.queue.vocabulary.events import Event, SubscriptionDeleted
from actors.queue.vocabulary.replies import SubscriptionOpened as SubscriptionFacts
from actors.queue.vocabulary.settings import MAX_RESERVE_WAIT_SECONDS, QueueSettings
from tests.actors.driven import Deliver, Opening, QueueState, Refuse, ReservationFacts, Reserved, replayed

LARGE = 10**9


def snapshot_of(ledger: Ledger) -> tuple[object, ...]:
    """Everything that a checkpoint has of it."""
    return ledger.facts(), ledger.all_segments(), ledger.opened_us


def queue_with(*sizes: int, events: list[Event] | None = None) -> QueueState:
    queue = QueueState("q", 0, QueueSettings(), record=None if events is None else into(events))
    queue.attach_sender("s", None)
    queue.request_capacity("s", 100_000, 10**8)
    for size in sizes:
        store(queue, size)
    queue.take_effects()
    return queue


def store(queue: QueueState, count: int, now: float = 0.0) -> None:
    first = queue.log.next_sequence
    queue.send("s", first, MessageBatch.from_payloads([b"%03d" % n for n in range(first, first + count)]), now, 0)


def own(
    queue: QueueState, connection: str = "owner", *, starting: str = "earliest", owner_timeout: float | None = None
) -> SubscriptionFacts:
    opening = Opening(take_over=True)
    return queue.open_subscription(
        connection, "sub", "own", epoch=None, starting=starting, owner_timeout=owner_timeout, opening=opening
    )


def read(queue: QueueState, connection: str, epoch: int | None, name: str = "sub") -> SubscriptionFacts:
    return queue.open_subscription(connection, name, "read", epoch=epoch, starting="earliest", owner_timeout=None)


def answers(queue: QueueState) -> list[tuple[object, int, int]]:
    """Consumer, request and end of the reservations answered since the last call."""
    return [(e.consumer, e.request, e.end) for e in queue.take_effects() if isinstance(e, Reserved)]


def ask(
    queue: QueueState,
    start: int,
    messages: int,
    *,
    size: int = LARGE,
    wait: float = 0.0,
    below: int | None = None,
    now: float = 0.0,
    connection: str = "owner",
) -> None:
    queue.reserve(connection, 1, start, messages=messages, size=size, wait=wait, below=below, now=now)


def reserve(queue: QueueState, start: int, messages: int, *, size: int = LARGE, below: int | None = None) -> int:
    """The end of what a reservation that does not wait gets."""
    ask(queue, start, messages, size=size, below=below)
    ((_, _, end),) = answers(queue)
    return end


def fetched(queue: QueueState, start: int, stop: int, connection: str = "owner") -> list[bytes]:
    return [payload for part in queue.fetch(connection, start, stop) for payload in part.batch.payloads]


def payloads(*numbers: int) -> list[bytes]:
    return [b"%03d" % n for n in numbers]


def test_a_reservation_takes_all_that_is_ready_up_to_its_size() -> None:
    queue = queue_with(3, 3, 3)
    own(queue)
    assert reserve(queue, 0, 7) == 7
    assert fetched(queue, 0, 7) == payloads(*range(7))
    assert queue.statistics(0.0).reserved == 7


def test_a_reservation_repeated_takes_nothing_more() -> None:
    queue = queue_with(10)
    own(queue)
    assert reserve(queue, 0, 4) == 4
    assert reserve(queue, 0, 4) == 4
    assert reserve(queue, 0, 3) == 3
    assert reserve(queue, 0, 100) == 4
    assert queue.statistics(0.0).reserved == 4
    assert reserve(queue, 4, 100) == 10


def test_a_reservation_is_within_its_bytes_but_for_one_message() -> None:
    queue = queue_with(5, 5)  # 7 bytes a message, 4 more a part
    own(queue)
    assert reserve(queue, 0, 10, size=1) == 1
    assert reserve(queue, 1, 10, size=4 + 2 * 7) == 3
    assert reserve(queue, 3, 10, size=4 + 2 * 7 + 10) == 5
    assert reserve(queue, 5, 10, size=4 + 3 * 7 - 1) == 7


def test_a_fetch_gives_any_part_again_and_again() -> None:
    queue = queue_with(4, 4)
    own(queue)
    reserve(queue, 0, 8)
    for _ in range(2):
        assert fetched(queue, 2, 6) == payloads(2, 3, 4, 5)
        assert fetched(queue, 3, 3) == []
    ranges = queue.fetch("owner", 1, 7)
    assert [len(part.batch) for part in ranges] == [3, 3]
    assert [(part.position, part.first) for part in ranges] == [(1, 1), (4, 4)]
    head, tail = next(iter(ranges)).split(2)
    assert (head.position, head.first, head.batch.payloads.tolist()) == (1, 1, payloads(1, 2))
    assert (tail.position, tail.first, tail.batch.payloads.tolist()) == (3, 3, payloads(3))


def test_what_is_committed_while_it_is_read_is_an_error_to_who_reads_it_and_not_a_short_answer() -> None:
    queue = queue_with(2, 2)
    own(queue)
    reserve(queue, 0, 4)
    ranges = iter(queue.fetch("owner", 0, 4))
    next(ranges)
    queue.commit_position("owner", 4)
    with pytest.raises(DataLossError, match="positions 2 to 4"):
        next(ranges)


def test_committing_is_cumulative_and_can_be_repeated() -> None:
    queue = queue_with(4, 4)
    own(queue)
    reserve(queue, 0, 8)
    assert queue.commit_position("owner", 3) == 3
    assert queue.commit_position("owner", 3) == 3
    assert queue.commit_position("owner", 1) == 3
    assert fetched(queue, 3, 8) == payloads(*range(3, 8))
    assert queue.commit_position("owner", 6) == 6
    assert fetched(queue, 6, 8) == payloads(6, 7)
    assert queue.commit_position("owner", 8) == 8
    statistics = queue.statistics(0.0)
    assert (statistics.reserved, statistics.stored_messages, statistics.total_acknowledged) == (0, 0, 8)
    assert queue.log.table.at(7) is None


@pytest.mark.parametrize(("start", "stop"), [(1, 4), (3, 9), (9, 9)])
def test_positions_that_are_gone_or_were_never_there_are_data_loss(start: int, stop: int) -> None:
    queue = queue_with(8)
    own(queue)
    reserve(queue, 0, 8)
    queue.commit_position("owner", 2)
    with pytest.raises(DataLossError) as caught:
        queue.fetch("owner", start, stop)
    assert (caught.value.code, caught.value.base, caught.value.high, caught.value.close) == ("data-loss", 2, 8, False)


def test_reserving_or_committing_outside_of_the_ledger_is_data_loss() -> None:
    queue = queue_with(8)
    own(queue)
    reserve(queue, 0, 4)
    queue.commit_position("owner", 2)
    for start in (1, 5):
        with pytest.raises(DataLossError):
            ask(queue, start, 1)
    with pytest.raises(DataLossError):
        queue.commit_position("owner", 5)


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


def test_below_leaves_what_is_newer_alone() -> None:
    queue = queue_with(4, 4)
    own(queue)
    assert reserve(queue, 0, 100, below=6) == 6
    assert reserve(queue, 6, 100, below=6) == 6
    assert queue.statistics(0.0).ready == 2


def test_starting_latest_takes_only_what_is_sent_after_the_creation() -> None:
    queue = queue_with(4)
    own(queue, starting="latest")
    assert reserve(queue, 0, 100) == 0
    store(queue, 3)
    assert reserve(queue, 0, 2) == 2
    assert fetched(queue, 0, 2) == payloads(4, 5)
    own(queue, "again", starting="latest")
    store(queue, 1)
    ask(queue, 2, 100, connection="again")
    assert answers(queue) == [("again", 1, 4)]
    assert fetched(queue, 2, 4, "again") == payloads(6, 7), "the first creation counts"
    queue.attach_receiver("r")
    queue.receive("r", 100, LARGE, 0.0)
    (delivery,) = (e for e in queue.take_effects() if isinstance(e, Deliver))
    assert (delivery.first, len(delivery.batch)) == (0, 4)
    assert (delivery.delivery_count, delivery.possibly_replayed) == (1, False)


def test_a_latest_subscription_passes_over_returned_and_half_delivered_messages() -> None:
    queue = queue_with(4)
    queue.attach_receiver("r")
    queue.receive("r", 2, LARGE, 0.0)
    queue.negative_acknowledge("r", [(0, 1)], 0.0, 0.0)
    own(queue, starting="latest")
    store(queue, 2)
    assert reserve(queue, 0, 100) == 2
    assert fetched(queue, 0, 2) == payloads(4, 5)
    queue.take_effects()
    queue.receive("r", 100, LARGE, 0.0)
    assert [e.first for e in queue.take_effects() if isinstance(e, Deliver)] == [0, 2]


def test_a_reservation_waits_for_its_first_message() -> None:
    queue = queue_with()
    own(queue)
    ask(queue, 0, 5, wait=5.0)
    assert answers(queue) == []
    assert queue.statistics(0.0).demand_waiting == 5
    store(queue, 3)
    assert answers(queue) == [("owner", 1, 3)]
    store(queue, 3)
    assert answers(queue) == [], "it is served once"
    assert (queue.statistics(0.0).demand_waiting, queue.next_deadline()) == (0, None)


def test_a_wait_that_ends_in_vain_is_answered_with_the_start() -> None:
    queue = queue_with()
    own(queue)
    ask(queue, 0, 5, wait=5.0, now=2.0)
    assert queue.next_deadline() == 7.0
    queue.tick(6.9)
    assert answers(queue) == []
    queue.tick(7.0)
    assert answers(queue) == [("owner", 1, 0)]
    store(queue, 1)
    assert queue.statistics(7.0).ready == 1


def test_no_wait_is_longer_than_the_limit() -> None:
    queue = queue_with()
    own(queue)
    ask(queue, 0, 5, wait=1000.0)
    assert queue.next_deadline() == MAX_RESERVE_WAIT_SECONDS


def test_a_second_reservation_ends_the_wait_of_the_first() -> None:
    queue = queue_with()
    own(queue)
    ask(queue, 0, 5, wait=5.0)
    ask(queue, 0, 5, wait=9.0)
    assert answers(queue) == [("owner", 1, 0)]
    assert (queue.statistics(0.0).demand_waiting, queue.next_deadline()) == (5, 9.0)


def test_a_waiting_reservation_and_receivers_share_what_comes() -> None:
    queue = queue_with()
    own(queue)
    queue.attach_receiver("r")
    queue.receive("r", 10, LARGE, 0.0)
    ask(queue, 0, 30, wait=5.0)
    store(queue, 20)
    effects = queue.take_effects()
    assert sum(len(e.batch) for e in effects if isinstance(e, Deliver)) == 5
    assert [e.end for e in effects if isinstance(e, Reserved)] == [15]


def test_a_reservation_that_may_not_have_what_is_ready_holds_nobody_up() -> None:
    queue = queue_with(2)
    own(queue)
    ask(queue, 0, 5, wait=5.0, below=0)
    queue.attach_receiver("r")
    queue.receive("r", 10, LARGE, 0.0)
    assert [len(e.batch) for e in queue.take_effects() if isinstance(e, Deliver)] == [2]


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
    assert queue.release_subscription("sub", 0.0) == 2
    queue.receive("r", 10, LARGE, 0.0)
    effects = [e for e in queue.take_effects() if isinstance(e, Deliver)]
    assert [(e.first, len(e.batch), e.delivery_count, e.possibly_replayed) for e in effects] == [
        (0, 2, 2, True),
        (2, 1, 1, False),
        (3, 3, 1, False),
    ]
    (facts,) = queue.statistics(0.0).subscriptions
    assert (facts.base, facts.high) == (2, 2)
    assert queue.release_subscription("sub", 0.0) == 0
    with pytest.raises(DataLossError):
        queue.fetch("owner", 0, 2)


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


def test_the_facts_tell_the_subscription_about_its_queue() -> None:
    queue = queue_with()
    queue.send("s", 0, MessageBatch.from_payloads([b"000", b"001"]), 10.0, 5_000_000)
    queue.send("s", 2, MessageBatch.from_payloads([b"002"] * 4), 12.0, 7_000_000)
    queue.attach_receiver("r")
    queue.receive("r", 1, LARGE, 12.0)
    own(queue)
    queue.take_effects()
    ask(queue, 0, 1, now=12.5)
    (answer,) = queue.take_effects()
    assert isinstance(answer, Reserved)
    # A sixteenth of the queue is what the first of its senders may hold at the beginning.
    granted = 1_000_000 // 16 - 6
    assert answer.facts == ReservationFacts(
        backlog=4,
        backlog_bytes=50 * 4 // 6,
        oldest_ms=500,
        sender_demand=granted,
        high_water=6,
        in_flight=1,
        full=False,
        reserved_bytes=MessageBatch.from_payloads([b"001"]).nbytes,
    )


def into(events: list[Event]) -> Callable[[Event], int]:
    def record(event: Event) -> int:
        events.append(event)
        return len(events)

    return record


def test_a_restart_keeps_the_ledgers_and_counts_the_owners_absence_from_then() -> None:
    queue = queue_with(6)
    own(queue, owner_timeout=30.0)
    reserve(queue, 0, 4)
    queue.commit_position("owner", 1)
    assert set(queue.reset(50.0)) == {"s", "owner"}
    assert (queue.statistics(50.0).reserved, queue.statistics(50.0).ready) == (3, 2)
    assert queue.next_deadline() == 80.0
    assert own(queue) == SubscriptionFacts(2, 1, 4, 6)
    assert fetched(queue, 1, 4) == payloads(1, 2, 3)


def test_a_queue_begun_from_replayed_events_goes_on_where_it_was() -> None:
    events: list[Event] = []
    queue = queue_with(6, events=events)
    own(queue)
    reserve(queue, 0, 4)
    queue.commit_position("owner", 1)
    log = replayed(events)
    assert log == queue.log
    again = QueueState("q", 0, QueueSettings(), log=log, now=7.0)
    assert own(again) == SubscriptionFacts(2, 1, 4, 6)
    assert fetched(again, 1, 4) == payloads(1, 2, 3)
    again.attach_receiver("r")
    again.receive("r", 10, LARGE, 7.0)
    (delivery,) = again.take_effects()
    assert isinstance(delivery, Deliver)
    assert (delivery.first, len(delivery.batch), delivery.possibly_replayed) == (4, 2, True)


def plainly(queue: QueueState, connection: str, client: str = "", now: float = 0.0) -> SubscriptionFacts:
    """Owns without taking over."""
    opening = Opening(client=client, now=now, wall_us=7)
    return queue.open_subscription(
        connection, "sub", "own", epoch=None, starting="earliest", owner_timeout=None, opening=opening
    )


def test_an_owner_that_is_connected_is_not_replaced_unasked_and_named() -> None:
    queue = queue_with(4)
    plainly(queue, "one", "host/1")
    before = snapshot_of(queue.log.ledgers["sub"])
    with pytest.raises(
        SubscriptionOwnedError, match=r"'sub' has an owner that is connected \(host/1\): .* \(take_over\)"
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


def test_a_deleted_subscription_is_gone_and_what_it_had_is_receivable_in_its_place() -> None:
    events: list[Event] = []
    queue = queue_with(4, events=events)
    plainly(queue, "one", "host/1")
    ask(queue, 0, 3, connection="one")
    read(queue, "reader", 1)
    with pytest.raises(SubscriptionOwnedError, match="host/1"):
        queue.release_subscription("sub", 1.0, delete=True)
    queue.detach("one", 1.0)
    queue.take_effects()
    assert queue.release_subscription("sub", 2.0, delete=True) == 3
    [told] = [effect for effect in queue.take_effects() if isinstance(effect, Refuse)]
    assert (told.connection, told.code, told.close) == ("reader", "not-found", True)
    facts = queue.statistics(2.0)
    assert (facts.subscriptions, facts.reserved, facts.ready) == ((), 0, 4)
    with pytest.raises(SubscriptionNotFoundError):
        queue.release_subscription("sub", 2.0, delete=True)
    queue.attach_receiver("receiver")
    queue.receive("receiver", 10, LARGE, 2.0)
    delivered = [(e.first, len(e.batch)) for e in queue.take_effects() if isinstance(e, Deliver)]
    assert sum(count for _, count in delivered) == 4
    assert delivered[0][0] == 0
    for log in (replayed(events), replayed([*events, *events])):
        assert log == queue.log


def test_one_that_is_made_after_a_deletion_shares_neither_epochs_nor_positions_with_what_was_deleted() -> None:
    """A checkpoint or a task of the deleted one would be taken for its own otherwise."""
    queue = queue_with(4)
    for connection in ("a", "b", "one"):
        own(queue, connection)
    ask(queue, 0, 3, connection="one")
    queue.detach("one", 1.0)
    queue.release_subscription("sub", 1.0, delete=True)
    assert plainly(queue, "two") == SubscriptionFacts(4, 3, 3, 4)
    with pytest.raises(StaleEpochError):
        read(queue, "reader", 1)
    with pytest.raises(DataLossError):
        ask(queue, 2, 1, connection="two")
    ask(queue, 3, 4, connection="two")
    assert fetched(queue, 3, 5, "two") == [b"000", b"001"]
    again = snapshot_of(queue.log.ledgers["sub"])
    queue.log.apply(SubscriptionDeleted("sub", 3, 3))
    assert snapshot_of(queue.log.ledgers["sub"]) == again


def test_an_absent_owners_deadline_ends_with_its_subscription() -> None:
    queue = queue_with(4)
    own(queue, "one", owner_timeout=30.0)
    ask(queue, 0, 3, connection="one")
    queue.detach("one", 0.0)
    queue.release_subscription("sub", 1.0, delete=True)
    assert queue.next_deadline() is None
    queue.tick(100.0)
    assert queue.log.ledgers == {}
