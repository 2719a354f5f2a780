"""``penstock binding``: list, create and delete what leads from exchanges to queues, and to other exchanges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from transport.cli._administering import admin_command
from transport.cli._binding_lines import SHORT, WIDE, binding_lines
from transport.cli._exchange_options import (
    Arguments,
    Destination,
    ExchangeName,
    KeyArgument,
    Match,
    ToExchange,
    arguments_of,
    check_destination,
    check_exchange,
    written_table,
)
from transport.cli._looking import AsJson, Watch, Wide, present

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

app = typer.Typer(no_args_is_help=True, help="List, create and delete what leads from exchanges to queues.")


@app.command("list")
@admin_command("binding list")
async def list_bindings(
    administration: Administration,
    exchange: Annotated[
        str | None,
        typer.Option("--exchange", metavar="E", help="Only those of this exchange.", callback=check_exchange),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="Q", help="Only those that lead to this queue.", callback=check_destination),
    ] = None,
    wide: Wide = False,
    as_json: AsJson = False,
    watch: Watch = None,
) -> None:
    """List the bindings, in the order in which they were made. The default exchange has every queue, and none is listed."""

    def draw(found: list[Facts], width: int | None) -> list[str]:
        return binding_lines(found, WIDE if wide else SHORT, width)

    await present(
        administration,
        lambda client: client.bindings(exchange, queue),
        draw,
        verb="binding list",
        as_json=as_json,
        wide=wide,
        watch=watch,
    )


@app.command("create")
@admin_command("binding create")
async def create_binding(
    administration: Administration,
    exchange: ExchangeName,
    queue: Destination,
    key: KeyArgument = "",
    to_exchange: ToExchange = False,
    argument: Arguments = None,
    match: Match = None,
) -> None:
    """Have what matches go from an exchange to a queue, or to another exchange."""
    table = arguments_of(argument, match)
    made = await administration.bind(exchange, queue, key, table, to_exchange=to_exchange)
    done = "created" if made else "is there already"
    typer.echo(f"binding {_said(exchange, queue, key, table, to_exchange)} {done} at {administration.address}")


@app.command("delete")
@admin_command("binding delete")
async def delete_binding(
    administration: Administration,
    exchange: ExchangeName,
    queue: Destination,
    key: KeyArgument = "",
    to_exchange: ToExchange = False,
    argument: Arguments = None,
    match: Match = None,
) -> None:
    """Delete a binding, which is named as it was created: with its key and all its arguments."""
    table = arguments_of(argument, match)
    said = _said(exchange, queue, key, table, to_exchange)
    if await administration.unbind(exchange, queue, key, table, to_exchange=to_exchange):
        typer.echo(f"binding {said} deleted at {administration.address}")
    else:
        typer.echo(f"nothing to delete: there is no binding {said}; `penstock binding list` shows what there is")


def _said(exchange: str, destination: str, key: str, table: dict[str, Any], to_exchange: bool) -> str:
    """A binding in a sentence."""
    what = "exchange" if to_exchange else "queue"
    told = [key] if key else []
    told += written_table(table) or []
    return f"from exchange {exchange} to {what} {destination}" + (f" by {', '.join(told)}" if told else "")
