"""What can stand at each place of a graph, by shape: `via`, `to` and `merge` accept anything that has the one method.

A part that has a materialized value of its own has the longer method as well; `create_flow` and `create_sink` call whichever there is.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol, TypeVar, runtime_checkable

from streams.contract import Publisher
from streams.materialize import Materialization

I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)
M = TypeVar("M")
T = TypeVar("T")
R = TypeVar("R")


class SourceLike(Protocol[O_co]):
    """The beginning of a graph."""

    def create(self, m: Materialization, /) -> tuple[Publisher[O_co], Any]:
        """A publisher for this run, and the source's materialized value."""
        ...


class FlowLike(Protocol[I_contra, O_co]):
    """The middle of a graph."""

    def attach_flow(self, publisher: Publisher[I_contra], m: Materialization, /) -> Publisher[O_co]:
        """What comes out when ``publisher`` flows in."""
        ...


class SinkLike(Protocol[I_contra, M]):
    """The end of a graph."""

    def attach_sink(self, publisher: Publisher[I_contra], m: Materialization, /) -> asyncio.Future[M]:
        """Subscribes to ``publisher``; the future is done when the sink is done.

        A sink stops its upstream when the run is cancelled: it registers its subscription's ``cancel`` with ``m.on_cancel``.
        """
        ...


@runtime_checkable
class ValuedFlow(Protocol):
    """A flow that materializes a value."""

    def create_flow(self, publisher: Publisher[Any], m: Materialization, /) -> tuple[Publisher[Any], Any]:
        """What comes out when ``publisher`` flows in, and the flow's materialized value."""
        ...


@runtime_checkable
class ValuedSink(Protocol):
    """A sink that materializes a value beside its result."""

    def create_sink(self, publisher: Publisher[Any], m: Materialization, /) -> tuple[asyncio.Future[Any], Any]:
        """Subscribes to ``publisher``; gives the future of the result, and the sink's materialized value."""
        ...


def create_flow(flow: FlowLike[T, R], publisher: Publisher[T], m: Materialization) -> tuple[Publisher[R], Any]:
    """Puts ``flow`` behind ``publisher``; with its materialized value, None if it has none."""
    if isinstance(flow, ValuedFlow):
        return flow.create_flow(publisher, m)
    return flow.attach_flow(publisher, m), None


def create_sink(sink: SinkLike[T, M], publisher: Publisher[T], m: Materialization) -> tuple[asyncio.Future[M], Any]:
    """Attaches ``sink`` to ``publisher``; with its materialized value, which is the future of its result if it has no other."""
    if isinstance(sink, ValuedSink):
        return sink.create_sink(publisher, m)
    future = sink.attach_sink(publisher, m)
    return future, future


def name_of(part: object) -> str:
    """A part's name, or that of its class."""
    return getattr(part, "name", None) or type(part).__name__


def expect_flow(flow: object) -> None:
    """Refuses what cannot be a flow, with ``TypeError``."""
    if not hasattr(flow, "attach_flow"):
        raise TypeError(
            f"via() takes a flow, not {_described(flow)}; a sink goes into to(), an operator of reactivex into Flow.rx()"
        )


def expect_sink(sink: object) -> None:
    """Refuses what cannot be a sink, with ``TypeError``."""
    if not hasattr(sink, "attach_sink"):
        raise TypeError(f"to() takes a sink, not {_described(sink)}; a flow goes into via()")


def _described(part: object) -> str:
    name = getattr(part, "__name__", None) if callable(part) else None
    return f"the function {name}: is it to be called?" if name else type(part).__name__
