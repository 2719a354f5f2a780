"""Time-outs: a stream that is too slow, in one of four ways, fails.

Where the clock is set back by every element, the element only notes the time. When the timer rings, it is set for the rest. So there is one
timer in flight, however many elements pass.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import StreamTimeoutError, null_element
from streams.materialize import Materialization
from streams.stages.timed import TIMER_SLACK, TimedPassage

T = TypeVar("T")


class _Timeout(TimedPassage[T], Generic[T]):
    """What the four share: the clock starts at the subscription."""

    __slots__ = ("_seconds",)

    def __init__(self, downstream: Subscriber[T], m: Materialization, seconds: float, name: str) -> None:
        super().__init__(downstream, m, name)
        self._seconds = seconds

    def _subscribed(self) -> None:
        self._arm(self._loop.time() + self._seconds)
        super()._subscribed()

    def _too_late(self, what: str) -> None:
        self._fail(StreamTimeoutError(self._name, self._seconds, what))


class CompletionTimeout(_Timeout[T], Generic[T]):
    """Fails a stream that has not ended ``seconds`` after the subscription."""

    __slots__ = ()

    def __init__(self, downstream: Subscriber[T], m: Materialization, seconds: float) -> None:
        super().__init__(downstream, m, seconds, "completion_timeout")

    def _time_is_up(self) -> None:
        self._too_late("the stream has not completed")


class InitialTimeout(_Timeout[T], Generic[T]):
    """Fails a stream whose first element has not come ``seconds`` after the subscription."""

    __slots__ = ()

    def __init__(self, downstream: Subscriber[T], m: Materialization, seconds: float) -> None:
        super().__init__(downstream, m, seconds, "initial_timeout")

    def on_next(self, element: T) -> None:
        """Passes on ``element``; the first one stops the clock."""
        if element is None:
            raise null_element(self._name)
        if self._timer is not None:
            self._disarm()
        self._push(element)

    def _time_is_up(self) -> None:
        self._too_late("the first element has not come")


class IdleTimeout(_Timeout[T], Generic[T]):
    """Fails a stream in which no element has come for ``seconds``, asked for or not."""

    __slots__ = ("_last", "_now")

    def __init__(self, downstream: Subscriber[T], m: Materialization, seconds: float) -> None:
        super().__init__(downstream, m, seconds, "idle_timeout")
        self._now = m.loop.time
        self._last = 0.0

    def on_next(self, element: T) -> None:
        """Passes on ``element`` and notes when."""
        if element is None:
            raise null_element(self._name)
        self._last = self._now()
        self._push(element)

    def _subscribed(self) -> None:
        self._last = self._now()
        super()._subscribed()

    def _time_is_up(self) -> None:
        deadline = self._last + self._seconds
        if self._now() < deadline - TIMER_SLACK:
            self._arm(deadline)
        else:
            self._too_late("no element has come")


class BackpressureTimeout(_Timeout[T], Generic[T]):
    """Fails a stream whose downstream has asked for nothing for ``seconds``, when all that it had asked for had been given."""

    __slots__ = ("_now", "_since")

    def __init__(self, downstream: Subscriber[T], m: Materialization, seconds: float) -> None:
        super().__init__(downstream, m, seconds, "backpressure_timeout")
        self._now = m.loop.time
        self._since = 0.0

    def on_next(self, element: T) -> None:
        """Passes on ``element``; the clock runs from the last one asked for."""
        if element is None:
            raise null_element(self._name)
        self._demand -= 1
        if not self._demand and not self._done:
            self._since = self._now()
            if self._timer is None:
                self._arm(self._since + self._seconds)
        self._push(element)

    def _subscribed(self) -> None:
        self._since = self._now()
        super()._subscribed()

    def _time_is_up(self) -> None:
        if self._demand:
            return  # the next element without further demand sets the clock again
        deadline = self._since + self._seconds
        if self._now() < deadline - TIMER_SLACK:
            self._arm(deadline)
        else:
            self._too_late("downstream has asked for nothing")
