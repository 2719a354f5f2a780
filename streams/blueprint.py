"""A graph of parts, checked and ready to be put together for a run: what `GraphBuilder` builds and its graphs, flows and so on run from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streams.contract import Publisher
from streams.errors import GraphError
from streams.keep import first
from streams.materialize import Materialization
from streams.ports import GraphPart, InPort, Kind, OutPort
from streams.shapes import create_flow, create_sink
from streams.stages.all_done import all_done
from streams.stages.feedback import Feedback
from streams.stages.side_branch import SideBranch
from streams.stages.stage import StagePublisher

AnyPart = GraphPart[Any, Any]
AnyIn = InPort[Any]
AnyOut = OutPort[Any]


@dataclass(frozen=True, slots=True)
class Wired:
    """A graph that was put together for one run.

    Attributes:
        outlets: the publishers of the ports left open.
        results: the futures of the sinks' results, in the order in which they were added.
        values: what each part materialized; a sink that materializes nothing else, the future of its result.
    """

    outlets: Sequence[Publisher[Any]]
    results: Sequence[asyncio.Future[Any]]
    values: Mapping[AnyPart, Any]


class Blueprint:
    """An immutable graph.

    Args:
        name: of the graph, for errors.
        parts: in the order in which they were added.
        edges: what each input is fed from.
        open_inlets: inputs that are fed from outside.
        open_outlets: outputs that go outside.

    Raises:
        GraphError: a port is neither connected nor open, a part can never get an element or get rid of one, or nothing ends the graph.
    """

    def __init__(
        self,
        name: str,
        parts: Sequence[AnyPart],
        edges: Mapping[AnyIn, AnyOut],
        open_inlets: Sequence[AnyIn] = (),
        open_outlets: Sequence[AnyOut] = (),
    ) -> None:
        self.name = name
        self._parts = tuple(parts)
        self._edges = dict(edges)
        self._open_inlets = tuple(open_inlets)
        self._open_outlets = tuple(open_outlets)
        self._check_ports()
        self._check_reach()
        self._feedback = self._closing_edges()
        self._flows = self._flows_in_order()

    # Checks

    def _check_ports(self) -> None:
        used = {*self._edges.values(), *self._open_outlets}
        fed = {*self._edges, *self._open_inlets}
        loose = [
            repr(port)
            for part in self._parts
            for port in (*part.inlets, *part.outlets)
            if port not in fed and port not in used
        ]
        if loose:
            raise GraphError(
                f"{self.name}: not connected: {', '.join(loose)}: connect every port, "
                "or leave it open by build_source, build_flow or build_sink",
                tuple(loose),
            )
        if not self._open_outlets and not any(part.kind is Kind.SINK for part in self._parts):
            raise GraphError(f"{self.name} has no sink, and so no end")

    def _check_reach(self) -> None:
        """Every part must get elements from somewhere and pass them on to somewhere: a closed circle does neither."""
        beginnings = [part for part in self._parts if not part.inlets]
        ends = [part for part in self._parts if not part.outlets]
        down, up = self._neighbours()
        reached = _reach([*beginnings, *(port.part for port in self._open_inlets)], down)
        leading = _reach([*ends, *(port.part for port in self._open_outlets)], up)
        for found, what in ((reached, "nothing ever goes into"), (leading, "nothing ever comes out of")):
            lost = tuple(part.name for part in self._parts if part not in found)
            if lost:
                raise GraphError(f"{self.name}: {what} {', '.join(lost)}", lost)

    def _neighbours(self) -> tuple[dict[AnyPart, list[AnyPart]], dict[AnyPart, list[AnyPart]]]:
        """The parts below, and above, each part."""
        down: dict[AnyPart, list[AnyPart]] = {part: [] for part in self._parts}
        up: dict[AnyPart, list[AnyPart]] = {part: [] for part in self._parts}
        for inlet, outlet in self._edges.items():
            down[outlet.part].append(inlet.part)
            up[inlet.part].append(outlet.part)
        return down, up

    def _closing_edges(self) -> frozenset[AnyIn]:
        """The inputs at which a cycle comes back to where it was entered: one or more for each cycle, always a junction's.

        A walk in depth that begins where elements do finds them: they lead to a part that the walk has not left yet.
        """
        below: dict[AnyPart, list[AnyIn]] = {part: [] for part in self._parts}
        for inlet, outlet in self._edges.items():
            below[outlet.part].append(inlet)
        closing: set[AnyIn] = set()
        seen: set[AnyPart] = set()
        beginnings = [*(part for part in self._parts if not part.inlets), *(port.part for port in self._open_inlets)]
        for beginning in beginnings:
            if beginning in seen:
                continue
            seen.add(beginning)
            path = {beginning}
            walk: list[tuple[AnyPart, Iterator[AnyIn]]] = [(beginning, iter(below[beginning]))]
            while walk:
                part, rest = walk[-1]
                into = next(rest, None)
                if into is None:
                    path.discard(part)
                    walk.pop()
                elif into.part in path:
                    closing.add(into)
                elif into.part not in seen:
                    seen.add(into.part)
                    path.add(into.part)
                    walk.append((into.part, iter(below[into.part])))
        return frozenset(closing)

    def _flows_in_order(self) -> tuple[AnyPart, ...]:
        """The flows, each behind the one that feeds it: a flow is attached to a publisher, which must be there."""
        following: dict[AnyPart, AnyPart] = {}
        ready: list[AnyPart] = []
        for part in self._parts:
            if part.kind is Kind.FLOW:
                outlet = self._edges.get(part.inlets[0])
                if outlet is not None and outlet.part.kind is Kind.FLOW:
                    following[outlet.part] = part
                else:
                    ready.append(part)
        order: list[AnyPart] = []
        for part in ready:
            chain: AnyPart | None = part
            while chain is not None:
                order.append(chain)
                chain = following.get(chain)
        return tuple(order)

    # A run

    def wire(self, m: Materialization, publishers: Sequence[Publisher[Any]] = ()) -> Wired:
        """Puts the graph together for one run.

        Args:
            m: the run.
            publishers: what flows into the open inputs, in their order.
        """
        given = dict(zip(self._open_inlets, publishers, strict=True))
        outlets: dict[AnyOut, Publisher[Any]] = {}
        inlets: list[tuple[AnyIn, Any]] = []
        values: dict[AnyPart, Any] = {}
        results: list[asyncio.Future[Any]] = []

        def feeding(inlet: AnyIn) -> Publisher[Any]:
            return given[inlet] if inlet in given else outlets[self._edges[inlet]]

        for part in self._parts:
            if part.kind is Kind.SOURCE:
                outlets[part.outlets[0]], values[part] = part.description.create(m)
            elif part.kind is Kind.JUNCTION:
                ports = part.description.create_junction(m)
                inlets.extend(zip(part.inlets, ports.inlets, strict=True))
                outlets.update(zip(part.outlets, ports.outlets, strict=True))
                values[part] = ports.value
        for part in self._flows:
            outlets[part.outlets[0]], values[part] = create_flow(part.description, feeding(part.inlets[0]), m)
        for part in self._parts:
            if part.kind is not Kind.SINK:
                continue
            if self._open_outlets:
                branch: SideBranch[Any] = SideBranch(m, part.description)
                inlets.append((part.inlets[0], branch))
                future, values[part] = branch.result, branch.value
            else:
                future, values[part] = create_sink(part.description, feeding(part.inlets[0]), m)
            results.append(future)
        # Inputs come last: by then every sink is there to ask for what they bring.
        for inlet, subscriber in inlets:
            publisher = feeding(inlet)
            if inlet in self._feedback:
                publisher = StagePublisher(publisher, lambda downstream: Feedback(downstream, m))
            publisher.subscribe(subscriber)
        return Wired([outlets[port] for port in self._open_outlets], results, values)

    def result(self, m: Materialization, wired: Wired, wanted: Sequence[AnyPart] = ()) -> asyncio.Future[Any]:
        """The future of the one sink's result, or of the list of the sinks' results; or, once all are there, of those that are wanted."""
        if not wanted:
            return wired.results[0] if len(wired.results) == 1 else all_done(m, wired.results)
        sinks = [part for part in self._parts if part.kind is Kind.SINK]
        at = [sinks.index(part) for part in wanted]
        return all_done(
            m, wired.results, lambda results: results[at[0]] if len(at) == 1 else tuple(results[i] for i in at)
        )

    def value(self, wired: Wired, chosen: Sequence[AnyPart], combine: Callable[..., Any] | None) -> Any:
        """What the graph materializes: the values of the ``chosen`` parts, combined; or the first value that a part has."""
        if chosen:
            values = [wired.values[part] for part in chosen]
            if combine is not None:
                return combine(*values)
            return values[0] if len(values) == 1 else tuple(values)
        value = None
        for part in self._parts:
            its_value = wired.values[part]
            if part.kind is not Kind.SINK or not any(its_value is future for future in wired.results):
                value = first(value, its_value)
        return value


def _reach(beginnings: Iterable[AnyPart], neighbours: Mapping[AnyPart, Sequence[AnyPart]]) -> set[AnyPart]:
    reached: set[AnyPart] = set()
    waiting = list(beginnings)
    while waiting:
        part = waiting.pop()
        if part not in reached:
            reached.add(part)
            waiting.extend(neighbours[part])
    return reached
