"""The settings file's values and the lines that they stand on."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transport.config.settings_file import MAX_FILE_BYTES, SettingsError, parse_settings, quoted, read_settings_file

TRICKY_VALUES = [
    "1",
    "0x1F",
    "-1_000",
    "1.5e3 # a comment = 1",
    "inf",
    "true",
    "1979-05-27 07:32:00",
    '""',
    "''",
    r'"a \" quote, # no comment, [no] {table}, and a \\"',
    "'c:\\path\\'",
    '"""one line"""',
    '""""""',
    '"""\nkey = 1\n[table]\n# no comment\n"""',
    '"""ends with two""""" # and a comment',
    r'''"""a \""" inside
    """''',
    "'''\nliteral \\\n[x]\n'''",
    "'''ends with one''''",
    "[]",
    "[ ]",
    "[1, 2, 3,]",
    "[\n  \"a\", # comment ]\n  'b]',\n  [1, [2]],\n]",
    "[{a = 1}, {b = [2]}]",
    "{}",
    "{ }",
    '{ inner = 1, "in ner" = { deep.er = [1,\n 2] } }',
    "{a.b = '}', c = \"]\"}",
    "{ @ = [1,\n 2], @.x = '''\n\n''', y = { z = [\n], @ = 1 }, @ = 2 } # @ = 3",
    "[[[\n]], { y = { x = '''\n[''' }, z = [] }]",
]
KEYS = ["bare", "with-dash_1", '"quoted.dot"', "'literal \"'", r'"esc\"aped\u00e9"', '""', "123", "'#'"]


@st.composite
def documents(draw: st.DrawFn) -> str:
    """A valid document, with keys of its own (``k0``, ``k1``, each used once) at known places: ``@`` stands for the next one."""
    text = ""
    for _ in range(draw(st.integers(1, 12))):
        text += draw(st.sampled_from(["", "\n", "# [comment] k = 1\n", "\t \n", "\r\n"]))
        # The new key first: what stands before it can then never be defined already.
        dotted = draw(st.sampled_from([".", " . ", "\t.  "])).join(
            ["@", *draw(st.lists(st.sampled_from(KEYS), max_size=2))]
        )
        kind = draw(st.sampled_from(["pair", "pair", "header", "array"]))
        if kind == "pair":
            text += f"{draw(st.sampled_from(['', '  ']))}{dotted} = {draw(st.sampled_from(TRICKY_VALUES))}"
        else:
            opening, closing = ("[", "]") if kind == "header" else ("[[", "]]")
            text += f"{opening} {dotted} {closing}"
        text += draw(st.sampled_from(["\n", " # comment\n", "\r\n"]))
    numbers = count()
    return re.sub("@", lambda _: f"k{next(numbers)}", text)


@given(documents())
def test_every_key_has_the_line_on_which_it_stands(text: str) -> None:
    lines: dict[str, int] = {}
    for item in parse_settings(text.encode(), "file"):
        for key in item.keys:
            if re.fullmatch(r"k\d+", key):
                lines.setdefault(key, item.line)
    assert "k0" in lines
    for found in re.finditer(r"\bk\d+", text):
        # What is below an array of tables is part of its value, and has no line of its own; nor has what a comment says.
        if found[0] in lines:
            assert lines[found[0]] == text.count("\n", 0, found.start()) + 1
        else:
            assert "[[" in text or "# " in text[: found.start()].rpartition("\n")[2]


@given(st.text(max_size=200, alphabet="ab=.\n[]{}\"'#,\\ 1"))
def test_any_text_is_read_or_refused_with_its_line(text: str) -> None:
    try:
        found = parse_settings(text.encode(), "file")
    except SettingsError as error:
        said = str(error)
    else:
        said = "file:"
        assert all(1 <= item.line <= text.count("\n") + 1 for item in found)
    assert said.startswith("file:")


def test_tables_come_before_what_is_in_them_and_are_told_apart_from_values() -> None:
    text = b'[queues]\nlogs = { ttl = "1h" }\n[queues."a.b"]\n[x.y]\nz.w = 1\n'
    found = [(item.keys, item.value, item.line, item.is_table) for item in parse_settings(text, "file")]
    assert found == [
        (("queues",), None, 1, True),
        (("queues", "logs"), None, 2, True),
        (("queues", "logs", "ttl"), "1h", 2, False),
        (("queues", "a.b"), None, 3, True),
        (("x",), None, 4, True),
        (("x", "y"), None, 4, True),
        (("x", "y", "z"), None, 5, True),
        (("x", "y", "z", "w"), 1, 5, False),
    ]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"a = 1\nb = \n", "file:2: Invalid value"),
        (b"a = 1\n\na = 2\n", "file:3: Cannot overwrite a value"),
        (b'a = 1\nb = "x\n', "file:2: Illegal character"),
        (b"a = [1,\n2", "file:2: Unclosed array"),
        (b"a = 1\nb = '\xff'\n", "file:2: is not UTF-8: invalid start byte 0xff"),
        (b"a = " + b"[" * 100_000, "file: its brackets are nested too deeply"),
        (b"[a\n", "file:1: "),
    ],
)
def test_what_is_no_toml_is_refused_with_file_and_line(data: bytes, problem: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_settings(data, "file")
    (said,) = caught.value.problems
    assert said.startswith(problem)
    assert "column" not in said


def test_line_ends_of_windows_and_its_byte_order_mark_are_taken() -> None:
    found = parse_settings(b"\xef\xbb\xbfa = 1\r\n\r\nb = 2\r\n", "file")
    assert [(item.keys, item.line) for item in found] == [(("a",), 1), (("b",), 3)]


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent\.toml: cannot be read: No such file"):
        read_settings_file(tmp_path / "absent.toml")
    with pytest.raises(SettingsError, match="Is a directory"):
        read_settings_file(tmp_path)
    large = tmp_path / "large"
    large.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(SettingsError, match="is larger than"):
        read_settings_file(large)


def test_keys_are_written_as_toml_has_them() -> None:
    assert quoted(("queues", "a.b", 'c"d\\')) == r'queues."a.b"."c\"d\\"'
