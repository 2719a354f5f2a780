"""A cluster in a line: what the broker is in it, and who of its members is furthest behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def in_brief(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Of what a node says of its cluster the sums, as JSON has them.

    ``members`` and ``in_step`` count them. ``worst`` is the name of the one that is furthest behind, None where nobody is, and
    ``lag_records``, ``lag_bytes`` and ``lag_s`` say how far. What the node does not know is None: all of these of one that does not lead.
    """
    members = facts["members"]
    known = [each for each in members if each["in_step"] is not None]
    behind = [each for each in members if each["lag_records"] is not None]
    worst = max(behind, key=lambda each: each["lag_records"], default=None)
    return {
        "node": facts["node"],
        "role": facts["role"],
        "epoch": facts["epoch"],
        "members": len(members),
        "in_step": sum(each["in_step"] for each in known) if known else None,
        "worst": worst["name"] if worst is not None and worst["lag_records"] else None,
    } | {name: None if worst is None else worst[name] for name in ("lag_records", "lag_bytes", "lag_s")}
