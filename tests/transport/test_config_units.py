"""Durations and sizes as they are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.config.units import (
    DURATIONS,
    SIZES,
    parse_count,
    parse_duration,
    parse_share,
    parse_size,
    show_duration,
    show_size,
)
from transport.wire.truths import parse_flag


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1500", 1500),
        ("10_000", 10_000),
        ("64MiB", 64 << 20),
        ("64 mib", 64 << 20),
        (" 1GiB ", 1 << 30),
        ("1kB", 1000),
        ("1.5GB", 1_500_000_000),
        ("1.1 GB", 1_100_000_000),
        ("0.5KiB", 512),
        ("7B", 7),
    ],
)
def test_a_size_is_bytes_or_a_number_with_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    ["", "MiB", "5m", "5M", "5k", "-1", "1.5", "0.3KiB", "1 2", "1e6", "1 . 5MB", "\N{SUPERSCRIPT TWO}", "9" * 30],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no size|no whole number"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("10", 10.0),
        ("0.1", 0.1),
        ("10s", 10.0),
        ("50ms", 0.05),
        ("1.5s", 1.5),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("1d", 86400.0),
        ("1d2h3m4s5ms", 93784.005),
        (" 2 h ", 7200.0),
    ],
)
def test_a_duration_is_seconds_or_numbers_with_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-15)


@pytest.mark.parametrize("text", ["", "s", "5x", "5m3d", "5s5s", "-1s", "1s2", "1:30", "inf", "nan", "10 seconds"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration(text)


@given(st.integers(0, 2**62))
def test_a_size_that_is_shown_is_read_again_as_the_same(size: int) -> None:
    assert parse_size(show_size(size)) == size


@given(st.integers(0, 366 * 86_400_000))
def test_a_duration_that_is_shown_is_read_again_as_the_same(milliseconds: int) -> None:
    assert parse_duration(show_duration(milliseconds / 1000)) == milliseconds / 1000


@given(st.floats(1e-9, 1e7))
def test_a_duration_of_no_whole_milliseconds_is_shown_as_seconds(seconds: float) -> None:
    assert parse_duration(show_duration(seconds)) == pytest.approx(seconds, rel=1e-3)


@given(st.text(max_size=12, alphabet="0123456789._ mshdkKMGTiB%-"))
def test_any_text_is_a_value_in_range_or_refused_with_words(text: str) -> None:
    for parse in (parse_size, parse_duration, parse_share, parse_count):
        said = "is no "
        try:
            value = parse(text)
        except ValueError as error:
            said, value = str(error), 0
        assert "is no " in said
        assert value >= 0 or parse is parse_count


def test_the_units_are_those_that_are_documented() -> None:
    assert [parse_size(f"1{unit}") for unit in SIZES] == list(SIZES.values())
    assert [parse_duration(f"1{unit}") * 1000 for unit in DURATIONS] == list(DURATIONS.values())


def test_shares_flags_and_counts() -> None:
    assert (parse_share("0.6"), parse_share("60%"), parse_share("60 %"), parse_share("1")) == (0.6, 0.6, 0.6, 1.0)
    assert [parse_flag(text) for text in ("true", "YES", "on", "1", "false", "No", "off", "0")] == [True] * 4 + [
        False
    ] * 4
    assert parse_count("-1_000") == -1000
    for parse, text in ((parse_share, "70"), (parse_flag, "maybe"), (parse_count, "1.0"), (parse_count, "")):
        with pytest.raises(ValueError, match=r"is no|is neither"):
            parse(text)
