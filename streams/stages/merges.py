"""Fan-ins that let the elements of several inputs through one by one: they differ in which input is next."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from streams.errors import FAILURES
from streams.stages.fan_in import FanIn, Inlet
from streams.stages.stage import NONE

T = TypeVar("T")


class EagerFanIn(FanIn[T], Generic[T]):
    """A fan-in that ends when all its inputs have and nothing waits, or as soon as one has.

    Args:
        inputs: how many.
        eager_complete: the first input that ends is the end: the others are cancelled, and only what waits still goes out.
    """

    __slots__ = ("_eager_complete", "_later", "_open")

    def __init__(self, inputs: int, eager_complete: bool = False) -> None:
        super().__init__(inputs)
        self._later: dict[Inlet[Any], int] = {}
        """Inputs that have had their block, and what they are to be asked for in the loop's next turn."""
        self._eager_complete = eager_complete
        self._open = inputs

    def ask(self, inlet: Inlet[Any], n: int) -> None:
        """Asks for ``n`` more, unless the input has had its block: then the others have a turn first.

        A source that emits on the spot answers at once, and would go on for as long as it has a turn of the loop, before the next begins.
        """
        if self._open < 2 or self.m is None:
            super().ask(inlet, n)
            return
        if not self._later:
            self.m.loop.call_soon(self.m.call, self._ask_again)
        self._later[inlet] = self._later.get(inlet, 0) + n

    def _ask_again(self) -> None:
        later, self._later = self._later, {}
        for inlet, n in later.items():
            inlet.asked = 0
            if not self.done and not inlet.completed:
                inlet.upstream.request(n)

    def ended(self, inlet: Inlet[Any]) -> None:
        """Counts; the last to end, or the first if that is enough, ends the whole."""
        self._open -= 1
        if self._eager_complete and self._open:
            self._stop_inputs()
        super().ended(inlet)

    def _stop_inputs(self) -> None:
        self._open = 0
        for inlet in self.inlets:
            inlet.stop()

    def _exhausted(self) -> bool:
        return not self._open and not any(inlet.waiting for inlet in self.inlets)

    def _pass_on(self, inlet: Inlet[T]) -> bool:
        """Emits the first that waits at ``inlet``."""
        self._demand -= 1
        self._push(inlet.waiting.popleft())
        inlet.left()
        return True


class InOrderOfArrival(EagerFanIn[T], Generic[T]):
    """Keeps elements that wait in the order in which they came, whichever the input."""

    __slots__ = ("_order",)

    def __init__(self, inputs: int, eager_complete: bool = False) -> None:
        super().__init__(inputs, eager_complete)
        self._order: deque[Inlet[Any]] = deque()

    def arrived(self, inlet: Inlet[Any], element: Any) -> None:
        """Queues ``element`` behind all that wait."""
        inlet.waiting.append(element)
        self._order.append(inlet)
        self.drain()

    def _exhausted(self) -> bool:
        return not self._open and not self._order

    def _finish(self) -> None:
        self._order.clear()
        super()._finish()


class Merge(InOrderOfArrival[T], Generic[T]):
    """Elements as they come."""

    __slots__ = ()

    name = "merge"

    def arrived(self, inlet: Inlet[T], element: T) -> None:
        """Passes it straight on when nothing waits."""
        if not self._demand or self._busy:
            super().arrived(inlet, element)
            return
        # There is demand and nobody is draining: so nothing waits.
        self._busy = True
        self._again = False
        self._demand -= 1
        self._push(element)
        inlet.left()
        self._busy = False
        if self._again:
            self.drain()

    def _emit_next(self) -> bool:
        return bool(self._order) and self._pass_on(self._order.popleft())


class MergePreferred(EagerFanIn[T], Generic[T]):
    """Elements as they come; where several inputs have one, the preferred input's goes first, then the others in turn.

    Args:
        inputs: how many.
        eager_complete: the first input that ends is the end.
        preferred: the index of the preferred input.
    """

    __slots__ = ("_preferred", "_turn")

    name = "merge_preferred"

    def __init__(self, inputs: int, eager_complete: bool = False, preferred: int = 0) -> None:
        super().__init__(inputs, eager_complete)
        self._preferred = self.inlets[preferred]
        self._turn = deque(inlet for inlet in self.inlets if inlet is not self._preferred)

    def _emit_next(self) -> bool:
        if self._preferred.waiting:
            return self._pass_on(self._preferred)
        turn = self._turn
        for _ in range(len(turn)):
            inlet = turn[0]
            turn.rotate(-1)
            if inlet.waiting:
                return self._pass_on(inlet)
        return False


