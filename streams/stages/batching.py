"""grouped and grouped_within: many elements become one list."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from streams.contract import Subscriber
from streams.demand import multiply_demand
from streams.errors import null_element
from streams.materialize import Materialization
from streams.stages.stage import ControlledStage

T = TypeVar("T")


class Grouped(ControlledStage[T, list[T]], Generic[T]):
    """Lists of ``size`` elements, the last one of what is left: a request for a list is a request for ``size`` elements."""

    __slots__ = ("_group", "_size")

    def __init__(self, downstream: Subscriber[list[T]], size: int) -> None:
        super().__init__(downstream, "grouped")
        self._size = size
        self._group: list[T] = []

    def on_next(self, element: T) -> None:
        """Adds to the group, and passes it on when it is full."""
        if element is None:
            raise null_element(self._name)
        group = self._group
        group.append(element)
        if len(group) >= self._size:
            self._group = []
            self._push(group)

    def on_complete(self) -> None:
        """Passes on what is left: it was asked for as part of a full list."""
        group = self._group
        if group and not self._done:
            self._group = []
            self._push(group)
        super().on_complete()

    def _demanded(self, n: int) -> None:
        self._upstream.request(multiply_demand(n, self._size))

    def _finish(self) -> None:
        super()._finish()
        self._group = []


class GroupedWithin(ControlledStage[T, list[T]], Generic[T]):
    """Lists of ``size`` elements, or of fewer once ``seconds`` have passed since the first of them came.

    From downstream's first request on, one group is collected ahead of demand: what was asked for and what waits are ``size`` together. The
    clock runs only while elements wait.
    """

    __slots__ = ("_busy", "_completed", "_due", "_group", "_loop", "_m", "_seconds", "_size", "_started", "_timer")

    def __init__(self, downstream: Subscriber[list[T]], m: Materialization, size: int, seconds: float) -> None:
        super().__init__(downstream, "grouped_within")
        self._m = m
        self._loop = m.loop
        self._size = size
        self._seconds = seconds
        self._group: list[T] = []
        self._timer: asyncio.TimerHandle | None = None
        self._due = False
        self._started = False
        self._completed = False
        self._busy = False

    def on_next(self, element: T) -> None:
        """Adds to the group; the first one starts the clock."""
        if element is None:
            raise null_element(self._name)
        if self._done:
            return
        group = self._group
        group.append(element)
        if len(group) >= self._size:
            self._due = True
            self._drain()
        elif len(group) == 1:
            self._timer = self._loop.call_at(self._loop.time() + self._seconds, self._time_is_up)

    def on_complete(self) -> None:
        """Ends once what waits is out."""
        self._completed = True
        self._due = bool(self._group)
        self._stop_timer()
        self._drain()

    def _time_is_up(self) -> None:
        self._timer = None
        self._due = True
        self._m.call(self._drain)

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - the whole demand counts
        if not self._started:
            self._started = True
            self._upstream.request(self._size)
        self._drain()

    def _drain(self) -> None:
        """Emits the group if it is due and wanted; a call from within only leaves its mark."""
        if self._busy:
            return
        self._busy = True
        while not self._done and self._due and self._demand:
            group, self._group = self._group, []
            self._due = False
            self._stop_timer()
            self._demand -= 1
            self._push(group)
            if not self._done and not self._completed:
                self._upstream.request(len(group))
        if self._completed and not self._due:
            super().on_complete()
        self._busy = False

    def _finish(self) -> None:
        super()._finish()
        self._group = []
        self._due = False
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
