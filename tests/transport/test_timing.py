"""Delay and time to live: what a program may state, and what it becomes on the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.limits import MAX_DELAY_SECONDS, MAX_TTL_SECONDS
from transport.errors import LocalProtocolError, RemoteProtocolError
from transport.wire.timing import MAX_DELAY_MS, MAX_TTL_MS, NO_TIMING, Timed, Timing, parse_time

A_YEAR = 366 * 24 * 3600
TEN_YEARS = 3660 * 24 * 3600


@pytest.mark.parametrize(
    ("timing", "properties"),
    [
        (Timing(), None),
        (Timing(delay=0), {"delay_ms": 0}),
        (Timing(delay=0.0004), {"delay_ms": 1}),
        (Timing(ttl=1e-9), {"ttl_ms": 1}),
        (Timing(delay=0.07, ttl=1.5), {"delay_ms": 70, "ttl_ms": 1500}),
        (Timing(A_YEAR, TEN_YEARS), {"delay_ms": 31_622_400_000, "ttl_ms": 316_224_000_000}),
    ],
)
def test_seconds_become_whole_milliseconds(timing: Timing, properties: dict[str, int] | None) -> None:
    assert timing.to_properties() == properties


@given(st.none() | st.integers(0, MAX_DELAY_MS), st.none() | st.integers(0, MAX_TTL_MS))
def test_every_millisecond_arrives_as_it_was_stated(delay_ms: int | None, ttl_ms: int | None) -> None:
    timing = Timing(None if delay_ms is None else delay_ms / 1000, None if ttl_ms is None else ttl_ms / 1000)
    properties = timing.to_properties()
    assert (properties or {}) == {
        name: value for name, value in (("delay_ms", delay_ms), ("ttl_ms", ttl_ms)) if value is not None
    }
    assert Timing.from_properties(properties) == timing


@pytest.mark.parametrize("value", [-0.001, A_YEAR + 0.001, float("nan"), float("inf"), True, "5", b"5", [5]])
def test_a_delay_that_cannot_be_is_refused(value: Any) -> None:
    with pytest.raises(LocalProtocolError, match=r"delay is .*; 0 to 31622400 \(366 days\) seconds are possible"):
        Timing(delay=value)
    with pytest.raises(LocalProtocolError, match="delay is"):
        Timed(b"x", delay=value)


@pytest.mark.parametrize("value", [-1, -0.001, TEN_YEARS + 1, float("nan"), float("-inf"), False, "5"])
def test_a_time_to_live_that_cannot_be_is_refused(value: Any) -> None:
    with pytest.raises(LocalProtocolError, match="ttl is"):
        Timing(ttl=value)
    with pytest.raises(LocalProtocolError, match="ttl is"):
        Timed(b"x", ttl=value)


@pytest.mark.parametrize("properties", [None, {}])
def test_no_properties_leave_everything_to_the_queue(properties: dict[str, Any] | None) -> None:
    assert Timing.from_properties(properties) is NO_TIMING


@pytest.mark.parametrize("name", ["delay_ms", "ttl_ms"])
@pytest.mark.parametrize("value", [-1, 2**62, 1.0, "1", b"1", True, [1], {}])
def test_a_property_that_is_no_whole_number_in_its_range_is_refused(name: str, value: object) -> None:
    with pytest.raises(RemoteProtocolError, match=f"property {name} is .* whole numbers from"):
        Timing.from_properties({name: value})


def test_a_time_to_live_of_nothing_and_one_of_ten_years_are_said_as_such() -> None:
    assert Timing(ttl=0).to_properties() == {"ttl_ms": 0}
    assert Timing.from_properties({"ttl_ms": 0}) == Timing(ttl=0)
    assert Timing(ttl=TEN_YEARS).to_properties() == {"ttl_ms": MAX_TTL_MS}


@pytest.mark.parametrize("properties", [{"ttl": 1}, {"delay_ms": 1, "urgency": 3}, {"x" * 5000: 1}])
def test_an_unknown_property_is_refused_by_its_name(properties: dict[str, Any]) -> None:
    with pytest.raises(
        RemoteProtocolError, match=r"unknown properties '.*there are delay_ms, ttl_ms, priority and deliver_at_ms"
    ) as caught:
        Timing.from_properties(properties)
    assert len(str(caught.value)) < 500


def test_what_an_element_leaves_open_its_sender_says() -> None:
    sender = Timing(delay=5, ttl=60)
    assert Timing().or_else(sender) == sender
    assert Timing(delay=0).or_else(sender) == Timing(delay=0, ttl=60)
    assert Timed(b"x", ttl=1).timing.or_else(sender) == Timing(delay=5, ttl=1)


def test_what_the_wire_allows_a_queue_takes_and_the_page_says() -> None:
    assert (MAX_DELAY_MS / 1000, MAX_TTL_MS / 1000) == (MAX_DELAY_SECONDS, MAX_TTL_SECONDS)
    page = (Path(__file__).parents[2] / "docs" / "protocol.md").read_text("utf-8")
    assert f"0 to {MAX_DELAY_MS}" in page
    assert f"0 to {MAX_TTL_MS}" in page


NINE = datetime(2027, 3, 1, 9, tzinfo=UTC)
NINE_SECONDS = 1_803_891_600.0


def test_a_time_is_said_as_milliseconds_since_the_epoch_and_not_before_it() -> None:
    assert Timing(deliver_at=NINE) == Timing(deliver_at=NINE_SECONDS) == Timed(b"x", deliver_at=NINE).timing
    assert Timing(deliver_at=NINE).to_properties() == {"deliver_at_ms": 1_803_891_600_000}
    assert Timing(deliver_at=1.0001).to_properties() == {"deliver_at_ms": 1001}
    assert Timing(deliver_at=-5).to_properties() == {"deliver_at_ms": 0}
    assert Timing.from_properties({"deliver_at_ms": 1500}) == Timing(deliver_at=1.5)


def test_the_broker_takes_a_time_for_the_delay_until_then() -> None:
    def until(time: float) -> float:
        return max(0.0, time - 100.0)

    assert Timing.from_properties({"deliver_at_ms": 130_000, "ttl_ms": 5}, until) == Timing(30.0, 0.005)
    assert Timing.from_properties({"deliver_at_ms": 5_000}, until) == Timing(0.0)
    assert Timing(deliver_at=160.0).delay_by(until) == 60.0
    assert Timing(delay=7.0).delay_by(until) == 7.0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, "5", [5], datetime(2027, 3, 1, 9)])
def test_a_time_that_cannot_be_is_refused(value: Any) -> None:
    with pytest.raises(LocalProtocolError, match="deliver_at is"):
        Timing(deliver_at=value)


def test_a_delay_and_a_time_together_are_refused() -> None:
    with pytest.raises(LocalProtocolError, match="both given"):
        Timing(delay=1, deliver_at=5.0)
    with pytest.raises(RemoteProtocolError, match="both properties"):
        Timing.from_properties({"delay_ms": 1, "deliver_at_ms": 5})


def test_a_time_of_its_own_stands_in_the_place_of_its_senders_delay_and_the_reverse() -> None:
    assert Timing(deliver_at=5.0).or_else(Timing(delay=3, ttl=1)) == Timing(ttl=1, deliver_at=5.0)
    assert Timing(delay=3).or_else(Timing(deliver_at=5.0)) == Timing(delay=3)
    assert Timing().or_else(Timing(deliver_at=5.0)) == Timing(deliver_at=5.0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2027-03-01T09:00:00Z", NINE_SECONDS), ("2027-03-01T10:00:00+01:00", NINE_SECONDS), ("12.5", 12.5)],
)
def test_a_time_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["tomorrow", "2027-03-01T09:00:00", "nan", ""])
def test_a_text_that_is_no_time_with_a_zone_is_refused(text: str) -> None:
    with pytest.raises(LocalProtocolError, match=r"is no time|without a zone|deliver_at is"):
        parse_time(text)
