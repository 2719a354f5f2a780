"""``penstock exchange``: declare, list and delete exchanges, and say where a message would go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from transport.cli import _written as written
from transport.cli._administering import admin_command
from transport.cli._binding_lines import FROM_ONE, TO_ONE, binding_lines
from transport.cli._exchange_options import (
    ExchangeName,
    ExchangeOrDefault,
    Headers,
    Kind,
    RoutingKey,
    check_exchange,
    shown_exchange,
    table_of,
    written_table,
)
from transport.cli._looking import AsJson, Watch, Wide, present
from transport.cli._run import tell
from transport.cli._tables import Column, cell, facts_table, put, table

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

app = typer.Typer(no_args_is_help=True, help="Declare, list and delete exchanges, and see where a message would go.")

SHORT: tuple[Column, ...] = (
    ("name", "name"),
    ("kind", "kind"),
    ("flags", "flags"),
    ("bindings", "bindings", written.count),
    ("published", "published", written.count),
    ("unroutable", "unroutable", written.count),
)
WIDE: tuple[Column, ...] = (
    *SHORT[:2],
    ("durable", "durable"),
    ("auto_delete", "auto-delete"),
    ("internal", "internal"),
    *SHORT[3:],
    ("returned", "returned", written.count),
    ("waiting", "waiting", written.count),
    ("arguments", "arguments"),
)
"""A broker counts since its start."""
ALTERNATE = "alternate-exchange"
DELAYED, DELAYED_TYPE = "x-delayed-message", "x-delayed-type"


@app.command("list")
@admin_command("exchange list")
async def list_exchanges(
    administration: Administration, wide: Wide = False, as_json: AsJson = False, watch: Watch = None
) -> None:
    """List the exchanges: their kind, how many bindings each has, what was published to it, and what of that no queue took."""

    def draw(found: list[Facts], width: int | None) -> list[str]:
        rows = [_row(facts) for facts in found]
        return [written.counted(len(rows), "exchange"), *table(rows, WIDE if wide else SHORT, width), ""]

    await present(
        administration,
        lambda client: client.exchanges(),
        draw,
        verb="exchange list",
        as_json=as_json,
        wide=wide,
        watch=watch,
    )


@app.command("show")
@admin_command("exchange show")
async def show_exchange(
    administration: Administration, exchange: ExchangeOrDefault, as_json: AsJson = False, watch: Watch = None
) -> None:
    """Show one exchange: what it is, what came to it, and its bindings at both ends."""

    async def look(client: Administration) -> Facts:
        facts = await client.exchange(exchange)
        if not exchange:
            return {"exchange": facts, "bindings": [], "bound_to": []}
        return {
            "exchange": facts,
            "bindings": await client.bindings(exchange),
            "bound_to": await client.bindings(None, exchange, to_exchange=True),
        }

    def draw(seen: Facts, width: int | None) -> list[str]:
        facts = seen["exchange"]
        lines = [f"exchange {shown_exchange(facts.get('name'))}", "", *facts_table(_page(facts)), ""]
        if not exchange:
            return [*lines, "every queue is bound to it by its name", ""]
        lines += binding_lines(seen["bindings"], FROM_ONE, width)
        if seen["bound_to"]:
            lines += binding_lines(seen["bound_to"], TO_ONE, width, "binding leads to it", "bindings lead to it")
        return lines

    await present(administration, look, draw, verb="exchange show", as_json=as_json, watch=watch)


@app.command("create")
@admin_command("exchange create")
async def create_exchange(
    administration: Administration,
    exchange: ExchangeName,
    kind: Kind = "direct",
    not_durable: Annotated[bool, typer.Option("--not-durable", help="Gone when the broker ends.")] = False,
    auto_delete: Annotated[bool, typer.Option("--auto-delete", help="Deleted with its last binding.")] = False,
    internal: Annotated[bool, typer.Option("--internal", help="Only other exchanges publish to it.")] = False,
    alternate: Annotated[
        str | None,
        typer.Option(
            "--alternate",
            metavar="E",
            help="The exchange that gets what none of its bindings takes.",
            callback=check_exchange,
        ),
    ] = None,
    delayed: Annotated[
        bool, typer.Option("--delayed", help="Messages with a delay wait before it routes them.")
    ] = False,
) -> None:
    """Declare an exchange. One that is there must be the same."""
    made = await administration.declare_exchange(
        exchange,
        kind,
        durable=not not_durable,
        auto_delete=auto_delete,
        internal=internal,
        alternate=alternate,
        delayed=delayed,
    )
    done = "created" if made else "is there already"
    typer.echo(f"exchange {exchange} {done} at {administration.address}")


@app.command("delete")
@admin_command("exchange delete")
async def delete_exchange(
    administration: Administration,
    exchange: ExchangeName,
    if_unused: Annotated[bool, typer.Option("--if-unused", help="Only where it has no bindings.")] = False,
) -> None:
    """Delete an exchange, with the bindings from it and to it. The queues stay, and what they hold."""
    await administration.delete_exchange(exchange, if_unused=if_unused)
    typer.echo(f"exchange {exchange} deleted at {administration.address}")


@app.command("route")
@admin_command("exchange route")
async def route(
    administration: Administration,
    exchange: ExchangeOrDefault,
    key: RoutingKey = "",
    header: Headers = None,
    as_json: AsJson = False,
) -> None:
    """Print the queues that a message would go to, one a line; nothing is published."""
    queues = await administration.route(exchange, key, table_of(header))
    if as_json:
        import json  # noqa: PLC0415 - where it is asked for

        put([json.dumps(queues, indent=2)])
        return
    if queues:
        put(sorted(queues))
    else:
        tell("exchange route", f"no queue gets that: exchange {shown_exchange(exchange)} would drop it")


def _row(facts: Facts) -> Facts:
    """What the list shows of an exchange."""
    return facts | {
        "name": shown_exchange(facts.get("name")),
        "flags": _flags(facts) or None,
        "arguments": written_table(facts.get("arguments")),
    }


def _flags(facts: Facts) -> list[str]:
    """What is said of an exchange that is not as most are."""
    flags = [] if facts.get("durable", True) else ["not durable"]
    flags += [name.replace("_", "-") for name in ("auto_delete", "internal") if facts.get(name)]
    if (delayed := _inner(facts)) is not None:
        flags.append(f"delays {delayed}")
    alternate = _alternate(facts)
    return [*flags, f"alternate {alternate}"] if alternate is not None else flags


def _page(facts: Facts) -> list[tuple[str, str]]:
    found = [(key.replace("_", "-"), cell(facts.get(key))) for key in ("kind", "durable", "auto_delete", "internal")]
    if (delayed := _inner(facts)) is not None:
        found[:1] = [("kind", cell(delayed)), ("delayed", cell(True))]
    if (alternate := _alternate(facts)) is not None:
        found.append(("alternate", cell(alternate)))
    found += [(key, cell(facts.get(key))) for key in ("published", "unroutable", "returned")]
    if delayed is not None:
        found.append(("waiting", cell(facts.get("waiting"))))
    return found


def _alternate(facts: Facts) -> Any:
    return _argument(facts, ALTERNATE)


def _inner(facts: Facts) -> Any:
    """The kind by which an exchange routes what has waited; None of one where nothing waits."""
    return _argument(facts, DELAYED_TYPE) if facts.get("kind") == DELAYED else None


def _argument(facts: Facts, name: str) -> Any:
    arguments = facts.get("arguments")
    return arguments.get(name) if isinstance(arguments, dict) else None
