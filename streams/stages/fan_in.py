"""Several publishers become one: what every fan-in does alike. How the inputs meet is all that differs, in `merges`, `zips` and `concat`.

A hub is the publisher of what comes out and has a subscriber for each input; the two sides are joined in any order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from streams.contract import Publisher, Subscriber, Subscription
from streams.demand import add_demand, invalid_demand
from streams.errors import StreamClosedError, null_element
from streams.keep import first
from streams.materialize import Materialization
from streams.shapes import SourceLike
from streams.stages.stage import UNSUBSCRIBED, describe, discard, reject
from streams.supervision import Directive, judge

T = TypeVar("T")

FAN_IN_PREFETCH: Final = 16
"""Elements asked of each input ahead of demand: so one that is slow does not hold up the others."""

FAN_IN_BLOCK: Final = 64
"""Elements of one input of a merge that go through before the others have a turn: a turn of the loop for fewer would be felt, more is
unfair."""


class Inlet(Subscriber[T], Generic[T]):
    """One input of a fan-in: counts what has left, and asks for as much again in steps of half.

    Attributes:
        asked: elements that it was asked for again since the others last had their turn.
        index: its place among the inputs.
        completed: it has ended, or is of no interest any more.
        upstream: its subscription.
        waiting: what has come in and not gone on; `FAN_IN_PREFETCH` elements at most, for no more are asked for.
    """

    __slots__ = ("_freed", "_hub", "asked", "completed", "index", "upstream", "waiting")

    def __init__(self, hub: FanIn[Any], index: int) -> None:
        self._hub = hub
        self._freed = 0
        self.asked = 0
        self.index = index
        self.completed = False
        self.upstream: Subscription = UNSUBSCRIBED
        self.waiting: deque[T] = deque()

    def on_subscribe(self, subscription: Subscription) -> None:
        """Begins to ask, if downstream has; a second subscription is cancelled (2.5), and one that comes after the end."""
        if subscription is None:
            raise null_element(self._hub.name)
        if self.upstream is not UNSUBSCRIBED or self.completed or self._hub.done:
            subscription.cancel()
            return
        self.upstream = subscription
        self._hub.subscribed(self)

    def on_next(self, element: T) -> None:
        """Hands ``element`` to the hub."""
        if element is None:
            raise null_element(self._hub.name)
        if not self.completed:
            self._hub.arrived(self, element)

    def on_error(self, error: BaseException) -> None:
        """Fails the whole."""
        if error is None:
            raise null_element(self._hub.name)
        if not self.completed:
            self.completed = True  # its subscription is over, and not cancelled with the others (2.3)
            self._hub.fail(error)

    def on_complete(self) -> None:
        """This input has ended; what waits still goes on."""
        if not self.completed:
            self.completed = True
            self._hub.ended(self)

    def left(self) -> None:
        """One element has gone on."""
        self._freed += 1
        if self._freed >= FAN_IN_PREFETCH // 2 and not self.completed:
            freed, self._freed = self._freed, 0
            self.asked += freed
            if self.asked < FAN_IN_BLOCK:
                self.upstream.request(freed)
            else:
                self._hub.ask(self, freed)

    def stop(self) -> None:
        """Nothing more is wanted of this input; what waits stays."""
        if not self.completed:
            self.completed = True
            self.upstream.cancel()


class FanIn(Publisher[T], Subscription, Generic[T]):
    """The downstream side of a fan-in. Subclasses give `_emit_next` and `_exhausted`.

    Args:
        inputs: how many.

    Attributes:
        inlets: the inputs' subscribers.
        done: it has ended, or was cancelled.
        m: the run, where it is known.
    """

    __slots__ = ("_again", "_busy", "_demand", "_downstream", "_error", "_push", "_started", "done", "inlets", "m")

    name: ClassVar[str] = "fan_in"

    def __init__(self, inputs: int) -> None:
        self.inlets: tuple[Inlet[Any], ...] = tuple(Inlet(self, index) for index in range(inputs))
        self.done = False
        self._downstream: Subscriber[T] | None = None
        self._push: Callable[[T], None] = discard
        self._demand = 0
        self.m: Materialization | None = None
        self._started = False
        self._busy = False
        self._again = False
        self._error: BaseException | None = None
        """The failure that came before the subscriber."""

    # What downstream does

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Serves one subscriber; another gets `StreamClosedError` (1.9)."""
        if subscriber is None:
            raise null_element("subscribe")
        if self.done or self._downstream is not None:
            error, self._error = self._error, None
            reject(subscriber, error or StreamClosedError(f"the output of {self.name} has, or had, its one subscriber"))
            return
        self._downstream = subscriber
        self._push = subscriber.on_next
        subscriber.on_subscribe(self)
        self.drain()

    def request(self, n: int) -> None:
        """Adds to the demand of downstream."""
        if self.done:
            return
        if n < 1:
            self.fail(invalid_demand(n))
            return
        self._demand = add_demand(self._demand, n)
        self._demanded(n)

    def cancel(self) -> None:
        """Cancels every input and forgets downstream (3.13)."""
        if not self.done:
            self._finish()

    # What the inputs do

    def subscribed(self, inlet: Inlet[Any]) -> None:
        """``inlet`` has its subscription."""
        if self._started:
            inlet.upstream.request(FAN_IN_PREFETCH)

    def arrived(self, inlet: Inlet[Any], element: Any) -> None:
        """``element`` has come in at ``inlet``."""
        inlet.waiting.append(element)
        self.drain()

    def ended(self, inlet: Inlet[Any]) -> None:  # noqa: ARG002 - which one matters to subclasses
        """``inlet`` has ended."""
        self.drain()

    def ask(self, inlet: Inlet[Any], n: int) -> None:
        """Asks for ``n`` more at ``inlet``, which has had its block."""
        inlet.asked = 0
        inlet.upstream.request(n)

    def fail(self, error: BaseException) -> None:
        """Ends the whole with ``error``: the inputs are cancelled."""
        if self.done:
            return
        downstream = self._downstream
        self._finish()
        if downstream is None:
            self._error = error
        else:
            downstream.on_error(error)

    # What goes between

    def drain(self) -> None:
        """Emits what waits, under demand; a call from within only leaves its mark."""
        if self._busy:
            self._again = True
            return
        if self._downstream is None:
            return
        self._busy = True
        self._again = False
        while self._demand and not self.done and self._emit_next():
            pass
        self._busy = False
        if not self.done and self._exhausted():
            self._complete()

    def _complete(self) -> None:
        downstream = self._downstream
        assert downstream is not None, "drained for a subscriber"
        self._finish()
        downstream.on_complete()

    def _finish(self) -> None:
        """It is over; subclasses that hold something let go of it here. Called once."""
        self.done = True
        self._push = discard
        self._downstream = None
        for inlet in self.inlets:
            inlet.waiting.clear()
            inlet.stop()

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - subclasses that ask for just as much need it
        """Downstream has asked for ``n`` more; ``self._demand`` says so already."""
        if not self._started:
            self._start()
        self.drain()

    def _start(self) -> None:
        """The first request to every input. What comes at once waits until all have been asked, so none is served before its turn."""
        self._started = True
        busy, self._busy = self._busy, True
        for inlet in self.inlets:
            if not inlet.completed:
                inlet.upstream.request(FAN_IN_PREFETCH)
        self._busy = busy

    def _function_failed(self, error: BaseException, function: Any) -> None:
        """A function that the user gave has raised ``error``, or has returned what is no element.

        Without a decider that ends the whole. A hub that goes on has left behind what the function was called with when this returns.
        """
        decider = None if self.done or self.m is None else self.m.decider
        directive, error, function = judge(decider, error, function)
        if directive is Directive.STOP:
            error.add_note(f"in the stage {describe(self.name, function)}")
            self.fail(error)
        elif directive is Directive.RESTART:
            self._reset()

    def _reset(self) -> None:
        """Forgets what was gathered from elements that have gone on, as at the beginning; hubs that have such a state say how."""

    @abstractmethod
    def _emit_next(self) -> bool:
        """Emits one element if there is one; there is demand."""

    @abstractmethod
    def _exhausted(self) -> bool:
        """No element can follow."""


