"""Whose context variables a stream's functions see: those of the run, and of the offer where that is asked for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from streams import (
    BufferOverflowError,
    Flow,
    Keep,
    KillSwitches,
    OverflowStrategy,
    Sink,
    Source,
    SourceQueue,
    StreamClosedError,
    TooManyWaitersError,
)
from streams.materialize import Materialization
from streams.testkit import TestSink, elapse, run_in_virtual_time, settle

REQUEST: ContextVar[str] = ContextVar("REQUEST", default="nobody's")


async def _seen(element: Any) -> tuple[Any, str]:
    await asyncio.sleep(0)
    return element, REQUEST.get()


SEEING: dict[str, Flow[Any, Any]] = {
    "map": Flow.identity().map(lambda element: (element, REQUEST.get())),
    "map_async": Flow.identity().map_async(2, _seen),
    "map behind map_async": Flow.identity().map_async(2, _seen).map(lambda pair: (pair[0], REQUEST.get())),
    "map behind buffer": Flow.identity().buffer(1).map(lambda element: (element, REQUEST.get())),
    "map behind delay": Flow.identity().delay(1).map(lambda element: (element, REQUEST.get())),
    "map_blocking": Flow.identity().map_blocking(2, lambda element: (element, REQUEST.get())),
}
NEAR = {"map", "map_async", "map_blocking", "map behind buffer"}
"""Where an element is at once, or whose function is the first to take it."""


async def _offered(queue: SourceQueue[Any], name: str, wait: bool) -> None:
    REQUEST.set(name)
    if wait:
        await queue.offer_wait(name)
    else:
        queue.offer(name)


def _pairs(flow: Flow[Any, Any], wait: bool, element_context: bool) -> list[tuple[str, str]]:
    async def main() -> list[tuple[str, str]]:
        REQUEST.set("the run's")
        running = Source.queue(1, element_context=element_context).via(flow).run_with(Sink.collect(), Keep.left)
        await asyncio.sleep(0)
        for name in ("one", "two", "three"):
            await asyncio.create_task(_offered(running.value, name, wait))
        running.value.complete()
        pairs: list[tuple[str, str]] = await running
        return sorted(pairs)

    return asyncio.run(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize("wait", [False, True], ids=["offer", "offer_wait"])
@pytest.mark.parametrize("name", [name for name in SEEING if name != "map behind delay"])
def test_functions_see_the_context_of_the_run_and_never_that_of_another_request(name: str, wait: bool) -> None:
    for element, seen in _pairs(SEEING[name], wait=wait, element_context=False):
        assert seen == "the run's", element


@pytest.mark.parametrize("name", sorted(NEAR))
def test_an_element_takes_its_offers_context_along_where_that_is_asked_for(name: str) -> None:
    for element, seen in _pairs(SEEING[name], wait=True, element_context=True):
        assert seen == element


def test_behind_an_asynchronous_function_the_context_is_the_runs_again() -> None:
    for _element, seen in _pairs(SEEING["map behind map_async"], wait=True, element_context=True):
        assert seen == "the run's"


@pytest.mark.parametrize("end", ["complete", "fail", "pull", "cancel", "kill switch"])
def test_whoever_ends_or_pulls_a_stream_lends_it_no_context(end: str) -> None:
    seen: list[str] = []

    async def main() -> None:
        REQUEST.set("the run's")
        watched = Source.queue(1).map(lambda n: seen.append(REQUEST.get()) or n)
        if end == "pull":
            source = Source.iterable(lambda: (seen.append(REQUEST.get()) or n for n in range(40)))
            running: Any = source.to(Sink.queue(1)).run()
        else:
            flow = watched.via(KillSwitches.single(), Keep.both)
            running = flow.to(Sink.on_complete(lambda _error: seen.append(REQUEST.get()))).run()
        await settle()
        REQUEST.set("somebody else's")
        if end == "pull":
            for _ in range(3):
                await running.value.pull()
        else:
            queue, switch = running.value
            acts: dict[str, Callable[[], object]] = {
                "complete": queue.complete,
                "fail": lambda: queue.fail(OSError()),
                "cancel": running.cancel,
                "kill switch": switch.shutdown,
            }
            acts[end]()
        await running.stop()
        assert seen
        assert set(seen) == {"the run's"}

    run_in_virtual_time(main())


def test_an_offer_from_another_thread_is_refused_and_says_what_to_use() -> None:
    ran: list[int] = []

    async def main() -> None:
        running = Source.queue(4).map(lambda n: ran.append(n) or n).to(Sink.collect()).run()
        queue: SourceQueue[int] = running.value
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="offer_threadsafe"):
            await asyncio.to_thread(queue.offer, 1)
        with pytest.raises(RuntimeError, match="offer_threadsafe"):
            await asyncio.to_thread(lambda: asyncio.run(queue.offer_wait(1)))
        with pytest.raises(RuntimeError, match="call_soon_threadsafe"):
            await asyncio.to_thread(queue.complete)
        with pytest.raises(RuntimeError, match="call_soon_threadsafe"):
            await asyncio.to_thread(queue.fail, OSError())
        assert ran == []
        queue.offer(2)
        queue.complete()
        assert await running == [2]

    asyncio.run(main())


def test_offers_of_other_threads_wait_for_room_and_their_functions_run_on_the_loops_thread() -> None:
    where: set[int] = set()

    async def main() -> None:
        source = Source.queue(2).map(lambda n: where.add(threading.get_ident()) or n).map_async(1, _itself)
        running = source.run_with(Sink.collect(), Keep.left)
        queue: SourceQueue[int] = running.value

        def produce(first: int) -> None:
            for n in range(first, first + 50):
                assert queue.offer_threadsafe(n).result(10)

        await asyncio.gather(*(asyncio.to_thread(produce, 100 * n) for n in range(3)))
        queue.complete()
        elements: list[int] = await running
        assert sorted(elements) == sorted(100 * k + n for k in range(3) for n in range(50))
        for k in range(3):
            assert [n for n in elements if n // 100 == k] == list(range(100 * k, 100 * k + 50))

    asyncio.run(asyncio.wait_for(main(), 30))
    assert where == {threading.get_ident()}


async def _itself(n: int) -> int:
    return n


def test_offers_of_other_threads_are_bounded_refused_at_the_end_and_may_be_taken_back() -> None:
    async def main() -> None:
        running = Source.queue(1, max_waiting_offers=2).to(Sink.queue(1)).run()
        queue: SourceQueue[int] = running.value
        for n in range(2):
            await queue.offer_wait(n)  # one in the sink, one in the queue

        def fill() -> list[Any]:
            waiting = [queue.offer_threadsafe(n) for n in (2, 3)]
            with pytest.raises(TooManyWaitersError, match="max_waiting_offers"):
                queue.offer_threadsafe(4)
            return waiting

        waiting = await asyncio.to_thread(fill)
        assert not any(told.done() for told in waiting)
        with pytest.raises(RuntimeError, match="other threads"):
            queue.offer_threadsafe(5)
        await running.stop()
        for told in waiting:
            with pytest.raises(Exception, match="has ended"):
                await asyncio.wrap_future(told)
        after = await asyncio.to_thread(queue.offer_threadsafe, 6)
        with pytest.raises(Exception, match="has ended"):
            after.result(10)

    asyncio.run(asyncio.wait_for(main(), 30))


@pytest.mark.parametrize("waiting", [False, True])
def test_the_offer_whose_element_ends_the_stream_was_taken(waiting: bool) -> None:
    """A thread that is told otherwise would offer it again, elsewhere."""

    async def main() -> None:
        sink = TestSink[int]()
        running = Source.queue(1, of=int).take(2).run_with(sink, Keep.left)
        queue = running.materialized(SourceQueue[int])
        if not waiting:
            sink.request(2)
        offers = [await asyncio.to_thread(queue.offer_threadsafe, n) for n in range(3 if waiting else 2)]
        await settle()
        if waiting:
            sink.request(2)
        assert [await sink.expect_next() for _ in range(2)] == [0, 1]
        for offer in offers[:2]:
            assert await asyncio.wrap_future(offer)
        for offer in offers[2:]:
            with pytest.raises(StreamClosedError):
                await asyncio.wrap_future(offer)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_an_offer_from_another_thread_that_overflows_its_queue_is_told_so() -> None:
    async def main() -> None:
        running = Source.queue(1, OverflowStrategy.FAIL, of=int).run_with(TestSink[int](), Keep.left)
        queue = running.materialized(SourceQueue[int])
        offers = [await asyncio.to_thread(queue.offer_threadsafe, n) for n in range(2)]
        assert await asyncio.wrap_future(offers[0])
        with pytest.raises(BufferOverflowError):
            await asyncio.wrap_future(offers[1])
        await running.stop()

    asyncio.run(asyncio.wait_for(main(), 30))


def test_an_offer_that_the_loop_had_no_turn_for_is_refused_when_the_run_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        running = Source.queue(1, of=int).to(Sink.collect()).run()
        queue = running.materialized(SourceQueue[int])
        monkeypatch.setattr(Materialization, "call_from_thread", lambda *_call: True)
        offered = await asyncio.to_thread(queue.offer_threadsafe, 1)
        queue.complete()
        assert await running == []
        assert isinstance(offered.exception(0), StreamClosedError)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_a_cancelled_offer_was_not_taken_even_when_room_came_in_the_same_turn() -> None:
    async def main() -> None:
        running = Source.queue(1).run_with(Sink.queue(1), Keep.both)
        queue, sink = running.value
        for n in range(2):
            await queue.offer_wait(n)
        given_up = asyncio.create_task(queue.offer_wait(2))
        next_one = asyncio.create_task(queue.offer_wait(3))
        await settle()
        assert await sink.pull() == 0  # makes room, and tells the first of them
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert await next_one
        queue.complete()
        assert [n async for n in sink] == [1, 3]
        await running

    run_in_virtual_time(main())


def test_a_queue_that_completes_waits_for_offers_that_were_told_of_room() -> None:
    async def main() -> None:
        running = Source.queue(1).run_with(Sink.queue(1), Keep.both)
        queue, sink = running.value
        for n in range(2):
            await queue.offer_wait(n)
        last = asyncio.create_task(queue.offer_wait(2))
        await settle()
        assert await sink.pull() == 0
        queue.complete()
        assert [n async for n in sink] == [1, 2]
        assert await last
        await running
        await elapse(0)

    run_in_virtual_time(main())
