"""What the administrative verbs share: one connection, one conversation, tables of what comes back."""

from __future__ import annotations

import inspect
import shutil
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, get_type_hints

from transport.cli._options import CONNECTING, with_parameters
from transport.cli._run import run

if TYPE_CHECKING:
    from rich.console import Console

    from transport.clients.administration import Administration, Facts

PIPED_WIDTH = 250
"""Columns of a table that goes into a pipe or file, where no terminal sets any: no row is folded or cut."""

LEAST_TENTHS = 0.1
"""Below this a number is shown in thousandths."""

Column = tuple[str, str]
"""A key of the facts, and its heading."""
QUEUE_HOLDS: tuple[Column, ...] = (
    ("name", "queue"),
    ("failed", "failed"),
    ("ready", "ready"),
    ("in_flight", "in flight"),
    ("reserved", "reserved"),
    ("delayed", "delayed"),
    ("staged_messages", "staged"),
    ("demand_waiting", "demand"),
)
"""What every table of queues begins with."""


def administer(
    verb: str, address: str, connect_timeout: float, talk: Callable[[Administration], Coroutine[Any, Any, None]]
) -> NoReturn:
    """Run ``talk`` with a connection to the broker at ``address``, then exit."""

    async def main() -> int:
        from transport.clients.administration import Administration  # noqa: PLC0415 - not needed for --help

        async with Administration(address, connect_timeout=connect_timeout) as administration:
            await talk(administration)
        return 0

    run(verb, main)


def admin_command(verb: str) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """A typer command of a function that is given a connection, then its own parameters; it also has where to connect, and for how long."""

    def made(act: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        def command(address: str, connect_timeout: float, **own: Any) -> None:
            administer(verb, address, connect_timeout, lambda administration: act(administration, **own))

        # The client itself is not needed for --help.
        hints = get_type_hints(act, localns={"Administration": Any}, include_extras=True)
        _, *own = inspect.signature(act).parameters.values()
        return with_parameters(command, act, {each.name: (hints[each.name], each.default) for each in own} | CONNECTING)

    return made


def console() -> Console:
    """Where tables go: the standard output, as wide as the terminal, or wide enough."""
    from rich.console import Console  # noqa: PLC0415 - not needed for --help

    width = None if sys.stdout.isatty() else max(PIPED_WIDTH, shutil.get_terminal_size().columns)
    return Console(width=width, highlight=False)


def show(title: str, rows: Sequence[Facts], columns: Sequence[Column] | None = None) -> None:
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
