"""A source that a program feeds by hand: a bounded queue in front of a stream."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Final, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import FAILURES, BufferOverflowError, StreamClosedError, TooManyWaitersError, null_element
from streams.materialize import Materialization
from streams.overflow import OverflowStrategy, make_room
from streams.publishers.iterable import EMIT_BUDGET
from streams.publishers.nobody import NOBODY
from streams.stages.stage import reject

T = TypeVar("T")

MAX_WAITING_OFFERS: Final = 1024
"""Calls of ``offer_wait`` that wait at a time unless told otherwise: each holds an element and a task, so they are a buffer too."""


class QueueOfferResult(Enum):
    """What has become of an offer; true if the element was taken. A stream that has ended is no result but `StreamClosedError`."""

    ENQUEUED = "enqueued"
    """The element is in the queue, or on its way down the stream."""
    DROPPED = "dropped"
    """The queue is full, and the element was not taken."""

    def __bool__(self) -> bool:
        return self is QueueOfferResult.ENQUEUED


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
        overflow: what an offer to a full queue does. With BACKPRESSURE it is refused (`offer`) or waits (`offer_wait`).
        max_waiting_offers: calls of `offer_wait` that wait at most.
    """

    __slots__ = (
        "_bound", "_budget", "_busy", "_closed", "_demand", "_elements", "_ended", "_error", "_m", "_max_waiting", "_offering", "_over",
        "_overflow", "_subscribed", "_subscriber", "_traceback",
    )  # fmt: skip

    def __init__(
        self,
        m: Materialization,
        bound: int,
        overflow: OverflowStrategy = OverflowStrategy.BACKPRESSURE,
        max_waiting_offers: int = MAX_WAITING_OFFERS,
    ) -> None:
        self._m = m
        self._bound = bound
        self._overflow = overflow
        self._max_waiting = max_waiting_offers
        self._elements: deque[T] = deque()
        self._offering: deque[_Offer[T]] = deque()
        self._subscriber: Subscriber[T] = NOBODY
        self._subscribed = False
        self._demand = 0
        self._budget = EMIT_BUDGET
        self._busy = False
        self._closed = False
        self._over = False
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._ended: asyncio.Future[None] | None = None
        # A run may end without its part of the graph ever having been subscribed to; those who wait must hear of it.
        m.on_end(self.cancel)

    # The producer's side

    def offer(self, element: T) -> QueueOfferResult:
        """Offers ``element``; the result is false if the queue is full and the element was not taken.

        Raises:
            StreamClosedError: the stream has ended, or `complete` or `fail` was called.
            BufferOverflowError: the queue is full and its strategy is FAIL: the stream fails with the same.
            TypeError: the element is None.
        """
        self._check(element)
        if (len(self._elements) >= self._bound or self._offering) and not self._make_room():
            return QueueOfferResult.DROPPED
        self._elements.append(element)
        self._drain()
        return QueueOfferResult.ENQUEUED

    async def offer_wait(self, element: T) -> QueueOfferResult:
        """Offers ``element`` and waits until there is room for it; those that wait are served in turn.

        With an overflow strategy other than BACKPRESSURE there is nothing to wait for, and this is `offer`.

        Raises:
            StreamClosedError: the stream has ended, also while waiting.
            BufferOverflowError: as in `offer`.
            TooManyWaitersError: ``max_waiting_offers`` wait already.
            TypeError: the element is None.
        """
        result = self.offer(element)
        if result or self._overflow is not OverflowStrategy.BACKPRESSURE:
            self._budget -= 1
            if not self._budget:  # a task that only offers, to a stream that takes all, would keep the loop to itself
                self._budget = EMIT_BUDGET
                await asyncio.sleep(0)
            return result
        if len(self._offering) >= self._max_waiting:
            raise TooManyWaitersError(self._max_waiting, "max_waiting_offers")
        offer = _Offer(element, self._m.loop.create_future())
        self._offering.append(offer)
        try:
            await offer.taken
        finally:
            if offer in self._offering:
                self._offering.remove(offer)
        return QueueOfferResult.ENQUEUED

    def complete(self) -> None:
        """Ends the stream once what waits has gone; offers after this are refused."""
        if not self._closed:
            self._closed = True
            self._drain()

    def fail(self, error: BaseException) -> None:
        """Fails the stream at once; what waits is lost."""
        if error is None:
            raise null_element("fail")
        if not self._closed:
            self._fail(error)

    async def watch_completion(self) -> None:
        """Waits until the stream behind the queue has ended: completed once all has gone, or cancelled by downstream.

        Raises:
            BaseException: what the stream behind the queue was failed with: by `fail`, by an overflow, or by a broken subscriber.
        """
        if not self._over:
            if self._ended is None:
                self._ended = self._m.loop.create_future()
            await asyncio.wait((self._ended,))
        if self._error is not None:
            # As it came: each raise adds to the traceback, and this may be awaited any number of times.
            raise self._error.with_traceback(self._traceback)

    def __len__(self) -> int:
        """How many elements wait."""
        return len(self._elements)

    # The stream's side

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Serves the one subscriber of this run."""
        if subscriber is None:
            raise null_element("subscribe")
        if self._subscribed or self._over:
            reject(subscriber, StreamClosedError("a materialized queue has, or had, its one subscriber"))
            return
        self._subscribed = True
        self._subscriber = subscriber
        self._busy = True  # rule 1.9: a request within on_subscribe is met when that has returned
        subscriber.on_subscribe(self)
        self._busy = False
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
        if not self._over:
            self._closed = True
            self._elements.clear()
            self._refuse_offers()
            self._finish()

    def _fail(self, error: BaseException) -> None:
        self._closed = True
        self._error = error
        self._elements.clear()
        self._refuse_offers()
        self._drain()

    def _finish(self) -> Subscriber[T]:
        """It is over; the subscriber, which is let go of (3.13), may be told so."""
        self._over = True
        self._demand = 0
        if self._error is not None:
            self._traceback = self._error.__traceback__
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
        subscriber, self._subscriber = self._subscriber, NOBODY
        return subscriber

    def _check(self, element: T) -> None:
        if element is None:
            raise null_element("offer")
        if self._closed:
            raise StreamClosedError("the stream behind this queue has ended") from self._error

    def _make_room(self) -> bool:
        try:
            return make_room(self._elements, self._bound, self._overflow)
        except BufferOverflowError as error:
            self._fail(
                BufferOverflowError(error.size)
            )  # one of its own: each way it takes adds to its traceback and notes
            raise

    def _refuse_offers(self) -> None:
        while self._offering:
            offer = self._offering.popleft()
            if not offer.taken.done():
                closed = StreamClosedError("the stream behind this queue has ended")
                closed.__cause__ = self._error
                offer.taken.set_exception(closed)

    def _drain(self) -> None:
        """Emits what waits, under demand, and lets offers move up; a call from within only leaves its mark."""
        if self._busy or not self._subscribed:
            return
        self._busy = True
        push = self._subscriber.on_next
        elements = self._elements
        budget = EMIT_BUDGET
        while self._demand and elements:
            if not budget:  # a subscriber that offers more from within would keep the loop to itself
                self._m.loop.call_soon(self._m.call, self._next_turn)
                return
            budget -= 1
            self._demand -= 1
            try:
                push(elements.popleft())
            except FAILURES as error:  # a subscriber has raised: to be treated as cancelled (2.13), and never unnoticed
                self._error = error
                self.cancel()
                self._m.fail(error)
            if self._offering:
                self._move_up()
        # Offers wait only while the queue is full: where it is empty, none does.
        if self._closed and not self._over and not elements:
            subscriber = self._finish()
            # A stage may emit what it has gathered when it is told: what a subscriber raises then is no failure of the producer.
            if self._error is None:
                self._m.call(subscriber.on_complete)
            else:
                self._m.call(subscriber.on_error, self._error)
        self._busy = False

    def _next_turn(self) -> None:
        self._busy = False
        self._drain()

    def _move_up(self) -> None:
        while self._offering and len(self._elements) < self._bound:
            offer = self._offering.popleft()
            if not offer.taken.done():
                self._elements.append(offer.element)
                offer.taken.set_result(None)
