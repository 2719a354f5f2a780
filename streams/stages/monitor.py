"""monitor: what has passed at a place of a stream, for whoever holds the monitor to look at."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import null_element
from streams.materialize import Materialization
from streams.stages.watching import Watcher

T = TypeVar("T")


class FlowPhase(Enum):
    """Where a monitored stream is."""

    INITIALIZED = "initialized"
    """No element has passed."""
    RECEIVING = "receiving"
    """At least one element has."""
    COMPLETED = "completed"
    """It has ended."""
    FAILED = "failed"
    """It has failed."""
    CANCELLED = "cancelled"
    """Downstream wanted no more."""


@dataclass(frozen=True, slots=True)
class FlowState:
    """What a `FlowMonitor` saw, at one moment.

    Attributes:
        phase: where the stream is.
        elements: how many have passed.
        last: the last one of them; None if none has passed.
        last_at: the loop's time in seconds when it did; None if none has passed.
        failure: why the stream failed; None if it has not.
    """

    phase: FlowPhase
    elements: int
    last: Any
    last_at: float | None
    failure: BaseException | None


class FlowMonitor(Generic[T]):
    """What ``monitor()`` materializes: looks at a running stream from outside. For the thread of the stream's loop."""

    __slots__ = ("_elements", "_failure", "_last", "_last_at", "_phase")

    def __init__(self) -> None:
        self._phase = FlowPhase.INITIALIZED
        self._elements = 0
        self._last: T | None = None
        self._last_at: float | None = None
        self._failure: BaseException | None = None

    @property
    def state(self) -> FlowState:
        """What has passed until now, as a snapshot that does not change."""
        phase = self._phase
        if phase is FlowPhase.INITIALIZED and self._elements:
            phase = FlowPhase.RECEIVING
        return FlowState(phase, self._elements, self._last, self._last_at, self._failure)

    def __repr__(self) -> str:
        state = self.state
        return f"<FlowMonitor {state.phase.value}, {state.elements} elements>"


class Monitor(Watcher[T], Generic[T]):
    """Keeps a `FlowMonitor` up to date."""

    __slots__ = ("_monitor", "_now")

    def __init__(self, downstream: Subscriber[T], m: Materialization, monitor: FlowMonitor[T]) -> None:
        super().__init__(downstream, "monitor")
        self._monitor = monitor
        self._now = m.loop.time

    def on_next(self, element: T) -> None:
        """Counts and passes on ``element``."""
        if element is None:
            raise null_element(self._name)
        if self._done:
            return
        monitor = self._monitor
        monitor._elements += 1
        monitor._last = element
        monitor._last_at = self._now()
        self._push(element)

    def _ended(self, error: BaseException | None) -> None:
        monitor = self._monitor
        if error is None:
            monitor._phase = FlowPhase.COMPLETED
        elif isinstance(error, asyncio.CancelledError):
            monitor._phase = FlowPhase.CANCELLED
        else:
            monitor._phase = FlowPhase.FAILED
            monitor._failure = error
