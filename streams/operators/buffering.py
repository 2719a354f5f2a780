"""Operators that let the two ends of a stream go at paces of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.operators.via import Via, positive
from streams.shapes import FlowLike, SourceLike
from streams.stages.buffer import Buffer, OverflowStrategy
from streams.stages.stage import StageFlow

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")


class BufferingOperators(Via):
    """Operators that let the two ends of a stream go at paces of their own."""

    @overload
    def buffer(self: SourceLike[T], size: int, overflow: OverflowStrategy = ...) -> Source[T]: ...
    @overload
    def buffer(self: FlowLike[I, T], size: int, overflow: OverflowStrategy = ...) -> Flow[I, T]: ...
    def buffer(self, size: int, overflow: OverflowStrategy = OverflowStrategy.BACKPRESSURE) -> Any:
        """Lets upstream run ahead by ``size`` elements; ``overflow`` says what happens to more."""
        positive("buffer", "size", size)
        return self.via(StageFlow(lambda downstream, _m: Buffer(downstream, size, overflow), "buffer"))
