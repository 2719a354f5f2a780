"""`GraphBuilder`: graphs that are no line. Parts are added, their ports connected, and the whole built once every port has its place."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Never, TypeVar, overload

from streams.bidi_flow import BidiFlow
from streams.blueprint import Blueprint
from streams.contract import Publisher
from streams.errors import GraphError
from streams.flow import Flow
from streams.graph import RunnableGraph
from streams.junctions.junction import Junction
from streams.materialize import Materialization
from streams.ports import GraphPart, InPort, Kind, OutPort, SinkPart
from streams.shapes import FlowLike, SourceLike, name_of
from streams.sink import Sink
from streams.source import Source
from streams.type_variables import W as Kept

if TYPE_CHECKING:
    from streams.shapes import ShortFlow, ShortSink, ValuedFlow, ValuedSink

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
O = TypeVar("O")  # noqa: E741 - as above
I2 = TypeVar("I2")
O2 = TypeVar("O2")
T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
W = TypeVar("W")
M = TypeVar("M")
M2 = TypeVar("M2")
M3 = TypeVar("M3")

_METHODS = (
    ("attach_sink", Kind.SINK, 1, 0),
    ("attach_flow", Kind.FLOW, 1, 1),
    ("create", Kind.SOURCE, 0, 1),
)
"""What tells a description's kind, with its numbers of inputs and outputs."""


