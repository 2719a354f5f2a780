"""The subscribers at the end of a stream. Those that take everything ask once, without bound, and cost nothing but their work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from streams.contract import UNBOUNDED, Publisher, Subscriber, Subscription
from streams.errors import FAILURES, LimitExceededError, null_element, storable
from streams.materialize import Materialization
from streams.stages.fused import InlineEnd
from streams.stages.stage import UNSUBSCRIBED, I, describe, discard
from streams.supervision import dealt_with

A = TypeVar("A")
M = TypeVar("M")


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
        self._subscribed()

    def _subscribed(self) -> None:
        self._subscription.request(self._first_request())

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
        except FAILURES as error:  # a sink that has no result says so through its future
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
    inline_end = InlineEnd(
        "foreach", enter="count = 0; f = sink._f", each="f(x)\ncount += 1", leave="sink._count += count"
    )

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
        except FAILURES as error:  # whatever user code raises is the stream's failure, or its element's
            self.inline_failed(error, element)
            return
        self._count += 1

    def inline_failed(self, error: BaseException, element: I) -> None:
        """The function has raised, given ``element``."""
        try:
            dealt = not self.future.done() and dealt_with(element, error)
        except FAILURES as fault:
            error, dealt = fault, False
        if not dealt:
            self._fail(error, describe(self.name, self._f))

    def _result(self) -> int:
        return self._count

    def _stop(self) -> None:
        self._f = discard


class Acknowledge(SinkSubscriber[Acknowledgeable, int]):
    """Acknowledges each element; the result is how many there were."""

    __slots__ = ("_count", "_stopped")

    name = "acknowledge"

    def __init__(self, m: Materialization) -> None:
        super().__init__(m)
        self._count = 0
        self._stopped = False

    def on_next(self, element: Acknowledgeable) -> None:
        """One acknowledgement; none for what was still on its way when the sink was over: it has not been dealt with."""
        if self._stopped and element is not None:
            return
        try:
            element.acknowledge()
        except FAILURES as error:  # whatever the element raises is the stream's failure
            if element is None:
                raise null_element(self.name) from None
            self._fail(self._explain(element, error), self.name)
            return
        self._count += 1

    @staticmethod
    def _explain(element: object, error: BaseException) -> BaseException:
        if not isinstance(error, AttributeError) or hasattr(element, "acknowledge"):
            return error
        return TypeError(
            f"Sink.acknowledge got {type(element).__name__}, which has no acknowledge(): "
            "the stage before it must return the delivery it was given"
        )

    def _result(self) -> int:
        return self._count

    def _stop(self) -> None:
        self._stopped = True


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
    inline_end = InlineEnd(
        "fold", enter="state = sink._state; f = sink._f", each="state = f(state, x)", leave="sink._state = state"
    )

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
        except FAILURES as error:  # whatever user code raises is the stream's failure
            self.inline_failed(error, element)

    def inline_failed(self, error: BaseException, element: I) -> None:  # noqa: ARG002 - without its element the state is another
        """The function has raised."""
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
    inline_end = InlineEnd("ignore", enter="pass", each="", leave="pass")

    def on_next(self, element: object) -> None:
        """Nothing."""
        if element is None:
            raise null_element(self.name)

    def _result(self) -> None:
        return None


class Cancelled(Ignore):
    """Cancels its subscription at once."""

    __slots__ = ()

    name = "cancelled"

    def on_subscribe(self, subscription: Subscription) -> None:
        """Cancels, the first subscription like any other."""
        if subscription is None:
            raise null_element(self.name)
        if not self.future.done():
            self._subscription = subscription
            self._finish(None)
        subscription.cancel()


class OnComplete(Ignore):
    """Takes everything, and calls a function once with how the stream ended."""

    __slots__ = ("_callback", "_m")

    name = "on_complete"

    def __init__(self, m: Materialization, callback: Callable[[BaseException | None], object]) -> None:
        super().__init__(m)
        self._m = m
        self._callback = callback

    def on_error(self, error: BaseException) -> None:
        """Tells the failure."""
        if error is None:
            raise null_element(self.name)
        if not self.future.done():
            callback = self._callback
            super().on_error(error)
            self._tell(callback, error)

    def cancel(self) -> None:
        """Tells of the cancellation."""
        if not self.future.done():
            callback = self._callback
            super().cancel()
            self._tell(callback, asyncio.CancelledError("the stream was cancelled"))

    def _result(self) -> None:
        callback, self._callback = self._callback, discard
        try:
            callback(None)
        except FAILURES as error:
            error.add_note(f"in the sink {describe(self.name, callback)}")
            raise

    def _stop(self) -> None:
        self._callback = discard

    def _tell(self, callback: Callable[[BaseException | None], object], error: BaseException) -> None:
        """Calls ``callback``; how the stream ended is settled, so a fault of the function is only reported."""
        try:
            callback(error)
        except FAILURES as fault:  # see above
            self._m.report(f"{describe(self.name, callback)} failed", fault)
