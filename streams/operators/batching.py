"""Operators that put elements together in lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.operators.via import Via, positive
from streams.shapes import FlowLike, SourceLike
from streams.stages.batching import Grouped, GroupedWithin
from streams.stages.stage import StageFlow

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")


class BatchingOperators(Via):
    """Operators that put elements together in lists."""

    @overload
    def grouped(self: SourceLike[T], size: int) -> Source[list[T]]: ...
    @overload
    def grouped(self: FlowLike[I, T], size: int) -> Flow[I, list[T]]: ...
    def grouped(self, size: int) -> Any:
        """Lists of ``size`` elements; the last has what is left."""
        positive("grouped", "size", size)
        return self.via(StageFlow(lambda downstream, _m: Grouped(downstream, size), "grouped"))

    @overload
    def grouped_within(self: SourceLike[T], size: int, seconds: float) -> Source[list[T]]: ...
    @overload
    def grouped_within(self: FlowLike[I, T], size: int, seconds: float) -> Flow[I, list[T]]: ...
    def grouped_within(self, size: int, seconds: float) -> Any:
        """Lists of ``size`` elements, or of those that have come within ``seconds`` of the first of them."""
        positive("grouped_within", "size", size)
        positive("grouped_within", "seconds", seconds)
        return self.via(StageFlow(lambda downstream, m: GroupedWithin(downstream, m, size, seconds), "grouped_within"))
