"""Request strategies decide when to ask for more, and how much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import (
    MaxInFlightRequestStrategy,
    OneByOneRequestStrategy,
    WatermarkRequestStrategy,
    ZeroRequestStrategy,
)


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_zero_never_asks(remaining: int, in_flight: int) -> None:
    assert ZeroRequestStrategy().request_demand(remaining, in_flight) == 0


def test_one_by_one_asks_when_nothing_is_on_its_way() -> None:
    assert OneByOneRequestStrategy().request_demand(0, 5) == 1
    assert OneByOneRequestStrategy().request_demand(1, 0) == 0


def test_watermark_fills_up_to_high_once_below_low() -> None:
    strategy = WatermarkRequestStrategy(10)
    assert strategy.low == 5
    assert [strategy.request_demand(n) for n in (0, 4, 5, 10)] == [10, 6, 0, 0]
    assert WatermarkRequestStrategy(10, low=1).request_demand(1) == 0
    assert WatermarkRequestStrategy(1).request_demand(0) == 1


def test_max_in_flight_asks_in_steps_of_half() -> None:
    strategy = MaxInFlightRequestStrategy(10)
    assert strategy.batch == 5
    assert strategy.request_demand(0, 0) == 10
    assert strategy.request_demand(3, 3) == 0
    assert strategy.request_demand(2, 3) == 5
    assert MaxInFlightRequestStrategy(1).request_demand(0, 0) == 1


@given(st.integers(1, 50), st.lists(st.integers(0, 3), max_size=200), st.data())
def test_max_in_flight_is_never_exceeded_and_never_stalls(limit: int, choices: list[int], data: st.DataObject) -> None:
    strategy = MaxInFlightRequestStrategy(limit, data.draw(st.integers(1, limit)))
    remaining = in_flight = 0
    for choice in choices:
        remaining += strategy.request_demand(remaining, in_flight)
        assert remaining + in_flight <= limit
        assert remaining + in_flight > 0
        if choice < 2 and remaining:
            remaining, in_flight = remaining - 1, in_flight + 1
        elif in_flight:
            in_flight -= 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: MaxInFlightRequestStrategy(0),
        lambda: MaxInFlightRequestStrategy(3, batch=4),
        lambda: MaxInFlightRequestStrategy(3, batch=0),
        lambda: WatermarkRequestStrategy(0),
        lambda: WatermarkRequestStrategy(3, low=4),
    ],
)
def test_strategies_that_could_stall_or_overrun_are_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ValueError, match=r"must|need"):
        make()
