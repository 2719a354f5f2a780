"""Subscriptions that are kept longer than their subscriber (rule 3.13), and who takes its place then: nobody."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final, Generic, TypeVar

from streams.contract import Subscriber, Subscription
from streams.demand import add_demand, invalid_demand

T = TypeVar("T")


class _Nobody(Subscriber[Any]):
    """Hears nothing."""

    __slots__ = ()

    def on_subscribe(self, subscription: Subscription) -> None:
        """Nothing."""

    def on_next(self, element: Any) -> None:
        """Nothing."""

    def on_error(self, error: BaseException) -> None:
        """Nothing."""

    def on_complete(self) -> None:
        """Nothing."""


NOBODY: Final[Subscriber[Any]] = _Nobody()


class DemandSubscription(Subscription, Generic[T]):
    """One subscription: the demand of its subscriber, who is let go of when it cancels (3.13). Subclasses say what demand sets going."""

    __slots__ = ("__weakref__", "_demand", "_done", "_subscriber")

    def __init__(self, subscriber: Subscriber[T]) -> None:
        self._demand = 0
        self._done = False
        self._subscriber = subscriber

    def request(self, n: int) -> None:
        """Adds to the demand."""
        if self._done:
            return
        if n < 1:
            subscriber = self._subscriber
            self.cancel()
            subscriber.on_error(invalid_demand(n))
            return
        self._demand = add_demand(self._demand, n)
        self._demanded()

    def cancel(self) -> None:
        """Nobody is served any more."""
        if not self._done:
            self._done = True
            self._subscriber = NOBODY
            self._stop()

    def drained(self) -> None:
        """Nothing more comes."""
        if not self._done:
            subscriber = self._subscriber
            self.cancel()
            subscriber.on_complete()

    @abstractmethod
    def _demanded(self) -> None:
        """There is more demand."""

    @abstractmethod
    def _stop(self) -> None:
        """The subscriber takes no more."""
