"""One node of a cluster in all its roles: what is told to which machine, and what it answers in each."""

from __future__ import annotations

from typing import Any

from actors.replication.limits import LOOK_SECONDS, MISS_SECONDS
from actors.replication.positions import Position, summary
from actors.replication.replica import CANDIDATE, CLOSING, FOLLOWER, LEADER, Replica
from actors.replication.vocabulary import (
    Follow,
    Following,
    Lead,
    Missed,
    Missing,
    ReadRegister,
    Refused,
    Replicate,
    Seal,
    Sealed,
    StepDown,
    Stored,
    SwapRegister,
    TakeOver,
)
from tests.actors.replication.machines import A, B, C, append, document, kinds, log, sent
from tests.simulation.replication.disk import Disk


def asked(effects: list[Any], kind: type) -> Any:
    (found,) = [each for each in effects if type(each) is kind]
    return found


def node(disk: Disk, now: float = 0.0) -> Replica:
    """One that has read the document, and is connected to the others."""
    replica = Replica(now, A, disk, "a1")
    for peer in (B, C):
        replica.connected(now, peer)
    read = asked(replica.tick(now), ReadRegister)
    replica.register_read(now, read.number, 1, document("bac"))
    return replica


def leader(disk: Disk) -> Replica:
    """One that has taken over, and opened."""
    replica = node(disk)
    now = MISS_SECONDS + LOOK_SECONDS
    replica.tick(now)
    read = asked(replica.received(now, C, Missing(1, 1, Position(0, 0))), ReadRegister)
    swap = asked(replica.register_read(now, read.number, 1, document("bac")), SwapRegister)
    assert replica.role == CANDIDATE
    replica.register_swapped(now, swap.number, 2)
    disk.promised = 2
    replica.promised(now, 2)
    effects = replica.received(now, C, Sealed(2, summary(log(1))))
    assert asked(effects, Lead) == Lead(2)
    append(disk, 2)
    replica.appended(now)
    disk.durable = disk.end
    replica.synced(now)
    replica.received(now, C, Following(2, summary(log(1))))
    replica.received(now, C, Stored(2, disk.end, now))
    assert replica.role == LEADER
    assert replica.leader is not None
    assert replica.leader.opened
    return replica


def test_it_comes_from_missing_its_leader_to_leading() -> None:
    assert leader(log(1)).document.epoch == 2  # type: ignore[union-attr]


def test_a_leader_misses_nobody_and_refuses_who_is_older() -> None:
    replica = leader(log(1))
    assert sent(replica.received(4.0, B, Missing(1, 7, Position(0, 0)))) == [Missed(2, 7, False, Position(2, 2))]
    assert sent(replica.received(4.0, B, Seal(1))) == [Refused(2)]
    assert sent(replica.received(4.0, B, Replicate(1, Position(1, 1), 1, 0.0))) == [Refused(2)]


def test_a_leader_that_hears_of_a_greater_epoch_closes_and_follows_when_its_directory_is_open_again() -> None:
    for message in (
        Seal(3),
        Follow(3),
        Refused(3),
        Replicate(3, Position(1, 1), 1, 0.0),
        Missing(3, 1, Position(0, 0)),
    ):
        disk = log(1)
        replica = leader(disk)
        asked(replica.received(4.0, B, message), StepDown)
        assert replica.role == CLOSING
        assert replica.received(4.0, B, Follow(3)) == []
        replica.reopened(4.1)
        assert replica.role == FOLLOWER
        assert replica.received(4.2, B, Follow(3)) != []


def test_a_leader_whose_document_was_swapped_by_somebody_else_closes() -> None:
    replica = leader(log(1))
    assert replica.membership is not None
    assert replica.membership.remove("b") is None
    swap = asked(replica.tick(4.2), SwapRegister)
    read = asked(replica.register_moved(4.2, swap.number), ReadRegister)
    asked(replica.register_read(4.2, read.number, 9, document("cab", epoch=3)), StepDown)


