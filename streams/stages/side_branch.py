"""A sink inside a flow or source that was built as a graph: a branch beside the stream, fed by an output of its own."""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

from streams.contract import Subscriber, Subscription
from streams.errors import null_element
from streams.materialize import Materialization
from streams.shapes import SinkLike
from streams.stages.side_run import SideSink
from streams.stages.stage import UNSUBSCRIBED
from streams.stages.substream import Substream

T = TypeVar("T")


class SideBranch(Subscriber[T], Generic[T]):
    """Feeds a sink beside the stream. Its failure is the run's; if it was told the end, the run's handle waits for it.

    Args:
        m: the run.
        sink: the sink.

    Attributes:
        result: the future of the sink's result.
        value: what the sink materializes.
    """

    __slots__ = ("_m", "_side", "_upstream", "_upstream_failed", "result", "value")

    def __init__(self, m: Materialization, sink: SinkLike[T, Any]) -> None:
        self._m = m
        self._upstream: Subscription = UNSUBSCRIBED
        self._upstream_failed = False
        self._side: SideSink[T] = SideSink(m, sink)
        self._side.outlet.hub = self
        self.result = self._side.result
        self.value = self._side.value
        self.result.add_done_callback(self._sink_done)

    def on_subscribe(self, subscription: Subscription) -> None:
        """Asks for what the sink has asked for already; a second subscription is cancelled (2.5)."""
        if subscription is None:
            raise null_element("side branch")
        outlet = self._side.outlet
        if self._upstream is not UNSUBSCRIBED or not outlet.open:
            subscription.cancel()
            return
        self._upstream = subscription
        if outlet.demand:
            subscription.request(outlet.demand)

    def on_next(self, element: T) -> None:
        """Gives the sink ``element``."""
        if element is None:
            raise null_element("side branch")
        self._side.outlet.give(element)

    def on_error(self, error: BaseException) -> None:
        """The failure goes to the sink; whether it is the run's as well is decided where the stream goes on."""
        if error is None:
            raise null_element("side branch")
        self._upstream_failed = True
        self._upstream = UNSUBSCRIBED
        self._side.outlet.end(error)

    def on_complete(self) -> None:
        """The sink is told the end."""
        self._upstream = UNSUBSCRIBED  # it is over, and must not be used any more (2.4)
        self._side.outlet.end()

    def demanded_by(self, substream: Substream[Any], n: int) -> None:  # noqa: ARG002 - there is one
        """The sink has asked for ``n`` more."""
        self._upstream.request(n)

    def left_by(self, substream: Substream[Any]) -> None:  # noqa: ARG002 - there is one
        """The sink has cancelled."""
        self._upstream.cancel()

    def joined_by(self, substream: Substream[Any]) -> None:
        """The sink has subscribed."""

    def _sink_done(self, result: asyncio.Future[Any]) -> None:
        if result.cancelled():
            return
        error = result.exception()
        if error is None or self._upstream_failed:
            return
        if self._side.run_over:
            self._m.report("a sink beside a stream failed after the run had ended", error)
        else:
            self._m.fail(error)
