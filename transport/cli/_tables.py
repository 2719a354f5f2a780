"""Tables of facts, for the verbs that show some.

Names are there to be copied: none is cut, and none is folded. Where a row is too long for the terminal and its first name is, its
names take a line of their own, and its figures stand beneath in their columns. Where another text is too long, that text stands
beneath its row; a list has a line for each of its items there. Into a pipe a row is a line, however long.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from transport.cli import _written as written

GAP = "  "
"""Between two columns."""
INDENT = 2 * GAP
"""Before what stands beneath its row."""
LEAST_TENTHS = 0.1
"""Below this a number is shown in thousandths."""
MAX_CELL_BYTES = 8 * 1024
"""Of one cell; the longest name has 255."""
Column = tuple[str, str] | tuple[str, str, Callable[[Any], str]]
"""A key of the facts, its heading, and how its values are written where that is not plain."""
Rows = Sequence[Mapping[str, Any]]


def show(title: str, rows: Rows, columns: Sequence[Column] | None = None, *, wide: bool = False) -> None:
    """Print ``title`` and a table of ``rows``; without ``columns``, of every key they have.

    Args:
        title: a line of its own above.
        rows: the facts.
        columns: which, and in which order.
        wide: whether a row is one line on a terminal too, however long.
    """
    put([title, *table(rows, columns, None if wide else terminal_width()), ""])


def put(lines: Sequence[str]) -> None:
    """Print ``lines``. What the output cannot encode is escaped."""
    text = "\n".join(lines) + "\n"
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
    sys.stdout.flush()


def on_terminal() -> bool:
    """Whether what is printed goes to a terminal that can move its cursor."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def terminal_width() -> int | None:
    """Columns of the terminal; None where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(rows: Rows, columns: Sequence[Column] | None, width: int | None) -> list[str]:
    """The lines of a table: a heading, a rule, and the rows.

    Args:
        rows: the facts.
        columns: which; every key where that is None.
        width: of the terminal; None where lines may have any length.
    """
    if columns is None:
        columns = [(key, key.replace("_", " ")) for key in dict.fromkeys(key for row in rows for key in row)]
    if not columns:
        return []
    cells = [[_written(row.get(column[0]), column) for column in columns] for row in rows]
    figures = [len(column) == 3 or any(_is_number(row.get(column[0])) for row in rows) for column in columns]
    headings = [column[1] for column in columns]
    natural = [max(map(cell_len, each)) for each in zip(headings, *cells, strict=True)]
    widths = natural if width is None else _fitted(natural, list(map(cell_len, headings)), figures, width)
    short = [fitted < whole for fitted, whole in zip(widths, natural, strict=True)]
    lines = [_line(headings, widths, figures), rule(sum(widths) + len(GAP) * (len(widths) - 1))]
    for place, row in enumerate(cells):
        if not any(cell_len(cell) > fitted for cell, fitted in zip(row, widths, strict=True)):
            lines.append(_line(row, widths, figures))
            continue
        lists = [_items(rows[place].get(column[0])) for column in columns]
        away = [
            narrow if found is None else cell_len(text) > fitted
            for found, text, fitted, narrow in zip(lists, row, widths, short, strict=True)
        ]
        rest = ["" if moved else text for text, moved in zip(row, away, strict=True)]
        whole = GAP.join(text for text, moved, found in zip(row, away, lists, strict=True) if moved and found is None)
        if short[0]:
            # Its names whole on a line of their own, the rest beneath, each in its column.
            lines += [whole, _line(rest, widths, figures)] if any(rest) else [whole]
        else:
            lines += [_line(rest, widths, figures), *_beneath(whole, width)]
        lines += [INDENT + item for moved, found in zip(away, lists, strict=True) if moved for item in found or ()]
    return lines


def _items(value: object) -> list[str] | None:
    """What a list in a cell has, each of which is as little folded as a name; None of any other value."""
    return [cell(each) for each in value] if isinstance(value, list) else None


def _beneath(text: str, width: int | None) -> list[str]:
    """What did not fit into its row, in lines between whose words it is parted."""
    from textwrap import wrap  # noqa: PLC0415 - not needed for --help

    return wrap(
        text,
        width or len(text) + len(INDENT),
        initial_indent=INDENT,
        subsequent_indent=INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def facts_table(facts: Sequence[tuple[str, str]], indent: str = GAP) -> list[str]:
    """Facts about one thing, down the page: what each is called, and what it is."""
    most = max((cell_len(name) for name, _ in facts), default=0)
    return [f"{indent}{name}{' ' * (most - cell_len(name))}{GAP}{value}".rstrip() for name, value in facts]


def rule(width: int) -> str:
    """A line across, in the characters that the output has."""
    try:
        "─".encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return "-" * width
    return "─" * width


def cell_len(text: str) -> int:
    """Columns that ``text`` takes on a terminal: some characters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len as wide_len  # noqa: PLC0415 - not needed for --help

    return wide_len(text)


def cell(value: object) -> str:
    """A value as it stands in a table."""
    if value is None:
        return written.UNKNOWN
    if isinstance(value, bool):
        return written.truth(value)
    if isinstance(value, int):
        return written.count(value)
    if isinstance(value, float):
        # A queue's times may be as short as a millisecond.
        return f"{value:,.1f}" if not 0 < abs(value) < LEAST_TENTHS else f"{value:,.3f}"
    if isinstance(value, list):
        return ", ".join(map(cell, value))
    from transport.wire.shown import shown  # noqa: PLC0415 - not needed for --help

    # A client calls itself what it likes.
    return shown(str(value), MAX_CELL_BYTES)


def _written(value: Any, column: Column) -> str:
    # Of another type than is expected: of a broker that is newer than we are.
    if len(column) == 3 and _is_number(value):
        return column[2](value)
    return cell(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _fitted(natural: Sequence[int], least: Sequence[int], figures: Sequence[bool], width: int) -> list[int]:
    """The widths of columns on a terminal: figures have what they need, and names share what is left."""
    widths = list(natural)
    names = [index for index, figure in enumerate(figures) if not figure]
    room = width - len(GAP) * (len(widths) - 1) - sum(widths[index] for index in range(len(widths)) if figures[index])
    # Who needs least is served first; what they leave is for the others.
    names.sort(key=lambda index: natural[index])
    for place, index in enumerate(names):
        widths[index] = min(natural[index], max(least[index], room // (len(names) - place)))
        room -= widths[index]
    return widths


def _line(row: Sequence[str], widths: Sequence[int], figures: Sequence[bool]) -> str:
    parts = []
    for text, width, figure in zip(row, widths, figures, strict=True):
        blanks = " " * (width - cell_len(text))
        parts.append(blanks + text if figure else text + blanks)
    return GAP.join(parts).rstrip()
