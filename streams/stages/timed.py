"""What stages with a clock are made of, and those that only let elements through from, or up to, a moment."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import null_element
from streams.materialize import Materialization
from streams.stages.stage import ControlledStage, DrainingStage, I, O, PassingStage, Stage

T = TypeVar("T")

TIMER_SLACK: Final = 1e-6
"""Seconds by which a loop's timer may ring early and still be on time: more than a clock's resolution, less than anyone's purpose."""


class _Timed(ControlledStage[I, O], Generic[I, O]):
    """A stage with one timer, which is cancelled at its end. Subclasses give `_time_is_up`.

    Args:
        downstream: where its output goes.
        m: the run; what a subscriber raises in a timer's call fails it.
        name: names it in failures.
    """

    if not TYPE_CHECKING:
        __slots__ = ()  # the classes below have them: of two bases only one may

    def __init__(self, downstream: Subscriber[O], m: Materialization, name: str) -> None:
        super().__init__(downstream, name)
        self._m = m
        self._loop = m.loop
        self._timer: asyncio.TimerHandle | None = None

    def _arm(self, when: float) -> None:
        """Sets the timer to the loop's time ``when``; none may be set."""
        self._timer = self._loop.call_at(when, self._m.call, self._ring)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._time_is_up()

    def _time_is_up(self) -> None:
        """The timer has rung; none is set now."""
        raise NotImplementedError

    def _finish(self) -> None:
        super()._finish()
        self._disarm()


class TimedStage(_Timed[I, O], Generic[I, O]):
    """A stage with a timer that passes on what comes."""

    __slots__ = ("_loop", "_m", "_timer")


class TimedDrainingStage(_Timed[I, O], DrainingStage[I, O], Generic[I, O]):
    """A stage with a timer that holds elements back. The timer has it look what can be done, as whatever else happens does."""

    __slots__ = ("_loop", "_m", "_timer")

    def _time_is_up(self) -> None:
        self._drain()


class TimedPassage(PassingStage[T], TimedStage[T, T], Generic[T]):
    """A stage with a timer that lets elements and demand through as they are."""

    __slots__ = ()

    def _demanded(self, n: int) -> None:
        self._upstream.request(n)


class TakeWithin(TimedPassage[T], Generic[T]):
    """What comes within ``seconds`` of the subscription; then the stream ends."""

    __slots__ = ("_seconds",)

    def __init__(self, downstream: Subscriber[T], m: Materialization, seconds: float) -> None:
        super().__init__(downstream, m, "take_within")
        self._seconds = seconds

    def _subscribed(self) -> None:
        self._arm(self._loop.time() + self._seconds)
        super()._subscribed()

    def _time_is_up(self) -> None:
        self._complete_early()


class DropWithin(Stage[T, T], Generic[T]):
    """What comes once ``seconds`` have passed since the subscription; needs no timer, as only an element can find that out."""

    __slots__ = ("_loop", "_open", "_opens_at", "_seconds")

    def __init__(self, downstream: Subscriber[T], m: Materialization, seconds: float) -> None:
        super().__init__(downstream, "drop_within")
        self._loop = m.loop
        self._seconds = seconds
        self._open = False
        self._opens_at = 0.0

    def on_next(self, element: T) -> None:
        """Drops ``element`` or passes it on."""
        if element is None:
            raise null_element(self._name)
        if not self._open:
            if self._loop.time() < self._opens_at - TIMER_SLACK:
                self._upstream.request(1)
                return
            self._open = True
        self._push(element)

    def _subscribed(self) -> None:
        self._opens_at = self._loop.time() + self._seconds
        super()._subscribed()


class InitialDelay(TimedPassage[T], Generic[T]):
    """Keeps downstream's demand back for ``seconds`` after the subscription: the first element is not even asked for before."""

    __slots__ = ("_open", "_seconds")

    def __init__(self, downstream: Subscriber[T], m: Materialization, seconds: float) -> None:
        super().__init__(downstream, m, "initial_delay")
        self._seconds = seconds
        self._open = False

    def _subscribed(self) -> None:
        self._arm(self._loop.time() + self._seconds)
        super()._subscribed()

    def _demanded(self, n: int) -> None:
        if self._open:
            self._upstream.request(n)

    def _time_is_up(self) -> None:
        self._open = True
        if self._demand:
            self._upstream.request(self._demand)
