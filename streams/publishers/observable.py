"""A source of what a reactivex observable pushes, which knows no demand: what is not asked for waits in a bounded buffer.

An observable may call from any thread. The buffer is what crosses over, so its bound holds for threads too. However far they run ahead of
the loop, no more than ``size`` elements wait. What one too many means is decided where it comes, under a lock.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import FAILURES, BufferOverflowError, add_place, null_element
from streams.materialize import Materialization
from streams.overflow import OverflowStrategy, make_room
from streams.publishers.iterable import EMIT_BUDGET
from streams.publishers.nobody import NOBODY

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class ObservablePublisher(Publisher[T_co], Generic[T_co]):
    """Subscribes to an observable for each subscriber of its own, and disposes of that subscription when it has gone.

    Args:
        m: the run.
        observable: a ``reactivex.Observable``.
        size: elements that wait for demand at most.
        overflow: what happens to one more.
        scheduler: the reactivex scheduler that the observable is subscribed with; None leaves each operator its own.
    """

    __slots__ = ("_m", "_observable", "_overflow", "_scheduler", "_size")

    def __init__(
        self, m: Materialization, observable: Any, size: int, overflow: OverflowStrategy, scheduler: Any = None
    ) -> None:
        self._m = m
        self._observable = observable
        self._size = size
        self._overflow = overflow
        self._scheduler = scheduler

    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """Subscribes to the observable in the loop's next turn, when the whole graph is together."""
        if subscriber is None:
            raise null_element("subscribe")
        observer: _Observer[T_co] = _Observer(self._m, subscriber, deque(), self._size, self._overflow)
        self._m.on_drain(observer)
        subscriber.on_subscribe(observer)
        self._m.loop.call_soon(observer.start, self._observable, self._scheduler)


class _Observer(Subscription, Generic[T]):
    """One subscription, and the observer of the observable. What has an underscore is the loop's, but for what the lock guards."""

    __slots__ = (
        "__weakref__",
        "_busy",
        "_demand",
        "_disposable",
        "_done",
        "_elements",
        "_ended",
        "_error",
        "_lock",
        "_m",
        "_overflow",
        "_size",
        "_subscriber",
        "_thread",
        "_turn_is_set",
    )

    def __init__(
        self,
        m: Materialization,
        subscriber: Subscriber[T],
        elements: deque[T],
        size: int,
        overflow: OverflowStrategy,
    ) -> None:
        self._m = m
        self._subscriber = subscriber
        self._size = size
        self._overflow = overflow
        self._thread = threading.get_ident()
        self._disposable: Any = None
        self._demand = 0
        self._busy = False
        self._done = False
        self._lock = threading.Lock()
        """Guards those below: any thread may call the observer's methods."""
        self._elements = elements
        self._ended = False
        self._error: BaseException | None = None
        self._turn_is_set = False

    # Subscription, on the loop's thread

    def request(self, n: int) -> None:
        """Adds to the demand."""
        if self._done:
            return
        if n < 1:
            self._end(invalid_demand(n))
            return
        self._demand = add_demand(self._demand, n)
        self._drain()

    def cancel(self) -> None:
        """Disposes of the subscription to the observable."""
        if not self._done:
            self._finish()

    def drained(self) -> None:
        """Nothing more comes."""
        if not self._done:
            subscriber = self._subscriber
            self.cancel()
            subscriber.on_complete()

    def start(self, observable: Any, scheduler: Any) -> None:
        """Subscribes to the observable."""
        if self._done:
            return
        # Imported here: who has an observable has imported it before, and nobody else pays for it.
        from reactivex import operators  # noqa: PLC0415

        try:
            # An observable that pushes all it has while it is being subscribed to cannot be disposed of yet: take_while stops it.
            disposable = observable.pipe(operators.take_while(lambda _: not self._done)).subscribe(
                self.on_next, self.on_error, self.on_completed, scheduler=scheduler
            )
        except FAILURES as error:  # whatever the observable raises goes down the stream
            self.on_error(error)
            return
        self._started(disposable)

    def _started(self, disposable: Any) -> None:
        if self._done:  # since, by what the observable has pushed meanwhile
            self._dispose(disposable)
        else:
            self._disposable = disposable

    # Observer, on any thread

    def on_next(self, element: T | None) -> None:
        """Takes an element over."""
        with self._lock:
            if self._ended:
                return
            if element is None:
                self._ended = True
                self._error = null_element("the observable of the source")
            elif len(self._elements) < self._size:
                self._elements.append(element)
            else:
                self._overflowed(element)
        self._wake()

    def on_error(self, error: object) -> None:
        """The observable has failed: told after the elements that came before. A subject may be given what is no exception."""
        if not isinstance(error, BaseException):
            error = TypeError(f"the observable of the source has failed with {error!r:.100}, which is no exception")
        add_place(error, "in the source observable")
        self._observable_ended(error)

    def on_completed(self) -> None:
        """The observable has ended."""
        self._observable_ended(None)

    def _observable_ended(self, error: BaseException | None) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = True
            self._error = error
        self._wake()

    def _overflowed(self, element: T) -> None:
        try:
            if make_room(self._elements, self._size, self._overflow):
                self._elements.append(element)
        except BufferOverflowError as error:
            self._elements.clear()
            self._ended = True
            self._error = error

    def _wake(self) -> None:
        if threading.get_ident() == self._thread:
            self._drain()
            return
        with self._lock:
            if self._turn_is_set:
                return
            self._turn_is_set = True
        self._m.call_from_thread(self._turn)

    # On the loop's thread again

    def _turn(self) -> None:
        with self._lock:
            self._turn_is_set = False
        self._drain()

    def _drain(self) -> None:
        """Emits what waits, under demand; a call from within only leaves its mark."""
        if self._busy or self._done:
            return
        self._busy = True
        budget = EMIT_BUDGET
        while self._demand and not self._done:
            if not budget:  # a thread that keeps the buffer full would keep the loop from everybody else
                self._m.loop.call_soon(self._m.call, self._next_turn)
                return
            budget -= 1
            with self._lock:
                if not self._elements:
                    break
                element = self._elements.popleft()
            self._demand -= 1
            try:
                self._subscriber.on_next(element)
            except FAILURES as error:  # a subscriber has raised: to be treated as cancelled (2.13), and never unnoticed
                self.cancel()
                self._m.fail(error)
        with self._lock:
            is_over = self._ended and not self._elements
        if is_over and not self._done:
            self._end(self._error)
        self._busy = False

    def _next_turn(self) -> None:
        self._busy = False
        self._drain()

    def _end(self, error: BaseException | None) -> None:
        """The last signal."""
        subscriber = self._finish()
        # Stages may push what they have gathered when they are told the end: what a subscriber raises then is the run's.
        if error is None:
            self._m.call(subscriber.on_complete)
        else:
            self._m.call(subscriber.on_error, error)

    def _finish(self) -> Subscriber[T]:
        """It is over: lets go of the observable, and of the subscriber (3.13), which may be told so."""
        self._done = True
        with self._lock:
            self._ended = True
            self._elements.clear()
        subscriber, self._subscriber = self._subscriber, NOBODY
        disposable, self._disposable = self._disposable, None
        if disposable is not None:
            self._dispose(disposable)
        return subscriber

    def _dispose(self, disposable: Any) -> None:
        try:
            disposable.dispose()
        except FAILURES as error:  # nobody is subscribed any more
            self._m.report("the observable of a source failed while it was being disposed of", error)
