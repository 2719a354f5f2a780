"""The help of a verb or a group, as plain text: it loads nothing heavy, and names of options are whole in it on any terminal.

Names are there to be copied, so a long one stands in a line of its own, and its text below it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Final

import typer

from transport.cli._usage import names_of

PANELS: Final = {"argument": "Arguments", "option": "Options"}
"""Of parameters that have none of their own."""
INDENT: Final = "  "
MOST_NAMES: Final = 32
"""Columns for the names of options, at most; who has a longer one has a line of its own."""
LEAST_TEXT: Final = 20
"""Columns for the text beside them, at least."""

Row = tuple[str, str]
"""What is explained, and its explanation."""


def help_text(command: Any, ctx: Any) -> str:
    """Usage, what the command does, a table for each group of parameters, its verbs, and examples."""
    width = max(shutil.get_terminal_size().columns, LEAST_TEXT * 2)
    blocks = [_usage(command, ctx, width)]
    if command.help:
        blocks.append(_paragraphs(command.help, width))
    blocks += [
        f"{_bold(f'{title}:')}\n{_table(rows, width)}" for title, rows in panels_of(command, ctx).items() if rows
    ]
    if examples := _examples(ctx, width):
        blocks.append(examples)
    if command.epilog:
        blocks.append(_paragraphs(command.epilog, width))
    return "\n\n".join(blocks)


def panels_of(command: Any, ctx: Any) -> dict[str, list[Row]]:
    """The tables of a help by their titles: its parameters, and its verbs."""
    panels: dict[str, list[Row]] = defaultdict(list, {title: [] for title in PANELS.values()})
    for parameter in command.get_params(ctx):
        if not getattr(parameter, "hidden", False):
            own = getattr(parameter, "rich_help_panel", None)
            written, text = parameter.get_help_record(ctx)
            # Typer's own name of an argument has braces around it.
            names = written if parameter.param_type_name == "option" else names_of(parameter)
            panels[own or PANELS[parameter.param_type_name]].append((names, re.sub(r"  +", " ", text)))
    panels["Verbs"] = list(command.lines().items()) if hasattr(command, "commands") else []
    return panels


def usage_words(command: Any, ctx: Any) -> list[str]:
    """How a command is called."""
    words = [ctx.command_path]
    arguments, options = [], []
    for parameter in command.get_params(ctx):
        if parameter.param_type_name == "argument":
            name = names_of(parameter)
            arguments.append(name if parameter.required or name.startswith("[") else f"[{name}]")
        elif parameter.required:
            options.append(names_of(parameter))
    words += [*options, "[OPTIONS]", *arguments]
    if hasattr(command, "commands"):
        words.append(command.subcommand_metavar)
    return words


def _usage(command: Any, ctx: Any, width: int) -> str:
    start = "Usage: "
    lines = textwrap.wrap(
        " ".join(usage_words(command, ctx)), width - len(start), subsequent_indent=INDENT, break_on_hyphens=False
    )
    return _bold(start) + "\n".join([lines[0], *(" " * len(start) + line for line in lines[1:])])


def _table(rows: Iterable[Row], width: int) -> str:
    rows = list(rows)
    names = max((len(name) for name, _ in rows if len(name) <= MOST_NAMES), default=MOST_NAMES)
    column = len(INDENT) + names + len(INDENT)
    lines: list[str] = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, max(LEAST_TEXT, width - column), break_on_hyphens=False) or [""]
        if len(name) > names:
            lines.append(INDENT + _bold(name))
        else:
            lines.append(f"{INDENT}{_bold(name)}{' ' * (names - len(name))}{INDENT}{wrapped.pop(0)}".rstrip())
        lines += [" " * column + line for line in wrapped]
    return "\n".join(lines)


def _examples(ctx: Any, width: int) -> str:
    from transport.cli._examples import EXAMPLES  # noqa: PLC0415 - for the help alone

    found = EXAMPLES.get(" ".join(ctx.command_path.split()[1:]), ())
    if not found:
        return ""
    lines = [_bold("Examples:")]
    for example in found:
        lines += textwrap.wrap(
            f"# {example.does}", width, initial_indent=INDENT, subsequent_indent=f"{INDENT}# ", break_on_hyphens=False
        )
        # Whole, for it is there to be copied.
        lines.append(INDENT + example.line)
    return "\n".join(lines)


def _paragraphs(text: str, width: int) -> str:
    """``text`` with its paragraphs as wide as the terminal."""
    return "\n\n".join(
        textwrap.fill(" ".join(each.split()), width, initial_indent=INDENT, subsequent_indent=INDENT)
        for each in text.split("\n\n")
    )


def _bold(text: str) -> str:
    """Where somebody looks. What goes into a file has no escapes, for typer's echo takes them out."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stdout.isatty()
    return text if plain else typer.style(text, bold=True)
