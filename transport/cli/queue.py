"""``penstock queue``: declare, list, empty and delete queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from transport.address import DEFAULT_SEND_ADDRESS
from transport.cli._admin import Column, administer, show
from transport.cli._options import DEFAULT_CONNECT_TIMEOUT, ConnectTimeout, QueueArgument, SendAddress

if TYPE_CHECKING:
    from transport.administration import Administration

app = typer.Typer(no_args_is_help=True, help="Declare, list, empty and delete queues.")

COLUMNS: list[Column] = [
    ("name", "queue"),
    ("ready", "ready"),
    ("in_flight", "in flight"),
    ("reserved", "reserved"),
    ("delayed", "delayed"),
    ("demand_waiting", "demand"),
    ("stored_bytes", "bytes"),
    ("max_messages", "max messages"),
    ("max_bytes", "max bytes"),
]


@app.command("list")
def list_queues(
    address: SendAddress = DEFAULT_SEND_ADDRESS, connect_timeout: ConnectTimeout = DEFAULT_CONNECT_TIMEOUT
) -> None:
    """List the queues and what they hold."""

    async def talk(administration: Administration) -> None:
        queues = sorted(await administration.queues(), key=lambda queue: str(queue.get("name")))
        present = [column for column in COLUMNS if not queues or any(column[0] in queue for queue in queues)]
        show(f"{len(queues)} queues", queues, present)

    administer("queue list", address, connect_timeout, talk)


@app.command("create")
def create_queue(
    queue: QueueArgument,
    *,
    max_messages: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Messages it stores; the broker's setting by default.")
    ] = None,
    max_bytes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Bytes it stores; the broker's setting by default.")
    ] = None,
    visibility_timeout: Annotated[
        float | None,
        typer.Option(metavar="S", min=0.001, help="Seconds until redelivery; the broker's setting by default."),
    ] = None,
    address: SendAddress = DEFAULT_SEND_ADDRESS,
    connect_timeout: ConnectTimeout = DEFAULT_CONNECT_TIMEOUT,
) -> None:
    """Declare a queue. One that is only used is created with the broker's settings."""

    async def talk(administration: Administration) -> None:
        await administration.create_queue(queue, max_messages, max_bytes, visibility_timeout)
        typer.echo(f"queue {queue} created")

    administer("queue create", address, connect_timeout, talk)


@app.command("delete")
def delete_queue(
    queue: QueueArgument,
    address: SendAddress = DEFAULT_SEND_ADDRESS,
    connect_timeout: ConnectTimeout = DEFAULT_CONNECT_TIMEOUT,
) -> None:
    """Delete a queue with all it holds, and end its connections."""

    async def talk(administration: Administration) -> None:
        await administration.delete_queue(queue)
        typer.echo(f"queue {queue} deleted")

    administer("queue delete", address, connect_timeout, talk)


@app.command("purge")
def purge_queue(
    queue: QueueArgument,
    address: SendAddress = DEFAULT_SEND_ADDRESS,
    connect_timeout: ConnectTimeout = DEFAULT_CONNECT_TIMEOUT,
) -> None:
    """Drop the messages that wait in a queue; what receivers hold stays theirs."""

    async def talk(administration: Administration) -> None:
        purged = await administration.purge_queue(queue)
        typer.echo(f"queue {queue} purged" if purged is None else f"queue {queue} purged of {purged} messages")

    administer("queue purge", address, connect_timeout, talk)
