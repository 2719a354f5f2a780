"""``penstock subscription``: see and release what named consumers, such as Spark queries, have reserved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from transport.address import DEFAULT_SEND_ADDRESS
from transport.cli._admin import administer, show
from transport.cli._options import DEFAULT_CONNECT_TIMEOUT, ConnectTimeout, QueueArgument, SendAddress, name

if TYPE_CHECKING:
    from transport.administration import Administration

app = typer.Typer(no_args_is_help=True, help="See and release what named consumers have reserved.")


@app.command("list")
def list_subscriptions(
    address: SendAddress = DEFAULT_SEND_ADDRESS, connect_timeout: ConnectTimeout = DEFAULT_CONNECT_TIMEOUT
) -> None:
    """List the subscriptions of all queues."""

    async def talk(administration: Administration) -> None:
        found = sorted(
            await administration.subscriptions(), key=lambda facts: (str(facts.get("queue")), str(facts.get("name")))
        )
        # Queue and name first, whatever else the broker has to say about them after.
        rows = [{"queue": facts.get("queue"), "name": facts.get("name"), **facts} for facts in found]
        show(f"{len(rows)} subscriptions", rows, None if rows else [("queue", "queue"), ("name", "name")])

    administer("subscription list", address, connect_timeout, talk)


@app.command("release")
def release_subscription(
    queue: QueueArgument,
    subscription: Annotated[str, typer.Argument(metavar="NAME", help="The subscription's name.", callback=name)],
    address: SendAddress = DEFAULT_SEND_ADDRESS,
    connect_timeout: ConnectTimeout = DEFAULT_CONNECT_TIMEOUT,
) -> None:
    """Return what a subscription has reserved to its queue; a query that still runs on it will fail."""

    async def talk(administration: Administration) -> None:
        released = await administration.release_subscription(queue, subscription)
        returned = "" if released is None else f", {released} messages returned"
        typer.echo(f"subscription {subscription} of queue {queue} released{returned}")

    administer("subscription release", address, connect_timeout, talk)