class FanInPublisher(Publisher[T], Generic[T]):
    """What a fan-in makes of its inputs: each subscriber gets a hub of its own."""

    __slots__ = ("_inputs", "_m", "_make")

    def __init__(
        self, make: Callable[[int], FanIn[T]], inputs: Sequence[Publisher[Any]], m: Materialization | None = None
    ) -> None:
        self._make = make
        self._m = m
        self._inputs = inputs

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Signals on_subscribe, then subscribes to every input."""
        if subscriber is None:
            raise null_element("subscribe")
        hub = self._make(len(self._inputs))
        hub.m = self._m
        hub.subscribe(subscriber)
        for publisher, inlet in zip(self._inputs, hub.inlets, strict=True):
            publisher.subscribe(inlet)


class FanInFlow:
    """A flow whose elements meet those of other sources. Its materialized value is that of the first of them that has one.

    Args:
        make: makes the hub for so many inputs.
        others: the other sources.
        name: seen in the names of graphs.
        own_last: the flow's own input is the hub's last, not its first.
    """

    __slots__ = ("_make", "_others", "_own_last", "name")

    def __init__(
        self,
        make: Callable[[int], FanIn[Any]],
        others: Sequence[SourceLike[Any]],
        name: str,
        own_last: bool = False,
    ) -> None:
        self._make = make
        self._others = others
        self._own_last = own_last
        self.name = name

    def attach_flow(self, publisher: Publisher[Any], m: Materialization) -> Publisher[Any]:
        """Creates the other sources in the same run."""
        return self.create_flow(publisher, m)[0]

    def create_flow(self, publisher: Publisher[Any], m: Materialization) -> tuple[Publisher[Any], Any]:
        """Creates the other sources in the same run; with their materialized value."""
        publishers: list[Publisher[Any]] = []
        value = None
        for other in self._others:
            created, its_value = other.create(m)
            publishers.append(created)
            value = first(value, its_value)
        publishers.insert(len(publishers) if self._own_last else 0, publisher)
        return FanInPublisher(self._make, publishers, m), value
