"""docs/tour.md has every verb; it is typed as it stands, on a terminal of 80 columns and into a pipe, and prints what it shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from tests.docs.console import COLUMNS, Step, steps
from tests.docs.typed_page import ROOT, as_it_is, check_page
from transport.cli._tables import cell_len
from transport.cli.app import app

PAGE = ROOT / "docs" / "tour.md"
DIFFERENT = (
    (r"penstock_[\w-]{43}\b", "TOKEN"),
    (r"\bPK[0-9A-F]{18}\b", "KEY"),
    (r"(?m)^(KEY) \S+$", r"\1 SECRET"),
    (r"\b[0-9a-f]{12}\b", "TOKEN-NAME"),
    (r"\b20\d\d-\d\d-\d\d\b(?!T)", "DATE"),
    (r"\bversion \d[\w.+]*", "version N"),
    (r"\bpenstock \d[\w.+]*", "penstock N"),
    # How much a journal holds by then, and has not let go of yet, depends on how fast the benchmark was.
    (r"saved: \d+ files, [\d.]+ [KMG]iB", "saved: N files, SIZE"),
    (r"before record \d+", "before record N"),
    # A broker's numbers for connections, how much of its demand a receiver has renewed, and what a journal has written meanwhile.
    (r"(?m)^ *\d+  (receiver|admin)(.*  )[\d,]+( +\d+)$", r"ID  \1\2N\3"),
    (r"(?m)^(  (?:segments|[a-z]+ lsn|syncs|groups|records|checkpoints|cache [a-z]+)) +\d+$", r"\1  N"),
    # What a benchmark measures, and its pictures.
    (r"(?m)^(confirmed|received) .*$", r"\1  FIGURES"),
    (r"(?m)^(alone|loaded) .*(one message at a time|with up to) ?[\d,]*", r"\1  FIGURES  \2 "),
    (r"(?ms)^(round trips of .*?:\n).*\Z", r"\1"),
)
"""What is another each time, and stands on this page alone."""
ONLY_ON_A_TERMINAL = {"user list": "a row that is too long goes on beneath, and is one line in a pipe"}


def same(text: str) -> str:
    for pattern, placeholder in DIFFERENT:
        text = re.sub(pattern, placeholder, text)
    return text


def into_a_pipe(step: Step) -> str:
    command = step.command.replace("bench --seconds 2", "bench --seconds 0.5")
    alone = "|" not in command and command.startswith("penstock ") and not step.terminal
    alone = alone and not any(command.startswith(f"penstock {verb}") for verb in ONLY_ON_A_TERMINAL)
    return f"{command} 2>&1 | cat" if alone else command


def test_on_a_terminal_of_80_columns_it_prints_what_it_shows(folder: Path, started_commands: Path) -> None:
    check_page(PAGE, folder, started_commands, as_it_is, same, context=False)


def test_into_a_pipe_it_prints_the_same(folder: Path, commands: Path) -> None:
    check_page(PAGE, folder, commands, into_a_pipe, same, context=False)


def test_no_table_and_no_figure_is_wider_than_the_terminal() -> None:
    shown = [line for step in steps(PAGE.read_text("utf-8")) for line in step.shown]
    assert [line for line in shown if cell_len(line) > COLUMNS and not line.startswith(("penstock ", "context "))] == []


def verbs(command: Any, name: str = "") -> Iterator[str]:
    for each, inner in command.commands.items():
        if hasattr(inner, "commands"):
            yield from verbs(inner, f"{name}{each} ")
        elif not inner.hidden:
            yield f"{name}{each}"


def test_every_verb_is_there() -> None:
    typed = " ; ".join(step.command for step in steps(PAGE.read_text("utf-8")))
    assert [verb for verb in verbs(typer.main.get_command(app)) if f"penstock {verb}" not in typed] == []
