"""docs/schedules.md is typed as it stands, and prints what it shows; its limits are those that there are."""

from __future__ import annotations

import re
from pathlib import Path

from actors.scheduling import limits
from actors.scheduling.expressions import NICKNAMES, times_of
from actors.scheduling.schedule import MISSED
from tests.docs.typed_page import ROOT, check_page
from transport.clients.schedule_commands import MAX_COMMAND_BYTES

PAGE = ROOT / "docs" / "schedules.md"
TEXT = PAGE.read_text("utf-8")
UNITS = {"KiB": 1024, "MiB": 1024**2}


def test_the_shell_prints_what_the_page_shows(folder: Path, commands: Path) -> None:
    check_page(PAGE, folder, commands)


def test_the_page_has_every_limit_as_it_is() -> None:
    rows = re.findall(r"^\| `(MAX_\w+)` \| ([\d,]+) ?(KiB|MiB)?", TEXT, re.MULTILINE)
    assert len(rows) == 8
    for name, number, unit in rows:
        there = MAX_COMMAND_BYTES if name == "MAX_COMMAND_BYTES" else getattr(limits, name)
        assert there == int(number.replace(",", "")) * UNITS.get(unit, 1), name
    assert limits.MIN_INTERVAL_SECONDS == 1
    assert limits.MAX_INTERVAL_SECONDS == 366 * 24 * 3600
    assert f"more than {limits.MISSED_SECONDS} seconds ago" in TEXT
    assert f"the last {limits.MAX_MISSED}" in TEXT


def test_every_expression_of_the_page_is_one_and_every_policy_is_on_it() -> None:
    table = TEXT.partition("| expression | when |")[2].partition("\n\n")[0]
    expressions = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    assert len(expressions) == 5
    for expression in (*expressions, *re.findall(r"`(every [^`]+)`", TEXT)):
        assert times_of(expression).after(0)
    assert all(name in TEXT for name in NICKNAMES if name not in ("@midnight", "@annually"))
    assert all(f"| `{word}` |" in TEXT for word in MISSED)
