"""`SubSource` and `SubFlow`: what group_by and its like make of a source and of a flow, until the substreams are put together again.

Operators on them are operators on each of the substreams. Nothing runs apart from the stream: a `SubSource` is a description as a
`Source` is, and becomes one with `merge_substreams` or `concat_substreams`, or a whole graph with `to`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from streams.contract import Publisher
from streams.keep import Combine, first
from streams.materialize import Materialization
from streams.operators.every import Operators
from streams.operators.via import positive
from streams.shapes import FlowLike, SinkLike, SourceLike, expect_flow, expect_sink, name_of
from streams.sink import Sink
from streams.stages.flatten import FlatMapConcat, FlatMapMerge
from streams.stages.stage import StageFlow
from streams.subscribers.sinks import attach
from streams.subscribers.substream_sink import SubstreamSink
from streams.supervised_run import SupervisedRun
from streams.supervision import Decider
from streams.type_variables import Generic, V_co, Valued

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable

    from streams.flow import Flow
    from streams.graph import RunnableGraph
    from streams.operators.of_substreams import OfSubFlow, OfSubSource
    from streams.shapes import With, Without
    from streams.source import Source
else:

    class OfSubSource(Operators, Generic):
        """Those on the substreams of a source."""

    class OfSubFlow(Operators, Generic):
        """Those on the substreams of a flow."""


I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")
X = TypeVar("X")

LASTING: Final = frozenset({
    "identity", "map", "filter", "filter_not", "map_concat", "scan", "zip_with_index", "intersperse", "stateful_map",
    "fold", "reduce", "drop", "drop_while", "grouped", "sliding", "grouped_weighted", "grouped_within", "map_async",
    "map_async_unordered", "map_async_partitioned", "map_async_partitioned_unordered", "map_blocking",
    "map_blocking_unordered", "buffer", "conflate", "conflate_with_seed", "batch", "throttle", "delay",
    "flat_map_concat", "flat_map_merge", "log", "watch_termination", "monitor", "keep_alive", "initial_delay",
})  # fmt: skip
"""Operators that never end a stream before its source does, by their names: behind them a substream of a group_by lasts as long as all."""


class _Continued(Generic[T]):
    """A substream with the operators behind it: what is run for each."""

    __slots__ = ("_flows", "_substream")

    def __init__(self, substream: SourceLike[Any], flows: tuple[FlowLike[Any, Any], ...]) -> None:
        self._substream = substream
        self._flows = flows

    def create(self, m: Materialization, /) -> tuple[Publisher[T], Any]:
        """The publisher for one run."""
        publisher, value = self._substream.create(m)
        for flow in self._flows:
            publisher = flow.attach_flow(publisher, m)
        return publisher, value


class _Supervised:
    """A flow whose stages go by a decider."""

    __slots__ = ("_decider", "_flow", "name")

    def __init__(self, flow: FlowLike[Any, Any], decider: Decider) -> None:
        self._flow = flow
        self._decider = decider
        self.name = name_of(flow)

    def attach_flow(self, publisher: Publisher[Any], m: Materialization, /) -> Publisher[Any]:
        """Puts the flow behind ``publisher``."""
        return self._flow.attach_flow(publisher, SupervisedRun(m, self._decider))


class Substreams(Valued[V_co], Generic[T, V_co]):
    """What `SubSource` and `SubFlow` share.

    Args:
        parent: the source or flow, or the substreams, that this was made of.
        splitter: the flow that makes a stream of substreams of it.
        breadth: substreams that may be at work at once.
        flows: the operators on each substream.
    """

    def __init__(
        self,
        parent: Any,
        splitter: FlowLike[Any, SourceLike[Any]],
        breadth: int,
        flows: tuple[FlowLike[Any, Any], ...] = (),
    ) -> None:
        self._parent = parent
        self._splitter = splitter
        self._breadth = breadth
        self._flows = flows
        self.name = " -> ".join(map(name_of, (splitter, *flows)))

    def _behind(self, flow: FlowLike[Any, Any]) -> Any:
        expect_flow(flow)
        return type(self)(self._parent, self._splitter, self._breadth, (*self._flows, flow))

    def _supervised(self, decider: Decider) -> Any:
        flows = tuple(_Supervised(flow, decider) for flow in self._flows)
        return type(self)(self._parent, _Supervised(self._splitter, decider), self._breadth, flows)

    def _split(self, splitter: FlowLike[Any, SourceLike[Any]], breadth: int) -> Any:
        return type(self)(self, splitter, breadth)

    def _source(self, create: Any, name: str) -> Any:
        return self._parent._source(create, name)

    def _refuse_to_hang(self, operator: str, breadth: int) -> None:
        """Refuses what can only hang: substreams that all last, put together fewer at a time than there may be.

        Raises:
            ValueError: no operator here could end a substream of a group_by before the stream, and ``breadth`` is too small.
        """
        if name_of(self._splitter) != "group_by" or breadth >= self._breadth:
            return
        if all(part in LASTING for flow in self._flows for part in name_of(flow).split(" -> ")):
            raise ValueError(
                f"{operator} takes {breadth} of the up to {self._breadth} substreams of group_by at a time, and none ends before the "
                "stream does: the first element of one more would hold up all for ever. Use merge_substreams(), or end each "
                "substream (take, take_while, take_within)"
            )

    def _merged(self, breadth: int, name: str) -> Any:
        self._refuse_to_hang(name, breadth)
        merge: StageFlow[Any, T] = StageFlow(
            lambda downstream, m: FlatMapMerge(downstream, m, breadth, self._continued, name), name
        )
        return self._parent.via(self._splitter).via(merge)

    def _concatenated(self) -> Any:
        name = "concat_substreams"
        self._refuse_to_hang(name, 1)
        concat: StageFlow[Any, T] = StageFlow(
            lambda downstream, m: FlatMapConcat(downstream, m, self._continued, name), name
        )
        return self._parent.via(self._splitter).via(concat)

    def _into(self, sink: SinkLike[T, Any], combine: Combine) -> Any:
        expect_sink(sink)
        each: Sink[Any, int] = Sink(
            lambda publisher, m: attach(publisher, SubstreamSink(m, self._breadth, self._continued, sink)),
            f"substreams to {name_of(sink)}",
        )
        return self._parent.via(self._splitter).to(each, combine)

    def _continued(self, substream: SourceLike[Any]) -> SourceLike[T]:
        return _Continued(substream, self._flows)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class SubSource(Substreams[T, V_co], OfSubSource[T, V_co], Generic[T, V_co]):
    """The substreams of a source, whose materialized value ``V`` is theirs. It has every operator, for each substream."""

    def via(self, flow: FlowLike[T, R], combine: Combine = first) -> SubSource[R, V_co]:  # noqa: ARG002 - the operators' signature
        """Each substream with ``flow`` behind it; what that materializes is lost, for there are many."""
        behind: SubSource[R, V_co] = self._behind(flow)
        return behind

    def with_supervision(self, decider: Decider) -> SubSource[T, V_co]:
        """The same, but where a user's function fails in a substream, or in what makes them, ``decider(failure)`` says what is done."""
        supervised: SubSource[T, V_co] = self._supervised(decider)
        return supervised

    def merge_substreams(self) -> Source[T, V_co]:
        """The elements of all substreams, as they come."""
        source: Source[T, V_co] = self._merged(self._breadth, "merge_substreams")
        return source

    def merge_substreams_with_parallelism(self, parallelism: int) -> Source[T, V_co]:
        """As `merge_substreams`, of ``parallelism`` substreams at a time.

        After group_by a substream that is not yet merged holds up the stream at its first element, and the others with it. So where
        substreams do not end by themselves (take, say), fewer than group_by's ``max_substreams`` are refused.

        Raises:
            ValueError: it could only hang.
        """
        positive("merge_substreams_with_parallelism", "parallelism", parallelism)
        source: Source[T, V_co] = self._merged(parallelism, "merge_substreams_with_parallelism")
        return source

    def concat_substreams(self) -> Source[T, V_co]:
        """The elements of one substream after the other: for split_when and split_after.

        After group_by it is `merge_substreams_with_parallelism` of 1: refused where no substream ends by itself.

        Raises:
            ValueError: it could only hang.
        """
        source: Source[T, V_co] = self._concatenated()
        return source

    @overload
    def to(self: With, sink: SinkLike[T, Any]) -> RunnableGraph[int, V_co]: ...
    @overload
    def to(self: Without[V], sink: SinkLike[T, Any]) -> RunnableGraph[int, V | Future[int]]: ...
    @overload
    def to(self, sink: SinkLike[T, Any], combine: Callable[[V_co, Future[int]], X]) -> RunnableGraph[int, X]: ...
    def to(self, sink: SinkLike[T, Any], combine: Combine = first) -> RunnableGraph[int]:
        """The whole graph, in which each substream goes into ``sink``; results in how many there were."""
        graph: RunnableGraph[int] = self._into(sink, combine)
        return graph


