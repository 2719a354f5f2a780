"""The operators, once for sources and flows: each method is one stage behind what it is called on.

The two overloads of each say that a source stays a source and a flow a flow; ``via`` does it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams._batching import Grouped, GroupedWithin
from streams._buffer import Buffer, OverflowStrategy
from streams._concat import ConcatFlow
from streams._elementwise import Drop, Filter, Map, Scan, Take, TakeWhile
from streams._expand import MapConcat
from streams._fan_in import FanInFlow, Merge, Zip
from streams._map_async import MapAsync, MapAsyncUnordered
from streams._stage import StageFlow
from streams._termination import Recover, WatchTermination
from streams.errors import null_element
from streams.shapes import FlowLike, SourceLike

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
R = TypeVar("R")
U = TypeVar("U")


class Operators:
    """What can be put behind a source or a flow."""

    @abstractmethod
    def via(self, flow: Any) -> Any:
        """Itself with ``flow`` behind it."""

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
        _not_negative("take", "count", count)
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
        _not_negative("drop", "count", count)
        return self.via(StageFlow(lambda downstream, _m: Drop(downstream, count), "drop"))

    @overload
    def scan(self: SourceLike[T], zero: R, f: Callable[[R, T], R]) -> Source[R]: ...
    @overload
    def scan(self: FlowLike[I, T], zero: R, f: Callable[[R, T], R]) -> Flow[I, R]: ...
    def scan(self, zero: Any, f: Callable[[Any, Any], Any]) -> Any:
        """``zero``, then after each element the state that ``f(state, element)`` gives."""
        _not_none("scan", zero)
        return self.via(StageFlow(lambda downstream, m: Scan(downstream, m, zero, f), "scan"))

    @overload
    def map_async(self: SourceLike[T], parallelism: int, f: Callable[[T], Awaitable[R]]) -> Source[R]: ...
    @overload
    def map_async(self: FlowLike[I, T], parallelism: int, f: Callable[[T], Awaitable[R]]) -> Flow[I, R]: ...
    def map_async(self, parallelism: int, f: Callable[[Any], Awaitable[Any]]) -> Any:
        """What awaiting ``f(element)`` gives, ``parallelism`` at a time, in the order of the elements.

        A failure comes in its element's place: what precedes it is emitted first.
        """
        _positive("map_async", "parallelism", parallelism)
        return self.via(StageFlow(lambda downstream, m: MapAsync(downstream, m, parallelism, f), "map_async"))

    @overload
    def map_async_unordered(self: SourceLike[T], parallelism: int, f: Callable[[T], Awaitable[R]]) -> Source[R]: ...
    @overload
    def map_async_unordered(self: FlowLike[I, T], parallelism: int, f: Callable[[T], Awaitable[R]]) -> Flow[I, R]: ...
    def map_async_unordered(self, parallelism: int, f: Callable[[Any], Awaitable[Any]]) -> Any:
        """What awaiting ``f(element)`` gives, ``parallelism`` at a time, as it is done."""
        _positive("map_async_unordered", "parallelism", parallelism)
        return self.via(
            StageFlow(lambda downstream, m: MapAsyncUnordered(downstream, m, parallelism, f), "map_async_unordered")
        )

    @overload
    def grouped(self: SourceLike[T], size: int) -> Source[list[T]]: ...
    @overload
    def grouped(self: FlowLike[I, T], size: int) -> Flow[I, list[T]]: ...
    def grouped(self, size: int) -> Any:
        """Lists of ``size`` elements; the last has what is left."""
        _positive("grouped", "size", size)
        return self.via(StageFlow(lambda downstream, _m: Grouped(downstream, size), "grouped"))

    @overload
    def grouped_within(self: SourceLike[T], size: int, seconds: float) -> Source[list[T]]: ...
    @overload
    def grouped_within(self: FlowLike[I, T], size: int, seconds: float) -> Flow[I, list[T]]: ...
    def grouped_within(self, size: int, seconds: float) -> Any:
        """Lists of ``size`` elements, or of those that have come within ``seconds`` of the first of them."""
        _positive("grouped_within", "size", size)
        _positive("grouped_within", "seconds", seconds)
        return self.via(StageFlow(lambda downstream, m: GroupedWithin(downstream, m, size, seconds), "grouped_within"))

    @overload
    def buffer(self: SourceLike[T], size: int, overflow: OverflowStrategy = ...) -> Source[T]: ...
    @overload
    def buffer(self: FlowLike[I, T], size: int, overflow: OverflowStrategy = ...) -> Flow[I, T]: ...
    def buffer(self, size: int, overflow: OverflowStrategy = OverflowStrategy.BACKPRESSURE) -> Any:
        """Lets upstream run ahead by ``size`` elements; ``overflow`` says what happens to more."""
        _positive("buffer", "size", size)
        return self.via(StageFlow(lambda downstream, _m: Buffer(downstream, size, overflow), "buffer"))

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

    @overload
    def recover(self: SourceLike[T], f: Callable[[BaseException], T | None]) -> Source[T]: ...
    @overload
    def recover(self: FlowLike[I, T], f: Callable[[BaseException], T | None]) -> Flow[I, T]: ...
    def recover(self, f: Callable[[BaseException], Any]) -> Any:
        """In place of a failure, ``f(failure)`` as the last element; where that is None, the failure."""
        return self.via(StageFlow(lambda downstream, _m: Recover(downstream, f), "recover"))

    @overload
    def watch_termination(self: SourceLike[T], callback: Callable[[BaseException | None], object]) -> Source[T]: ...
    @overload
    def watch_termination(self: FlowLike[I, T], callback: Callable[[BaseException | None], object]) -> Flow[I, T]: ...
    def watch_termination(self, callback: Callable[[BaseException | None], object]) -> Any:
        """Calls ``callback`` once: with None at completion, with the failure, or with ``CancelledError`` when downstream cancels."""
        return self.via(StageFlow(lambda downstream, m: WatchTermination(downstream, m, callback), "watch_termination"))


def _positive(operator: str, name: str, value: float) -> None:
    if value <= 0:
        raise ValueError(f"{operator}: {name} must be more than 0, not {value}")


def _not_negative(operator: str, name: str, value: int) -> None:
    if value < 0:
        raise ValueError(f"{operator}: {name} must not be negative, but is {value}")


def _not_none(operator: str, value: object) -> None:
    if value is None:
        raise null_element(operator)
