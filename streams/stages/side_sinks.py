"""also_to, divert_to and wire_tap: a sink beside the stream.

The side sink belongs to the stage as its second output. Downstream is told of the end when the side sink is done, and that it has failed
if that has; so a run is not over before its side sinks are, and their failures are the run's.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from streams.contract import Publisher, Subscriber
from streams.errors import FAILURES, StreamClosedError, null_element
from streams.materialize import Materialization
from streams.plain import truth
from streams.publishers.nobody import NOBODY
from streams.shapes import SinkLike, name_of
from streams.stages.side_run import SideSink
from streams.stages.stage import NONE, OVER, ControlledStage, Stage, reject, supervised
from streams.stages.substream import Substream

T = TypeVar("T")


class SideSinkStage(ControlledStage[T, T], Generic[T]):
    """What the three share: how all ends. Subclasses give ``on_next``, and say what the outputs' demand means for upstream.

    Args:
        downstream: where the stream goes.
        m: the run.
        side: the sink beside it.
        name: the operator's.
    """

    __slots__ = ("_busy", "_ending", "_left", "_m", "_side")

    def __init__(self, downstream: Subscriber[T], m: Materialization, side: SideSink[T], name: str) -> None:
        super().__init__(downstream, name)
        self._m = m
        self._side = side
        self._busy = False
        self._left = False
        """The side sink has cancelled while an element was on its way."""
        self._ending = False
        """Nothing but the last signal is left to be sent, and the side sink is waited for."""
        side.outlet.hub = self

    def on_complete(self) -> None:
        """The side sink is told, and then, when it is done, downstream."""
        if not self._done:
            self._finish()
            self._side.outlet.end()
            self._end_after_side()

    def cancel(self) -> None:
        """Cancels upstream; for the side sink that is the end."""
        if not self._done:
            super().cancel()
            self._side.outlet.end()
        self._ending = False
        self._downstream = NOBODY

    def demanded_by(self, substream: Substream[T], n: int) -> None:  # noqa: ARG002 - there is one
        """The side sink has asked for more."""
        if not self._done:
            self._ask()

    def joined_by(self, substream: Substream[T]) -> None:
        """It subscribes before there is a stage."""

    def left_by(self, substream: Substream[T]) -> None:  # noqa: ARG002 - there is one
        """The side sink has cancelled: it all ends."""
        self._left = True
        if not self._busy:
            self._leave()

    def _leave(self) -> None:
        if not self._done:
            self._finish()
            self._upstream.cancel()
            if self._side.stopped:
                self._downstream = NOBODY
            self._end_after_side()

    def _subscribed(self) -> None:
        super()._subscribed()
        self._side.result.add_done_callback(self._side_done)
        if not self._side.outlet.open:
            self.left_by(self._side.outlet)
        else:
            self._ask()

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - for those whose upstream has two to serve
        self._ask()

    def _end_after_side(self) -> None:
        if self._side.result.done():
            self._tell()
        else:
            self._ending = True

    def _side_done(self, _result: asyncio.Future[Any]) -> None:
        failure = self._side.failure()
        if self._ending:
            self._m.call(self._tell)
        elif not self._done:
            self._m.call(self._side_ended, failure)
        elif failure is not None and self._downstream is NOBODY and not self._side.result.cancelled():
            # Downstream has left, and cannot be told.
            if self._side.run_over:
                self._m.report("a sink beside a stream failed after the run had ended", failure)
            else:
                self._m.fail(failure)

    def _side_ended(self, failure: BaseException | None) -> None:
        """The side sink is done before the stream is."""
        if failure is None or self._side.stopped:
            self._side.outlet.cancel()
        else:
            self._finish()
            self._upstream.cancel()
            self._downstream.on_error(failure)

    def _tell(self) -> None:
        """The last signal."""
        self._ending = False
        failure = self._side.failure()
        if failure is None:
            self._downstream.on_complete()
        else:
            self._downstream.on_error(failure)

    def _failed(self, error: BaseException) -> None:
        super()._failed(error)
        self._side.outlet.end(error)

    def _fail(self, error: BaseException, where: str | None = None) -> None:
        if not self._done:
            super()._fail(error, where)
            self._side.outlet.end(error)

    @abstractmethod
    def _ask(self) -> None:
        """Asks upstream for what the two outputs' demand allows."""


class AlsoTo(SideSinkStage[T], Generic[T]):
    """Every element goes to both, at the pace of the slower: what both have asked for in all is what upstream is asked for in all."""

    __slots__ = ("_asked",)

    def __init__(self, downstream: Subscriber[T], m: Materialization, side: SideSink[T]) -> None:
        super().__init__(downstream, m, side, "also_to")
        self._asked = 0

    def on_next(self, element: T) -> None:
        """Goes to the side sink first: downstream may have enough with this one, and ends both."""
        if element is None:
            raise null_element(self._name)
        self._busy = True
        self._side.outlet.give(element)
        self._push(element)
        self._busy = False
        if self._left:
            self._leave()

    def _ask(self) -> None:
        more = min(self._demand, self._side.outlet.demand) - self._asked
        if more > 0:
            self._asked += more
            self._upstream.request(more)


