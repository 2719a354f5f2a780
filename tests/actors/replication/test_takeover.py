"""From missing the leader to leading, and every answer that may not come."""

from __future__ import annotations

from itertools import count
from typing import Final, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.replication import takeover as steps
from actors.replication.document import ASYNC, ONE
from actors.replication.follower import Follower
from actors.replication.limits import (
    ADOPT_SECONDS,
    ALL_BUT_ONE_SECONDS,
    BEAT_SECONDS,
    FIRST_CHANCE_SECONDS,
    HINDERED_SECONDS,
    HOLD_OFF_SECONDS,
    SEAL_SECONDS,
)
from actors.replication.positions import Position, position, summary
from actors.replication.takeover import Takeover
from actors.replication.vocabulary import (
    Append,
    Effects,
    Fetch,
    Fetched,
    Hindered,
    Missed,
    Missing,
    Promise,
    ReadRegister,
    Seal,
    Send,
    SwapRegister,
    Truncate,
)
from tests.actors.replication.machines import A, B, C, candidate, document, kinds, log, records, sent
from tests.simulation.replication.disk import Disk


def swapping(takeover: Takeover) -> SwapRegister:
    """One that has asked, and has read the document."""
    takeover.missing(0.0)
    (read,) = takeover.missed(0.0, B, Missed(1, 1, True, Position(0, 0)))
    (swap,) = takeover.read(0.0, read.number, 1, document("bac"))
    assert isinstance(swap, SwapRegister)
    return swap


def sealing(takeover: Takeover, disk: Disk, *, doubt: int = 0) -> None:
    """One that has sealed itself, and may be in doubt: then all three have missed the leader."""
    swap = swapping(takeover)
    effects = takeover.swapped(0.0, swap.number, 2)
    assert effects[0] == Promise(2)
    assert sent(effects) == [Seal(2), Seal(2)]
    disk.promised, disk.doubt = 2, doubt
    takeover.promised(0.0, 2)


def test_it_asks_the_others_and_begins_when_half_plus_one_miss_the_leader_too() -> None:
    takeover, _ = candidate(log(1), document("bac"))
    assert sent(takeover.missing(0.0)) == [Missing(0, 1, Position(1, 1))] * 2
    assert takeover.missed(0.0, B, Missed(1, 1, False, Position(1, 1))) == []
    assert kinds(takeover.missed(0.0, C, Missed(1, 1, True, Position(1, 1)))) == [ReadRegister]


def test_who_asks_misses_it_too() -> None:
    takeover, _ = candidate(log(1), document("bac"))
    takeover.missing(0.0)
    assert kinds(takeover.missed(0.0, C, Missing(1, 9, Position(1, 1)))) == [ReadRegister]


def test_it_leaves_the_first_chance_to_who_knows_more() -> None:
    takeover, _ = candidate(log(1), document("bac"))
    takeover.missing(0.0)
    assert takeover.missed(0.0, C, Missed(1, 1, True, Position(1, 5))) == []
    takeover.missing(BEAT_SECONDS)
    assert takeover.missed(0.6, C, Missed(1, 2, True, Position(1, 5))) == []
    takeover.missing(1.0)
    assert kinds(takeover.missed(1.0, C, Missed(1, 3, True, Position(1, 5)))) == [ReadRegister]


def test_a_node_at_whose_disk_senders_would_wait_leaves_it_to_others_for_a_while_and_no_longer() -> None:
    takeover, _ = candidate(log(1), document("bac"))
    takeover.short = True
    beats = int(HOLD_OFF_SECONDS / BEAT_SECONDS)
    for beat in range(beats):
        takeover.missing(beat * BEAT_SECONDS)
        assert takeover.missed(beat * BEAT_SECONDS, C, Missed(1, beat + 1, True, Position(1, 1))) == []
    takeover.missing(HOLD_OFF_SECONDS)
    effects = takeover.missed(HOLD_OFF_SECONDS, C, Missed(1, beats + 1, True, Position(1, 1)))
    assert kinds(effects) == [ReadRegister], "nobody else has taken over"


