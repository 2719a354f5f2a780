"""Cron expressions and intervals: which times they name, be it from any instant on, in any zone, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from unittest import mock
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from actors.scheduling import expressions
from actors.scheduling.errors import InvalidScheduleError, ScheduleLimitError
from actors.scheduling.expressions import NICKNAMES, Cron, Every, Times, Within, times_of, zone_of
from actors.scheduling.limits import MAX_EXPRESSION_BYTES, MAX_INTERVAL_SECONDS

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Asia/Beirut", "Asia/Kathmandu")
CHANGES = tuple(
    int(datetime(*day, tzinfo=UTC).timestamp())
    for day in ((2024, 3, 31, 1), (2024, 10, 27, 1), (2024, 3, 10, 7), (2018, 11, 4, 3), (2021, 3, 28, 0), (2024, 6, 1))
)
"""Where clocks change in one of the zones or the other, and where in none."""


def field(low: int, high: int) -> st.SearchStrategy[str]:
    one = st.integers(low, high)
    pair = st.tuples(one, one).map(sorted)
    return st.one_of(
        st.just("*"),
        st.just("*"),
        one.map(str),
        st.sampled_from([2, 3, 7, 15]).map("*/{}".format),
        pair.map(lambda both: f"{both[0]}-{both[1]}"),
        pair.map(lambda both: f"{both[0]},{both[1]}"),
    )


EXPRESSIONS = st.tuples(
    st.one_of(st.just(""), field(0, 59)), field(0, 59), field(0, 23), st.just("*"), st.just("*"), field(0, 6)
).map(lambda fields: " ".join(fields).strip())
INSTANTS = st.builds(lambda change, off: change + off, st.sampled_from(CHANGES), st.integers(-100_000, 100_000))


def at(text: str, zone: str = "UTC") -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


def shown(times: Times, after: int, count: int, zone: str = "UTC") -> list[str]:
    found = []
    for _ in range(count):
        following = times.after(after)
        assert following is not None
        found.append(datetime.fromtimestamp(following, ZoneInfo(zone)).isoformat(" "))
        after = following
    return found


def test_a_cron_expression_names_the_times_of_its_zone() -> None:
    times = times_of("0 8 * * MON-FRI", "Europe/Berlin")
    assert shown(times, at("2026-11-27T07:00", "Europe/Berlin"), 2, "Europe/Berlin") == [
        "2026-11-27 08:00:00+01:00",
        "2026-11-30 08:00:00+01:00",
    ]


def test_six_fields_begin_with_seconds() -> None:
    assert shown(times_of("*/20 * * * * *"), at("2026-01-01T00:00:05"), 2) == [
        "2026-01-01 00:00:20+00:00",
        "2026-01-01 00:00:40+00:00",
    ]


def test_an_hour_that_is_left_out_has_its_time_at_its_end_and_one_that_comes_twice_has_it_once() -> None:
    spring, autumn = at("2026-03-28T12:00", "Europe/Berlin"), at("2026-10-24T12:00", "Europe/Berlin")
    times = times_of("30 2 * * *", "Europe/Berlin")
    assert shown(times, spring, 2, "Europe/Berlin") == ["2026-03-29 03:00:00+02:00", "2026-03-30 02:30:00+02:00"]
    assert shown(times, autumn, 2, "Europe/Berlin") == ["2026-10-25 02:30:00+02:00", "2026-10-26 02:30:00+01:00"]


def test_what_names_no_hour_goes_by_the_time_that_passes() -> None:
    times = times_of("*/30 * * * *", "Europe/Berlin")
    found = shown(times, at("2026-10-25T01:45", "Europe/Berlin"), 4, "Europe/Berlin")
    assert [text[11:] for text in found] == ["02:00:00+02:00", "02:30:00+02:00", "02:00:00+01:00", "02:30:00+01:00"]


@given(EXPRESSIONS, st.sampled_from(ZONES), INSTANTS, st.integers(0, 200_000))
def test_times_ascend_and_from_any_instant_on_they_are_the_same(text: str, zone: str, start: int, later: int) -> None:
    times = Cron(text, zone_of(zone))
    found = list(islice(times._from(start), 50))
    assert found == sorted(set(found))
    assert all(time > start for time in found)
    behind = [time for time in found if time > start + later]
    if behind:
        assert times.after(start + later) == behind[0]


@given(EXPRESSIONS, st.sampled_from(ZONES), INSTANTS, st.integers(0, 90_000), st.integers(1, 20))
def test_the_last_times_before_an_instant_are_found_from_behind(
    text: str, zone: str, start: int, later: int, most: int
) -> None:
    times = Cron(text, zone_of(zone))
    meant = []
    for time in islice(times._from(start), 4_000):
        if time > start + later:
            break
        meant.append(time)
    else:
        return
    found = times.within(start, start + later, most)
    assert found.times == meant[-most:]
    assert bool(found.before) == (len(meant) > most)
    assert found.before <= max(0, len(meant) - most)


@pytest.mark.parametrize(("text", "months"), [("* * * 1 1 *", 5), ("* * * * 1 *", 8), ("* * 3 * * *", 1)])
def test_of_times_that_are_close_together_and_long_ago_few_are_looked_at(text: str, months: int) -> None:
    looked_at = 0

    class Counting(CronSim):
        def __next__(self) -> datetime:
            nonlocal looked_at
            looked_at += 1
            return super().__next__()

    start = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())
    up_to = int(datetime(2024, 1 + months, 1, 2, tzinfo=UTC).timestamp())
    last = {
        5: datetime(2024, 1, 2, tzinfo=UTC),
        8: datetime(2024, 2, 1, tzinfo=UTC),
        1: datetime(2024, 1, 31, 4, tzinfo=UTC),
    }
    behind = int(last[months].timestamp())
    with mock.patch.object(expressions, "CronSim", Counting):
        found = times_of(text).within(start, up_to, 256)
    assert found.times == list(range(behind - 256, behind))
    assert found.before >= 1
    assert looked_at < 20_000


@given(st.integers(1, 5_000), st.integers(0, 10_000), st.integers(0, 20_000), st.integers(0, 20_000), st.integers(1, 9))
def test_an_interval_counts_from_its_anchor_which_is_none_of_its_times(
    seconds: int, anchor: int, after: int, later: int, most: int
) -> None:
    times = Every(seconds, anchor)
    every = [anchor + at * seconds for at in range(1, 40_000 // seconds + 2)]
    assert times.after(after) == next(time for time in every if time > after)
    meant = [time for time in every if after < time <= after + later]
    assert times.within(after, after + later, most) == Within(meant[-most:], max(0, len(meant) - most))


def test_an_interval_is_written_with_units() -> None:
    assert times_of("every 1h30m").after(0) == 5_400
    assert times_of("every  45 s").after(0) == 45
    assert times_of("every 366d").after(0) == MAX_INTERVAL_SECONDS


def test_nicknames_are_what_cron_has() -> None:
    for name, expression in NICKNAMES.items():
        assert times_of(name).after(1_000_000) == times_of(expression).after(1_000_000)


@pytest.mark.parametrize(
    ("expression", "zone", "why"),
    [
        ("foo", "UTC", "is no cron expression (wrong number of fields)"),
        ("61 * * * *", "UTC", "bad minute"),
        ("* * */20 * 1L", "UTC", "no time in the next fifty years"),
        ("0 0 30 2 *", "UTC", "bad day-of-month"),
        ("9" * 200 + " * * * *", "UTC", "bad minute"),
        ("@reboot", "UTC", "there are @hourly, @daily"),
        ("every 0s", "UTC", "MIN_INTERVAL_SECONDS of 1"),
        ("every 367d", "UTC", "MAX_INTERVAL_SECONDS"),
        ("every 1.5s", "UTC", "is no interval"),
        ("every ", "UTC", "wrong number of fields"),
        ("* * * * *", "Mars/Olympus", "there is no time zone 'Mars/Olympus'"),
        ("* * * * *", "America", "there is no time zone"),
        ("* * * * *", "../etc/passwd", "there is no time zone"),
        ("* * * * *", "/etc/localtime", "there is no time zone"),
        ("* * * * *", "", "there is no time zone"),
    ],
)
def test_what_names_no_time_is_refused_and_told_what_would(expression: str, zone: str, why: str) -> None:
    with pytest.raises(InvalidScheduleError) as refused:
        times_of(expression, zone)
    assert why in str(refused.value)


def test_an_expression_has_a_limit() -> None:
    with pytest.raises(ScheduleLimitError, match=f"MAX_EXPRESSION_BYTES of {MAX_EXPRESSION_BYTES}"):
        times_of("*" * (MAX_EXPRESSION_BYTES + 1))