def test_who_is_asked_to_take_over_does_not_ask_around() -> None:
    disk = log(1)
    replica = node(disk)
    disk.promised = 1
    replica.received(0.1, B, Follow(1))
    assert replica.received(0.1, C, TakeOver(1)) == [], "only its leader can ask"
    asked(replica.received(0.1, B, TakeOver(1)), ReadRegister)


def test_an_answer_of_the_register_that_nobody_waits_for_any_more_changes_nothing() -> None:
    replica = leader(log(1))
    assert replica.register_swapped(4.0, 2, 2) == []
    assert replica.register_read(4.0, 1, 5, document("cab", epoch=9)) == []
    assert replica.role == LEADER


def short_of_room(disk: Disk) -> Replica:
    """A leader at whose disk senders wait, and whose followers have everything, and room."""
    replica = leader(disk)
    for peer in (B, C):
        replica.received(6.0, peer, Following(2, summary(disk)))
        replica.received(6.0, peer, Stored(2, disk.end, 6.0))
    return replica


def test_a_leader_without_room_makes_way_once_the_register_has_answered_without_which_nobody_takes_over() -> None:
    replica = short_of_room(log(1))
    read = asked(replica.disks(6.0, True, ()), ReadRegister)
    assert StepDown not in kinds(replica.tick(6.1)), "it is not known whether anybody could lead then"
    effects = replica.register_read(6.2, read.number, 2, document("abc", epoch=2))
    assert sent(effects, B) == [TakeOver(2)]
    asked(effects, StepDown)


def test_a_leader_without_room_leads_on_where_the_register_does_not_answer_or_nobody_else_has_room() -> None:
    disk = log(1)
    replica = short_of_room(disk)
    read = asked(replica.disks(6.0, True, ()), ReadRegister)
    assert replica.register_failed(7.0, read.number) == []
    assert StepDown not in kinds(replica.tick(7.1))
    assert replica.disks(7.5, True, ()) == [], "it was asked a moment ago"
    replica.received(9.0, C, Stored(2, disk.end, 9.0))
    asked(replica.disks(9.0, True, ()), ReadRegister)
    assert StepDown not in kinds(replica.tick(9.1)), "it has not answered"
    assert replica.disks(12.0, True, {B, C}) == [], "nobody else has room: there is nothing to be asked"
    assert replica.disks(12.5, False, ()) == [], "it has room again"
    assert replica.role == LEADER


def test_a_leader_that_has_room_again_makes_way_for_nobody_when_the_register_answers_at_last() -> None:
    replica = short_of_room(log(1))
    read = asked(replica.disks(6.0, True, ()), ReadRegister)
    replica.disks(6.5, False, ())
    assert replica.register_read(6.6, read.number, 2, document("abc", epoch=2)) == []
    assert replica.role == LEADER


def test_a_leader_makes_way_for_no_answer_of_the_register_that_it_asked_for_as_a_follower() -> None:
    replica = short_of_room(log(1))
    for number in range(1, 10):
        assert replica.register_read(6.0, number, 2, document("abc", epoch=2)) == []
    assert replica.role == LEADER


def test_a_node_that_stood_still_asks_whether_its_leader_is_missed_and_follows_it_when_others_hear_it() -> None:
    """As where its disk stalled, and it commits itself: what came meanwhile is read after its first look, which is late."""
    replica = node(log(1, 2))
    replica.received(0.0, B, Follow(2))
    replica.promised(0.0, 2)
    replica.received(0.0, B, Replicate(2, Position(2, 2), 2, 0.0))
    late = 10 * MISS_SECONDS
    (first, _) = sent(replica.tick(late))
    assert isinstance(first, Missing)
    assert sent(replica.received(late, B, Replicate(2, Position(2, 2), 2, late)), B) == [Stored(2, 3, late)]
    assert replica.received(late, C, Missed(2, first.ask, False, Position(2, 2))) == []
    assert replica.received(late, B, Missed(2, first.ask, False, Position(2, 2))) == []
    assert replica.role == FOLLOWER
    assert sent(replica.tick(late + LOOK_SECONDS / 4)) == []
