"""Demand adds up, saturates and is never given away twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import UNBOUNDED, Demand, add_demand
from streams.demand import multiply_demand


@given(st.lists(st.integers(1, UNBOUNDED), max_size=20))
def test_demand_is_the_sum_of_the_requests_or_unbounded(requests: list[int]) -> None:
    demand = Demand()
    for n in requests:
        demand.add(n)
    assert demand.outstanding == min(sum(requests), UNBOUNDED)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 100)), max_size=50))
def test_what_is_taken_never_exceeds_what_was_requested(steps: list[tuple[bool, int]]) -> None:
    demand = Demand()
    requested = taken = 0
    for is_request, n in steps:
        if is_request:
            demand.add(n)
            requested += n
        else:
            given_now = demand.take(n)
            assert given_now == min(n, requested - taken)
            taken += given_now
        assert demand.outstanding == requested - taken >= 0


@pytest.mark.parametrize("n", [0, -1, -UNBOUNDED])
def test_a_request_for_less_than_one_is_refused_rule_3_9(n: int) -> None:
    demand = Demand()
    with pytest.raises(ValueError, match=r"3\.9"):
        demand.add(n)
    assert demand.requested == 0


def test_unbounded_demand_is_never_used_up_rule_3_17() -> None:
    demand = Demand()
    demand.add(UNBOUNDED)
    demand.add(UNBOUNDED)
    assert demand.take(10**6) == 10**6
    assert demand.outstanding == UNBOUNDED
    assert add_demand(UNBOUNDED, 1) == UNBOUNDED
    assert multiply_demand(UNBOUNDED, 3) == UNBOUNDED
    assert multiply_demand(4, 3) == 12
