"""The edge that closes a cycle in a graph: it has room for the first elements, lets the loop have its turns, and ends with the run."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import null_element
from streams.materialize import Materialization
from streams.stages.stage import ControlledStage, one_at_a_time

T = TypeVar("T")

FEEDBACK_BUDGET: Final = 1024
"""Elements that may go round a cycle in one turn of the loop: an endless cycle leaves turns for everybody else."""

FEEDBACK_PREFETCH: Final = 16
"""Elements of a cycle that are asked for before anybody asks: as many as a fan-in asks of each input."""


class Feedback(ControlledStage[T, T], Generic[T]):
    """Holds a few elements, and is cut when the run is over or cancelled.

    It asks for `FEEDBACK_PREFETCH` elements before anybody asks it: round a cycle everybody would wait for everybody's demand for ever.
    """

    __slots__ = ("_budget", "_busy", "_freed", "_m", "_turn", "_upstream_ended", "_waiting")

    def __init__(self, downstream: Subscriber[T], m: Materialization) -> None:
        super().__init__(downstream, "feedback")
        self._m = m
        self._waiting: deque[T] = deque()
        self._freed = FEEDBACK_PREFETCH
        self._budget = FEEDBACK_BUDGET
        self._turn: asyncio.Handle | None = None
        self._busy = False
        self._upstream_ended = False

    def on_next(self, element: T) -> None:
        """Queues ``element``, and hands on what there is demand for."""
        if element is None:
            raise null_element(self._name)
        if not self._done:
            self._waiting.append(element)
            self._drain()

    def on_complete(self) -> None:
        """The end goes on when nothing waits."""
        self._upstream_ended = True
        self._drain()

    def _subscribed(self) -> None:
        # The cycle downstream ends of itself once nothing comes round, and has nobody left to tell of a failure: so it is just cut.
        self._m.on_end(self.cancel)
        self._m.on_cancel(self.cancel)
        super()._subscribed()
        if not self._done:
            self._refill()

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - all of the demand counts
        self._drain()

    @one_at_a_time
    def _drain(self) -> None:
        waiting = self._waiting
        while waiting and self._demand:
            self._demand -= 1
            self._freed += 1
            self._push(waiting.popleft())
            if self._freed >= FEEDBACK_PREFETCH // 2:
                self._refill()
        if self._upstream_ended and not waiting:
            super().on_complete()

    def _refill(self) -> None:
        """Asks for as many as have gone on, as far as this turn's budget goes."""
        n = min(self._freed, self._budget)
        if n and not self._upstream_ended and not self._done:
            self._freed -= n
            self._budget -= n
            self._upstream.request(n)
        if not self._budget and self._turn is None and not self._done:
            self._turn = self._m.loop.call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._turn = None
        self._budget = FEEDBACK_BUDGET
        self._m.call(self._refill)

    def _finish(self) -> None:
        super()._finish()
        self._waiting.clear()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
