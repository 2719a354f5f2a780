"""Sinks that keep some of the elements: the first, the last, the last few, or one made of all."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Any, Generic

from streams.errors import FAILURES, EmptyStreamError, null_element
from streams.materialize import Materialization
from streams.stages.stage import NONE, I, describe
from streams.subscribers.sinks import SinkSubscriber


class Head(SinkSubscriber[I, I], Generic[I]):
    """The first element; upstream is cancelled then, having been asked for one.

    Args:
        m: the run.
        default: the result if there is no element; without it that is an error.
    """

    __slots__ = ("_default",)

    name = "head"

    def __init__(self, m: Materialization, default: Any = NONE) -> None:
        super().__init__(m)
        self._default = default

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
        default: I = _unless_missing(self._default, self.name)
        return default


class Last(SinkSubscriber[I, I], Generic[I]):
    """The last element.

    Args:
        m: the run.
        default: the result if there is no element; without it that is an error.
    """

    __slots__ = ("_element",)

    name = "last"

    def __init__(self, m: Materialization, default: Any = NONE) -> None:
        super().__init__(m)
        self._element: I = default

    def on_next(self, element: I) -> None:
        """The result so far."""
        if element is None:
            raise null_element(self.name)
        self._element = element

    def _result(self) -> I:
        last: I = _unless_missing(self._element, self.name)
        return last


class TakeLast(SinkSubscriber[I, list[I]], Generic[I]):
    """The last ``count`` elements in a list."""

    __slots__ = ("_elements",)

    name = "take_last"

    def __init__(self, m: Materialization, count: int) -> None:
        super().__init__(m)
        self._elements: deque[I] = deque(maxlen=min(count, sys.maxsize))

    def on_next(self, element: I) -> None:
        """Keeps one, in place of the oldest."""
        if element is None:
            raise null_element(self.name)
        self._elements.append(element)

    def _result(self) -> list[I]:
        return list(self._elements)


class Reduce(SinkSubscriber[I, I], Generic[I]):
    """Reduces all elements to one, beginning with the first."""

    __slots__ = ("_f", "_state", "_step")

    name = "reduce"

    def __init__(self, m: Materialization, f: Callable[[I, I], I]) -> None:
        super().__init__(m)
        self._state: I = NONE
        self._f = f
        self._step: Callable[[I, I], I] = lambda _nothing, first: first

    def on_next(self, element: I) -> None:
        """One step; the first element is where it begins."""
        if element is None:
            raise null_element(self.name)
        try:
            self._state = self._step(self._state, element)
        except FAILURES as error:  # whatever user code raises is the stream's failure
            self._fail(error, describe(self.name, self._f))
            return
        self._step = self._f

    def _result(self) -> I:
        state: I = _unless_missing(self._state, self.name)
        return state

    def _stop(self) -> None:
        state = self._state
        self._f = lambda _state, _element: state
        self._step = self._f


def _unless_missing(element: Any, sink: str) -> Any:
    if element is NONE:
        raise EmptyStreamError(f"Sink.{sink}: the stream ended without an element")
    return element
