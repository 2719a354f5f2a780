"""A source of which nothing comes, not even the end."""

from __future__ import annotations

from typing import Any

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import invalid_demand
from streams.errors import null_element
from streams.publishers.nobody import NOBODY


class NeverPublisher(Publisher[Any]):
    """Publishes nothing until it is cancelled."""

    __slots__ = ()

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        """Signals on_subscribe, and no more."""
        if subscriber is None:
            raise null_element("subscribe")
        subscriber.on_subscribe(_Silence(subscriber))


class _Silence(Subscription):
    """One subscription; it knows its subscriber only to refuse a request that is no demand."""

    __slots__ = ("_subscriber",)

    def __init__(self, subscriber: Subscriber[Any]) -> None:
        self._subscriber = subscriber

    def request(self, n: int) -> None:
        """Asks for what will not come."""
        if n < 1:
            subscriber = self._subscriber
            self.cancel()
            subscriber.on_error(invalid_demand(n))

    def cancel(self) -> None:
        """Lets go of the subscriber."""
        self._subscriber = NOBODY
