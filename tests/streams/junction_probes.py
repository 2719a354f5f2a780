"""An upstream and a downstream of a junction that keep what they are told."""

from __future__ import annotations

from typing import Any

from streams import Subscriber, Subscription


class Upstream(Subscription):
    """Records what is asked of it."""

    def __init__(self) -> None:
        self.requested = 0
        self.cancelled = 0

    def request(self, n: int) -> None:
        self.requested += n

    def cancel(self) -> None:
        self.cancelled += 1


class Downstream(Subscriber[Any]):
    """Records what it is told."""

    def __init__(self, demand: int = 0) -> None:
        self.demand = demand
        self.seen: list[Any] = []
        self.subscription: Subscription | None = None

    def on_subscribe(self, subscription: Subscription) -> None:
        self.subscription = subscription
        if self.demand:
            subscription.request(self.demand)

    def on_next(self, element: Any) -> None:
        self.seen.append(element)

    def on_error(self, error: BaseException) -> None:
        self.seen.append(error)

    def on_complete(self) -> None:
        self.seen.append("end")
