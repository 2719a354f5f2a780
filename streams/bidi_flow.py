"""`BidiFlow`: two flows side by side in opposite directions, as a protocol's encoder and decoder are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from streams.contract import Publisher
from streams.flow import Flow
from streams.junctions.junction import JunctionPorts
from streams.keep import Combine, first
from streams.materialize import Materialization
from streams.shapes import FlowLike, create_flow, expect_flow, name_of
from streams.stages.relay import Relay

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)
BackI_contra = TypeVar("BackI_contra", contravariant=True)
BackO_co = TypeVar("BackO_co", covariant=True)


class BidiFlow(Generic[I_contra, O_co, BackI_contra, BackO_co]):
    """An immutable description of two flows side by side, one there and one back. It is also a junction of a `GraphBuilder`.

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
            tuple[Publisher[O_co], Publisher[BackO_co], Any],
        ],
        name: str = "bidi",
    ) -> None:
        self._materialize = materialize
        self.name = name

    def create_bidi(
        self, publisher: Publisher[I_contra], back: Publisher[BackI_contra], m: Materialization, /
    ) -> tuple[Publisher[O_co], Publisher[BackO_co], Any]:
        """What comes out there and back in one run, and the materialized value."""
        return self._materialize(publisher, back, m)

    def create_junction(self, m: Materialization, /) -> JunctionPorts[Any, Any]:
        """The two flows of one run: there is ``inlets[0]`` to ``outlets[0]``, back is ``inlets[1]`` to ``outlets[1]``."""
        inlets: tuple[Relay[Any], Relay[Any]] = (Relay(), Relay())
        *outlets, value = self._materialize(*inlets, m)
        return JunctionPorts(inlets, outlets, value)

    @staticmethod
    def from_flows(there: FlowLike[A, B], back: FlowLike[C, D], combine: Combine = first) -> BidiFlow[A, B, C, D]:
        """Two flows that have nothing to do with one another; ``combine`` says whose materialized value is kept.

        Raises:
            TypeError: one of them is no flow.
        """
        expect_flow(there)
        expect_flow(back)

        def materialize(
            publisher: Publisher[A], back_publisher: Publisher[C], m: Materialization
        ) -> tuple[Publisher[B], Publisher[D], Any]:
            out, left = create_flow(there, publisher, m)
            back_out, right = create_flow(back, back_publisher, m)
            return out, back_out, combine(left, right)

        return BidiFlow(materialize, f"bidi({name_of(there)}, {name_of(back)})")

    @staticmethod
    def from_functions(there: Callable[[A], B], back: Callable[[C], D]) -> BidiFlow[A, B, C, D]:
        """``there`` of each element one way, ``back`` of each the other way."""
        one = Flow[A, A].identity()
        other = Flow[C, C].identity()
        return BidiFlow.from_flows(one.map(there), other.map(back))

    @staticmethod
    def identity() -> BidiFlow[A, A, B, B]:
        """Lets everything through, both ways."""
        return BidiFlow(lambda publisher, back, _m: (publisher, back, None), "identity")

    def reversed(self) -> BidiFlow[BackI_contra, BackO_co, I_contra, O_co]:
        """There is back, and back is there."""

        def materialize(
            publisher: Publisher[BackI_contra], back: Publisher[I_contra], m: Materialization
        ) -> tuple[Publisher[BackO_co], Publisher[O_co], Any]:
            out, back_out, value = self._materialize(back, publisher, m)
            return back_out, out, value

        return BidiFlow(materialize, f"reversed {self.name}")

    def atop(
        self, below: BidiFlow[O_co, A, B, BackI_contra], combine: Combine = first
    ) -> BidiFlow[I_contra, A, B, BackO_co]:
        """This on top of ``below``: there goes through this and then ``below``, back through ``below`` and then this."""

        def materialize(
            publisher: Publisher[I_contra], back: Publisher[B], m: Materialization
        ) -> tuple[Publisher[A], Publisher[BackO_co], Any]:
            returning: Relay[BackI_contra] = Relay()
            between, back_out, left = self._materialize(publisher, returning, m)
            out, back_between, right = below.create_bidi(between, back, m)
            back_between.subscribe(returning)
            return out, back_out, combine(left, right)

        return BidiFlow(materialize, f"{self.name} atop {below.name}")

    def join(self, flow: FlowLike[O_co, BackI_contra], combine: Combine = first) -> Flow[I_contra, BackO_co]:
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
