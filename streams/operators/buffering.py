"""Operators that let the two ends of a stream go at paces of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.operators.via import Via, functions, member, positive, positive_amount
from streams.overflow import OverflowStrategy
from streams.shapes import SourceLike, ValuedFlow
from streams.stages.buffer import Buffer
from streams.stages.condense import Batch, Conflate, WeightedBatch
from streams.stages.extrapolate import Expand
from streams.stages.stage import NONE, StageFlow

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
V = TypeVar("V")
R = TypeVar("R")


def _itself(element: Any) -> Any:
    return element


class BufferingOperators(Via):
    """Operators that let the two ends of a stream go at paces of their own."""

    @overload
    def buffer(self: SourceLike[T, V], size: int, overflow: OverflowStrategy = ...) -> Source[T, V]: ...
    @overload
    def buffer(self: ValuedFlow[I, T, V], size: int, overflow: OverflowStrategy = ...) -> Flow[I, T, V]: ...
    def buffer(self, size: int, overflow: OverflowStrategy = OverflowStrategy.BACKPRESSURE) -> Any:
        """Lets upstream run ahead by ``size`` elements; ``overflow`` says what happens to more."""
        positive("buffer", "size", size)
        member("buffer", "overflow", overflow, OverflowStrategy)
        return self.via(StageFlow(lambda downstream, _m: Buffer(downstream, size, overflow), "buffer"))

    @overload
    def conflate(self: SourceLike[T, V], f: Callable[[T, T], T]) -> Source[T, V]: ...
    @overload
    def conflate(self: ValuedFlow[I, T, V], f: Callable[[T, T], T]) -> Flow[I, T, V]: ...
    def conflate(self, f: Callable[[Any, Any], Any]) -> Any:
        """Puts what downstream has not asked for together with ``f(together, element)``; upstream is never held back."""
        functions("conflate", f=f)
        return self.via(StageFlow(lambda downstream, _m: Conflate(downstream, _itself, f), "conflate"))

    @overload
    def conflate_with_seed(self: SourceLike[T, V], seed: Callable[[T], R], f: Callable[[R, T], R]) -> Source[R, V]: ...
    @overload
    def conflate_with_seed(
        self: ValuedFlow[I, T, V], seed: Callable[[T], R], f: Callable[[R, T], R]
    ) -> Flow[I, R, V]: ...
    def conflate_with_seed(self, seed: Callable[[Any], Any], f: Callable[[Any, Any], Any]) -> Any:
        """As `conflate`, beginning with ``seed(element)``, also where nothing has to wait."""
        functions("conflate_with_seed", seed=seed, f=f)
        return self.via(
            StageFlow(lambda downstream, _m: Conflate(downstream, seed, f, "conflate_with_seed"), "conflate_with_seed")
        )

    @overload
    def batch(self: SourceLike[T, V], max: int, seed: Callable[[T], R], f: Callable[[R, T], R]) -> Source[R, V]: ...
    @overload
    def batch(self: ValuedFlow[I, T, V], max: int, seed: Callable[[T], R], f: Callable[[R, T], R]) -> Flow[I, R, V]: ...
    def batch(self, max: int, seed: Callable[[Any], Any], f: Callable[[Any, Any], Any]) -> Any:  # noqa: A002 - Akka's name for it
        """As `conflate_with_seed`, for ``max`` elements at most; then upstream is held back."""
        functions("batch", seed=seed, f=f)
        positive("batch", "max", max)
        return self.via(StageFlow(lambda downstream, _m: Batch(downstream, max, seed, f), "batch"))

    @overload
    def batch_weighted(
        self: SourceLike[T, V],
        max: float,
        cost: Callable[[T], float],
        seed: Callable[[T], R],
        f: Callable[[R, T], R],
    ) -> Source[R, V]: ...
    @overload
    def batch_weighted(
        self: ValuedFlow[I, T, V],
        max: float,
        cost: Callable[[T], float],
        seed: Callable[[T], R],
        f: Callable[[R, T], R],
    ) -> Flow[I, R, V]: ...
    def batch_weighted(
        self,
        max: float,  # noqa: A002 - as above
        cost: Callable[[Any], float],
        seed: Callable[[Any], Any],
        f: Callable[[Any, Any], Any],
    ) -> Any:
        """As `batch`, for elements that cost ``max`` together at most; one that costs more goes alone. ``cost`` must not be negative."""
        functions("batch_weighted", cost=cost, seed=seed, f=f)
        positive_amount("batch_weighted", "max", max)
        return self.via(
            StageFlow(lambda downstream, _m: WeightedBatch(downstream, max, cost, seed, f), "batch_weighted")
        )

    @overload
    def expand(self: SourceLike[T, V], f: Callable[[T], Iterable[R]]) -> Source[R, V]: ...
    @overload
    def expand(self: ValuedFlow[I, T, V], f: Callable[[T], Iterable[R]]) -> Flow[I, R, V]: ...
    def expand(self, f: Callable[[Any], Iterable[Any]]) -> Any:
        """Of ``f(element)``, which may be endless, at least one, then as many as are asked for until the next element comes."""
        functions("expand", f=f)
        return self.via(StageFlow(lambda downstream, m: Expand(downstream, m, f), "expand"))

    @overload
    def extrapolate(self: SourceLike[T, V], f: Callable[[T], Iterable[T]], initial: T | None = ...) -> Source[T, V]: ...
    @overload
    def extrapolate(
        self: ValuedFlow[I, T, V], f: Callable[[T], Iterable[T]], initial: T | None = ...
    ) -> Flow[I, T, V]: ...
    def extrapolate(self, f: Callable[[Any], Iterable[Any]], initial: Any = None) -> Any:
        """Each element, then as many of ``f(element)`` as are asked for until the next comes; ``initial`` stands in for a first element."""
        functions("extrapolate", f=f)

        def element_first(element: Any) -> Iterable[Any]:
            return chain((element,), f(element))

        first = NONE if initial is None else initial
        return self.via(
            StageFlow(lambda downstream, m: Expand(downstream, m, element_first, "extrapolate", first), "extrapolate")
        )
