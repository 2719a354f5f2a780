"""``penstock queue``: declare, list, empty and delete queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from actors.queue.vocabulary.settings import QUEUE_SETTINGS
from transport.cli._admin import QUEUE_HOLDS, Column, admin_command, administer, show
from transport.cli._options import CONNECTING, REQUIRED, QueueArgument
from transport.cli._run import EXIT_USAGE, tell
from transport.cli._settings import queue_settings_command
from transport.errors import BrokerError, LocalProtocolError

if TYPE_CHECKING:
    from transport.clients.administration import Administration

app = typer.Typer(no_args_is_help=True, help="Declare, list, empty and delete queues.")

COLUMNS: list[Column] = [
    *QUEUE_HOLDS,
    ("stored_bytes", "bytes"),
    *((setting.name, setting.heading) for setting in QUEUE_SETTINGS),
]
EXPLICIT_NONE: dict[str, Any] = {setting.name: setting.none for setting in QUEUE_SETTINGS if setting.none is not None}
"""What the protocol has for never and for the queue's own."""


@app.command("list")
@admin_command("queue list")
async def list_queues(administration: Administration) -> None:
    """List the queues and what they hold."""
    queues = sorted(await administration.queues(), key=lambda queue: str(queue.get("name")))
    present = [column for column in COLUMNS if not queues or any(column[0] in queue for queue in queues)]
    show(f"{len(queues)} queues", queues, present)


def _create(settings: dict[str, Any], queue: str, address: str, connect_timeout: float) -> None:
    """Declare a queue. One that is only used is created with the broker's settings."""
    # None was said, and so means never or none; what was not said is not there.
    said = {key: EXPLICIT_NONE[key] if value is None else value for key, value in settings.items()}

    async def talk(administration: Administration) -> None:
        try:
            await administration.create_queue(queue, **said)
        except BrokerError as error:
            if error.code != LocalProtocolError.code:
                raise
            # What is left of a setting that cannot be: it depends on another, which may be the broker's.
            tell("queue create", error.text)
            raise typer.Exit(EXIT_USAGE) from None
        typer.echo(f"queue {queue} created")

    administer("queue create", address, connect_timeout, talk)


app.command("create")(queue_settings_command(_create, queue=(QueueArgument, REQUIRED), **CONNECTING))


@app.command("delete")
@admin_command("queue delete")
async def delete_queue(administration: Administration, queue: QueueArgument) -> None:
    """Delete a queue with all it holds, and end its connections."""
    ended = await administration.delete_queue(queue)
    typer.echo(f"queue {queue} deleted" + (f", {ended} connections ended" if ended else ""))


@app.command("purge")
@admin_command("queue purge")
async def purge_queue(administration: Administration, queue: QueueArgument) -> None:
    """Drop the messages that wait in a queue; what receivers hold stays theirs."""
    purged = await administration.purge_queue(queue)
    typer.echo(f"queue {queue} purged" if purged is None else f"queue {queue} purged of {purged} messages")
