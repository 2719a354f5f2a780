"""`Sink`: the end of a stream, and what it results in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

from streams.contract import Publisher, Subscriber
from streams.materialize import Materialization
from streams.stages.map_async import MapAsyncUnordered
from streams.stages.relay import PublisherSink
from streams.stages.stage import StagePublisher, discard
from streams.subscribers.sinks import (
    Acknowledge,
    Acknowledgeable,
    Collect,
    Fold,
    Foreach,
    Head,
    Ignore,
    Last,
    SinkSubscriber,
    Watched,
    attach,
)

A = TypeVar("A")
T = TypeVar("T")
I_contra = TypeVar("I_contra", contravariant=True)
M_co = TypeVar("M_co", covariant=True)

DEFAULT_COLLECT_LIMIT: Final = 1_000_000
"""Elements that `Sink.collect` holds unless told otherwise: a stream that was thought to be short fails before it fills the memory."""


class Sink(Generic[I_contra, M_co]):
    """An immutable description of a stream's end; ``M`` is what the run results in.

    Args:
        attach: subscribes to the publisher it is given and returns a future that is done when the sink is done. It registers its
            subscription's ``cancel`` with ``m.on_cancel``.
        name: seen in the names of graphs.
    """

    def __init__(
        self, attach: Callable[[Publisher[I_contra], Materialization], asyncio.Future[M_co]], name: str = "sink"
    ) -> None:
        self._materialize: Callable[[Publisher[I_contra], Materialization], tuple[asyncio.Future[M_co], Any]]
        self._materialize = lambda publisher, m: _its_own_value(attach(publisher, m))
        self.name = name

    @staticmethod
    def valued(
        materialize: Callable[[Publisher[T], Materialization], tuple[asyncio.Future[A], Any]], name: str = "sink"
    ) -> Sink[T, A]:
        """A sink with a materialized value beside its result: ``materialize`` gives the future of that, and the value."""
        sink: Sink[T, A] = Sink(lambda publisher, m: materialize(publisher, m)[0], name)
        sink._materialize = materialize
        return sink

    def attach_sink(self, publisher: Publisher[I_contra], m: Materialization, /) -> asyncio.Future[M_co]:
        """Subscribes this sink to ``publisher`` for one run."""
        return self._materialize(publisher, m)[0]

    def create_sink(self, publisher: Publisher[I_contra], m: Materialization, /) -> tuple[asyncio.Future[M_co], Any]:
        """Subscribes this sink to ``publisher`` for one run; with its materialized value."""
        return self._materialize(publisher, m)

    def map_materialized(self, f: Callable[[Any], Any]) -> Sink[I_contra, M_co]:
        """This sink, with ``f`` of its materialized value in the place of that."""

        def materialize(publisher: Publisher[I_contra], m: Materialization) -> tuple[asyncio.Future[M_co], Any]:
            future, value = self._materialize(publisher, m)
            return future, f(value)

        return Sink.valued(materialize, self.name)

    def __repr__(self) -> str:
        return f"<Sink {self.name}>"

    @staticmethod
    def from_subscriber(factory: Callable[[], Subscriber[T]]) -> Sink[T, None]:
        """A subscriber of your own, made for each run; the sink is done when it has been told the end, or has cancelled."""
        return _sink(lambda m: Watched(m, factory()), "subscriber")

    @staticmethod
    def as_publisher() -> Sink[Any, None]:
        """Materializes a `Publisher` for one subscriber, of this or another library; done when that was told the end or has cancelled."""

        def materialize(publisher: Publisher[Any], m: Materialization) -> tuple[asyncio.Future[None], Any]:
            end: PublisherSink[Any] = PublisherSink(m)
            publisher.subscribe(end)
            return end.future, end

        return Sink.valued(materialize, "publisher")

    @staticmethod
    def foreach(f: Callable[[T], object]) -> Sink[T, int]:
        """Calls ``f`` with each element; results in how many there were."""
        return _sink(lambda m: Foreach(m, f), "foreach")

    @staticmethod
    def foreach_async(parallelism: int, f: Callable[[T], Awaitable[object]]) -> Sink[T, int]:
        """Awaits ``f`` of each element, ``parallelism`` at a time; results in how many there were."""

        async def run(element: T) -> T:
            await f(element)
            return element

        def attach_stage(publisher: Publisher[T], m: Materialization) -> asyncio.Future[int]:
            stage: StagePublisher[T, T] = StagePublisher(
                publisher, lambda downstream: MapAsyncUnordered(downstream, m, parallelism, run, "foreach_async")
            )
            return attach(stage, Foreach(m, discard))

        if parallelism < 1:
            raise ValueError(f"foreach_async: parallelism must be at least 1, not {parallelism}")
        return Sink(attach_stage, "foreach_async")

    @staticmethod
    def collect(limit: int = DEFAULT_COLLECT_LIMIT) -> Sink[T, list[T]]:
        """All elements in a list; fails with `LimitExceededError` at the element after ``limit``."""
        if limit < 0:
            raise ValueError(f"collect: limit must not be negative, but is {limit}")
        return _sink(lambda m: Collect[T](m, limit), "collect")

    @staticmethod
    def fold(zero: A, f: Callable[[A, T], A]) -> Sink[T, A]:
        """``f(... f(f(zero, first), second) ..., last)``."""
        return _sink(lambda m: Fold(m, zero, f), "fold")

    @staticmethod
    def ignore() -> Sink[object, None]:
        """Takes everything, keeps nothing."""
        return _sink(Ignore, "ignore")

    @staticmethod
    def head() -> Sink[T, T]:
        """The first element, then cancels; `EmptyStreamError` if there is none."""
        return _sink(Head[T], "head")

    @staticmethod
    def last() -> Sink[T, T]:
        """The last element; `EmptyStreamError` if there is none."""
        return _sink(Last[T], "last")

    @staticmethod
    def acknowledge() -> Sink[Acknowledgeable, int]:
        """Calls ``acknowledge()`` of each element; results in how many there were."""
        return _sink(Acknowledge, "acknowledge")


def _sink(make: Callable[[Materialization], SinkSubscriber[Any, Any]], name: str) -> Sink[Any, Any]:
    return Sink(lambda publisher, m: attach(publisher, make(m)), name)


def _its_own_value(future: asyncio.Future[A]) -> tuple[asyncio.Future[A], Any]:
    return future, future
