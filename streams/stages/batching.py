"""grouped, sliding and grouped_within: many elements become one list."""

from __future__ import annotations

from typing import Generic, TypeVar

from streams.contract import UNBOUNDED, Subscriber
from streams.demand import add_demand, multiply_demand
from streams.errors import null_element
from streams.materialize import Materialization
from streams.stages.stage import OVER, ControlledStage, one_at_a_time
from streams.stages.timed import TimedDrainingStage

T = TypeVar("T")


class Grouped(ControlledStage[T, list[T]], Generic[T]):
    """Lists of ``size`` elements, the last one of what is left: a request for a list is a request for ``size`` elements."""

    __slots__ = ("_group", "_size")

    def __init__(self, downstream: Subscriber[list[T]], size: int) -> None:
        super().__init__(downstream, "grouped")
        self._size = size
        self._group: list[T] = []

    def on_next(self, element: T) -> None:
        """Adds to the group, and passes it on when it is full."""
        if element is None:
            raise null_element(self._name)
        group = self._group
        group.append(element)
        if len(group) >= self._size:
            self._group = []
            self._push(group)

    def on_complete(self) -> None:
        """Passes on what is left: it was asked for as part of a full list."""
        group = self._group
        self._upstream = OVER
        if group and not self._done:
            self._group = []
            self._push(group)
        super().on_complete()

    def _demanded(self, n: int) -> None:
        self._upstream.request(multiply_demand(n, self._size))

    def _finish(self) -> None:
        super()._finish()
        self._group = []


class Sliding(ControlledStage[T, list[T]], Generic[T]):
    """Lists of ``size`` elements, each of which begins ``step`` elements after the one before.

    The first request asks for ``size`` elements for its first list; every other list takes ``step`` more. At the end there is a shorter
    list if there are elements that no list has had.
    """

    __slots__ = ("_keep", "_kept", "_opened", "_size", "_skip", "_skipping", "_step", "_window")

    def __init__(self, downstream: Subscriber[list[T]], size: int, step: int) -> None:
        super().__init__(downstream, "sliding")
        self._size = size
        self._step = step
        self._keep = max(0, size - step)
        """Elements of one list that are the next one's as well."""
        self._skip = max(0, step - size)
        """Elements between two lists, which are in neither."""
        self._window: list[T] = []
        self._kept = 0
        """Elements at hand that a list has had already."""
        self._skipping = 0
        self._opened = False

    def on_next(self, element: T) -> None:
        """Adds to the window, and passes it on when it is full."""
        if element is None:
            raise null_element(self._name)
        if self._skipping:
            self._skipping -= 1
            return
        window = self._window
        window.append(element)
        if len(window) >= self._size:
            self._window = window[self._step :]
            self._kept = self._keep
            self._skipping = self._skip
            self._push(window)

    def on_complete(self) -> None:
        """Passes on what no list has had, with what goes before it: it was asked for as part of a full list."""
        window = self._window
        self._upstream = OVER
        if len(window) > self._kept and not self._done:
            self._window = []
            self._push(window)
        super().on_complete()

    def _demanded(self, n: int) -> None:
        elements = multiply_demand(n, self._step)
        if not self._opened:
            self._opened = True
            if elements < UNBOUNDED:
                elements = add_demand(elements, self._size - self._step)
        self._upstream.request(elements)

    def _finish(self) -> None:
        super()._finish()
        self._window = []


class GroupedWithin(TimedDrainingStage[T, list[T]], Generic[T]):
    """Lists of ``size`` elements, or of fewer once ``seconds`` have passed since the first of them came.

    From downstream's first request on, one group is collected ahead of demand: what was asked for and what waits are ``size`` together. The
    clock runs only while elements wait.
    """

    __slots__ = ("_due", "_group", "_seconds", "_size", "_started")

    def __init__(self, downstream: Subscriber[list[T]], m: Materialization, size: int, seconds: float) -> None:
        super().__init__(downstream, m, "grouped_within")
        self._size = size
        self._seconds = seconds
        self._group: list[T] = []
        self._due = False
        self._started = False

    def on_next(self, element: T) -> None:
        """Adds to the group; the first one starts the clock."""
        if element is None:
            raise null_element(self._name)
        if self._done:
            return
        group = self._group
        group.append(element)
        if len(group) >= self._size:
            self._due = True
            self._drain()
        elif len(group) == 1:
            self._arm(self._loop.time() + self._seconds)

    def on_complete(self) -> None:
        """What waits is due now."""
        self._due = bool(self._group)
        self._disarm()
        super().on_complete()

    def _time_is_up(self) -> None:
        self._due = True
        super()._time_is_up()

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - the whole demand counts
        if not self._started:
            self._started = True
            self._upstream.request(self._size)
        self._drain()

    @one_at_a_time
    def _drain(self) -> None:
        """Emits the group if it is due and wanted."""
        while not self._done and self._due and self._demand:
            group, self._group = self._group, []
            self._due = False
            self._disarm()
            self._demand -= 1
            self._push(group)
            if not self._done and not self._completed:
                self._upstream.request(len(group))
        if self._completed and not self._due:
            self._drained()

    def _finish(self) -> None:
        super()._finish()
        self._group = []
        self._due = False
