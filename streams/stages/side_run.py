"""A sink attached beside a stream: what it owns, and how much longer than the stream it may last."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Generic, TypeVar

from streams.materialize import STOP_TIMEOUT, Materialization
from streams.shapes import SinkLike, create_sink, name_of
from streams.stages.substream import Substream

T = TypeVar("T")

LAST_WORK_TIMEOUT: Final = STOP_TIMEOUT / 2
"""Seconds that a side sink has left when the run ends before it; then it is cancelled. It must fit into what the run gives such work."""


class _SideRun(Materialization):
    """What a side sink owns: kept apart from the run, which cancels its tasks at its end, when a side sink may have work left.

    Attributes:
        over: the run around has ended.
    """

    __slots__ = ("_outer", "_outlet", "over")

    def __init__(self, outer: Materialization, outlet: Substream[Any], name: str) -> None:
        super().__init__(outer.loop)
        self._outer = outer
        self._outlet = outlet
        self.decider = outer.decider
        self.over = False
        outer.on_cancel(self.cancel)
        outer.on_end(self._finish, f"the end of {name} beside the stream")

    def fail(self, error: BaseException) -> None:
        """Fails the run around this one."""
        self._outer.fail(error)

    @property
    def cancelled(self) -> bool:
        """The run around was cancelled, or has failed."""
        return self._cancelled

    def hold(self, result: asyncio.Future[Any]) -> None:
        """Has the side sink's result cancelled with this run."""
        self._sink = result
        if self._cancelled:
            result.cancel()

    async def _finish(self) -> None:
        """Waits for a side sink that was told the end; cancels one that was not. Then ends what it owns."""
        self.over = True
        result = self._sink
        if result is None or self._outlet.open:
            self.cancel()
        if result is not None:
            await asyncio.wait((result,), timeout=LAST_WORK_TIMEOUT)
            if not result.done():
                self.cancel()
                self.report(
                    f"a sink beside a stream was cancelled: it had not ended {LAST_WORK_TIMEOUT:g} s after the run",
                    TimeoutError("side sink"),
                )
        await self._settle()


class SideSink(Generic[T]):
    """A sink beside the stream, attached for one run.

    Attributes:
        outlet: the publisher it has subscribed to.
        result: the future of its result.
        value: its materialized value.
    """

    __slots__ = ("_run", "outlet", "result", "value")

    def __init__(self, m: Materialization, sink: SinkLike[T, Any]) -> None:
        self.outlet: Substream[T] = Substream()
        self._run = _SideRun(m, self.outlet, name_of(sink))
        self.result, self.value = create_sink(sink, self.outlet, self._run)
        self._run.hold(self.result)

    @property
    def run_over(self) -> bool:
        """The run has ended."""
        return self._run.over

    @property
    def stopped(self) -> bool:
        """The run was cancelled, or has failed: downstream is being stopped by that as well."""
        return self._run.cancelled

    def failure(self) -> BaseException | None:
        """How the sink, which is done, has failed, if it has."""
        if self.result.cancelled():
            return asyncio.CancelledError("the sink beside the stream was cancelled")
        return self.result.exception()
