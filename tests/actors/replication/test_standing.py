"""What a node says of its cluster: who leads, how far behind each is, and nothing that it does not know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from actors.replication.document import ADD, MOVE, Change
from actors.replication.limits import MISS_SECONDS
from actors.replication.positions import summary
from actors.replication.replica import Replica
from actors.replication.standing import MAX_MARKS, Marks, standing
from actors.replication.vocabulary import Following, Stored
from tests.actors.replication.machines import A, B, C, D, append, log
from tests.actors.replication.test_replica import leader, node


def rows(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in facts["members"]}


def test_the_leader_knows_how_far_behind_each_is() -> None:
    disk = log(1)
    replica, marks = leader(disk), Marks()
    marks.add(3.0, 3, 200)
    append(disk, 2, 2)
    facts = standing(replica, "a", 4.5, {B, C}, marks, 600)
    assert (facts["role"], facts["leader"], facts["epoch"], facts["mode"]) == ("leader", "a", 2, "majority")
    assert (facts["end"], facts["committed"]) == (5, 3)
    assert rows(facts)["a"]["lag_records"] == 0
    c = rows(facts)["c"]
    assert (c["role"], c["connected"], c["stored"], c["lag_records"]) == ("follower", True, 3, 2)
    assert (c["lag_bytes"], c["lag_s"], c["heard_s"]) == (400, 1.5, 1.0)


def test_what_somebody_lacks_who_has_not_said_what_it_has_is_not_known() -> None:
    b = rows(standing(leader(log(1)), "a", 4.0, {C}, Marks(), 0))["b"]
    assert (b["role"], b["connected"], b["stored"], b["lag_records"], b["lag_s"]) == ("away", False, None, None, None)


def test_a_member_that_is_connected_and_has_not_answered_is_away() -> None:
    replica = leader(log(1))
    assert replica.leader is not None
    late = replica.leader.follower(C).heard + MISS_SECONDS  # type: ignore[union-attr]
    assert rows(standing(replica, "a", late, {B, C}, Marks(), 0))["c"]["role"] == "away"


def test_a_follower_knows_itself_and_to_whom_it_has_a_connection() -> None:
    facts = standing(node(log(1)), "a", 0.5, {B}, Marks(), 0)
    assert (facts["role"], facts["leader"], facts["confirmed"]) == ("follower", None, None)
    assert {name: each["connected"] for name, each in rows(facts).items()} == {"a": True, "b": True, "c": False}
    assert {each["lag_records"] for each in facts["members"]} == {None}
    assert rows(facts)["a"]["stored"] == 2


def test_a_learner_and_a_change_are_told() -> None:
    replica = leader(log(1))
    assert replica.membership is not None
    document = replica.membership.document
    learner = replace(document.members["b"], learner=True, in_step=False)
    replica.membership.document = replace(document, members={**document.members, "b": learner}, change=Change(ADD, "b"))
    facts = standing(replica, "a", 3.6, {B, C}, Marks(), 0)
    assert facts["change"] == {"kind": "add", "name": "b"}
    assert (rows(facts)["b"]["counts"], rows(facts)["a"]["directory"]) == (False, A)


def moving() -> Replica:
    """A leader, whose member `b` is to live in the directory `D`, which is filled."""
    replica = leader(log(1))
    assert replica.membership is not None
    document = replica.membership.document
    there = replace(document.members["b"], directory=D)
    replica.membership.document = replace(document, change=Change(MOVE, "b", there))
    replica.membership.changes += 1
    replica.connected(3.6, D)
    replica.received(3.6, D, Following(2, summary(log(1))))
    replica.received(3.6, D, Stored(2, 2, 3.6))
    return replica


def test_of_a_member_that_moves_it_is_told_how_far_the_directory_is_that_is_filled() -> None:
    facts = standing(moving(), "a", 3.6, {C, D}, Marks(), 0)
    b = rows(facts)["b"]
    assert (facts["change"], b["directory"], b["moves_to"]) == ({"kind": "move", "name": "b"}, B, D)
    assert (b["role"], b["connected"], b["stored"], b["lag_records"]) == ("learner", True, 2, 1)
    assert b["in_step"] is False, "that is of the directory that counts until it has moved"
    assert {rows(facts)[name]["moves_to"] for name in "ac"} == {None}


def test_a_directory_that_a_member_moves_from_speaks_of_itself_and_the_one_that_it_moves_to_of_that() -> None:
    document = moving().document
    assert document is not None
    for me, role, moves_to in ((B, "follower", None), (D, "learner", D)):
        replica = Replica(0.0, me, log(1), "b1")
        replica.takeover.knows(2, document)
        b = rows(standing(replica, "b", 0.0, {A}, Marks(), 0))["b"]
        assert (b["role"], b["connected"], b["stored"], b["moves_to"]) == (role, True, 2, moves_to)


def test_a_member_that_is_to_be_reached_elsewhere_in_the_directory_that_it_has_is_told_of_as_ever() -> None:
    replica = leader(log(1))
    assert replica.membership is not None
    document = replica.membership.document
    there = replace(document.members["c"], replication="elsewhere:1")
    replica.membership.document = replace(document, change=Change(MOVE, "c", there))
    c = rows(standing(replica, "a", 3.6, {B, C}, Marks(), 0))["c"]
    assert (c["role"], c["moves_to"], c["stored"]) == ("follower", None, 3)


@pytest.mark.parametrize(
    ("stored", "seconds", "nbytes"),
    [(41, 0.0, 0), (40, 4.0, 10), (31, 4.0, 100), (21, 14.0, 200), (16, 24.0, 250), (1, 34.0, 400)],
)
def test_age_and_bytes_go_by_the_marks_before_and_behind(stored: int, seconds: float, nbytes: int) -> None:
    marks = Marks()
    for at in range(4):
        # A mark each ten seconds, at which there were ten records more, of ten bytes.
        marks.add(100.0 + 10 * at, 1 + 10 * at, 100 * at)
    assert marks.seconds(134.0, stored, 41) == seconds
    assert marks.lacking(stored, 41, 400) == nbytes


def test_a_log_that_stood_still_does_not_make_what_is_new_old() -> None:
    marks = Marks()
    for at in range(100):
        marks.add(float(at), 5, 50)
    marks.add(100.0, 6, 60)
    assert marks.seconds(100.5, 5, 6) == 1.5


def test_there_are_so_many_marks_and_no_more_however_long_somebody_lags() -> None:
    marks = Marks()
    for at in range(10 * MAX_MARKS):
        marks.add(float(at), 1 + at, 10 * at)
    assert len(marks._ends) <= MAX_MARKS
    now, end = 10.0 * MAX_MARKS - 1, 10 * MAX_MARKS
    assert marks.seconds(now, 1, end) == now
    for stored in (end // 4, end // 2, end - 200):
        assert 0 <= marks.seconds(now, stored, end) - (now - stored) <= 64
        assert marks.lacking(stored, end, 10 * end) == pytest.approx(10 * (end - stored), rel=0.01, abs=700)
