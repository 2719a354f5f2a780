"""A run as stages under supervision see it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from streams.materialize import Materialization, Part, WithinRun

if TYPE_CHECKING:
    from streams.supervision import Decider

M = TypeVar("M")


class SupervisedRun(WithinRun):
    """A run seen by stages under supervision: everything is the run's but the decider."""

    __slots__ = ()

    def __init__(self, run: Materialization, decider: Decider) -> None:
        super().__init__(run)
        self.decider = decider

    def spawner(
        self, name: str, on_done: Callable[[asyncio.Task[M]], None] | None = None
    ) -> Callable[[Coroutine[Any, Any, M]], asyncio.Task[M]]:
        """As the run's."""
        return self._run.spawner(name, on_done)

    def interrupt(self, task: asyncio.Task[Any]) -> None:
        """As the run's."""
        self._run.interrupt(task)

    def cleaning_up(self) -> None:
        """As the run's."""
        self._run.cleaning_up()

    async def left_by(self, sink: asyncio.Future[Any]) -> None:
        """As the run's."""
        await self._run.left_by(sink)

    @property
    def ended(self) -> bool:
        """As the run's."""
        return self._run.ended

    @property
    def cancelled(self) -> bool:
        """As the run's."""
        return self._run.cancelled

    def part(self, on_failure: Callable[[BaseException], None] | None = None) -> Part:
        """As the run's, under the same decider."""
        part = self._run.part(on_failure)
        part.decider = self.decider
        return part

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """As the run's."""
        self._run.on_cancel(callback)

    def on_awaited(self, callback: Callable[[asyncio.Task[Any] | None], None]) -> None:
        """As the run's."""
        self._run.on_awaited(callback)

    def on_end(self, finish: Callable[[], Awaitable[None] | None], name: str | None = None) -> None:
        """As the run's."""
        self._run.on_end(finish, name)

    def fail(self, error: BaseException) -> None:
        """As the run's."""
        self._run.fail(error)

    def cancel(self) -> None:
        """As the run's."""
        self._run.cancel()
