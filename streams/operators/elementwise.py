"""Operators that look at one element at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.operators.via import Via, functions, not_negative, not_none
from streams.shapes import SourceLike, ValuedFlow
from streams.stages.elementwise import Drop, DropWhile, Scan, Take, TakeWhile, ZipWithIndex
from streams.stages.expand import MapConcat
from streams.stages.fused import FusedFlow
from streams.stages.intersperse import Intersperse
from streams.stages.last_element import Fold, Reduce, StatefulMap
from streams.stages.stage import NONE, StageFlow

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
V = TypeVar("V")
R = TypeVar("R")
S = TypeVar("S")


class ElementwiseOperators(Via):
    """Operators that look at one element at a time."""

    @overload
    def map(self: SourceLike[T, V], f: Callable[[T], R]) -> Source[R, V]: ...
    @overload
    def map(self: ValuedFlow[I, T, V], f: Callable[[T], R]) -> Flow[I, R, V]: ...
    def map(self, f: Callable[[Any], Any]) -> Any:
        """``f`` of each element."""
        functions("map", f=f)
        return self.via(FusedFlow("map", f))

    @overload
    def filter(self: SourceLike[T, V], predicate: Callable[[T], object]) -> Source[T, V]: ...
    @overload
    def filter(self: ValuedFlow[I, T, V], predicate: Callable[[T], object]) -> Flow[I, T, V]: ...
    def filter(self, predicate: Callable[[Any], object]) -> Any:
        """The elements for which ``predicate`` is true."""
        functions("filter", predicate=predicate)
        return self.via(FusedFlow("filter", predicate))

    @overload
    def filter_not(self: SourceLike[T, V], predicate: Callable[[T], object]) -> Source[T, V]: ...
    @overload
    def filter_not(self: ValuedFlow[I, T, V], predicate: Callable[[T], object]) -> Flow[I, T, V]: ...
    def filter_not(self, predicate: Callable[[Any], object]) -> Any:
        """The elements for which ``predicate`` is false."""
        functions("filter_not", predicate=predicate)
        return self.via(FusedFlow("filter_not", predicate))

    @overload
    def map_concat(self: SourceLike[T, V], f: Callable[[T], Iterable[R]]) -> Source[R, V]: ...
    @overload
    def map_concat(self: ValuedFlow[I, T, V], f: Callable[[T], Iterable[R]]) -> Flow[I, R, V]: ...
    def map_concat(self, f: Callable[[Any], Iterable[Any]]) -> Any:
        """The elements of ``f(element)``, for each element."""
        functions("map_concat", f=f)
        return self.via(StageFlow(lambda downstream, m: MapConcat(downstream, m, f), "map_concat"))

    flat_map = map_concat
    """Another name for `map_concat`."""

    @overload
    def stateful_map(
        self: SourceLike[T, V],
        create: Callable[[], S],
        f: Callable[[S, T], tuple[S, R]],
        on_complete: Callable[[S], R | None] | None = ...,
    ) -> Source[R, V]: ...
    @overload
    def stateful_map(
        self: ValuedFlow[I, T, V],
        create: Callable[[], S],
        f: Callable[[S, T], tuple[S, R]],
        on_complete: Callable[[S], R | None] | None = ...,
    ) -> Flow[I, R, V]: ...
    def stateful_map(
        self,
        create: Callable[[], Any],
        f: Callable[[Any, Any], tuple[Any, Any]],
        on_complete: Callable[[Any], Any] | None = None,
    ) -> Any:
        """What ``f(state, element)`` gives beside the next state, the first state being ``create()``.

        ``on_complete(state)`` is called once, however the stream ends; what it returns is the last element, before a failure too.
        """
        functions("stateful_map", create=create, f=f)
        if on_complete is not None:
            functions("stateful_map", on_complete=on_complete)
        return self.via(
            StageFlow(lambda downstream, m: StatefulMap(downstream, create, f, on_complete, m.report), "stateful_map")
        )

    @overload
    def zip_with_index(self: SourceLike[T, V]) -> Source[tuple[T, int], V]: ...
    @overload
    def zip_with_index(self: ValuedFlow[I, T, V]) -> Flow[I, tuple[T, int], V]: ...
    def zip_with_index(self) -> Any:
        """Pairs of an element and its number, from 0."""
        return self.via(StageFlow(lambda downstream, _m: ZipWithIndex(downstream), "zip_with_index"))

    @overload
    def intersperse(
        self: SourceLike[T, V], separator: T, *, start: T | None = ..., end: T | None = ...
    ) -> Source[T, V]: ...
    @overload
    def intersperse(
        self: ValuedFlow[I, T, V], separator: T, *, start: T | None = ..., end: T | None = ...
    ) -> Flow[I, T, V]: ...
    def intersperse(self, separator: Any, *, start: Any = None, end: Any = None) -> Any:
        """``separator`` between the elements, ``start`` before the first and ``end`` after the last, also where there is none."""
        not_none("intersperse", separator)
        first, last = (NONE if edge is None else edge for edge in (start, end))
        return self.via(
            StageFlow(lambda downstream, _m: Intersperse(downstream, separator, first, last), "intersperse")
        )

    @overload
    def take(self: SourceLike[T, V], count: int) -> Source[T, V]: ...
    @overload
    def take(self: ValuedFlow[I, T, V], count: int) -> Flow[I, T, V]: ...
    def take(self, count: int) -> Any:
        """The first ``count`` elements; upstream is never asked for more."""
        not_negative("take", "count", count)
        return self.via(StageFlow(lambda downstream, _m: Take(downstream, count), "take"))

    @overload
    def take_while(
        self: SourceLike[T, V], predicate: Callable[[T], object], *, inclusive: bool = ...
    ) -> Source[T, V]: ...
    @overload
    def take_while(
        self: ValuedFlow[I, T, V], predicate: Callable[[T], object], *, inclusive: bool = ...
    ) -> Flow[I, T, V]: ...
    def take_while(self, predicate: Callable[[Any], object], *, inclusive: bool = False) -> Any:
        """The elements up to the first for which ``predicate`` is false; with that one if ``inclusive``."""
        functions("take_while", predicate=predicate)
        return self.via(StageFlow(lambda downstream, _m: TakeWhile(downstream, predicate, inclusive), "take_while"))

    @overload
    def drop(self: SourceLike[T, V], count: int) -> Source[T, V]: ...
    @overload
    def drop(self: ValuedFlow[I, T, V], count: int) -> Flow[I, T, V]: ...
    def drop(self, count: int) -> Any:
        """All but the first ``count`` elements."""
        not_negative("drop", "count", count)
        return self.via(StageFlow(lambda downstream, _m: Drop(downstream, count), "drop"))

    @overload
    def drop_while(self: SourceLike[T, V], predicate: Callable[[T], object]) -> Source[T, V]: ...
    @overload
    def drop_while(self: ValuedFlow[I, T, V], predicate: Callable[[T], object]) -> Flow[I, T, V]: ...
    def drop_while(self, predicate: Callable[[Any], object]) -> Any:
        """The elements from the first for which ``predicate`` is false."""
        functions("drop_while", predicate=predicate)
        return self.via(StageFlow(lambda downstream, _m: DropWhile(downstream, predicate), "drop_while"))

    @overload
    def scan(self: SourceLike[T, V], zero: R, f: Callable[[R, T], R]) -> Source[R, V]: ...
    @overload
    def scan(self: ValuedFlow[I, T, V], zero: R, f: Callable[[R, T], R]) -> Flow[I, R, V]: ...
    def scan(self, zero: Any, f: Callable[[Any, Any], Any]) -> Any:
        """``zero``, then after each element the state that ``f(state, element)`` gives."""
        functions("scan", f=f)
        not_none("scan", zero)
        return self.via(StageFlow(lambda downstream, m: Scan(downstream, m, zero, f), "scan"))

    @overload
    def fold(self: SourceLike[T, V], zero: R, f: Callable[[R, T], R]) -> Source[R, V]: ...
    @overload
    def fold(self: ValuedFlow[I, T, V], zero: R, f: Callable[[R, T], R]) -> Flow[I, R, V]: ...
    def fold(self, zero: Any, f: Callable[[Any, Any], Any]) -> Any:
        """One element: the state after the last, where ``zero`` is the first state and ``f(state, element)`` the next."""
        functions("fold", f=f)
        not_none("fold", zero)
        return self.via(StageFlow(lambda downstream, _m: Fold(downstream, zero, f), "fold"))

    @overload
    def reduce(self: SourceLike[T, V], f: Callable[[T, T], T]) -> Source[T, V]: ...
    @overload
    def reduce(self: ValuedFlow[I, T, V], f: Callable[[T, T], T]) -> Flow[I, T, V]: ...
    def reduce(self, f: Callable[[Any, Any], Any]) -> Any:
        """As `fold`, with the first element for a zero; fails with `EmptyStreamError` where there is none."""
        functions("reduce", f=f)
        return self.via(StageFlow(lambda downstream, _m: Reduce(downstream, f), "reduce"))
