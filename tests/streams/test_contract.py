"""The rules of Reactive Streams 1.0.4 that matter for publishers, over every publisher of the package: numbers are the rules'."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from streams import (
    UNBOUNDED,
    Flow,
    Materialization,
    OverflowStrategy,
    Publisher,
    Sink,
    Source,
    StreamClosedError,
    Subscriber,
)
from streams.testkit import TestSubscriber, elapse, run_in_virtual_time, settle

COUNT = 5
"""Elements of the finite publishers."""


async def numbers() -> AsyncIterator[int]:
    for n in range(COUNT):
        await elapse(0.1)
        yield n


async def same(element: Any) -> Any:
    await elapse(0.1)
    return element


def filled_queue() -> Source[Any]:
    def create(m: Materialization) -> tuple[Publisher[Any], Any]:
        publisher, queue = Source.queue(COUNT).create(m)
        for n in range(COUNT):
            queue.offer(n)
        queue.complete()
        return publisher, queue

    return Source(create)


def lines() -> Source[bytes]:
    return Source.lines(Path(__file__)).take(COUNT)


def base() -> Source[int]:
    return Source.from_iterable(range(COUNT))


FINITE: dict[str, Callable[[], Source[Any]]] = {
    "iterable": base,
    "generator": lambda: Source.iterable(lambda: iter(range(COUNT))),
    "async iterable": lambda: Source.from_async_iterable(numbers),
    "queue": filled_queue,
    "tick": lambda: Source.tick(1.0).take(COUNT),
    "lines": lines,
    "map": lambda: base().map(str),
    "filter": lambda: Source.from_iterable(range(2 * COUNT)).filter(lambda n: n % 2),
    "take_while": lambda: Source.repeat(0).scan(0, lambda n, _: n + 1).take_while(lambda n: n < COUNT),
    "drop": lambda: Source.from_iterable(range(COUNT + 3)).drop(3),
    "scan": lambda: Source.from_iterable(range(COUNT - 1)).scan(0, int.__add__),
    "map_concat": lambda: Source.of(range(2), range(COUNT - 2)).map_concat(lambda r: r),
    "map_async": lambda: base().map_async(2, same),
    "map_async_unordered": lambda: base().map_async_unordered(2, same),
    "grouped": lambda: Source.from_iterable(range(2 * COUNT)).grouped(2),
    "grouped_within": lambda: Source.from_iterable(range(2 * COUNT)).grouped_within(2, 1.0),
    "buffer": lambda: base().buffer(2),
    "buffer that drops": lambda: base().buffer(COUNT, OverflowStrategy.DROP_HEAD),
    "merge": lambda: Source.of(1, 2).merge(Source.from_iterable(range(COUNT - 2))),
    "concat": lambda: Source.of(1, 2).concat(Source.from_iterable(range(COUNT - 2))),
    "zip": lambda: base().zip(Source.repeat(1)),
    "recover": lambda: Source.of(2, 1, 1, 1, 0).map(lambda n: 2 // n).recover(lambda _: 0),
    "watch_termination": lambda: base().watch_termination(lambda _: None),
    "flow": lambda: base().via(Flow[int, int].identity().map(str)),
}
each_publisher = pytest.mark.parametrize("name", FINITE)


def run(name: str, main: Coroutine[Any, Any, None]) -> None:
    """In virtual time, but for what a thread does."""
    if name == "lines":
        asyncio.run(main)
    else:
        run_in_virtual_time(main)


class Subscribed:
    """A run whose sink is a probe that checks every signal it gets (1.1, 1.7, 1.9)."""

    def __init__(self, name: str, probe: TestSubscriber[Any] | None = None) -> None:
        self.probe = probe or TestSubscriber[Any](timeout=30)
        self.m = Materialization(asyncio.get_running_loop())
        self.publisher, _ = FINITE[name]().create(self.m)
        self.publisher.subscribe(self.probe)
        self._pause = 0.0 if name == "lines" else 3.0

    async def is_silent(self) -> None:
        """No signal comes, however long (as time goes) it is waited for."""
        await self.probe.expect_no_message(self._pause)

    async def end(self) -> None:
        """Ends the run as its supervisor would."""
        self.probe.cancel()
        await self.m._settle()
        assert self.probe.violations == []


@each_publisher
def test_1_01_never_more_elements_than_were_requested(name: str) -> None:
    async def main() -> None:
        subscribed = Subscribed(name)
        await subscribed.is_silent()
        for n in (1, 2):
            subscribed.probe.request(n)
            await subscribed.probe.expect_n(n)
            await subscribed.is_silent()
        await subscribed.end()

    run(name, main())


@each_publisher
def test_1_05_a_finite_publisher_signals_its_end_and_1_07_nothing_after(name: str) -> None:
    async def main() -> None:
        subscribed = Subscribed(name)
        subscribed.probe.request(COUNT + 1)
        await subscribed.probe.expect_n(COUNT)
        await subscribed.probe.expect_complete()
        subscribed.probe.request(1)
        await subscribed.is_silent()
        await subscribed.end()

    run(name, main())


@each_publisher
def test_1_09_subscribing_none_is_refused(name: str) -> None:
    async def main() -> None:
        m = Materialization(asyncio.get_running_loop())
        publisher, _ = FINITE[name]().create(m)
        with pytest.raises(TypeError, match=r"2\.13"):
            publisher.subscribe(None)  # type: ignore[arg-type]  # what is tested
        await m._settle()

    run(name, main())


@each_publisher
def test_3_02_a_request_within_on_subscribe_and_on_next_is_allowed_and_3_03_does_not_nest_on_next(name: str) -> None:
    depth = deepest = 0

    class OneByOne(TestSubscriber[Any]):
        def on_subscribe(self, subscription: Any) -> None:
            super().on_subscribe(subscription)
            self.request(1)

        def on_next(self, element: Any) -> None:
            nonlocal depth, deepest
            depth += 1
            deepest = max(deepest, depth)
            super().on_next(element)
            self.request(1)
            depth -= 1

    async def main() -> None:
        subscribed = Subscribed(name, OneByOne(timeout=30))
        await subscribed.probe.expect_n(COUNT)
        await subscribed.probe.expect_complete()
        assert deepest == 1
        await subscribed.end()

    run(name, main())


@each_publisher
def test_3_06_requests_after_cancel_and_3_07_further_cancels_do_nothing(name: str) -> None:
    async def main() -> None:
        subscribed = Subscribed(name)
        subscribed.probe.request(1)
        await subscribed.probe.expect_n(1)
        subscribed.probe.cancel()
        subscribed.probe.cancel()
        subscribed.probe.request(5)
        subscribed.probe.request(-1)
        await subscribed.is_silent()
        await subscribed.end()

    run(name, main())


@each_publisher
def test_3_05_cancel_within_on_next_stops_the_elements_at_once(name: str) -> None:
    class Two(TestSubscriber[Any]):
        seen = 0

        def on_next(self, element: Any) -> None:
            super().on_next(element)
            self.seen += 1
            if self.seen == 2:
                self.cancel()

    async def main() -> None:
        subscribed = Subscribed(name, Two(timeout=30))
        subscribed.probe.request(UNBOUNDED)
        await subscribed.probe.expect_n(2)
        await subscribed.is_silent()
        await subscribed.end()

    run(name, main())


@each_publisher
@pytest.mark.parametrize("n", [0, -1])
def test_3_09_a_request_for_less_than_one_is_an_error_signal_and_ends_the_stream(name: str, n: int) -> None:
    async def main() -> None:
        subscribed = Subscribed(name)
        subscribed.probe.request(1)
        await subscribed.probe.expect_n(1)
        subscribed.probe.request(n)
        assert "3.9" in str(await subscribed.probe.expect_error(ValueError))
        subscribed.probe.request(1)
        await subscribed.is_silent()
        await subscribed.end()

    run(name, main())


@each_publisher
def test_3_08_requests_add_up_and_3_17_saturate(name: str) -> None:
    async def main() -> None:
        subscribed = Subscribed(name)
        subscribed.probe.request(1)
        subscribed.probe.request(1)
        await subscribed.probe.expect_n(2)
        await subscribed.is_silent()
        subscribed.probe.request(UNBOUNDED)
        subscribed.probe.request(UNBOUNDED)
        await subscribed.probe.expect_n(COUNT - 2)
        await subscribed.probe.expect_complete()
        await subscribed.end()

    run(name, main())


@each_publisher
def test_3_13_a_cancelled_stream_lets_go_of_its_subscriber(name: str) -> None:
    async def main() -> None:
        subscribed = Subscribed(name)
        subscribed.probe.request(1)
        await subscribed.probe.expect_n(1)
        await subscribed.end()
        subscriber = weakref.ref(subscribed.probe)
        del subscribed
        for thread in threading.enumerate():
            if thread.name == "stream lines":
                thread.join(20.0)
        await settle()
        gc.collect()
        assert subscriber() is None

    run(name, main())


@each_publisher
def test_2_13_a_subscriber_that_raises_fails_the_run(name: str) -> None:
    class Broken(Subscriber[Any]):
        def on_subscribe(self, subscription: Any) -> None:
            subscription.request(1)

        def on_next(self, element: Any) -> None:
            raise OSError("a broken subscriber")

        def on_error(self, error: BaseException) -> None: ...

        def on_complete(self) -> None: ...

    async def main() -> None:
        def attach(publisher: Publisher[Any], m: Materialization) -> asyncio.Future[None]:
            publisher.subscribe(Broken())
            return m.loop.create_future()

        running = FINITE[name]().to(Sink(attach)).run()
        with pytest.raises(OSError, match="a broken subscriber"):
            async with asyncio.timeout(30):
                await running

    run(name, main())


def test_1_11_a_publisher_for_one_subscriber_refuses_another_with_an_error_signal() -> None:
    async def main() -> None:
        subscribed = Subscribed("queue")
        second = TestSubscriber[Any]()
        subscribed.publisher.subscribe(second)
        await second.expect_error(StreamClosedError)
        await subscribed.end()

    run_in_virtual_time(main())
