"""What a junction is: a part of a graph with any number of inputs and outputs. `GraphBuilder` takes whatever has this shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from streams.contract import Publisher, Subscriber
from streams.materialize import Materialization

I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)


@dataclass(frozen=True, slots=True)
class JunctionPorts(Generic[I_contra, O_co]):
    """A junction at work in one run: what its inputs and outputs are connected by.

    Attributes:
        inlets: a subscriber for each input. Each is subscribed once, some of them before the outputs have subscribers.
        outlets: a publisher for each output. Each has one subscriber, some of them before the inputs have their subscriptions.
        value: what the junction materializes; None if that is nothing.
    """

    inlets: Sequence[Subscriber[I_contra]]
    outlets: Sequence[Publisher[O_co]]
    value: Any = None


class Junction(Protocol[I_contra, O_co]):
    """The description of a part with any number of inputs and outputs, for any number of runs.

    It keeps to demand by itself: an input is asked for what the outputs have been asked for, or for a bounded number of elements ahead.
    A cancellation of all outputs cancels the inputs, and a failure of an input goes to all outputs.
    """

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

    def create_junction(self, m: Materialization, /) -> JunctionPorts[I_contra, O_co]:
        """Makes what stands in its place in one run."""
        ...
