"""Operators that look on and change nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

from streams.contract import Publisher
from streams.keep import Combine, first
from streams.materialize import Materialization
from streams.operators.via import Via, functions
from streams.stages.monitor import FlowMonitor, Monitor
from streams.stages.stage import StageFlow, StagePublisher
from streams.stages.watching import Log, LogLevels, WatchTermination, watch_termination

if TYPE_CHECKING:
    from asyncio import Future

    from streams.flow import Flow
    from streams.shapes import FlowWith, FlowWithout, SourceLike, SourceWith, SourceWithout, ValuedFlow
    from streams.source import Source
    from streams.stages.watching import Termination

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
T = TypeVar("T")
V = TypeVar("V")
X = TypeVar("X")

LOGGER: Final = logging.getLogger("streams")
"""Where log() writes unless it is given another."""
LEVELS: Final = LogLevels()


class _Watch:
    """A flow that materializes something to watch it by: what `Flow.valued` gives, made here as that imports this."""

    __slots__ = ("_create", "name")

    def __init__(
        self, create: Callable[[Publisher[Any], Materialization], tuple[Publisher[Any], Any]], name: str
    ) -> None:
        self._create = create
        self.name = name

    def attach_flow(self, publisher: Publisher[Any], m: Materialization) -> Publisher[Any]:
        """Puts the watcher behind ``publisher``."""
        return self._create(publisher, m)[0]

    def create_flow(self, publisher: Publisher[Any], m: Materialization) -> tuple[Publisher[Any], Any]:
        """Puts the watcher behind ``publisher``; with what it materializes."""
        return self._create(publisher, m)


def _monitor(publisher: Publisher[Any], m: Materialization) -> tuple[Publisher[Any], FlowMonitor[Any]]:
    monitor: FlowMonitor[Any] = FlowMonitor()
    return StagePublisher(publisher, lambda downstream: Monitor(downstream, m, monitor)), monitor


class WatchingOperators(Via):
    """Operators that look on and change nothing."""

    @overload
    def watch_termination(
        self: SourceLike[T, V], callback: Callable[[BaseException | None], object], combine: Combine = ...
    ) -> Source[T, V]: ...
    @overload
    def watch_termination(self: SourceWith[T, V], callback: None = ...) -> Source[T, V]: ...
    @overload
    def watch_termination(self: SourceWithout[T, V], callback: None = ...) -> Source[T, V | Future[Termination]]: ...
    @overload
    def watch_termination(
        self: SourceLike[T, V], callback: None, combine: Callable[[V, Future[Termination]], X]
    ) -> Source[T, X]: ...
    @overload
    def watch_termination(
        self: SourceLike[T, V], callback: None = ..., *, combine: Callable[[V, Future[Termination]], X]
    ) -> Source[T, X]: ...
    @overload
    def watch_termination(
        self: ValuedFlow[I, T, V], callback: Callable[[BaseException | None], object], combine: Combine = ...
    ) -> Flow[I, T, V]: ...
    @overload
    def watch_termination(self: FlowWith[I, T, V], callback: None = ...) -> Flow[I, T, V]: ...
    @overload
    def watch_termination(self: FlowWithout[I, T, V], callback: None = ...) -> Flow[I, T, V | Future[Termination]]: ...
    @overload
    def watch_termination(
        self: ValuedFlow[I, T, V], callback: None, combine: Callable[[V, Future[Termination]], X]
    ) -> Flow[I, T, X]: ...
    @overload
    def watch_termination(
        self: ValuedFlow[I, T, V], callback: None = ..., *, combine: Callable[[V, Future[Termination]], X]
    ) -> Flow[I, T, X]: ...
    def watch_termination(
        self, callback: Callable[[BaseException | None], object] | None = None, combine: Combine = first
    ) -> Any:
        """Tells how the stream ends at this place.

        Args:
            callback: called once: with None at completion, with the failure, or with ``CancelledError`` when downstream cancels.
                Without it, a future is materialized, of a `Termination` or the failure.
            combine: whose materialized value is kept (`Keep`), this future's or that of what is before.
        """
        if callback is not None:
            functions("watch_termination", callback=callback)
        if callback is None:
            return self.via(_Watch(watch_termination, "watch_termination"), combine)
        return self.via(StageFlow(lambda downstream, m: WatchTermination(downstream, m, callback), "watch_termination"))

    @overload
    def monitor(self: SourceWith[T, V]) -> Source[T, V]: ...
    @overload
    def monitor(self: SourceWithout[T, V]) -> Source[T, V | FlowMonitor[T]]: ...
    @overload
    def monitor(self: SourceLike[T, V], combine: Callable[[V, FlowMonitor[T]], X]) -> Source[T, X]: ...
    @overload
    def monitor(self: FlowWith[I, T, V]) -> Flow[I, T, V]: ...
    @overload
    def monitor(self: FlowWithout[I, T, V]) -> Flow[I, T, V | FlowMonitor[T]]: ...
    @overload
    def monitor(self: ValuedFlow[I, T, V], combine: Callable[[V, FlowMonitor[T]], X]) -> Flow[I, T, X]: ...
    def monitor(self, combine: Combine = first) -> Any:
        """Materializes a `FlowMonitor`, which tells what has passed here; ``combine`` says whose materialized value is kept (`Keep`)."""
        return self.via(_Watch(_monitor, "monitor"), combine)

    @overload
    def log(
        self: SourceLike[T, V],
        name: str,
        extract: Callable[[T], object] | None = ...,
        *,
        logger: logging.Logger = ...,
        levels: LogLevels = ...,
    ) -> Source[T, V]: ...
    @overload
    def log(
        self: ValuedFlow[I, T, V],
        name: str,
        extract: Callable[[T], object] | None = ...,
        *,
        logger: logging.Logger = ...,
        levels: LogLevels = ...,
    ) -> Flow[I, T, V]: ...
    def log(
        self,
        name: str,
        extract: Callable[[Any], object] | None = None,
        *,
        logger: logging.Logger = LOGGER,
        levels: LogLevels = LEVELS,
    ) -> Any:
        """Writes each element, the end and a failure to a log, with ``name``.

        Args:
            name: in front of each entry.
            extract: what to write of an element; None for the whole of it. Not called where the log does not want it.
            logger: where to; the logger ``streams`` if nothing else is given.
            levels: at which levels; elements and the end at DEBUG, a failure at ERROR if nothing else is given.
        """
        if extract is not None:
            functions("log", extract=extract)
        return self.via(StageFlow(lambda downstream, _m: Log(downstream, name, extract, logger, levels), "log"))
