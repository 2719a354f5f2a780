"""What was kept of very many queues is freed a part at a time: all at once it would take a turn of the loop that others wait for.

What is replaced is freed behind the work, too, and not within it. Python looks for cycles among what is new when so many more objects were
made than freed. If each new object frees an old one, that moment never comes, and then one look finds ten times as many of them.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

PART: Final = 100
"""Entries that are freed in a turn, a tenth of a millisecond's work or two."""


def let_go(kept: dict[Any, Any] | list[Any]) -> None:
    """Empty what nobody looks at any more."""
    if isinstance(kept, list):
        del kept[-PART:]
    else:
        for _ in range(min(PART, len(kept))):
            kept.popitem()
    if kept:
        try:
            asyncio.get_running_loop().call_soon(let_go, kept)
        except RuntimeError:
            # The loop is over, and nobody waits.
            kept.clear()
