"""Every `penstock ...` that a page, a file of `packaging/` or a text of ours names is one that there is, with its options and words."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main

from transport.cli._contexts import CONTEXT_VARIABLE
from transport.cli.app import app
from transport.config.exposure import TLS, USERS
from transport.config.settings import OPTIONS
from transport.security.access_sources import VARIABLES

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGING = sorted(file for file in (ROOT / "packaging").iterdir() if file.is_file())
SOURCES = [file for room in ("transport", "actors", "journal", "spark_bridge") for file in (ROOT / room).rglob("*.py")]

SPAN = re.compile(r"`(penstock [^`]+)`")
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SHELLS = {"", "sh", "bash", "console"}
PRINTED = re.compile(r"^penstock [a-z]+( [a-z-]+| --check)*: ")
"""What a verb prints begins with its name and a colon."""
CONTINUED = re.compile(r"\\\n\s*|\n\s+(?=\[)")
"""A command goes on behind a backslash, and a synopsis where the next line begins with a bracket."""
SYNOPSIS = re.compile(r"[\[\]|]|\.\.\.|\{")
USAGE_ERROR = typer.BadParameter.__mro__[1]
"""What click's parser raises, of the click that typer carries within."""
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def spans(text: str) -> Iterator[str]:
    for span in SPAN.findall(text):
        said = re.sub(r"\s+", " ", span).replace("\\|", "|")
        if not said.startswith("penstock VERB") and not PRINTED.match(said):
            yield said


def lines(text: str) -> Iterator[str]:
    """The commands of code blocks, from their program's name on."""
    for language, block in BLOCK.findall(text):
        for line in CONTINUED.sub(" ", block).splitlines() if language in SHELLS else ():
            yield from calls(line.strip().removeprefix("$ "))


def calls(line: str) -> Iterator[str]:
    if PRINTED.match(line) or "penstock" not in line:
        return
    found = re.search(r"(?:^|[|;&] *|\s)(?:\S*/bin/)?(penstock [a-z]+\b(?!:).*)$", line)
    if found and re.match(r"(?:[A-Z_]+=\S+ )*(?:\S*/bin/)?penstock |.*[|;&] *penstock |runuser ", line):
        # What a shell does behind the command is not the command's.
        said = found[1]
        yield said if SYNOPSIS.search(said) else shlex.join(words_of(said))


def words_of(command: str) -> list[str]:
    lexer = shlex.shlex(command, posix=True, punctuation_chars="&;<>()")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if word and set(word) <= set("&;<>()|"):
            break
        words.append(word)
    return words


def texts(source: str) -> Iterator[str]:
    """Texts and docstrings; what is only known when the program runs is an X."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)


@cache
def commands() -> list[str]:
    """What is named, behind the name of its file; found when a test asks, for each process of many collects this."""
    found: list[str] = []
    for page in PAGES:
        text = page.read_text("utf-8")
        found += [f"{page.name}: {each}" for each in chain(spans(BLOCK.sub("", text)), lines(text))]
    for file in PACKAGING:
        found += [f"{file.name}: {each}" for each in spans(file.read_text("utf-8"))]
    for file in SOURCES:
        source = file.read_text("utf-8")
        # A span is in one text. To parse all sources takes seconds.
        said = [each for text in (texts(source) if "`penstock " in source else ()) for each in spans(text)]
        found += [f"{file.name}: {each}" for each in said]
    return list(dict.fromkeys(found))


def check(said: str) -> None:
    """Raises where ``said`` is no command of ours: click's own parser, or, of a synopsis, its verbs and flags."""
    words = said.split() if SYNOPSIS.search(said) else shlex.split(said)
    for command, rest in commands_of(typer.main.get_command(app), words[1:]):
        known = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)} | {"--help", "-h"}
        assert set(FLAG.findall(" ".join(rest))) <= known, f"{command.name} has no such option"
        if SYNOPSIS.search(said) or hasattr(command, "commands") or {"-h", "--help"} & set(rest):
            continue
        context = typer.Context(command)
        # Raises for an option that there is not, and for one without its value; names alone may leave out the rest.
        _, more, _ = command.make_parser(context).parse_args(list(rest))
        assert more == [], f"{command.name} takes no such words"


