"""What clients of AMQP were confirmed survives kills of the broker; and what finds losses is shown to find them."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.fault.kill_amqp import Seen, kill_amqp
from tests.fault.kill_transactions import IN, LEFT, REFUSED, RIGHT, Transacted, bodies_of, group_of

SEED, KILLS, EACH_LIFE = 5672, 3, 600


def test_a_broker_that_is_killed_three_times_loses_nothing_confirmed(tmp_path: Path) -> None:
    seen, violations = asyncio.run(kill_amqp(KILLS, EACH_LIFE, SEED, tmp_path / "data"))
    assert violations == []
    assert len(seen.confirmed) > EACH_LIFE // 2
    assert seen.dead
    assert seen.transacted.moves
    assert seen.transacted.fed


def good() -> Seen:
    return Seen(
        confirmed={b"a", b"b"},
        first=Counter({b"a": 1, b"b": 1}),
        acknowledged={b"a"},
        refused={b"b"},
        dead=Counter({b"b": 1}),
    )


def test_what_may_be_is_no_violation() -> None:
    seen = good()
    # Acknowledged in a life that was killed, and refused since.
    seen.acknowledged.add(b"b")
    assert seen.violations() == []


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("acknowledged", set(), "1 confirmed messages are lost, one is a"),
        ("first", Counter({b"a": 2}), "1 messages were delivered again unmarked, one is a"),
        ("refused", set(), "1 dead letters were never refused, one is b"),
        ("dead", Counter({b"b": 2}), "1 dead letters are there twice, one is b"),
        ("acknowledged_last", {b"b"}, "1 dead letters were in their queue too, one is b"),
    ],
)
def test_what_must_not_be_is_found(name: str, value: object, what: str) -> None:
    seen = good()
    setattr(seen, name, value)
    assert seen.violations() == [what]


WHOLE, OTHER = bodies_of("f0", 0, 3), bodies_of("f0", 1, 1)


def transacted(**places: list[bytes]) -> Transacted:
    found = {"left": WHOLE[:2], "right": WHOLE[:2], "dead": WHOLE[2:], "in": OTHER} | places
    names = {"left": LEFT, "right": RIGHT, "dead": REFUSED, "in": IN}
    return Transacted(
        fed={group_of(WHOLE[0])}, found={names[place]: Counter(bodies) for place, bodies in found.items()}
    )


def test_transactions_that_are_whole_are_no_violation() -> None:
    assert transacted().violations() == []
    # Of one whose commit was not answered all may be there, or nothing.
    assert transacted(**{"in": []}).violations() == []


@pytest.mark.parametrize(
    ("places", "what"),
    [
        ({"right": WHOLE[:1]}, ["1 messages are in one of two queues, one is f0.0.3-1"]),
        ({"dead": WHOLE[1:]}, ["1 messages of transactions are in two places, one is f0.0.3-1"]),
        ({"dead": []}, ["1 transactions are there by half, one is f0.0.3"]),
        ({"left": [], "right": [], "dead": []}, ["1 committed transactions are lost, one is f0.0.3"]),
    ],
)
def test_a_transaction_by_half_is_found(places: dict[str, list[bytes]], what: list[str]) -> None:
    assert transacted(**places).violations() == what


def test_a_transaction_that_was_rolled_back_and_is_there_is_found() -> None:
    seen = transacted()
    seen.rolled_back = {group_of(OTHER[0])}
    assert seen.violations() == ["1 transactions are there that were rolled back, one is f0.1.1"]
