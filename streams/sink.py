"""`Sink`: the end of a stream, and what it results in."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from streams.contract import Publisher, Subscriber
from streams.materialize import Materialization
from streams.operators.via import awaiting_functions, functions, positive
from streams.publishers.blocks import BinaryFile, expect_file
from streams.stages.map_async import MapAsyncUnordered
from streams.stages.map_blocking import MapBlockingUnordered
from streams.stages.relay import PublisherSink
from streams.stages.stage import StagePublisher, discard
from streams.subscribers.file import FileSink, IOResult
from streams.subscribers.fold_async import attach_fold_async
from streams.subscribers.observable import observable_of
from streams.subscribers.pull import PULL_PREFETCH, Prefetch, SinkQueue
from streams.subscribers.select import Head, Last, Reduce, TakeLast
from streams.subscribers.sinks import (
    Acknowledge,
    Acknowledgeable,
    Cancelled,
    Collect,
    Fold,
    Foreach,
    Ignore,
    OnComplete,
    SinkSubscriber,
    attach,
)
from streams.subscribers.watched import Watched
from streams.type_variables import E, Generic, V_co, Valued

if TYPE_CHECKING:
    from reactivex import Observable

A = TypeVar("A")
T = TypeVar("T")
V = TypeVar("V")
X = TypeVar("X")
I_contra = TypeVar("I_contra", contravariant=True)
M_co = TypeVar("M_co", covariant=True)

DEFAULT_COLLECT_LIMIT: Final = 1_000_000
"""Elements that `Sink.collect` holds unless told otherwise: a stream that was thought to be short fails before it fills the memory."""


class Sink(Valued[V_co], Generic[I_contra, M_co, V_co]):
    """An immutable description of a stream's end; ``M`` is what the run results in, ``V`` what it materializes.

    Args:
        attach: subscribes to the publisher it is given and returns a future that is done when the sink is done. It registers its
            subscription's ``cancel`` with ``m.on_cancel``.
        name: seen in the names of graphs.
    """

    def __init__(
        self: Sink[I_contra, M_co, asyncio.Future[M_co]],
        attach: Callable[[Publisher[I_contra], Materialization], asyncio.Future[M_co]],
        name: str = "sink",
    ) -> None:
        self._materialize: Callable[[Publisher[I_contra], Materialization], tuple[asyncio.Future[M_co], V_co]]
        self._materialize = lambda publisher, m: _its_own_value(attach(publisher, m))
        self.name = name

    @staticmethod
    def valued(
        materialize: Callable[[Publisher[T], Materialization], tuple[asyncio.Future[A], V]], name: str = "sink"
    ) -> Sink[T, A, V]:
        """A sink with a materialized value beside its result: ``materialize`` gives the future of that, and the value."""
        sink: Sink[T, A, Any] = Sink(lambda publisher, m: materialize(publisher, m)[0], name)
        sink._materialize = materialize
        return sink

    def attach_sink(self, publisher: Publisher[I_contra], m: Materialization, /) -> asyncio.Future[M_co]:
        """Subscribes this sink to ``publisher`` for one run."""
        return self._materialize(publisher, m)[0]

    def create_sink(self, publisher: Publisher[I_contra], m: Materialization, /) -> tuple[asyncio.Future[M_co], V_co]:
        """Subscribes this sink to ``publisher`` for one run; with its materialized value."""
        return self._materialize(publisher, m)

    def map_materialized(self, f: Callable[[V_co], X]) -> Sink[I_contra, M_co, X]:
        """This sink, with ``f`` of its materialized value in the place of that."""

        def materialize(publisher: Publisher[I_contra], m: Materialization) -> tuple[asyncio.Future[M_co], X]:
            future, value = self._materialize(publisher, m)
            return future, f(value)

        return Sink.valued(materialize, self.name)

    def __repr__(self) -> str:
        return f"<Sink {self.name}>"

    @staticmethod
    def from_subscriber(factory: Callable[[], Subscriber[T]]) -> Sink[T, None, asyncio.Future[None]]:
        """A subscriber of your own, made for each run; the sink is done when it has been told the end, or has cancelled."""
        return _sink(lambda m: Watched(m, factory()), "subscriber")

    @staticmethod
    def as_publisher() -> Sink[E, None, Publisher[E]]:
        """Materializes a `Publisher` for one subscriber, of this or another library; done when that was told the end or has cancelled."""

        def materialize(publisher: Publisher[E], m: Materialization) -> tuple[asyncio.Future[None], Publisher[E]]:
            end: PublisherSink[E] = PublisherSink(m)
            publisher.subscribe(end)
            return end.future, end

        return Sink.valued(materialize, "publisher")

    @staticmethod
    def foreach(f: Callable[[T], object]) -> Sink[T, int, asyncio.Future[int]]:
        """Calls ``f`` with each element; results in how many there were."""
        functions("foreach", f=f)
        return _sink(lambda m: Foreach(m, f), "foreach")

    @staticmethod
    def foreach_async(parallelism: int, f: Callable[[T], Awaitable[object]]) -> Sink[T, int, asyncio.Future[int]]:
        """Awaits ``f`` of each element, ``parallelism`` at a time; results in how many there were."""
        awaiting_functions("foreach_async", f=f)

        @functools.wraps(f)  # for its name, in failures
        async def run(element: T) -> T:
            await f(element)
            return element

        def attach_stage(publisher: Publisher[T], m: Materialization) -> asyncio.Future[int]:
            stage: StagePublisher[T, T] = StagePublisher(
                publisher, lambda downstream: MapAsyncUnordered(downstream, m, parallelism, run, "foreach_async")
            )
            return attach(stage, Foreach(m, discard))

        positive("foreach_async", "parallelism", parallelism)
        return Sink(attach_stage, "foreach_async")

    @staticmethod
    def foreach_blocking(parallelism: int, f: Callable[[T], object]) -> Sink[T, int, asyncio.Future[int]]:
        """Calls ``f``, which may block, with each element, in threads, ``parallelism`` at a time; results in how many there were.

        What ``f`` returns is of no interest, and may be None. The threads are as those of `map_blocking`.
        """
        functions("foreach_blocking", f=f)
        positive("foreach_blocking", "parallelism", parallelism)

        @functools.wraps(f)  # for its name, in failures
        def run(element: T) -> T:
            f(element)
            return element

        def attach_stage(publisher: Publisher[T], m: Materialization) -> asyncio.Future[int]:
            stage: StagePublisher[T, T] = StagePublisher(
                publisher, lambda downstream: MapBlockingUnordered(downstream, m, parallelism, run, "foreach_blocking")
            )
            return attach(stage, Foreach(m, discard))

        return Sink(attach_stage, "foreach_blocking")

    @staticmethod
    def collect(limit: int = DEFAULT_COLLECT_LIMIT) -> Sink[T, list[T], asyncio.Future[list[T]]]:
        """All elements in a list; fails with `LimitExceededError` at the element after ``limit``."""
        if limit < 0:
            raise ValueError(f"collect: limit must not be negative, but is {limit}")
        return _sink(lambda m: Collect[T](m, limit), "collect")

    @staticmethod
    def fold(zero: A, f: Callable[[A, T], A]) -> Sink[T, A, asyncio.Future[A]]:
        """``f(... f(f(zero, first), second) ..., last)``."""
        functions("fold", f=f)
        return _sink(lambda m: Fold(m, zero, f), "fold")

    @staticmethod
    def fold_async(zero: A, f: Callable[[A, T], Awaitable[A]]) -> Sink[T, A, asyncio.Future[A]]:
        """`fold` with a coroutine function: each step is awaited before the next element is asked for."""
        awaiting_functions("fold_async", f=f)
        return Sink(lambda publisher, m: attach_fold_async(publisher, m, zero, f), "fold_async")

    @staticmethod
    def reduce(f: Callable[[T, T], T]) -> Sink[T, T, asyncio.Future[T]]:
        """`fold` that begins with the first element; `EmptyStreamError` if there is none."""
        functions("reduce", f=f)
        return _sink(lambda m: Reduce(m, f), "reduce")

    @staticmethod
    def ignore() -> Sink[object, None, asyncio.Future[None]]:
        """Takes everything, keeps nothing."""
        return _sink(Ignore, "ignore")

    @staticmethod
    def head() -> Sink[T, T, asyncio.Future[T]]:
        """The first element, then cancels; `EmptyStreamError` if there is none."""
        return _sink(Head[T], "head")

    @staticmethod
    def head_option() -> Sink[T, T | None, asyncio.Future[T | None]]:
        """The first element, then cancels; None if there is none."""
        return _sink(lambda m: Head[T](m, None), "head_option")

    @staticmethod
    def last() -> Sink[T, T, asyncio.Future[T]]:
        """The last element; `EmptyStreamError` if there is none."""
        return _sink(Last[T], "last")

    @staticmethod
    def last_option() -> Sink[T, T | None, asyncio.Future[T | None]]:
        """The last element; None if there is none."""
        return _sink(lambda m: Last[T](m, None), "last_option")

    @staticmethod
    def take_last(count: int) -> Sink[T, list[T], asyncio.Future[list[T]]]:
        """The last ``count`` elements in a list, or as many as there were."""
        positive("take_last", "count", count)
        return _sink(lambda m: TakeLast[T](m, count), "take_last")

    @staticmethod
    def cancelled() -> Sink[object, None, asyncio.Future[None]]:
        """Cancels at once."""
        return _sink(Cancelled, "cancelled")

    @staticmethod
    def on_complete(callback: Callable[[BaseException | None], object]) -> Sink[object, None, asyncio.Future[None]]:
        """Takes everything and calls ``callback`` once: with None at completion, the failure, or ``CancelledError`` of a cancelled run."""
        functions("on_complete", callback=callback)
        return _sink(lambda m: OnComplete(m, callback), "on_complete")

    @staticmethod
    def queue(prefetch: int = PULL_PREFETCH) -> Sink[E, None, SinkQueue[E]]:
        """Materializes a `SinkQueue`, from which elements are pulled one by one (``running.value.pull()``), or with ``async for``.

        Done when the stream has ended and each element has been pulled and dealt with, or the queue has been cancelled: see `SinkQueue`.

        Args:
            prefetch: elements that wait in the queue at most.
        """
        return _pulled(prefetch, "queue")

    @staticmethod
    def as_async_iterator(prefetch: int = PULL_PREFETCH) -> Sink[E, None, SinkQueue[E]]:
        """Materializes an asynchronous iterator (a `SinkQueue`); its ``aclose()`` cancels the stream.

        To iterate over a source alone, ``async for element in source`` does the same and needs no handle.

        Args:
            prefetch: elements asked for ahead of the loop's body at most.
        """
        return _pulled(prefetch, "async iterator")

    @staticmethod
    def as_observable() -> Sink[E, None, Observable[E]]:
        """Materializes a reactivex ``Observable`` for one observer, which may subscribe and dispose on any thread.

        It is the one run that materializes it: nothing moves before there is an observer, disposing cancels the stream, and a second
        observer gets `StreamClosedError`. For an observable that runs the stream anew for each, ``reactivex.defer`` a run. An observer
        has no demand: the stream runs without bound, as fast as the observer takes its calls on the loop's thread.
        """

        def materialize(publisher: Publisher[E], m: Materialization) -> tuple[asyncio.Future[None], Observable[E]]:
            end: PublisherSink[E] = PublisherSink(m)
            publisher.subscribe(end)
            return end.future, observable_of(end, m)

        return Sink.valued(materialize, "observable")

    @staticmethod
    def file(
        file: str | os.PathLike[str] | BinaryFile, *, append: bool = False, sync_at_end: bool = True
    ) -> Sink[bytes, IOResult, asyncio.Future[IOResult]]:
        """Writes bytes to a file, in a thread; results in how many there were, once they are written and the file is closed.

        A run that fails or is cancelled leaves what it has written.

        Args:
            file: a path, opened for each run, its content replaced; or an open binary file, which is flushed and left open.
            append: write behind the content of the file at that path instead.
            sync_at_end: be done only when the file at that path is on the disk (``fsync``).
        """
        expect_file("file", file, "write")
        return _sink(lambda m: FileSink(m, file, append, sync_at_end), "file")

    @staticmethod
    def acknowledge() -> Sink[Acknowledgeable, int, asyncio.Future[int]]:
        """Calls ``acknowledge()`` of each element; results in how many there were."""
        return _sink(Acknowledge, "acknowledge")


def _sink(make: Callable[[Materialization], SinkSubscriber[Any, Any]], name: str) -> Sink[Any, Any]:
    return Sink(lambda publisher, m: attach(publisher, make(m)), name)


def _pulled(prefetch: int, name: str) -> Sink[E, None, SinkQueue[E]]:
    positive(name, "prefetch", prefetch)

    def materialize(publisher: Publisher[E], m: Materialization) -> tuple[asyncio.Future[None], SinkQueue[E]]:
        prefetched: Prefetch[E] = Prefetch(m, prefetch, name)
        return attach(publisher, prefetched), SinkQueue(prefetched)

    return Sink.valued(materialize, name)


def _its_own_value(future: asyncio.Future[A]) -> tuple[asyncio.Future[A], asyncio.Future[A]]:
    return future, future
