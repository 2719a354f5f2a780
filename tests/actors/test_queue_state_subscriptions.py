"""Subscriptions of the queue's state: reservations, fetches, commits, waiting, and deletion."""

from __future__ import annotations

import pytest

from actors.batch import MessageBatch
from actors.errors import (
    DataLossError,
    StaleEpochError,
    SubscriptionNotFoundError,
    SubscriptionOwnedError,
)
from actors.queue.vocabulary.events import Event, SubscriptionDeleted
from actors.queue.vocabulary.replies import SubscriptionOpened as SubscriptionFacts
from actors.queue.vocabulary.settings import MAX_RESERVE_WAIT_SECONDS, QueueSettings
from tests.actors.driven import Deliver, QueueState, Refuse, ReservationFacts, Reserved, replayed
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
    assert plainly(queue, "two") == SubscriptionFacts(4, 4, 4, 4)
    with pytest.raises(StaleEpochError):
        read(queue, "reader", 1)
    for position in (2, 3):
        # At 3 stands the checkpoint of a query that had read all that was reserved, and not acknowledged it.
        with pytest.raises(DataLossError):
            ask(queue, position, 1, connection="two")
    ask(queue, 4, 4, connection="two")
    assert fetched(queue, 4, 6, "two") == [b"000", b"001"]
    again = snapshot_of(queue.log.ledgers["sub"])
    queue.log.apply(SubscriptionDeleted("sub", 3, 4))
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