class MergePrioritized(EagerFanIn[T], Generic[T]):
    """Elements as they come; inputs that have some wait are served in proportion to their weights, evenly spread.

    Every input that could be next gains its weight, the richest goes on and pays for all. So over any stretch in which the same inputs
    have elements, each gets its share to within one.

    Args:
        weights: one for each input.
        eager_complete: the first input that ends is the end.
    """

    __slots__ = ("_credit", "_weights")

    name = "merge_prioritized"

    def __init__(self, weights: Sequence[int], eager_complete: bool = False) -> None:
        super().__init__(len(weights), eager_complete)
        self._weights = tuple(weights)
        self._credit = [0] * len(weights)

    def _emit_next(self) -> bool:
        credit, total, richest = self._credit, 0, None
        for inlet, weight in zip(self.inlets, self._weights, strict=True):
            if inlet.waiting:
                total += weight
                credit[inlet.index] += weight
                if richest is None or credit[inlet.index] > credit[richest.index]:
                    richest = inlet
        if richest is None:
            return False
        credit[richest.index] -= total
        return self._pass_on(richest)


class Interleave(EagerFanIn[T], Generic[T]):
    """``segment_size`` elements of each input in turn; an input that has ended is passed over.

    Args:
        inputs: how many.
        segment_size: elements in a turn.
        eager_close: it ends where the next element is an input's that has ended.
    """

    __slots__ = ("_eager_close", "_in_segment", "_segment_size", "_turn")

    name = "interleave"

    def __init__(self, inputs: int, segment_size: int, eager_close: bool = False) -> None:
        super().__init__(inputs)
        self._segment_size = segment_size
        self._eager_close = eager_close
        self._turn = 0
        self._in_segment = 0

    def _emit_next(self) -> bool:
        inlet = self.inlets[self._turn]
        while not inlet.waiting:
            if not inlet.completed or self._exhausted():
                return False
            inlet = self._next_turn()
        self._in_segment += 1
        if self._in_segment == self._segment_size:
            self._next_turn()
        return self._pass_on(inlet)

    def _next_turn(self) -> Inlet[T]:
        self._in_segment = 0
        self._turn = (self._turn + 1) % len(self.inlets)
        return self.inlets[self._turn]

    def _exhausted(self) -> bool:
        inlet = self.inlets[self._turn]
        if self._eager_close and inlet.completed and not inlet.waiting:
            return True
        return super()._exhausted()


class MergeSorted(EagerFanIn[T], Generic[T]):
    """The smallest of the inputs' next elements, so sorted inputs make a sorted output; of equal ones the earlier input's.

    Args:
        inputs: how many.
        key: gives what is compared; None compares the elements.
    """

    __slots__ = ("_heads", "_key")

    name = "merge_sorted"

    def __init__(self, inputs: int, key: Callable[[T], Any] | None = None) -> None:
        super().__init__(inputs)
        self._key = key
        self._heads: list[Any] = [NONE] * inputs
        """The key of each input's next element: made once for each element."""

    def _emit_next(self) -> bool:
        inlet = self._smallest()
        if inlet is None:
            return False
        heads = self._heads
        if heads[inlet.index] is not NONE:
            heads[inlet.index] = NONE
            return self._pass_on(inlet)
        if not self.done:  # else it has failed, or was cancelled by the key
            inlet.waiting.popleft()
            inlet.left()
        return True

    def _smallest(self) -> Inlet[T] | None:
        """The input whose next element goes out, or without a key is left out; None while one may still bring a smaller."""
        heads, key, smallest = self._heads, self._key, None
        for inlet in self.inlets:
            if not inlet.waiting:
                if not inlet.completed:
                    return None
                continue
            try:
                head = heads[inlet.index]
                if head is NONE:
                    head = heads[inlet.index] = inlet.waiting[0] if key is None else key(inlet.waiting[0])
                if smallest is None or head < heads[smallest.index]:
                    smallest = inlet
            except FAILURES as error:  # keys and comparisons are user code
                heads[inlet.index] = NONE
                self._function_failed(error, key or operator.lt)
                return inlet
        return smallest

    def _reset(self) -> None:
        self._heads = [NONE] * len(self._heads)

    def _finish(self) -> None:
        self._reset()
        super()._finish()
