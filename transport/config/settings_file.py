"""A settings file: TOML, each of its values with the line that it stands on.

`tomllib` reads the values and judges the syntax, but tells no positions. So a second, small scanner walks over what it has found
to be valid and notes the line of every key: it has to know how keys, strings, comments and brackets are written, and nothing of what
values mean.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transport.errors import TransportError

MAX_FILE_BYTES = 1 << 20
"""Far more than 10 000 queues need; what is larger is another file, named by mistake."""

Keys = tuple[str, ...]
"""Where a value is: the names of the tables around it, then its own."""

_GAP = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_BLANK = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
# A multi-line string may end with up to two quotes of its own before the three that close it.
_STRING = re.compile(r'''"""(?:[^\\]|\\.)*?""""{0,2}|\'\'\'.*?\'\'\'\'{0,2}|"(?:[^"\\]|\\.)*"|'[^']*\'''', re.DOTALL)
_SCALAR = re.compile(r"[^,\]}\n#]*")
_POSITION = re.compile(r" \(at line (\d+), column \d+\)$")
_AT_END = " (at end of document)"


class SettingsError(TransportError, ValueError):
    """Settings that cannot be; each problem says where it is and what is wrong.

    Attributes:
        problems: one line each.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class FileValue:
    """A value of the file, or a table that it opens.

    Attributes:
        keys: where it is.
        value: a string, number, truth, date or list; None for a table.
        line: counted from 1.
    """

    keys: Keys
    value: Any
    line: int

    @property
    def is_table(self) -> bool:
        """Whether it is a table: ``[a.b]``, ``a.b.c = 1`` or ``a = {...}`` make one of ``a``."""
        return self.value is None


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What a file says.

    Attributes:
        path: as it was given.
        values: every table and value, a table before what is in it.
    """

    path: Path
    values: tuple[FileValue, ...]


def read_settings_file(path: Path) -> SettingsFile:
    """The file at ``path``.

    Raises:
        SettingsError: it cannot be read, or is no TOML; the text has file, line and reason.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError([f"{path}: cannot be read: {error.strerror or error}"]) from error
    if len(data) > MAX_FILE_BYTES:
        raise SettingsError([f"{path}: is larger than {MAX_FILE_BYTES} bytes; is it a settings file?"])
    return SettingsFile(path, tuple(parse_settings(data, str(path))))


def parse_settings(data: bytes, name: str) -> list[FileValue]:
    """The values in ``data``, the bytes of the file called ``name``.

    Raises:
        SettingsError: it is no TOML.
    """
    try:
        # Some editors put a byte order mark first, which TOML does not know.
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SettingsError([f"{name}:{line}: is not UTF-8: {error.reason} {data[error.start]:#04x}"]) from error
    import tomllib  # noqa: PLC0415 - not needed where no file is given

    try:
        document = tomllib.loads(text)
        lines = _Lines(text).lines
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([_located(str(error), name, text)]) from error
    except RecursionError as error:
        raise SettingsError([f"{name}: its brackets are nested too deeply"]) from error
    return list(_flattened(document, (), lines))


def quoted(keys: Keys) -> str:
    """``keys`` as TOML writes them: dotted, and in quotes where they are no bare words."""
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _basic_string(key) for key in keys)


def _basic_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _located(message: str, name: str, text: str) -> str:
    """The message of `tomllib` with its position where every other message has it."""
    if found := _POSITION.search(message):
        return f"{name}:{found[1]}: {message[: found.start()]}"
    last = text.rstrip("\n").count("\n") + 1
    return f"{name}:{last}: {message.removesuffix(_AT_END)}"


def _flattened(table: dict[str, Any], keys: Keys, lines: dict[Keys, int]) -> Iterator[FileValue]:
    for key, value in table.items():
        path = (*keys, key)
        if isinstance(value, dict):
            yield FileValue(path, None, lines[path])
            yield from _flattened(value, path, lines)
        else:
            yield FileValue(path, value, lines[path])


class _Lines:
    """Walks over a valid document once.

    Attributes:
        lines: the line on which each key, and each table, appears first.
    """

    def __init__(self, text: str) -> None:
        self.lines: dict[Keys, int] = {}
        self._text = text
        self._at = 0
        self._counted = (0, 1)
        table: Keys = ()
        while self._skip(_GAP) < len(text):
            if text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _header(self) -> Keys:
        brackets = 2 if self._text.startswith("[[", self._at) else 1
        self._at += brackets
        table = self._key(())
        self._at += brackets
        return table

    def _pair(self, table: Keys) -> None:
        keys = self._key(table)
        self._at += len("=")
        self._value(keys)

    def _key(self, table: Keys) -> Keys:
        """Pass a key, dotted or not, and note its line and those of the tables it makes."""
        keys = table
        while True:
            self._skip(_BLANK)
            line = self._line()
            start = self._at
            self._skip(_KEY)
            keys = (*keys, _unquoted(self._text[start : self._at]))
            self.lines.setdefault(keys, line)
            self._skip(_BLANK)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += len(".")

    def _value(self, keys: Keys) -> None:
        self._skip(_BLANK)
        opening = self._text[self._at]
        if opening in "{[":
            self._at += 1
            while self._text[self._skip(_GAP)] not in "}]":
                if opening == "{":
                    self._pair(keys)
                else:
                    # Tables in an array have no keys of their own to be found by: they are below the array's.
                    self._value(keys)
                if self._text[self._skip(_GAP)] == ",":
                    self._at += 1
            self._at += 1
        elif opening in "\"'":
            self._skip(_STRING)
        else:
            self._skip(_SCALAR)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        """Pass what ``pattern`` matches here; returns the position after it."""
        found = pattern.match(self._text, self._at)
        assert found is not None, f"tomllib and this scanner disagree at {self._at}"
        self._at = found.end()
        return self._at

    def _line(self) -> int:
        position, line = self._counted
        line += self._text.count("\n", position, self._at)
        self._counted = (self._at, line)
        return line


def _unquoted(key: str) -> str:
    if key.startswith("'"):
        return key[1:-1]
    if "\\" in key:
        import tomllib  # noqa: PLC0415 - as above

        # Its escapes are tomllib's to know.
        (name,) = tomllib.loads(f"{key} = 0")
        return name
    return key.strip('"')
