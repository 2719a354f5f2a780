"""`async for` over a source, under back-pressure."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final, Generic, TypeVar

from streams.contract import Publisher
from streams.errors import null_element
from streams.graph import connect
from streams.materialize import Materialization
from streams.shapes import SourceLike
from streams.sink import Sink
from streams.subscribers.sinks import SinkSubscriber, attach

T = TypeVar("T")

ITERATION_PREFETCH: Final = 16
"""Elements asked for ahead of the loop's body, so that a source can work while the body does."""


class _Prefetch(SinkSubscriber[T, None], Generic[T]):
    """Holds the elements that the loop's body has not got to.

    Attributes:
        elements: those that wait.
        waiting: what the body waits on, when there are none.
    """

    __slots__ = ("_prefetch", "_taken", "elements", "waiting")

    name = "async for"

    def __init__(self, m: Materialization, prefetch: int) -> None:
        super().__init__(m)
        self.elements: deque[T] = deque()
        self.waiting: asyncio.Future[None] | None = None
        self._prefetch = prefetch
        self._taken = 0

    def on_next(self, element: T) -> None:
        """Keeps one."""
        if element is None:
            raise null_element(self.name)
        self.elements.append(element)
        self._wake()

    def take(self) -> T:
        """The oldest; asks for as much again in steps of half."""
        self._taken += 1
        if self._taken >= (self._prefetch + 1) // 2:
            taken, self._taken = self._taken, 0
            self._subscription.request(taken)
        return self.elements.popleft()

    async def more(self) -> bool:
        """Waits for an element; False at the end."""
        while not self.elements and not self.future.done():
            self.waiting = self.future.get_loop().create_future()
            await self.waiting
        return bool(self.elements)

    def _first_request(self) -> int:
        return self._prefetch

    def _result(self) -> None:
        return None

    def _stop(self) -> None:
        self.future.add_done_callback(lambda _future: self._wake())

    def _wake(self) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)


async def iterate(source: SourceLike[T], prefetch: int) -> AsyncGenerator[T, None]:
    """Runs ``source`` and yields what comes, then raises its failure if it has one; leaving the loop cancels the run."""
    holder: list[_Prefetch[T]] = []

    def attach_prefetch(publisher: Publisher[T], m: Materialization) -> asyncio.Future[None]:
        holder.append(_Prefetch(m, prefetch))
        return attach(publisher, holder[0])

    running = connect(source, Sink(attach_prefetch, "async for")).run()
    elements = holder[0]
    try:
        while await elements.more():
            while elements.elements:
                yield elements.take()
        await running
    finally:
        running.abandon()
