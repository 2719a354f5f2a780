"""The subscribers at the end of a stream. Those that take everything ask once, without bound, and cost nothing but their work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar

from streams.contract import UNBOUNDED, Publisher, Subscriber, Subscription
from streams.errors import EmptyStreamError, LimitExceededError, null_element, storable
from streams.materialize import Materialization
from streams.stages.stage import UNSUBSCRIBED, I, describe, discard

A = TypeVar("A")
M = TypeVar("M")
MISSING: Final[Any] = object()
"""No element yet."""


class Acknowledgeable(Protocol):
    """What `Sink.acknowledge` takes: a delivery, say."""

    def acknowledge(self) -> None:
        """Says that this element has been dealt with."""
        ...


class SinkSubscriber(Subscriber[I], Generic[I, M]):
    """A sink at work: subscribes, requests, and resolves its future. Subclasses give ``on_next`` and `_result`.

    Attributes:
        future: done when the sink is done.
    """

    __slots__ = ("_subscription", "future")

    name = "sink"

    def __init__(self, m: Materialization) -> None:
        self.future: asyncio.Future[M] = m.loop.create_future()
        self._subscription: Subscription = UNSUBSCRIBED
        m.on_cancel(self.cancel)

    def on_subscribe(self, subscription: Subscription) -> None:
        """Makes the first request; a second subscription is cancelled (2.5)."""
        if subscription is None:
            raise null_element(self.name)
        if self._subscription is not UNSUBSCRIBED or self.future.done():
            subscription.cancel()
            return
        self._subscription = subscription
        subscription.request(self._first_request())

    def on_error(self, error: BaseException) -> None:
        """The stream's failure is the sink's."""
        if error is None:
            raise null_element(self.name)
        if not self.future.done():
            self._stop()
            self.future.set_exception(storable(error))

    def on_complete(self) -> None:
        """The stream's end is the sink's result."""
        if self.future.done():
            return
        try:
            result = self._result()
        except Exception as error:  # noqa: BLE001 - a sink that has no result says so through its future
            self.on_error(error)
            return
        self._finish(result)

    def cancel(self) -> None:
        """Takes nothing more; the future is cancelled."""
        if not self.future.done():
            self._stop()
            self.future.cancel()
            self._subscription.cancel()

    def _first_request(self) -> int:
        return UNBOUNDED

    def _result(self) -> M:
        raise NotImplementedError

    def _stop(self) -> None:
        """Makes ``on_next`` harmless: elements may still be on their way (2.8). Called once."""

    def _finish(self, result: M) -> None:
        self._stop()
        self.future.set_result(result)

    def _fail(self, error: BaseException, where: str) -> None:
        """Ends the sink with a failure of its own."""
        error.add_note(f"in the sink {where}")
        self._subscription.cancel()
        self.on_error(error)


def attach(publisher: Publisher[I], subscriber: SinkSubscriber[I, M]) -> asyncio.Future[M]:
    """Subscribes a sink and returns its future."""
    publisher.subscribe(subscriber)
    return subscriber.future


class Foreach(SinkSubscriber[I, int], Generic[I]):
    """Calls a function with each element; the result is how many there were."""

    __slots__ = ("_count", "_f")

    name = "foreach"

    def __init__(self, m: Materialization, f: Callable[[I], object]) -> None:
        super().__init__(m)
        self._f = f
        self._count = 0

    def on_next(self, element: I) -> None:
        """One call."""
        if element is None:
            raise null_element(self.name)
        try:
            self._f(element)
        except Exception as error:  # noqa: BLE001 - whatever user code raises is the stream's failure
            self._fail(error, describe(self.name, self._f))
            return
        self._count += 1

    def _result(self) -> int:
        return self._count

    def _stop(self) -> None:
        self._f = discard


class Acknowledge(SinkSubscriber[Acknowledgeable, int]):
    """Acknowledges each element; the result is how many there were."""

    __slots__ = ("_count",)

    name = "acknowledge"

    def __init__(self, m: Materialization) -> None:
        super().__init__(m)
        self._count = 0

    def on_next(self, element: Acknowledgeable) -> None:
        """One acknowledgement."""
        try:
            element.acknowledge()
        except Exception as error:  # noqa: BLE001 - whatever the element raises is the stream's failure
            if element is None:
                raise null_element(self.name) from None
            self._fail(self._explain(element, error), self.name)
            return
        self._count += 1

    @staticmethod
    def _explain(element: object, error: Exception) -> Exception:
        if not isinstance(error, AttributeError) or hasattr(element, "acknowledge"):
            return error
        return TypeError(
            f"Sink.acknowledge got {type(element).__name__}, which has no acknowledge(): "
            "the stage before it must return the delivery it was given"
        )

    def _result(self) -> int:
        return self._count


class Collect(SinkSubscriber[I, list[I]], Generic[I]):
    """All elements in a list of at most ``limit``."""

    __slots__ = ("_elements", "_limit")

    name = "collect"

    def __init__(self, m: Materialization, limit: int) -> None:
        super().__init__(m)
        self._elements: list[I] = []
        self._limit = limit

    def on_next(self, element: I) -> None:
        """Keeps one."""
        if element is None:
            raise null_element(self.name)
        if len(self._elements) < self._limit:
            self._elements.append(element)
        elif not self.future.done():
            self._fail(LimitExceededError(self._limit), self.name)

    def _result(self) -> list[I]:
        return self._elements


class Fold(SinkSubscriber[I, A], Generic[I, A]):
    """Reduces all elements to one value."""

    __slots__ = ("_f", "_state")

    name = "fold"

    def __init__(self, m: Materialization, zero: A, f: Callable[[A, I], A]) -> None:
        super().__init__(m)
        self._state = zero
        self._f = f

    def on_next(self, element: I) -> None:
        """One step."""
        if element is None:
            raise null_element(self.name)
        try:
            self._state = self._f(self._state, element)
        except Exception as error:  # noqa: BLE001 - whatever user code raises is the stream's failure
            self._fail(error, describe(self.name, self._f))

    def _result(self) -> A:
        return self._state

    def _stop(self) -> None:
        state = self._state
        self._f = lambda _state, _element: state


class Ignore(SinkSubscriber[object, None]):
    """Takes everything and keeps nothing."""

    __slots__ = ()

    name = "ignore"

    def on_next(self, element: object) -> None:
        """Nothing."""
        if element is None:
            raise null_element(self.name)

    def _result(self) -> None:
        return None


class Head(SinkSubscriber[I, I], Generic[I]):
    """The first element; upstream is cancelled then, having been asked for one."""

    __slots__ = ()

    name = "head"

    def on_next(self, element: I) -> None:
        """The result."""
        if element is None:
            raise null_element(self.name)
        if not self.future.done():
            self._finish(element)
            self._subscription.cancel()

    def _first_request(self) -> int:
        return 1

    def _result(self) -> I:
        raise EmptyStreamError("Sink.head: the stream ended without an element")


class Last(SinkSubscriber[I, I], Generic[I]):
    """The last element."""

    __slots__ = ("_element",)

    name = "last"

    def __init__(self, m: Materialization) -> None:
        super().__init__(m)
        self._element: I = MISSING

    def on_next(self, element: I) -> None:
        """The result so far."""
        if element is None:
            raise null_element(self.name)
        self._element = element

    def _result(self) -> I:
        if self._element is MISSING:
            raise EmptyStreamError("Sink.last: the stream ended without an element")
        return self._element


class Watched(SinkSubscriber[I, None], Generic[I]):
    """A subscriber of somebody else's as a sink: done when it has been told the end, or has cancelled."""

    __slots__ = ("_inner",)

    name = "subscriber"

    def __init__(self, m: Materialization, inner: Subscriber[I]) -> None:
        super().__init__(m)
        self._inner = inner

    def on_subscribe(self, subscription: Subscription) -> None:
        """Hands on a subscription of its own, so that it sees the subscriber cancel."""
        if self._subscription is not UNSUBSCRIBED or self.future.done():
            subscription.cancel()
            return
        self._subscription = subscription
        self._inner.on_subscribe(_Link(self))

    def on_next(self, element: I) -> None:
        """Hands on one."""
        self._inner.on_next(element)

    def on_error(self, error: BaseException) -> None:
        """Hands on the failure, which is the sink's as well."""
        if not self.future.done():
            super().on_error(error)
            self._inner.on_error(error)

    def on_complete(self) -> None:
        """Hands on the end."""
        if not self.future.done():
            super().on_complete()
            self._inner.on_complete()

    def request(self, n: int) -> None:
        """The subscriber's demand."""
        self._subscription.request(n)

    def leave(self) -> None:
        """The subscriber has cancelled: a sink that wants no more is done."""
        if not self.future.done():
            self._finish(None)
        self._subscription.cancel()

    def _result(self) -> None:
        return None


class _Link(Subscription):
    """The subscription a watched subscriber holds."""

    __slots__ = ("_watched",)

    def __init__(self, watched: Watched[Any]) -> None:
        self._watched = watched

    def request(self, n: int) -> None:
        """As asked."""
        self._watched.request(n)

    def cancel(self) -> None:
        """Seen, and passed on."""
        self._watched.leave()
