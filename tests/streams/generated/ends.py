"""The two ends of a stream in the hands of a generated test: one that sends what was asked for, one that writes down every broken rule."""

from __future__ import annotations

import asyncio
from typing import Any

from streams import Materialization, Publisher, Subscriber, Subscription
from streams.demand import Demand


class HandPublisher(Publisher[int], Subscription):
    """Sends 0, 1, 2, ... when told to, if that was asked for.

    Attributes:
        violations: rules that the subscriber has broken.
    """

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._subscriber: Subscriber[int] | None = None
        self._demand = Demand()
        self._over = False
        self._next = 0

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        if self._subscriber is not None:
            self.violations.append("2.5: subscribed twice")
            return
        self._subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        if self._over:
            return
        if n < 1:
            self.end(ValueError(f"request({n}) (Reactive Streams 3.9)"))
            return
        self._demand.add(n)

    def cancel(self) -> None:
        self._over = True

    def send(self, n: int) -> None:
        """Up to ``n`` elements: those that were asked for."""
        for _ in range(n):
            if self._over or self._subscriber is None or not self._demand.take():
                return
            self._next += 1
            self._subscriber.on_next(self._next - 1)

    def end(self, error: BaseException | None) -> None:
        """Completes, or fails with ``error``; once."""
        if self._over or self._subscriber is None:
            return
        self._over = True
        if error is None:
            self._subscriber.on_complete()
        else:
            self._subscriber.on_error(error)


class RuleKeeper(Subscriber[Any]):
    """Requests and cancels when told to, and checks what comes.

    Attributes:
        violations: rules that the publisher has broken.
    """

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._subscription: Subscription | None = None
        self._demand = 0
        self._ended = False
        self._silenced = False
        self._future: asyncio.Future[None] | None = None

    def attach_sink(self, publisher: Publisher[Any], m: Materialization, /) -> asyncio.Future[None]:
        """Stands at the end of a graph, with nothing in between that would make up for what the publisher does wrong."""
        self._future = m.loop.create_future()
        m.on_cancel(self.cancel)
        publisher.subscribe(self)
        return self._future

    def on_subscribe(self, subscription: Subscription) -> None:
        if self._subscription is not None:
            self.violations.append("1.9: on_subscribe came twice")
        self._subscription = subscription

    def on_next(self, element: Any) -> None:
        self._signal(f"next {element!r}")
        self._demand -= 1
        if self._demand < 0:
            self.violations.append(f"1.1: {element!r} came without demand")
        if element is None:
            self.violations.append("2.13: None came")

    def on_error(self, error: BaseException) -> None:
        self._signal(f"error {error!r}")
        if not isinstance(error, BaseException):
            self.violations.append(f"2.13: on_error({error!r})")
        self._end()

    def on_complete(self) -> None:
        self._signal("complete")
        self._end()

    def _end(self) -> None:
        self._ended = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def _signal(self, what: str) -> None:
        if self._subscription is None:
            self.violations.append(f"1.9: {what} came before on_subscribe")
        if self._ended:
            self.violations.append(f"1.7: {what} came after the end")
        if self._silenced:
            self.violations.append(f"3.12: {what} came long after the cancellation")

    def request(self, n: int) -> None:
        """As the test says."""
        if self._subscription is not None:
            self._demand += max(n, 0)
            self._subscription.request(n)

    def cancel(self) -> None:
        """As the test says."""
        if self._subscription is not None:
            self._subscription.cancel()
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    def expect_silence(self) -> None:
        """From here on nothing may come."""
        self._silenced = True
