"""The soak of strict order in its short form, and what it would say of a queue that breaks it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.fault.strict_order import Order, soak

DELIVERIES = 1_500


def test_an_exclusive_queue_delivers_in_strict_order_to_one_receiver_after_the_other(tmp_path: Path) -> None:
    order = asyncio.run(soak(DELIVERIES, 652, tmp_path / "data", lambda _: None))
    assert order.examples == []
    assert order.acknowledged == DELIVERIES <= order.deliveries


@pytest.mark.parametrize(
    ("delivered", "wrong"),
    [
        ([(0, 0, False), (1, 1, False), (2, 2, False)], ""),
        ([(1, 1, False), (0, 0, False)], "1 came when it was the turn of 0"),
        ([(0, 0, False), (2, 2, False)], "2 came when it was the turn of 1"),
        ([(0, 0, False), (0, 0, True)], "0 came when it was the turn of 1"),
        ([(0, 1, False)], "message 1 is at 0 of the queue"),
    ],
)
def test_what_is_out_of_turn_is_found(delivered: list[tuple[int, int, bool]], wrong: str) -> None:
    order = Order()
    order.receiver_comes()
    for one in delivered:
        order.deliver(*one)
    assert "".join(order.examples[:1]) == wrong
    assert bool(order.wrong) == bool(wrong)


def test_the_next_receiver_begins_with_what_is_not_acknowledged_and_is_told_that_it_came_before() -> None:
    order = Order()
    order.receiver_comes()
    for sequence in range(3):
        order.deliver(sequence, sequence, flagged=False)
    order.acknowledge(0)
    order.receiver_comes()
    order.deliver(1, 1, flagged=True)
    assert order.wrong == 0
    order.deliver(2, 2, flagged=False)
    assert order.examples == ["2 came again and is not marked"]
    order.receiver_comes()
    order.deliver(2, 2, flagged=True)
    assert order.wrong == 2
