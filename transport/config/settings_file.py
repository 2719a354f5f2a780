"""A settings file: TOML, each of its values with the line that it stands on.

`tomllib` reads the values and judges the syntax, but tells no positions. So `_lines` goes over the words and the marks of a text that
is known to be valid, and notes the line of every key. It knows what a word is and which marks begin a key, and nothing of what values mean.
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

_TOKEN = re.compile(
    # A multi-line string may end with up to two quotes of its own before the three that close it.
    r'''(?P<word>"""(?:[^\\]|\\.)*?""""{0,2}|\'\'\'.*?\'\'\'\'{0,2}|"(?:[^"\\]|\\.)*"|'[^']*'|[^][{}=,.#"'\s]+)'''
    r"|#[^\n]*|[][{}=,\n]",
    re.DOTALL,
)
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
        lines = _lines(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([_located(str(error), name, text)]) from error
    except RecursionError as error:
        raise SettingsError([f"{name}: its brackets are nested too deeply"]) from error
    except ValueError as error:
        # The one thing that `tomllib` leaves to Python: a number of more digits than `int` takes.
        raise SettingsError([f"{name}: a number in it has too many digits"]) from error
    return list(_flattened(document, (), lines))


def quoted(keys: Keys) -> str:
    """``keys`` as TOML writes them: dotted, and in quotes where they are no bare words."""
    escaped = (re.sub(r'(["\\])', r"\\\1", key) for key in keys)
    return ".".join(key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else f'"{key}"' for key in escaped)


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


def _lines(text: str) -> dict[Keys, int]:
    """The line on which each key, and each table, of a valid document appears first."""
    import tomllib  # noqa: PLC0415 - as above

    lines: dict[Keys, int] = {}
    line = 1
    table: Keys = ()
    # The words up to the next "=" or "]" are parts of a key, and below these keys.
    keys, naming = table, True
    around: list[tuple[Keys, bool]] = []
    for token in _TOKEN.finditer(text):
        match token[0]:
            case word if token.lastgroup:
                if naming:
                    # What the escapes in quotes mean is tomllib's to know.
                    keys = (*keys, *(tomllib.loads(f"{word} = 0") if word[0] in "\"'" else [word]))
                    lines.setdefault(keys, line)
            case "\n" if not around:
                keys, naming = table, True
            case "=":
                naming = False
            case "[" if naming:
                keys = ()
            case "]" if naming:
                table = keys
            case "[" | "{" as opening:
                # Tables in an array have no keys of their own to be found by: they are below the array's.
                around.append((keys, opening == "{"))
                naming = opening == "{"
            case ",":
                keys, naming = around[-1]
            case "]" | "}":
                around.pop()
                naming = False
        line += token[0].count("\n")
    return lines
