"""How bindings are listed: all of them, those from one exchange, and those that lead to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from transport.cli import _written as written
from transport.cli._exchange_options import written_table
from transport.cli._tables import Column, table

if TYPE_CHECKING:
    from transport.clients.administration import Facts

TO_ONE: tuple[Column, ...] = (("source", "exchange"), ("key", "key"), ("arguments", "arguments"))
"""Of what leads to one exchange."""
FROM_ONE: tuple[Column, ...] = (
    ("kind", "to"),
    ("destination", "name"),
    ("key", "key"),
    ("arguments", "arguments"),
)
"""Of what leads from one."""
SHORT: tuple[Column, ...] = (TO_ONE[0], *FROM_ONE)
WIDE: tuple[Column, ...] = (*SHORT, ("durable", "durable"))


def binding_lines(
    found: Sequence[Facts], columns: Sequence[Column], width: int | None, one: str = "binding", many: str = ""
) -> list[str]:
    """The title and the table of these bindings."""
    rows = [
        facts
        | {
            "kind": "exchange" if facts.get("to_exchange") else "queue",
            "key": facts.get("key") or None,
            "arguments": written_table(facts.get("arguments")),
        }
        for facts in found
    ]
    return [written.counted(len(rows), one, many), *(table(rows, columns, width) if rows else ()), ""]