def test_of_nodes_at_whose_disks_senders_would_wait_the_greatest_log_has_the_first_chance() -> None:
    takeover, _ = candidate(log(1), document("bac"))
    takeover.short = True
    beats = int((HOLD_OFF_SECONDS + FIRST_CHANCE_SECONDS) / BEAT_SECONDS)
    for beat in range(beats):
        takeover.missing(beat * BEAT_SECONDS)
        assert takeover.missed(beat * BEAT_SECONDS, C, Missed(1, beat + 1, True, Position(1, 5))) == []
    takeover.missing(beats * BEAT_SECONDS)
    effects = takeover.missed(beats * BEAT_SECONDS, C, Missed(1, beats + 1, True, Position(1, 5)))
    assert kinds(effects) == [ReadRegister], "nobody else has taken over"


class Survivor(NamedTuple):
    """A member that has missed the leader since some looks after the first one."""

    records: int
    short: bool
    since: int


LOOKS: Final = 8
"""Of a beat."""
SURVIVORS: Final = st.builds(Survivor, st.integers(1, 3), st.booleans(), st.integers(0, LOOKS))


def begins(*survivors: Survivor) -> list[int]:
    """At which look each of two members of three begins, where no attempt comes to anything; what they say comes at once."""
    ids = (A, C)
    followers = [Follower(log(*[1] * survivor.records), 0.0) for survivor in survivors]
    takeovers = [Takeover(me, follower, me, count(1)) for me, follower in zip(ids, followers, strict=True)]
    begun: dict[int, int] = {}

    def carry_out(look: int, of: int, effects: Effects) -> None:
        now, other = look * BEAT_SECONDS / LOOKS, 1 - of
        if ReadRegister in kinds(effects):
            begun.setdefault(of, look)
        for message in sent(effects, ids[other]):
            carry_out(look, other, takeovers[other].missed(now, ids[of], message))
            answer = Missed(1, message.ask, survivors[other].since <= look, position(followers[other].log))
            carry_out(look, of, takeovers[of].missed(now, ids[other], answer))

    for takeover, survivor in zip(takeovers, survivors, strict=True):
        takeover.knows(1, document("bac"))
        takeover.short = survivor.short
    for look in range(int(2 * LOOKS * (HOLD_OFF_SECONDS + FIRST_CHANCE_SECONDS) / BEAT_SECONDS)):
        for of, survivor in enumerate(survivors):
            if survivor.since <= look and of not in begun:
                carry_out(look, of, takeovers[of].missing(look * BEAT_SECONDS / LOOKS))
    return [begun[of] for of in range(len(survivors))]


@given(SURVIVORS, SURVIVORS)
def test_who_has_room_begins_first_and_where_both_or_none_has_it_the_greatest_log(
    one: Survivor, other: Survivor
) -> None:
    first, second = begins(one, other)
    if (one.short, -one.records) < (other.short, -other.records):
        assert first < second
    elif (one.short, -one.records) > (other.short, -other.records):
        assert first > second


def test_a_node_at_whose_disk_senders_would_wait_leads_where_it_is_asked_to() -> None:
    takeover, _ = candidate(log(1), document("bac"))
    takeover.short = True
    assert kinds(takeover.begin(0.0)) == [ReadRegister]


def test_who_does_not_count_takes_nothing_over() -> None:
    takeover, _ = candidate(log(1), document("bcd"))
    assert takeover.missing(0.0) == []
    assert takeover.state == steps.IDLE


def test_the_swap_is_of_the_next_epoch_and_known_by_its_writer() -> None:
    takeover, _ = candidate(log(1), document("bac"))
    swap = swapping(takeover)
    assert (swap.version, swap.document.epoch, swap.document.leader) == (1, 2, "a")
    assert swap.document.writer.startswith("a1-")


def test_a_swap_whose_answer_was_lost_is_read_again_and_known_as_its_own() -> None:
    takeover, _ = candidate(log(1), document("bac"))
    swap = swapping(takeover)
    takeover.failed(0.0, swap.number)
    (read,) = takeover.tick(BEAT_SECONDS)
    effects = takeover.read(BEAT_SECONDS, read.number, 2, swap.document)
    assert effects[0] == Promise(2)
    assert takeover.state == steps.SEALING


