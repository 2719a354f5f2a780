"""Demand as totals on the wire, and as growth on either side of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.errors import DemandExceededError
from transport.wire.cumulative import CumulativeDemand, GrantedDemand

numbers = st.integers(0, 2**63 - 1)


@given(st.lists(st.tuples(numbers, numbers), max_size=20))
def test_totals_grant_their_growth_and_lower_numbers_grant_nothing(totals: list[tuple[int, int]]) -> None:
    demand = CumulativeDemand()
    messages = size = 0
    for total_messages, total_size in totals:
        more_messages, more_size = demand.growth(total_messages, total_size)
        assert more_messages >= 0
        assert more_size >= 0
        messages += more_messages
        size += more_size
    assert messages == demand.messages == max((total for total, _ in totals), default=0)
    assert size == demand.bytes == max((total for _, total in totals), default=0)


def test_saying_the_same_demand_twice_is_harmless() -> None:
    demand = CumulativeDemand()
    assert demand.growth(10, 1000) == (10, 1000)
    assert demand.growth(10, 1000) == (0, 0)
    assert demand.growth(12, 900) == (2, 0)
    assert demand.growth(12, 1001) == (0, 1)


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), max_size=20))
def test_what_one_side_grants_the_other_side_hears(increments: list[tuple[int, int]]) -> None:
    granting, hearing = CumulativeDemand(), CumulativeDemand()
    for increment in increments:
        assert hearing.growth(*granting.grow(*increment)) == increment


def test_more_messages_than_are_granted_and_any_without_bytes_are_refused_and_not_counted() -> None:
    granted = GrantedDemand()
    with pytest.raises(DemandExceededError):
        granted.use(1, 10)
    granted.grow(10, 100)
    granted.use(4, 99)
    with pytest.raises(DemandExceededError):
        granted.use(7, 1)
    granted.use(1, 1_000_000)
    with pytest.raises(DemandExceededError):
        granted.use(1, 1)
    granted.grow(0, 1_000_000)
    granted.use(5, 1)
    assert (granted.used_messages, granted.used_bytes) == (10, 1_000_100)
