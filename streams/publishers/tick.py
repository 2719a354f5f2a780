"""A source that counts on a timer."""

from __future__ import annotations

import asyncio
import math

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import null_element
from streams.materialize import Materialization
from streams.publishers.nobody import NOBODY


class TickPublisher(Publisher[int]):
    """0, 1, 2, ... at fixed intervals from the subscription on; a tick that nobody has asked for is dropped.

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
        """Starts the clock."""
        if subscriber is None:
            raise null_element("subscribe")
        first = self._m.loop.time() + self._initial_delay
        subscriber.on_subscribe(_Ticker(self._m, subscriber, self._interval, first))


class _Ticker(Subscription):
    """One subscription: a timer is set only while there is demand for the tick it is set for."""

    __slots__ = ("_count", "_demand", "_done", "_interval", "_loop", "_m", "_next", "_subscriber", "_timer")

    def __init__(self, m: Materialization, subscriber: Subscriber[int], interval: float, first: float) -> None:
        self._m = m
        self._loop = m.loop
        self._subscriber = subscriber
        self._interval = interval
        self._next = first
        self._demand = 0
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None
        self._done = False

    def request(self, n: int) -> None:
        """Adds to the demand; the next tick to come is the first that can meet it."""
        if self._done:
            return
        if n < 1:
            subscriber = self._subscriber
            self.cancel()
            subscriber.on_error(invalid_demand(n))
            return
        self._demand = add_demand(self._demand, n)
        if self._timer is None:
            self._skip_to(self._loop.time())
            self._timer = self._loop.call_at(self._next, self._tick)

    def cancel(self) -> None:
        """Stops the clock."""
        self._done = True
        self._subscriber = NOBODY
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _skip_to(self, now: float) -> None:
        """Drops the ticks before ``now``; the grid stays where it was, so the rate does not drift."""
        if self._next < now:
            self._next += math.ceil((now - self._next) / self._interval) * self._interval

    def _tick(self) -> None:
        number = self._count
        self._count += 1
        self._demand -= 1
        self._next += self._interval
        try:
            self._subscriber.on_next(number)
        except (
            BaseException
        ) as error:  # a subscriber has raised: to be treated as cancelled (2.13), and never unnoticed
            self.cancel()
            self._m.fail(error)
            if not isinstance(error, Exception):
                raise
            return
        self._timer = None
        if self._demand and not self._done:
            self._skip_to(self._loop.time())
            self._timer = self._loop.call_at(self._next, self._tick)
