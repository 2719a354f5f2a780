"""Operators that look at one element at a time: all fused, none holds more than its own state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import FAILURES, null_element
from streams.materialize import Materialization
from streams.plain import truth
from streams.stages.stage import OVER, ControlledStage, I, O, Stage

T = TypeVar("T")


class Take(ControlledStage[T, T], Generic[T]):
    """The first ``count``; never asks upstream for more than that, and completes with the last, not after it."""

    __slots__ = ("_left", "_unasked")

    def __init__(self, downstream: Subscriber[T], count: int) -> None:
        super().__init__(downstream, "take")
        self._left = count
        self._unasked = count

    def on_next(self, element: T) -> None:
        """Passes on one of the first ``count``."""
        if element is None:
            raise null_element(self._name)
        self._left -= 1
        if self._left > 0:
            self._push(element)
        elif not self._done:
            # The end is decided before the push, so that what the push causes finds it decided; it is signalled after.
            push = self._push
            self._upstream.cancel()
            push(element)
            if not self._done:
                self._finish()
                self._downstream.on_complete()

    def _subscribed(self) -> None:
        super()._subscribed()
        if self._left < 1:
            self._complete_early()

    def _demanded(self, n: int) -> None:
        asked = min(n, self._unasked)
        if asked:
            self._unasked -= asked
            self._upstream.request(asked)


class TakeWhile(Stage[T, T], Generic[T]):
    """Elements up to the first that the predicate rejects."""

    __slots__ = ("_inclusive", "_predicate")

    def __init__(self, downstream: Subscriber[T], predicate: Callable[[T], object], inclusive: bool) -> None:
        super().__init__(downstream, "take_while")

        def first_answer(element: T) -> bool:
            self._predicate = predicate  # a check of every answer would be felt
            return truth(predicate(element))

        self._predicate = first_answer
        self._inclusive = inclusive

    def on_next(self, element: T) -> None:
        """Passes ``element`` on or ends the stream."""
        if element is None:
            raise null_element(self._name)
        try:
            keep = self._predicate(element)
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._predicate, element)
            return
        if keep:
            self._push(element)
            return
        if not self._inclusive:
            if (passed_by := getattr(type(element), "__passed_by__", None)) is not None:
                passed_by(element)  # it may be somebody's to know that nothing was done with it
            self._complete_early()
        elif not self._done:
            # As in Take: decided before the push, signalled after it.
            push = self._push
            self._upstream.cancel()
            push(element)
            self._finish()
            self._downstream.on_complete()


class Drop(Stage[T, T], Generic[T]):
    """All but the first ``count``; each dropped one is replaced in the demand."""

    __slots__ = ("_left",)

    def __init__(self, downstream: Subscriber[T], count: int) -> None:
        super().__init__(downstream, "drop")
        self._left = count

    def on_next(self, element: T) -> None:
        """Drops ``element`` or passes it on."""
        if element is None:
            raise null_element(self._name)
        if self._left:
            self._left -= 1
            self._upstream.request(1)
        else:
            self._push(element)


class DropWhile(Stage[T, T], Generic[T]):
    """Elements from the first that the predicate rejects; each dropped one is replaced in the demand."""

    __slots__ = ("_open", "_predicate")

    def __init__(self, downstream: Subscriber[T], predicate: Callable[[T], object]) -> None:
        super().__init__(downstream, "drop_while")
        self._predicate = predicate
        self._open = False

    def on_next(self, element: T) -> None:
        """Drops ``element`` or passes it on."""
        if element is None:
            raise null_element(self._name)
        if self._open:
            self._push(element)
            return
        try:
            drop = self._predicate(element)
            if drop is not True:
                drop = truth(drop)
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._predicate, element)
            return
        if drop:
            self._upstream.request(1)
        else:
            self._open = True
            self._push(element)


class ZipWithIndex(Stage[T, tuple[T, int]], Generic[T]):
    """Each element with its number, counted from 0."""

    __slots__ = ("_count",)

    def __init__(self, downstream: Subscriber[tuple[T, int]]) -> None:
        super().__init__(downstream, "zip_with_index")
        self._count = 0

    def on_next(self, element: T) -> None:
        """Passes on ``element`` with its number."""
        if element is None:
            raise null_element(self._name)
        count = self._count
        self._count = count + 1
        self._push((element, count))


class Scan(ControlledStage[I, O], Generic[I, O]):
    """The zero, then the result of each step; the zero answers the first request."""

    __slots__ = ("_completed", "_f", "_m", "_opened", "_opening", "_state", "_zero")

    def __init__(self, downstream: Subscriber[O], m: Materialization, zero: O, f: Callable[[O, I], O]) -> None:
        super().__init__(downstream, "scan")
        self._m = m
        self._zero = zero
        self._state = zero
        self._f = f
        self._opening = False
        self._opened = False
        self._completed = False

    def on_next(self, element: I) -> None:
        """Passes on the next state."""
        if element is None:
            raise null_element(self._name)
        try:
            state = self._f(self._state, element)
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._f, element)
            return
        if state is None:
            self._function_failed(null_element("the function has returned None"), self._f)
            return
        self._state = state
        self._push(state)

    def on_complete(self) -> None:
        """Ends, but not before the zero is out."""
        self._completed = True
        self._upstream = OVER
        if self._opened:
            super().on_complete()

    def _demanded(self, n: int) -> None:
        if self._opened:
            self._upstream.request(n)
        elif not self._opening:
            # In the loop's next turn, when the whole graph is together, as every source begins.
            self._opening = True
            self._m.loop.call_soon(self._m.call, self._open)

    def _open(self) -> None:
        """Emits the zero, then asks for the rest of what downstream has asked for by then."""
        self._push(self._state)
        self._opened = True
        if self._completed:
            super().on_complete()
        elif self._demand > 1 and not self._done:
            self._upstream.request(self._demand - 1)

    def _restarted(self) -> None:
        """Begins anew with the zero, which takes the element's place in the demand."""
        self._state = self._zero
        self._push(self._zero)
