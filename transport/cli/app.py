"""The command's tree: which verb is served by which module."""

from __future__ import annotations

from typing import Annotated

import typer

from transport.cli import broker, config, journal, queue, receive, send, stats, subscription, transaction
from transport.cli._settings import EPILOG
from transport.wire.version import installed_version

PROGRAM = "penstock"

app = typer.Typer(
    name=PROGRAM,
    help="A message queue that moves only what is asked for.",
    no_args_is_help=True,
    add_completion=False,
    # Errors that users can mend are reported in one line; a traceback of what they cannot mend is better plain.
    pretty_exceptions_enable=False,
)
app.command("broker", epilog=EPILOG)(broker.broker)
app.command("send")(send.send)
app.command("receive")(receive.receive)
app.command("stats")(stats.stats)
app.add_typer(queue.app, name="queue")
app.add_typer(config.app, name="config")
app.add_typer(journal.app, name="journal")
app.add_typer(subscription.app, name="subscription")
app.add_typer(transaction.app, name="transaction")


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
    app(prog_name=PROGRAM)
