"""Every block of code in the pages is run, or compared, by a test that the table names: one that nobody runs is found."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.blocks import TABLE, Excuse
from tests.streams.pages import DOCS, ROOT

PAGES = (ROOT / "ARCHITECTURE.md", ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
FENCED = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
SYNOPSIS = re.compile(r"(?:(?:penstock [a-z]+\b(?!:)(?! [a-z]+:)|\s+\[)[^&;<>$\n]*\n)+")
"""Commands of ours, each with what it takes, and no more."""
FOLDER = "*.md"


class Block(NamedTuple):
    """A block of a page: its language, which of the page's lines it begins in, and its text."""

    language: str
    line: int
    text: str


def blocks(page: str) -> Iterator[Block]:
    for found in FENCED.finditer(page):
        yield Block(found["language"], page.count("\n", 0, found.start()) + 1, found["text"])


def language(block: Block, page: str) -> str:
    """How the rows name it; what a verb takes is a language of its own, of the command line's page."""
    synopsis = page == "docs/cli.md" and not block.language and SYNOPSIS.fullmatch(block.text)
    return "[synopsis]" if synopsis else f"[{block.language}]"


def row_of(block: Block, page: str, rows: dict[str, str | Excuse]) -> str | None:
    """Which row of a page's table a block has: by a text in it, else by its language. None for none."""
    named = [key for key in rows if not is_language(key) and key in block.text]
    if len(named) > 1:
        raise AssertionError(f"{page}:{block.line}: the block has several rows: {named}")
    own = language(block, page)
    return named[0] if named else own if own in rows else None


def is_language(key: str) -> bool:
    return key in {"[]", "[synopsis]", "[python]", "[text]", "[console]"}


def rows_of(page: str) -> tuple[str, dict[str, str | Excuse]]:
    """The table's name for a page, and its rows."""
    folder = str(Path(page).parent / FOLDER)
    name = page if page in TABLE else folder
    return name, TABLE.get(name, {})


def uncovered(page: str, text: str) -> list[str]:
    """The blocks of a page that no row is about."""
    _, rows = rows_of(page)
    return [
        f"{page}:{block.line}: no test runs this block, says tests/docs/blocks.py: {block.text.splitlines()[0]}"
        for block in blocks(text)
        if row_of(block, page, rows) is None
    ]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def functions(file: str) -> frozenset[str]:
    """The tests of a module."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_block_of_the_pages_is_run_by_a_test() -> None:
    assert [line for page in PAGES for line in uncovered(name_of(page), page.read_text("utf-8"))] == []


def test_every_row_is_about_a_block_that_there_is_and_one_with_a_text_about_one() -> None:
    found: Counter[tuple[str, str]] = Counter()
    for page in PAGES:
        name, rows = rows_of(name_of(page))
        for block in blocks(page.read_text("utf-8")):
            found[name, row_of(block, name_of(page), rows) or ""] += 1
    assert {(page, key) for page, rows in TABLE.items() for key in rows} == set(found)
    assert [each for each, count in found.items() if count > 1 and not is_language(each[1])] == []


@pytest.mark.parametrize(
    ("page", "named"),
    sorted({(page, test) for page, rows in TABLE.items() for test in rows.values() if isinstance(test, str)}),
)
def test_a_test_that_the_table_names_is_there_and_its_module_reads_the_page(page: str, named: str) -> None:
    file, _, test = named.partition("::")
    assert test in functions(file)
    # The modules that go over several pages have their names without the ending, those of a folder the folder's.
    path = Path(page)
    known = path.parent.name if path.name == FOLDER else path.stem
    # Of an example its module names the program.
    names = rf"\b(?:{known}|{known.replace('-', '_')})\b"
    assert re.search(names, (ROOT / file).read_text("utf-8")), f"{file} does not name {page}"


def test_every_excuse_is_made_for_some_block() -> None:
    assert {excuse for rows in TABLE.values() for excuse in rows.values() if isinstance(excuse, Excuse)} == set(Excuse)


def test_a_block_that_nobody_runs_is_found() -> None:
    page = (DOCS / "consumer.md").read_text("utf-8")
    assert uncovered("docs/consumer.md", page) == []
    more = f"{page}\n```python\nprint('new')\n```\n"
    assert [line.rpartition(": ")[2] for line in uncovered("docs/consumer.md", more)] == ["print('new')"]
    typed = "```\npenstock broker &\npenstock queue list\n```\n"
    assert len(uncovered("docs/cli.md", typed)) == 1
    assert len(uncovered("docs/new.md", "```\nls\n```\n\n- a\n\n  ```console\n  $ ls\n  ```\n")) == 2
