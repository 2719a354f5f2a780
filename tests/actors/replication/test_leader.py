"""What a leader ships, commits and confirms, and when it stops."""

from __future__ import annotations

import pytest

from actors.replication.document import ALL, ASYNC, ONE
from actors.replication.leader import Leader
from actors.replication.limits import HAND_OVER_SECONDS, MAX_EPOCH_STARTS, MISS_SECONDS, OPEN_SECONDS, Limits
from actors.replication.modes import rule_of
from actors.replication.positions import Position
from actors.replication.vocabulary import (
    Commit,
    Confirm,
    Follow,
    Give,
    Open,
    Refused,
    Replicate,
    Ship,
    StepDown,
    Stored,
    TakeOver,
    TakeTransfer,
    Unpin,
)
from tests.actors.replication.machines import (
    A,
    B,
    C,
    D,
    E,
    append,
    document,
    follows,
    kinds,
    leading,
    log,
    sent,
    stores,
)


def confirmed(effects: list[object]) -> list[int]:
    """Tuples of two kinds are equal when their values are."""
    return [each.lsn for each in effects if isinstance(each, Confirm)]


def test_it_opens_when_its_first_record_is_committed_and_says_so_before_anybody_knows_of_it() -> None:
    leader = leading(log(1, 1), 2, document())
    assert not leader.opened
    follows(leader, B, log(1, 1, name="b"))
    assert stores(leader, B, 4) == [Open(2, True), Commit(4), Confirm(4)]


def test_a_record_of_an_earlier_epoch_is_committed_only_under_one_of_its_own() -> None:
    leader = leading(log(1, 1), 2, document())
    follows(leader, B, log(1, name="b"))
    assert stores(leader, B, 3) == []
    assert leader.committed == 1


def test_its_own_sync_is_not_enough_and_its_own_is_not_needed() -> None:
    disk = log(1)
    leader = leading(disk, 2, document())
    for peer in (B, C):
        follows(leader, peer, log(1))
        stores(leader, peer, 3)
    append(disk, 2)
    leader.appended(0.0)
    disk.durable = 4
    leader.synced()
    assert leader.committed == 3
    append(disk, 2)
    leader.appended(0.0)
    stores(leader, B, 5)
    effects = stores(leader, C, 5)
    assert confirmed(effects) == [5]
    assert [each.lsn for each in effects if isinstance(each, Commit)] == [4], "it folds what its own disk has"


def test_a_follower_is_shipped_from_where_the_logs_part() -> None:
    leader = leading(log(1, 1, 3), 4, document())
    (ship,) = follows(leader, B, log(1, 1, 2, 2, name="b"))
    assert isinstance(ship, Ship)
    assert (ship.to, ship.lsn) == (B, 3)
    assert isinstance(ship.message, Replicate)
    assert ship.message.previous == Position(1, 2)


def test_what_is_under_way_is_bounded() -> None:
    disk = log(1)
    leader = Leader(0.0, A, 2, disk, limits=Limits(window_records=3, window_bytes=100, ship_records=2, ship_bytes=50))
    leader.begin(0.0, [rule_of(document())], [B, C], [B])
    append(disk, *([2] * 10))
    leader.appended(0.0)
    (ship,) = follows(leader, B, log(1))
    assert (ship.lsn, ship.records, ship.nbytes) == (2, 2, 50)
    (ship,) = leader.shipped(0.0, B, 2, 4, 50)
    assert (ship.lsn, ship.records, ship.nbytes) == (4, 1, 50)
    assert leader.shipped(0.0, B, 4, 5, 50) == []
    (ship,) = stores(leader, B, 4)
    assert (ship.lsn, ship.records, ship.nbytes) == (5, 2, 50)


def test_a_follower_whose_log_ends_before_the_leaders_starts_takes_a_transfer() -> None:
    disk = log(1, 1, 1, 1, committed=5)
    disk.take_checkpoint(5, 4)
    leader = leading(disk, 2, document())
    effects = follows(leader, B, log(1, name="b"))
    assert effects[0] == Give(B)
    assert sent(effects, B) == [TakeTransfer(2, Position(1, 3))]
    assert Unpin(B) in leader.lost(B)


def test_one_and_async_confirm_ahead_of_what_is_committed_and_all_behind_it() -> None:
    for mode, first in ((ASYNC, 1), (ONE, 2), (ALL, 5)):
        disk = log(1)
        leader = leading(disk, 2, document("abcde", mode))
        peers = leader.peers
        for peer in peers:
            follows(leader, peer, log(1))
            stores(leader, peer, 3)
        append(disk, 2)
        leader.appended(0.0)
        disk.durable = 4
        got = confirmed(leader.synced()) == [4]
        copies = 1
        while not got:
            got = confirmed(stores(leader, peers[copies - 1], 4)) == [4]
            copies += 1
        assert copies == first


