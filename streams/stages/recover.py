"""What stands in for a failure: a last element, another source, another failure, or the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from streams.contract import Subscriber, Subscription
from streams.errors import FAILURES, null_element
from streams.materialize import Materialization
from streams.plain import plain, truth
from streams.shapes import SourceLike
from streams.stages.inner import Inner
from streams.stages.stage import NONE, OVER, ControlledStage, PassingStage, describe

T = TypeVar("T")


class Recover(ControlledStage[T, T], Generic[T]):
    """Ends with one more element in place of the failure; the function returns None to let the failure pass."""

    __slots__ = ("_f", "_last")

    def __init__(self, downstream: Subscriber[T], f: Callable[[BaseException], T | None]) -> None:
        super().__init__(downstream, "recover")
        self._f = f
        self._last: T = NONE

    def on_next(self, element: T) -> None:
        """Passes on ``element``."""
        if element is None:
            raise null_element(self._name)
        self._demand -= 1
        self._push(element)

    def _failed(self, error: BaseException) -> None:
        try:
            last = plain(self._f(error))
        except FAILURES as failure:  # whatever user code raises goes down the stream
            super()._failed(explained(failure, error, self._name, self._f))
            return
        if last is None:
            super()._failed(error)
            return
        self._last = last
        self._upstream = OVER
        self._emit_last()

    def _demanded(self, n: int) -> None:
        if self._last is NONE:
            self._upstream.request(n)
        else:
            self._emit_last()

    def _emit_last(self) -> None:
        if self._demand and not self._done:
            push, downstream = self._push, self._downstream
            last, self._last = self._last, NONE
            self._finish()
            push(last)
            downstream.on_complete()


class RecoverWith(ControlledStage[T, T], Generic[T]):
    """Goes on with another source in place of a failed one, ``attempts`` times; without limit if that is negative."""

    __slots__ = ("_attempts", "_f", "_inner", "_m")

    def __init__(
        self,
        downstream: Subscriber[T],
        m: Materialization,
        attempts: int,
        f: Callable[[BaseException], SourceLike[T] | None],
    ) -> None:
        super().__init__(downstream, "recover_with")
        self._m = m
        self._attempts = attempts
        self._f = f
        self._inner: Inner[T] | None = None

    def on_next(self, element: T) -> None:
        """Passes on ``element``."""
        if element is None:
            raise null_element(self._name)
        self._demand -= 1
        self._push(element)

    def inner_subscribed(self, subscription: Subscription) -> None:
        """The source in place of the one that failed is there."""
        self._upstream = subscription
        if self._demand:
            subscription.request(self._demand)

    def inner_next(self, element: T) -> None:
        """Passes on ``element``."""
        self._demand -= 1
        self._push(element)

    def inner_ended(self, error: BaseException | None) -> None:
        """That source has ended, too."""
        if error is None:
            self.on_complete()
        else:
            self.on_error(error)

    def _demanded(self, n: int) -> None:
        self._upstream.request(n)

    def _failed(self, error: BaseException) -> None:
        if not self._attempts:
            super()._failed(error)
            return
        self._attempts -= 1
        try:
            source = self._f(error)
        except FAILURES as failure:  # whatever user code raises goes down the stream
            super()._failed(explained(failure, error, self._name, self._f))
            return
        if source is None:
            super()._failed(error)
            return
        if not hasattr(source, "create"):
            wrong = TypeError(f"recover_with: the function must return a source or None, not {type(source).__name__}")
            super()._failed(explained(wrong, error, self._name, self._f))
            return
        # In a turn of its own: a source that fails on the spot, any number of times, neither nests calls nor holds up the loop.
        self._upstream = OVER
        self._m.loop.call_soon(self._m.call, self._go_on_with, source)

    def _go_on_with(self, source: SourceLike[T]) -> None:
        if not self._done:
            self._inner = Inner(self, self._m, self._name)
            self._inner.open(lambda part: source.create(part)[0])

    def _finish(self) -> None:
        super()._finish()
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.cancel()


class MapError(PassingStage[T], Generic[T]):
    """Another failure in place of the one that comes; the function returns None to let it pass."""

    __slots__ = ("_f",)

    def __init__(self, downstream: Subscriber[T], f: Callable[[BaseException], BaseException | None]) -> None:
        super().__init__(downstream, "map_error")
        self._f = f

    def _failed(self, error: BaseException) -> None:
        try:
            other = self._f(error)
            if other is not None and not isinstance(other, BaseException):
                raise TypeError(f"map_error: the function must return an exception or None, not {type(other).__name__}")
        except FAILURES as failure:  # whatever user code raises goes down the stream
            super()._failed(explained(failure, error, self._name, self._f))
            return
        if other is None or other is error:
            super()._failed(error)
            return
        if other.__cause__ is None:
            other.__cause__ = error
        super()._failed(other)


class OnErrorComplete(PassingStage[T], Generic[T]):
    """The end in place of those failures that the predicate accepts."""

    __slots__ = ("_predicate",)

    def __init__(self, downstream: Subscriber[T], predicate: Callable[[BaseException], object]) -> None:
        super().__init__(downstream, "on_error_complete")
        self._predicate = predicate

    def _failed(self, error: BaseException) -> None:
        try:
            accepted = truth(self._predicate(error))
        except FAILURES as failure:  # whatever user code raises goes down the stream
            super()._failed(explained(failure, error, self._name, self._predicate))
            return
        if accepted:
            self._finish()
            self._downstream.on_complete()
        else:
            super()._failed(error)


def explained(failure: BaseException, error: BaseException, name: str, function: object) -> BaseException:
    """``failure`` of the user's ``function`` while it dealt with ``error``: with that as its context, and a note of where."""
    if failure.__context__ is None and failure is not error:
        failure.__context__ = error
    failure.add_note(f"in the stage {describe(name, function)}")
    return failure
