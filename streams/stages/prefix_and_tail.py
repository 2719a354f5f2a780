"""prefix_and_tail: the first elements as a list, and the rest as a source."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from streams.contract import Subscriber
from streams.errors import StreamClosedError, SubscriptionTimeoutError, null_element
from streams.materialize import Materialization
from streams.publishers.nobody import NOBODY
from streams.stages.stage import OVER, ControlledStage, discard
from streams.stages.substream import Substream

T = TypeVar("T")

SUBSCRIPTION_TIMEOUT: Final = 5.0
"""Seconds within which a tail has to be subscribed to: one that is forgotten would hold its source for ever. Akka's default."""


class PrefixAndTail(ControlledStage[T, tuple[list[T], Any]], Generic[T]):
    """One element: a list of up to ``count`` elements and the source of the rest.

    The tail is a part of the run: downstream is told the end only when the tail is over, so that the run lasts as long; and when the run
    ends before, the tail fails with `StreamClosedError`. Downstream's cancellation, once it has its element, leaves the tail as it is.

    Args:
        downstream: where the one element goes.
        m: the run.
        count: elements in the list.
        seconds: the time within which the tail has to be subscribed to, from when downstream got it; infinite for no limit.
        source: makes a source of the tail.
    """

    __slots__ = (
        "_asked",
        "_completed",
        "_count",
        "_emitted",
        "_m",
        "_prefix",
        "_seconds",
        "_source",
        "_tail",
        "_timer",
    )

    def __init__(
        self,
        downstream: Subscriber[tuple[list[T], Any]],
        m: Materialization,
        count: int,
        seconds: float,
        source: Callable[[Substream[T]], Any],
    ) -> None:
        super().__init__(downstream, "prefix_and_tail")
        self._m = m
        self._count = count
        self._seconds = seconds
        self._source = source
        self._prefix: list[T] = []
        self._tail: Substream[T] = Substream(self)
        self._timer: asyncio.TimerHandle | None = None
        self._asked = False
        self._emitted = False
        self._completed = False

    def on_next(self, element: T) -> None:
        """Goes into the list, or to the tail."""
        if element is None:
            raise null_element(self._name)
        if self._emitted:
            self._tail.give(element)
        elif not self._done:
            self._prefix.append(element)
            if len(self._prefix) >= self._count:
                self._emit()

    def on_complete(self) -> None:
        """The end of the tail; before there is one, the list is what there is."""
        self._completed = True
        self._upstream = OVER
        if self._emitted:
            self._end()
        elif self._demand and not self._done:
            self._emit()

    def request(self, n: int) -> None:
        """Downstream wants the one element; there is no other."""
        if (not self._emitted or n < 1) and self._downstream is not NOBODY:
            super().request(n)

    def cancel(self) -> None:
        """Before the element: cancels upstream. After it the tail goes on."""
        if not self._emitted:
            super().cancel()
        else:
            self._push = discard
            self._downstream = NOBODY

    def demanded_by(self, substream: Substream[T], n: int) -> None:  # noqa: ARG002 - there is one
        """The tail's demand is upstream's."""
        self._upstream.request(n)

    def joined_by(self, substream: Substream[T]) -> None:  # noqa: ARG002 - there is one
        """The tail is taken."""
        self._stop_timer()

    def left_by(self, substream: Substream[T]) -> None:  # noqa: ARG002 - there is one
        """Nobody wants the tail any more."""
        self._complete_early()
        self._downstream = NOBODY  # the run keeps this stage to its end (3.13)

    def _demanded(self, n: int) -> None:  # noqa: ARG002 - there is one element to be had
        if self._completed or not self._count:
            self._emit()
        elif not self._asked:
            self._asked = True
            self._upstream.request(self._count)

    def _emit(self) -> None:
        self._emitted = True
        prefix, self._prefix = self._prefix, []
        self._m.on_end(self._run_over)
        if self._seconds < math.inf:
            self._timer = self._m.loop.call_later(self._seconds, self._m.call, self._time_is_up)
        self._push((prefix, self._source(self._tail)))
        if self._completed and not self._done:
            self._end()

    def _end(self) -> None:
        """Upstream has ended: so does the tail, and so do we."""
        super().on_complete()
        self._downstream = NOBODY
        self._tail.end()

    def _time_is_up(self) -> None:
        self._timer = None
        self._tail.end(SubscriptionTimeoutError("the tail of prefix_and_tail", self._seconds))
        self._complete_early()

    def _run_over(self) -> None:
        if self._done:
            return
        self._finish()
        self._upstream.cancel()
        if self._tail.run is not None and self._tail.run.ended:
            self._tail.cancel()  # it was used within this run, and who did so is not there any more
        else:
            self._tail.end(StreamClosedError("the run that this tail belongs to has ended: use the tail within it"))

    def _failed(self, error: BaseException) -> None:
        if self._emitted:  # downstream has all that it gets: the failure is the tail's
            super().on_complete()
            self._tail.end(error)
        else:
            super()._failed(error)

    def _fail(self, error: BaseException, where: str | None = None) -> None:
        if not self._done:
            super()._fail(error, where)
            self._tail.end(error)

    def _finish(self) -> None:
        super()._finish()
        self._prefix = []
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
