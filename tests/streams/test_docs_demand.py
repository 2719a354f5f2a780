"""docs/demand.md: its programs are those in examples/streams, they print what it says, and its table is the operators' own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from streams.publishers.blocks import BLOCK_BYTES
from streams.stages.fan_in import FAN_IN_PREFETCH
from streams.stages.flatten import SUBSTREAM_PREFETCH
from streams.subscribers.file import FILE_SINK_AHEAD
from streams.subscribers.iterate import ITERATION_PREFETCH
from streams.subscribers.pull import PULL_PREFETCH
from tests.streams.catalogue.every import flows
from tests.streams.pages import (
    DOCS,
    MOST_WORDS,
    ROOT,
    Shown,
    broken_links,
    codes,
    missing_parts,
    shown_programs,
    tables,
)

PAGE = DOCS / "demand.md"
TEXT = PAGE.read_text("utf-8")
SHOWN = shown_programs(TEXT)
FOLDER = ROOT / "examples" / "streams"
MOST_PROGRAM_LINES = 45
SECONDS = 60.0
"""What a program may take on a busy machine."""
AHEAD: dict[str, int | None] = {case.name: case.ahead for case in flows()}
"""How far each operator runs ahead, as tests/streams/generated holds it to."""


def run_example(path: Path) -> str:
    """A process of its own: some measure their memory."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
    done = subprocess.run(
        [sys.executable, path], env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: Path(shown.path).stem)
def test_a_program_prints_what_the_guide_says(shown: Shown) -> None:
    assert run_example(ROOT / shown.path) == shown.output


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: Path(shown.path).stem)
def test_what_the_guide_shows_is_in_the_program(shown: Shown) -> None:
    assert missing_parts(shown, (ROOT / shown.path).read_text("utf-8")) == []


def test_the_guide_shows_no_output_but_that_of_its_programs_and_one_picture() -> None:
    fences = re.findall(r"^```(\w*)$", TEXT, re.MULTILINE)
    assert Counter(fences[::2]) == {"python": len(SHOWN), "": len(SHOWN) + 1}
    assert set(fences[1::2]) == {""}


def test_the_guide_shows_every_program_once() -> None:
    assert sorted(shown.path for shown in SHOWN) == sorted(str(p.relative_to(ROOT)) for p in FOLDER.glob("*.py"))


def test_a_program_can_be_read_at_a_glance() -> None:
    for path in FOLDER.glob("*.py"):
        lines = path.read_text("utf-8").count("\n")
        assert lines <= MOST_PROGRAM_LINES, f"{path.name} has {lines} lines"
    assert f"at most {MOST_PROGRAM_LINES} lines" in TEXT


def test_a_part_that_the_program_does_not_have_is_found() -> None:
    shown = Shown("x.py", ("    a = 1\n", "a = 1\n", "b = 2\n", "\n"), "")
    assert missing_parts(shown, "if True:\n    a = 1\n") == ["a = 1\n", "b = 2\n", "\n"]


def test_the_guide_can_be_read_in_one_sitting() -> None:
    assert len(TEXT.split()) <= MOST_WORDS


def test_the_guide_links_to_nothing_that_is_not_there() -> None:
    assert broken_links(PAGE) == []


def rows() -> dict[str, list[str]]:
    """What stands in the table of section 4: what is taken ahead, and the operators of which that is said."""
    (table,) = tables(TEXT)
    return {ahead: codes(operators) for ahead, operators in table[1:]}


@pytest.mark.parametrize(
    ("row", "ahead"),
    [
        ("nothing", 0),
        ("one element", 1),
        ("`parallelism`", 4),
        ("one list", 4),
        ("16 from each input", FAN_IN_PREFETCH),
        ("all there is: upstream is not held back", None),
    ],
)
def test_the_table_says_how_far_ahead_an_operator_runs(row: str, ahead: int | None) -> None:
    operators = set(rows()[row]) - {"buffer"}
    assert operators
    assert {name: AHEAD[name] for name in operators} == dict.fromkeys(operators, ahead)


def test_what_holds_as_much_as_it_is_told_does() -> None:
    assert set(rows()["as many as they are told"]) == {
        "buffer(size)",
        "batch(max)",
        "delay(size=16)",
        "Source.queue(bound)",
    }
    assert (AHEAD["buffer"], AHEAD["batch"], AHEAD["delay"]) == (8, 6, 16)
    assert all(ahead is None for name, ahead in AHEAD.items() if name.startswith("buffer, drop"))


def test_the_other_numbers_of_the_table_are_those_in_force() -> None:
    assert rows()["16 for each substream, and one"] == ["group_by"]
    assert rows()[f"a chunk, of {BLOCK_BYTES // 1024} KiB"] == ["Source.lines", "Source.file"]
    assert {"async for", "Sink.queue", "Sink.as_async_iterator", "Sink.file"} == set(rows()["16"])
    assert SUBSTREAM_PREFETCH == ITERATION_PREFETCH == PULL_PREFETCH == FILE_SINK_AHEAD == 16


def test_what_the_program_measures_is_what_the_operators_are_held_to() -> None:
    (shown,) = (shown for shown in SHOWN if shown.path.endswith("how_far_ahead.py"))
    for line in shown.output.splitlines():
        operator, measured = re.split(r"\s{2,}", line)
        name = operator.split("(")[0] + (", drop_head" if "DROP_HEAD" in operator else "")
        assert AHEAD[name] == (None if measured == "not held back" else int(measured)), operator
