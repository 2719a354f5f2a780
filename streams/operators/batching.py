"""Operators that put elements together in lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.operators.via import Via, functions, positive, positive_amount
from streams.shapes import SourceLike, ValuedFlow
from streams.stages.batching import Grouped, GroupedWithin, Sliding
from streams.stages.stage import StageFlow
from streams.stages.weighted import MAX_WEIGHTLESS_GROUP, WeightedGroups

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
V = TypeVar("V")


class BatchingOperators(Via):
    """Operators that put elements together in lists."""

    @overload
    def grouped(self: SourceLike[T, V], size: int) -> Source[list[T], V]: ...
    @overload
    def grouped(self: ValuedFlow[I, T, V], size: int) -> Flow[I, list[T], V]: ...
    def grouped(self, size: int) -> Any:
        """Lists of ``size`` elements; the last has what is left."""
        positive("grouped", "size", size)
        return self.via(StageFlow(lambda downstream, _m: Grouped(downstream, size), "grouped"))

    @overload
    def sliding(self: SourceLike[T, V], size: int, step: int = ...) -> Source[list[T], V]: ...
    @overload
    def sliding(self: ValuedFlow[I, T, V], size: int, step: int = ...) -> Flow[I, list[T], V]: ...
    def sliding(self, size: int, step: int = 1) -> Any:
        """Lists of ``size`` elements, each beginning ``step`` elements after the one before; a last, shorter one of what none has had."""
        positive("sliding", "size", size)
        positive("sliding", "step", step)
        return self.via(StageFlow(lambda downstream, _m: Sliding(downstream, size, step), "sliding"))

    @overload
    def grouped_weighted(
        self: SourceLike[T, V], max_weight: float, weight: Callable[[T], float]
    ) -> Source[list[T], V]: ...
    @overload
    def grouped_weighted(
        self: ValuedFlow[I, T, V], max_weight: float, weight: Callable[[T], float]
    ) -> Flow[I, list[T], V]: ...
    def grouped_weighted(self, max_weight: float, weight: Callable[[Any], float]) -> Any:
        """Lists of elements that weigh ``max_weight`` together at most; an element that weighs more is a list of its own.

        A list has `MAX_WEIGHTLESS_GROUP` elements at most. ``weight`` must not be negative.
        """
        functions("grouped_weighted", weight=weight)
        positive_amount("grouped_weighted", "max_weight", max_weight)
        return self.via(
            StageFlow(
                lambda downstream, m: WeightedGroups(
                    downstream, m, MAX_WEIGHTLESS_GROUP, max_weight, weight, None, "grouped_weighted"
                ),
                "grouped_weighted",
            )
        )

    @overload
    def grouped_within(
        self: SourceLike[T, V],
        size: int,
        seconds: float,
        *,
        max_weight: float | None = ...,
        weight: Callable[[T], float] = ...,
    ) -> Source[list[T], V]: ...
    @overload
    def grouped_within(
        self: ValuedFlow[I, T, V],
        size: int,
        seconds: float,
        *,
        max_weight: float | None = ...,
        weight: Callable[[T], float] = ...,
    ) -> Flow[I, list[T], V]: ...
    def grouped_within(
        self,
        size: int,
        seconds: float,
        *,
        max_weight: float | None = None,
        weight: Callable[[Any], float] = len,
    ) -> Any:
        """Lists of ``size`` elements, or of those that have come within ``seconds`` of the first of them.

        With ``max_weight``, a list weighs that at most, unless it has one element: the number of bytes, as ``weight`` is ``len`` if nothing
        else is given. Elements are then asked for one at a time, so that no more than a list and an element are held.
        """
        functions("grouped_within", weight=weight)
        positive("grouped_within", "size", size)
        positive_amount("grouped_within", "seconds", seconds)
        if max_weight is None:
            return self.via(
                StageFlow(lambda downstream, m: GroupedWithin(downstream, m, size, seconds), "grouped_within")
            )
        positive_amount("grouped_within", "max_weight", max_weight)
        return self.via(
            StageFlow(
                lambda downstream, m: WeightedGroups(
                    downstream, m, size, max_weight, weight, seconds, "grouped_within"
                ),
                "grouped_within",
            )
        )
