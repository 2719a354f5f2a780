"""Takes pages of documentation apart: their programs, what those print, their tables and their links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
MOST_WORDS = 2000
"""Words that a page may have, its programs among them: more cannot be read in one sitting."""
BLOCK = r"```%s\n(.*?)```"
SHOWN = re.compile(r"\[(examples/\S+\.py)\]\(\.\./\1\)\n" + BLOCK % "python" + r"\n" + BLOCK % "", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")
CELL_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Shown:
    """A program as a page shows it.

    Attributes:
        path: the program, from the root of the checkout.
        parts: pieces of it, each whole lines.
        output: what it prints.
    """

    path: str
    parts: tuple[str, ...]
    output: str


def shown_programs(page: str) -> list[Shown]:
    """The programs of a page: a link to the file, pieces of it divided by lines of ``...``, and what it prints."""
    return [
        Shown(path, tuple(re.split(r"^\.\.\.\n", code, flags=re.MULTILINE)), output)
        for path, code, output in SHOWN.findall(page)
    ]


def missing_parts(shown: Shown, program: str) -> list[str]:
    """The parts of a program that it does not have."""
    return [part for part in shown.parts if not part.strip() or f"\n{part}" not in f"\n{program}"]


def python_blocks(page: str) -> list[str]:
    """Every block of Python on a page."""
    return re.findall(BLOCK % "python", page, re.DOTALL)


def tables(page: str) -> list[list[list[str]]]:
    """Every table of a page, as rows of cells; the first row is the head."""
    found: list[list[list[str]]] = [[]]
    for line in page.splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if set("".join(cells)) - {"-", ":"}:
                found[-1].append(cells)
        elif found[-1]:
            found.append([])
    return [rows for rows in found if rows]


def codes(cell: str) -> list[str]:
    """The pieces of code in a cell."""
    return CELL_CODE.findall(cell)


def broken_links(page: Path) -> list[str]:
    """The links of a page to files that do not exist."""
    return [link for link in LINK.findall(page.read_text("utf-8")) if not (page.parent / link).exists()]
