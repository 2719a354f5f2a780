"""A publisher that is the subscription of its one subscriber: what is made for one run, or for one connection."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import StreamClosedError, null_element
from streams.stages.stage import reject

T = TypeVar("T")


class OneSubscriber(Publisher[T], Subscription, Generic[T]):
    """Demand and the end of one subscriber; a subclass says what comes.

    Attributes:
        what: it is, for a second subscriber, which gets `StreamClosedError`.
    """

    what: ClassVar[str]

    def __init__(self) -> None:
        self._downstream: Subscriber[T] | None = None
        self._subscribed = False
        self._wanted = 0

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Serve the one subscriber; another gets `StreamClosedError`."""
        if subscriber is None:
            raise null_element("subscribe")
        if self._subscribed:
            reject(subscriber, StreamClosedError(f"{self.what} has one subscriber"))
            return
        self._subscribed = True
        self._downstream = subscriber
        self._begin(subscriber)

    def request(self, n: int) -> None:
        """N more elements may come; n < 1 fails the stream (3.9)."""
        if self._downstream is None:
            return
        if n < 1:
            self._misused(invalid_demand(n))
            return
        self._wanted = add_demand(self._wanted, n)
        self._go_on()

    def cancel(self) -> None:
        """Downstream takes no more."""
        if self._downstream is not None:
            self._downstream = None
            self._cancelled()

    def _begin(self, subscriber: Subscriber[T]) -> None:
        """Tell the subscriber that it is one, with what belongs before and behind that."""
        subscriber.on_subscribe(self)

    @abstractmethod
    def _go_on(self) -> None:
        """There is more demand."""

    @abstractmethod
    def _cancelled(self) -> None:
        """Downstream has cancelled."""

    @abstractmethod
    def _misused(self, error: Exception) -> None:
        """Downstream has broken the rule that ``error`` names: tell it, and stop."""
