"""The pages' tables of exit codes are the program's, row by row; and each name of a code is in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from transport.cli import exit_codes
from transport.cli.exit_codes import EXIT_CODES

DOCS = Path(__file__).resolve().parents[2] / "docs"
TABLE = "| code | meaning |\n|---|---|\n" + "".join(f"| {row.code} | {row.meaning} |\n" for row in EXIT_CODES)


@pytest.mark.parametrize("page", ["cli.md", "operations.md"])
def test_a_page_has_the_table_as_it_is_made_of_the_programs(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    found = re.findall(r"^\| code \| meaning \|\n(?:^\|.*\n)+", text, re.MULTILINE)
    assert found == [TABLE]


def test_every_code_that_has_a_name_is_in_the_table_once() -> None:
    named = {value for name, value in vars(exit_codes).items() if name.startswith("EXIT_") and isinstance(value, int)}
    listed = [row.code for row in EXIT_CODES]
    assert sorted(listed) == sorted([*map(str, named), f"{exit_codes.SIGNAL_EXIT_BASE} + n"])


def test_the_page_on_operations_can_be_read_in_one_sitting() -> None:
    assert len((DOCS / "operations.md").read_text("utf-8").splitlines()) < 150
