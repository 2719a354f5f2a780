"""How figures are written for people, and what a table does with names that are too long: one way, on every terminal."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.cli import _written as written
from transport.cli._looking import Rates
from transport.cli._optional_value import say_values
from transport.cli._queue_figures import SHORT, queue_lines
from transport.cli._queue_page import blocking
from transport.cli._tables import cell_len, table
from transport.config.units import parse_duration, parse_size

LONG = "n" * 200
FIGURES = {"ready": 10**8, "in_flight": 10**6, "in_per_s": 12345.6, "out_per_s": 0.25, "oldest_ms": 7_500_000}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0004, "0.4 ms"),
        (0.35, "350 ms"),
        (0.9996, "1 s"),
        (1.5, "1.5 s"),
        (9.99, "10 s"),
        (59.6, "1 min"),
        (125, "2 min 5 s"),
        (7_500, "2 h 5 min"),
        (90_000, "1 d 1 h"),
        (86_400 * 12_345, "12,345 d"),
        (-5, "-5 s"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert written.duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (2**20 - 1, "1 MiB"), (3 * 2**50, "3,072 TiB")],
)
def test_a_size_is_in_the_largest_unit_that_it_fills(number: int, text: str) -> None:
    assert written.size(number) == text


@pytest.mark.parametrize(
    ("per_second", "text"), [(0, "0"), (0.001, "<0.01"), (0.02, "0.02"), (2.54, "2.5"), (12345.6, "12,346")]
)
def test_a_rate_has_as_many_digits_as_tell_something(per_second: float, text: str) -> None:
    assert written.rate(per_second) == text


@given(st.floats(0.001, 86_400 * 900))
def test_a_time_that_is_shown_can_be_typed(seconds: float) -> None:
    shown = written.duration(seconds).replace(",", "")
    assert parse_duration(shown) == pytest.approx(seconds, rel=0.06, abs=0.0006)


@given(st.integers(0, 2**50))
def test_a_size_that_is_shown_can_be_typed(number: int) -> None:
    shown = written.size(number).replace(",", "")
    tenths = re.fullmatch(r"(\d+)\.(\d) (\w+)", shown)
    if tenths is None:
        assert parse_size(shown) == pytest.approx(number, rel=0.1)
    else:
        unit = parse_size(f"1 {tenths[3]}")
        assert (int(tenths[1]) + int(tenths[2]) / 10) * unit == pytest.approx(number, rel=0.06)


@pytest.mark.parametrize("name", ["orders", LONG, "日本語" * 30, "😀" * 63, "[red]x[/red]"])
def test_on_a_terminal_a_name_is_whole_and_its_figures_fit_beneath(name: str) -> None:
    lines = queue_lines([FIGURES | {"name": name}, FIGURES | {"name": "short"}], SHORT, 80)
    assert any(line == name or line.startswith(f"{name}  ") for line in lines)
    assert max(cell_len(line) for line in lines if line != name) <= 80
    assert [line.split()[-1] for line in lines if "100,000,000" in line] == ["min", "min"]


def test_into_a_pipe_each_row_is_one_line_with_the_same_columns_whatever_they_hold() -> None:
    full = queue_lines([FIGURES | {"name": LONG}], SHORT, None)
    assert len([line for line in full if LONG in line and "100,000,000" in line]) == 1
    empty = queue_lines([], SHORT, None)
    assert full[1].split() == empty[1].split() == ["queue", "ready", "in", "flight", "in/s", "out/s", "oldest"]


def test_names_share_the_room_that_figures_leave() -> None:
    rows = [{"queue": "a" * 30, "client": "b" * 60, "n": 1}, {"queue": "c", "client": "d", "n": 22}]
    lines = table(rows, [("queue", "queue"), ("client", "client"), ("n", "n")], 80)
    assert lines[2].split() == ["a" * 30, "1"]
    assert lines[3] == "    " + "b" * 60
    assert lines[4].split() == ["c", "d", "22"]


def test_what_does_not_fit_into_a_row_stands_beneath_it_parted_between_words() -> None:
    rows = [{"name": "ada", "proofs": ", ".join(f"token {n:012x}" for n in range(9)), "rights": "monitor"}]
    lines = table(rows, [("name", "name"), ("rights", "rights"), ("proofs", "proofs")], 80)
    assert lines[2] == "ada   monitor"
    assert max(map(len, lines)) <= 80
    assert " ".join(line.strip() for line in lines[3:]) == rows[0]["proofs"]


def test_each_item_of_a_list_that_does_not_fit_has_a_line_and_is_not_folded() -> None:
    grants = [f"write+read on {'a queue with blanks ' * 5}*", "read on b"]
    name = "the one who counts " * 5
    rows = [
        {"name": "ada", "rights": ["monitor"], "grants": grants, "proofs": ["password"]},
        {"name": "bob", "rights": [], "grants": ["read on c"], "proofs": ["password", "certificate CN=bob"]},
    ]
    heading, _, *lines = table(rows, None, 80)
    assert lines[1:3] == [f"    {each}" for each in grants]
    where = heading.index("proofs")
    assert [lines[place].index("password") for place in (0, 3)] == [where, where]
    assert "read on c" in lines[3]
    assert table([{**rows[0], "name": name}], None, 80)[2] == name


def test_what_a_client_calls_itself_cannot_act_on_a_terminal() -> None:
    assert table([{"client": "a\x1b[2J\nb"}], [("client", "client")], 80)[2] == r"a\x1b[2J\nb"


def test_a_queue_that_failed_is_told_below_the_table() -> None:
    lines = queue_lines([{"name": "q", "failed": "no answer within 5 s"}], SHORT, 80)
    assert "q failed: no answer within 5 s" in lines


@pytest.mark.parametrize(
    ("facts", "reasons"),
    [
        ({"ready": 0}, []),
        ({"failed": "gone"}, ["failed: gone"]),
        ({"paused": "the disk is full"}, ["paused: the disk is full; its senders wait"]),
        (
            {"stored_messages": 5, "max_messages": 5, "overflow": "reject", "ready": 0},
            ["full: 5 of 5 messages; what is sent is refused"],
        ),
        ({"ready": 1, "receivers": 0}, ["no receiver: 1 message waits"]),
        ({"ready": 2, "receivers": 1, "in_flight": 7}, ["no demand: its receivers ask for nothing now, and hold 7"]),
        ({"waiting_receivers": 2}, ["exclusive: 2 receivers wait in line behind the first"]),
    ],
)
def test_what_blocks_a_queue_is_said(facts: dict[str, Any], reasons: list[str]) -> None:
    assert blocking(facts) == reasons


def test_a_rate_is_what_has_come_since_the_look_before_and_none_where_a_queue_was_made_anew() -> None:
    times = iter([10.0, 12.0, 13.0])
    rates = Rates(lambda: next(times))
    first, second, third = ({"name": "q", "total_in": total, "total_out": 0} for total in (100, 120, 5))
    for queue in (first, second, third):
        rates.add([queue])
    assert "in_per_s" not in first
    assert (second["in_per_s"], second["out_per_s"]) == (10.0, 0.0)
    assert "in_per_s" not in third


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--watch"], ["--watch=2"]),
        (["--watch", "5"], ["--watch=5"]),
        (["--watch", "1m30s"], ["--watch=1m30s"]),
        (["--watch", "orders"], ["--watch=2", "orders"]),
        (["--watch", "--json"], ["--watch=2", "--json"]),
        (["--watch=3", "--", "--watch"], ["--watch=3", "--", "--watch"]),
    ],
)
def test_an_option_whose_value_is_left_out_has_its_default(words: list[str], said: list[str]) -> None:
    assert say_values(words) == said
