"""`Flow`: the middle of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from streams._operators import Operators
from streams._stage import StageFlow
from streams.contract import Processor, Publisher, Subscriber
from streams.graph import name_of
from streams.materialize import Materialization
from streams.shapes import FlowLike, SinkLike
from streams.sink import Sink

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
O = TypeVar("O")  # noqa: E741 - as above
R = TypeVar("R")
M = TypeVar("M")
I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)


class Flow(Operators, Generic[I_contra, O_co]):
    """An immutable description of a stream's middle: what comes out when something flows in.

    Args:
        attach: gives the publisher of what comes out, for the publisher of what flows in.
        name: seen in the names of graphs.
    """

    def __init__(
        self, attach: Callable[[Publisher[I_contra], Materialization], Publisher[O_co]], name: str = "flow"
    ) -> None:
        self._attach = attach
        self.name = name

    def attach_flow(self, publisher: Publisher[I_contra], m: Materialization, /) -> Publisher[O_co]:
        """Puts this flow behind ``publisher`` for one run."""
        return self._attach(publisher, m)

    def via(self, flow: FlowLike[O_co, R]) -> Flow[I_contra, R]:
        """This flow, then ``flow``."""
        if not hasattr(flow, "attach_flow"):
            raise TypeError(f"via() takes a flow, not {type(flow).__name__}; a sink goes into to()")
        return Flow(
            lambda publisher, m: flow.attach_flow(self._attach(publisher, m), m), f"{self.name} -> {name_of(flow)}"
        )

    def to(self, sink: SinkLike[O_co, M]) -> Sink[I_contra, M]:
        """A sink with this flow in front."""
        if not hasattr(sink, "attach_sink"):
            raise TypeError(f"to() takes a sink, not {type(sink).__name__}; a flow goes into via()")

        def attach(publisher: Publisher[I_contra], m: Materialization) -> asyncio.Future[M]:
            return sink.attach_sink(self._attach(publisher, m), m)

        return Sink(attach, f"{self.name} -> {name_of(sink)}")

    def __repr__(self) -> str:
        return f"<Flow {self.name}>"

    @staticmethod
    def identity() -> Flow[R, R]:
        """Lets everything through: the beginning of a flow made of operators."""
        return Flow(lambda publisher, _m: publisher, "identity")

    @staticmethod
    def from_stage(make: Callable[[Subscriber[O], Materialization], Subscriber[I]], name: str = "stage") -> Flow[I, O]:
        """A stage of your own: ``make`` gives the subscriber that feeds the given downstream; it signals on_subscribe to it."""
        return Flow(StageFlow(make, name).attach_flow, name)

    @staticmethod
    def from_processor(factory: Callable[[], Processor[I, O]], name: str = "processor") -> Flow[I, O]:
        """A processor, made for each run."""

        def attach(publisher: Publisher[I], _m: Materialization) -> Publisher[O]:
            processor = factory()
            publisher.subscribe(processor)
            return processor

        return Flow(attach, name)
