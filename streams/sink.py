"""`Sink`: the end of a stream, and what it results in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeVar

from streams._map_async import MapAsyncUnordered
from streams._sinks import (
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
from streams._stage import StagePublisher, discard
from streams.contract import Publisher, Subscriber
from streams.materialize import Materialization

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
        self._attach = attach
        self.name = name

    def attach_sink(self, publisher: Publisher[I_contra], m: Materialization, /) -> asyncio.Future[M_co]:
        """Subscribes this sink to ``publisher`` for one run."""
        return self._attach(publisher, m)

    def __repr__(self) -> str:
        return f"<Sink {self.name}>"

    @staticmethod
    def from_subscriber(factory: Callable[[], Subscriber[T]]) -> Sink[T, None]:
        """A subscriber of your own, made for each run; the sink is done when it has been told the end, or has cancelled."""
        return _sink(lambda m: Watched(m, factory()), "subscriber")

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
