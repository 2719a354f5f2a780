"""A source that counts on a timer."""

from __future__ import annotations

import asyncio
import math
from typing import Final

from streams.contract import Publisher, Subscriber
from streams.errors import FAILURES, null_element
from streams.materialize import Materialization
from streams.publishers.nobody import DemandSubscription

TICK_GRACE: Final = 0.01
"""Seconds that demand may come later than the tick it is for: an element takes that long, now and then, on its way through some stages,
and one that asks for the next as soon as it can should not get every other."""


class TickPublisher(Publisher[int]):
    """0, 1, 2, ... at fixed intervals from the beginning on; a tick that nobody has asked for is dropped.

    Args:
        m: the run.
        interval: seconds between ticks.
        initial_delay: seconds before the first.
    """

    __slots__ = ("_initial_delay", "_interval", "_m")

    def __init__(self, m: Materialization, interval: float, initial_delay: float) -> None:
        self._m = m
        self._interval = interval
        self._initial_delay = initial_delay

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        """Starts the clock in the loop's next turn, when the whole graph is together."""
        if subscriber is None:
            raise null_element("subscribe")
        ticker = _Ticker(self._m, subscriber, self._interval)
        self._m.on_drain(ticker)
        subscriber.on_subscribe(ticker)
        self._m.loop.call_soon(ticker.start, self._initial_delay)


class _Ticker(DemandSubscription[int]):
    """One subscription: a timer is set only while there is demand for the tick it is set for."""

    __slots__ = ("_busy", "_count", "_interval", "_loop", "_m", "_next", "_timer")

    def __init__(self, m: Materialization, subscriber: Subscriber[int], interval: float) -> None:
        super().__init__(subscriber)
        self._m = m
        self._loop = m.loop
        self._interval = interval
        self._next = math.inf
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._busy = True
        """It has not started, or a tick is on its way: what is asked for meanwhile is seen to afterwards."""

    def _demanded(self) -> None:
        """The next tick to come is the first that can meet the demand."""
        if self._timer is None and not self._busy:
            self._arm(TICK_GRACE)

    def start(self, delay: float) -> None:
        """The first tick is due in ``delay`` seconds."""
        self._busy = False
        self._next = self._loop.time() + delay
        if not self._demand or self._done:
            return
        if delay:
            self._arm(TICK_GRACE)
        else:
            self._tick()

    def _stop(self) -> None:
        """Stops the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, grace: float) -> None:
        """Sets the timer for the next tick: of those that were due, for the last, if that is no longer ago than ``grace``.

        The others are dropped. The grid stays where it was, so the rate does not drift.
        """
        now = self._loop.time()
        if self._next < now:
            self._next += (now - self._next) // self._interval * self._interval
            if now - self._next > grace:
                self._next += self._interval
        self._timer = self._loop.call_at(self._next, self._tick)

    def _tick(self) -> None:
        number = self._count
        self._count += 1
        self._demand -= 1
        self._next += self._interval
        self._timer = None
        self._busy = True
        try:
            self._subscriber.on_next(number)
        except (
            BaseException
        ) as error:  # a subscriber has raised: to be treated as cancelled (2.13), and never unnoticed
            self.cancel()
            self._m.fail(error)
            if not isinstance(error, FAILURES):
                raise
            return
        self._busy = False
        if self._demand and not self._done:
            self._arm(
                math.inf
            )  # what became due while downstream was at work was asked for, or comes too late by no fault of its own
