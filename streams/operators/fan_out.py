"""Operators that send elements to another sink beside the stream.

The run's handle waits for that sink too, and its failure is the run's: downstream is told of the end when the sink beside it is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.keep import Combine, Keep
from streams.operators.via import Via, functions
from streams.shapes import SinkLike, expect_sink
from streams.stages.side_sinks import AlsoTo, DivertTo, SideSinkFlow, Tap, WireTap
from streams.stages.stage import StageFlow

if TYPE_CHECKING:
    from asyncio import Future

    from streams.flow import Flow
    from streams.shapes import ShortSink, SourceLike, ValuedFlow, ValuedSink
    from streams.source import Source
    from streams.type_variables import W

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
M = TypeVar("M")
V = TypeVar("V")
X = TypeVar("X")


class FanOutOperators(Via):
    """Operators that send elements to another sink beside the stream."""

    @overload
    def also_to(self: SourceLike[T, V], sink: SinkLike[T, Any]) -> Source[T, V]: ...
    @overload
    def also_to(self: SourceLike[T, V], sink: ValuedSink[T, M, W], combine: Callable[[V, W], X]) -> Source[T, X]: ...
    @overload
    def also_to(
        self: SourceLike[T, V], sink: ShortSink[T, M], combine: Callable[[V, Future[M]], X]
    ) -> Source[T, X]: ...
    @overload
    def also_to(self: ValuedFlow[I, T, V], sink: SinkLike[T, Any]) -> Flow[I, T, V]: ...
    @overload
    def also_to(
        self: ValuedFlow[I, T, V], sink: ValuedSink[T, M, W], combine: Callable[[V, W], X]
    ) -> Flow[I, T, X]: ...
    @overload
    def also_to(
        self: ValuedFlow[I, T, V], sink: ShortSink[T, M], combine: Callable[[V, Future[M]], X]
    ) -> Flow[I, T, X]: ...
    def also_to(self, sink: Any, combine: Combine = Keep.left) -> Any:
        """Every element, which goes to ``sink`` as well, at the pace of the slower; when either has enough, both end.

        Args:
            sink: where else they go.
            combine: whose materialized value is kept; ``Keep.right`` is the sink's.
        """
        expect_sink(sink)
        return self.via(SideSinkFlow(sink, AlsoTo, "also_to"), combine)

    @overload
    def divert_to(self: SourceLike[T, V], sink: SinkLike[T, Any], when: Callable[[T], object]) -> Source[T, V]: ...
    @overload
    def divert_to(
        self: SourceLike[T, V], sink: ValuedSink[T, M, W], when: Callable[[T], object], combine: Callable[[V, W], X]
    ) -> Source[T, X]: ...
    @overload
    def divert_to(
        self: SourceLike[T, V], sink: ShortSink[T, M], when: Callable[[T], object], combine: Callable[[V, Future[M]], X]
    ) -> Source[T, X]: ...
    @overload
    def divert_to(self: ValuedFlow[I, T, V], sink: SinkLike[T, Any], when: Callable[[T], object]) -> Flow[I, T, V]: ...
    @overload
    def divert_to(
        self: ValuedFlow[I, T, V],
        sink: ValuedSink[T, M, W],
        when: Callable[[T], object],
        combine: Callable[[V, W], X],
    ) -> Flow[I, T, X]: ...
    @overload
    def divert_to(
        self: ValuedFlow[I, T, V],
        sink: ShortSink[T, M],
        when: Callable[[T], object],
        combine: Callable[[V, Future[M]], X],
    ) -> Flow[I, T, X]: ...
    def divert_to(self, sink: Any, when: Callable[[Any], object], combine: Combine = Keep.left) -> Any:
        """The elements for which ``when`` is false; the others go to ``sink`` instead. When either has enough, both end.

        Args:
            sink: where the others go.
            when: says which.
            combine: whose materialized value is kept; ``Keep.right`` is the sink's.
        """
        functions("divert_to", when=when)
        expect_sink(sink)
        return self.via(
            SideSinkFlow(sink, lambda downstream, m, side: DivertTo(downstream, m, side, when), "divert_to"), combine
        )

    @overload
    def wire_tap(self: SourceLike[T, V], tap: SinkLike[T, Any] | Callable[[T], object]) -> Source[T, V]: ...
    @overload
    def wire_tap(self: SourceLike[T, V], tap: ValuedSink[T, M, W], combine: Callable[[V, W], X]) -> Source[T, X]: ...
    @overload
    def wire_tap(
        self: SourceLike[T, V], tap: ShortSink[T, M], combine: Callable[[V, Future[M]], X]
    ) -> Source[T, X]: ...
    @overload
    def wire_tap(self: SourceLike[T, V], tap: Callable[[T], object], combine: Combine) -> Source[T, V]: ...
    @overload
    def wire_tap(self: ValuedFlow[I, T, V], tap: SinkLike[T, Any] | Callable[[T], object]) -> Flow[I, T, V]: ...
    @overload
    def wire_tap(
        self: ValuedFlow[I, T, V], tap: ValuedSink[T, M, W], combine: Callable[[V, W], X]
    ) -> Flow[I, T, X]: ...
    @overload
    def wire_tap(
        self: ValuedFlow[I, T, V], tap: ShortSink[T, M], combine: Callable[[V, Future[M]], X]
    ) -> Flow[I, T, X]: ...
    @overload
    def wire_tap(self: ValuedFlow[I, T, V], tap: Callable[[T], object], combine: Combine) -> Flow[I, T, V]: ...
    def wire_tap(self, tap: Any, combine: Combine = Keep.left) -> Any:
        """Every element, which a sink gets as well if it is ready for it, or a function is called with.

        A sink never holds up the stream: of what it is not ready for, the youngest element waits for it, and the others pass it by. One
        that has enough leaves the stream as it is.

        Args:
            tap: the sink, or the function.
            combine: whose materialized value is kept; ``Keep.right`` is the sink's.
        """
        if hasattr(tap, "attach_sink"):
            return self.via(SideSinkFlow(tap, WireTap, "wire_tap"), combine)
        if not callable(tap):
            raise TypeError(f"wire_tap takes a sink or a function, not {type(tap).__name__}")
        return self.via(StageFlow(lambda downstream, _m: Tap(downstream, tap), "wire_tap"))
