"""``penstock connection``: who is connected, and how to end it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from transport.cli import _written as written
from transport.cli._administering import admin_command
from transport.cli._looking import AsJson, Watch, Wide, present
from transport.cli._run import tell
from transport.cli._tables import Column, table
from transport.cli.exit_codes import EXIT_USAGE

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

app = typer.Typer(no_args_is_help=True, help="See and end connections.")

Number = Annotated[
    int | None, typer.Argument(metavar="[ID]", min=0, help="The connection's number, as the list has it.")
]
OfUser = Annotated[
    str | None, typer.Option("--of-user", metavar="NAME", help="Instead of ID: all connections of this user.")
]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="What the other side is told.")]

CONNECTIONS_SHORT: tuple[Column, ...] = (
    ("id", "id", str),
    ("role", "role"),
    ("queue", "queue"),
    ("client_id", "client"),
    ("demand", "demand", written.count),
    ("in_flight", "in flight", written.count),
)
CONNECTIONS_WIDE: tuple[Column, ...] = (
    ("id", "id", str),
    ("role", "role"),
    ("queue", "queue"),
    ("client_id", "client"),
    ("user", "user"),
    ("peer", "peer"),
    ("product", "product"),
    ("virtual_host", "virtual host"),
    ("channels", "channels", written.count),
    ("consumers", "consumers", written.count),
    ("prefetch", "prefetch", written.count),
    ("demand", "demand", written.count),
    ("in_flight", "in flight", written.count),
    ("held_ms", "held for", written.milliseconds),
    ("in_line", "in line", written.count),
    ("priority", "priority", written.count),
    ("connected_s", "connected", written.duration),
    ("bytes_in", "bytes in", written.size),
    ("bytes_out", "bytes out", written.size),
)


@app.command("list")
@admin_command("connection list")
async def list_connections(
    administration: Administration, wide: Wide = False, as_json: AsJson = False, watch: Watch = None
) -> None:
    """List the connections: their role, queue, user and address, and what they hold."""

    def draw(found: list[Facts], width: int | None) -> list[str]:
        rows = table(found, CONNECTIONS_WIDE if wide else CONNECTIONS_SHORT, width)
        return [written.counted(len(found), "connection"), *rows, ""]

    await present(
        administration,
        lambda client: client.connections(),
        draw,
        verb="connection list",
        as_json=as_json,
        wide=wide,
        watch=watch,
    )


@app.command("close")
@admin_command("connection close")
async def close_connection(
    administration: Administration, number: Number = None, of_user: OfUser = None, reason: Reason = None
) -> None:
    """End a connection, or all of a user. The other side is told why, once.

    Penstock's own clients connect again. Whoever is to stay away is to lose a right (penstock user revoke).
    """
    if (number is None) == (of_user is None):
        tell("connection close", "say which: the number of a connection (penstock connection list), or --of-user NAME")
        raise typer.Exit(EXIT_USAGE)
    closed = await administration.close_connections(number, user=of_user, reason=reason)
    if number is not None:
        typer.echo(f"connection {number} closed")
    else:
        typer.echo(
            f"{'connections' if closed is None else written.counted(closed, 'connection')} of user {of_user} closed"
        )
