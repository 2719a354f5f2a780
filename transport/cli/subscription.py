"""``penstock subscription``: see, release and forget named consumers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from transport.cli import _written as written
from transport.cli._administering import admin_command
from transport.cli._looking import AsJson, Watch, Wide, present
from transport.cli._options import QueueArgument, name
from transport.cli._run import tell
from transport.cli._tables import Column, table

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

app = typer.Typer(no_args_is_help=True, help="See, release and forget named consumers.")

NAMES: tuple[Column, ...] = (("queue", "queue"), ("name", "name"))
SHORT: tuple[Column, ...] = (
    *NAMES,
    ("ready", "ready", written.count),
    ("reserved", "reserved", written.count),
    ("used", "last used"),
)
WIDE: tuple[Column, ...] = (
    *NAMES,
    ("ready", "ready", written.count),
    ("reserved", "reserved", written.count),
    ("opened", "opened"),
    ("used", "last used"),
    ("owner", "owner"),
    ("epoch", "epoch", str),
    ("base", "base", written.count),
    ("high", "high", written.count),
)
"""A broker that was started anew does not know when a subscription was last used: then it is when its owner took it."""

SubscriptionArgument = Annotated[str, typer.Argument(metavar="NAME", help="The subscription's name.", callback=name)]

Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Release it while its query lives. That query fails, and what it has read is read again by others.",
    ),
]


@app.command("list")
@admin_command("subscription list")
async def list_subscriptions(
    administration: Administration, wide: Wide = False, as_json: AsJson = False, watch: Watch = None
) -> None:
    """List the subscriptions of all queues: what is ready for them, what they hold, who owns them and since when nobody does."""

    def draw(found: list[Facts], width: int | None) -> list[str]:
        found = sorted(found, key=lambda facts: (str(facts.get("queue")), str(facts.get("name"))))
        return subscription_lines(found, WIDE if wide else SHORT, width)

    await present(
        administration,
        lambda client: client.subscriptions(),
        draw,
        verb="subscription list",
        as_json=as_json,
        wide=wide,
        watch=watch,
    )


def subscription_lines(found: Sequence[Facts], columns: Sequence[Column], width: int | None) -> list[str]:
    """The title and the table of these subscriptions."""
    now = time.time()
    rows = [_subscription_row(facts, now) for facts in found]
    return [written.counted(len(rows), "subscription"), *table(rows, columns, width), ""]


@app.command("release")
@admin_command("subscription release")
async def release_subscription(
    administration: Administration, queue: QueueArgument, subscription: SubscriptionArgument, force: Force = False
) -> None:
    """Return what a subscription has reserved to its queue, for a query that never comes back."""
    released = await administration.release_subscription(queue, subscription, force)
    typer.echo(f"subscription {subscription} of queue {queue} released{_returned(released)}")
    if released:
        tell("subscription release", "a query that returns reads them again, without a word")


@app.command("delete")
@admin_command("subscription delete")
async def delete_subscription(
    administration: Administration, queue: QueueArgument, subscription: SubscriptionArgument
) -> None:
    """Forget a subscription that nobody uses any more; what it has reserved returns to its queue."""
    released = await administration.delete_subscription(queue, subscription)
    typer.echo(f"subscription {subscription} of queue {queue} deleted{_returned(released)}")


def _returned(messages: int | None) -> str:
    return "" if messages is None else f", {written.counted(messages, 'message')} returned"


def _subscription_row(facts: Facts, now: float) -> Facts:
    """What a table shows of a subscription; of an older broker, which says less, what there is."""
    from actors.queue.structures.deadlines import US_PER_SECOND  # noqa: PLC0415 - not needed for --help

    base, high, opened = (facts.get(key) for key in ("base", "high", "opened_us"))
    reserved = high - base if isinstance(base, int) and isinstance(high, int) else None
    backlog = facts.get("backlog")
    ready = backlog - reserved if isinstance(backlog, int) and reserved is not None else None
    age = now - opened / US_PER_SECOND if isinstance(opened, int) and opened else None
    idle = facts.get("idle_ms")
    return facts | {
        "ready": ready,
        "reserved": reserved,
        "opened": _ago(age),
        "used": "now" if facts.get("owned") else _ago(idle / 1000 if isinstance(idle, int) else age),
    }


def _ago(seconds: float | None) -> str | None:
    return None if seconds is None else written.ago(seconds)
