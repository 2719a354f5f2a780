"""Prose in the documents is as narrow as a screen beside another: programs, output and tables may be wider."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDEST = 120
CODE_INDENT = 4
"""A line indented that much deeper than the text around it, behind an empty line, is code."""
FENCE = re.compile(r"\s*(`{3,}|~{3,})")
ITEM = re.compile(r"\s*([-*+]|\d+[.)])\s+")


def prose(page: str) -> Iterator[tuple[int, str]]:
    """The lines of a page that are no code and no table, each with its number."""
    fence = ""
    text_at = 0  # where the text of the list item begins that the line may belong to
    may_begin_code = True
    for number, line in enumerate(page.splitlines(), 1):
        found = FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not line[found.end() :].strip():
                fence = ""
            continue
        if found:
            fence = found[1]
            continue
        if not line.strip():
            may_begin_code = True
            continue
        indent = len(line) - len(line.lstrip())
        if may_begin_code and indent >= text_at + CODE_INDENT:
            continue
        if item := ITEM.match(line):
            text_at = item.end()
        elif may_begin_code and indent < text_at:
            text_at = indent
        may_begin_code = line.startswith("#")
        if not line.lstrip().startswith("|"):
            yield number, line


def too_wide(source: Any) -> list[str]:
    """The lines of a page's prose that are too long."""
    return [
        f"{source.path}:{number} has {len(line)} characters"
        for number, line in prose(source.text)
        if len(line) > WIDEST
    ]


def test_no_line_of_prose_in_the_documents_is_longer_than_120_characters(tracked: Any) -> None:
    pages = [source for source in tracked if source.path.endswith(".md")]
    assert {"README.md", "docs/streams.md", "benchmarks/RESULTS.md"} <= {page.path for page in pages}
    found = [line for page in pages for line in too_wide(page)]
    assert not found, "\n".join(found)


LONG = "word " * 24 + "word."


@pytest.mark.parametrize(
    "page",
    [
        f"{LONG}\n",
        f"# Heading\n{LONG}\n",
        f"- {LONG}\n",
        f"- short\n  {LONG}\n",
        f"- short\n\n    {LONG}\n",
        f"a paragraph whose\n    {LONG}\n",
        f"```\nshort\n```\n{LONG}\n",
        f"    short\n\n{LONG}\n",
        f"- short\n\nshort\n\n1. {LONG}\n",
        f"| a |\n|---|\n\n{LONG}\n",
        f"## {LONG}\n",
    ],
)
def test_a_long_line_of_prose_is_found(snippet: Any, page: str) -> None:
    assert len(too_wide(snippet(page, "page.md"))) == 1


@pytest.mark.parametrize(
    "page",
    [
        f"{LONG[:WIDEST]}\n",
        f"```\n{LONG}\n```\n",
        f"````\n```\n{LONG}\n```\n````\n",
        f"~~~\n{LONG}\n```\n~~~\n",
        f"short\n\n    {LONG}\n\n    {LONG}\n    {LONG}\n",
        f"- short\n\n      {LONG}\n",
        f"  - short\n    ```\n    {LONG}\n    ```\n",
        f"| {LONG} |\n|---|\n| {LONG} |\n",
        f"- short\n\nshort\n\n    {LONG}\n",
    ],
)
def test_a_long_line_of_code_or_of_a_table_is_none_of_prose(snippet: Any, page: str) -> None:
    assert too_wide(snippet(f"short\n\n{page}", "page.md")) == []
