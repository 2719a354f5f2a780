"""What can stand at each place of a graph, by shape: `via`, `to` and `merge` accept anything that has the one method.

A part that has a materialized value of its own has the longer method as well; `create_flow` and `create_sink` call whichever there is.
At the end stand shapes that only type checkers look at: the overloads of `via` and `to` say with them which value is kept.
"""

from __future__ import annotations

import asyncio
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from streams.contract import Publisher
from streams.materialize import Materialization
from streams.type_variables import V_co

I_contra = TypeVar("I_contra", contravariant=True)
O_co = TypeVar("O_co", covariant=True)
M = TypeVar("M")
T = TypeVar("T")
R = TypeVar("R")


class SourceLike(Protocol[O_co, V_co]):
    """The beginning of a graph, and what it materializes."""

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)  # the last may be left out: see `streams.type_variables`

    def create(self, m: Materialization, /) -> tuple[Publisher[O_co], V_co]:
        """A publisher for this run, and the source's materialized value."""
        ...


class FlowLike(Protocol[I_contra, O_co]):
    """The middle of a graph."""

    def attach_flow(self, publisher: Publisher[I_contra], m: Materialization, /) -> Publisher[O_co]:
        """What comes out when ``publisher`` flows in."""
        ...

    if TYPE_CHECKING:

        @property
        def __delattr__(self) -> Any:  # noqa: PLE0302 - a property in its place
            """Type checkers alone: nothing is known of its value, so it fits where one without a value is asked for (`ShortFlow`)."""
            ...


class SinkLike(Protocol[I_contra, M]):
    """The end of a graph."""

    def attach_sink(self, publisher: Publisher[I_contra], m: Materialization, /) -> asyncio.Future[M]:
        """Subscribes to ``publisher``; the future is done when the sink is done.

        A sink stops its upstream when the run is cancelled: it registers its subscription's ``cancel`` with ``m.on_cancel``.
        """
        ...

    if TYPE_CHECKING:

        @property
        def __delattr__(self) -> Any:  # noqa: PLE0302 - a property in its place
            """Type checkers alone: nothing is known of its value, so it fits where one without a value is asked for (`ShortSink`)."""
            ...


class ValuedFlow(Protocol[I_contra, O_co, V_co]):
    """A flow that materializes a value."""

    def create_flow(self, publisher: Publisher[I_contra], m: Materialization, /) -> tuple[Publisher[O_co], V_co]:
        """What comes out when ``publisher`` flows in, and the flow's materialized value."""
        ...


class ValuedSink(Protocol[I_contra, M, V_co]):
    """A sink that materializes a value beside its result."""

    def create_sink(self, publisher: Publisher[I_contra], m: Materialization, /) -> tuple[asyncio.Future[M], V_co]:
        """Subscribes to ``publisher``; gives the future of the result, and the sink's materialized value."""
        ...


def create_flow(flow: FlowLike[T, R], publisher: Publisher[T], m: Materialization) -> tuple[Publisher[R], Any]:
    """Puts ``flow`` behind ``publisher``; with its materialized value, None if it has none."""
    if hasattr(flow, "create_flow"):
        valued: Any = flow
        created: tuple[Publisher[R], Any] = valued.create_flow(publisher, m)
        return created
    return flow.attach_flow(publisher, m), None


def create_sink(sink: SinkLike[T, M], publisher: Publisher[T], m: Materialization) -> tuple[asyncio.Future[M], Any]:
    """Attaches ``sink`` to ``publisher``; with its materialized value, which is the future of its result if it has no other."""
    if hasattr(sink, "create_sink"):
        valued: Any = sink
        created: tuple[asyncio.Future[M], Any] = valued.create_sink(publisher, m)
        return created
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


if TYPE_CHECKING:
    # The same by what is known of their values. Where that is Any, a part has both shapes; then it must not matter which overload a type
    # checker takes, for where it is in doubt it gives up the types of the elements too. So a `Without[V]` goes with ``W | V`` for the value
    # of the right part: V is nothing where the left part has no value, and W is found. Where V is Any, nothing follows for W. It is Any by
    # default, and so is what comes out, as for a `With`.

    class AnythingButNone(Any):  # type: ignore[misc]  # that is what it is for
        """To type checkers of every class that there is, but for None's, of which nothing can be derived."""

    class With(Protocol):
        """What has a materialized value. One that may be None counts as one: what `first` makes of it is not said exactly."""

        def _may_be(self, value: AnythingButNone, /) -> None: ...

    class Without(Protocol[V_co]):
        """What has no materialized value. ``V`` is Any where nothing is known of the value, and else nothing (``Never``)."""

        def _its_value(self) -> V_co | None: ...
        def _may_be(self, value: None, /) -> None: ...

    class SourceWith(With, Protocol[O_co, V_co]):
        """A source that has a materialized value."""

        def create(self, m: Materialization, /) -> tuple[Publisher[O_co], V_co]:
            """As `SourceLike.create`."""
            ...

    class SourceWithout(Without[V_co], Protocol[O_co, V_co]):
        """A source that has no materialized value."""

        def create(self, m: Materialization, /) -> tuple[Publisher[O_co], V_co | None]:
            """As `SourceLike.create`."""
            ...

    class FlowWith(With, Protocol[I_contra, O_co, V_co]):
        """A flow that has a materialized value."""

        def create_flow(self, publisher: Publisher[I_contra], m: Materialization, /) -> tuple[Publisher[O_co], V_co]:
            """As `ValuedFlow.create_flow`."""
            ...

    class FlowWithout(Without[V_co], Protocol[I_contra, O_co, V_co]):
        """A flow that has no materialized value."""

        def create_flow(
            self, publisher: Publisher[I_contra], m: Materialization, /
        ) -> tuple[Publisher[O_co], V_co | None]:
            """As `ValuedFlow.create_flow`."""
            ...

    class ShortFlow(FlowLike[I_contra, O_co], Protocol[I_contra, O_co]):
        """A flow that is no `Flow`: without `create_flow` its value is None."""

        def __delattr__(self, name: str, /) -> None: ...

    class ShortSink(SinkLike[I_contra, M], Protocol[I_contra, M]):
        """A sink that is no `Sink`: without `create_sink` its value is the future of its result."""

        def __delattr__(self, name: str, /) -> None: ...