def test_a_read_that_finds_the_document_as_it_was_proves_nothing_and_it_swaps_again() -> None:
    takeover, _ = candidate(log(1), document("bac"))
    swap = swapping(takeover)
    takeover.failed(0.0, swap.number)
    (read,) = takeover.tick(BEAT_SECONDS)
    (again,) = takeover.read(BEAT_SECONDS, read.number, 1, document("bac"))
    assert again == SwapRegister(again.number, 1, swap.document)
    assert again.number != swap.number
    # The first one was done after all: the second is refused, and read.
    (read,) = takeover.moved(BEAT_SECONDS, again.number)
    assert takeover.read(BEAT_SECONDS, read.number, 2, swap.document)[0] == Promise(2)


def test_it_follows_when_somebody_else_was_first() -> None:
    takeover, _ = candidate(log(1), document("bac"))
    swap = swapping(takeover)
    (read,) = takeover.moved(0.0, swap.number)
    assert takeover.read(0.0, read.number, 2, document("cab", epoch=2)) == []
    assert takeover.state == steps.IDLE
    assert takeover.missing(1.0) == []


def test_it_leads_only_when_half_plus_one_have_sealed_and_it_is_one_of_them() -> None:
    disk = log(1)
    takeover, _ = candidate(disk, document("bac"))
    takeover.swapped(0.0, swapping(takeover).number, 2)
    takeover.sealed_by(0.0, B, summary(log(1)))
    takeover.sealed_by(0.0, C, summary(log(1)))
    assert takeover.state == steps.SEALING
    takeover.promised(0.0, 2)
    assert takeover.state == steps.DONE


def test_it_adopts_the_greatest_log_piece_by_piece() -> None:
    disk, greatest = log(1, 1, 1), log(1, 2, 2, 2, name="b")
    takeover, follower = candidate(disk, document("bac"))
    sealing(takeover, disk)
    assert takeover.sealed_by(0.0, B, summary(greatest)) == [Truncate(2)]
    assert follower.busy
    disk.cut(2)
    follower.truncated(0.0)
    assert sent(takeover.truncated(0.0), B) == [Fetch(2, 2)]
    assert takeover.fetched(0.0, B, Fetched(2, 2, records(2, 2, 2))) == [Append(list(records(2, 2, 2)))]
    disk.append(records(2, 2, 2))
    assert takeover.synced(0.0) == []
    disk.durable = 4
    assert sent(takeover.synced(0.0), B) == [Fetch(2, 4)]
    takeover.fetched(0.0, B, Fetched(2, 4, records(4, 2)))
    disk.append(records(4, 2))
    disk.durable = 5
    takeover.synced(0.0)
    assert takeover.state == steps.DONE


def test_a_log_that_starts_too_late_is_left_to_somebody_else() -> None:
    disk, greatest = log(1), log(1, 1, 1, 1, committed=5, name="b")
    greatest.take_checkpoint(5, 4)
    takeover, _ = candidate(disk, document("bac"))
    sealing(takeover, disk)
    assert takeover.sealed_by(0.0, B, summary(greatest)) == []
    assert takeover.state == steps.IDLE
    assert takeover.missing(HOLD_OFF_SECONDS - 0.1) == []
    assert takeover.missing(HOLD_OFF_SECONDS) != []


def test_it_is_given_up_when_half_plus_one_do_not_seal() -> None:
    disk = log(1)
    takeover, _ = candidate(disk, document("bac"))
    sealing(takeover, disk)
    assert sent(takeover.tick(BEAT_SECONDS)) == [Seal(2), Seal(2)]
    takeover.tick(SEAL_SECONDS)
    assert takeover.state == steps.IDLE
    takeover.sealed_by(SEAL_SECONDS, B, summary(log(1)))
    assert takeover.state == steps.IDLE


def test_in_one_it_waits_for_all_but_one_but_not_for_ever() -> None:
    disk = log(1)
    known = document("bacde", ONE)
    takeover, _ = candidate(disk, known)
    takeover.missing(0.0)
    takeover.missed(0.0, B, Missed(1, 1, True, Position(0, 0)))
    (read,) = takeover.missed(0.0, C, Missed(1, 1, True, Position(0, 0)))
    (swap,) = takeover.read(0.0, read.number, 1, known)
    takeover.swapped(0.0, swap.number, 2)
    takeover.promised(0.0, 2)
    for peer in (B, C):
        takeover.sealed_by(0.0, peer, summary(log(1)))
    assert takeover.state == steps.SEALING
    takeover.tick(ALL_BUT_ONE_SECONDS)
    assert takeover.state == steps.DONE
    assert not takeover.sure


