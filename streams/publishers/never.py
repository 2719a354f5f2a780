"""A source of which nothing comes, not even the end."""

from __future__ import annotations

from typing import Any

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import invalid_demand
from streams.errors import null_element
from streams.materialize import Materialization
from streams.publishers.nobody import NOBODY


class NeverPublisher(Publisher[Any]):
    """Publishes nothing until it is cancelled.

    Args:
        m: the run.
    """

    __slots__ = ("_m",)

    def __init__(self, m: Materialization) -> None:
        self._m = m

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        """Signals on_subscribe, and no more."""
        if subscriber is None:
            raise null_element("subscribe")
        silence = _Silence(subscriber)
        self._m.on_drain(silence)
        subscriber.on_subscribe(silence)


class _Silence(Subscription):
    """One subscription; it knows its subscriber only to refuse a request that is no demand, and for the end of a run in good order."""

    __slots__ = ("__weakref__", "_subscriber")

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

    def drained(self) -> None:
        """An end comes all the same."""
        subscriber = self._subscriber
        self.cancel()
        subscriber.on_complete()
