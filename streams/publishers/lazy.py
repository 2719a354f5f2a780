"""A source that is made when it is first asked for something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from streams.contract import Publisher, Subscriber
from streams.errors import FAILURES, null_element
from streams.materialize import Materialization
from streams.shapes import SourceLike
from streams.stages.stage import UNSUBSCRIBED, ControlledStage, PassingStage

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class LazyPublisher(Publisher[T_co], Generic[T_co]):
    """Publishes the source that ``factory`` makes at the first request.

    Args:
        m: the run.
        factory: called once for each subscriber, at most.
    """

    __slots__ = ("_factory", "_m")

    def __init__(self, m: Materialization, factory: Callable[[], SourceLike[T_co]]) -> None:
        self._m = m
        self._factory = factory

    def subscribe(self, subscriber: Subscriber[T_co]) -> None:
        """Signals on_subscribe and makes nothing yet."""
        if subscriber is None:
            raise null_element("subscribe")
        lazy = _Lazy(subscriber, self._m, self._factory)
        self._m.on_drain(lazy)
        subscriber.on_subscribe(lazy)


class _Lazy(PassingStage[T], ControlledStage[T, T], Generic[T]):
    """One subscription: hands on, once there is something."""

    __slots__ = ("__weakref__", "_factory", "_m", "_made")

    def __init__(self, downstream: Subscriber[T], m: Materialization, factory: Callable[[], SourceLike[T]]) -> None:
        super().__init__(downstream, "lazy")
        self._m = m
        self._factory = factory
        self._made = False

    def drained(self) -> None:
        """Nothing more comes."""
        self._complete_early()

    def _subscribed(self) -> None:
        if self._done:  # cancelled, or failed, before the source's subscription came
            self._upstream.cancel()
        else:
            self._upstream.request(self._demand)

    def _demanded(self, n: int) -> None:
        if self._upstream is not UNSUBSCRIBED:
            self._upstream.request(n)
        elif not self._made:
            self._made = True
            self._make()

    def _make(self) -> None:
        try:
            source = self._factory()
            if not hasattr(source, "create"):
                raise TypeError(f"the function must return a source, not {type(source).__name__}")
            publisher, _ = source.create(self._m)
        except FAILURES as error:  # whatever user code raises goes down the stream
            self._function_failed(error, self._factory)
            return
        publisher.subscribe(self)
