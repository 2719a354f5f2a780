"""What a junction is: a part of a graph with any number of inputs and outputs. `GraphBuilder` takes whatever has this shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import GenericAlias
from typing import TYPE_CHECKING, Protocol, TypeVar

from streams.contract import Publisher, Subscriber
from streams.materialize import Materialization
from streams.type_variables import Generic, V_co

I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)


@dataclass(frozen=True, slots=True)
class JunctionPorts(Generic[I_contra, O_co, V_co]):
    """A junction at work in one run: what its inputs and outputs are connected by; ``V`` is what it materializes.

    Attributes:
        inlets: a subscriber for each input. Each is subscribed once, some of them before the outputs have subscribers.
        outlets: a publisher for each output. Each has one subscriber, some of them before the inputs have their subscriptions.
        value: what the junction materializes; None if that is nothing.
    """

    inlets: Sequence[Subscriber[I_contra]]
    outlets: Sequence[Publisher[O_co]]
    value: V_co = None  # type: ignore[assignment]  # of a junction whose V is None


class Junction(Protocol[I_contra, O_co, V_co]):
    """The description of a part with any number of inputs and outputs, for any number of runs.

    It keeps to demand by itself: an input is asked for what the outputs have been asked for, or for a bounded number of elements ahead.
    A cancellation of all outputs cancels the inputs, and a failure of an input goes to all outputs.
    """

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)  # the last may be left out: see `streams.type_variables`

    @property
    def name(self) -> str:
        """Names it, and its ports, in errors."""
        ...

    @property
    def inputs(self) -> int:
        """How many inputs it has."""
        ...

    @property
    def outputs(self) -> int:
        """How many outputs it has."""
        ...

    def create_junction(self, m: Materialization, /) -> JunctionPorts[I_contra, O_co, V_co]:
        """Makes what stands in its place in one run."""
        ...
