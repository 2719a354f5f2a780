"""Operators whose elements meet those of other sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.operators.via import Via
from streams.shapes import FlowLike, SourceLike
from streams.stages.concat import ConcatFlow
from streams.stages.fan_in import FanInFlow, Merge, Zip

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
U = TypeVar("U")


class FanInOperators(Via):
    """Operators whose elements meet those of other sources."""

    @overload
    def merge(self: SourceLike[T], *others: SourceLike[T]) -> Source[T]: ...
    @overload
    def merge(self: FlowLike[I, T], *others: SourceLike[T]) -> Flow[I, T]: ...
    def merge(self, *others: SourceLike[Any]) -> Any:
        """These elements and those of ``others``, as they come; ends when all have."""
        return self.via(FanInFlow(Merge, others))

    @overload
    def concat(self: SourceLike[T], *others: SourceLike[T]) -> Source[T]: ...
    @overload
    def concat(self: FlowLike[I, T], *others: SourceLike[T]) -> Flow[I, T]: ...
    def concat(self, *others: SourceLike[Any]) -> Any:
        """These elements, then those of each of ``others``, which are created when their turn comes."""
        return self.via(ConcatFlow(others))

    @overload
    def zip(self: SourceLike[T], other: SourceLike[U]) -> Source[tuple[T, U]]: ...
    @overload
    def zip(self: FlowLike[I, T], other: SourceLike[U]) -> Flow[I, tuple[T, U]]: ...
    def zip(self, other: SourceLike[Any]) -> Any:
        """Pairs of an element and one of ``other``; ends when either does."""
        return self.via(FanInFlow(Zip, (other,)))
