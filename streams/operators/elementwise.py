"""Operators that look at one element at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.operators.via import Via, not_negative, not_none
from streams.shapes import FlowLike, SourceLike
from streams.stages.elementwise import Drop, Filter, Map, Scan, Take, TakeWhile
from streams.stages.expand import MapConcat
from streams.stages.stage import StageFlow

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
R = TypeVar("R")


class ElementwiseOperators(Via):
    """Operators that look at one element at a time."""

    @overload
    def map(self: SourceLike[T], f: Callable[[T], R]) -> Source[R]: ...
    @overload
    def map(self: FlowLike[I, T], f: Callable[[T], R]) -> Flow[I, R]: ...
    def map(self, f: Callable[[Any], Any]) -> Any:
        """``f`` of each element."""
        return self.via(StageFlow(lambda downstream, _m: Map(downstream, f), "map"))

    @overload
    def filter(self: SourceLike[T], predicate: Callable[[T], object]) -> Source[T]: ...
    @overload
    def filter(self: FlowLike[I, T], predicate: Callable[[T], object]) -> Flow[I, T]: ...
    def filter(self, predicate: Callable[[Any], object]) -> Any:
        """The elements for which ``predicate`` is true."""
        return self.via(StageFlow(lambda downstream, _m: Filter(downstream, predicate), "filter"))

    @overload
    def map_concat(self: SourceLike[T], f: Callable[[T], Iterable[R]]) -> Source[R]: ...
    @overload
    def map_concat(self: FlowLike[I, T], f: Callable[[T], Iterable[R]]) -> Flow[I, R]: ...
    def map_concat(self, f: Callable[[Any], Iterable[Any]]) -> Any:
        """The elements of ``f(element)``, for each element."""
        return self.via(StageFlow(lambda downstream, m: MapConcat(downstream, m, f), "map_concat"))

    @overload
    def take(self: SourceLike[T], count: int) -> Source[T]: ...
    @overload
    def take(self: FlowLike[I, T], count: int) -> Flow[I, T]: ...
    def take(self, count: int) -> Any:
        """The first ``count`` elements; upstream is never asked for more."""
        not_negative("take", "count", count)
        return self.via(StageFlow(lambda downstream, _m: Take(downstream, count), "take"))

    @overload
    def take_while(self: SourceLike[T], predicate: Callable[[T], object], *, inclusive: bool = ...) -> Source[T]: ...
    @overload
    def take_while(self: FlowLike[I, T], predicate: Callable[[T], object], *, inclusive: bool = ...) -> Flow[I, T]: ...
    def take_while(self, predicate: Callable[[Any], object], *, inclusive: bool = False) -> Any:
        """The elements up to the first for which ``predicate`` is false; with that one if ``inclusive``."""
        return self.via(StageFlow(lambda downstream, _m: TakeWhile(downstream, predicate, inclusive), "take_while"))

    @overload
    def drop(self: SourceLike[T], count: int) -> Source[T]: ...
    @overload
    def drop(self: FlowLike[I, T], count: int) -> Flow[I, T]: ...
    def drop(self, count: int) -> Any:
        """All but the first ``count`` elements."""
        not_negative("drop", "count", count)
        return self.via(StageFlow(lambda downstream, _m: Drop(downstream, count), "drop"))

    @overload
    def scan(self: SourceLike[T], zero: R, f: Callable[[R, T], R]) -> Source[R]: ...
    @overload
    def scan(self: FlowLike[I, T], zero: R, f: Callable[[R, T], R]) -> Flow[I, R]: ...
    def scan(self, zero: Any, f: Callable[[Any, Any], Any]) -> Any:
        """``zero``, then after each element the state that ``f(state, element)`` gives."""
        not_none("scan", zero)
        return self.via(StageFlow(lambda downstream, m: Scan(downstream, m, zero, f), "scan"))