def test_it_stops_when_half_plus_one_are_not_heard_whatever_comes_late() -> None:
    leader = leading(log(1), 2, document())
    assert StepDown not in kinds(leader.tick(MISS_SECONDS - 0.1))
    follows(leader, B, log(1))
    # The answer to something that was sent at the start: it says nothing of now.
    stores(leader, B, 3)
    leader.received(MISS_SECONDS, B, Stored(2, 3, 0.0))
    assert kinds(leader.tick(MISS_SECONDS)) == [StepDown]
    assert leader.over


def test_it_goes_on_as_long_as_half_plus_one_answer() -> None:
    leader = leading(log(1), 2, document())
    follows(leader, B, log(1))
    for now in (1.0, 2.0, 3.0):
        stores(leader, B, 3, now)
        assert StepDown not in kinds(leader.tick(now + 0.4))


def test_it_stops_when_somebody_has_promised_a_greater_epoch() -> None:
    leader = leading(log(1), 2, document())
    assert leader.received(0.0, B, Refused(2)) == []
    assert kinds(leader.received(0.0, B, Refused(3))) == [StepDown]
    assert stores(leader, B, 3) == []


def test_it_hands_over_to_who_has_everything_and_waits_no_longer_than_it_may() -> None:
    disk = log(1)
    leader = leading(disk, 2, document())
    follows(leader, B, log(1))
    assert leader.hand_over(0.0, {B}) == []
    stores(leader, B, 3, 0.1)
    effects = leader.tick(0.2)
    assert TakeOver(2) in sent(effects, B)
    assert kinds(effects)[-1] is StepDown
    other = leading(log(1), 2, document())
    other.hand_over(0.0, {B})
    for now in (1.0, 2.0, 3.0, 4.0, HAND_OVER_SECONDS):
        stores(other, B, 1, now)
        effects = other.tick(now)
    assert kinds(effects)[-1] is StepDown


def test_where_senders_wait_for_its_disk_it_hands_over_to_one_that_has_everything_and_room() -> None:
    leader = leading(log(1), 2, document())
    leader.makes_way = True
    for peer in (B, C):
        follows(leader, peer, log(1))
    assert StepDown not in kinds(leader.tick(0.5)), "nobody else has everything"
    effects = stores(leader, C, 3, 0.6)
    assert sent(effects, C)[-1] == TakeOver(2)
    assert kinds(effects)[-1] is StepDown
    assert leader.made_way


def test_it_makes_way_only_where_half_plus_one_have_room_without_it_for_else_nothing_would_be_committed_soon() -> None:
    leader = leading(log(1), 2, document())
    leader.makes_way, leader.short = True, {B}
    for peer in (B, C):
        follows(leader, peer, log(1))
        assert StepDown not in kinds(stores(leader, peer, 3, 0.1)), "senders would wait at two of three"
    leader.short = set()
    leader.lost(B)
    assert StepDown not in kinds(leader.tick(0.5)), "the two that are left would need one another"
    leader.connected(0.6, B)
    follows(leader, B, log(1, 2), 0.7)
    assert kinds(stores(leader, C, 3, 0.8) + leader.tick(0.9))[-1] is StepDown


def test_it_makes_way_for_nobody_who_does_not_follow_yet() -> None:
    leader = leading(log(1), 2, document("abcde"))
    leader.makes_way = True
    for peer in (B, C, D, E):
        follows(leader, peer, log(1))
    stores(leader, C, 2, 0.1)
    stores(leader, D, 2, 0.1)
    leader.opened = True
    leader.connected(0.2, B)
    leader.follower(B).stored = 3  # type: ignore[union-attr]
    assert StepDown not in kinds(leader.tick(0.5)), "it would not hear that it is to lead"
    follows(leader, B, log(1, 2), 0.6)
    assert sent(leader.tick(1.1), B)[-1] == TakeOver(2)


def test_where_senders_would_wait_everywhere_it_leads_on_and_one_that_stops_is_followed_all_the_same() -> None:
    leader = leading(log(1), 2, document())
    leader.makes_way, leader.short = True, {B, C}
    for peer in (B, C):
        follows(leader, peer, log(1))
        assert StepDown not in kinds(stores(leader, peer, 3, 0.1))
    assert StepDown not in kinds(leader.tick(0.5))
    leader.makes_way = False
    assert TakeOver(2) in sent(leader.hand_over(0.6, {B, C}))


def test_one_that_stops_hands_over_to_one_that_has_room_if_there_is_one() -> None:
    leader = leading(log(1), 2, document())
    leader.short = {B}
    for peer in (B, C):
        follows(leader, peer, log(1))
        stores(leader, peer, 3, 0.1)
    effects = leader.hand_over(0.2, {B, C})
    assert (sent(effects, B), sent(effects, C)) == ([], [TakeOver(2)])


