"""intersperse: elements of the stream's own before, between and after those of upstream."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import null_element
from streams.stages.stage import NONE, DrainingStage

T = TypeVar("T")


class Intersperse(DrainingStage[T, T], Generic[T]):
    """``start``, then the elements with ``separator`` between them, then ``end``; start and end come also where there is no element.

    Args:
        downstream: where all that goes.
        separator: between two elements.
        start: before the first; `NONE` for nothing.
        end: after the last; `NONE` for nothing.
    """

    __slots__ = ("_asked", "_begun", "_end", "_separator", "_start", "_waiting")

    def __init__(self, downstream: Subscriber[T], separator: T, start: T, end: T) -> None:
        super().__init__(downstream, "intersperse")
        self._separator = separator
        self._end = end
        self._start = start
        self._begun = False
        self._waiting: deque[T] = deque()
        """At most three: what has been decided on and not been asked for."""
        self._asked = False

    def on_next(self, element: T) -> None:
        """Passes on ``element`` behind what goes before it."""
        if element is None:
            raise null_element(self._name)
        self._asked = False
        if self._done:
            return
        if self._begun:
            self._waiting.append(self._separator)
        else:
            self._begin()
        self._waiting.append(element)
        self._drain()

    def on_complete(self) -> None:
        """Ends once what goes after the last element is out."""
        if self._completed or self._done:
            return
        if not self._begun:
            self._begin()
        if self._end is not NONE:
            self._waiting.append(self._end)
        super().on_complete()

    def _begin(self) -> None:
        self._begun = True
        if self._start is not NONE:
            self._waiting.append(self._start)

    def _drain(self) -> None:
        """Emits what waits under demand, then asks for more; a call from within only leaves its mark."""
        if self._busy:
            return
        self._busy = True
        waiting = self._waiting
        while not self._done:
            if waiting:
                if not self._demand:
                    break
                self._demand -= 1
                self._push(waiting.popleft())
            elif self._completed:
                self._drained()
            elif self._demand and not self._asked:
                self._asked = True
                self._upstream.request(1)
            else:
                break
        self._busy = False

    def _finish(self) -> None:
        super()._finish()
        self._waiting.clear()
