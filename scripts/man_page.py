"""Writes ``packaging/penstock.1``, the manual page of the command: what its own helps say, verb by verb.

    python scripts/man_page.py           # writes it
    python scripts/man_page.py --check   # fails where it is not what the helps say

The macros are those of man(7).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "packaging" / "penstock.1"
WRITE = "python scripts/man_page.py"
WHAT = "reactive streams and a message queue with back-pressure"


def page() -> str:
    """The page's text."""
    # What a user's own settings and terminal are stands in a help too; on the page it must not.
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        del os.environ[name]
    os.environ |= {"TERM": "dumb", "NO_COLOR": "1"}
    from transport.cli.app import app  # noqa: PLC0415 - once the environment is what it is to be
    from transport.cli.exit_codes import EXIT_CODES  # noqa: PLC0415

    root = typer.main.get_command(app)
    context = root.make_context("penstock", ["--help"], resilient_parsing=True)
    lines = [
        f'.\\" Written by {WRITE} from the helps of the command; do not edit.',
        ".TH PENSTOCK 1",
        ".SH NAME",
        f"penstock \\- {WHAT}",
        ".SH SYNOPSIS",
        *_synopsis(root, context),
        ".SH DESCRIPTION",
        *_paragraphs(root.help or ""),
        *_body(root, context, ".SH"),
        ".SH COMMANDS",
    ]
    for command, ctx in _verbs(root, context):
        lines += [f'.SS "{_text(ctx.command_path)}"', *_synopsis(command, ctx), *_paragraphs(command.help or "")]
        lines += _body(command, ctx, None)
    lines.append(".SH EXIT STATUS")
    for code in EXIT_CODES:
        lines += _item(code.code, code.meaning)
    return "\n".join(lines) + "\n"


def _verbs(command: Any, ctx: Any) -> Iterator[tuple[Any, Any]]:
    """Every verb that is shown, groups before what is in them."""
    for name, each in getattr(command, "commands", {}).items():
        if not each.hidden:
            own = each.make_context(name, [], parent=ctx, resilient_parsing=True)
            yield each, own
            yield from _verbs(each, own)


def _synopsis(command: Any, ctx: Any) -> list[str]:
    from transport.cli._help import usage_words  # noqa: PLC0415 - as above

    return [
        ".nh",
        ".ad l",
        f"\\fB{_text(ctx.command_path)}\\fR {_text(' '.join(usage_words(command, ctx)[1:]))}",
        ".ad",
        ".hy",
    ]


def _body(command: Any, ctx: Any, heading: str | None) -> list[str]:
    """The tables of a help, and its examples; with a heading each, or with its words in bold."""
    from transport.cli._examples import EXAMPLES  # noqa: PLC0415 - as above
    from transport.cli._help import panels_of  # noqa: PLC0415

    lines: list[str] = []
    for title, rows in panels_of(command, ctx).items():
        if rows and title != "Verbs":
            lines += _heading(title, heading)
            for names, text in rows:
                lines += _item(names, text)
    if examples := EXAMPLES.get(" ".join(ctx.command_path.split()[1:]), ()):
        lines += _heading("Examples", heading)
        for example in examples:
            lines += [".PP", _text(example.does), ".nf", ".RS", _text(example.line), ".RE", ".fi"]
    return lines


def _heading(title: str, heading: str | None) -> list[str]:
    return [f'{heading} "{_text(title.upper())}"'] if heading else [".PP", f"\\fI{_text(title)}\\fR"]


def _item(names: str, text: str) -> list[str]:
    return [".TP", f"\\fB{_text(names)}\\fR", _text(text) or "\\&"]


def _paragraphs(text: str) -> list[str]:
    return [line for each in text.split("\n\n") if each.strip() for line in (".PP", _text(" ".join(each.split())))]


def _text(text: str) -> str:
    """As roff takes it: a backslash, a hyphen that is to be copied, and a line that would begin as a request."""
    found = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("'", "\\(aq")
    return f"\\&{found}" if found.startswith(".") else found


def main(arguments: Sequence[str]) -> None:
    """Write the page, or say that it is another."""
    text = page()
    if "--check" not in arguments:
        PAGE.write_text(text, "utf-8")
    elif not PAGE.exists() or PAGE.read_text("utf-8") != text:
        sys.exit(f"{PAGE.relative_to(ROOT)} is not what the helps say: {WRITE} writes it")


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(sys.argv[1:])
