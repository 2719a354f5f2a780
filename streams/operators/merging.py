"""Operators that let the elements of other sources through beside or behind their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.operators.via import Via, functions, positive
from streams.shapes import SourceLike
from streams.stages.concat import ConcatFlow, ConcatInputs, OrElse
from streams.stages.fan_in import FanIn, FanInFlow
from streams.stages.merges import Interleave, Merge, MergePreferred, MergePrioritized, MergeSorted
from streams.stages.zips import MergeLatest

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.shapes import FlowWith, FlowWithout, SourceWith, SourceWithout, ValuedFlow
    from streams.source import Source
    from streams.type_variables import W

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
V = TypeVar("V")


def expect_sources(operator: str, others: Sequence[object]) -> None:
    """Refuses what cannot be a source, with ``TypeError``."""
    for other in others:
        if not hasattr(other, "create"):
            raise TypeError(f"{operator}() takes sources, not {type(other).__name__}")


def fan_in(operator: str, make: Callable[[int], FanIn[Any]], others: Sequence[SourceLike[Any]]) -> FanInFlow:
    """The flow that joins ``others`` to the stream.

    Raises:
        TypeError: one of them is no source.
    """
    expect_sources(operator, others)
    return FanInFlow(make, others, operator)


class MergeOperators(Via):
    """Operators that let the elements of other sources through. A failure of any input fails the whole and cancels the others.

    Each input is asked for 16 elements ahead, but not those of `concat`, `prepend` and `or_else`, which are asked when their turn comes,
    and of `concat` and `or_else` created then. What the others materialize is kept if what they are merged into has no value of its own.
    """

    @overload
    def merge(self: SourceWith[T, V], *others: SourceLike[T], eager_complete: bool = False) -> Source[T, V]: ...
    @overload
    def merge(
        self: SourceWithout[T, V], *others: SourceLike[T, W | V], eager_complete: bool = False
    ) -> Source[T, V | W]: ...
    @overload
    def merge(self: FlowWith[I, T, V], *others: SourceLike[T], eager_complete: bool = False) -> Flow[I, T, V]: ...
    @overload
    def merge(
        self: FlowWithout[I, T, V], *others: SourceLike[T, W | V], eager_complete: bool = False
    ) -> Flow[I, T, V | W]: ...
    def merge(self, *others: SourceLike[Any], eager_complete: bool = False) -> Any:
        """These elements and those of ``others``, as they come.

        Args:
            others: the other sources.
            eager_complete: the first input that ends is the end, when what waits has gone out; else the last is.
        """
        return self.via(fan_in("merge", lambda inputs: Merge(inputs, eager_complete), others))

    @overload
    def merge_preferred(self: SourceWith[T, V], other: SourceLike[T], eager_complete: bool = False) -> Source[T, V]: ...
    @overload
    def merge_preferred(
        self: SourceWithout[T, V], other: SourceLike[T, W | V], eager_complete: bool = False
    ) -> Source[T, V | W]: ...
    @overload
    def merge_preferred(
        self: FlowWith[I, T, V], other: SourceLike[T], eager_complete: bool = False
    ) -> Flow[I, T, V]: ...
    @overload
    def merge_preferred(
        self: FlowWithout[I, T, V], other: SourceLike[T, W | V], eager_complete: bool = False
    ) -> Flow[I, T, V | W]: ...
    def merge_preferred(self, other: SourceLike[Any], eager_complete: bool = False) -> Any:
        """These elements and those of ``other``, as they come; where both have some, ``other`` goes first."""
        return self.via(
            fan_in("merge_preferred", lambda inputs: MergePreferred(inputs, eager_complete, preferred=1), (other,))
        )

    @overload
    def merge_prioritized(
        self: SourceWith[T, V], other: SourceLike[T], weight: int, other_weight: int, eager_complete: bool = False
    ) -> Source[T, V]: ...
    @overload
    def merge_prioritized(
        self: SourceWithout[T, V],
        other: SourceLike[T, W | V],
        weight: int,
        other_weight: int,
        eager_complete: bool = False,
    ) -> Source[T, V | W]: ...
    @overload
    def merge_prioritized(
        self: FlowWith[I, T, V], other: SourceLike[T], weight: int, other_weight: int, eager_complete: bool = False
    ) -> Flow[I, T, V]: ...
    @overload
    def merge_prioritized(
        self: FlowWithout[I, T, V],
        other: SourceLike[T, W | V],
        weight: int,
        other_weight: int,
        eager_complete: bool = False,
    ) -> Flow[I, T, V | W]: ...
    def merge_prioritized(
        self, other: SourceLike[Any], weight: int, other_weight: int, eager_complete: bool = False
    ) -> Any:
        """These elements and those of ``other``, as they come; where both have some, in proportion to the weights, evenly spread."""
        positive("merge_prioritized", "weight", weight)
        positive("merge_prioritized", "other_weight", other_weight)
        weights = (weight, other_weight)
        return self.via(fan_in("merge_prioritized", lambda _: MergePrioritized(weights, eager_complete), (other,)))

    @overload
    def merge_sorted(
        self: SourceWith[T, V], other: SourceLike[T], key: Callable[[T], Any] | None = None
    ) -> Source[T, V]: ...
    @overload
    def merge_sorted(
        self: SourceWithout[T, V], other: SourceLike[T, W | V], key: Callable[[T], Any] | None = None
    ) -> Source[T, V | W]: ...
    @overload
    def merge_sorted(
        self: FlowWith[I, T, V], other: SourceLike[T], key: Callable[[T], Any] | None = None
    ) -> Flow[I, T, V]: ...
    @overload
    def merge_sorted(
        self: FlowWithout[I, T, V], other: SourceLike[T, W | V], key: Callable[[T], Any] | None = None
    ) -> Flow[I, T, V | W]: ...
    def merge_sorted(self, other: SourceLike[Any], key: Callable[[Any], Any] | None = None) -> Any:
        """The smaller of this stream's next and ``other``'s, so two sorted streams make a sorted one; of equals, this stream's first.

        Args:
            other: the other source.
            key: gives what is compared with ``<``; None compares the elements.
        """
        if key is not None:
            functions("merge_sorted", key=key)
        return self.via(fan_in("merge_sorted", lambda inputs: MergeSorted(inputs, key), (other,)))

    @overload
    def merge_latest(
        self: SourceWith[T, V], *others: SourceLike[T], eager_complete: bool = False
    ) -> Source[list[T], V]: ...
    @overload
    def merge_latest(
        self: SourceWithout[T, V], *others: SourceLike[T, W | V], eager_complete: bool = False
    ) -> Source[list[T], V | W]: ...
    @overload
    def merge_latest(
        self: FlowWith[I, T, V], *others: SourceLike[T], eager_complete: bool = False
    ) -> Flow[I, list[T], V]: ...
    @overload
    def merge_latest(
        self: FlowWithout[I, T, V], *others: SourceLike[T, W | V], eager_complete: bool = False
    ) -> Flow[I, list[T], V | W]: ...
    def merge_latest(self, *others: SourceLike[Any], eager_complete: bool = False) -> Any:
        """After each element of any input, the list of the latest of each, from where every input has had one.

        Args:
            others: the other sources.
            eager_complete: the first input that ends is the end; else the last is.
        """
        return self.via(fan_in("merge_latest", lambda inputs: MergeLatest(inputs, eager_complete), others))

    @overload
    def interleave(
        self: SourceWith[T, V], other: SourceLike[T], segment_size: int, eager_close: bool = False
    ) -> Source[T, V]: ...
    @overload
    def interleave(
        self: SourceWithout[T, V], other: SourceLike[T, W | V], segment_size: int, eager_close: bool = False
    ) -> Source[T, V | W]: ...
    @overload
    def interleave(
        self: FlowWith[I, T, V], other: SourceLike[T], segment_size: int, eager_close: bool = False
    ) -> Flow[I, T, V]: ...
    @overload
    def interleave(
        self: FlowWithout[I, T, V], other: SourceLike[T, W | V], segment_size: int, eager_close: bool = False
    ) -> Flow[I, T, V | W]: ...
    def interleave(self, other: SourceLike[Any], segment_size: int, eager_close: bool = False) -> Any:
        """``segment_size`` elements of this stream, as many of ``other``, and so on; the rest of one where the other has ended.

        Args:
            other: the other source.
            segment_size: elements of one before the other has its turn.
            eager_close: the end is where the next element would be of an input that has ended.
        """
        positive("interleave", "segment_size", segment_size)
        return self.via(fan_in("interleave", lambda inputs: Interleave(inputs, segment_size, eager_close), (other,)))

    @overload
    def concat(self: SourceLike[T, V], *others: SourceLike[T]) -> Source[T, V]: ...
    @overload
    def concat(self: ValuedFlow[I, T, V], *others: SourceLike[T]) -> Flow[I, T, V]: ...
    def concat(self, *others: SourceLike[Any]) -> Any:
        """These elements, then those of each of ``others``, which are created when their turn comes."""
        expect_sources("concat", others)
        return self.via(ConcatFlow(others, "concat"))

    @overload
    def prepend(self: SourceWith[T, V], *others: SourceLike[T]) -> Source[T, V]: ...
    @overload
    def prepend(self: SourceWithout[T, V], *others: SourceLike[T, W | V]) -> Source[T, V | W]: ...
    @overload
    def prepend(self: FlowWith[I, T, V], *others: SourceLike[T]) -> Flow[I, T, V]: ...
    @overload
    def prepend(self: FlowWithout[I, T, V], *others: SourceLike[T, W | V]) -> Flow[I, T, V | W]: ...
    def prepend(self, *others: SourceLike[Any]) -> Any:
        """The elements of each of ``others``, then these, of which none is asked for before."""
        expect_sources("prepend", others)
        return self.via(FanInFlow(ConcatInputs, others, "prepend", own_last=True))

    @overload
    def or_else(self: SourceLike[T, V], other: SourceLike[T]) -> Source[T, V]: ...
    @overload
    def or_else(self: ValuedFlow[I, T, V], other: SourceLike[T]) -> Flow[I, T, V]: ...
    def or_else(self, other: SourceLike[Any]) -> Any:
        """These elements; if there are none before the end, those of ``other``, which is created then."""
        expect_sources("or_else", (other,))
        return self.via(ConcatFlow((other,), "or_else", OrElse))
