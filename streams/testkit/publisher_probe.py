"""The beginning of a stream in a test's hands: it sends by hand, and says what must be asked of it."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import Demand, invalid_demand
from streams.errors import null_element
from streams.materialize import Materialization
from streams.source import Source
from streams.testkit.expectations import DEFAULT_TIMEOUT, Expectations, settle

T = TypeVar("T")


class TestPublisher(Expectations, Publisher[T], Subscription, Generic[T]):
    """A publisher for one subscriber that sends only what the test sends, and refuses to send what was not asked for.

    Attributes:
        demand: what was requested and what was sent.
        cancelled: the subscriber has cancelled.
    """

    __test__ = False  # not for pytest to collect

    def __init__(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        super().__init__(timeout)
        self.demand = Demand()
        self.cancelled = False
        self._ended = False
        self._requests: deque[int] = deque()
        self._subscriber: Subscriber[T] | None = None

    # Publisher and Subscription

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Takes its one subscriber.

        Raises:
            AssertionError: it has one: in a test that is a mistake, not something to be signalled.
        """
        if subscriber is None:
            raise null_element("subscribe")
        if self._subscriber is not None:
            raise AssertionError("a TestPublisher has one subscriber")
        self._subscriber = subscriber
        subscriber.on_subscribe(self)
        self._arrival.set()

    def request(self, n: int) -> None:
        """Records a request; after the end, and after a cancellation, there is nothing to request from."""
        if self.cancelled or self._ended:
            return
        if n < 1:
            self.cancelled = True
            self._arrival.set()
            self.subscriber.on_error(invalid_demand(n))
            return
        self.demand.add(n)
        self._requests.append(n)
        self._arrival.set()

    def cancel(self) -> None:
        """Records the cancellation; after the end there is nothing to cancel."""
        if not self._ended:
            self.cancelled = True
            self._arrival.set()

    # What the test does

    @property
    def subscriber(self) -> Subscriber[T]:
        """The subscriber.

        Raises:
            AssertionError: there is none yet.
        """
        if self._subscriber is None:
            raise AssertionError("nobody has subscribed")
        return self._subscriber

    def send_next(self, *elements: T) -> None:
        """Sends elements.

        Raises:
            AssertionError: more than was asked for: see `expect_demand`.
        """
        subscriber = self.subscriber
        for element in elements:
            if not self.demand.take():
                raise AssertionError(f"{element!r} was not asked for: {self.demand}")
            subscriber.on_next(element)

    def unsafe_send_next(self, *elements: T) -> None:
        """Sends elements whether they were asked for or not: what breaks rule 1.1, for tests of those who must bear that."""
        subscriber = self.subscriber
        for element in elements:
            self.demand.take()
            subscriber.on_next(element)

    def send_complete(self) -> None:
        """Ends the stream."""
        self._ended = True
        self.subscriber.on_complete()

    def send_error(self, error: BaseException) -> None:
        """Fails the stream."""
        self._ended = True
        self.subscriber.on_error(error)

    # What the test expects

    async def expect_subscription(self) -> None:
        """Waits for the subscriber."""
        while self._subscriber is None:
            await self._wait("a subscriber")

    async def expect_request(self, n: int | None = None) -> int:
        """Waits for the next request, which must be for ``n`` if that is given; returns how many it asks for."""
        while not self._requests:
            await self._wait("a request")
        asked = self._requests.popleft()
        if n is not None and asked != n:
            raise AssertionError(f"expected request({n}), got request({asked})")
        return asked

    async def expect_demand(self, n: int = 1) -> int:
        """Waits until ``n`` elements or more are asked for that have not been sent, in as many requests as it takes; returns how many."""
        while self.demand.outstanding < n:
            await self._wait(f"demand for {n}: {self.demand}")
        return self.demand.outstanding

    async def expect_no_request(self, seconds: float = 0.0) -> None:
        """Lets ``seconds`` pass, and all that is ready run; no request may come."""
        await settle(seconds)
        if self._requests:
            raise AssertionError(f"expected no request, got request({self._requests[0]})")

    async def expect_cancellation(self) -> None:
        """Waits until the subscriber cancels."""
        while not self.cancelled:
            await self._wait("a cancellation")

    async def expect_no_cancellation(self, seconds: float = 0.0) -> None:
        """Lets ``seconds`` pass, and all that is ready run; the subscriber may not cancel."""
        await settle(seconds)
        if self.cancelled:
            raise AssertionError("expected no cancellation, got one")


class TestSource(Source[T, TestPublisher[T]], Generic[T]):
    """A source for one run that sends what its ``probe`` is told to send.

    Attributes:
        probe: the publisher in the test's hands.
    """

    __test__ = False  # not for pytest to collect

    def __init__(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.probe: TestPublisher[T] = TestPublisher(timeout)
        super().__init__(self._materialize, "test source")

    def _materialize(self, _m: Materialization) -> tuple[Publisher[T], TestPublisher[T]]:
        return self.probe, self.probe
