"""``penstock queue``: declare, alter, list, empty and delete queues."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import typer

from actors.queue.vocabulary.settings import UNALTERABLE
from transport.cli import _written as written
from transport.cli._administering import admin_command, administer
from transport.cli._looking import AsJson, Rates, Watch, Wide, WithRates, present
from transport.cli._options import CONNECTING, REQUIRED, QueueArgument
from transport.cli._queue_figures import QUEUE_HOLDS, RATES, SHORT, queue_lines, setting_columns
from transport.cli._queue_files import export_queues, import_command
from transport.cli._queue_page import blocking, page
from transport.cli._run import tell
from transport.cli._setting_options import queue_settings_command
from transport.cli._tables import Column
from transport.cli.exit_codes import EXIT_USAGE
from transport.cli.move import move
from transport.cli.peek import peek
from transport.cli.subscription import SHORT as SUBSCRIPTIONS
from transport.cli.subscription import subscription_lines
from transport.errors import BrokerError, LocalProtocolError

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

app = typer.Typer(no_args_is_help=True, help="Declare, alter, list, empty and delete queues.")

WIDE: tuple[Column, ...] = (*QUEUE_HOLDS, *RATES, ("stored_bytes", "bytes", written.size), *setting_columns())
"""Everything: what a queue holds, and its settings."""


@app.command("list")
@admin_command("queue list")
async def list_queues(
    administration: Administration,
    wide: Wide = False,
    as_json: AsJson = False,
    rates: WithRates = False,
    watch: Watch = None,
) -> None:
    """List the queues and what they hold."""
    from time import monotonic  # noqa: PLC0415 - not needed for --help

    seen = Rates(monotonic)

    async def look(client: Administration) -> list[Facts]:
        queues = await client.queues()
        seen.add(queues)
        return queues

    await present(
        administration,
        look,
        lambda queues, width: queue_lines(queues, WIDE if wide else SHORT, width),
        verb="queue list",
        as_json=as_json,
        wide=wide,
        rates=rates,
        watch=watch,
    )


@app.command("show")
@admin_command("queue show")
async def show_queue(
    administration: Administration, queue: QueueArgument, as_json: AsJson = False, watch: Watch = None
) -> None:
    """Show one queue: what blocks it, what it holds, its rates (which take a second), its settings and who uses it."""
    from time import monotonic  # noqa: PLC0415 - not needed for --help

    seen = Rates(monotonic)

    async def look(client: Administration) -> Facts:
        found = await client.queue(queue)
        seen.add([found])
        connections = [each for each in await client.connections() if each.get("queue") == queue]
        subscriptions = [each for each in await client.subscriptions() if each.get("queue") == queue]
        return {
            "queue": found,
            "blocked": blocking(found),
            "connections": connections,
            "subscriptions": subscriptions,
        }

    def draw(facts: Facts, width: int | None) -> list[str]:
        subscriptions = facts["subscriptions"]
        lines = (
            subscription_lines(subscriptions, SUBSCRIPTIONS[1:], width) if subscriptions else ["0 subscriptions", ""]
        )
        return page(facts["queue"], facts["connections"], lines, width, facts["blocked"])

    await present(administration, look, draw, verb="queue show", as_json=as_json, rates=True, watch=watch)


def _create(settings: dict[str, Any], queue: str, **where: Any) -> None:
    """Declare a queue. One that is only used is created with the broker's settings."""
    # Its options are made of QUEUE_SETTINGS.
    _set("queue create", "created", lambda client: client.create_queue, settings, queue, where)


def _alter(
    settings: dict[str, Any],
    queue: str,
    exclusive: bool | None = None,
    durable: bool | None = None,
    single_active_consumer: bool | None = None,
    max_priority: str | None = None,
    groups: bool | None = None,
    **where: Any,
) -> None:
    """Give a queue that is there other settings. What is not said stays as it is; what it holds stays too."""
    # Its options are made of QUEUE_SETTINGS.
    for name, said in (
        ("exclusive", exclusive),
        ("durable", durable),
        ("single_active_consumer", single_active_consumer),
        ("max_priority", max_priority),
        ("groups", groups),
    ):
        if said is not None:
            tell("queue alter", f"{name} cannot change, for {UNALTERABLE[name]}: delete the queue and create it anew")
            raise typer.Exit(EXIT_USAGE)
    if not settings:
        tell("queue alter", "say what to alter, as --max-messages 1000; `penstock queue alter --help` has it all")
        raise typer.Exit(EXIT_USAGE)
    _set("queue alter", "altered", lambda client: client.alter_queue, settings, queue, where)


def _set(
    verb: str,
    done: str,
    act: Callable[[Administration], Callable[..., Coroutine[Any, Any, None]]],
    settings: dict[str, Any],
    queue: str,
    where: dict[str, Any],
) -> None:
    """Run a verb that gives a queue settings."""
    # None was said, and so means never or none; what was not said is not there.
    from transport.cli._declarations import explicit  # noqa: PLC0415 - not needed for --help

    said = explicit(settings)

    async def talk(administration: Administration) -> None:
        try:
            await act(administration)(queue, **said)
        except BrokerError as error:
            if error.code != LocalProtocolError.code:
                raise
            # What is left of a setting that cannot be: it depends on another, which may be the broker's.
            tell(verb, error.text)
            raise typer.Exit(EXIT_USAGE) from None
        typer.echo(f"queue {queue} {done} at {administration.address}")

    administer(verb, where, talk)


WHICH = {"queue": (QueueArgument, REQUIRED), **CONNECTING}
app.command("create")(queue_settings_command(_create, WHICH))
REFUSED = {
    name: (Annotated[bool | None, typer.Option(f"--{name}/--no-{name}", hidden=True)], None)
    for name in ("exclusive", "durable")
} | {"max_priority": (Annotated[str | None, typer.Option("--max-priority", hidden=True)], None)}
"""Known to be refused with the reason."""
app.command("alter")(queue_settings_command(_alter, WHICH | REFUSED, unsaid="as it is", without=frozenset(UNALTERABLE)))


@app.command("delete")
@admin_command("queue delete")
async def delete_queue(administration: Administration, queue: QueueArgument) -> None:
    """Delete a queue with all it holds, and end its connections."""
    ended = await administration.delete_queue(queue)
    connections = f", {written.counted(ended, 'connection')} ended" if ended else ""
    typer.echo(f"queue {queue} deleted at {administration.address}{connections}")


@app.command("purge")
@admin_command("queue purge")
async def purge_queue(administration: Administration, queue: QueueArgument) -> None:
    """Drop the messages that wait in a queue; what receivers hold stays theirs."""
    purged = await administration.purge_queue(queue)
    of = "" if purged is None else f" of {written.counted(purged, 'message')}"
    typer.echo(f"queue {queue} purged{of} at {administration.address}")


app.command("export")(export_queues)
app.command("import")(import_command)
app.command("move")(move)
app.command("peek")(peek)
