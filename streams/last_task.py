"""A task for the end of a run, which a loop that shuts down does not cut short."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

M = TypeVar("M")


class LastTask(asyncio.Task[M]):
    """Says the last word of a run, while nothing may cancel it.

    ``asyncio.run`` cancels all tasks as soon as its main function is left. A run that the program has cancelled may not be at its end by
    then: ``asyncio.gather`` does not wait for all that it has cancelled. A receiver that was cut short then would lose its connection with
    its last word unsaid. So the loop waits for such a task, which has a deadline of its own.

    Who shuts a loop down cancels its tasks while it does not run. What comes while it runs is meant for this task alone:
    ``asyncio.timeout`` cancels the task that it is in.
    """

    _protected = True
    _asked = False

    def protect(self) -> None:
        """From here on it is at its last work."""
        self._protected = True

    def release(self) -> None:
        """Its time is over: what was asked of it meanwhile holds."""
        self._protected = False
        if self._asked:
            super().cancel()

    def cancel(self, msg: Any = None) -> bool:
        """Cancels it, but not where it is protected and its loop shuts down: that waits until `release`."""
        if self._protected and not _is_running():
            self._asked = True
            return not self.done()
        return super().cancel(msg)


def _is_running() -> bool:
    """Whether a loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
