"""The command itself: what stands before a verb, and the verbs, by `_verbs.py`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from transport.cli._commands import Group, Verb
from transport.cli._run import escape_unknown, open_closed
from transport.cli._usage import PROGRAM
from transport.cli._verbs import all_verbs
from transport.wire.version import installed_version


class Root(Group):
    """The whole command, whose verbs are loaded when they are named."""

    def __init__(self, **facts: Any) -> None:
        super().__init__(**facts | {"commands": all_verbs(Verb, Group)})


app = typer.Typer(
    name=PROGRAM,
    help="A message queue that moves only what is asked for.",
    cls=Root,
    add_completion=False,
    # Errors that users can mend are reported in one line; a traceback of what they cannot mend is better plain.
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    typer.echo(f"{PROGRAM} {installed_version() or '(not installed: run from its source)'}")
    raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """A message queue that moves only what is asked for."""


def main() -> None:
    """Run the command line of this process."""
    open_closed()
    escape_unknown()
    app(prog_name=PROGRAM)
