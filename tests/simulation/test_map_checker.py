"""The checker of the map finds what is lost, made up and mixed, and nothing in what is well."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.simulation.checker import LOST, PHANTOM
from tests.simulation.history import Crashed, Event, Put, PutConfirmed, Remembered
from tests.simulation.map_checker import MIXED, check_map

ONE, TWO, GONE = Put(1, "s", "a", b"1"), Put(2, "s", "b", b"2"), Put(3, "s", "a", None)
A, B = ("s", "a", b"1"), ("s", "b", b"2")
DIED = Crashed(4, "killed")


def found(events: Sequence[Event]) -> list[str]:
    return [finding.kind for finding in check_map(events)]


@pytest.mark.parametrize(
    "events",
    [
        [ONE, TWO, GONE, DIED, Remembered(5, 3, (B,))],
        [ONE, TWO, GONE, DIED, Remembered(5, 2, (A, B))],
        [ONE, PutConfirmed(1, 1), TWO, DIED, Remembered(5, 1, (A,)), TWO, Remembered(6, 2, (A, B))],
        [DIED, Remembered(5, 0, ())],
    ],
)
def test_nothing_is_found_where_the_first_changes_are_there(events: list[Event]) -> None:
    assert found(events) == []


def test_a_confirmed_change_that_is_gone_is_found() -> None:
    assert found([ONE, TWO, PutConfirmed(2, 2), DIED, Remembered(5, 1, (A,))]) == [LOST]


def test_a_later_change_without_an_earlier_one_is_found() -> None:
    assert found([ONE, TWO, DIED, Remembered(5, 2, (B,))]) == [MIXED]


def test_a_change_that_nobody_made_is_found() -> None:
    assert found([ONE, DIED, Remembered(5, 2, (A,))]) == [PHANTOM]
