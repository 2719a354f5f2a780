"""``penstock stats``: what a broker, its queues and its connections do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transport.cli import _written as written
from transport.cli._administering import admin_command
from transport.cli._looking import AsJson, Rates, Watch, Wide, WithRates, present
from transport.cli._queue_figures import QUEUE_HOLDS, RATES, SHORT, queue_lines
from transport.cli._tables import Column, cell, facts_table, table
from transport.cli.cluster import summary as cluster_lines
from transport.cli.connection import CONNECTIONS_SHORT, CONNECTIONS_WIDE

if TYPE_CHECKING:
    from transport.clients.administration import Administration, Facts

QUEUE_FIGURES: tuple[Column, ...] = (
    *QUEUE_HOLDS,
    *RATES,
    ("capacity_granted", "granted", written.count),
    ("stored_bytes", "bytes", written.size),
    ("staged_bytes", "staged bytes", written.size),
    ("total_in", "in", written.count),
    ("total_out", "out", written.count),
    ("total_acknowledged", "acked", written.count),
    ("total_redelivered", "redelivered", written.count),
    ("total_expired", "expired", written.count),
    ("total_dropped", "dropped", written.count),
    ("total_deduplicated", "deduplicated", written.count),
    ("total_dead_lettered", "dead letters", written.count),
    ("oldest_ms", "oldest", written.milliseconds),
    ("senders", "senders", written.count),
    ("receivers", "receivers", written.count),
    ("subscriptions", "subscriptions", written.count),
)
BY_SUFFIX = {"_bytes": written.size, "_ms": written.milliseconds, "_s": written.duration}
"""How a figure of the storage is written, by what its name ends in."""


@admin_command("stats")
async def stats(
    administration: Administration,
    wide: Wide = False,
    as_json: AsJson = False,
    rates: WithRates = False,
    watch: Watch = None,
) -> None:
    """Show per queue what is ready, in flight and moved, and per connection its demand."""
    from time import monotonic  # noqa: PLC0415 - not needed for --help

    seen = Rates(monotonic)

    async def look(client: Administration) -> Facts:
        figures = await client.statistics()
        seen.add(figures.get("queues") or [])
        return figures

    address = str(administration.address)
    await present(
        administration,
        look,
        lambda figures, width: statistics_lines(figures, address, width, wide=wide),
        verb="stats",
        as_json=as_json,
        wide=wide,
        rates=rates,
        watch=watch,
    )


def statistics_lines(figures: Facts, address: str, width: int | None, *, wide: bool = False) -> list[str]:
    """What ``stats`` answers, as tables."""
    broker = figures.get("broker") or {}
    about = [
        f"version {cell(broker.get('version', '?'))}",
        f"epoch {cell(str(broker.get('epoch', '?')))}",
        f"up {written.duration(broker.get('uptime_s') or 0)}",
        f"{written.size(broker.get('rss_bytes') or 0)} resident",
    ]
    lines = [f"broker {address}", "  " + ", ".join(about)]
    if reason := broker.get("paused"):
        lines.append(f"  senders wait: {cell(reason)}")
    if cluster := figures.get("cluster"):
        lines += cluster_lines(cluster)
    if any((exchanges := figures.get("exchanges") or {}).values()):
        # Most brokers have none but their own, and nobody publishes there.
        about = [
            written.counted(int(exchanges.get(key) or 0), key.removesuffix("s")) for key in ("exchanges", "bindings")
        ]
        about += [f"{written.count(exchanges.get(key) or 0)} {key}" for key in ("published", "unroutable", "returned")]
        about += [f"{written.count(waiting)} waiting"] if (waiting := exchanges.get("waiting")) else []
        lines.append("  " + ", ".join(about))
    lines += ["", *queue_lines(figures.get("queues") or [], QUEUE_FIGURES if wide else SHORT, width)]
    if storage := figures.get("storage"):
        # Two dozen facts about one thing read better down the page than across it.
        facts = [_storage_figure(key, value) for key, value in storage.items()]
        lines += ["storage", *facts_table(facts), ""]
    connections = figures.get("connections") or []
    columns = CONNECTIONS_WIDE if wide else CONNECTIONS_SHORT
    return [*lines, written.counted(len(connections), "connection"), *table(connections, columns, width), ""]


def _storage_figure(key: str, value: object) -> tuple[str, str]:
    """What a figure is called, and its value; the unit is in that, and not in the name as well."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        for suffix, write in BY_SUFFIX.items():
            if key.endswith(suffix):
                return key.removesuffix(suffix).replace("_", " "), write(value)
    return key.replace("_", " "), cell(value)
