"""docs/reactivex.md holds what the tests have tried."""

from __future__ import annotations

import re
from pathlib import Path

from streams.rx.limits import MAX_EXPANSION
from tests.streams.rx.table import table

PAGE = Path(__file__).parents[3] / "docs" / "reactivex.md"
BEGIN, END = "<!-- table: made by python -m tests.streams.rx.table -->\n", "\n<!-- end of table -->"


def shown() -> str:
    text = PAGE.read_text("utf-8")
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def test_the_table_in_the_documentation_is_the_one_that_is_tested() -> None:
    assert shown() == table(), "print it anew: python -m tests.streams.rx.table"


def test_the_table_has_every_operator_once() -> None:
    names = re.findall(r"^\| `(\w+)` \|", shown(), re.MULTILINE)
    assert len(names) == len(set(names)) >= 135


def test_the_documented_limit_is_the_one_in_force() -> None:
    assert f"({MAX_EXPANSION})" in PAGE.read_text("utf-8")


def test_the_programs_in_the_documentation_run_and_print_what_they_say() -> None:
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert programs
    for program in programs:
        expected = re.findall(r"# -> (.*)", program)
        assert expected
        printed: list[str] = []
        exec(program, {"print": lambda value, to=printed: to.append(repr(value))})
        assert printed == expected
