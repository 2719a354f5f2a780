"""What a follower takes, and what it says that it has."""

from __future__ import annotations

from actors.replication.follower import Follower
from actors.replication.limits import MISS_SECONDS
from actors.replication.positions import Position, summary
from actors.replication.vocabulary import (
    Append,
    Commit,
    Diverged,
    DropTransfer,
    Follow,
    Following,
    Install,
    LeaderKnown,
    Missed,
    Missing,
    Promise,
    Refused,
    Replicate,
    Seal,
    Sealed,
    Stored,
    Take,
    TakeTransfer,
    Truncate,
)
from tests.actors.replication.machines import A, B, C, following, kinds, log, records, sent


def test_it_says_stored_only_of_what_is_on_its_disk() -> None:
    disk = log(1, name="b")
    follower = following(disk, 1)
    effects = follower.received(0.0, A, Replicate(1, Position(1, 1), 1, 5.0, records(2, 1, 1)))
    assert effects == [Append(records(2, 1, 1))]
    disk.append(records(2, 1, 1))
    assert sent(follower.synced(), A) == [Stored(1, 2, 5.0)]
    disk.durable = 4
    assert sent(follower.synced(), A) == [Stored(1, 4, 5.0)]


def test_a_heartbeat_is_answered_at_once_and_not_with_what_it_has_beyond_its_leader() -> None:
    follower = following(log(1, 1, 1, name="b"), 1)
    assert sent(follower.received(0.0, A, Replicate(1, Position(1, 1), 1, 7.0))) == [Stored(1, 2, 7.0)]


def test_it_knows_as_committed_only_what_its_own_disk_has() -> None:
    disk = log(1, name="b")
    follower = following(disk, 1)
    follower.received(0.0, A, Replicate(1, Position(1, 1), 3, 0.0, records(2, 1, 1)))
    disk.append(records(2, 1, 1))
    assert Commit(3) not in follower.synced()
    disk.durable = 4
    assert Commit(3) in follower.synced()


def test_it_promises_durably_before_it_answers_and_takes_nothing_older_from_the_question_on() -> None:
    disk = log(1, 1, name="b")
    follower = following(disk, 1)
    assert follower.received(0.0, C, Seal(2)) == [LeaderKnown("", 1), Promise(2)]
    assert sent(follower.received(0.0, A, Replicate(1, Position(1, 2), 1, 0.0, records(3, 1)))) == [Refused(2)]
    disk.promised = 2
    assert sent(follower.promised(0.0, 2), C) == [Sealed(2, summary(disk))]
    assert sent(follower.received(0.0, A, Follow(1))) == [Refused(2)]
    assert sent(follower.received(0.0, A, Seal(1))) == [Refused(2)]


def test_a_leader_to_which_the_connection_has_ended_is_not_known_any_more_and_that_is_said_once() -> None:
    follower = following(log(1, name="b"), 1)
    assert follower.lost(C) == []
    assert follower.lost(A) == [LeaderKnown("", 1)]
    assert follower.lost(A) == []


def test_a_greater_epoch_that_comes_meanwhile_is_the_one_that_is_answered() -> None:
    disk = log(1, name="b")
    follower = following(disk, 1)
    follower.received(0.0, A, Seal(2))
    assert follower.received(0.0, C, Seal(3)) == [Promise(3)]
    disk.promised = 2
    assert follower.promised(0.0, 2) == []
    disk.promised = 3
    effects = follower.promised(0.0, 3)
    assert sent(effects, A) == [Refused(3)]
    assert sent(effects, C) == [Sealed(3, summary(disk))]


def test_a_tail_that_is_not_the_leaders_is_cut_and_the_log_said_anew() -> None:
    disk = log(1, 1, 2, 2, name="b")
    follower = following(disk, 3)
    assert follower.received(0.0, A, Replicate(3, Position(1, 2), 1, 0.0, records(3, 3))) == [Truncate(3)]
    assert follower.busy
    disk.cut(3)
    assert sent(follower.truncated(0.0)) == [Following(3, summary(disk))]
    assert follower.received(0.0, A, Replicate(3, Position(1, 2), 1, 0.0, records(3, 3))) == [Append(records(3, 3))]


