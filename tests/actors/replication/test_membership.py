"""One change of members at a time, and two documents satisfied while it is not known which one holds."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from actors.replication.document import ALL, MAJORITY, MOVE, REMOVE, Change, ClusterDocument, Places
from actors.replication.leader import Leader
from actors.replication.limits import BEAT_SECONDS, SILENT_SECONDS
from actors.replication.membership import Membership
from actors.replication.modes import rule_of
from actors.replication.vocabulary import ReadRegister, SwapRegister
from tests.actors.replication.machines import A, B, C, D, append, document, follows, leading, log, member, stores


def opened(known: ClusterDocument, *peers: str) -> tuple[Membership, Leader]:
    """A leader of the second epoch that has opened; these followers have everything."""
    leader = leading(log(1), 2, known)
    leader.ruled(0.0, [rule_of(known)], [B, C, D])
    for peer in peers:
        follows(leader, peer, log(1))
        stores(leader, peer, 3)
    assert leader.opened
    leader.tick(0.6)
    leader.tick(1.2)
    return Membership(A, 7, known, "a1", count(1)), leader


def step(membership: Membership, leader: Leader, now: float = 1.3) -> list[Any]:
    effects = membership.tick(now, leader)
    leader.ruled(now, membership.rules(), membership.peers())
    return effects


def test_a_new_member_learns_first_then_counts_beside_the_others_and_then_alone() -> None:
    membership, leader = opened(document(epoch=2), B, C)
    assert membership.add("d", member("d")) is None
    assert membership.add("e", member("e")) == "a change is under way already"
    (swap,) = step(membership, leader)
    assert swap.document.members["d"].learner
    membership.swapped(swap.number, 8)
    assert step(membership, leader, 2.0) == []
    follows(leader, D, log(1, 2), 2.0)
    stores(leader, D, 3, 2.0)
    (swap,) = step(membership, leader, 2.6)
    assert (swap.version, swap.document.change.kind) == (8, "add")
    assert len(membership.rules()[-1].quorums) == 2
    membership.swapped(swap.number, 9)
    (swap,) = step(membership, leader, 3.2)
    assert swap.document.change is None
    assert not swap.document.members["d"].learner
    membership.swapped(swap.number, 10)
    assert membership.document.counting == ("a", "b", "c", "d")


def test_a_commit_needs_both_majorities_from_before_the_swap_is_sent_until_it_is_known() -> None:
    membership, leader = opened(document(epoch=2), B, C)
    assert membership.move("c", member("d")) is None
    (swap,) = step(membership, leader)
    assert swap.document.change.kind == MOVE
    append(leader.log, 2)  # type: ignore[arg-type]
    leader.appended(1.3)
    leader.log.durable = 4  # type: ignore[misc]
    leader.synced()
    stores(leader, C, 4, 1.3)
    assert leader.committed == 3, "half + 1 of the former ones alone commit something"
    stores(leader, B, 4, 1.3)
    assert leader.committed == 4


def test_a_swap_whose_answer_was_lost_keeps_both_until_a_read_has_moved_on() -> None:
    membership, leader = opened(document(epoch=2), B, C)
    membership.remove("c")
    (swap,) = step(membership, leader)
    membership.failed(1.3, swap.number)
    (read,) = step(membership, leader, 1.3 + BEAT_SECONDS)
    assert isinstance(read, ReadRegister)
    (again,) = membership.read(1.9, read.number, 7, document(epoch=2))
    assert again == SwapRegister(again.number, 7, swap.document)
    assert len(membership.documents()) == 2
    (read,) = membership.moved(1.9, again.number)
    assert membership.read(1.9, read.number, 8, swap.document) == []
    assert membership.documents() == (swap.document,)
    assert membership.document.change.kind == REMOVE  # type: ignore[union-attr]


def test_a_document_of_another_epoch_or_of_somebody_else_ends_the_lead() -> None:
    for found in (document("bac", epoch=3), document(epoch=2, writer="somebody")):
        membership, leader = opened(document(epoch=2), B, C)
        membership.remove("c")
        (swap,) = step(membership, leader)
        (read,) = membership.moved(1.3, swap.number)
        membership.read(1.3, read.number, 8, found)
        assert membership.superseded is not None


def test_the_leader_and_strangers_are_not_removed() -> None:
    membership, _ = opened(document(epoch=2), B, C)
    assert membership.remove("a") == "'a' leads: restart its node first, so that another one leads"
    assert membership.remove("x") == "there is no member 'x'"
    assert membership.add("b", member("b")) == "there is a member 'b' already"
    assert membership.give_up() == "no change is under way"


def test_in_all_a_silent_member_leaves_the_list_and_comes_back_when_it_has_everything() -> None:
    membership, leader = opened(document(epoch=2, mode=ALL), B)
    assert C not in [each for each in leader.peers if leader.caught_up(each)]
    now = SILENT_SECONDS
    stores(leader, B, 3, now)
    (swap,) = step(membership, leader, now)
    assert not swap.document.members["c"].in_step
    assert membership.rules()[0].in_step == {A, B, C}, "as long as it is not known, it is waited for"
    membership.swapped(swap.number, 8)
    leader.ruled(now, membership.rules(), membership.peers())
    assert leader.confirmed == 3
    append(leader.log, 2)  # type: ignore[arg-type]
    leader.appended(now)
    leader.log.durable = 4  # type: ignore[misc]
    stores(leader, B, 4, now)
    assert leader.confirmed == 4
    follows(leader, C, log(1), now)
    stores(leader, C, 3, now)
    for later in (0.6, 1.2):
        stores(leader, B, 4, now + later)
        leader.tick(now + later)
    assert step(membership, leader, now + 1.3) == []
    stores(leader, C, 4, now + 1.4)
    (swap,) = step(membership, leader, now + 2.0)
    assert swap.document.members["c"].in_step
    assert C in membership.rules()[-1].in_step, "it is waited for from before the swap is sent"


def test_in_all_who_leads_is_on_the_list_so_that_one_of_the_others_can_leave_it() -> None:
    known = document(epoch=2, mode=ALL)
    membership, leader = opened(replace(known, members={**known.members, "a": member("a", in_step=False)}), B, C)
    now = SILENT_SECONDS
    stores(leader, B, 3, now)
    (swap,) = step(membership, leader, now)
    assert [each.in_step for each in swap.document.members.values()] == [True, True, True]
    membership.swapped(swap.number, 8)
    leader.ruled(now, membership.rules(), membership.peers())
    (swap,) = step(membership, leader, now + BEAT_SECONDS)
    assert [each.in_step for each in swap.document.members.values()] == [True, True, False]


def test_in_all_one_whose_process_ends_leaves_the_list_at_once_and_is_not_on_it_again_until_it_has_come_back() -> None:
    membership, leader = opened(document(epoch=2, mode=ALL), B, C)
    for peer in (B, C):
        stores(leader, peer, 3, 1.0)
    assert step(membership, leader, 1.0) == []
    leader.ending = {C}
    (swap,) = step(membership, leader, 1.0 + BEAT_SECONDS)
    assert not swap.document.members["c"].in_step
    membership.swapped(swap.number, 8)
    leader.ruled(2.0, membership.rules(), membership.peers())
    for later in (2.0, 2.6, 3.2):
        for peer in (B, C):
            stores(leader, peer, 3, later)
        leader.tick(later)
        assert step(membership, leader, later) == [], "it has everything, and ends all the same"
    leader.ending = ()
    (swap,) = step(membership, leader, 4.0)
    assert swap.document.members["c"].in_step


def test_in_all_who_has_come_back_is_on_the_list_though_a_change_goes_on_so_that_who_is_gone_can_leave_it() -> None:
    known = document(epoch=2, mode=ALL)
    members = {**known.members, "c": member("c", in_step=False)}
    moves = Change(MOVE, "b", member("d", in_step=False))
    membership, leader = opened(replace(known, members=members, change=moves), C)
    now = SILENT_SECONDS
    stores(leader, C, 3, now)
    for later in (0.6, 1.2):
        stores(leader, C, 3, now + later)
        leader.tick(now + later)
    (swap,) = step(membership, leader, now + 1.3)
    assert [each.in_step for each in swap.document.members.values()] == [True, True, True]
    membership.swapped(swap.number, 8)
    leader.ruled(now, membership.rules(), membership.peers())
    (swap,) = step(membership, leader, now + 2.0)
    assert [each.in_step for each in swap.document.members.values()] == [True, False, True]
    assert swap.document.change == moves


def test_half_plus_one_stay_on_the_list() -> None:
    known = document(epoch=2, mode=ALL)
    members = {**known.members, "c": member("c", in_step=False)}
    membership, leader = opened(ClusterDocument("0" * 32, 2, "a", members, ALL), B)
    assert step(membership, leader, 100.0) == []


def test_in_other_modes_nobody_is_taken_off_the_list() -> None:
    membership, leader = opened(document(epoch=2, mode=MAJORITY), B)
    assert step(membership, leader, 100.0) == []


def test_what_nodes_say_of_where_clients_reach_them_is_in_the_document_after_one_swap() -> None:
    membership, leader = opened(document(epoch=2), B, C)
    there = membership.document.members["c"]
    membership.reached = {
        C: Places("c.example:1", "c.example:2", "c.example:3"),
        D: Places("d.example:1", "d.example:2"),
    }
    (swap,) = step(membership, leader)
    found = swap.document.members["c"]
    assert (found.send, found.receive, found.http, found.amqp) == ("c.example:1", "c.example:2", "c.example:3", None)
    assert (found.directory, found.replication) == (there.directory, there.replication)
    assert swap.document.change is None
    assert list(swap.document.members) == ["a", "b", "c"], "who is no member has no place"
    membership.swapped(swap.number, 8)
    assert step(membership, leader, 2.0) == [], "it says so already"


def test_where_a_member_is_reached_waits_for_no_change_that_is_under_way() -> None:
    membership, leader = opened(document(epoch=2), B, C)
    membership.reached = {C: Places("c.example:1", "c.example:2")}
    assert membership.move("b", member("d")) is None
    (swap,) = step(membership, leader)
    assert swap.document.change.kind == MOVE
    membership.swapped(swap.number, 8)
    change = swap.document.change
    (swap,) = step(membership, leader, 2.0)
    assert swap.document.members["c"].send == "c.example:1"
    assert swap.document.change == change, "the new directory has nothing yet"
    membership.swapped(swap.number, 9)
    assert step(membership, leader, 2.6) == []
