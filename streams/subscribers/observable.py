"""A stream as a reactivex observable. An observer has no demand, so the stream runs as fast as it takes its calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from streams.contract import UNBOUNDED, Publisher, Subscriber, Subscription
from streams.errors import FAILURES, StreamClosedError, null_element
from streams.materialize import Materialization
from streams.publishers.nobody import NOBODY
from streams.stages.stage import UNSUBSCRIBED

if TYPE_CHECKING:
    from reactivex import Observable

T = TypeVar("T")


class _Bridge(Subscriber[T], Generic[T]):
    """The subscriber that calls an observer, always on the loop's thread.

    Args:
        observer: a reactivex observer.
        m: the run; fails with what the observer raises.
    """

    __slots__ = ("_m", "_observer", "_subscription", "_thread")

    def __init__(self, observer: Any, m: Materialization, thread: int) -> None:
        self._observer = observer
        self._m = m
        self._thread = thread
        self._subscription: Subscription = UNSUBSCRIBED

    def on_subscribe(self, subscription: Subscription) -> None:
        """Asks for everything; a second subscription is cancelled (2.5), and so is one that comes after `dispose`."""
        if subscription is None:
            raise null_element("observable")
        if self._subscription is not UNSUBSCRIBED or self._observer is NOBODY:
            subscription.cancel()
            return
        self._subscription = subscription
        subscription.request(UNBOUNDED)

    def on_next(self, element: T) -> None:
        """One call."""
        if element is None:
            raise null_element("observable")
        try:
            self._observer.on_next(element)
        except FAILURES as error:  # an observer that raises fails the stream, never whoever sends
            self._cancel()
            self._m.fail(error)

    def on_error(self, error: BaseException) -> None:
        """The last call."""
        if error is None:
            raise null_element("observable")
        observer = self._let_go()
        try:
            observer.on_error(error)
        except FAILURES as fault:  # reactivex's own way with an observer that has no on_error: to raise what it is told
            self._m.report("an observer raised when it was told the failure of its stream", fault)

    def on_complete(self) -> None:
        """The last call."""
        observer = self._let_go()
        if observer is NOBODY:
            return
        try:
            observer.on_completed()
        except FAILURES as fault:  # as above
            self._m.report("an observer raised when it was told the end of its stream", fault)

    def join(self, publisher: Publisher[T]) -> None:
        """Subscribes, on the loop's thread."""
        self._on_loop(lambda: publisher.subscribe(self))

    def dispose(self) -> None:
        """Cancels, on the loop's thread."""
        self._on_loop(self._cancel)

    def _cancel(self) -> None:
        self._let_go()
        self._subscription.cancel()

    def _let_go(self) -> Any:
        observer, self._observer = self._observer, NOBODY
        return observer

    def _on_loop(self, call: Callable[[], None]) -> None:
        if threading.get_ident() == self._thread:
            call()
            return
        if not self._m.call_from_thread(call):
            self._let_go().on_error(StreamClosedError("the event loop of the stream behind this observable is closed"))


def observable_of(publisher: Publisher[T], m: Materialization) -> Observable[T]:
    """The observable of a publisher: each observer is a subscriber of its own. To be called on the loop's thread.

    Observers may subscribe and dispose on any thread, and are called on the loop's.
    """
    # Imported here: it takes as long to import as this whole package, and only this needs it.
    from reactivex import create  # noqa: PLC0415
    from reactivex.disposable import Disposable  # noqa: PLC0415

    thread = threading.get_ident()

    def subscribe(observer: Any, _scheduler: Any = None) -> Disposable:
        bridge: _Bridge[T] = _Bridge(observer, m, thread)
        bridge.join(publisher)
        return Disposable(bridge.dispose)

    return create(subscribe)