def test_it_never_cuts_what_is_committed() -> None:
    follower = following(log(1, 1, 2, committed=4, name="b"), 3)
    assert follower.received(0.0, A, Replicate(3, Position(1, 2), 1, 0.0, records(3, 3))) == [Diverged(3)]
    assert follower.diverged


def test_what_it_has_already_is_not_appended_again() -> None:
    disk = log(1, 1, 1, name="b")
    follower = following(disk, 1)
    effects = follower.received(0.0, A, Replicate(1, Position(1, 1), 1, 0.0, records(2, 1, 1, 1)))
    assert effects == [Append(records(4, 1))]


def test_a_gap_is_said_once_a_beat() -> None:
    disk = log(1, name="b")
    follower = following(disk, 1)
    far = Replicate(1, Position(1, 7), 1, 0.0, records(8, 1))
    assert kinds_of(follower, 0.1, far) == [Stored]
    assert kinds_of(follower, 0.7, far) == [Following]
    assert kinds_of(follower, 0.8, far) == [Stored]


def kinds_of(follower: Follower, now: float, message: Replicate) -> list[type]:
    return kinds(sent(follower.received(now, A, message)))


def test_who_does_not_know_its_leader_asks_what_it_follows_first() -> None:
    disk = log(1, name="b")
    follower = Follower(disk, 0.0)
    assert follower.received(0.0, A, Replicate(1, Position(1, 1), 1, 0.0)) == [Promise(1)]


def test_it_misses_a_leader_that_is_silent_and_one_that_is_gone_at_once() -> None:
    follower = following(log(1, name="b"), 1)
    assert not follower.misses(MISS_SECONDS - 0.1)
    assert follower.misses(MISS_SECONDS)
    follower.received(2.0, A, Replicate(1, Position(1, 1), 1, 0.0))
    assert not follower.misses(2.1)
    follower.lost(B)
    assert not follower.misses(2.1)
    follower.lost(A)
    (answer,) = sent(follower.received(2.1, C, Missing(1, 4, Position(1, 1))))
    assert answer == Missed(1, 4, True, Position(1, 1))


def test_a_transfer_is_dropped_when_somebody_else_is_promised_something() -> None:
    disk = log(1, name="b")
    follower = following(disk, 1)
    assert follower.received(0.0, A, TakeTransfer(1, Position(1, 5))) == [Take(A)]
    effects = follower.received(0.0, C, Seal(2))
    assert kinds(effects)[-1] is Promise
    assert follower.transferred() == []


def test_a_transfer_on_its_way_into_the_logs_place_is_not_dropped_and_the_promise_waits_for_it() -> None:
    disk = log(1, name="b")
    follower = following(disk, 1)
    follower.received(0.0, A, TakeTransfer(1, Position(1, 5)))
    assert follower.transferred() == [Install(A)]
    assert follower.received(0.0, C, Seal(2)) == [LeaderKnown("", 1)]
    assert follower.installed(0.0) == [Promise(2)]


def test_a_transfer_that_is_whole_while_something_is_promised_is_installed_behind_it() -> None:
    disk = log(1, synced=False, name="b")
    follower = following(disk, 1)
    follower.received(0.0, A, TakeTransfer(1, Position(1, 5)))
    assert follower.received(0.0, A, Seal(1)) == [Promise(1)], "its log is not synced yet"
    assert follower.transferred() == []
    disk.durable = disk.end
    assert follower.promised(0.0, 1)[-1] == Install(A)
    assert DropTransfer not in kinds(follower.received(0.0, C, Seal(2)))