class SubFlow(Substreams[T, V_co], OfSubFlow[I, T, V_co], Generic[I, T, V_co]):
    """The substreams of a flow, whose materialized value ``V`` is theirs. It has every operator, for each substream."""

    def via(self, flow: FlowLike[T, R], combine: Combine = first) -> SubFlow[I, R, V_co]:  # noqa: ARG002 - the operators' signature
        """Each substream with ``flow`` behind it; what that materializes is lost, for there are many."""
        behind: SubFlow[I, R, V_co] = self._behind(flow)
        return behind

    def with_supervision(self, decider: Decider) -> SubFlow[I, T, V_co]:
        """As `SubSource.with_supervision`."""
        supervised: SubFlow[I, T, V_co] = self._supervised(decider)
        return supervised

    def merge_substreams(self) -> Flow[I, T, V_co]:
        """As `SubSource.merge_substreams`."""
        flow: Flow[I, T, V_co] = self._merged(self._breadth, "merge_substreams")
        return flow

    def merge_substreams_with_parallelism(self, parallelism: int) -> Flow[I, T, V_co]:
        """As `SubSource.merge_substreams_with_parallelism`."""
        positive("merge_substreams_with_parallelism", "parallelism", parallelism)
        flow: Flow[I, T, V_co] = self._merged(parallelism, "merge_substreams_with_parallelism")
        return flow

    def concat_substreams(self) -> Flow[I, T, V_co]:
        """As `SubSource.concat_substreams`."""
        flow: Flow[I, T, V_co] = self._concatenated()
        return flow

    @overload
    def to(self: With, sink: SinkLike[T, Any]) -> Sink[I, int, V_co]: ...
    @overload
    def to(self: Without[V], sink: SinkLike[T, Any]) -> Sink[I, int, V | Future[int]]: ...
    @overload
    def to(self, sink: SinkLike[T, Any], combine: Callable[[V_co, Future[int]], X]) -> Sink[I, int, X]: ...
    def to(self, sink: SinkLike[T, Any], combine: Combine = first) -> Sink[I, int]:
        """A sink with this flow in front, in which each substream goes into ``sink``; results in how many there were."""
        into: Sink[I, int] = self._into(sink, combine)
        return into
