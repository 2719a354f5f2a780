"""The end of a stream of streams: each goes into a sink of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from streams.contract import Publisher
from streams.errors import FAILURES, null_element
from streams.materialize import Materialization, Part
from streams.shapes import SinkLike, SourceLike
from streams.stages.substream import decline
from streams.subscribers.sinks import SinkSubscriber

T = TypeVar("T")


class SubstreamSink(SinkSubscriber[Any, int], Generic[T]):
    """Runs every substream into ``sink``, as a part of the run; the result is how many there were. One that fails fails the run.

    Args:
        m: the run.
        breadth: substreams at a time at most; one is over when its sink is done.
        source: the source to run for a substream.
        sink: what each is run with.
    """

    __slots__ = ("_breadth", "_completed", "_count", "_m", "_open", "_sink", "_source")

    name = "substreams"

    def __init__(
        self, m: Materialization, breadth: int, source: Callable[[Any], SourceLike[T]], sink: SinkLike[T, Any]
    ) -> None:
        super().__init__(m)
        self._m = m
        self._breadth = breadth
        self._source = source
        self._sink = sink
        self._count = 0
        self._open: dict[asyncio.Future[Any], Part] = {}
        self._completed = False

    def on_next(self, element: Any) -> None:
        """One substream."""
        if element is None:
            raise null_element(self.name)
        if self.future.done():
            decline(element)
            return
        part: Part | None = None
        try:
            part = self._m.part()
            publisher: Publisher[T] = self._source(element).create(part)[0]
            result = self._sink.attach_sink(publisher, part)
        except FAILURES as error:  # whatever user code raises is the stream's failure
            if part is not None:
                part.cancel()
                part.end()
            decline(element)
            self._fail(error, self.name)
            return
        self._count += 1
        self._open[result] = part
        result.add_done_callback(self._ended)

    def on_complete(self) -> None:
        """Ends when the substreams have."""
        self._completed = True
        self._end_if_over()

    def _ended(self, result: asyncio.Future[Any]) -> None:
        part = self._open.pop(result, None)
        error = None if result.cancelled() else result.exception()
        if part is None:
            return
        part.end()
        if self.future.done():
            return
        if error is not None:
            self._fail(error, self.name)
        elif result.cancelled():
            self._fail(asyncio.CancelledError("the sink of a substream was cancelled"), self.name)
        elif not self._end_if_over():
            self._subscription.request(1)

    def _end_if_over(self) -> bool:
        if self._completed and not self._open:
            super().on_complete()
        return self._completed

    def _stop(self) -> None:
        parts, self._open = self._open, {}
        for part in parts.values():
            part.cancel()
            part.end()

    def _first_request(self) -> int:
        return self._breadth

    def _result(self) -> int:
        return self._count
