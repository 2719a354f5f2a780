"""`Flow`: the middle of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.contract import Processor, Publisher, Subscriber
from streams.graph import RunnableGraph
from streams.keep import Combine, first
from streams.line import Line, longer, put_behind
from streams.materialize import Materialization
from streams.operators.every import Operators
from streams.rx.limits import MAX_EXPANSION
from streams.shapes import FlowLike, SourceLike, create_sink, expect_flow, expect_sink, name_of
from streams.sink import Sink
from streams.source import Source
from streams.stages.relay import JoinedProcessor, PublisherSink, Relay
from streams.stages.stage import StageFlow
from streams.substream import SubFlow
from streams.supervised_run import SupervisedRun
from streams.supervision import Decider
from streams.type_variables import Generic, V_co, Valued, W

if TYPE_CHECKING:
    from streams.shapes import ShortFlow, ShortSink, SinkLike, ValuedFlow, ValuedSink, With, Without

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
O = TypeVar("O")  # noqa: E741 - as above
R = TypeVar("R")
M = TypeVar("M")
V = TypeVar("V")
X = TypeVar("X")
I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)


class Flow(Operators, Valued[V_co], Generic[I_contra, O_co, V_co]):
    """An immutable description of a stream's middle: what comes out when something flows in; ``V`` is what it materializes.

    Args:
        attach: gives the publisher of what comes out, for the publisher of what flows in.
        name: seen in the names of graphs.
    """

    def __init__(
        self: Flow[I_contra, O_co, None],
        attach: Callable[[Publisher[I_contra], Materialization], Publisher[O_co]],
        name: str = "flow",
    ) -> None:
        self._materialize: Callable[[Publisher[I_contra], Materialization], tuple[Publisher[O_co], V_co]]
        self._materialize = lambda publisher, m: (attach(publisher, m), None)
        self._line: Line = ()
        self.name = name

    @staticmethod
    def valued(
        materialize: Callable[[Publisher[I], Materialization], tuple[Publisher[O], V]], name: str = "flow"
    ) -> Flow[I, O, V]:
        """A flow with a materialized value: ``materialize`` gives the publisher of what comes out, and the value."""
        flow: Flow[I, O, Any] = Flow(lambda publisher, m: materialize(publisher, m)[0], name)
        flow._materialize = materialize
        return flow

    def attach_flow(self, publisher: Publisher[I_contra], m: Materialization, /) -> Publisher[O_co]:
        """Puts this flow behind ``publisher`` for one run."""
        return self.create_flow(publisher, m)[0]

    def create_flow(self, publisher: Publisher[I_contra], m: Materialization, /) -> tuple[Publisher[O_co], V_co]:
        """Puts this flow behind ``publisher`` for one run; with its materialized value."""
        behind, value = self._materialize(publisher, m)
        return put_behind(behind, value, self._line, m) if self._line else (behind, value)

    @overload  # type: ignore[override]  # said more exactly, in overloads
    def via(self: With, flow: FlowLike[O_co, R]) -> Flow[I_contra, R, V_co]: ...
    @overload
    def via(self: Without[V], flow: ValuedFlow[O_co, R, W | V]) -> Flow[I_contra, R, V | W]: ...
    @overload
    def via(self: Without[V], flow: ShortFlow[O_co, R]) -> Flow[I_contra, R, V | None]: ...
    @overload
    def via(self, flow: ValuedFlow[O_co, R, W], combine: Callable[[V_co, W], X]) -> Flow[I_contra, R, X]: ...
    @overload
    def via(self, flow: ShortFlow[O_co, R], combine: Callable[[V_co, None], X]) -> Flow[I_contra, R, X]: ...
    def via(self, flow: Any, combine: Combine = first) -> Any:
        """This flow, then ``flow``; ``combine`` says whose materialized value is kept (`Keep`)."""
        expect_flow(flow)
        head: Any = self._materialize
        longer_flow: Flow[I_contra, Any] = Flow.valued(head, f"{self.name} -> {name_of(flow)}")
        longer_flow._line = longer(self._line, flow, combine)
        return longer_flow

    @overload
    def to(self: With, sink: SinkLike[O_co, M]) -> Sink[I_contra, M, V_co]: ...
    @overload
    def to(self: Without[V], sink: ValuedSink[O_co, M, W | V]) -> Sink[I_contra, M, V | W]: ...
    @overload
    def to(self: Without[V], sink: ShortSink[O_co, M]) -> Sink[I_contra, M, V | asyncio.Future[M]]: ...
    @overload
    def to(self, sink: ValuedSink[O_co, M, W], combine: Callable[[V_co, W], X]) -> Sink[I_contra, M, X]: ...
    @overload
    def to(self, sink: ShortSink[O_co, M], combine: Callable[[V_co, asyncio.Future[M]], X]) -> Sink[I_contra, M, X]: ...
    def to(self, sink: Any, combine: Combine = first) -> Any:
        """A sink with this flow in front; ``combine`` says whose materialized value is kept (`Keep`)."""
        expect_sink(sink)

        def materialize(publisher: Publisher[I_contra], m: Materialization) -> tuple[asyncio.Future[Any], Any]:
            between, left = self.create_flow(publisher, m)
            future, right = create_sink(sink, between, m)
            return future, combine(left, right)

        return Sink.valued(materialize, f"{self.name} -> {name_of(sink)}")

    def _split(self, splitter: FlowLike[Any, SourceLike[Any]], breadth: int) -> SubFlow[I_contra, Any, V_co]:
        return SubFlow(self, splitter, breadth)

    def _supervised(self, decider: Decider) -> Flow[I_contra, O_co, V_co]:
        return Flow.valued(lambda publisher, m: self.create_flow(publisher, SupervisedRun(m, decider)), self.name)

    def _source(self, create: Callable[[Materialization], tuple[Publisher[R], V]], name: str) -> Source[R, V]:
        return Source(create, name)

    def map_materialized(self, f: Callable[[V_co], X]) -> Flow[I_contra, O_co, X]:
        """This flow, with ``f`` of its materialized value in the place of that."""

        def materialize(publisher: Publisher[I_contra], m: Materialization) -> tuple[Publisher[O_co], X]:
            behind, value = self.create_flow(publisher, m)
            return behind, f(value)

        return Flow.valued(materialize, self.name)

    def to_processor(self) -> RunnableGraph[None, Processor[I_contra, O_co]]:
        """A graph whose run materializes this flow as one `Processor` (``running.value``), for one publisher and one subscriber."""

        def assemble(m: Materialization) -> tuple[asyncio.Future[None], Processor[I_contra, O_co]]:
            entry: Relay[I_contra] = Relay()
            end: PublisherSink[O_co] = PublisherSink(m)
            self.attach_flow(entry, m).subscribe(end)
            return end.future, JoinedProcessor(entry, end)

        return RunnableGraph(assemble, f"processor {self.name}")

    def __repr__(self) -> str:
        return f"<Flow {self.name}>"

    @classmethod
    def identity(cls: type[Flow[R, R]]) -> Flow[R, R, None]:
        """Lets everything through: the beginning of a flow made of operators, as ``Flow[int, int].identity()``."""
        return Flow(lambda publisher, _m: publisher, "identity")

    @staticmethod
    def from_stage(
        make: Callable[[Subscriber[O], Materialization], Subscriber[I]], name: str = "stage"
    ) -> Flow[I, O, None]:
        """A stage of your own: ``make`` gives the subscriber that feeds the given downstream; it signals on_subscribe to it."""
        return Flow(StageFlow(make, name).attach_flow, name)

    @staticmethod
    def from_processor(factory: Callable[[], Processor[I, O]], name: str = "processor") -> Flow[I, O, None]:
        """A processor, made for each run."""

        def attach(publisher: Publisher[I], _m: Materialization) -> Publisher[O]:
            processor = factory()
            publisher.subscribe(processor)
            return processor

        return Flow(attach, name)

    @staticmethod
    def rx(
        *operators: Callable[[Any], Any], trust: bool = False, max_expansion: int = MAX_EXPANSION
    ) -> Flow[Any, Any, None]:
        """Operators of reactivex, under demand: ``Flow.rx(ops.pairwise(), ops.map(f))``. See docs/reactivex.md for each.

        Args:
            operators: what ``reactivex.operators`` has, or compositions of it.
            trust: accept operators that are not reactivex's as well. They must give what they make of an element before they return;
                one that does not fails the stream with `NotSynchronousError`.
            max_expansion: elements that may be made of one; more fail the stream with `ExpansionLimitError`.

        Raises:
            OperatorRefusedError: an operator is timed, hides a buffer, or needs a second source; the message names ours to use instead.
        """
        from streams.rx.flow import rx_flow  # noqa: PLC0415 - reactivex takes longer to import than all of this package

        flow = rx_flow(operators, trust, max_expansion)
        return Flow(flow.attach_flow, flow.name)
