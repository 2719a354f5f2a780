"""keep_alive: an element of the stream's own wherever nothing has passed for too long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import FAILURES, null_element
from streams.materialize import Materialization
from streams.stages.stage import NONE
from streams.stages.timed import TIMER_SLACK, TimedDrainingStage

T = TypeVar("T")


class KeepAlive(TimedDrainingStage[T, T], Generic[T]):
    """Emits ``make()`` when nothing has passed for ``seconds`` and downstream wants something.

    What it makes uses up demand that was passed on already, so elements are asked for one at a time, and one can be held.
    """

    __slots__ = ("_asked", "_held", "_last", "_make", "_now", "_seconds")

    def __init__(self, downstream: Subscriber[T], m: Materialization, seconds: float, make: Callable[[], T]) -> None:
        super().__init__(downstream, m, "keep_alive")
        self._seconds = seconds
        self._make = make
        self._now = m.loop.time
        self._last = 0.0
        """When something passed last."""
        self._held: T = NONE
        self._asked = False

    def on_next(self, element: T) -> None:
        """Passes on ``element``, or holds it if what was made has taken its place."""
        if element is None:
            raise null_element(self._name)
        self._asked = False
        if self._done:
            return
        self._held = element
        self._drain()

    def _subscribed(self) -> None:
        self._last = self._now()
        super()._subscribed()

    def _drain(self) -> None:
        """Emits what is held, then asks for more; what upstream has at hand goes before what can be made."""
        if self._busy:
            return
        self._busy = True
        while not self._done:
            if self._held is not NONE:
                if not self._demand:
                    break
                element, self._held = self._held, NONE
                self._emit(element)
            elif self._completed:
                self._drained()
            elif not self._demand:
                break
            elif not self._asked:
                self._asked = True
                self._upstream.request(1)
            elif self._now() < self._last + self._seconds - TIMER_SLACK:
                if self._timer is None:
                    self._arm(self._last + self._seconds)
                break
            else:
                self._inject()
        self._busy = False

    def _inject(self) -> None:
        try:
            element = self._make()
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._injection_failed(error)
            return
        if element is None:
            self._injection_failed(null_element("the function has returned None"))
            return
        self._emit(element)

    def _injection_failed(self, error: BaseException) -> None:
        # Under supervision the stream goes on, and the function is tried again when as much time has passed.
        self._last = self._now()
        self._function_failed(error, self._make)

    def _emit(self, element: T) -> None:
        self._last = self._now()
        self._demand -= 1
        self._push(element)

    def _dropped(self) -> None:
        """No element of upstream was left out: there is nothing to ask for."""

    def _finish(self) -> None:
        super()._finish()
        self._held = NONE
