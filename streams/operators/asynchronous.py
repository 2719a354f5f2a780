"""Operators that wait for coroutines and threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.operators.via import Via, positive
from streams.shapes import FlowLike, SourceLike
from streams.stages.map_async import MapAsync, MapAsyncUnordered
from streams.stages.stage import StageFlow

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
R = TypeVar("R")


class AsynchronousOperators(Via):
    """Operators that wait for coroutines and threads."""

    @overload
    def map_async(self: SourceLike[T], parallelism: int, f: Callable[[T], Awaitable[R]]) -> Source[R]: ...
    @overload
    def map_async(self: FlowLike[I, T], parallelism: int, f: Callable[[T], Awaitable[R]]) -> Flow[I, R]: ...
    def map_async(self, parallelism: int, f: Callable[[Any], Awaitable[Any]]) -> Any:
        """What awaiting ``f(element)`` gives, ``parallelism`` at a time, in the order of the elements.

        A failure comes in its element's place: what precedes it is emitted first.
        """
        positive("map_async", "parallelism", parallelism)
        return self.via(StageFlow(lambda downstream, m: MapAsync(downstream, m, parallelism, f), "map_async"))

    @overload
    def map_async_unordered(self: SourceLike[T], parallelism: int, f: Callable[[T], Awaitable[R]]) -> Source[R]: ...
    @overload
    def map_async_unordered(self: FlowLike[I, T], parallelism: int, f: Callable[[T], Awaitable[R]]) -> Flow[I, R]: ...
    def map_async_unordered(self, parallelism: int, f: Callable[[Any], Awaitable[Any]]) -> Any:
        """What awaiting ``f(element)`` gives, ``parallelism`` at a time, as it is done."""
        positive("map_async_unordered", "parallelism", parallelism)
        return self.via(
            StageFlow(lambda downstream, m: MapAsyncUnordered(downstream, m, parallelism, f), "map_async_unordered")
        )
