"""A source that a program feeds by hand: a bounded queue in front of a stream."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import StreamClosedError, null_element
from streams.materialize import Materialization
from streams.stages.stage import reject

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class _Offer(Generic[T]):
    """One that waits for room: its element, and the future that says that it has been taken."""

    element: T
    taken: asyncio.Future[None]


class SourceQueue(Publisher[T], Subscription, Generic[T]):
    """The handle of `Source.queue`: what is offered here flows into the stream. To be used on the loop's thread.

    An element that downstream wants goes straight on; up to ``bound`` others wait.

    Args:
        m: the run.
        bound: elements that wait at most.
    """

    __slots__ = (
        "_bound", "_busy", "_closed", "_demand", "_elements", "_error", "_m", "_offering", "_over", "_subscriber",
    )  # fmt: skip

    def __init__(self, m: Materialization, bound: int) -> None:
        self._m = m
        self._bound = bound
        self._elements: deque[T] = deque()
        self._offering: deque[_Offer[T]] = deque()
        self._subscriber: Subscriber[T] | None = None
        self._demand = 0
        self._busy = False
        self._closed = False
        self._over = False
        self._error: BaseException | None = None

    # The producer's side

    def offer(self, element: T) -> bool:
        """Offers ``element``; False if the queue is full, and the element is not taken then.

        Raises:
            StreamClosedError: the stream has ended, or `complete` or `fail` was called.
            TypeError: the element is None.
        """
        self._check(element)
        if len(self._elements) >= self._bound or self._offering:
            return False
        self._elements.append(element)
        self._drain()
        return True

    async def offer_wait(self, element: T) -> None:
        """Offers ``element`` and waits until there is room for it; those that wait are served in turn.

        Raises:
            StreamClosedError: the stream has ended, also while waiting.
            TypeError: the element is None.
        """
        if self.offer(element):
            return
        offer = _Offer(element, self._m.loop.create_future())
        self._offering.append(offer)
        try:
            await offer.taken
        finally:
            if offer in self._offering:
                self._offering.remove(offer)

    def complete(self) -> None:
        """Ends the stream once what waits has gone; offers after this are refused."""
        if not self._closed:
            self._closed = True
            self._drain()

    def fail(self, error: BaseException) -> None:
        """Fails the stream at once; what waits is lost."""
        if not self._closed:
            self._fail(error)

    def __len__(self) -> int:
        """How many elements wait."""
        return len(self._elements)

    # The stream's side

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Serves the one subscriber of this run."""
        if subscriber is None:
            raise null_element("subscribe")
        if self._subscriber is not None:
            reject(subscriber, StreamClosedError("a materialized queue has one subscriber"))
            return
        self._subscriber = subscriber
        subscriber.on_subscribe(self)
        self._drain()

    def request(self, n: int) -> None:
        """Adds to the demand of downstream."""
        if self._over:
            return
        if n < 1:
            self._fail(invalid_demand(n))
            return
        self._demand = add_demand(self._demand, n)
        self._drain()

    def cancel(self) -> None:
        """Downstream takes no more: offers are refused from here on."""
        self._over = True
        self._closed = True
        self._elements.clear()
        self._refuse_offers()

    def _fail(self, error: BaseException) -> None:
        self._closed = True
        self._error = error
        self._elements.clear()
        self._refuse_offers()
        self._drain()

    def _check(self, element: T) -> None:
        if element is None:
            raise null_element("offer")
        if self._closed:
            raise StreamClosedError("the stream behind this queue has ended")

    def _refuse_offers(self) -> None:
        while self._offering:
            offer = self._offering.popleft()
            if not offer.taken.done():
                offer.taken.set_exception(StreamClosedError("the stream behind this queue has ended"))

    def _drain(self) -> None:
        """Emits what waits, under demand, and lets offers move up; a call from within only leaves its mark."""
        if self._busy or self._subscriber is None:
            return
        self._busy = True
        subscriber = self._subscriber
        elements = self._elements
        while self._demand and elements:
            self._demand -= 1
            try:
                subscriber.on_next(elements.popleft())
            except Exception as error:  # noqa: BLE001 - a subscriber has raised: to be treated as cancelled (2.13), and never unnoticed
                self.cancel()
                self._m.fail(error)
            self._move_up()
        if self._closed and not self._over and not elements and not self._offering:
            self._over = True
            if self._error is None:
                subscriber.on_complete()
            else:
                subscriber.on_error(self._error)
        self._busy = False

    def _move_up(self) -> None:
        while self._offering and len(self._elements) < self._bound:
            offer = self._offering.popleft()
            if not offer.taken.done():
                self._elements.append(offer.element)
                offer.taken.set_result(None)
