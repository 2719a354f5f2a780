"""conflate and batch: what downstream has not asked for yet is put together into one element, so upstream need not wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from streams.contract import UNBOUNDED, Subscriber
from streams.errors import FAILURES, null_element
from streams.stages.last_element import LastElementStage
from streams.stages.stage import NONE, OVER, I, O
from streams.stages.weighted import not_negative_weight


class Conflate(LastElementStage[I, O], Generic[I, O]):
    """Puts all that downstream has not asked for into one aggregate; upstream is never held back.

    Args:
        downstream: where the aggregates go.
        seed: makes an aggregate of its first element.
        f: makes the next aggregate of the one there is and one more element.
    """

    __slots__ = ("_aggregate", "_f", "_seed")

    def __init__(
        self, downstream: Subscriber[O], seed: Callable[[I], O], f: Callable[[O, I], O], name: str = "conflate"
    ) -> None:
        super().__init__(downstream, name)
        self._seed = seed
        self._f = f
        self._aggregate: O = NONE

    def on_next(self, element: I) -> None:
        """Passes on an aggregate of ``element`` alone, or adds it to the one that waits."""
        if element is None:
            raise null_element(self._name)
        if self._done or not self._add(element):
            return
        if self._demand:
            self._emit()

    def on_complete(self) -> None:
        """Ends once the aggregate is out."""
        if self._aggregate is NONE:
            super().on_complete()
        else:
            # Taken out first: it must not be there when what it causes asks for more.
            last, self._aggregate = self._aggregate, NONE
            self._end_with(last)

    def _subscribed(self) -> None:
        super()._subscribed()
        if not self._done:
            self._upstream.request(UNBOUNDED)

    def _add(self, element: I) -> bool:
        """Makes the next aggregate; False if a function has failed."""
        fresh = self._aggregate is NONE
        try:
            aggregate = self._seed(element) if fresh else self._f(self._aggregate, element)
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._seed if fresh else self._f)
            return False
        if aggregate is None:
            self._function_failed(null_element("the function has returned None"), self._seed if fresh else self._f)
            return False
        self._aggregate = aggregate
        return True

    def _emit(self) -> None:
        self._demand -= 1
        aggregate, self._aggregate = self._aggregate, NONE
        self._push(aggregate)

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - there is one aggregate to emit at most
        if self._last is not NONE:
            self._emit_last()
        elif self._aggregate is not NONE:
            self._emit()

    def _dropped(self) -> None:
        """Demand is without bound: nothing needs to be asked for in the place of an element that is left out."""

    def _reset(self) -> None:
        self._aggregate = NONE

    def _finish(self) -> None:
        super()._finish()
        self._aggregate = NONE


class Batch(Conflate[I, O], Generic[I, O]):
    """As `Conflate`, with at most ``size`` elements in an aggregate: upstream is held back when that is reached."""

    __slots__ = ("_count", "_freed", "_size", "_step")

    def __init__(self, downstream: Subscriber[O], size: int, seed: Callable[[I], O], f: Callable[[O, I], O]) -> None:
        super().__init__(downstream, seed, f, "batch")
        self._size = size
        self._step = max(1, size // 2)
        """Room is asked for in steps of half: a request for each element would cost as much as the element."""
        self._count = 0
        self._freed = 0

    def _subscribed(self) -> None:
        self._downstream.on_subscribe(self)
        if not self._done:
            self._upstream.request(self._size)

    def _add(self, element: I) -> bool:
        self._count += 1
        return super()._add(element)

    def _emit(self) -> None:
        self._freed += self._count
        self._count = 0
        super()._emit()
        self._refill()

    def _refill(self) -> None:
        if self._freed >= self._step and not self._done:
            freed, self._freed = self._freed, 0
            self._upstream.request(freed)

    def _dropped(self) -> None:
        self._count -= 1
        self._freed += 1
        self._refill()

    def _reset(self) -> None:
        super()._reset()
        # The element that failed is counted by _dropped; the ones in the aggregate go with it.
        self._freed += self._count - 1
        self._count = 1


class WeightedBatch(Conflate[I, O], Generic[I, O]):
    """As `Conflate`, with elements that cost at most ``maximum`` together in an aggregate; one that costs more is an aggregate of its own.

    Elements are asked for one at a time, as only the element tells its cost: the one that is too much waits beside the aggregate.
    """

    __slots__ = ("_asked", "_busy", "_completed", "_cost", "_left", "_maximum", "_pending")

    def __init__(
        self,
        downstream: Subscriber[O],
        maximum: float,
        cost: Callable[[I], float],
        seed: Callable[[I], O],
        f: Callable[[O, I], O],
    ) -> None:
        super().__init__(downstream, seed, f, "batch_weighted")
        self._maximum = maximum
        self._left = maximum
        self._cost = cost
        self._pending: tuple[I, float] | None = None
        self._asked = False
        self._completed = False
        self._busy = False

    def on_next(self, element: I) -> None:
        """Adds ``element`` to the aggregate, or has it wait where that would be too much."""
        if element is None:
            raise null_element(self._name)
        self._asked = False
        if self._done:
            return
        try:
            cost = not_negative_weight(self._cost(element))
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._cost)
            return
        if self._aggregate is not NONE and cost > self._left:
            self._pending = (element, cost)
        elif self._add(element):
            self._left -= cost
        self._drain()

    def on_complete(self) -> None:
        """Ends once what waits is out."""
        self._completed = True
        self._upstream = OVER
        self._drain()

    def _subscribed(self) -> None:
        self._downstream.on_subscribe(self)
        self._drain()

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - the whole demand counts
        self._drain()

    def _drain(self) -> None:
        """Emits the aggregate if it is wanted, then asks for more if there is room; a call from within only leaves its mark."""
        if self._busy:
            return
        self._busy = True
        while not self._done:
            if self._demand and self._aggregate is not NONE:
                self._left = self._maximum
                self._emit()
            elif self._pending is not None and self._aggregate is NONE:
                (element, cost), self._pending = self._pending, None
                if self._add(element):
                    self._left = self._maximum - cost
            elif self._completed:
                if self._aggregate is NONE:
                    self._finish()
                    self._downstream.on_complete()
                break
            elif self._asked or self._pending is not None:
                break
            else:
                self._asked = True
                self._upstream.request(1)
        self._busy = False

    def _dropped(self) -> None:
        self._drain()

    def _reset(self) -> None:
        super()._reset()
        self._left = self._maximum

    def _finish(self) -> None:
        super()._finish()
        self._pending = None