@pytest.mark.parametrize("members", ["a", "abc"])
def test_it_waits_for_nobody_where_nobody_can_take_over(members: str) -> None:
    leader = leading(log(1), 2, document(members))
    assert kinds(leader.hand_over(0.0, set())) == [StepDown]


def test_who_does_not_count_yet_is_not_waited_for() -> None:
    alone = document("a")
    leader = leading(log(1), 2, alone)
    leader.ruled(0.0, [rule_of(alone)], [A, B])
    leader.connected(0.0, B)
    assert kinds(leader.hand_over(0.0, {B})) == [StepDown]


def test_it_waits_no_longer_when_the_last_follower_has_gone() -> None:
    leader = leading(log(1), 2, document())
    connected = {B, C}
    follows(leader, B, log(1))
    assert leader.hand_over(0.0, connected) == []
    connected.discard(C)
    assert StepDown not in kinds(leader.tick(0.1))
    connected.discard(B)
    assert kinds(leader.tick(0.2))[-1] is StepDown


def test_a_new_connection_asks_anew_what_the_log_is() -> None:
    leader = leading(log(1), 2, document())
    follows(leader, B, log(1))
    leader.lost(B)
    assert sent(leader.connected(1.0, B), B) == [Follow(2)]


def test_a_read_of_a_connection_before_that_found_nothing_takes_no_transfer_away() -> None:
    disk = log(1, 1, 1, 1, committed=5)
    disk.take_checkpoint(5, 3)
    leader = leading(disk, 2, document())
    (ship,) = follows(leader, B, log(1, 1, 1, name="b"))
    leader.lost(B)
    leader.connected(0.0, B)
    assert Give(B) in follows(leader, B, log(1, name="b"))
    assert leader.shipped(0.0, B, ship.lsn, ship.lsn, 0) == []
    assert Unpin(B) in follows(leader, B, log(1, 1, 1, 1, name="b")), (
        "it is still known that something is pinned for it"
    )


def test_records_that_are_gone_when_they_are_read_are_asked_about_again() -> None:
    disk = log(1, 1, 1, 1)
    leader = leading(disk, 2, document())
    (ship,) = follows(leader, B, log(1, name="b"))
    disk.committed = 5
    disk.take_checkpoint(5, 5)
    assert leader.shipped(0.0, B, ship.lsn, ship.lsn, 0) == []
    assert Follow(2) in sent(leader.tick(0.6), B)


def test_a_follower_that_ends_where_the_leaders_log_starts_needs_no_transfer() -> None:
    disk = log(1, 1, 1, 1, committed=5)
    disk.take_checkpoint(5, 4)
    leader = leading(disk, 2, document())
    (ship,) = follows(leader, B, log(1, 1, 1, name="b"))
    assert ship.lsn == 4


def test_it_does_not_give_up_while_its_followers_take_a_transfer_and_gives_them_time_behind_it() -> None:
    disk = log(1, 1, 1, 1, committed=5)
    disk.take_checkpoint(5, 4)
    leader = leading(disk, 2, document())
    assert Give(B) in follows(leader, B, log(1, name="b"))
    now = 0.0
    while now < 3 * OPEN_SECONDS:
        now += 1.0
        leader.received(now, B, Stored(2, 0, now))
        assert StepDown not in kinds(leader.tick(now))
    follows(leader, B, log(1, 1, 1, 1, name="b"), now)
    for later in (1.0, OPEN_SECONDS - 1.0):
        leader.received(now + later, B, Stored(2, 0, now + later))
        assert StepDown not in kinds(leader.tick(now + later))
    leader.received(now + OPEN_SECONDS, B, Stored(2, 0, now + OPEN_SECONDS))
    assert kinds(leader.tick(now + OPEN_SECONDS)) == [StepDown]


def test_a_read_that_found_nothing_is_not_tried_again_at_once() -> None:
    leader = leading(log(1, 1, 1, 1), 2, document())
    (ship,) = follows(leader, B, log(1, name="b"))
    assert leader.shipped(0.0, B, ship.lsn, ship.lsn, 0) == []
    assert Follow(2) in sent(leader.tick(0.6), B)


def test_it_looks_for_where_the_logs_part_in_all_of_its_own_epochs() -> None:
    disk = log(*range(1, 2 * MAX_EPOCH_STARTS), committed=4)
    disk.take_checkpoint(4, 3)
    leader = leading(disk, 2 * MAX_EPOCH_STARTS, document())
    (ship,) = follows(leader, B, log(1, 2, 3, 4, 5, 6, 7, name="b"))
    assert ship.lsn == 8
