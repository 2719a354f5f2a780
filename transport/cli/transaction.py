"""``penstock transaction``: see and discard what writers have staged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from transport.cli import _written as written
from transport.cli._administering import admin_command
from transport.cli._looking import AsJson, Watch, Wide, present
from transport.cli._options import name
from transport.cli._tables import Column, table

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

app = typer.Typer(no_args_is_help=True, help="See and discard what writers have staged.")


SHORT: tuple[Column, ...] = (
    ("writer", "writer"),
    ("version", "version", str),
    ("queues", "queues"),
    ("messages", "messages", written.count),
    ("bytes", "bytes", written.size),
)
WIDE: tuple[Column, ...] = (
    ("writer", "writer"),
    ("version", "version", str),
    ("queues", "queues"),
    ("stages", "stages", written.count),
    ("messages", "messages", written.count),
    ("bytes", "bytes", written.size),
)


@app.command("list")
@admin_command("transaction list")
async def list_transactions(
    administration: Administration, wide: Wide = False, as_json: AsJson = False, watch: Watch = None
) -> None:
    """List the transactions that are neither committed nor aborted."""

    def draw(found: list[Facts], width: int | None) -> list[str]:
        rows = [facts | {"queues": ", ".join(map(str, facts.get("queues") or []))} for facts in found]
        title = written.counted(len(rows), "open transaction")
        return [title, *table(rows, WIDE if wide else SHORT, width), ""]

    await present(
        administration,
        lambda client: client.transactions(),
        draw,
        verb="transaction list",
        as_json=as_json,
        wide=wide,
        watch=watch,
    )


@app.command("abort")
@admin_command("transaction abort")
async def abort_transaction(
    administration: Administration,
    writer: Annotated[str, typer.Argument(metavar="WRITER", help="Who writes.", callback=name)],
    version: Annotated[int, typer.Argument(metavar="VERSION", min=0, help="The transaction's number.")],
) -> None:
    """Discard what a transaction has staged; a query that still works on it writes that batch again."""
    discarded = await administration.abort_transaction(writer, version)
    if discarded == 0:
        typer.echo(f"nothing to abort: no message is staged for transaction {version} of {writer}")
        return
    dropped = "" if discarded is None else f", {written.counted(discarded, 'message')} discarded"
    typer.echo(f"transaction {version} of {writer} aborted{dropped}")
