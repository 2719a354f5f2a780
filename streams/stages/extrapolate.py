"""expand and extrapolate: a downstream that is faster than upstream gets more than there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic

from streams.contract import Subscriber
from streams.errors import FAILURES, null_element
from streams.materialize import Materialization
from streams.publishers.iterable import EMIT_BUDGET
from streams.stages.stage import NONE, DrainingStage, I, O


class Expand(DrainingStage[I, O], Generic[I, O]):
    """For each element an iterable, of which downstream gets as much as it asks for until the next element comes.

    Of each iterable at least one element is emitted; the next element is asked for when that is out, so one is held at most. An endless
    iterable under unbounded demand leaves the loop its turns.

    Args:
        downstream: where the elements of the iterables go.
        m: the run.
        f: gives the iterable for an element.
        name: names it in failures.
        initial: taken for an element that is there from the start.
    """

    __slots__ = ("_asked", "_budget", "_f", "_fresh", "_initial", "_m", "_results", "_scheduled")

    def __init__(
        self,
        downstream: Subscriber[O],
        m: Materialization,
        f: Callable[[I], Iterable[O]],
        name: str = "expand",
        initial: I = NONE,
    ) -> None:
        super().__init__(downstream, name)
        self._m = m
        self._f = f
        self._initial = initial
        self._results: Iterator[O] | None = None
        self._fresh = False
        """Nothing of ``_results`` has been emitted yet."""
        self._asked = False
        self._budget = EMIT_BUDGET
        self._scheduled = False

    def on_next(self, element: I) -> None:
        """Takes up ``element`` in the place of the one before."""
        if element is None:
            raise null_element(self._name)
        self._asked = False
        if self._done:
            return
        try:
            self._results = iter(self._f(element))
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._f)
            return
        self._fresh = True
        self._drain(upstream_waits=True)

    def _subscribed(self) -> None:
        if self._initial is NONE:
            super()._subscribed()
            self._drain()
            return
        # The initial element comes before anything is asked for, and in the loop's next turn, when the whole graph is together.
        self._busy = True
        self._m.loop.call_soon(self._m.call, self._begin)
        super()._subscribed()

    def _begin(self) -> None:
        """Takes up the initial element, and only then what was signalled before."""
        self._busy = False
        initial, self._initial = self._initial, NONE
        self.on_next(initial)

    def _drain(self, upstream_waits: bool = False) -> None:
        """Emits what there is for the demand; a call from within only leaves its mark, so the stack stays flat.

        Args:
            upstream_waits: it is upstream that calls, and may have more at hand: that goes before more of the same, which is left to the
                loop's next turn.
        """
        if self._busy:
            return
        self._busy = True
        while not self._done:
            if self._fresh:
                if not self._demand:
                    break
                self._emit()
            elif self._completed:
                self._drained()
            elif not self._asked:
                self._asked = True
                self._upstream.request(1)
            elif self._results is None or not self._demand:
                break
            elif upstream_waits or not self._budget:
                if not self._scheduled:
                    self._scheduled = True
                    self._m.loop.call_soon(self._m.call, self._next_turn)
                break
            else:
                self._budget -= 1
                self._emit()
        self._busy = False

    def _next_turn(self) -> None:
        self._scheduled = False
        self._budget = EMIT_BUDGET
        self._drain()

    def _emit(self) -> None:
        """Emits one of what there is; lets go of it if there is none."""
        results = self._results
        assert results is not None, "emitted from what is there"
        self._fresh = False
        try:
            result = next(results, NONE)
        except FAILURES as error:  # the iterable is user code
            self._results = None
            self._function_failed(error, self._f)
            return
        if result is NONE:
            self._results = None
            return
        if result is None:
            self._results = None
            self._function_failed(null_element("the iterable has given None"), self._f)
            return
        self._demand -= 1
        self._push(result)

    def _dropped(self) -> None:
        self._drain()

    def _finish(self) -> None:
        super()._finish()
        self._results = None
        self._fresh = False
