"""fold with a coroutine function: one step at a time."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from streams.contract import Publisher
from streams.errors import null_element
from streams.materialize import Materialization
from streams.stages.map_async import MapAsync
from streams.stages.stage import StagePublisher
from streams.subscribers.sinks import SinkSubscriber, attach

A = TypeVar("A")
T = TypeVar("T")


class FoldAsync(SinkSubscriber[bool, A], Generic[A]):
    """Has the last state; the elements it gets say only that a step is done.

    Attributes:
        state: what the steps have come to.
    """

    __slots__ = ("state",)

    name = "fold_async"

    def __init__(self, m: Materialization, zero: A) -> None:
        super().__init__(m)
        self.state = zero

    def on_next(self, element: bool) -> None:
        """A step is done."""
        if element is None:
            raise null_element(self.name)

    def _result(self) -> A:
        return self.state


def attach_fold_async(
    publisher: Publisher[T], m: Materialization, zero: A, f: Callable[[A, T], Awaitable[A]]
) -> asyncio.Future[A]:
    """Subscribes the fold to ``publisher``; the future has the last state."""
    sink = FoldAsync(m, zero)

    @functools.wraps(f)
    async def step(element: T) -> bool:
        sink.state = await f(sink.state, element)
        return True  # and not the state, which may be None

    steps: StagePublisher[T, bool] = StagePublisher(
        publisher, lambda downstream: MapAsync(downstream, m, 1, step, "fold_async")
    )
    return attach(steps, sink)