def commands_of(command: Any, words: list[str]) -> Iterator[tuple[Any, list[str]]]:
    """Each command that the first words name, where they are several with a bar between, and the words behind."""
    parts = getattr(command, "commands", None)
    if parts is None or not words or words[0].startswith(("-", "[")):
        yield command, words
        return
    for name in words[0].split("|"):
        assert name in parts, f"there is no verb {name}"
        yield from commands_of(parts[name], words[1:])


MISTAKES = {"tour.md: penstock queue lst", "tour.md: penstock send --que orders"}
"""Shown with what is said of them."""


def test_commands_are_found_everywhere() -> None:
    found = commands()
    where = {each.partition(": ")[0] for each in found}
    assert {
        "README.md",
        "cli.md",
        "security.md",
        "operations.md",
        "service.md",
        "exposure.py",
        "users_file.py",
    } <= where
    assert len(found) > 100
    assert set(found) > MISTAKES
    verbs = {each.partition(": ")[2].split()[1] for each in found}
    assert verbs >= set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]  # of a group


def mistake(said: str) -> str | None:
    """What is wrong with a command, if anything."""
    try:
        check(said)
    except (AssertionError, USAGE_ERROR) as error:
        return str(error)
    return None


def test_every_command_that_is_named_is_one_that_there_is() -> None:
    wrong = {each: why for each in commands() if (why := mistake(each.partition(": ")[2])) is not None}
    assert set(wrong) == MISTAKES, wrong


@pytest.mark.parametrize("text", [USERS, TLS])
def test_what_an_error_says_to_give_a_broker_is_an_option_of_its(text: str) -> None:
    flags = " ".join(re.findall(r"--[a-z-]+ FILE", SPAN.sub("", text)))
    assert flags
    check(f"penstock broker {flags}")


@pytest.mark.parametrize("file", PACKAGING, ids=lambda file: file.name)
def test_the_variables_that_packaging_names_are_read_by_somebody(file: Path) -> None:
    # A unit and a container file set them, the manual page tells of them.
    variable = r"PENSTOCK_[A-Z]+(?:_[A-Z]+)*" + ("" if file.suffix == ".1" else "(?==)")
    named = set(re.findall(variable, file.read_text("utf-8"))) - {"PENSTOCK_NAME"}
    assert named
    options = {f"PENSTOCK_{option.name.upper()}" for option in OPTIONS}
    assert named <= options | set(VARIABLES.values()) | {"PENSTOCK_CONFIG", CONTEXT_VARIABLE}


@pytest.mark.parametrize(
    "said",
    [
        "penstock brokr",
        "penstock broker --no-such",
        "penstock broker --drain",
        "penstock queue alter q --exclusively",
        "penstock queue purge q another",
        "penstock queue list|mend",
        "penstock send [--que Q]",
    ],
)
def test_a_command_that_there_is_not_is_found(said: str) -> None:
    assert mistake(said) is not None


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("penstock broker &", "penstock broker"),
        ("gzip -dc logs/*.gz | penstock send --queue orders -", "penstock send --queue orders -"),
        ("PENSTOCK_USER=ann penstock stats --json > out", "penstock stats --json"),
        ("runuser -u penstock -- /opt/penstock/bin/penstock user list", "penstock user list"),
    ],
)
def test_what_the_shell_does_is_no_part_of_a_command(line: str, command: str) -> None:
    assert list(calls(line)) == [command]


@pytest.mark.parametrize("line", ["penstock broker: sending 127.0.0.1:9182", "systemctl restart penstock", "orders"])
def test_what_is_printed_and_what_is_said_to_others_is_no_command(line: str) -> None:
    assert list(calls(line)) == []
