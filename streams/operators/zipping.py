"""Operators that make one element of this stream's and other sources'."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.operators.merging import fan_in
from streams.operators.via import Via
from streams.shapes import SourceLike
from streams.stages.zips import Zip, ZipAll, ZipLatest, ZipLatestWith, ZipWith

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.shapes import FlowWith, FlowWithout, SourceWith, SourceWithout
    from streams.source import Source
    from streams.type_variables import W

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
S = TypeVar("S")
T = TypeVar("T")
U = TypeVar("U")
V = TypeVar("V")
R = TypeVar("R")


def sources_and_function(operator: str, arguments: tuple[Any, ...]) -> tuple[tuple[SourceLike[Any], ...], Any]:
    """Takes apart what ``zip_with`` is called with: the other sources, then the function.

    Raises:
        TypeError: the last is no function, or there is no source before it.
    """
    *others, f = arguments
    if not others or not callable(f):
        raise TypeError(f"{operator}() takes one or more sources, then a function")
    return tuple(others), f


class ZipOperators(Via):
    """Operators that make one element of several inputs'. A failure of any input fails the whole and cancels the others.

    Each input is asked for 16 elements ahead. What the others materialize is kept if what they are zipped with has no value of its own.
    """

    @overload
    def zip(self: SourceWith[T, V], other: SourceLike[U], /) -> Source[tuple[T, U], V]: ...
    @overload
    def zip(self: SourceWithout[T, V], other: SourceLike[U, W | V], /) -> Source[tuple[T, U], V | W]: ...
    @overload
    def zip(self: FlowWith[I, T, V], other: SourceLike[U], /) -> Flow[I, tuple[T, U], V]: ...
    @overload
    def zip(self: FlowWithout[I, T, V], other: SourceLike[U, W | V], /) -> Flow[I, tuple[T, U], V | W]: ...
    @overload
    def zip(self: SourceWith[T, V], other: SourceLike[U], third: SourceLike[S], /) -> Source[tuple[T, U, S], V]: ...
    @overload
    def zip(
        self: SourceWithout[T, V], other: SourceLike[U, W | V], third: SourceLike[S, W | V], /
    ) -> Source[tuple[T, U, S], V | W]: ...
    @overload
    def zip(self: FlowWith[I, T, V], other: SourceLike[U], third: SourceLike[S], /) -> Flow[I, tuple[T, U, S], V]: ...
    @overload
    def zip(
        self: FlowWithout[I, T, V], other: SourceLike[U, W | V], third: SourceLike[S, W | V], /
    ) -> Flow[I, tuple[T, U, S], V | W]: ...
    @overload
    def zip(self: SourceWith[Any, V], *others: SourceLike[Any]) -> Source[tuple[Any, ...], V]: ...
    @overload
    def zip(self: SourceWithout[Any, V], *others: SourceLike[Any, W | V]) -> Source[tuple[Any, ...], V | W]: ...
    @overload
    def zip(self: FlowWith[I, Any, V], *others: SourceLike[Any]) -> Flow[I, tuple[Any, ...], V]: ...
    @overload
    def zip(self: FlowWithout[I, Any, V], *others: SourceLike[Any, W | V]) -> Flow[I, tuple[Any, ...], V | W]: ...
    def zip(self, *others: SourceLike[Any]) -> Any:
        """Tuples of an element and one of each of ``others``; ends when any of them does, and its elements are used up."""
        return self.via(fan_in("zip", Zip, others))

    @overload
    def zip_with(self: SourceWith[T, V], other: SourceLike[U], f: Callable[[T, U], R], /) -> Source[R, V]: ...
    @overload
    def zip_with(
        self: SourceWithout[T, V], other: SourceLike[U, W | V], f: Callable[[T, U], R], /
    ) -> Source[R, V | W]: ...
    @overload
    def zip_with(self: FlowWith[I, T, V], other: SourceLike[U], f: Callable[[T, U], R], /) -> Flow[I, R, V]: ...
    @overload
    def zip_with(
        self: FlowWithout[I, T, V], other: SourceLike[U, W | V], f: Callable[[T, U], R], /
    ) -> Flow[I, R, V | W]: ...
    @overload
    def zip_with(
        self: SourceWith[T, V], other: SourceLike[U], third: SourceLike[S], f: Callable[[T, U, S], R], /
    ) -> Source[R, V]: ...
    @overload
    def zip_with(
        self: SourceWithout[T, V],
        other: SourceLike[U, W | V],
        third: SourceLike[S, W | V],
        f: Callable[[T, U, S], R],
        /,
    ) -> Source[R, V | W]: ...
    @overload
    def zip_with(
        self: FlowWith[I, T, V], other: SourceLike[U], third: SourceLike[S], f: Callable[[T, U, S], R], /
    ) -> Flow[I, R, V]: ...
    @overload
    def zip_with(
        self: FlowWithout[I, T, V],
        other: SourceLike[U, W | V],
        third: SourceLike[S, W | V],
        f: Callable[[T, U, S], R],
        /,
    ) -> Flow[I, R, V | W]: ...
    @overload
    def zip_with(self: SourceWith[Any, V], *others_and_f: Any) -> Source[Any, V]: ...
    @overload
    def zip_with(self: SourceWithout[Any, V], *others_and_f: Any) -> Source[Any, V | W]: ...
    @overload
    def zip_with(self: FlowWith[I, Any, V], *others_and_f: Any) -> Flow[I, Any, V]: ...
    @overload
    def zip_with(self: FlowWithout[I, Any, V], *others_and_f: Any) -> Flow[I, Any, V | W]: ...
    def zip_with(self, *others_and_f: Any) -> Any:
        """``zip_with(other, f)``: what ``f`` makes of an element and one of ``other``, or of several others; ends as `zip` does."""
        others, f = sources_and_function("zip_with", others_and_f)
        return self.via(fan_in("zip_with", lambda inputs: ZipWith(inputs, f), others))

    @overload
    def zip_all(
        self: SourceWith[T, V], other: SourceLike[U], this_default: T, other_default: U
    ) -> Source[tuple[T, U], V]: ...
    @overload
    def zip_all(
        self: SourceWithout[T, V], other: SourceLike[U, W | V], this_default: T, other_default: U
    ) -> Source[tuple[T, U], V | W]: ...
    @overload
    def zip_all(
        self: FlowWith[I, T, V], other: SourceLike[U], this_default: T, other_default: U
    ) -> Flow[I, tuple[T, U], V]: ...
    @overload
    def zip_all(
        self: FlowWithout[I, T, V], other: SourceLike[U, W | V], this_default: T, other_default: U
    ) -> Flow[I, tuple[T, U], V | W]: ...
    def zip_all(self, other: SourceLike[Any], this_default: Any, other_default: Any) -> Any:
        """Pairs of an element and one of ``other``, with a default for the one that ends before the other; ends when both have."""
        return self.via(fan_in("zip_all", lambda _: ZipAll((this_default, other_default)), (other,)))

    @overload
    def zip_latest(self: SourceWith[T, V], other: SourceLike[U], /) -> Source[tuple[T, U], V]: ...
    @overload
    def zip_latest(self: SourceWithout[T, V], other: SourceLike[U, W | V], /) -> Source[tuple[T, U], V | W]: ...
    @overload
    def zip_latest(self: FlowWith[I, T, V], other: SourceLike[U], /) -> Flow[I, tuple[T, U], V]: ...
    @overload
    def zip_latest(self: FlowWithout[I, T, V], other: SourceLike[U, W | V], /) -> Flow[I, tuple[T, U], V | W]: ...
    @overload
    def zip_latest(self: SourceWith[Any, V], *others: SourceLike[Any]) -> Source[tuple[Any, ...], V]: ...
    @overload
    def zip_latest(self: SourceWithout[Any, V], *others: SourceLike[Any, W | V]) -> Source[tuple[Any, ...], V | W]: ...
    @overload
    def zip_latest(self: FlowWith[I, Any, V], *others: SourceLike[Any]) -> Flow[I, tuple[Any, ...], V]: ...
    @overload
    def zip_latest(
        self: FlowWithout[I, Any, V], *others: SourceLike[Any, W | V]
    ) -> Flow[I, tuple[Any, ...], V | W]: ...
    def zip_latest(self, *others: SourceLike[Any]) -> Any:
        """After each element of any input, the tuple of the latest of each, from where every input has had one; ends when any does."""
        return self.via(fan_in("zip_latest", lambda inputs: ZipLatest(inputs, True), others))

    @overload
    def zip_latest_with(
        self: SourceWith[T, V], other: SourceLike[U], f: Callable[[T, U], R], /, *, eager_complete: bool = True
    ) -> Source[R, V]: ...
    @overload
    def zip_latest_with(
        self: SourceWithout[T, V],
        other: SourceLike[U, W | V],
        f: Callable[[T, U], R],
        /,
        *,
        eager_complete: bool = True,
    ) -> Source[R, V | W]: ...
    @overload
    def zip_latest_with(
        self: FlowWith[I, T, V], other: SourceLike[U], f: Callable[[T, U], R], /, *, eager_complete: bool = True
    ) -> Flow[I, R, V]: ...
    @overload
    def zip_latest_with(
        self: FlowWithout[I, T, V],
        other: SourceLike[U, W | V],
        f: Callable[[T, U], R],
        /,
        *,
        eager_complete: bool = True,
    ) -> Flow[I, R, V | W]: ...
    @overload
    def zip_latest_with(
        self: SourceWith[Any, V], *others_and_f: Any, eager_complete: bool = True
    ) -> Source[Any, V]: ...
    @overload
    def zip_latest_with(
        self: SourceWithout[Any, V], *others_and_f: Any, eager_complete: bool = True
    ) -> Source[Any, V | W]: ...
    @overload
    def zip_latest_with(
        self: FlowWith[I, Any, V], *others_and_f: Any, eager_complete: bool = True
    ) -> Flow[I, Any, V]: ...
    @overload
    def zip_latest_with(
        self: FlowWithout[I, Any, V], *others_and_f: Any, eager_complete: bool = True
    ) -> Flow[I, Any, V | W]: ...
    def zip_latest_with(self, *others_and_f: Any, eager_complete: bool = True) -> Any:
        """``zip_latest_with(other, f)``: what ``f`` makes of the latest of each, where `zip_latest` has a tuple.

        Args:
            others_and_f: one or more sources, then the function.
            eager_complete: the first input that ends is the end; else the last is.
        """
        others, f = sources_and_function("zip_latest_with", others_and_f)
        return self.via(fan_in("zip_latest_with", lambda inputs: ZipLatestWith(inputs, f, eager_complete), others))
