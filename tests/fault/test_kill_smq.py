"""What a source of the simple message queue was confirmed survives kills of the broker; and what finds losses is shown to find them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.fault.kill_smq import KILLS, Seen, kill_smq, payload
from tests.transport.gateways.smq_client import Delivery

SEED = 6211
FEW = 2_000


def seen(*deliveries: tuple[int, int, bytes]) -> Seen:
    """Of number, id and kind of each delivery."""
    return Seen(
        deliveries=[Delivery(kind, made.to_bytes(16, "big"), payload(number)) for number, made, kind in deliveries]
    )


def in_order(numbers: Iterable[int]) -> list[tuple[int, int, bytes]]:
    return [(number, number, b"M") for number in numbers]


def test_a_broker_that_is_killed_three_times_loses_and_reorders_nothing(tmp_path: Path) -> None:
    found, violations = asyncio.run(kill_smq(FEW, KILLS, SEED, tmp_path / "data"))
    assert violations == []
    assert found.confirmed.value == FEW
    assert any(each.kind == b"R" for each in found.deliveries)


def test_what_is_sent_or_delivered_again_after_a_kill_is_no_violation() -> None:
    assert seen(*in_order(range(3)), (2, 2, b"R"), (1, 10, b"M"), (2, 11, b"M"), (3, 12, b"M")).violations(4, 1) == []


@pytest.mark.parametrize(
    ("deliveries", "what"),
    [
        (in_order([0, 1, 3]), "1 messages are lost, the first is 2"),
        (in_order([0, 2, 1, 3]), "out of order"),
        (in_order([0, 1, 3, 2]), "passed over"),
        ([*in_order([0, 1, 2]), (2, 2, b"M"), (3, 3, b"M")], "not said to be possibly replayed"),
        ([*in_order([0, 1, 2]), (3, 2, b"M")], "two messages have the id"),
        ([*in_order(range(4)), *[(0, 9, b"M"), (0, 10, b"M"), (0, 11, b"M")]], "goes back 3 times at 1 kills"),
    ],
)
def test_what_must_not_be_is_found(deliveries: list[tuple[int, int, bytes]], what: str) -> None:
    assert any(what in violation for violation in seen(*deliveries).violations(4, 1))
