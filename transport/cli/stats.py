"""``penstock stats``: what waits, what is wanted, who is connected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from transport.cli._admin import QUEUE_HOLDS, Column, admin_command, console, show

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

QUEUE_COLUMNS: list[Column] = [
    *QUEUE_HOLDS,
    ("capacity_granted", "granted"),
    ("stored_bytes", "bytes"),
    ("staged_bytes", "staged bytes"),
    ("total_in", "in"),
    ("total_out", "out"),
    ("total_acknowledged", "acked"),
    ("total_redelivered", "redelivered"),
    ("total_expired", "expired"),
    ("total_dead_lettered", "dead letters"),
    ("oldest_ms", "oldest ms"),
    ("senders", "senders"),
    ("receivers", "receivers"),
    ("subscriptions", "subscriptions"),
]
CONNECTION_COLUMNS: list[Column] = [
    ("id", "connection"),
    ("role", "role"),
    ("queue", "queue"),
    ("client_id", "client"),
    ("peer", "peer"),
    ("demand", "demand"),
    ("in_flight", "in flight"),
    ("connected_s", "seconds"),
    ("bytes_in", "bytes in"),
    ("bytes_out", "bytes out"),
]


@admin_command("stats")
async def stats(
    administration: Administration,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Show per queue what is ready, in flight, wanted and moved, and per connection its demand."""
    figures = await administration.statistics()
    if as_json:
        typer.echo(json.dumps(figures, indent=2))
    else:
        _show(figures, str(administration.address))


def _show(figures: Facts, address: str) -> None:
    broker = figures.get("broker") or {}
    console().print(
        f"broker {address}: version {broker.get('version', '?')}, epoch {broker.get('epoch', '?')}, "
        f"up {broker.get('uptime_s') or 0:,.0f} s, {(broker.get('rss_bytes') or 0) / 2**20:,.1f} MiB resident, "
        f"{broker.get('connections', '?')} connections",
        markup=False,
    )
    if reason := broker.get("paused"):
        console().print(f"senders wait: {reason}", markup=False)
    queues = sorted(figures.get("queues") or [], key=lambda queue: str(queue.get("name")))
    failed = any("failed" in queue for queue in queues)
    show(f"{len(queues)} queues", queues, [column for column in QUEUE_COLUMNS if failed or column[0] != "failed"])
    if storage := figures.get("storage"):
        # Two dozen facts about one thing read better down the page than across it.
        rows = [{"figure": key.replace("_", " "), "value": value} for key, value in storage.items()]
        show("storage", rows, [("figure", "figure"), ("value", "value")])
    connections = figures.get("connections") or []
    show(f"{len(connections)} connections", connections, CONNECTION_COLUMNS)