@pytest.mark.parametrize(("peer", "sure"), [(B, True), (C, False)])
def test_the_first_leader_of_all_lacks_nothing_if_the_directory_that_may_have_been_alone_was_asked(
    peer: str, sure: bool
) -> None:
    disk, known = log(), document("bac", ASYNC)
    takeover, _ = candidate(disk, known)
    takeover.missing(0.0)
    (read,) = takeover.missed(0.0, peer, Missed(0, 1, True, Position(0, 0)))
    (swap,) = takeover.read(0.0, read.number, 1, known)
    takeover.swapped(0.0, swap.number, 2)
    disk.promised = 2
    takeover.promised(0.0, 2)
    takeover.sealed_by(0.0, peer, summary(log()))
    assert takeover.state == steps.DONE
    assert takeover.sure is sure


def adopting_with_a_cut() -> tuple[Takeover, Follower, Disk]:
    """One that has to cut what its log has beyond the greatest one; the disk is slow."""
    disk, greatest = log(1, 1, 1), log(1, 2, 2, 2, name="b")
    takeover, follower = candidate(disk, document("bac"))
    sealing(takeover, disk)
    assert takeover.sealed_by(0.0, B, summary(greatest)) == [Truncate(2)]
    return takeover, follower, disk


def test_nothing_is_fetched_and_nothing_appended_while_its_log_is_being_cut() -> None:
    takeover, follower, disk = adopting_with_a_cut()
    assert Fetch not in kinds(sent(takeover.tick(3 * BEAT_SECONDS)))
    assert takeover.synced(3 * BEAT_SECONDS) == []
    assert takeover.fetched(3 * BEAT_SECONDS, B, Fetched(2, 4, records(4, 2))) == []
    disk.cut(2)
    follower.truncated(2.0)
    assert sent(takeover.truncated(2.0), B) == [Fetch(2, 2)]


def test_a_cut_that_takes_too_long_is_no_reason_to_wait_for_ever() -> None:
    takeover, follower, disk = adopting_with_a_cut()
    takeover.tick(ADOPT_SECONDS)
    assert takeover.state == steps.IDLE
    disk.cut(2)
    follower.truncated(ADOPT_SECONDS)
    assert takeover.truncated(ADOPT_SECONDS) == []


def test_a_take_over_that_it_has_sealed_itself_and_missed_since_is_no_news_to_it() -> None:
    # Whoever seals again and again and cannot lead would keep it from leading, though it could.
    disk = log(1)
    takeover, _ = candidate(disk, document("bac"))
    disk.promised = 5
    takeover.missing(0.0)
    (read,) = takeover.missed(0.0, B, Missed(5, 1, True, Position(0, 0)))
    (swap,) = takeover.read(0.0, read.number, 5, document("bac", epoch=5))
    assert (swap.version, swap.document.epoch) == (5, 6)


def test_a_take_over_that_it_seals_while_it_reads_the_document_itself_gets_its_time() -> None:
    disk = log(1)
    takeover, follower = candidate(disk, document("bac"))
    takeover.missing(0.0)
    (read,) = takeover.missed(0.0, C, Missing(1, 9, Position(1, 1)))
    # Both have begun at once, and the other one's swap was done before this node's question.
    follower.received(0.0, C, Seal(2))
    disk.promised = 2
    follower.promised(0.0, 2)
    assert takeover.read(0.0, read.number, 2, document("cab", epoch=2)) == []
    assert takeover.state == steps.IDLE


def test_a_take_over_that_it_has_not_heard_of_gets_its_time() -> None:
    takeover, _ = candidate(log(1), document("bac"))
    takeover.missing(0.0)
    (read,) = takeover.missed(0.0, B, Missed(5, 1, True, Position(0, 0)))
    assert takeover.read(0.0, read.number, 5, document("bac", epoch=5)) == []
    assert takeover.state == steps.IDLE


