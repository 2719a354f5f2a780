"""Stages that have an element of their own for the end: fold, reduce, and what stateful_map says last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from streams.contract import UNBOUNDED, Subscriber
from streams.errors import FAILURES, EmptyStreamError, null_element
from streams.stages.stage import NONE, OVER, ControlledStage, I, O, describe

S = TypeVar("S")
T = TypeVar("T")


class LastElementStage(ControlledStage[I, O], Generic[I, O]):
    """A stage that can end with an element of its own, which waits for demand like any other."""

    __slots__ = ("_failure", "_last")

    def __init__(self, downstream: Subscriber[O], name: str) -> None:
        super().__init__(downstream, name)
        self._last: O = NONE
        self._failure: BaseException | None = None

    def _end_with(self, last: O, failure: BaseException | None = None) -> None:
        """Upstream has ended: ``last`` is all that is still to come before the end, or before ``failure``."""
        self._last = last
        self._failure = failure
        self._upstream = OVER
        self._emit_last()

    def _emit_last(self) -> None:
        if self._demand and not self._done:
            last, self._last = self._last, NONE
            self._push(last)
            if not self._done:
                self._end()

    def _end(self) -> None:
        """The last signal."""
        self._finish()
        if self._failure is None:
            self._downstream.on_complete()
        else:
            self._downstream.on_error(self._failure)

    def _finish(self) -> None:
        super()._finish()
        self._last = NONE


def _ignore(state: S, _element: Any) -> S:
    """Takes the function's place at the end: elements still on their way change nothing, and no check of that is needed for each."""
    return state


class Fold(LastElementStage[I, O], Generic[I, O]):
    """The state after the last element. All of upstream is asked for with the first request, as nothing is held but the state."""

    __slots__ = ("_asked", "_f", "_state", "_zero")

    def __init__(self, downstream: Subscriber[O], zero: O, f: Callable[[O, I], O], name: str = "fold") -> None:
        super().__init__(downstream, name)
        self._zero = zero
        self._state = zero
        self._f = f
        self._asked = False

    def on_next(self, element: I) -> None:
        """Makes the next state of ``element``."""
        if element is None:
            raise null_element(self._name)
        try:
            state = self._f(self._state, element)
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._f)
            return
        if state is None:
            self._function_failed(null_element("the function has returned None"), self._f)
            return
        self._state = state

    def on_complete(self) -> None:
        """Ends with the state."""
        if not self._done:
            self._end_with(self._state)

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - one element is all that can be asked for
        if self._last is not NONE:
            self._emit_last()
        elif not self._asked:
            self._asked = True
            self._upstream.request(UNBOUNDED)

    def _dropped(self) -> None:
        """Demand is without bound: nothing needs to be asked for in the place of an element that is left out."""

    def _reset(self) -> None:
        self._state = self._zero

    def _finish(self) -> None:
        super()._finish()
        self._zero = self._state = NONE
        self._f = _ignore


class Reduce(Fold[T, T], Generic[T]):
    """The state after the last element, the first element being the first state."""

    __slots__ = ()

    def __init__(self, downstream: Subscriber[T], f: Callable[[T, T], T]) -> None:
        super().__init__(downstream, NONE, f, "reduce")

    def on_next(self, element: T) -> None:
        """Makes the next state of ``element``."""
        if self._state is not NONE or element is None:
            super().on_next(element)
        elif not self._done:
            self._state = element

    def on_complete(self) -> None:
        """Ends with the state; without one there is nothing to end with."""
        if self._state is NONE and not self._done:
            self._failed(EmptyStreamError("reduce() saw no element before the end; fold() has a zero for that"))
        else:
            super().on_complete()


class StatefulMap(LastElementStage[I, O], Generic[I, S, O]):
    """Maps elements with a state that is made anew for each run.

    Args:
        downstream: where its output goes.
        create: gives the first state.
        f: gives the next state and what comes out, for the state and an element.
        on_complete: called once at the end, whatever that is, with the state; what it returns, unless that is None, comes last.
    """

    __slots__ = ("_create", "_f", "_live", "_on_complete", "_report", "_state")

    def __init__(
        self,
        downstream: Subscriber[O],
        create: Callable[[], S],
        f: Callable[[S, I], tuple[S, O]],
        on_complete: Callable[[S], O | None] | None,
        report: Callable[[str, BaseException], None],
    ) -> None:
        super().__init__(downstream, "stateful_map")
        self._create = create
        self._f = f
        self._on_complete = on_complete
        self._report = report
        self._state: S = NONE
        self._live = False

    def on_next(self, element: I) -> None:
        """Passes on what the function makes of the state and ``element``."""
        if element is None:
            raise null_element(self._name)
        if self._done:
            return
        try:
            self._state, result = self._f(self._state, element)
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._f)
            return
        if result is None:
            self._function_failed(null_element("the function has returned None"), self._f)
            return
        self._demand -= 1
        self._push(result)

    def on_complete(self) -> None:
        """Ends with what the state says last."""
        if self._done or not self._live:
            return
        try:
            last = self._last_words()
        except FAILURES as error:  # as above
            error.add_note(f"in the stage {describe(self._name, self._on_complete)}")
            self._failed(error)
            return
        if last is None:
            super().on_complete()
        else:
            self._end_with(last)

    def _subscribed(self) -> None:
        failure = self._start()
        super()._subscribed()
        if failure is not None:
            self._fail(failure, describe(self._name, self._create))

    def _start(self) -> BaseException | None:
        """Makes the state, or returns why it cannot be made."""
        try:
            self._state = self._create()
        except FAILURES as error:  # as above
            return error
        self._live = True
        return None

    def _last_words(self) -> O | None:
        """What the function for the end makes of the state, the one time that it is called."""
        if not self._live:
            return None
        self._live = False
        state, self._state = self._state, NONE
        return None if self._on_complete is None else self._on_complete(state)

    def _failed(self, error: BaseException) -> None:
        """What the state says last comes before the failure."""
        last = self._words_in_vain()
        if last is None:
            super()._failed(error)
        else:
            self._end_with(last, error)

    def _words_in_vain(self) -> O | None:
        """As `_last_words` where the stream's end is settled: a fault of the function is only reported."""
        try:
            return self._last_words()
        except FAILURES as error:  # as above
            self._report(f"the on_complete function of {self._name} failed", error)
            return None

    def _demanded(self, n: int) -> None:
        if self._last is NONE:
            self._upstream.request(n)
        else:
            self._emit_last()

    def _reset(self) -> None:
        self._words_in_vain()
        failure = self._start()
        if failure is not None:
            self._fail(failure, describe(self._name, self._create))

    def _finish(self) -> None:
        super()._finish()
        if self._live:
            self._words_in_vain()