class GraphBuilder:
    """Puts a graph together from parts. What it builds is immutable, and can be run any number of times.

    Every mistake that can be seen is refused at once, with a `GraphError` (or a ``TypeError`` where a thing of the wrong kind is given)
    that names the port.

    Args:
        name: of the graph, seen in handles and errors.
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self._parts: dict[GraphPart[Any, Any], None] = {}
        self._names: Counter[str] = Counter()
        self._edges: dict[InPort[Any], OutPort[Any]] = {}
        self._fed: dict[OutPort[Any], InPort[Any]] = {}
        self._chosen: tuple[GraphPart[Any, Any], ...] = ()
        self._combine: Callable[..., Any] | None = None

    @overload
    def add(self, part: ValuedSink[I, M, V], name: str | None = None) -> SinkPart[I, M, V]: ...
    @overload
    def add(self, part: ShortSink[I, M], name: str | None = None) -> SinkPart[I, M, asyncio.Future[M]]: ...
    @overload
    def add(self, part: ValuedFlow[I, O, V], name: str | None = None) -> GraphPart[I, O, V]: ...
    @overload
    def add(self, part: ShortFlow[I, O], name: str | None = None) -> GraphPart[I, O, None]: ...
    @overload
    def add(self, part: SourceLike[O, V], name: str | None = None) -> GraphPart[Never, O, V]: ...
    @overload
    def add(self, part: Junction[I, O, V], name: str | None = None) -> GraphPart[I, O, V]: ...
    def add(self, part: Any, name: str | None = None) -> GraphPart[Any, Any]:
        """Adds a source, flow, sink or junction. One description may be added any number of times, and is a part of its own each time.

        Args:
            part: the description.
            name: names its ports in errors; without it, the description's name does, with a number if it is not the first.

        Raises:
            TypeError: it is none of these.
            GraphError: ``name`` is taken.
        """
        if hasattr(part, "create_junction"):
            return self._new(part, Kind.JUNCTION, part.inputs, part.outputs, name)
        for method, kind, inputs, outputs in _METHODS:
            if hasattr(part, method):
                return self._new(part, kind, inputs, outputs, name)
        raise TypeError(f"add() takes a source, flow, sink or junction, not {type(part).__name__}")

    def _new(self, part: Any, kind: Kind, inputs: int, outputs: int, name: str | None) -> GraphPart[Any, Any]:
        if name is None:
            name = name_of(part)
            while name in self._names:
                self._names[name] += 1
                name = f"{name}#{self._names[name]}"
        elif name in self._names:
            raise GraphError(f"{self.name} has a part named {name!r} already")
        self._names[name] = 1
        new: GraphPart[Any, Any] = (SinkPart if kind is Kind.SINK else GraphPart)(part, kind, name, inputs, outputs)
        self._parts[new] = None
        return new

    @overload
    def connect(self, outlet: OutPort[T] | GraphPart[Any, T], inlet: InPort[T] | GraphPart[T, Any], /) -> None: ...
    @overload
    def connect(
        self, outlet: OutPort[T] | GraphPart[Any, T], flow: FlowLike[T, U], inlet: InPort[U] | GraphPart[U, Any], /
    ) -> None: ...
    @overload
    def connect(
        self,
        outlet: OutPort[T] | GraphPart[Any, T],
        flow: FlowLike[T, U],
        next_flow: FlowLike[U, V],
        inlet: InPort[V] | GraphPart[V, Any],
        /,
    ) -> None: ...
    @overload
    def connect(
        self,
        outlet: OutPort[T] | GraphPart[Any, T],
        flow: FlowLike[T, U],
        next_flow: FlowLike[U, V],
        last_flow: FlowLike[V, W],
        inlet: InPort[W] | GraphPart[W, Any],
        /,
    ) -> None: ...
    def connect(self, outlet: Any, /, *flows_and_inlet: Any) -> None:
        """Connects an output to an input, through any number of flows: ``connect(a, flow, b.inlets[0])``.

        Type checkers follow three flows; put more of them together with `Flow.via`.

        Args:
            outlet: the output, or a part that has only one.
            flows_and_inlet: the flows, and last the input, or a part that has only one.

        Raises:
            GraphError: a port is connected already, or belongs to another builder.
            TypeError: something of the wrong kind stands in one of the places.
        """
        if not flows_and_inlet:
            raise TypeError("connect() takes an output, flows if there are any, and an input")
        *flows, last = flows_and_inlet
        begin, end = self._outlet(outlet, "connect() begins"), self._inlet(last, "connect() ends")
        self._free(begin)
        self._free(end)
        for flow in flows:
            if not hasattr(flow, "attach_flow"):
                raise TypeError(f"connect() takes flows between its ports, not {type(flow).__name__}")
        for flow in flows:
            part = self.add(flow)
            self._link(begin, part.inlet)
            begin = part.outlet
        self._link(begin, end)

    def materialize(self, *parts: GraphPart[Any, Any], combine: Callable[..., Any] | None = None) -> None:
        """Says whose materialized values are the graph's; unless it is called, the first is that a part has, in the order of adding.

        What is said in one call changes no type in another, so type checkers know nothing of the value then: for one part's, give it to
        ``build(value=part)`` and the like; for several, or without either, ask ``running.materialized(kind)``.

        Args:
            parts: the parts.
            combine: is called with their values, and gives the graph's: `Keep.both`, or your own. Without it the value is that of the
                one part, or the tuple of them.

        Raises:
            GraphError: a part belongs to another builder.
        """
        if not parts:
            raise TypeError("materialize() takes one or more parts")
        for part in parts:
            self._own(part)
        self._chosen = parts
        self._combine = combine

    @overload
    def build(self, *, value: GraphPart[Any, Any, Kept] = ...) -> RunnableGraph[Any, Kept]: ...
    @overload
    def build(self, sink: SinkPart[Any, M], /, *, value: GraphPart[Any, Any, Kept] = ...) -> RunnableGraph[M, Kept]: ...
    @overload
    def build(
        self, sink: SinkPart[Any, M], second: SinkPart[Any, M2], /, *, value: GraphPart[Any, Any, Kept] = ...
    ) -> RunnableGraph[tuple[M, M2], Kept]: ...
    @overload
    def build(
        self,
        sink: SinkPart[Any, M],
        second: SinkPart[Any, M2],
        third: SinkPart[Any, M3],
        /,
        *,
        value: GraphPart[Any, Any, Kept] = ...,
    ) -> RunnableGraph[tuple[M, M2, M3], Kept]: ...
    @overload
    def build(
        self,
        sink: SinkPart[Any, Any],
        second: SinkPart[Any, Any],
        third: SinkPart[Any, Any],
        fourth: SinkPart[Any, Any],
        /,
        *more: SinkPart[Any, Any],
        value: GraphPart[Any, Any, Kept] = ...,
    ) -> RunnableGraph[tuple[Any, ...], Kept]: ...
    def build(self, *sinks: SinkPart[Any, Any], value: GraphPart[Any, Any, Any] | None = None) -> RunnableGraph[Any]:
        """The whole graph. A run results in what its sink does; with several sinks, in the list of their results, in order of adding.

        Args:
            sinks: whose results are wanted. The run waits for all sinks all the same. Its result is that of the one, or the tuple of
                theirs, and type checkers know of what type it is.
            value: whose materialized value is the graph's, here and in the others that build, in the place of what `materialize` says.

        Raises:
            GraphError: a port is not connected, a part can never have an element, there is no sink, or one belongs to another builder.
        """
        blueprint = self._blueprint()
        chosen, combine = self._whose(value)
        for sink in sinks:
            self._own(sink)

        def assemble(m: Materialization) -> tuple[asyncio.Future[Any], Any]:
            wired = blueprint.wire(m)
            future = blueprint.result(m, wired, sinks)
            kept = blueprint.value(wired, chosen, combine)
            return future, future if kept is None and not chosen else kept

        return RunnableGraph(assemble, self.name)

    def build_source(
        self, outlet: OutPort[O] | GraphPart[Any, O], *, value: GraphPart[Any, Any, Kept] | None = None
    ) -> Source[O, Kept]:
        """A source of all but one output, which is what comes out of it.

        A sink within it is a side branch, here and in `build_flow`: its failure is the run's, and it is stopped when the run is over.

        Raises:
            GraphError: another port is not connected, or a part can never have an element.
        """
        port = self._outlet(outlet, "build_source() opens")
        self._free(port)
        blueprint = self._blueprint(outlets=(port,))
        chosen, combine = self._whose(value)

        def create(m: Materialization) -> tuple[Publisher[O], Kept]:
            wired = blueprint.wire(m)
            return wired.outlets[0], blueprint.value(wired, chosen, combine)

        return Source(create, self.name)

    def build_flow(
        self,
        inlet: InPort[I] | GraphPart[I, Any],
        outlet: OutPort[O] | GraphPart[Any, O],
        *,
        value: GraphPart[Any, Any, Kept] | None = None,
    ) -> Flow[I, O, Kept]:
        """A flow of all but one input and one output.

        Raises:
            GraphError: another port is not connected, or a part can never have an element.
        """
        begin, end = self._inlet(inlet, "build_flow() opens"), self._outlet(outlet, "build_flow() opens")
        self._free(begin)
        self._free(end)
        blueprint = self._blueprint((begin,), (end,))
        chosen, combine = self._whose(value)

        def materialize(publisher: Publisher[I], m: Materialization) -> tuple[Publisher[O], Kept]:
            wired = blueprint.wire(m, (publisher,))
            return wired.outlets[0], blueprint.value(wired, chosen, combine)

        return Flow.valued(materialize, self.name)

    def build_sink(
        self, inlet: InPort[I] | GraphPart[I, Any], *, value: GraphPart[Any, Any, Kept] | None = None
    ) -> Sink[I, Any, Kept]:
        """A sink of all but one input. It results in what the sinks in it do, as a whole graph.

        Raises:
            GraphError: another port is not connected, a part can never have an element, or there is no sink.
        """
        port = self._inlet(inlet, "build_sink() opens")
        self._free(port)
        blueprint = self._blueprint((port,))
        chosen, combine = self._whose(value)

        def materialize(publisher: Publisher[I], m: Materialization) -> tuple[asyncio.Future[Any], Kept]:
            wired = blueprint.wire(m, (publisher,))
            future: Any = blueprint.result(m, wired)
            kept = blueprint.value(wired, chosen, combine)
            return future, future if kept is None and not chosen else kept

        return Sink.valued(materialize, self.name)

    def build_bidi(
        self,
        inlet: InPort[I] | GraphPart[I, Any],
        outlet: OutPort[O] | GraphPart[Any, O],
        back_inlet: InPort[I2] | GraphPart[I2, Any],
        back_outlet: OutPort[O2] | GraphPart[Any, O2],
        *,
        value: GraphPart[Any, Any, Kept] | None = None,
    ) -> BidiFlow[I, O, I2, O2, Kept]:
        """Two flows side by side: ``inlet`` to ``outlet``, and ``back_inlet`` to ``back_outlet``.

        Raises:
            GraphError: another port is not connected, a part can never have an element, or a port is given twice.
        """
        ins = (self._inlet(inlet, "build_bidi() opens"), self._inlet(back_inlet, "build_bidi() opens"))
        outs = (self._outlet(outlet, "build_bidi() opens"), self._outlet(back_outlet, "build_bidi() opens"))
        for port in (*ins, *outs):
            self._free(port)
        for one, other in (ins, outs):
            if one is other:
                raise GraphError(f"build_bidi() is given {one!r} twice", (repr(one),))
        blueprint = self._blueprint(ins, outs)
        chosen, combine = self._whose(value)

        def materialize(
            publisher: Publisher[I], back: Publisher[I2], m: Materialization
        ) -> tuple[Publisher[O], Publisher[O2], Kept]:
            wired = blueprint.wire(m, (publisher, back))
            return wired.outlets[0], wired.outlets[1], blueprint.value(wired, chosen, combine)

        return BidiFlow(materialize, self.name)

    def _whose(
        self, value: GraphPart[Any, Any, Any] | None
    ) -> tuple[tuple[GraphPart[Any, Any], ...], Callable[..., Any] | None]:
        """The parts whose values are kept, and how they are put together."""
        if value is None:
            return self._chosen, self._combine
        self._own(value)
        return (value,), None

    def _blueprint(self, inlets: tuple[InPort[Any], ...] = (), outlets: tuple[OutPort[Any], ...] = ()) -> Blueprint:
        return Blueprint(self.name, tuple(self._parts), self._edges, inlets, outlets)

    def _outlet(self, port: Any, what: str) -> OutPort[Any]:
        if isinstance(port, GraphPart):
            port = port.outlet
        if not isinstance(port, OutPort):
            raise TypeError(f"{what} at an output, not at {_shown(port)}")
        self._own(port.part, port)
        return port

    def _inlet(self, port: Any, what: str) -> InPort[Any]:
        if isinstance(port, GraphPart):
            port = port.inlet
        if not isinstance(port, InPort):
            raise TypeError(f"{what} at an input, not at {_shown(port)}")
        self._own(port.part, port)
        return port

    def _own(self, part: GraphPart[Any, Any], port: object = None) -> None:
        if part not in self._parts:
            what = repr(port or part)
            raise GraphError(f"{what} belongs to another graph than {self.name}: add() the description here", (what,))

    def _free(self, port: InPort[Any] | OutPort[Any]) -> None:
        other = self._edges.get(port) if isinstance(port, InPort) else self._fed.get(port)
        if other is not None:
            raise GraphError(
                f"{port!r} is connected already, to {other!r}: a Broadcast or Merge joins more than two ports",
                (repr(port),),
            )

    def _link(self, outlet: OutPort[Any], inlet: InPort[Any]) -> None:
        self._edges[inlet] = outlet
        self._fed[outlet] = inlet


def _shown(thing: object) -> str:
    return (
        f"the input {thing!r}"
        if isinstance(thing, InPort)
        else (f"the output {thing!r}" if isinstance(thing, OutPort) else type(thing).__name__)
    )
