"""The arithmetic of modes, against what it is for: every set that commits meets every set that takes over."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from actors.replication import modes
from actors.replication.document import ADD, ALL, ASYNC, MAJORITY, MOVE, ONE, REMOVE, Change, ClusterDocument
from tests.actors.replication.machines import A, B, C, D, directory, document, member


def changing(change: Change, names: str = "abc", learner: str | None = None) -> ClusterDocument:
    members = {name: member(name) for name in names}
    if learner:
        members[learner] = member(learner, learner=True)
    return ClusterDocument("0" * 32, 1, names[0], members, MAJORITY, change)


def subsets(nodes: frozenset[str]) -> list[frozenset[str]]:
    return [frozenset(some) for size in range(len(nodes) + 1) for some in combinations(sorted(nodes), size)]


DOCUMENTS = [
    document("a"),
    document("abc"),
    document("abcd"),
    document("abcde"),
    changing(Change(ADD, "d"), learner="d"),
    changing(Change(REMOVE, "c")),
    changing(Change(MOVE, "c", member("d"))),
]


@pytest.mark.parametrize("known", DOCUMENTS)
def test_every_set_that_commits_meets_every_set_that_takes_over(known: ClusterDocument) -> None:
    rules = (modes.rule_of(known),)
    everybody = subsets(modes.voters(rules))
    commits = [some for some in everybody if modes.committed(rules, dict.fromkeys(some, 9)) == 9]
    takes = [some for some in everybody if modes.enough(rules, some)]
    assert commits
    assert takes
    assert all(one & other for one in commits for other in takes)


def test_a_document_and_the_next_are_both_satisfied_while_one_of_them_holds() -> None:
    """Half + 1 of those before and of those after a move may have nobody in common: each of the steps between has."""
    before, after = document("abc"), document("abd")
    between = changing(Change(MOVE, "c", member("d")))
    chain = [modes.rule_of(each) for each in (before, between, after)]
    for one, other in pairwise(chain):
        everybody = subsets(modes.voters((one, other)))
        commits = [some for some in everybody if modes.committed((one, other), dict.fromkeys(some, 9)) == 9]
        for rule in (one, other):
            takes = [some for some in everybody if modes.enough((rule,), some)]
            assert all(commit & take for commit in commits for take in takes)


def test_a_learner_does_not_count() -> None:
    known = ClusterDocument("0" * 32, 1, "a", {"a": member("a"), "b": member("b", learner=True)}, MAJORITY)
    assert modes.voters((modes.rule_of(known),)) == {A}


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(ASYNC, 50), (ONE, 40), (MAJORITY, 30), (ALL, 20)],
)
def test_what_may_be_confirmed_goes_by_the_mode(mode: str, expected: int) -> None:
    known = document("abcde", mode)
    members = {**known.members, "e": member("e", in_step=False)}
    rules = (modes.rule_of(ClusterDocument("0" * 32, 1, "a", members, mode)),)
    ends = {A: 50, B: 40, C: 30, D: 20, directory("e"): 10}
    assert modes.confirmed(rules, ends, A) == expected
    assert modes.committed(rules, ends) == 30


def test_all_waits_for_whoever_one_of_the_documents_lists_as_in_step() -> None:
    stepped = {**document("abc", ALL).members, "c": member("c", in_step=False)}
    off = ClusterDocument("0" * 32, 1, "a", stepped, ALL)
    ends = {A: 9, B: 9, C: 3}
    assert modes.confirmed((modes.rule_of(off),), ends, A) == 9
    assert modes.confirmed((modes.rule_of(off), modes.rule_of(document("abc", ALL))), ends, A) == 3


def test_no_more_leave_the_step_than_half_plus_one_stay() -> None:
    rule = modes.rule_of(document("abc", ALL))
    assert modes.may_leave(rule, C)
    assert not modes.may_leave(rule._replace(in_step=frozenset({A, B})), B)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_in_one_a_take_over_is_whole_exactly_when_it_meets_every_two_copies(size: int) -> None:
    rule = modes.rule_of(document("abcde"[:size], ONE))
    (quorum,) = rule.quorums
    for some in subsets(quorum):
        if modes.enough((rule,), some):
            met = all(frozenset(two) & some for two in combinations(sorted(quorum), 2))
            assert modes.whole(rule, some, None, opened=True) == met


def test_in_async_a_take_over_is_whole_only_with_the_former_leader() -> None:
    rule = modes.rule_of(document("abc", ASYNC))
    assert modes.whole(rule, {A, B}, A, opened=True)
    assert not modes.whole(rule, {B, C}, A, opened=True)
    assert not modes.whole(rule, {A, B}, A, opened=False)


@pytest.mark.parametrize("known", [known for known in DOCUMENTS if len(known.members) > 1])
def test_one_disk_that_is_damaged_takes_nothing_committed_out_of_the_logs_of_those_that_take_over(
    known: ClusterDocument,
) -> None:
    rule = modes.rule_of(known)
    committing = [some for some in subsets(modes.voters([rule])) if modes.enough([rule], some)]
    for answered in subsets(modes.voters([rule])):
        for doubted in subsets(answered):
            if not modes.certain([rule], answered, doubted):
                assert doubted or not modes.enough([rule], answered)
                continue
            assert modes.enough([rule], answered)
            for damaged in doubted:
                assert all((answered - {damaged}) & stored for stored in committing), (answered, doubted)


def test_half_and_one_with_one_in_doubt_are_too_few_and_without_it_or_all_are_enough() -> None:
    rule = modes.rule_of(document("abc"))
    assert modes.certain([rule], {A, B}, set())
    assert not modes.certain([rule], {A, B}, {B})
    assert modes.certain([rule], {A, B, C}, {A, B, C})
    assert modes.certain([rule], {A, B, C}, {B})
    assert not modes.certain([rule], {A}, set())


@pytest.mark.parametrize("size", range(2, 7))
def test_a_take_over_is_certain_where_any_half_and_one_have_somebody_without_doubt_among_those_that_answered_or_all_have(
    size: int,
) -> None:
    nodes = frozenset("abcdef"[:size])
    rule = modes.Rule(MAJORITY, (nodes,), nodes)
    committing = [some for some in subsets(nodes) if len(some) == modes.half_plus_one(size)]
    for answered in subsets(nodes):
        for doubted in subsets(answered):
            found = modes.certain([rule], answered, doubted)
            met = all((answered - doubted) & stored for stored in committing)
            assert found is (answered == nodes or (met and modes.enough([rule], answered))), (answered, doubted)
            damaged = [some for some in subsets(doubted) if len(some) < size / 2]
            assert not found or all((answered - some) & stored for some in damaged for stored in committing)


def test_of_four_that_one_of_is_gone_two_without_doubt_are_enough() -> None:
    rule = modes.rule_of(document("abcd"))
    assert modes.certain([rule], {A, B, C}, {A})
    assert not modes.certain([rule], {A, B, C}, {A, B})
    assert not modes.certain([rule], {A, B}, set())
