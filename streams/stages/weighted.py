"""grouped_weighted, and grouped_within with a greatest weight: lists that are bound by what their elements weigh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import FAILURES, null_element
from streams.materialize import Materialization
from streams.stages.timed import TimedDrainingStage

T = TypeVar("T")

MAX_WEIGHTLESS_GROUP: Final = 65_536
"""Elements in a list that is bound by weight alone, at most: those that weigh nothing must not fill the memory."""


def not_negative_weight(weight: float) -> float:
    """``weight``.

    Raises:
        ValueError: it is less than 0, or NaN: sums of weights would not bound anything.
    """
    if not weight >= 0:  # so that NaN is refused
        raise ValueError(f"the function has returned {weight}: a weight or cost is a number, and must not be negative")
    return weight


class WeightedGroups(TimedDrainingStage[T, list[T]], Generic[T]):
    """Lists of elements that weigh ``max_weight`` together at most; one that weighs more is a list of its own.

    Elements are asked for one at a time, as only the element tells its weight: the one that is too much waits, and is the first of the next
    list. With ``seconds``, one list is collected ahead of demand and is due that long after its first element has come; without, nothing is
    asked for ahead.

    Args:
        downstream: where the lists go.
        m: the run.
        size: elements in a list, at most.
        max_weight: what the elements of a list weigh together, at most.
        weight: gives an element's weight.
        seconds: after which a list is due that is not full.
        name: names it in failures.
    """

    __slots__ = (
        "_asked",
        "_due",
        "_group",
        "_group_weight",
        "_max_weight",
        "_pending",
        "_seconds",
        "_size",
        "_started",
        "_weight",
    )

    def __init__(
        self,
        downstream: Subscriber[list[T]],
        m: Materialization,
        size: int,
        max_weight: float,
        weight: Callable[[T], float],
        seconds: float | None,
        name: str,
    ) -> None:
        super().__init__(downstream, m, name)
        self._size = size
        self._max_weight = max_weight
        self._weight = weight
        self._seconds = seconds
        self._group: list[T] = []
        self._group_weight: float = 0
        self._pending: tuple[T, float, float] | None = None
        """The element that was too much for the list, its weight, and when it came."""
        self._due = False
        self._asked = False
        self._started = False

    def on_next(self, element: T) -> None:
        """Adds ``element`` to the list, or has it wait where that would be too much."""
        if element is None:
            raise null_element(self._name)
        self._asked = False
        if self._done:
            return
        try:
            weight = not_negative_weight(self._weight(element))
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._weight)
            return
        came = 0.0 if self._seconds is None else self._loop.time()
        if self._group and self._group_weight + weight > self._max_weight:
            self._pending = (element, weight, came)
            self._due = True
        else:
            self._add(element, weight, came)
        self._drain()

    def on_complete(self) -> None:
        """What waits is due now."""
        self._due = bool(self._group)
        self._disarm()
        super().on_complete()

    def _add(self, element: T, weight: float, came: float) -> None:
        self._group.append(element)
        self._group_weight += weight
        if self._completed or self._is_full():
            self._due = True
        elif self._seconds is not None and len(self._group) == 1:
            self._arm(came + self._seconds)

    def _is_full(self) -> bool:
        return len(self._group) >= self._size or self._group_weight >= self._max_weight or self._pending is not None

    def _time_is_up(self) -> None:
        self._due = True
        super()._time_is_up()

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - the whole demand counts
        self._started = True
        self._drain()

    def _wants_more(self) -> bool:
        if self._asked or self._completed or self._is_full():
            return False
        return self._demand > 0 if self._seconds is None else self._started

    def _drain(self) -> None:
        """Emits the list if it is due and wanted, then asks for more if there is room; a call from within only leaves its mark."""
        if self._busy:
            return
        self._busy = True
        while not self._done:
            if self._due:
                if self._demand:
                    self._emit()
                    continue
            elif self._completed:
                self._drained()
                break
            if not self._wants_more():
                break
            self._asked = True
            self._upstream.request(1)
        self._busy = False

    def _emit(self) -> None:
        group, self._group = self._group, []
        self._group_weight = 0
        self._due = False
        self._disarm()
        if self._pending is not None:
            pending, self._pending = self._pending, None
            self._add(*pending)
        self._demand -= 1
        self._push(group)

    def _dropped(self) -> None:
        self._drain()

    def _reset(self) -> None:
        self._group = []
        self._group_weight = 0
        self._pending = None
        self._due = False
        self._disarm()

    def _finish(self) -> None:
        super()._finish()
        self._group = []
        self._pending = None
        self._due = False
