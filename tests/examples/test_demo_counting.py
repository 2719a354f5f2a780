"""What the demo counts, and that it would notice a wrong count."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.demo.counting import Counts, count, differences, imported_by
from examples.demo.text import Text

IMPORTS = {
    b"import os": "os",
    b"    import os.path": "os",
    b"\timport\tsys  # why": "sys",
    b"import a, b": "a",
    b"import a ;b = 1": "a",
    b"import numpy as np": "numpy",
    b"import os\r": "os",
    b"from os import path": "os",
    b"from os.path import (": "os",
    b"from a import*": "a",
    b"from a import \\": "a",
    b"import _x9": "_x9",
}
NO_IMPORTS = [
    b"",
    b"import",
    b"import ",
    b"from",
    b"from . import a",
    b"from .a import b",
    b"from the beginning",
    b"import the module",
    b"import osas x",
    b"import a.b as",
    b"x = 1; import os",
    b"important = 1",
    b"imports os",
    b"from a importing b",
    b"import 9a",
    b"import os\x85",
    b"import os\xa0",
    b"import \xe9",
    b"# import os",
    b"\x0cimport os",
]
PIECES = st.sampled_from(
    [
        b"import",
        b"from",
        b"as",
        b" ",
        b"\t",
        b"os",
        b"a.b",
        b".",
        b",",
        b";",
        b"#",
        b"(",
        b"*",
        b"\\",
        b"\r",
        b"9",
        b"\x85",
        b"\xa0",
    ]
)


@pytest.mark.parametrize(("line", "module"), IMPORTS.items())
def test_a_line_that_imports_counts_for_the_first_part_of_the_first_name(line: bytes, module: str) -> None:
    assert imported_by(line) == module


@pytest.mark.parametrize("line", NO_IMPORTS)
def test_a_line_that_only_looks_like_an_import_counts_for_nothing(line: bytes) -> None:
    assert imported_by(line) is None


@given(st.lists(PIECES, max_size=10).map(b"".join) | st.binary(max_size=40))
def test_the_query_and_the_direct_count_mean_the_same_by_an_import(line: bytes) -> None:
    query = pytest.importorskip("examples.demo.query")
    # The end of the text is written differently in Java; for what else the expression uses the two agree.
    found = re.match(query.IMPORT.replace(r"\z", r"\Z"), line.decode("latin-1").replace("\n", ""))
    assert imported_by(line.replace(b"\n", b"")) == (found[1] if found else None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "top.py": b"import os\nimport sys\n",
        "package/a.py": b"import os\r\n\r\nlast line without an end",
        "package/deep/b.txt": b"\xff\xfe undecodable\n\n",
        "package/empty.py": b"",
        "package/.hidden": b"import hidden\n",
        ".git/config": b"import hidden\n",
        "program": b"\x7fELF\0\0import os\n",
    }
    for name, content in files.items():
        path = tmp_path / "input" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "input" / "link.py").symlink_to(tmp_path / "input" / "top.py")
    return tmp_path / "input"


def test_lines_count_for_their_package_and_hidden_and_binary_files_for_none(folder: Path) -> None:
    counts = count(Text(folder).files())
    assert counts.lines == {"top": 2, "package": 5}
    assert counts.imports == {"os": 2, "sys": 1}


def test_every_line_counted_is_a_message_with_its_package_as_the_key(folder: Path) -> None:
    text = Text(folder)
    messages = list(text.messages())
    assert Counter((message.key or b"").decode() for message in messages) == count(text.files()).lines
    assert [message.payload for message in messages if message.key == b"top"] == [b"import os", b"import sys"]
    assert text.size() == (4, len(messages))


def test_one_file_is_one_package(folder: Path) -> None:
    text = Text(folder / "top.py")
    assert count(text.files()).lines == {"top": 2}
    assert text.size() == (1, 2)


def test_a_standard_library_is_its_python_sources_without_what_was_installed(folder: Path) -> None:
    installed = folder / "site-packages" / "other.py"
    installed.parent.mkdir()
    installed.write_bytes(b"import os\n")
    text = Text(folder, only_python=True)
    assert {path.name for _, path in text.files()} == {"top.py", "a.py", "empty.py"}
    assert Text.standard_library().only_python
    assert any(package == b"asyncio" for package, _ in Text.standard_library().files())


@given(st.lists(st.binary(max_size=30), max_size=6))
def test_files_of_any_bytes_have_as_many_lines_however_they_are_counted(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]
) -> None:
    root = tmp_path_factory.mktemp("any")
    for number, content in enumerate(contents):
        (root / f"{number}.txt").write_bytes(content)
    text = Text(root)
    assert text.size()[1] == sum(1 for _ in text.messages()) == count(text.files()).lines.total()


COUNTS = Counts(Counter({"a": 2, "b": 1}), Counter({"os": 3}))


def test_equal_counts_do_not_differ() -> None:
    assert differences(COUNTS, Counts(Counter({"b": 1, "a": 2}), Counter({"os": 3}))) == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (Counts(Counter({"a": 3, "b": 1}), Counter({"os": 3})), "lines of a: the query counted 3, the files have 2"),
        (Counts(Counter({"a": 2}), Counter({"os": 3})), "lines of b: the query counted 0, the files have 1"),
        (Counts(Counter({"a": 2, "b": 1}), Counter({"os": 3, "x": 1})), "imports of x: the query counted 1, the files have 0"),
        (Counts(Counter({"a": 2, "b": 1}), Counter()), "imports of os: the query counted 0, the files have 3"),
    ],
)  # fmt: skip
def test_any_other_count_is_a_difference(query: Counts, said: str) -> None:
    assert differences(query, COUNTS) == [said]
