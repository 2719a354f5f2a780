"""A source that a program feeds by hand: a bounded queue in front of a stream."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from contextvars import Context, copy_context
from dataclasses import dataclass
from enum import Enum
from threading import get_ident
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

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
    """One that waits for room: its element, and the future that says that there is some, and that it is kept for this element."""

    element: T
    room: asyncio.Future[None]


class SourceQueue(Publisher[T], Subscription, Generic[T]):
    """The handle of `Source.queue`: what is offered here flows into the stream. Other threads use `offer_threadsafe`, and that alone.

    An element that downstream wants goes straight on; up to ``bound`` others wait. What it meets on its way is called in the context
    variables of the run, and not of whoever offers.

    Args:
        m: the run.
        bound: elements that wait at most.
        overflow: what an offer to a full queue does. With BACKPRESSURE it is refused (`offer`) or waits (`offer_wait`).
        max_waiting_offers: calls of `offer_wait` that wait at most; and as many of `offer_threadsafe`.
        element_context: each element goes down the stream in the context variables of the offer.
    """

    __slots__ = (
        "__weakref__", "_bound", "_budget",
        "_busy", "_closed", "_demand", "_elements", "_ended", "_error", "_from_threads", "_in_contexts", "_kept",
        "_lock", "_m", "_max_waiting", "_offering", "_over", "_overflow", "_subscribed", "_subscriber", "_thread", "_traceback",
    )  # fmt: skip

    def __init__(
        self,
        m: Materialization,
        bound: int,
        overflow: OverflowStrategy = OverflowStrategy.BACKPRESSURE,
        max_waiting_offers: int = MAX_WAITING_OFFERS,
        element_context: bool = False,
    ) -> None:
        self._m = m
        self._bound = bound
        self._overflow = overflow
        self._max_waiting = max_waiting_offers
        self._in_contexts = element_context
        self._thread = get_ident()
        self._lock = threading.Lock()
        self._from_threads: set[concurrent.futures.Future[QueueOfferResult]] = set()
        """What other threads have offered and not heard of; under the lock."""
        self._elements: deque[Any] = deque()
        """Those that wait; with ``element_context``, each in a pair with its context."""
        self._kept = 0
        """Places that are kept for offers that wait, have been told so, and have not had their turn of the loop."""
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
        m.on_end(self._run_over)
        m.on_drain(self)

    # The producer's side

    def offer(self, element: T) -> QueueOfferResult:
        """Offers ``element``; the result is false if the queue is full and the element was not taken.

        Raises:
            StreamClosedError: the stream has ended, or `complete` or `fail` was called.
            BufferOverflowError: the queue is full and its strategy is FAIL: the stream fails with the same.
            TypeError: the element is None.
        """
        self._check(element)
        if (len(self._elements) + self._kept >= self._bound or self._offering) and not self._make_room():
            return QueueOfferResult.DROPPED
        self._take(element)
        return QueueOfferResult.ENQUEUED

    async def offer_wait(self, element: T) -> QueueOfferResult:
        """Offers ``element`` and waits until there is room for it; those that wait are served in turn.

        Where it is cancelled the element was not taken. With an overflow strategy other than BACKPRESSURE there is nothing to wait for,
        and this is `offer`.

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
        offer = self._wait_for_room(element)
        try:
            await offer.room
        except asyncio.CancelledError:
            self._given_up(offer)
            raise
        self._kept -= 1
        if self._over or self._error is not None:
            raise self._closed_error()
        self._take(element)
        return QueueOfferResult.ENQUEUED

    def offer_threadsafe(self, element: T) -> concurrent.futures.Future[QueueOfferResult]:
        """`offer_wait` for other threads than the loop's: returns at once a future, whose ``result(timeout)`` blocks until it is told.

        ``max_waiting_offers`` may be under way at a time, so wait for the result before the next. Cancelling the future takes the offer
        back, unless the queue has begun with it. On the loop's thread nobody may block, so there it is refused.

        Raises:
            RuntimeError: this is the loop's thread.
            TooManyWaitersError: ``max_waiting_offers`` are under way already.
            TypeError: the element is None.
        """
        if element is None:
            raise null_element("offer_threadsafe")
        if get_ident() == self._thread:
            raise RuntimeError(
                "offer_threadsafe() is for other threads: on the loop's own, use offer() or await offer_wait()"
            )
        told: concurrent.futures.Future[QueueOfferResult] = concurrent.futures.Future()
        with self._lock:
            if len(self._from_threads) >= self._max_waiting:
                raise TooManyWaitersError(self._max_waiting, "max_waiting_offers")
            self._from_threads.add(told)
        told.add_done_callback(self._heard)
        context = copy_context() if self._in_contexts else None
        if self._over or not self._m.call_from_thread(self._offered_from_thread, element, context, told):
            self._refuse(told)
        return told

    def complete(self) -> None:
        """Ends the stream once what waits has gone; offers after this are refused.

        Raises:
            RuntimeError: this is not the loop's thread: there, use ``loop.call_soon_threadsafe(queue.complete)``. As in `fail`.
        """
        self._on_the_loop("complete")
        if not self._closed:
            self._closed = True
            self._go_on()

    def drained(self) -> None:
        """The run is to end in good order: nothing more is taken, and what waits goes on."""
        self.complete()

    def fail(self, error: BaseException) -> None:
        """Fails the stream at once; what waits is lost."""
        if error is None:
            raise null_element("fail")
        self._on_the_loop("fail")
        if not self._closed:
            self._m.in_context(self._fail, error)

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
            self._finish()
            self._refuse_offers()

    def _run_over(self) -> None:
        """The loop may have no turn any more for what threads have offered, so they are told here."""
        self.cancel()
        self._refuse_offers()

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

    def _on_the_loop(self, what: str) -> None:
        if get_ident() != self._thread:
            instead = "offer_threadsafe()" if what == "offer" else f"loop.call_soon_threadsafe(queue.{what}, ...)"
            raise RuntimeError(
                f"{what}() was called on another thread than the event loop's, where the stream's functions must not run: use {instead}"
            )

    def _check(self, element: T) -> None:
        if get_ident() != self._thread:
            self._on_the_loop("offer")
        if element is None:
            raise null_element("offer")
        if self._closed:
            raise self._closed_error()

    def _closed_error(self) -> StreamClosedError:
        closed = StreamClosedError("the stream behind this queue has ended")
        closed.__cause__ = self._error
        return closed

    def _take(self, element: T, context: Context | None = None) -> None:
        """Takes ``element``, for which there is room."""
        if self._in_contexts:
            self._elements.append((copy_context() if context is None else context, element))
        else:
            self._elements.append(element)
        self._go_on()

    def _go_on(self) -> None:
        """Emits what can be emitted: in the context of the run, for that of whoever called is none of the other elements' business."""
        if not self._busy and self._subscribed:
            self._m.in_context(self._drain)

    def _wait_for_room(self, element: T) -> _Offer[T]:
        if len(self._offering) >= self._max_waiting:
            raise TooManyWaitersError(self._max_waiting, "max_waiting_offers")
        offer = _Offer(element, self._m.loop.create_future())
        self._offering.append(offer)
        return offer

    def _given_up(self, offer: _Offer[T]) -> None:
        """Whoever waited wants to no more; a place that was kept for it is the next one's."""
        if offer in self._offering:
            self._offering.remove(offer)
        elif not offer.room.cancelled() and offer.room.exception() is None:
            self._kept -= 1
            self._move_up()
            self._go_on()

    def _offered_from_thread(
        self, element: T, context: Context | None, told: concurrent.futures.Future[QueueOfferResult]
    ) -> None:
        if told.done() or not told.set_running_or_notify_cancel():
            return  # taken back, or refused at the end of the stream
        try:
            if (len(self._elements) + self._kept >= self._bound or self._offering) and not self._closed:
                if self._overflow is OverflowStrategy.BACKPRESSURE:
                    waiting = self._wait_for_room(element)
                    waiting.room.add_done_callback(lambda room: self._room_for_thread(room, element, context, told))
                    return
                self._heard(told)  # what makes room by failing the stream refuses the others
                if not self._make_room():
                    told.set_result(QueueOfferResult.DROPPED)
                    return
            self._check(element)
        except FAILURES as error:  # told to the thread that has offered
            told.set_exception(error)
        else:
            self._take_from_thread(element, context, told)

    def _take_from_thread(
        self, element: T, context: Context | None, told: concurrent.futures.Future[QueueOfferResult]
    ) -> None:
        # Told first: this element may be the one that ends the stream, and what is not told by then is refused.
        told.set_result(QueueOfferResult.ENQUEUED)
        self._take(element, context)

    def _room_for_thread(
        self,
        room: asyncio.Future[None],
        element: T,
        context: Context | None,
        told: concurrent.futures.Future[QueueOfferResult],
    ) -> None:
        if room.exception() is None:
            self._kept -= 1
        if self._over or self._error is not None:
            self._refuse(told)
        else:
            self._take_from_thread(element, context, told)

    def _refuse(self, told: concurrent.futures.Future[QueueOfferResult]) -> None:
        if not told.done() and (told.running() or told.set_running_or_notify_cancel()):
            told.set_exception(self._closed_error())

    def _heard(self, told: concurrent.futures.Future[QueueOfferResult]) -> None:
        with self._lock:
            self._from_threads.discard(told)

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
            if not offer.room.done():
                offer.room.set_exception(self._closed_error())
        with self._lock:
            from_threads = tuple(self._from_threads)
        for told in from_threads:
            self._refuse(told)

    def _drain(self) -> None:
        """Emits what waits, under demand, and lets offers move up; a call from within only leaves its mark."""
        if self._busy or not self._subscribed:
            return
        self._busy = True
        push = self._subscriber.on_next if not self._in_contexts else self._push_in_context
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
        # Offers wait only while the queue is full, or kept for others: where it is empty, and nothing kept, none does.
        if self._closed and not self._over and not elements and (not self._kept or self._error is not None):
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

    def _push_in_context(self, pair: Any) -> None:
        context, element = pair
        context.run(self._subscriber.on_next, element)

    def _move_up(self) -> None:
        """Tells those who wait that there is room; each puts its element there when it has its turn, and can give up until then."""
        while self._offering and len(self._elements) + self._kept < self._bound:
            offer = self._offering.popleft()
            if not offer.room.done():
                self._kept += 1
                offer.room.set_result(None)
