"""What ``progress.sources[0].latestOffset`` says of the queue: Spark shows a Python source's figures nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_bridge.ledgers import Ledgers

METRICS = {
    "backlog": "backlog",
    "backlogBytes": "backlog_bytes",
    "oldestMs": "oldest_ms",
    "senderDemand": "sender_demand",
    "inFlight": "in_flight",
    "highWater": "high_water",
    "liveSubscriptions": "live_subscriptions",
}
"""Name in the query's progress -> name in the broker's answer."""
MADE = "queueMade"
"""Says that the queue did not exist and was made for the query, where it was."""
GREATEST = frozenset({"oldestMs", "liveSubscriptions"})
"""Of several brokers the greatest counts; the others are sums."""


def reported(ledgers: Ledgers) -> dict[str, Any]:
    """The figures as of the last reservation.

    Over several brokers: of those that are up all together, each one's under ``brokers``, and under ``down`` the others' addresses.
    """
    made = {MADE: True} if any(ledger.created for ledger in ledgers) else {}
    figures = {ledger.broker: _named(ledger.facts) for ledger in ledgers}
    if len(figures) == 1:
        return next(iter(figures.values())) | made
    up = {broker: figure for broker, figure in figures.items() if broker not in ledgers.down}
    together: dict[str, Any] = {}
    for name in METRICS:
        values = [figure[name] for figure in up.values() if name in figure]
        if values:
            together[name] = max(values) if name in GREATEST else sum(values)
    return together | made | {"brokers": up, "down": sorted(ledgers.down)}


def _named(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: facts[fact] for name, fact in METRICS.items() if fact in facts}
