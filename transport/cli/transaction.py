"""``penstock transaction``: see and discard what writers, such as Spark queries, have staged and not committed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from transport.cli._admin import admin_command, show
from transport.cli._options import name

if TYPE_CHECKING:
    from transport.clients.administration import Administration

app = typer.Typer(no_args_is_help=True, help="See and discard what writers have staged.")


@app.command("list")
@admin_command("transaction list")
async def list_transactions(administration: Administration) -> None:
    """List the transactions that are neither committed nor aborted."""
    rows = [
        {**facts, "queues": ", ".join(map(str, facts.get("queues") or []))}
        for facts in await administration.transactions()
    ]
    show(f"{len(rows)} open transactions", rows, None if rows else [("writer", "writer"), ("version", "version")])


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
    dropped = "" if discarded is None else f", {discarded} messages discarded"
    typer.echo(f"transaction {version} of {writer} aborted{dropped}")
