"""What becomes of the tasks of a process that is no more: they are left as they stand, and let go of when the run is over."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import Any

from streams import running
from tests.simulation.storage import Death


def close(task: asyncio.Task[Any]) -> None:
    """Have a task that was abandoned let go of what it has; what it says meanwhile, and raises, nobody hears."""
    coro = task.get_coro()
    # Its disk may be dead by then, and it may go on waiting where it is told to end.
    with contextlib.suppress(Exception, asyncio.CancelledError, Death):
        if inspect.iscoroutine(coro):
            coro.close()


def abandon(task: asyncio.Task[Any]) -> None:
    """Leave a task as it stands: it never runs again, and nobody reports that it is lost."""
    waits_for = task._fut_waiter  # type: ignore[attr-defined]  # there is no public way to it
    if waits_for is not None and waits_for.done() and not waits_for.cancelled():
        # The same of what no loop has made, as what `asyncio.gather` gives, and of who is dropped at the end.
        waits_for.exception()
    coro = task.get_coro()
    if inspect.iscoroutine(coro) and inspect.getcoroutinestate(coro) == inspect.CORO_CREATED:
        # Nothing of it has run, so nothing of it can say goodbye; nor of what it was to wait for.
        for given in coro.cr_frame.f_locals.values():
            if inspect.iscoroutine(given) and inspect.getcoroutinestate(given) == inspect.CORO_CREATED:
                given.close()
        coro.close()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    running._supervisors.discard(task)
