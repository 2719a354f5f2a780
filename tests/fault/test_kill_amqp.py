"""What clients of AMQP were confirmed survives kills of the broker; and what finds losses is shown to find them."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from tests.fault.kill_amqp import Seen, kill_amqp

SEED, KILLS, EACH_LIFE = 5672, 3, 600


def test_a_broker_that_is_killed_three_times_loses_nothing_confirmed(tmp_path: Path) -> None:
    seen, violations = asyncio.run(kill_amqp(KILLS, EACH_LIFE, SEED, tmp_path / "data"))
    assert violations == []
    assert len(seen.confirmed) > EACH_LIFE // 2
    assert seen.dead


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
