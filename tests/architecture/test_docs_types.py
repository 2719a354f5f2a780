"""Every block of Python in the documentation that stands alone passes mypy --strict, as what is copied from it has to."""

from __future__ import annotations

import builtins
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from symtable import SymbolTable, symtable
from typing import NamedTuple

import pytest

from tests.streams.pages import DOCS, ROOT, python_blocks
from tests.type_checker import mypy_says

pytest.importorskip("mypy")

PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
FRAGMENTS = {"README.md": 1, "arrow.md": 2, "demand.md": 10, "spark-exactly-once.md": 3, "spark.md": 2, "streams.md": 1}
"""Blocks that are pieces of something larger, by page. With one more, a block asks for names that nothing in it gives."""


class Block(NamedTuple):
    """A block of Python: its page, the how manieth it is there, and its lines."""

    page: Path
    number: int
    text: str

    @property
    def module(self) -> str:
        """A name for it as a module."""
        return re.sub(r"\W", "_", f"{self.page.relative_to(ROOT).with_suffix('')}_{self.number}")


def blocks() -> Iterator[Block]:
    for page in PAGES:
        for number, text in enumerate(python_blocks(page.read_text("utf-8")), start=1):
            yield Block(page, number, text)


def stands_alone(text: str) -> bool:
    """Whether it is a whole module: it parses as one, and uses no name but what it defines or imports itself."""
    try:
        compile(text, "block", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    table = symtable(text, "block", "exec")
    known = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    return set(used(table)) <= known | set(dir(builtins)) | {"__name__"}


def used(table: SymbolTable) -> Iterator[str]:
    """The names that it and what is in it take from the module."""
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (table.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from used(inner)


def mypy_says_of(texts: dict[str, str], folder: Path) -> str:
    files = [folder / f"{name}.py" for name in texts]
    for file, text in zip(files, texts.values(), strict=True):
        file.write_text(text, "utf-8")
    return mypy_says(files).replace(f"{folder}/", "")


def test_what_stands_alone_in_the_documentation_has_types_that_hold(tmp_path: Path) -> None:
    alone = {block.module: block.text for block in blocks() if stands_alone(block.text)}
    assert len(alone) > 45
    assert mypy_says_of(alone, tmp_path) == ""


def test_no_block_but_known_pieces_asks_for_names_that_it_does_not_have() -> None:
    assert Counter(block.page.name for block in blocks() if not stands_alone(block.text)) == FRAGMENTS


def test_a_block_whose_types_do_not_hold_is_found(tmp_path: Path) -> None:
    assert "page_1.py:1: error: Need type annotation" in mypy_says_of({"page_1": "handled = []\n"}, tmp_path)


@pytest.mark.parametrize(
    "text",
    ["  x = 1\n", "await x\n", "print(y)\n", "def f():\n    return y\n", "def f(a: Y) -> None: ...\n"],
)
def test_a_piece_of_something_larger_does_not_stand_alone(text: str) -> None:
    assert not stands_alone(text)


@pytest.mark.parametrize(
    "text", ["x = 1\nprint(x)\n", "import y\nprint([x for x in y.z])\n", "def f(a: int) -> int:\n    return a\n"]
)
def test_a_module_stands_alone(text: str) -> None:
    assert stands_alone(text)
