"""concat: one publisher after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import null_element
from streams.materialize import Materialization
from streams.shapes import SourceLike
from streams.stages.stage import UNSUBSCRIBED

T = TypeVar("T")


class Concat(Subscription, Generic[T]):
    """One publisher after the other, each created when its turn comes; demand not met by one goes to the next."""

    __slots__ = ("_advancing", "_demand", "_done", "_downstream", "_m", "_over", "_rest", "_upstream")

    def __init__(self, downstream: Subscriber[T], m: Materialization, rest: Iterator[SourceLike[T]]) -> None:
        self._downstream = downstream
        self._m = m
        self._rest = rest
        self._demand = 0
        self._upstream: Subscription = UNSUBSCRIBED
        self._done = False
        self._advancing = False
        self._over = False

    def open(self, first: Publisher[T]) -> None:
        """Begins with ``first``."""
        self._downstream.on_subscribe(self)
        if not self._done:
            first.subscribe(_ConcatInlet(self))

    def request(self, n: int) -> None:
        """Asks the publisher whose turn it is."""
        if self._done:
            return
        if n < 1:
            self.fail(invalid_demand(n))
            return
        self._demand = add_demand(self._demand, n)
        self._upstream.request(n)

    def cancel(self) -> None:
        """Ends here; what has not had its turn is never created."""
        if not self._done:
            self._done = True
            self._upstream.cancel()

    def fail(self, error: BaseException) -> None:
        """Ends with ``error``."""
        if not self._done:
            self.cancel()
            self._downstream.on_error(error)

    def subscribed(self, subscription: Subscription) -> None:
        """The next publisher is there: it gets the demand that is left."""
        if self._done:
            subscription.cancel()
            return
        self._upstream = subscription
        if self._demand:
            subscription.request(self._demand)

    def passed(self, element: T) -> None:
        """One element."""
        if not self._done:
            self._demand -= 1
            self._downstream.on_next(element)

    def ended(self) -> None:
        """On to the next; those that end at once are gone through in a loop, so the stack stays flat."""
        self._over = True
        self._upstream = UNSUBSCRIBED
        if self._advancing:
            return
        self._advancing = True
        while self._over and not self._done:
            self._over = False
            source = next(self._rest, None)
            if source is None:
                self._done = True
                self._downstream.on_complete()
                break
            try:
                publisher, _ = source.create(self._m)
            except Exception as error:  # noqa: BLE001 - a source that cannot be created is a failure of the stream
                self.fail(error)
                break
            publisher.subscribe(_ConcatInlet(self))
        self._advancing = False


class _ConcatInlet(Subscriber[T], Generic[T]):
    """The subscription to the publisher whose turn it is."""

    __slots__ = ("_concat", "_subscribed")

    def __init__(self, concat: Concat[T]) -> None:
        self._concat = concat
        self._subscribed = False

    def on_subscribe(self, subscription: Subscription) -> None:
        """Takes its turn."""
        if self._subscribed:
            subscription.cancel()
            return
        self._subscribed = True
        self._concat.subscribed(subscription)

    def on_next(self, element: T) -> None:
        """Passes on one."""
        if element is None:
            raise null_element("concat")
        self._concat.passed(element)

    def on_error(self, error: BaseException) -> None:
        """Fails the whole."""
        self._concat.fail(error)

    def on_complete(self) -> None:
        """Its turn is over."""
        self._concat.ended()


class _ConcatPublisher(Publisher[Any]):
    """A publisher, then those of other sources."""

    __slots__ = ("_first", "_m", "_others")

    def __init__(self, first: Publisher[Any], m: Materialization, others: Sequence[SourceLike[Any]]) -> None:
        self._first = first
        self._m = m
        self._others = others

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        """Begins with the first."""
        if subscriber is None:
            raise null_element("subscribe")
        Concat(subscriber, self._m, iter(self._others)).open(self._first)


class ConcatFlow:
    """A flow that other sources follow.

    Args:
        others: the sources that follow, in order.
    """

    __slots__ = ("_others",)

    name = "concat"

    def __init__(self, others: Sequence[SourceLike[Any]]) -> None:
        self._others = others

    def attach_flow(self, publisher: Publisher[Any], m: Materialization) -> Publisher[Any]:
        """The others are created when their turn comes."""
        return _ConcatPublisher(publisher, m, self._others)
