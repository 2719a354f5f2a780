"""Restart with back-off: sources, flows and sinks that begin again when they have ended, after a pause that grows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from streams.contract import Publisher, Subscriber
from streams.errors import null_element
from streams.flow import Flow
from streams.materialize import Materialization
from streams.shapes import FlowLike, SinkLike, SourceLike
from streams.sink import Sink
from streams.source import Source
from streams.stages.restarting import Backoff, RestartingFlow, RestartingSource, RestartSettings, attach_restarting_sink
from streams.stages.stage import StagePublisher

__all__ = ["RestartFlow", "RestartSettings", "RestartSink", "RestartSource"]

I = TypeVar("I")  # noqa: E741 - I and O name input and output all through the package
O = TypeVar("O")  # noqa: E741 - as above
T = TypeVar("T")
M = TypeVar("M")


class RestartSource:
    """Sources that begin again. What is asked of them and has not come is asked of the next; materialized values are lost."""

    @staticmethod
    def with_backoff(settings: RestartSettings, factory: Callable[[], SourceLike[T]]) -> Source[T, None]:
        """The elements of ``factory()``, and when that has completed or failed, of another ``factory()`` after a pause.

        Ends as the last source did when the settings allow no restart; until then it neither completes nor fails.
        """
        return _source(settings, factory, only_on_failures=False)

    @staticmethod
    def on_failures_with_backoff(settings: RestartSettings, factory: Callable[[], SourceLike[T]]) -> Source[T, None]:
        """As `with_backoff`, but completes when a source does."""
        return _source(settings, factory, only_on_failures=True)


class RestartFlow:
    """Flows that begin again. Elements inside a flow that ends are lost; at most `FEED_WINDOW` that it had asked for go to the next."""

    @staticmethod
    def with_backoff(settings: RestartSettings, factory: Callable[[], FlowLike[I, O]]) -> Flow[I, O, None]:
        """Flows through ``factory()``, and when that has completed or failed, through another ``factory()`` after a pause.

        Completes when upstream has and the flow of that time does; fails as the last flow did when the settings allow no restart.
        """
        return _flow(settings, factory, only_on_failures=False)

    @staticmethod
    def on_failures_with_backoff(settings: RestartSettings, factory: Callable[[], FlowLike[I, O]]) -> Flow[I, O, None]:
        """As `with_backoff`, but completes when a flow does."""
        return _flow(settings, factory, only_on_failures=True)


class RestartSink:
    """Sinks that begin again. Elements that a sink had taken are its own; materialized values are lost."""

    @staticmethod
    def with_backoff(settings: RestartSettings, factory: Callable[[], SinkLike[T, M]]) -> Sink[T, M, asyncio.Future[M]]:
        """Into ``factory()``, and when that is done before upstream is, or fails, into another ``factory()`` after a pause.

        The result is that of the last sink. If upstream ends during a pause, one more is made when that is over.
        """
        return _sink(settings, factory, only_on_failures=False)

    @staticmethod
    def on_failures_with_backoff(
        settings: RestartSettings, factory: Callable[[], SinkLike[T, M]]
    ) -> Sink[T, M, asyncio.Future[M]]:
        """As `with_backoff`, but the result of a sink that has enough is the result."""
        return _sink(settings, factory, only_on_failures=True)


class _RestartingPublisher(Publisher[Any]):
    """Each subscriber gets sources of its own."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[Subscriber[Any]], RestartingSource[Any]]) -> None:
        self._make = make

    def subscribe(self, subscriber: Subscriber[Any]) -> None:
        """Begins the first source."""
        if subscriber is None:
            raise null_element("subscribe")
        self._make(subscriber).open()


def _source(settings: RestartSettings, factory: Callable[[], SourceLike[T]], only_on_failures: bool) -> Source[T, None]:
    def create(m: Materialization) -> tuple[Publisher[T], None]:
        def make(downstream: Subscriber[T]) -> RestartingSource[T]:
            return RestartingSource(downstream, m, Backoff(settings, m.loop.time, only_on_failures), factory)

        return _RestartingPublisher(make), None

    return Source(create, "restart_source")


def _flow(settings: RestartSettings, factory: Callable[[], FlowLike[I, O]], only_on_failures: bool) -> Flow[I, O, None]:
    def attach(publisher: Publisher[I], m: Materialization) -> Publisher[O]:
        def make(downstream: Subscriber[O]) -> Subscriber[I]:
            return RestartingFlow(downstream, m, Backoff(settings, m.loop.time, only_on_failures), factory)

        return StagePublisher(publisher, make)

    return Flow(attach, "restart_flow")


def _sink(
    settings: RestartSettings, factory: Callable[[], SinkLike[T, M]], only_on_failures: bool
) -> Sink[T, M, asyncio.Future[M]]:
    def attach(publisher: Publisher[T], m: Materialization) -> asyncio.Future[M]:
        return attach_restarting_sink(publisher, m, Backoff(settings, m.loop.time, only_on_failures), factory)

    return Sink(attach, "restart_sink")
