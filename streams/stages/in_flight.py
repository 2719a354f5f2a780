"""What the stages have in common that work on several elements at a time: places for results, demand, order, failures."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar, Generic

from streams.contract import Subscriber
from streams.errors import null_element, returned_none
from streams.materialize import Materialization
from streams.stages.stage import NONE, DrainingStage, I, O


class Place:
    """Where the result of one element goes.

    Attributes:
        done: it is there, or the failure.
        result: what the function gave.
        error: what it has raised.
        function: which function that was.
        element: on which element; `NONE` where it did not fail on one.
        key: the element's partition, where there are such.
    """

    __slots__ = ("done", "element", "error", "function", "key", "result")

    def __init__(self) -> None:
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.function: Callable[..., Any] | None = None
        self.element: Any = NONE
        self.key: Any = None

    def fail(self, error: BaseException, function: Callable[..., Any], element: Any = NONE) -> None:
        """``function`` has raised ``error``, given ``element``."""
        self.error = error
        self.element = element
        self.function = function


class InFlight(DrainingStage[I, O], Generic[I, O]):
    """Works on elements, several at a time. Subclasses give `_begin`, which leads to one `_settled` for each place.

    What was asked for and has not come, what is being worked on and what is done but not emitted are together ``parallelism`` at most.
    """

    __slots__ = ("_m", "_parallelism", "_places", "_started", "_under_way")

    ordered: ClassVar[bool] = True
    """Results come in the order of the elements, a failure in its element's place; else as they are done, failures first."""

    def __init__(self, downstream: Subscriber[O], m: Materialization, parallelism: int, name: str) -> None:
        super().__init__(downstream, name)
        self._m = m
        self._parallelism = parallelism
        self._places: deque[Place] = deque()
        """In order: those of all elements; else of those that are done."""
        self._under_way = 0
        """Elements that have come, and whose results are not out."""
        self._started = False

    def on_next(self, element: I) -> None:
        """Begins work on ``element``."""
        if element is None:
            raise null_element(self._name)
        if self._done:
            return
        place = Place()
        if self.ordered:
            self._places.append(place)
        self._under_way += 1
        self._begin(place, element)

    @abstractmethod
    def _begin(self, place: Place, element: I) -> None:
        """Has work on ``element`` begin, now or soon; `_settled` follows, later or from within."""

    def _settled(self, place: Place) -> None:
        """The result of an element is in its place, or the failure. Not called from where a subscriber's error would be lost."""
        place.done = True
        if self._done:
            return
        if not self.ordered:
            if place.error is None:
                self._places.append(place)
            else:
                self._places.appendleft(place)
        self._drain()

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - the whole demand counts
        if not self._started:
            self._started = True
            self._upstream.request(self._parallelism)
        self._drain()

    def _finish(self) -> None:
        super()._finish()
        self._places.clear()

    def _drain(self) -> None:
        """Emits what is done, under demand, and asks for as much again; a call from within only leaves its mark."""
        if self._busy:
            return
        self._busy = True
        places = self._places
        while not self._done:
            if not places or not places[0].done:
                if self._completed and not self._under_way:
                    self._drained()
                break
            place = places[0]
            if place.error is None and place.result is None:
                place.fail(returned_none(self._name, self._blamed()), self._blamed())
            if place.error is not None:
                self._function_failed(place.error, place.function, place.element)
            elif self._demand:
                self._demand -= 1
                self._take_out()
                self._push(place.result)
                self._ask_for_another()
            else:
                break
        self._busy = False

    @abstractmethod
    def _blamed(self) -> Callable[..., Any]:
        """The user's function, for errors."""

    def _dropped(self) -> None:
        """The first place is left out under supervision."""
        self._take_out()
        self._ask_for_another()

    def _take_out(self) -> None:
        self._places.popleft()
        self._under_way -= 1

    def _ask_for_another(self) -> None:
        if not self._done and not self._completed:
            self._upstream.request(1)
