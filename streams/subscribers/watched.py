"""Somebody else's subscriber as a sink."""

from __future__ import annotations

from typing import Any, Generic

from streams.contract import Subscriber, Subscription
from streams.errors import null_element
from streams.materialize import Materialization
from streams.publishers.nobody import NOBODY
from streams.stages.stage import I
from streams.subscribers.sinks import SinkSubscriber


class Watched(SinkSubscriber[I, None], Generic[I]):
    """A subscriber of somebody else's as a sink: done when it has been told the end, or has cancelled."""

    __slots__ = ("_inner",)

    name = "subscriber"

    def __init__(self, m: Materialization, inner: Subscriber[I]) -> None:
        super().__init__(m)
        self._inner = inner

    def _subscribed(self) -> None:
        """Hands on a subscription of its own, so that it sees the subscriber cancel."""
        self._inner.on_subscribe(_Link(self))

    def on_next(self, element: I) -> None:
        """Hands on one."""
        if element is None:
            raise null_element(self.name)
        self._inner.on_next(element)

    def on_error(self, error: BaseException) -> None:
        """Hands on the failure, which is the sink's as well."""
        if error is None:
            raise null_element(self.name)
        if not self.future.done():
            inner = self._inner
            super().on_error(error)
            inner.on_error(error)

    def on_complete(self) -> None:
        """Hands on the end."""
        if not self.future.done():
            inner = self._inner
            super().on_complete()
            inner.on_complete()

    def request(self, n: int) -> None:
        """The subscriber's demand."""
        self._subscription.request(n)

    def leave(self) -> None:
        """The subscriber has cancelled: a sink that wants no more is done."""
        if not self.future.done():
            self._finish(None)
        self._subscription.cancel()

    def _result(self) -> None:
        return None

    def _stop(self) -> None:
        self._inner = NOBODY  # 3.13


class _Link(Subscription):
    """The subscription a watched subscriber holds."""

    __slots__ = ("_watched",)

    def __init__(self, watched: Watched[Any]) -> None:
        self._watched = watched

    def request(self, n: int) -> None:
        """As asked."""
        self._watched.request(n)

    def cancel(self) -> None:
        """Seen, and passed on."""
        self._watched.leave()
