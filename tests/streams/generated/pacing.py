"""A slow last stage behind a stream without end: does it hold everything before it to its pace, and does the memory stay flat?

The last stage asks for a few elements, waits until it has them, lets everything that is ready run, and looks how far upstream has gone.
Only then does it ask for more. The loop's time is virtual, so a stage that waits for a timer does not make the test wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

from streams import Sink, Source, Subscriber, Subscription
from streams.testkit import run_in_virtual_time, settle
from tests.streams.catalogue.case import FlowCase, SourceCase

WARM_UP: Final = 0.1
"""Share of the elements after which the memory is looked at for the first time: buffers have their full size by then."""
PAGE_BYTES: Final = 4096


class Endless:
    """The numbers from 0 on, without end, and how far they were taken.

    Attributes:
        given: how many were taken.
    """

    def __init__(self, enough: int, warm_up: Callable[[], None]) -> None:
        self.given = 0
        self._enough = enough
        self._warm_up = warm_up
        self._reached = asyncio.Event()

    def __iter__(self) -> Iterator[int]:
        enough, warm = self._enough, int(self._enough * WARM_UP)
        for number in count():
            if number == warm:
                self._warm_up()
            elif number == enough:
                self._reached.set()
            self.given = number + 1
            yield number

    async def reached(self) -> None:
        """Waits until as many were taken as are enough for the test."""
        await self._reached.wait()


class Memory:
    """What the process gains after the warm-up, in bytes."""

    def __init__(self) -> None:
        self._warm: int | None = None

    def warm(self) -> None:
        """The warm-up is over; only the first call counts."""
        if self._warm is None:
            self._warm = resident_bytes()

    def growth(self) -> int:
        """Bytes gained since; 0 where the stream ended before."""
        return 0 if self._warm is None else resident_bytes() - self._warm


class SlowSubscriber(Subscriber[Any]):
    """Asks only when it is told to, and says when it has got what it asked for.

    Attributes:
        asked: elements asked for.
        got: elements that came.
        ended: the stream has.
        error: what it failed with.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.got = 0
        self.ended = False
        self.error: BaseException | None = None
        self._subscription: Subscription | None = None
        self._served = asyncio.Event()

    def on_subscribe(self, subscription: Subscription) -> None:
        self._subscription = subscription

    def on_next(self, element: Any) -> None:
        self.got += 1
        if self.got >= self.asked:
            self._served.set()

    def on_error(self, error: BaseException) -> None:
        self.error = error
        self.on_complete()

    def on_complete(self) -> None:
        self.ended = True
        self._served.set()

    async def ask(self, n: int) -> None:
        """Asks for ``n`` and waits until they are there, or the stream has ended."""
        assert self._subscription is not None, "not subscribed"
        if self.ended:
            return
        self.asked += n
        self._served.clear()
        self._subscription.request(n)
        await self._served.wait()

    def cancel(self) -> None:
        assert self._subscription is not None, "not subscribed"
        self._subscription.cancel()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was seen.

    Attributes:
        name: the case.
        given: elements that upstream gave.
        got: elements that the last stage got.
        most_ahead: the furthest that upstream was ever ahead of what was asked for, in its elements.
        allowed_ahead: how far it may be; None where it is not held back.
        growth: bytes of memory gained after the warm-up.
    """

    name: str
    given: int
    got: int
    most_ahead: float
    allowed_ahead: int | None
    growth: int

    @property
    def held_back(self) -> bool:
        """Upstream never was further ahead than the case says."""
        return self.allowed_ahead is None or self.most_ahead <= self.allowed_ahead


def pace_flow(case: FlowCase, elements: int, step: int) -> Outcome:
    """Runs an operator between an endless source and a slow last stage, until ``elements`` have gone in or come out.

    Args:
        case: the operator.
        elements: after how many to stop.
        step: how many the last stage asks for at a time.

    Raises:
        AssertionError: the stream ended, or gave what was not asked for.
    """

    async def main() -> Outcome:
        memory = Memory()
        numbers = Endless(elements, memory.warm)
        last = SlowSubscriber()
        running = Source.iterable(lambda: numbers).via(case.flow()).to(Sink.from_subscriber(lambda: last)).run()
        await settle()
        enough = asyncio.ensure_future(numbers.reached())
        most = 0.0
        while not enough.done() and last.got < elements:
            asking = asyncio.ensure_future(last.ask(step))
            await asyncio.wait((asking, enough), return_when=asyncio.FIRST_COMPLETED)
            asking.cancel()
            await settle()
            assert last.got <= last.asked, f"{case.name} has given {last.got} elements and was asked for {last.asked}"
            assert last.error is None, f"{case.name} has failed: {last.error!r}"
            if last.ended:
                assert case.ends, f"{case.name} has ended"
                break
            most = max(most, numbers.given - case.ratio * last.asked)
            if last.got >= elements * WARM_UP:
                memory.warm()
        growth = memory.growth()
        enough.cancel()
        last.cancel()
        await asyncio.wait((asyncio.ensure_future(finish(running)),))
        return Outcome(case.name, numbers.given, last.got, most, case.ahead, growth)

    return run(case, main())


def pace_source(case: SourceCase, elements: int, step: int) -> Outcome:
    """Runs a source into a slow last stage, until ``elements`` have come."""
    assert case.endless is not None, "for sources that have no end"
    endless = case.endless

    async def main() -> Outcome:
        last = SlowSubscriber()
        running = endless().to(Sink.from_subscriber(lambda: last)).run()
        await settle()
        memory = Memory()
        while last.got < elements:
            await last.ask(step)
            assert not last.ended, f"{case.name} has ended: {last.error!r}"
            assert last.got == last.asked, f"{case.name} has given {last.got} elements and was asked for {last.asked}"
            if last.got >= elements * WARM_UP:
                memory.warm()
        growth = memory.growth()
        last.cancel()
        await asyncio.wait((asyncio.ensure_future(finish(running)),))
        return Outcome(case.name, last.got, last.got, 0, 0, growth)

    return run(case, main())


async def finish(running: Any) -> None:
    """Waits for the run's end, whatever it is."""
    await asyncio.gather(_awaited(running), return_exceptions=True)


async def _awaited(running: Any) -> Any:
    return await running


def run(case: FlowCase | SourceCase, main: Any) -> Any:
    """In virtual time, or where threads take part in real time."""
    return run_in_virtual_time(main) if case.virtual_time else asyncio.run(main)


def resident_bytes() -> int:
    """Memory of this process that is in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
