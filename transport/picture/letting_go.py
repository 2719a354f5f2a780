"""What was kept of very many queues is freed a part at a time: all at once it would take a turn of the loop that others wait for."""

from __future__ import annotations

import asyncio
from typing import Any, Final

PART: Final = 200
"""Entries that are freed in a turn, some tenths of a millisecond's work."""


def let_go(kept: dict[Any, Any]) -> None:
    """Empty a dictionary that nobody looks at any more."""
    for _ in range(min(PART, len(kept))):
        kept.popitem()
    if kept:
        try:
            asyncio.get_running_loop().call_soon(let_go, kept)
        except RuntimeError:
            # The loop is over, and nobody waits.
            kept.clear()