def test_a_swap_whose_answer_comes_when_it_has_promised_a_greater_epoch_leads_nobody() -> None:
    disk = log(1)
    takeover, follower = candidate(disk, document("bac"))
    swap = swapping(takeover)
    # Somebody has read what it swapped, has missed it, and took over: it answers slower than that.
    follower.received(1.0, C, Seal(3))
    disk.promised = 3
    follower.promised(1.0, 3)
    assert takeover.swapped(1.5, swap.number, 2) == []
    assert takeover.state == steps.IDLE
    takeover.sealed_by(1.5, B, summary(log(1)))
    takeover.promised(1.5, 2)
    assert takeover.state == steps.IDLE


def test_who_has_diverged_takes_nothing_over() -> None:
    takeover, follower = candidate(log(1), document("bac"))
    follower.diverged = True
    assert takeover.missing(0.0) == []
    assert takeover.state == steps.IDLE


def test_records_that_are_not_those_that_were_sealed_are_not_adopted() -> None:
    disk, greatest = log(1), log(1, 2, 2, 2, name="b")
    takeover, _ = candidate(disk, document("bac"))
    sealing(takeover, disk)
    assert sent(takeover.sealed_by(0.0, B, summary(greatest)), B) == [Fetch(2, 2)]
    assert takeover.fetched(0.0, B, Fetched(2, 2, records(2, 1, 1))) == []
    assert takeover.state == steps.IDLE


def test_a_node_in_doubt_is_not_one_of_the_half_and_one_that_have_to_seal() -> None:
    disk = log(1, 1)
    takeover, _ = candidate(disk, document("bac"))
    sealing(takeover, disk)
    takeover.sealed_by(0.0, C, summary(log(1, name="c")), doubt=True)
    assert takeover.state == steps.SEALING
    takeover.sealed_by(0.0, B, summary(log(1, name="b")))
    assert takeover.state == steps.DONE


def test_where_all_have_sealed_doubt_is_no_matter_and_the_greatest_log_is_adopted() -> None:
    disk = log(1)
    takeover, _ = candidate(disk, document("bac"))
    sealing(takeover, disk)
    takeover.sealed_by(0.0, C, summary(log(1, 1, name="c")), doubt=True)
    assert takeover.state == steps.SEALING
    assert sent(takeover.sealed_by(0.0, B, summary(log(1, name="b")), doubt=True), C) == [Fetch(2, 2)]
    assert takeover.sure, "one disk that is damaged hides nothing"


def test_who_takes_over_counts_itself_as_in_doubt_too() -> None:
    disk = log(1, 1)
    takeover, _ = candidate(disk, document("bac"))
    sealing(takeover, disk, doubt=1)
    takeover.sealed_by(0.0, C, summary(log(1, name="c")))
    assert takeover.state == steps.SEALING
    takeover.sealed_by(0.0, B, summary(log(1, name="b")))
    assert takeover.state == steps.DONE


def test_doubt_that_has_ended_while_others_are_waited_for_counts() -> None:
    disk = log(1, 1)
    takeover, _ = candidate(disk, document("bac"))
    sealing(takeover, disk)
    takeover.sealed_by(0.0, C, summary(log(1, name="c")), doubt=True)
    takeover.sealed_by(0.0, C, summary(log(1, 1, name="c")))
    assert takeover.state == steps.DONE


def test_it_says_for_whose_doubt_it_could_not_lead() -> None:
    disk = log(1, 1)
    takeover, _ = candidate(disk, document("bac"))
    sealing(takeover, disk)
    takeover.sealed_by(0.0, C, summary(log(1, name="c")), doubt=True)
    assert takeover.tick(SEAL_SECONDS) == [Hindered(frozenset({C}))]
    assert takeover.state == steps.IDLE


def test_where_too_few_have_sealed_doubt_is_not_the_reason() -> None:
    disk = log(1, 1)
    takeover, _ = candidate(disk, document("bac"))
    sealing(takeover, disk, doubt=1)
    assert takeover.tick(SEAL_SECONDS) == []


def test_where_its_own_disk_was_too_slow_another_ones_doubt_is_not_the_reason() -> None:
    takeover, _ = candidate(log(1, 1), document("bac"))
    swap = swapping(takeover)
    takeover.swapped(0.0, swap.number, 2)
    takeover.sealed_by(0.0, B, summary(log(1, name="b")))
    takeover.sealed_by(0.0, C, summary(log(1, name="c")), doubt=True)
    assert takeover.tick(SEAL_SECONDS) == []
    assert takeover.state == steps.IDLE


