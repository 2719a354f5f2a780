"""Operators that wait for coroutines and threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar, overload

from streams.contract import Subscriber
from streams.operators.via import Via, awaiting_functions, functions, positive
from streams.shapes import SourceLike, ValuedFlow
from streams.stages.map_async import MapAsync, MapAsyncUnordered
from streams.stages.map_async_partitioned import MapAsyncPartitioned, MapAsyncPartitionedUnordered
from streams.stages.map_blocking import MapBlocking, MapBlockingUnordered
from streams.stages.stage import StageFlow

if TYPE_CHECKING:
    from streams.flow import Flow
    from streams.source import Source

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
V = TypeVar("V")
R = TypeVar("R")
K = TypeVar("K", bound=Hashable)


class AsynchronousOperators(Via):
    """Operators that wait for coroutines and threads.

    Of each, elements that were asked for and have not come, that are being worked on, and whose results nobody has asked for are
    together ``parallelism`` at most.
    """

    @overload
    def map_async(self: SourceLike[T, V], parallelism: int, f: Callable[[T], Awaitable[R]]) -> Source[R, V]: ...
    @overload
    def map_async(self: ValuedFlow[I, T, V], parallelism: int, f: Callable[[T], Awaitable[R]]) -> Flow[I, R, V]: ...
    def map_async(self, parallelism: int, f: Callable[[Any], Awaitable[Any]]) -> Any:
        """What awaiting ``f(element)`` gives, ``parallelism`` at a time, in the order of the elements.

        A failure comes in its element's place: what precedes it is emitted first.
        """
        awaiting_functions("map_async", f=f)
        positive("map_async", "parallelism", parallelism)
        return self.via(StageFlow(lambda downstream, m: MapAsync(downstream, m, parallelism, f), "map_async"))

    @overload
    def map_async_unordered(
        self: SourceLike[T, V], parallelism: int, f: Callable[[T], Awaitable[R]]
    ) -> Source[R, V]: ...
    @overload
    def map_async_unordered(
        self: ValuedFlow[I, T, V], parallelism: int, f: Callable[[T], Awaitable[R]]
    ) -> Flow[I, R, V]: ...
    def map_async_unordered(self, parallelism: int, f: Callable[[Any], Awaitable[Any]]) -> Any:
        """What awaiting ``f(element)`` gives, ``parallelism`` at a time, as it is done; a failure as soon as it is known."""
        awaiting_functions("map_async_unordered", f=f)
        positive("map_async_unordered", "parallelism", parallelism)
        return self.via(
            StageFlow(lambda downstream, m: MapAsyncUnordered(downstream, m, parallelism, f), "map_async_unordered")
        )

    @overload
    def map_async_partitioned(
        self: SourceLike[T, V],
        parallelism: int,
        per_partition: int,
        partition: Callable[[T], K],
        f: Callable[[T, K], Awaitable[R]],
    ) -> Source[R, V]: ...
    @overload
    def map_async_partitioned(
        self: ValuedFlow[I, T, V],
        parallelism: int,
        per_partition: int,
        partition: Callable[[T], K],
        f: Callable[[T, K], Awaitable[R]],
    ) -> Flow[I, R, V]: ...
    def map_async_partitioned(
        self,
        parallelism: int,
        per_partition: int,
        partition: Callable[[Any], Any],
        f: Callable[[Any, Any], Awaitable[Any]],
    ) -> Any:
        """What awaiting ``f(element, partition(element))`` gives, in the order of the elements.

        Args:
            parallelism: elements under way, those that wait for their partition among them.
            per_partition: elements of one partition that are worked on at once; with 1 they are worked on in their order.
            partition: an element's partition; anything that can be a key of a dict.
            f: gets the element and its partition.
        """
        return self.via(
            _partitioned("map_async_partitioned", MapAsyncPartitioned, parallelism, per_partition, partition, f)
        )

    @overload
    def map_async_partitioned_unordered(
        self: SourceLike[T, V],
        parallelism: int,
        per_partition: int,
        partition: Callable[[T], K],
        f: Callable[[T, K], Awaitable[R]],
    ) -> Source[R, V]: ...
    @overload
    def map_async_partitioned_unordered(
        self: ValuedFlow[I, T, V],
        parallelism: int,
        per_partition: int,
        partition: Callable[[T], K],
        f: Callable[[T, K], Awaitable[R]],
    ) -> Flow[I, R, V]: ...
    def map_async_partitioned_unordered(
        self,
        parallelism: int,
        per_partition: int,
        partition: Callable[[Any], Any],
        f: Callable[[Any, Any], Awaitable[Any]],
    ) -> Any:
        """As `map_async_partitioned`, but results come as they are done; those of one partition in order if ``per_partition`` is 1."""
        name = "map_async_partitioned_unordered"
        return self.via(_partitioned(name, MapAsyncPartitionedUnordered, parallelism, per_partition, partition, f))

    @overload
    def map_blocking(self: SourceLike[T, V], parallelism: int, f: Callable[[T], R]) -> Source[R, V]: ...
    @overload
    def map_blocking(self: ValuedFlow[I, T, V], parallelism: int, f: Callable[[T], R]) -> Flow[I, R, V]: ...
    def map_blocking(self, parallelism: int, f: Callable[[Any], Any]) -> Any:
        """What ``f(element)`` returns, which may block: each call is in a thread, ``parallelism`` at a time; results in order.

        The threads are the run's own and see the context variables of the loop. A call that is under way cannot be interrupted: when
        the stream is cancelled, the handle waits for it `STOP_TIMEOUT` seconds, then reports it and leaves it behind. It does not
        keep the process from ending.
        """
        functions("map_blocking", f=f)
        positive("map_blocking", "parallelism", parallelism)
        return self.via(StageFlow(lambda downstream, m: MapBlocking(downstream, m, parallelism, f), "map_blocking"))

    @overload
    def map_blocking_unordered(self: SourceLike[T, V], parallelism: int, f: Callable[[T], R]) -> Source[R, V]: ...
    @overload
    def map_blocking_unordered(self: ValuedFlow[I, T, V], parallelism: int, f: Callable[[T], R]) -> Flow[I, R, V]: ...
    def map_blocking_unordered(self, parallelism: int, f: Callable[[Any], Any]) -> Any:
        """As `map_blocking`, but results come as they are done, and a failure as soon as it is known."""
        functions("map_blocking_unordered", f=f)
        positive("map_blocking_unordered", "parallelism", parallelism)
        return self.via(
            StageFlow(
                lambda downstream, m: MapBlockingUnordered(downstream, m, parallelism, f, "map_blocking_unordered"),
                "map_blocking_unordered",
            )
        )


def _partitioned(
    name: str,
    stage: Callable[..., Subscriber[Any]],
    parallelism: int,
    per_partition: int,
    partition: Callable[[Any], Any],
    f: Callable[[Any, Any], Awaitable[Any]],
) -> StageFlow[Any, Any]:
    """The flow of either order: the arguments are checked and handed on alike."""
    functions(name, partition=partition)
    awaiting_functions(name, f=f)
    positive(name, "parallelism", parallelism)
    positive(name, "per_partition", per_partition)
    return StageFlow(lambda downstream, m: stage(downstream, m, parallelism, per_partition, partition, f, name), name)
