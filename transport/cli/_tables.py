"""Tables of facts, for the verbs that show some."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

PIPED_WIDTH = 250
"""Columns of a table that goes into a pipe or file, where no terminal sets any: no row is folded or cut."""
LEAST_TENTHS = 0.1
"""Below this a number is shown in thousandths."""
Column = tuple[str, str]
"""A key of the facts, and its heading."""


def console() -> Console:
    """Where tables go: the standard output, as wide as the terminal, or wide enough."""
    from rich.console import Console  # noqa: PLC0415 - not needed for --help

    width = None if sys.stdout.isatty() else max(PIPED_WIDTH, shutil.get_terminal_size().columns)
    return Console(width=width, highlight=False)


def show(title: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column] | None = None) -> None:
    """Print ``title`` and a table of ``rows``; without ``columns``, of every key they have."""
    from rich import box  # noqa: PLC0415 - not needed for --help
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    if columns is None:
        columns = [(key, key.replace("_", " ")) for key in dict.fromkeys(key for row in rows for key in row)]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for key, heading in columns:
        numeric = any(isinstance(row.get(key), int | float) for row in rows)
        table.add_column(heading, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        # Text, not markup: a queue may be called "[red]".
        table.add_row(*(Text(_cell(row.get(key))) for key, _ in columns))
    # The title is a line of its own: a table's title is folded to the table's width.
    console().print(title, table, "", sep="\n", markup=False)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        # A queue's times may be as short as a millisecond.
        return f"{value:,.1f}" if not 0 < abs(value) < LEAST_TENTHS else f"{value:,.3f}"
    return str(value)
