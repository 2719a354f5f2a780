"""How far a verb is: a bar on stderr where somebody looks, on a terminal only. It is removed at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from transport.cli import _written as written

Show: TypeAlias = Callable[[int, int | None, str], None]
"""Bytes done, bytes in all where that is known, and a text that stands before them."""


def somebody_looks() -> bool:
    """Whether stderr is a terminal that can draw a line anew."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def bar(total: int | None, text: str = "") -> Iterator[Show]:
    """What draws the bar anew; nothing where nobody looks.

    Args:
        total: bytes in all; None where that is not known: then there is no bar, but the figures.
        text: what stands before them at first.
    """
    if not somebody_looks():
        yield lambda _done, _total, _text: None
        return
    from rich import progress as bars  # noqa: PLC0415 - rich is only loaded where it is shown
    from rich.console import Console  # noqa: PLC0415

    class Size(bars.ProgressColumn):
        """Bytes done, and in all."""

        def render(self, task: bars.Task) -> str:
            of = "" if task.total is None else f" of {written.size(task.total)}"
            return f"{written.size(task.completed)}{of}"

    class Speed(bars.ProgressColumn):
        """Bytes a second."""

        def render(self, task: bars.Task) -> str:
            speed = task.finished_speed or task.speed
            return "" if speed is None else f"{written.size(speed)}/s"

    class Bar(bars.BarColumn):
        """None where the end is not known."""

        def render(self, task: bars.Task) -> Any:
            return "" if task.total is None else super().render(task)

    left = bars.TimeElapsedColumn() if total is None else bars.TimeRemainingColumn()
    columns = (bars.TextColumn("{task.description}"), Bar(), Size(), Speed(), left)
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(text, total=total)
        # Redrawn by rich's own timer.
        yield lambda done, of, say: progress.update(task, completed=done, total=of, description=say)
