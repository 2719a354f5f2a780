"""What a simulated loop runs, as asyncio's handles are: made and run tens of thousands of times in a run, so with nothing beside.

Each knows from the beginning whose it is. asyncio's own look up the loop's debug mode each time, and keep tracebacks and texts for it.
"""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import format_helpers  # type: ignore[attr-defined]  # as asyncio's own handles
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.loop import Process, SimulatedLoop

PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("PROCESS", default=None)
"""Whose code is running; None for the simulation itself."""

_copy_context = contextvars.copy_context


class _OfProcess:
    """What the two kinds share: whose it is, and what it runs. One of a process that is dead is cancelled from the beginning."""

    __slots__ = ()

    def _begin(
        self: Step | Timer,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: SimulatedLoop,
        context: contextvars.Context | None,
    ) -> None:
        if context is None:
            context = _copy_context()
        self._context = context
        self._loop = loop
        self._callback: Callable[..., object] | None = callback
        self._args: tuple[Any, ...] | None = args
        self._cancelled = False
        self._repr = self._source_traceback = None
        self.process = process = context.get(PROCESS)
        if process is not None and not process.alive:
            self.cancel()

    def cancel(self: Step | Timer) -> None:
        """As asyncio's; a timer is dropped when its time comes."""
        self._cancelled = True
        self._callback = self._args = None


class Step(_OfProcess, asyncio.Handle):
    """A callback.

    Attributes:
        process: whose it is: in whose context it runs.
    """

    __slots__ = ("process",)

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: SimulatedLoop,
        context: contextvars.Context | None = None,
    ) -> None:
        self._begin(callback, args, loop, context)


class Timer(_OfProcess, asyncio.TimerHandle):
    """A callback whose time comes.

    Attributes:
        process: as of `Step`.
    """

    __slots__ = ("process",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: SimulatedLoop,
        context: contextvars.Context | None = None,
    ) -> None:
        self._when = when
        self._scheduled = False
        self._begin(callback, args, loop, context)


class Outside(Timer):
    """Something under way from outside of every program: it may come sooner than planned, not past earlier ones of its lane.

    Attributes:
        lane: what keeps its order; None for what comes alone.
    """

    __slots__ = ("lane",)

    def __init__(
        self,
        lane: Hashable,
        when: float,
        callback: Callable[[], object],
        loop: SimulatedLoop,
        context: contextvars.Context | None,
    ) -> None:
        super().__init__(when, callback, (), loop, context)
        self.lane = lane


def failed(handle: Step | Timer, error: BaseException) -> None:
    """Its callback has raised: the loop is told, as by asyncio's."""
    what = format_helpers._format_callback_source(handle._callback, handle._args)
    said = {"message": f"Exception in callback {what}", "exception": error, "handle": handle}
    handle._loop.call_exception_handler(said)
