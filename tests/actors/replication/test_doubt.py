"""When a node that cut a write off its log has again all that it may have answered for: it asks, and ends its doubt no earlier."""

from __future__ import annotations

from actors.replication.doubt import Doubt
from actors.replication.follower import Follower
from actors.replication.limits import BEAT_SECONDS
from actors.replication.positions import Position
from actors.replication.replica import Replica
from actors.replication.vocabulary import (
    Append,
    EndDoubt,
    Follow,
    Following,
    Missed,
    Missing,
    Promise,
    Replicate,
    Seal,
    Sealed,
    TakeTransfer,
)
from tests.actors.replication.machines import A, B, C, append, following, log, records, sent
from tests.simulation.replication.disk import Disk


def in_doubt(*epochs: int, promised: int) -> Disk:
    disk = log(*epochs, name="b")
    disk.promised = disk.doubt = promised
    return disk


def takes(follower: Follower, disk: Disk, lsn: int, *epochs: int) -> None:
    """Records of its leader that are on its disk then."""
    previous = Position(disk.epoch_of(lsn - 1), lsn - 1)
    message = Replicate(follower.epoch, previous, 1, 0.0, records(lsn, *epochs))
    assert follower.received(0.0, A, message) == [Append(records(lsn, *epochs))]
    append(disk, *epochs)
    disk.durable = disk.end
    follower.synced()


def asks(doubt: Doubt, now: float = 0.0) -> Missing:
    (asked,) = sent(doubt.look(now), A)
    assert isinstance(asked, Missing)
    return asked


def test_a_node_in_doubt_says_so_in_a_seal_and_nowhere_else() -> None:
    disk = in_doubt(1, promised=1)
    follower = following(disk, 1)
    assert follower.received(0.0, C, Seal(2))[-1] == Promise(2)
    disk.promised = 2
    (answer,) = sent(follower.promised(0.0, 2), C)
    assert isinstance(answer, Sealed)
    assert answer.doubt
    (again,) = sent(follower.received(0.0, C, Seal(2)), C)
    assert again == answer
    (announced,) = sent(follower.received(0.0, C, Follow(2)), C)
    assert isinstance(announced, Following)


def test_a_record_of_a_later_epoch_ends_it_once_it_is_on_the_disk() -> None:
    disk = in_doubt(1, promised=1)
    follower = following(disk, 2)
    doubt = Doubt(follower, 0.0)
    append(disk, 2)
    assert EndDoubt(1) not in doubt.look(0.0)
    disk.durable = disk.end
    assert doubt.look(0.0) == [EndDoubt(1)]
    assert doubt.look(0.0) == [], "it is being written"
    assert not doubt.over
    disk.doubt = 0
    doubt.written()
    assert doubt.look(0.0) == []
    assert doubt.over


def test_a_record_of_the_epoch_in_which_it_cut_does_not_end_it() -> None:
    disk = in_doubt(1, promised=2)
    follower = following(disk, 2)
    doubt = Doubt(follower, 0.0)
    takes(follower, disk, 2, 2)
    assert EndDoubt(2) not in doubt.look(0.0)


def test_it_ends_with_all_that_the_leader_of_its_epoch_had_when_it_was_asked() -> None:
    disk = in_doubt(1, promised=1)
    follower = following(disk, 1)
    doubt = Doubt(follower, 0.0)
    asked = asks(doubt)
    assert doubt.look(BEAT_SECONDS / 2) == [], "it has just asked"
    doubt.told(A, Missed(1, asked.ask, False, Position(1, 3)))
    assert doubt.look(BEAT_SECONDS) == [], "that is known"
    takes(follower, disk, 2, 1)
    assert doubt.look(BEAT_SECONDS) == []
    takes(follower, disk, 3, 1)
    assert doubt.look(BEAT_SECONDS) == [EndDoubt(1)]


def test_an_answer_that_is_not_its_leaders_of_this_epoch_to_this_question_tells_nothing() -> None:
    disk = in_doubt(1, promised=1)
    follower = following(disk, 1)
    doubt = Doubt(follower, 0.0)
    first = asks(doubt)
    asked = asks(doubt, BEAT_SECONDS)
    for sender, answer in (
        (C, Missed(1, asked.ask, False, Position(1, 1))),
        (A, Missed(2, asked.ask, False, Position(1, 1))),
        (A, Missed(1, first.ask, False, Position(1, 1))),
        (A, Missed(1, asked.ask, True, Position(1, 1))),
    ):
        doubt.told(sender, answer)
        takes_nothing = follower.received(0.0, A, Replicate(1, Position(1, 1), 1, 0.0))
        assert takes_nothing
        assert EndDoubt(1) not in doubt.look(BEAT_SECONDS)


def test_what_a_leader_has_said_counts_for_its_epoch_and_connection_only() -> None:
    disk = in_doubt(1, promised=1)
    follower = following(disk, 1)
    doubt = Doubt(follower, 0.0)
    doubt.told(A, Missed(1, asks(doubt).ask, False, Position(1, 1)))
    follower.lost(A)
    assert doubt.look(BEAT_SECONDS) == []
    follower.received(1.0, C, Follow(2))
    disk.promised = 2
    follower.promised(1.0, 2)
    follower.received(1.0, C, Replicate(2, Position(1, 1), 1, 0.0))
    (asked,) = sent(doubt.look(1.0), C)
    assert isinstance(asked, Missing)


def test_a_leader_that_has_started_anew_and_leads_no_more_does_not_say_where_its_log_ends() -> None:
    # It has lost what was not synced, has promised the same epoch, and misses nobody yet. Who is in doubt may not have noticed: a link
    # that takes the place of one that was silent is no link lost.
    disk = in_doubt(1, promised=1)
    follower = following(disk, 1)
    doubt = Doubt(follower, 0.0)
    asked = asks(doubt)
    again = log(1, name="a")
    again.promised = 1
    for answer in sent(Replica(0.0, A, again, "a2").received(0.0, B, asked), B):
        doubt.told(A, answer)
    follower.received(0.0, A, Replicate(1, Position(1, 1), 1, 0.0))
    assert EndDoubt(1) not in doubt.look(BEAT_SECONDS)


def test_without_a_leader_nobody_is_asked() -> None:
    doubt = Doubt(Follower(in_doubt(1, promised=1), 0.0), 0.0)
    assert doubt.look(5.0) == []
    assert not doubt.over


def test_nothing_ends_while_its_log_is_being_replaced() -> None:
    disk = in_doubt(1, promised=1)
    follower = following(disk, 2)
    doubt = Doubt(follower, 0.0)
    append(disk, 2)
    disk.durable = disk.end
    follower.received(0.0, A, TakeTransfer(2, Position(2, 9)))
    assert follower.busy
    assert EndDoubt(1) not in doubt.look(0.0)


def test_a_node_that_is_in_no_doubt_does_nothing_about_it() -> None:
    doubt = Doubt(following(log(1, name="b"), 1), 0.0)
    assert doubt.over
