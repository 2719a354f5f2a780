"""throttle: no more than so many elements in so many seconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Final, Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import FAILURES, RateExceededError, null_element
from streams.materialize import Materialization
from streams.stages.stage import NONE
from streams.stages.timed import TIMER_SLACK, TimedDrainingStage
from streams.stages.weighted import not_negative_weight

T = TypeVar("T")

AUTOMATIC_BURST_SECONDS: Final = 0.1
"""A throttle that is not told its burst lets through at once what it lets through in this time: a timer for each element of a fast stream
would cost more than the stream."""


class ThrottleMode(Enum):
    """What a throttle does with an element that comes too soon."""

    SHAPING = "shaping"
    """It waits for its time; upstream is held back meanwhile."""
    ENFORCING = "enforcing"
    """The stream fails with `RateExceededError`."""


class TokenBucket:
    """Allows so much in so much time: a bucket of ``burst`` tokens, full at first, into which ``elements`` drop every ``per`` seconds.

    It is kept as one number, the time at which the bucket will be full again: taking tokens moves that on, and nothing has to be done as
    time passes. So the rate does not drift, however late timers ring.
    """

    __slots__ = ("_full_at", "_seconds_of_burst", "_seconds_of_token")

    def __init__(self, elements: int, per: float, burst: int) -> None:
        self._seconds_of_token = per / elements
        self._seconds_of_burst = burst * self._seconds_of_token
        self._full_at = 0.0

    def take(self, tokens: float, now: float) -> float:
        """Takes ``tokens``, now or as soon as there will be so many; returns the time from which on they are there."""
        full_at = max(self._full_at, now) + tokens * self._seconds_of_token
        self._full_at = full_at
        return full_at - self._seconds_of_burst


def _finite_cost(cost: float) -> float:
    """``cost``; an element whose time never comes would stop the stream without a word."""
    if cost == math.inf:
        raise ValueError("the function has returned inf: with that cost the element would never pass")
    return not_negative_weight(cost)


class Throttle(TimedDrainingStage[T, T], Generic[T]):
    """Lets elements through as a `TokenBucket` allows, one held at most, each asked for when the one before is out.

    Args:
        downstream: where they go.
        m: the run.
        elements: their number, or cost, in ``per`` seconds.
        per: seconds.
        burst: number, or cost, let through at once after a pause; None for what `AUTOMATIC_BURST_SECONDS` makes it.
        cost: gives an element's cost; None for 1 each.
        mode: what happens to one that comes too soon.
    """

    __slots__ = ("_asked", "_bucket", "_burst", "_cost", "_elements", "_held", "_mode", "_per")

    def __init__(
        self,
        downstream: Subscriber[T],
        m: Materialization,
        elements: int,
        per: float,
        burst: int | None,
        cost: Callable[[T], float] | None,
        mode: ThrottleMode,
    ) -> None:
        super().__init__(downstream, m, "throttle")
        self._elements = elements
        self._per = per
        self._burst = max(1, int(elements * AUTOMATIC_BURST_SECONDS / per)) if burst is None else burst
        self._bucket = TokenBucket(elements, per, self._burst)
        self._cost = cost
        self._mode = mode
        self._held: T = NONE
        self._asked = False

    def on_next(self, element: T) -> None:
        """Passes ``element`` on, now or when its time has come."""
        if element is None:
            raise null_element(self._name)
        self._asked = False
        if self._done:
            return
        cost = self._cost
        try:
            tokens = 1 if cost is None else _finite_cost(cost(element))
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, cost, element)
            return
        now = self._loop.time()
        due = self._bucket.take(tokens, now)
        if due <= now + TIMER_SLACK:
            self._emit(element)
        elif self._mode is ThrottleMode.SHAPING:
            self._held = element
            self._arm(due)
        else:
            self._fail(RateExceededError(self._elements, self._per, self._burst))

    def on_complete(self) -> None:
        """Ends once the element that is held is out."""
        super().on_complete()
        if self._held is NONE:
            self._drained()

    def _time_is_up(self) -> None:
        element, self._held = self._held, NONE
        self._emit(element)
        if self._completed and self._held is NONE:
            self._drained()

    def _emit(self, element: T) -> None:
        self._demand -= 1
        busy, self._busy = self._busy, True
        self._push(element)
        self._busy = busy
        self._drain()

    def _drain(self) -> None:
        """Asks for the next element if it is wanted; a call from within only leaves its mark, so the stack stays flat."""
        if self._busy:
            return
        self._busy = True
        while self._demand and not (self._asked or self._done or self._completed or self._held is not NONE):
            self._asked = True
            self._upstream.request(1)
        self._busy = False

    def _dropped(self) -> None:
        self._drain()

    def _finish(self) -> None:
        super()._finish()
        self._held = NONE