def test_a_transfer_is_not_taken_by_who_has_what_the_leaders_log_starts_behind() -> None:
    # It would take back what it has stored: the question is of a connection before this one.
    follower = following(log(1, 1, 1, 1, name="b"), 1)
    assert follower.received(0.0, A, TakeTransfer(1, Position(1, 3))) == []
    assert not follower.busy
    assert follower.received(0.0, A, TakeTransfer(1, Position(1, 5))) == [Take(A)]


def test_a_transfer_does_not_hide_that_what_is_committed_is_not_the_leaders() -> None:
    follower = following(log(1, 1, 1, committed=4, name="b"), 3)
    assert follower.received(0.0, A, TakeTransfer(3, Position(2, 3))) == [Diverged(3)]
    assert follower.diverged


def test_a_piece_of_a_transfer_that_is_over_says_nothing_of_a_leader() -> None:
    follower = Follower(log(1, name="b"), 0.0)
    follower.taking(MISS_SECONDS)
    assert follower.misses(MISS_SECONDS)


def test_records_that_no_log_of_its_leader_can_have_are_not_taken() -> None:
    follower = following(log(1, 2, name="b"), 3)
    assert follower.received(0.0, A, Replicate(3, Position(2, 2), 1, 0.0, records(3, 4))) == [], "of a greater epoch"
    assert follower.received(0.0, A, Replicate(3, Position(2, 2), 1, 0.0, records(3, 1))) == [], "of one before"
    assert follower.received(0.0, A, Replicate(3, Position(2, 2), 1, 0.0, records(3, 2, 3))) == [
        Append(records(3, 2, 3))
    ]


def test_who_is_full_takes_nothing_answers_for_what_it_has_and_knows_what_of_it_is_committed() -> None:
    disk = log(1, name="b")
    follower = following(disk, 1)
    follower.received(0.0, A, Replicate(1, Position(1, 1), 1, 5.0, records(2, 1, 1)))
    disk.append(records(2, 1, 1))
    disk.durable = 4
    follower.synced()
    assert follower.room(0.1, True) == []
    effects = follower.received(0.2, A, Replicate(1, Position(1, 3), 3, 6.0, records(4, 1)))
    assert sent(effects, A) == [Stored(1, 4, 6.0)]
    assert Commit(3) in effects
    assert Append not in kinds(effects)
    # What follows on that is too far on, and is not asked for as long as there is no room.
    for now in (0.3, 1.0, 2.0):
        effects = follower.received(now, A, Replicate(1, Position(1, 4), 4, now))
        assert sent(effects, A) == [Stored(1, 4, now)]
        assert kinds(effects).count(Following) == 0
        assert not follower.misses(now + 0.1)


def test_who_has_room_again_says_what_it_has_and_takes_what_it_lacks() -> None:
    disk = log(1, name="b")
    follower = following(disk, 1)
    assert follower.room(0.0, False) == []
    follower.room(0.1, True)
    follower.received(0.2, A, Replicate(1, Position(1, 1), 1, 5.0, records(2, 1)))
    assert kinds(sent(follower.room(0.3, False), A)) == [Following]
    assert follower.received(0.4, A, Replicate(1, Position(1, 1), 1, 6.0, records(2, 1))) == [Append(records(2, 1))]


def test_who_is_full_from_the_start_says_that_it_has_stored_nothing_of_its_leader() -> None:
    follower = following(log(1, name="b"), 1)
    follower.room(0.0, True)
    assert sent(follower.received(0.1, A, Replicate(1, Position(1, 9), 1, 0.1)), A) == [Stored(1, 0, 0.1)]
    assert sent(follower.received(0.2, A, Replicate(1, Position(1, 1), 1, 0.2, records(2, 1))), A) == [
        Stored(1, 2, 0.2)
    ]


def test_who_is_full_still_cuts_what_its_leader_does_not_have() -> None:
    follower = following(log(1, 1, 1, name="b"), 2)
    follower.room(0.0, True)
    assert Truncate(2) in follower.received(0.1, A, Replicate(2, Position(2, 2), 1, 0.1))
