"""The command's tree: which verb is served by which module."""

from __future__ import annotations

from typing import Annotated

import typer

from transport.cli import (
    bench,
    broker,
    completion,
    config,
    connection,
    context,
    journal,
    move,
    peek,
    queue,
    receive,
    send,
    stats,
    subscription,
    transaction,
    user,
)
from transport.cli._commands import Group, Verb
from transport.cli._options import EPILOG
from transport.cli._run import escape_unknown, open_closed
from transport.cli._usage import PROGRAM
from transport.wire.version import installed_version

app = typer.Typer(
    name=PROGRAM,
    help="A message queue that moves only what is asked for.",
    cls=Group,
    add_completion=False,
    # Errors that users can mend are reported in one line; a traceback of what they cannot mend is better plain.
    pretty_exceptions_enable=False,
)
app.command("broker", epilog=EPILOG)(broker.broker)
app.command("send")(send.send)
app.command("receive")(receive.receive)
app.command("stats")(stats.stats)
queue.app.command("move")(move.move)
queue.app.command("peek")(peek.peek)
app.command("bench")(bench.bench)
app.add_typer(queue.app, name="queue")
app.add_typer(completion.app, name="completion")
app.add_typer(config.app, name="config")
app.add_typer(connection.app, name="connection")
app.add_typer(context.app, name="context")
app.add_typer(journal.app, name="journal")
app.add_typer(subscription.app, name="subscription")
app.add_typer(transaction.app, name="transaction")
app.add_typer(user.app, name="user")


def _of_ours(group: typer.Typer) -> None:
    """Have the verbs of ``group``, and of the groups in it, helped and told of as ours are."""
    for verb in group.registered_commands:
        verb.cls = Verb
    for each in group.registered_groups:
        each.cls = Group
        if each.typer_instance is not None:
            _of_ours(each.typer_instance)


_of_ours(app)


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
