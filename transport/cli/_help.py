"""The help of a verb: names of options are whole in it, however narrow the terminal is, for they are there to be copied.

Typer's own help shares the columns out evenly, and cuts long names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typer.core import TyperCommand

PANELS: Final = {"argument": "Arguments", "option": "Options"}
"""Of parameters that have none of their own."""

_NAMES: Final = re.compile(r"(-\S+(?:\s*[,/]\s*-\S+)*)\s*(.*)", re.DOTALL)
"""An option's names, and what stands for its value."""


def print_help(command: TyperCommand, ctx: Any) -> None:
    """Print it: usage, what the verb does, and a panel for each group of parameters."""
    from rich.console import Console  # noqa: PLC0415 - for the help alone
    from rich.padding import Padding  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    console.print(Padding(Text(command.get_usage(ctx), "bold"), 1))
    if command.help:
        console.print(Padding(Text(_paragraphs(command.help)), (0, 1, 1, 1)))
    panels: dict[str, list[Any]] = defaultdict(list, {title: [] for title in PANELS.values()})
    for parameter in command.get_params(ctx):
        if not getattr(parameter, "hidden", False):
            own = getattr(parameter, "rich_help_panel", None)
            panels[own or PANELS[parameter.param_type_name]].append(parameter)
    for title, parameters in panels.items():
        if parameters:
            console.print(_panel(title, [parameter.get_help_record(ctx) for parameter in parameters]))
    if command.epilog:
        console.print(Padding(Text(_paragraphs(command.epilog)), 1))


def _panel(title: str, records: Iterable[tuple[str, str]]) -> Any:
    from rich.panel import Panel  # noqa: PLC0415 - for the help alone
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(show_header=False, expand=True, box=None, pad_edge=False, padding=(0, 1))
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(style="bold yellow", overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    for written, text in records:
        found = _NAMES.fullmatch(written)
        names, value = found.groups() if found else (written, "")
        # Text, not markup: brackets are brackets.
        table.add_row(Text(names), Text(value), Text(re.sub(r"  +", " ", text)))
    return Panel(table, border_style="dim", title=title, title_align="left")


def _paragraphs(text: str) -> str:
    """``text`` with a line for each of its paragraphs."""
    return "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))
