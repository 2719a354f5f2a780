"""The command's tree: which verb is served by which module."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from transport.cli import administration, broker, config, journal, receive, send, user
from transport.cli._options import EPILOG
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
app.command("stats")(administration.stats)
app.add_typer(administration.queues, name="queue")
app.add_typer(config.app, name="config")
app.add_typer(journal.app, name="journal")
app.add_typer(administration.subscriptions, name="subscription")
app.add_typer(administration.transactions, name="transaction")
app.add_typer(user.app, name="user")


class _Verb(TyperCommand):
    """A verb, whose help has the names of options whole."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - it prints by itself, as typer's does
        """Print it."""
        from transport.cli._help import print_help  # noqa: PLC0415 - for a verb's help alone

        print_help(self, ctx)


def _with_whole_names(group: typer.Typer) -> None:
    for verb in group.registered_commands:
        verb.cls = _Verb
    for each in group.registered_groups:
        if each.typer_instance is not None:
            _with_whole_names(each.typer_instance)


_with_whole_names(app)


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
