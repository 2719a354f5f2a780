"""A source of an iterable that blocks: gone through in a thread, so that the event loop is not held up."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, TypeVar

from streams.contract import Publisher, Subscriber
from streams.errors import FAILURES, add_place, null_element
from streams.materialize import Materialization
from streams.publishers.nobody import DemandSubscription
from streams.threads import Threads

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

BLOCKING_AHEAD: Final = 64
"""Elements that the thread takes of its iterable in one go, at most, and only if they are asked for: what waits for the loop is bounded."""


class BlockingIterablePublisher(Publisher[T_co], Generic[T_co]):
    """Publishes an iterable that may block, opened anew for each subscriber: opened, gone through and closed in one thread.

    Args:
        m: the run.
        opened: gives the iterable.
        name: the thread's, and the source's in failures.
    """

    __slots__ = ("_m", "_name", "_opened")

    def __init__(self, m: Materialization, opened: Callable[[], Iterable[T_co]], name: str) -> None:
        self._m = m
        self._opened = opened
        self._name = name

    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """Begins with the first request."""
        if subscriber is None:
            raise null_element("subscribe")
        bridge = _Bridge(self._m, subscriber, self._opened, self._name)
        self._m.on_drain(bridge)
        subscriber.on_subscribe(bridge)


class _Bridge(DemandSubscription[T], Generic[T]):
    """One subscription. The thread takes what it is told to, puts it down, and wakes the loop once for all that lies there."""

    __slots__ = (
        "_arrived", "_at_work", "_busy", "_closing", "_error", "_exhausted", "_iterator", "_lock", "_m", "_name",
        "_opened", "_threads", "_woken",
    )  # fmt: skip

    def __init__(
        self, m: Materialization, subscriber: Subscriber[T], opened: Callable[[], Iterable[T]], name: str
    ) -> None:
        super().__init__(subscriber)
        self._m = m
        self._opened = opened
        self._name = name
        self._busy = False
        self._at_work = False
        """The thread has been told to take elements, and has not said that it is done with that."""
        self._threads: Threads | None = None
        self._iterator: Iterator[T] | None = None
        """The thread's."""
        self._lock = threading.Lock()
        self._arrived: deque[Any] = deque()
        self._woken = False
        """The loop has been told of what lies there; under the lock, as that is."""
        self._exhausted = False
        self._error: BaseException | None = None

    # On the loop's thread

    def _stop(self) -> None:
        """The thread closes the iterable, once it has come back from it."""
        if self._threads is not None:
            self._threads.last(self._close)

    def _demanded(self) -> None:
        """Has the thread take as many, if it is not at it."""
        if self._at_work or self._exhausted or self._done or self._busy or not self._demand:
            return
        self._at_work = True
        try:
            if self._threads is None:
                self._threads = Threads(self._m.loop, 1, self._name)
                self._m.on_end(self._threads.ended, f"thread of {self._name}")
            self._threads.call(self._take, min(self._demand, BLOCKING_AHEAD), self._taken)
        except RuntimeError as error:  # there is no thread for it
            self._taken(None, error)

    def _taken(self, exhausted: Any, error: BaseException | None) -> None:
        """The thread is done with what it was told."""
        self._at_work = False
        self._exhausted = bool(exhausted) or error is not None
        self._error = error
        self._m.call(self._drain)

    def _drain(self) -> None:
        """Passes on what has arrived, all of which was asked for; then the end, or has the thread take more."""
        if self._busy or self._done:
            return
        self._busy = True
        with self._lock:
            self._woken = False
        arrived = self._arrived
        while arrived and not self._done:
            self._demand -= 1
            try:
                self._subscriber.on_next(arrived.popleft())
            except FAILURES as error:  # a subscriber has raised: to be treated as cancelled (2.13), and never unnoticed
                self.cancel()
                self._m.fail(error)
        self._busy = False
        if self._exhausted and not self._at_work and not self._done:
            self._end()
        else:
            self._demanded()

    def _end(self) -> None:
        subscriber, error = self._subscriber, self._error
        self.cancel()
        if error is None:
            subscriber.on_complete()
        else:
            add_place(error, f"in the source {self._name}")
            subscriber.on_error(error)

    # On the thread of the iterable

    def _take(self, count: int) -> bool:
        """Takes up to ``count`` elements; true at the end of the iterable."""
        if self._iterator is None:
            self._iterator = iter(self._opened())
        for _ in range(count):
            if self._done:
                return False
            try:
                element = next(self._iterator)
            except StopIteration:
                return True
            if element is None:
                raise null_element("the iterable of the source")
            with self._lock:
                self._arrived.append(element)
                woken, self._woken = self._woken, True
            if not woken:
                self._m.call_from_thread(self._m.call, self._drain)
        return False

    def _close(self, _nothing: object) -> None:
        close = getattr(self._iterator, "close", None)
        if close is not None:
            try:
                close()
            except Exception as error:  # noqa: BLE001 - nobody is subscribed any more
                message = "the iterable of a source failed while it was being closed"
                self._m.call_from_thread(self._m.report, message, error)
