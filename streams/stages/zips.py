"""Fan-ins that make one element of several inputs': of one of each (zip), or of the latest of each."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from streams.errors import FAILURES, null_element
from streams.stages.fan_in import FanIn, Inlet
from streams.stages.merges import InOrderOfArrival
from streams.stages.stage import NONE


class Zip(FanIn[Any]):
    """The first of each, the second of each ..., as tuples; ends when one input has and its elements are used up."""

    __slots__ = ("_some_ended",)

    name = "zip"

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs)
        self._some_ended = False

    def arrived(self, inlet: Inlet[Any], element: Any) -> None:
        """Only what comes where nothing waits can make a row complete."""
        waiting = inlet.waiting
        waiting.append(element)
        if len(waiting) == 1:
            self.drain()

    def ended(self, inlet: Inlet[Any]) -> None:
        """What waits at ``inlet`` is all that it will ever give."""
        self._some_ended = True
        super().ended(inlet)

    def _emit_next(self) -> bool:
        inlets = self.inlets
        for inlet in inlets:
            if not inlet.waiting:
                return False
        self._demand -= 1
        self._emit(tuple([inlet.waiting.popleft() for inlet in inlets]))
        for inlet in inlets:
            inlet.left()
        return True

    def _emit(self, row: tuple[Any, ...]) -> None:
        self._push(row)

    def _exhausted(self) -> bool:
        return self._some_ended and any(inlet.completed and not inlet.waiting for inlet in self.inlets)


class ZipWith(Zip):
    """What ``f`` makes of the first of each, the second of each ...

    Args:
        inputs: how many.
        f: is called with one element of each input, in their order.
    """

    __slots__ = ("_f",)

    name = "zip_with"

    def __init__(self, inputs: int, f: Callable[..., Any]) -> None:
        super().__init__(inputs)
        self._f = f

    def _emit(self, row: tuple[Any, ...]) -> None:
        try:
            element = self._f(*row)
            if element is None:
                raise null_element(self.name)
        except FAILURES as error:  # whatever user code raises is the stream's failure
            self._demand += 1  # taken for an element that does not come
            self._function_failed(error, self._f)
            return
        self._push(element)


class ZipAll(Zip):
    """The first of each, the second of each ...; in place of an input that has ended, its default, until all have.

    Args:
        defaults: one for each input.
    """

    __slots__ = ("_defaults",)

    name = "zip_all"

    def __init__(self, defaults: Sequence[Any]) -> None:
        super().__init__(len(defaults))
        self._defaults = tuple(defaults)

    def _emit_next(self) -> bool:
        inlets = self.inlets
        some = False
        for inlet in inlets:
            if inlet.waiting:
                some = True
            elif not inlet.completed:
                return False
        if not some:
            return False
        self._demand -= 1
        having = [inlet for inlet in inlets if inlet.waiting]
        row = [inlet.waiting.popleft() if inlet.waiting else self._defaults[inlet.index] for inlet in inlets]
        self._push(tuple(row))
        for inlet in having:
            inlet.left()
        return True

    def _exhausted(self) -> bool:
        return all(inlet.completed and not inlet.waiting for inlet in self.inlets)


class LatestOfEach(InOrderOfArrival[Any]):
    """After each element, something of the latest of every input, once every input has had one. Subclasses say what.

    Until then an input is not asked for more than it was at first, of which the last counts: one without end would run on in vain. Where
    one input's end is the end, it is so only once there was a first row: a source of one element can be combined with others.
    """

    __slots__ = ("_held", "_latest", "_missing")

    def __init__(self, inputs: int, eager_complete: bool) -> None:
        super().__init__(inputs, eager_complete)
        self._latest: list[Any] = [NONE] * inputs
        self._missing = inputs
        self._held: list[Inlet[Any]] = []
        """The inputs of the elements that have left and are not asked for again before the first row."""

    def ended(self, inlet: Inlet[Any]) -> None:
        """Ends the whole, if one input's end does and every input has had an element."""
        if self._missing:
            self._open -= 1
            self.drain()
        else:
            super().ended(inlet)

    def _emit_next(self) -> bool:
        order, latest = self._order, self._latest
        while order:
            inlet: Inlet[Any] = order.popleft()
            first_of_input = latest[inlet.index] is NONE
            latest[inlet.index] = inlet.waiting.popleft()
            if first_of_input:
                self._missing -= 1
                if not self._missing:
                    self._begin()
            if self._missing:
                self._held.append(inlet)
                continue
            self._demand -= 1
            self._emit(latest)
            inlet.left()
            return True
        return False

    def _begin(self) -> None:
        """Every input has had an element."""
        if self._eager_complete and self._open < len(self.inlets):
            self._stop_inputs()
        held, self._held = self._held, []
        for inlet in held:
            inlet.left()

    @abstractmethod
    def _emit(self, latest: list[Any]) -> None:
        """Emits what stands for ``latest``, which goes on changing."""

    def _exhausted(self) -> bool:
        if super()._exhausted():
            return True
        # An input that ended without any element leaves every row incomplete for ever.
        return bool(self._missing) and any(
            inlet.completed and not inlet.waiting and self._latest[inlet.index] is NONE for inlet in self.inlets
        )

    def _reset(self) -> None:
        self._latest = [NONE] * len(self._latest)
        self._missing = len(self._latest)

    def _finish(self) -> None:
        self._reset()
        self._held.clear()
        super()._finish()


class MergeLatest(LatestOfEach):
    """Lists of the latest of each; ends when all inputs have."""

    __slots__ = ()

    name = "merge_latest"

    def _emit(self, latest: list[Any]) -> None:
        self._push(latest.copy())


class ZipLatest(LatestOfEach):
    """Tuples of the latest of each; ends when one input has."""

    __slots__ = ()

    name = "zip_latest"

    def _emit(self, latest: list[Any]) -> None:
        self._push(tuple(latest))


class ZipLatestWith(LatestOfEach):
    """What ``f`` makes of the latest of each.

    Args:
        inputs: how many.
        f: is called with the latest of each input, in their order.
        eager_complete: the first input that ends is the end.
    """

    __slots__ = ("_f",)

    name = "zip_latest_with"

    def __init__(self, inputs: int, f: Callable[..., Any], eager_complete: bool) -> None:
        super().__init__(inputs, eager_complete)
        self._f = f

    def _emit(self, latest: list[Any]) -> None:
        try:
            element = self._f(*latest)
            if element is None:
                raise null_element(self.name)
        except FAILURES as error:  # whatever user code raises is the stream's failure
            self._demand += 1  # as above
            self._function_failed(error, self._f)
            return
        self._push(element)
