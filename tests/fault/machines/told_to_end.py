"""A program of many rounds that is told to end does so behind the round that is under way, so that what there was is judged."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def told_to_end() -> Iterator[Callable[[], bool]]:
    """Says whether one of `SIGNALS` has come; what they did before they do again when the second comes, and at the end."""
    told = False
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(*_: object) -> None:
        nonlocal told
        told = True
        restore()

    before |= {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield lambda: told
    finally:
        restore()
