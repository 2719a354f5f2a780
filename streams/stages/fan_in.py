"""Several publishers become one: merge and zip."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import null_element
from streams.materialize import Materialization
from streams.shapes import SourceLike
from streams.stages.stage import UNSUBSCRIBED, discard

T = TypeVar("T")

FAN_IN_PREFETCH: Final = 16
"""Elements asked of each input ahead of demand: so one that is slow does not hold up the others."""


class _Inlet(Subscriber[T], Generic[T]):
    """One input of a fan-in: counts what has left, and asks for as much again in steps of half."""

    __slots__ = ("_freed", "_hub", "completed", "upstream", "waiting")

    def __init__(self, hub: _FanIn[Any]) -> None:
        self._hub = hub
        self._freed = 0
        self.upstream: Subscription = UNSUBSCRIBED
        self.completed = False
        self.waiting: deque[T] = deque()

    def on_subscribe(self, subscription: Subscription) -> None:
        """Begins to ask, if downstream has."""
        if self.upstream is not UNSUBSCRIBED or self._hub.done:
            subscription.cancel()
            return
        self.upstream = subscription
        if self._hub.started:
            subscription.request(FAN_IN_PREFETCH)

    def on_next(self, element: T) -> None:
        """Hands ``element`` to the hub."""
        if element is None:
            raise null_element(self._hub.name)
        if not self._hub.done:
            self._hub.arrived(self, element)

    def on_error(self, error: BaseException) -> None:
        """Fails the whole."""
        self._hub.fail(error)

    def on_complete(self) -> None:
        """This input has ended."""
        self.completed = True
        self._hub.drain()

    def left(self) -> None:
        """One element has gone on."""
        self._freed += 1
        if self._freed >= FAN_IN_PREFETCH // 2 and not self.completed:
            freed, self._freed = self._freed, 0
            self.upstream.request(freed)


class _FanIn(Subscription, Generic[T]):
    """The downstream side of a fan-in.

    Attributes:
        done: it has ended, or was cancelled.
        started: downstream has asked for something.
    """

    __slots__ = ("_busy", "_demand", "_downstream", "_inlets", "_push", "done", "started")

    name = "fan_in"

    def __init__(self, downstream: Subscriber[T], inputs: int) -> None:
        self._downstream = downstream
        self._push: Callable[[T], None] = downstream.on_next
        self._inlets: tuple[_Inlet[Any], ...] = tuple(_Inlet(self) for _ in range(inputs))
        self._demand = 0
        self._busy = False
        self.started = False
        self.done = False

    def open(self, publishers: Sequence[Publisher[Any]]) -> None:
        """Signals on_subscribe, then subscribes to every input."""
        self._downstream.on_subscribe(self)
        for publisher, inlet in zip(publishers, self._inlets, strict=True):
            publisher.subscribe(inlet)
        self.drain()

    def request(self, n: int) -> None:
        """Adds to the demand of downstream."""
        if self.done:
            return
        if n < 1:
            self.fail(invalid_demand(n))
            return
        self._demand = add_demand(self._demand, n)
        if not self.started:
            self.started = True
            for inlet in self._inlets:
                inlet.upstream.request(FAN_IN_PREFETCH)
        self.drain()

    def cancel(self) -> None:
        """Cancels every input."""
        if self.done:
            return
        self.done = True
        self._push = discard
        for inlet in self._inlets:
            inlet.waiting.clear()
            inlet.upstream.cancel()

    def fail(self, error: BaseException) -> None:
        """Ends the whole with ``error``."""
        if not self.done:
            self.cancel()
            self._downstream.on_error(error)

    def drain(self) -> None:
        """Emits what waits, under demand; a call from within only leaves its mark."""
        if self._busy:
            return
        self._busy = True
        while self._demand and not self.done and self._emit_next():
            pass
        if not self.done and self._exhausted():
            self.cancel()
            self._downstream.on_complete()
        self._busy = False

    def arrived(self, inlet: _Inlet[Any], element: Any) -> None:
        """``element`` has come in at ``inlet``."""
        inlet.waiting.append(element)
        self.drain()

    @abstractmethod
    def _emit_next(self) -> bool:
        """Emits one element if there is one; there is demand."""

    @abstractmethod
    def _exhausted(self) -> bool:
        """No element can follow."""


class Merge(_FanIn[T], Generic[T]):
    """Elements as they come, in the order in which they came; ends when all inputs have."""

    __slots__ = ("_order",)

    name = "merge"

    def __init__(self, downstream: Subscriber[T], inputs: int) -> None:
        super().__init__(downstream, inputs)
        self._order: deque[_Inlet[T]] = deque()

    def arrived(self, inlet: _Inlet[T], element: T) -> None:
        """Passes it straight on when nothing waits."""
        if self._demand and not self._busy and not self._order:
            self._busy = True
            self._demand -= 1
            self._push(element)
            inlet.left()
            self._busy = False
            self.drain()
        else:
            inlet.waiting.append(element)
            self._order.append(inlet)
            self.drain()

    def cancel(self) -> None:
        """Cancels every input."""
        self._order.clear()
        super().cancel()

    def _emit_next(self) -> bool:
        if not self._order:
            return False
        inlet = self._order.popleft()
        self._demand -= 1
        self._push(inlet.waiting.popleft())
        inlet.left()
        return True

    def _exhausted(self) -> bool:
        return not self._order and all(inlet.completed for inlet in self._inlets)


class Zip(_FanIn[tuple[Any, ...]]):
    """The first of each, the second of each ...; ends when one input has and its elements are used up."""

    __slots__ = ()

    name = "zip"

    def _emit_next(self) -> bool:
        inlets = self._inlets
        for inlet in inlets:
            if not inlet.waiting:
                return False
        row = tuple([inlet.waiting.popleft() for inlet in inlets])
        self._demand -= 1
        self._push(row)
        for inlet in inlets:
            inlet.left()
        return not self._exhausted()

    def _exhausted(self) -> bool:
        return any(inlet.completed and not inlet.waiting for inlet in self._inlets)


class _FanInPublisher(Publisher[Any]):
    """What a fan-in makes of its inputs."""

    __slots__ = ("_hub", "_inputs")

    def __init__(self, hub: type[_FanIn[Any]], inputs: Sequence[Publisher[Any]]) -> None:
        self._hub = hub
        self._inputs = inputs

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        """Subscribes to every input."""
        if subscriber is None:
            raise null_element("subscribe")
        self._hub(subscriber, len(self._inputs)).open(self._inputs)


class FanInFlow:
    """A flow whose elements meet those of other sources.

    Args:
        hub: how they meet.
        others: the other sources.
    """

    __slots__ = ("_hub", "_others", "name")

    def __init__(self, hub: type[_FanIn[Any]], others: Sequence[SourceLike[Any]]) -> None:
        self._hub = hub
        self._others = others
        self.name = hub.name

    def attach_flow(self, publisher: Publisher[Any], m: Materialization) -> Publisher[Any]:
        """Creates the other sources in the same run."""
        return _FanInPublisher(self._hub, (publisher, *(other.create(m)[0] for other in self._others)))
