"""One element in, any number out: map_concat."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic

from streams.contract import Subscriber
from streams.errors import FAILURES, null_element
from streams.materialize import Materialization
from streams.publishers.iterable import EMIT_BUDGET, SIZED
from streams.stages.stage import DrainingStage, I, O


class MapConcat(DrainingStage[I, O], Generic[I, O]):
    """Each element becomes any number of elements, emitted as downstream asks for them.

    One element of upstream is asked for at a time, once the results of the one before are out. An endless iterable leaves the loop
    its turns.
    """

    __slots__ = ("_asked", "_budget", "_f", "_m", "_results", "_sized")

    def __init__(
        self,
        downstream: Subscriber[O],
        m: Materialization,
        f: Callable[[I], Iterable[O]],
        name: str = "map_concat",
    ) -> None:
        super().__init__(downstream, name)
        self._m = m
        self._f = f
        self._results: Iterator[O] | None = None
        self._sized = False
        self._asked = False
        self._budget = EMIT_BUDGET

    def on_next(self, element: I) -> None:
        """Begins to emit the results for ``element``."""
        if element is None:
            raise null_element(self._name)
        self._asked = False
        if self._done:
            return
        try:
            results = self._f(element)
            self._results = iter(results)
            self._sized = type(results) in SIZED
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._f, element)
            return
        self._drain()

    def _last_results(self) -> Iterator[O] | None:
        """What comes after the last element, the first time it is asked for; for subclasses that keep something back."""
        return None

    def _dropped(self) -> None:
        self._drain()

    def _finish(self) -> None:
        super()._finish()
        self._results = None

    def _drain(self) -> None:
        """Emits while there are demand and results; a call from within only leaves its mark, so the stack stays flat."""
        if self._busy:
            return
        self._busy = True
        while not self._done:
            if self._results is not None:
                self._emit(self._results)
                if not self._budget:
                    self._m.loop.call_soon(self._m.call, self._next_turn)
                    return
                if self._results is not None:
                    break  # no demand
            elif self._completed:
                self._results = self._last_results()
                if self._results is None:
                    self._drained()
            elif self._demand and not self._asked:
                self._asked = True
                self._upstream.request(1)
            else:
                break
        self._busy = False

    def _next_turn(self) -> None:
        self._budget = EMIT_BUDGET
        self._busy = False
        self._drain()

    def _emit(self, results: Iterator[O]) -> None:
        """Emits from ``results`` under demand and budget; lets go of them when they are out."""
        advance = results.__next__
        while batch := min(self._demand, self._budget):
            # Taken before, and given back after: a counter in the object for each element would cost as much as the element.
            self._demand -= batch
            self._budget -= batch
            left = self._emit_batch(advance, batch)
            if left:
                self._demand += left
                self._budget += left
                return
        if self._sized and results.__length_hint__() == 0:  # type: ignore[attr-defined]  # SIZED iterators have it
            self._results = None

    def _emit_batch(self, advance: Callable[[], O], batch: int) -> int:
        """Emits up to ``batch`` results; returns how many it did not, because they are out or the stage has ended."""
        for left in range(batch, 0, -1):
            try:
                result = advance()
            except StopIteration:
                self._results = None
                return left
            except FAILURES as error:  # the iterable is user code
                self._results = None
                self._function_failed(error, self._f)
                return left
            if result is None:
                self._results = None
                self._function_failed(null_element("the iterable has given None"), self._f)
                return left
            self._push(result)
            if self._done:
                return left
        return 0
