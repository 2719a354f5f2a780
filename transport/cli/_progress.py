"""The progress bar of ``penstock send``: what the broker has confirmed of the input."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from transport.cli._input import Window


class SendProgress:
    """A bar on stderr, redrawn by rich's own timer and removed at the end.

    Args:
        total_bytes: the size of the input, None where it has none.
    """

    def __init__(self, total_bytes: int | None) -> None:
        self._progress = Progress(
            TextColumn("{task.fields[messages]:,} messages"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeElapsedColumn() if total_bytes is None else TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("send", total=total_bytes, messages=0)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, window: Window) -> None:
        """Bring the figures up to date."""
        self._progress.update(self._task, completed=window.confirmed_bytes, messages=window.confirmed_messages)