def hindered_by(peer: str) -> tuple[Takeover, Follower]:
    """A candidate that could not lead, for this one is in doubt; they miss a leader on."""
    disk = log(1)
    takeover, follower = candidate(disk, document("bac"))
    sealing(takeover, disk)
    takeover.sealed_by(0.0, peer, summary(log(1)), doubt=True)
    assert takeover.tick(SEAL_SECONDS) == [Hindered(frozenset({peer}))]
    return takeover, follower


def asks_again(takeover: Takeover, now: float, *peers: str) -> Effects:
    """It asks around, and these miss the leader too."""
    asks = takeover.missing(now)
    effects: Effects = [each for each in asks if not isinstance(each, Send)]
    for missing in sent(asks, B):
        for peer in peers:
            effects += takeover.missed(now, peer, Missed(2, missing.ask, True, Position(1, 1)))
    return effects


def test_an_attempt_that_can_come_to_nothing_is_not_made_and_takes_no_epoch() -> None:
    takeover, _ = hindered_by(C)
    began = SEAL_SECONDS + HOLD_OFF_SECONDS
    assert asks_again(takeover, began, C) == []
    assert asks_again(takeover, began + SEAL_SECONDS, C) == [Hindered(frozenset({C}))], "it has been so for long"
    assert kinds(asks_again(takeover, began + SEAL_SECONDS + 1.0, C, B)) == [Hindered, ReadRegister], "all are there"


def test_who_was_in_doubt_is_asked_again_after_a_while() -> None:
    # What it was told is old where its doubt was just being ended.
    takeover, _ = hindered_by(C)
    assert asks_again(takeover, HINDERED_SECONDS, C) == []
    assert kinds(asks_again(takeover, SEAL_SECONDS + HINDERED_SECONDS, C)) == [ReadRegister]


def test_once_there_was_a_leader_nobody_is_taken_for_in_doubt() -> None:
    takeover, follower = hindered_by(C)
    began = SEAL_SECONDS + HOLD_OFF_SECONDS
    assert asks_again(takeover, began, C) == []
    follower.leader = B
    takeover.found()
    assert kinds(asks_again(takeover, began + 1.0, C)) == [ReadRegister]


def test_a_node_in_doubt_that_knows_that_it_cannot_lead_does_not_try() -> None:
    disk = log(1)
    disk.doubt = 1
    takeover, _ = candidate(disk, document("bac"))
    assert asks_again(takeover, 0.0, C) == []
    assert asks_again(takeover, SEAL_SECONDS, C) == [Hindered(frozenset({A}))]
    assert kinds(asks_again(takeover, SEAL_SECONDS + 1.0, C, B)) == [Hindered, ReadRegister]


def test_two_members_that_are_left_by_command_lead_though_both_are_in_doubt() -> None:
    """docs/cluster-loss.md: the third, which is gone for good, is taken out of the document."""
    disk = log(1, 1)
    disk.doubt = 1
    takeover, _ = candidate(disk, document("ba"))
    takeover.missing(0.0)
    (read,) = takeover.missed(0.0, B, Missed(1, 1, True, Position(0, 0)))
    (swap,) = takeover.read(0.0, read.number, 1, document("ba"))
    takeover.swapped(0.0, swap.number, 2)
    disk.promised = 2
    takeover.promised(0.0, 2)
    takeover.sealed_by(0.0, B, summary(log(1, name="b")), doubt=True)
    assert takeover.state == steps.DONE


def test_in_the_mode_async_a_former_leader_in_doubt_counts_as_not_asked() -> None:
    for doubt in (False, True):
        disk = log(1, committed=2)
        takeover, _ = candidate(disk, document("bac", ASYNC))
        takeover.missing(0.0)
        (read,) = takeover.missed(0.0, B, Missed(1, 1, True, Position(0, 0)))
        (swap,) = takeover.read(0.0, read.number, 1, document("bac", ASYNC))
        takeover.swapped(0.0, swap.number, 2)
        disk.promised = 2
        takeover.promised(0.0, 2)
        takeover.sealed_by(0.0, B, summary(log(1, committed=2, name="b")), doubt=doubt)
        takeover.sealed_by(0.0, C, summary(log(1, name="c")))
        assert takeover.state == steps.DONE
        assert takeover.sure is not doubt
