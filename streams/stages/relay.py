"""The two open ends of a run: where subscribers and publishers of other libraries, or of another part of a graph, are joined on.

A relay is subscriber and publisher at once and either may come first. It has no buffer: demand goes straight through it, and until both
sides are there nothing can move.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from streams.contract import Processor, Publisher, Subscriber, Subscription
from streams.demand import invalid_demand
from streams.errors import StreamClosedError, null_element, storable
from streams.materialize import Materialization
from streams.publishers.nobody import NOBODY
from streams.stages.stage import UNSUBSCRIBED, discard, reject

T = TypeVar("T")
I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)


class Relay(Processor[T, T], Subscription, Generic[T]):
    """Hands on what one publisher sends to one subscriber; both are joined at any time, in either order."""

    __slots__ = ("_done", "_downstream", "_error", "_push", "_upstream", "_upstream_ended")

    def __init__(self) -> None:
        self._upstream: Subscription = UNSUBSCRIBED
        self._downstream: Subscriber[T] | None = None
        self._push: Callable[[T], None] = discard
        self._upstream_ended = False
        self._error: BaseException | None = None
        self._done = False

    # The publisher's side

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Serves one subscriber; another gets `StreamClosedError` (1.9)."""
        if subscriber is None:
            raise null_element("subscribe")
        if self._downstream is not None or self._done:
            reject(subscriber, StreamClosedError("this end of a stream has, or had, its one subscriber"))
            return
        self._downstream = subscriber
        if self._upstream is not UNSUBSCRIBED or self._upstream_ended:
            self._join()

    def request(self, n: int) -> None:
        """Asks upstream."""
        if self._done:
            return
        if n < 1:
            self._upstream.cancel()
            self._end(invalid_demand(n))
            return
        self._upstream.request(n)

    def cancel(self) -> None:
        """Cancels upstream and forgets downstream (3.13)."""
        if not self._done:
            self._let_go()
            self._upstream.cancel()
            self._ended(None)

    # The subscriber's side

    def on_subscribe(self, subscription: Subscription) -> None:
        """Takes one subscription; another is cancelled (2.5)."""
        if subscription is None:
            raise null_element("on_subscribe")
        if self._upstream is not UNSUBSCRIBED or self._upstream_ended or self._done:
            subscription.cancel()
            return
        self._upstream = subscription
        if self._downstream is not None:
            self._join()

    def on_next(self, element: T) -> None:
        """Hands ``element`` on; a subscriber that raises is considered cancelled (2.13)."""
        if element is None:
            raise null_element("on_next")
        try:
            self._push(element)
        except BaseException as error:
            if not self._done:
                self._let_go()
                self._upstream.cancel()
                self._ended(error)
            raise

    def on_error(self, error: BaseException) -> None:
        """Hands the failure on, now or to the subscriber that comes."""
        if error is None:
            raise null_element("on_error")
        self._upstream_has_ended(error)

    def on_complete(self) -> None:
        """Hands the end on, now or to the subscriber that comes."""
        self._upstream_has_ended(None)

    def _join(self) -> None:
        downstream = self._downstream
        assert downstream is not None, "joined when both sides are there"
        self._push = downstream.on_next
        downstream.on_subscribe(self)
        if self._upstream_ended and not self._done:
            self._end(self._error)

    def _upstream_has_ended(self, error: BaseException | None) -> None:
        if self._done or self._upstream_ended:
            return
        self._upstream_ended = True
        self._upstream = UNSUBSCRIBED  # rule 2.4: nothing goes up after the end
        self._error = error
        if self._downstream is not None:
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        """The last signal goes down."""
        downstream = self._downstream
        self._let_go()
        if downstream is None:
            return
        try:
            if error is None:
                downstream.on_complete()
            else:
                downstream.on_error(error)
                self._told(error)
        finally:
            self._ended(error)

    def _let_go(self) -> None:
        self._done = True
        self._push = discard
        self._downstream = NOBODY

    def _told(self, error: BaseException) -> None:
        """Downstream has been told ``error``. For subclasses."""

    def _ended(self, error: BaseException | None) -> None:
        """It is over: with ``error``, or without one. For subclasses; called once."""


class PublisherSink(Relay[T], Generic[T]):
    """A sink that is a publisher: its result is there when the subscriber has been told the end, or has cancelled.

    Args:
        m: the run; when it is cancelled, the subscriber gets `StreamClosedError`.
    """

    __slots__ = ("_m", "future")

    def __init__(self, m: Materialization) -> None:
        super().__init__()
        self._m = m
        m.will_hand_over()
        self.future: asyncio.Future[None] = m.loop.create_future()
        m.on_cancel(self._run_cancelled)

    def _run_cancelled(self) -> None:
        if not self._done:
            self._upstream.cancel()
            self.future.cancel()
            self._end(StreamClosedError("the run that this publisher belongs to was cancelled"))

    def _told(self, error: BaseException) -> None:
        self._m.hand_over(error)

    def _ended(self, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(None)
        else:
            self.future.set_exception(storable(error))


class JoinedProcessor(Processor[I_contra, O_co], Generic[I_contra, O_co]):
    """A run's two open ends as one processor: subscriber of what flows in, publisher of what comes out."""

    __slots__ = ("_publisher", "_subscriber")

    def __init__(self, subscriber: Subscriber[I_contra], publisher: Publisher[O_co]) -> None:
        self._subscriber = subscriber
        self._publisher = publisher

    def subscribe(self, subscriber: Subscriber[O_co]) -> None:
        """To what comes out."""
        self._publisher.subscribe(subscriber)

    def on_subscribe(self, subscription: Subscription) -> None:
        """To what flows in."""
        self._subscriber.on_subscribe(subscription)

    def on_next(self, element: I_contra) -> None:
        """Flows in."""
        self._subscriber.on_next(element)

    def on_error(self, error: BaseException) -> None:
        """What flows in has failed."""
        self._subscriber.on_error(error)

    def on_complete(self) -> None:
        """What flows in has ended."""
        self._subscriber.on_complete()