class DivertTo(SideSinkStage[T], Generic[T]):
    """Each element goes to one of the two. One that has not asked for its element holds up the other, by that element."""

    __slots__ = ("_again", "_completed", "_outstanding", "_sideways", "_waiting", "_when")

    def __init__(
        self, downstream: Subscriber[T], m: Materialization, side: SideSink[T], when: Callable[[T], object]
    ) -> None:
        super().__init__(downstream, m, side, "divert_to")
        self._when = when
        self._waiting: T = NONE
        self._sideways = False
        """The element that waits is the side sink's."""
        self._outstanding = 0
        self._again = False
        self._completed = False

    def on_next(self, element: T) -> None:
        """Goes where the predicate says."""
        if element is None:
            raise null_element(self._name)
        self._outstanding -= 1
        if self._done:
            return
        try:
            sideways = truth(self._when(element))
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._when, element)
            return
        self._waiting, self._sideways = element, sideways
        self._place()
        self._ask()

    def on_complete(self) -> None:
        """Ends once the element that waits is out."""
        self._completed = True
        self._upstream = OVER
        self._ask()

    def _dropped(self) -> None:
        self._ask()

    def _ask(self) -> None:
        """Places the element that waits, and asks for as many as have a place whosever they are; a call from within leaves its mark."""
        self._again = True
        if self._busy:
            return
        self._busy = True
        while self._again and not self._done:
            self._again = False
            if self._waiting is NONE or self._place():
                self._go_on()
            if self._left:
                self._leave()
        self._busy = False

    def _place(self) -> bool:
        if self._sideways:
            outlet = self._side.outlet
            if not outlet.demand:
                return False
            outlet.demand -= 1
            element, self._waiting = self._waiting, NONE
            outlet.give(element)
        elif self._demand:
            self._demand -= 1
            element, self._waiting = self._waiting, NONE
            self._push(element)
        else:
            return False
        return True

    def _go_on(self) -> None:
        if self._done:
            return
        if self._completed:
            super().on_complete()
            return
        here, there = self._demand, self._side.outlet.demand
        more = max(min(here, there), 1 if here or there else 0) - self._outstanding
        if more > 0:
            self._outstanding += more
            self._upstream.request(more)

    def _finish(self) -> None:
        super()._finish()
        self._waiting = NONE


class WireTap(SideSinkStage[T], Generic[T]):
    """The side sink gets what it has asked for by the time it comes; of what it has not, the youngest waits for it.

    It never holds up the stream: what waits at the end is dropped. A tap that cancels leaves the stream as it is.
    """

    __slots__ = ("_waiting",)

    def __init__(self, downstream: Subscriber[T], m: Materialization, side: SideSink[T]) -> None:
        super().__init__(downstream, m, side, "wire_tap")
        self._waiting: T = NONE

    def on_next(self, element: T) -> None:
        """Goes on, and into the tap if that is ready."""
        if element is None:
            raise null_element(self._name)
        outlet = self._side.outlet
        if outlet.demand:
            outlet.demand -= 1
            outlet.give(element)
        elif outlet.open:
            self._waiting = element
        self._push(element)

    def left_by(self, substream: Substream[T]) -> None:  # noqa: ARG002 - there is one
        """The stream goes on without the tap."""
        self._waiting = NONE

    def _demanded(self, n: int) -> None:
        self._upstream.request(n)

    def _ask(self) -> None:
        outlet = self._side.outlet
        if self._waiting is not NONE and outlet.demand:
            element, self._waiting = self._waiting, NONE
            outlet.demand -= 1
            outlet.give(element)

    def _finish(self) -> None:
        super()._finish()
        self._waiting = NONE


class Tap(Stage[T, T], Generic[T]):
    """Calls a function with each element, before it goes on."""

    __slots__ = ("_f",)

    def __init__(self, downstream: Subscriber[T], f: Callable[[T], object]) -> None:
        super().__init__(downstream, "wire_tap")
        self._f = f

    def on_next(self, element: T) -> None:
        """One call."""
        if element is None:
            raise null_element(self._name)
        if self._done:
            return
        try:
            self._f(element)
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._f, element)
            return
        self._push(element)


class _SidePublisher(Publisher[T], Generic[T]):
    """What goes on beside the side sink; for one subscriber, as that sink is one."""

    __slots__ = ("_make", "_taken", "_upstream")

    def __init__(self, upstream: Publisher[T], make: Callable[[Subscriber[T]], Subscriber[T]]) -> None:
        self._upstream = upstream
        self._make = make
        self._taken = False

    def subscribe(self, subscriber: Subscriber[T]) -> None:
        """Puts the stage in front of ``subscriber``; a second one gets `StreamClosedError` (1.9)."""
        if subscriber is None:
            raise null_element("subscribe")
        if self._taken:
            reject(subscriber, StreamClosedError("a stream with a sink beside it has one subscriber in a run"))
            return
        self._taken = True
        self._upstream.subscribe(self._make(subscriber))


class SideSinkFlow(Generic[T]):
    """A flow with a sink beside it, whose materialized value is the flow's.

    Args:
        sink: the sink.
        make: makes the stage.
        name: the operator's.
    """

    __slots__ = ("_make", "_sink", "name")

    def __init__(
        self,
        sink: SinkLike[T, Any],
        make: Callable[[Subscriber[T], Materialization, SideSink[T]], SideSinkStage[T]],
        name: str,
    ) -> None:
        self._sink = sink
        self._make = make
        self.name = f"{name}({name_of(sink)})"

    def attach_flow(self, publisher: Publisher[T], m: Materialization, /) -> Publisher[T]:
        """Attaches the sink, and puts the stage behind ``publisher``."""
        return self.create_flow(publisher, m)[0]

    def create_flow(self, publisher: Publisher[T], m: Materialization, /) -> tuple[Publisher[T], Any]:
        """As `attach_flow`; with the sink's materialized value."""
        side: SideSink[T] = SideSink(m, self._sink)
        make = self._make
        return _SidePublisher(publisher, lambda downstream: supervised(make(downstream, m, side), m)), side.value
