"""``penstock subscription``: see, release and forget what named consumers, such as Spark queries, have reserved."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from actors.queue.structures.deadlines import US_PER_SECOND
from transport.cli._admin import admin_command, show
from transport.cli._options import QueueArgument, name

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

COLUMNS = (
    ("queue", "queue"),
    ("name", "name"),
    ("backlog", "backlog"),
    ("reserved", "reserved"),
    ("opened", "opened"),
    ("used", "last used"),
    ("owner", "owner"),
    ("epoch", "epoch"),
    ("base", "base"),
    ("high", "high"),
)
"""A broker that was started anew does not know when a subscription was last used: then it is when its owner took it."""

SubscriptionArgument = Annotated[str, typer.Argument(metavar="NAME", help="The subscription's name.", callback=name)]

app = typer.Typer(no_args_is_help=True, help="See, release and forget named consumers.")


@app.command("list")
@admin_command("subscription list")
async def list_subscriptions(administration: Administration) -> None:
    """List the subscriptions of all queues: what they hold, what is behind, who owns them and since when nobody does."""
    found = sorted(
        await administration.subscriptions(), key=lambda facts: (str(facts.get("queue")), str(facts.get("name")))
    )
    now = time.time()
    show(f"{len(found)} subscriptions", [_row(facts, now) for facts in found], COLUMNS)


@app.command("release")
@admin_command("subscription release")
async def release_subscription(
    administration: Administration, queue: QueueArgument, subscription: SubscriptionArgument
) -> None:
    """Return what a subscription has reserved to its queue; a query that still runs on it will fail."""
    released = await administration.release_subscription(queue, subscription)
    typer.echo(f"subscription {subscription} of queue {queue} released{_returned(released)}")


@app.command("delete")
@admin_command("subscription delete")
async def delete_subscription(
    administration: Administration, queue: QueueArgument, subscription: SubscriptionArgument
) -> None:
    """Forget a subscription that nobody uses any more; what it has reserved returns to its queue."""
    released = await administration.delete_subscription(queue, subscription)
    typer.echo(f"subscription {subscription} of queue {queue} deleted{_returned(released)}")


def _returned(messages: int | None) -> str:
    return "" if messages is None else f", {messages} messages returned"


def _row(facts: Facts, now: float) -> Facts:
    """What a table shows of a subscription; of an older broker, which says less, what there is."""
    base, high, opened = (facts.get(key) for key in ("base", "high", "opened_us"))
    reserved = high - base if isinstance(base, int) and isinstance(high, int) else None
    age = now - opened / US_PER_SECOND if isinstance(opened, int) and opened else None
    idle = facts.get("idle_ms")
    return facts | {
        "reserved": reserved,
        "opened": _ago(age),
        "used": "now" if facts.get("owned") else _ago(idle / 1000 if isinstance(idle, int) else age),
    }


def _ago(seconds: float | None) -> str | None:
    """A time in the largest unit that is full: "3 d ago"."""
    if seconds is None:
        return None
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{max(0, int(seconds))} s ago"
