"""The bound of what reactivex's operators may give at once; apart from the rest, which imports reactivex."""

from __future__ import annotations

from typing import Final

MAX_EXPANSION: Final = 65_536
"""Elements that `Flow.rx` lets its operators make of one: they are made all at once and wait for demand in memory."""
