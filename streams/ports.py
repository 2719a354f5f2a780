"""The ports of a graph that is being built, and the parts that they belong to."""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, TypeVar

from streams.errors import GraphError
from streams.type_variables import Generic, V_co, Valued

I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)
M_co = TypeVar("M_co", covariant=True)


class Kind(Enum):
    """What a part is, by the method that puts it into a run."""

    SOURCE = "source"
    FLOW = "flow"
    SINK = "sink"
    JUNCTION = "junction"


class _Port:
    """A port of a part.

    Attributes:
        part: whose port it is.
        index: its place among those of its side.
    """

    __slots__ = ("index", "part")

    side: ClassVar[str]

    def __init__(self, part: GraphPart[Any, Any], index: int) -> None:
        self.part = part
        self.index = index

    def __repr__(self) -> str:
        several = len(getattr(self.part, f"{self.side}s")) > 1
        return f"{self.part.name}.{self.side}s[{self.index}]" if several else f"{self.part.name}.{self.side}"


class InPort(_Port, Generic[I_contra]):
    """Where elements go into a part."""

    __slots__ = ()

    side = "inlet"


class OutPort(_Port, Generic[O_co]):
    """Where elements come out of a part."""

    __slots__ = ()

    side = "outlet"


class GraphPart(Valued[V_co], Generic[I_contra, O_co, V_co]):
    """A part of the graph that a `GraphBuilder` builds, for use once in it. Made by `GraphBuilder.add`; ``V`` is what it materializes.

    Attributes:
        description: what was added.
        kind: what it is.
        name: unique in its graph, for errors.
        inlets: its inputs: one of a flow or sink, none of a source.
        outlets: its outputs: one of a source or flow, none of a sink.
    """

    __slots__ = ("description", "inlets", "kind", "name", "outlets")

    def __init__(self, description: Any, kind: Kind, name: str, inputs: int, outputs: int) -> None:
        self.description = description
        self.kind = kind
        self.name = name
        self.inlets: tuple[InPort[I_contra], ...] = tuple(InPort(self, index) for index in range(inputs))
        self.outlets: tuple[OutPort[O_co], ...] = tuple(OutPort(self, index) for index in range(outputs))

    @property
    def inlet(self) -> InPort[I_contra]:
        """The one input.

        Raises:
            GraphError: it has none, or several.
        """
        if len(self.inlets) != 1:
            raise GraphError(f"{self.name} has {len(self.inlets)} inputs: name one, as {self.name}.inlets[i]")
        return self.inlets[0]

    @property
    def outlet(self) -> OutPort[O_co]:
        """The one output.

        Raises:
            GraphError: it has none, or several.
        """
        if len(self.outlets) != 1:
            raise GraphError(f"{self.name} has {len(self.outlets)} outputs: name one, as {self.name}.outlets[i]")
        return self.outlets[0]

    def __repr__(self) -> str:
        return f"<GraphPart {self.name}>"


class SinkPart(GraphPart[I_contra, object, V_co], Generic[I_contra, M_co, V_co]):
    """A sink in a graph; ``M`` is what it results in, for `GraphBuilder.build`.

    It has no output: to type checkers one of ``object``, which what takes elements of a type does not take. So a source has an input
    of ``Never``.
    """

    __slots__ = ()
