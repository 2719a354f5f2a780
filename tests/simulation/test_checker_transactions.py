"""The history checker finds transactions that are torn, lost, or seen before their commit."""

from __future__ import annotations

import pytest

from tests.simulation.checker import LOST, UNCOMMITTED, QueueRules, Timing, check
from tests.simulation.history import Acknowledged, CommitAnswered, CommitAsked, Delivered, Event, Staged

RULES = {
    "q": QueueRules(visibility=10.0),
    "p": QueueRules(visibility=10.0, drops=True),
    "p.dead": QueueRules(visibility=10.0, fed_by=("p",)),
}


def staged(*messages: str, queue: str = "q", stage: str = "s", version: int = 0) -> Staged:
    return Staged(0.0, queue, stage, 0, "w", version, messages)


def asked(*messages: tuple[str, str], version: int = 0) -> CommitAsked:
    return CommitAsked(1.0, "w", version, messages)


def got(first: int, *messages: str, queue: str = "q") -> list[Event]:
    return [
        Delivered(2.0, 1, queue, first, messages, 1, False),
        Acknowledged(3.0, 1, queue, ((first, len(messages)),)),
    ]


ANSWERED = CommitAnswered(1.5, "w", 0)
BOTH: list[Event] = [staged("a", "b"), staged("c", queue="p")]
ALL = (("q", "a"), ("q", "b"), ("p", "c"))

GOOD: dict[str, list[Event]] = {
    "answered and whole": [*BOTH, asked(*ALL), ANSWERED, *got(0, "a", "b"), *got(0, "c", queue="p")],
    "not answered and whole": [*BOTH, asked(*ALL), *got(0, "a", "b"), *got(0, "c", queue="p")],
    "not answered and nothing of it": [*BOTH, asked(*ALL)],
    "never asked for": [*BOTH],
    "behind what was staged later": [
        staged("a"),
        staged("x", version=1),
        asked(("q", "x"), version=1),
        *got(5, "x"),
        asked(("q", "a")),
        *got(0, "a"),
    ],
    "asked for again with other stages, as the first were lost": [
        *BOTH,
        asked(*ALL),
        staged("d", stage="t"),
        asked(("q", "d")),
        ANSWERED,
        *got(0, "d"),
    ],
    "a part of it is a dead letter": [
        *BOTH,
        asked(*ALL),
        ANSWERED,
        *got(0, "a", "b"),
        *got(0, "c", queue="p.dead"),
    ],
}
BAD: dict[str, tuple[str, list[Event]]] = {
    "delivered and not committed": (UNCOMMITTED, [*BOTH, *got(0, "a", "b")]),
    "a losing stage is delivered": (
        UNCOMMITTED,
        [*BOTH, asked(*ALL[:2]), ANSWERED, *got(0, "a", "b"), *got(0, "c", queue="p")],
    ),
    "a dead letter that was not committed": (UNCOMMITTED, [*BOTH, *got(0, "c", queue="p.dead")]),
    "answered and lost": (LOST, [*BOTH, asked(*ALL), ANSWERED]),
    "one queue's part is lost": (LOST, [*BOTH, asked(*ALL), ANSWERED, *got(0, "a", "b")]),
    "one queue's part is lost, and nothing was answered": (LOST, [*BOTH, asked(*ALL), *got(0, "a", "b")]),
    "a message of it is lost": (LOST, [*BOTH, asked(*ALL), *got(0, "a"), *got(0, "c", queue="p")]),
    "parts of two commits": (
        UNCOMMITTED,
        [*BOTH, asked(*ALL), staged("d", stage="t"), asked(("q", "d")), ANSWERED, *got(0, "a", "b"), *got(5, "d")],
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_nothing_is_found_where_transactions_are_whole(name: str) -> None:
    assert check(GOOD[name], RULES, Timing()) == []


@pytest.mark.parametrize("name", BAD)
def test_a_transaction_that_is_torn_is_found_and_named(name: str) -> None:
    kind, events = BAD[name]
    assert {found.kind for found in check(events, RULES, Timing())} == {kind}
