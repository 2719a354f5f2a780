"""`BidiFlow`: two flows side by side in opposite directions, as a protocol's encoder and decoder are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from streams.contract import Publisher
from streams.flow import Flow
from streams.junctions.junction import JunctionPorts
from streams.keep import Combine, Keep, first
from streams.materialize import Materialization
from streams.shapes import FlowLike, create_flow, expect_flow, name_of
from streams.stages.relay import Relay
from streams.type_variables import Generic, V_co, Valued, W

if TYPE_CHECKING:
    from streams.shapes import ShortFlow, ValuedFlow, With, Without

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
V = TypeVar("V")
X = TypeVar("X")
I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)
BackI_contra = TypeVar("BackI_contra", contravariant=True)
BackO_co = TypeVar("BackO_co", covariant=True)


class BidiFlow(Valued[V_co], Generic[I_contra, O_co, BackI_contra, BackO_co, V_co]):
    """An immutable description of two flows side by side, one there and one back; ``V`` is what it materializes.

    It is also a junction of a `GraphBuilder`.

    Args:
        materialize: gives the publishers of what comes out there and back, and the materialized value, for the publishers of what flows
            in there and back.
        name: seen in the names of graphs.
    """

    inputs: ClassVar[int] = 2
    outputs: ClassVar[int] = 2

    def __init__(
        self,
        materialize: Callable[
            [Publisher[I_contra], Publisher[BackI_contra], Materialization],
            tuple[Publisher[O_co], Publisher[BackO_co], V_co],
        ],
        name: str = "bidi",
    ) -> None:
        self._materialize = materialize
        self.name = name

    def create_bidi(
        self, publisher: Publisher[I_contra], back: Publisher[BackI_contra], m: Materialization, /
    ) -> tuple[Publisher[O_co], Publisher[BackO_co], V_co]:
        """What comes out there and back in one run, and the materialized value."""
        return self._materialize(publisher, back, m)

    def create_junction(self, m: Materialization, /) -> JunctionPorts[Any, Any, V_co]:
        """The two flows of one run: there is ``inlets[0]`` to ``outlets[0]``, back is ``inlets[1]`` to ``outlets[1]``."""
        inlets: tuple[Relay[Any], Relay[Any]] = (Relay(), Relay())
        *outlets, value = self._materialize(*inlets, m)
        return JunctionPorts(inlets, outlets, value)

    @overload
    @staticmethod
    def from_flows(there: FlowLike[A, B], back: FlowLike[C, D]) -> BidiFlow[A, B, C, D]: ...
    @overload
    @staticmethod
    def from_flows(
        there: ValuedFlow[A, B, V], back: ValuedFlow[C, D, W], combine: Callable[[V, W], X]
    ) -> BidiFlow[A, B, C, D, X]: ...
    @overload
    @staticmethod
    def from_flows(there: ShortFlow[A, B], back: FlowLike[C, D], combine: Combine) -> BidiFlow[A, B, C, D]: ...
    @overload
    @staticmethod
    def from_flows(there: FlowLike[A, B], back: ShortFlow[C, D], combine: Combine) -> BidiFlow[A, B, C, D]: ...
    @staticmethod
    def from_flows(there: Any, back: Any, combine: Combine = first) -> Any:
        """Two flows that have nothing to do with one another; ``combine`` says whose materialized value is kept.

        Type checkers know of what type that is where ``combine`` says it.

        Raises:
            TypeError: one of them is no flow.
        """
        expect_flow(there)
        expect_flow(back)

        def materialize(
            publisher: Publisher[Any], back_publisher: Publisher[Any], m: Materialization
        ) -> tuple[Publisher[Any], Publisher[Any], Any]:
            out, left = create_flow(there, publisher, m)
            back_out, right = create_flow(back, back_publisher, m)
            return out, back_out, combine(left, right)

        return BidiFlow(materialize, f"bidi({name_of(there)}, {name_of(back)})")

    @staticmethod
    def from_functions(there: Callable[[A], B], back: Callable[[C], D]) -> BidiFlow[A, B, C, D, None]:
        """``there`` of each element one way, ``back`` of each the other way."""
        one = Flow[A, A].identity()
        other = Flow[C, C].identity()
        return BidiFlow.from_flows(one.map(there), other.map(back), Keep.none)

    @staticmethod
    def identity() -> BidiFlow[A, A, B, B, None]:
        """Lets everything through, both ways."""
        return BidiFlow(lambda publisher, back, _m: (publisher, back, None), "identity")

    def reversed(self) -> BidiFlow[BackI_contra, BackO_co, I_contra, O_co, V_co]:
        """There is back, and back is there."""

        def materialize(
            publisher: Publisher[BackI_contra], back: Publisher[I_contra], m: Materialization
        ) -> tuple[Publisher[BackO_co], Publisher[O_co], V_co]:
            out, back_out, value = self._materialize(back, publisher, m)
            return back_out, out, value

        return BidiFlow(materialize, f"reversed {self.name}")

    @overload
    def atop(self: With, below: BidiFlow[O_co, A, B, BackI_contra]) -> BidiFlow[I_contra, A, B, BackO_co, V_co]: ...
    @overload
    def atop(
        self: Without[V], below: BidiFlow[O_co, A, B, BackI_contra, W | V]
    ) -> BidiFlow[I_contra, A, B, BackO_co, V | W]: ...
    @overload
    def atop(
        self, below: BidiFlow[O_co, A, B, BackI_contra, W], combine: Callable[[V_co, W], X]
    ) -> BidiFlow[I_contra, A, B, BackO_co, X]: ...
    def atop(self, below: BidiFlow[O_co, Any, Any, BackI_contra], combine: Combine = first) -> Any:
        """This on top of ``below``: there goes through this and then ``below``, back through ``below`` and then this."""

        def materialize(
            publisher: Publisher[I_contra], back: Publisher[Any], m: Materialization
        ) -> tuple[Publisher[Any], Publisher[BackO_co], Any]:
            returning: Relay[BackI_contra] = Relay()
            between, back_out, left = self._materialize(publisher, returning, m)
            out, back_between, right = below.create_bidi(between, back, m)
            back_between.subscribe(returning)
            return out, back_out, combine(left, right)

        return BidiFlow(materialize, f"{self.name} atop {below.name}")

    @overload
    def join(self: With, flow: FlowLike[O_co, BackI_contra]) -> Flow[I_contra, BackO_co, V_co]: ...
    @overload
    def join(self: Without[V], flow: ValuedFlow[O_co, BackI_contra, W | V]) -> Flow[I_contra, BackO_co, V | W]: ...
    @overload
    def join(self: Without[V], flow: ShortFlow[O_co, BackI_contra]) -> Flow[I_contra, BackO_co, V | None]: ...
    @overload
    def join(
        self, flow: ValuedFlow[O_co, BackI_contra, W], combine: Callable[[V_co, W], X]
    ) -> Flow[I_contra, BackO_co, X]: ...
    @overload
    def join(
        self, flow: ShortFlow[O_co, BackI_contra], combine: Callable[[V_co, None], X]
    ) -> Flow[I_contra, BackO_co, X]: ...
    def join(self, flow: Any, combine: Combine = first) -> Any:
        """The flow that goes through this, ``flow``, and this again on the way back.

        Raises:
            TypeError: it is no flow.
        """
        expect_flow(flow)

        def materialize(publisher: Publisher[I_contra], m: Materialization) -> tuple[Publisher[BackO_co], Any]:
            returning: Relay[BackI_contra] = Relay()
            there, back_out, left = self._materialize(publisher, returning, m)
            turned, right = create_flow(flow, there, m)
            turned.subscribe(returning)
            return back_out, combine(left, right)

        return Flow.valued(materialize, f"{self.name} joined with {name_of(flow)}")

    def __repr__(self) -> str:
        return f"<BidiFlow {self.name}>"
