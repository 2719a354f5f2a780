"""A run that a program takes elements from goes on until the program is done with the last of them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import Any

import pytest

from streams import Keep, Publisher, Sink, SinkQueue, Source, Subscriber, Subscription
from streams.subscribers.pull import Prefetch
from streams.testkit import TestSource, run_in_virtual_time, settle


def watched(told: list[str], source: Source[int]) -> Source[int]:
    """The source, with a note when its run is at its end: when a receiver says its last word."""

    def materialize(m: Any) -> Any:
        m.on_end(lambda: told.append("ended"))
        return source.create(m)

    return Source(materialize)


def test_async_for_is_through_with_the_last_element_before_the_run_ends() -> None:
    async def main() -> None:
        told: list[str] = []
        async for n in watched(told, Source.range(3)):
            await settle()
            told.append(f"handled {n}")
        assert told == ["handled 0", "handled 1", "handled 2", "ended"]

    run_in_virtual_time(main())


def test_in_synchronous_code_too() -> None:
    told: list[str] = []
    for n in watched(told, Source.range(3)).iterate_blocking():
        told += [f"handled {n}"]
    assert told == ["handled 0", "handled 1", "handled 2", "ended"]


def test_what_came_before_a_failure_is_handled_before_the_run_ends() -> None:
    async def main() -> None:
        told: list[str] = []

        async def loop() -> None:
            async for n in watched(told, Source.of(2, 1, 0).map(lambda n: 2 // n)):
                await settle()
                told.append(f"handled {n}")

        with pytest.raises(ZeroDivisionError):
            await loop()
        assert told == ["handled 1", "handled 2", "ended"]

    run_in_virtual_time(main())


def test_a_loop_that_is_left_within_its_last_element_ends_the_run_at_once() -> None:
    async def main() -> None:
        told: list[str] = []
        async with contextlib.aclosing(watched(told, Source.range(3)).iterate()) as elements:
            async for n in elements:
                await settle()
                assert told == []
                if n == 2:
                    break
        assert told == ["ended"]

    run_in_virtual_time(main())


def test_each_task_that_pulls_is_waited_for_until_it_comes_back_or_ends() -> None:
    async def main() -> None:
        told: list[str] = []
        goes_on, crashes = asyncio.Event(), asyncio.Event()
        running = watched(told, Source.range(3)).to(Sink.queue()).run()
        queue: SinkQueue[int] = running.value

        async def work(until: asyncio.Event) -> None:
            assert await queue.pull() is not None
            await until.wait()
            assert not crashes.is_set(), "the other has gone on already"
            assert await queue.pull() is None

        first = asyncio.create_task(work(goes_on))
        second = asyncio.create_task(work(crashes))
        assert await queue.pull() is not None
        await settle()
        assert await queue.pull() is None, "there is nothing left, but two are at work"
        await settle()
        assert told == []
        goes_on.set()
        await first
        await settle()
        assert told == []
        crashes.set()
        with pytest.raises(AssertionError):
            await second
        await running
        assert told == ["ended"]

    run_in_virtual_time(main())


def test_a_task_that_awaits_the_run_does_not_come_back() -> None:
    async def main() -> None:
        told: list[str] = []
        running = watched(told, Source.range(3)).to(Sink.queue()).run()
        queue: SinkQueue[int] = running.value
        assert await queue.pull() == 0
        await settle()
        assert told == []
        await running
        assert told == ["ended"]
        assert [await queue.pull() for _ in range(3)] == [1, 2, None], "what had come is there"

    run_in_virtual_time(main())


@pytest.mark.parametrize("pulls", [1, 3])
@pytest.mark.parametrize("wait", [asyncio.gather, lambda running: asyncio.wait_for(running, 9)])
def test_a_task_that_has_another_await_the_run_does_not_come_back_either(wait: Any, pulls: int) -> None:
    async def main() -> None:
        running = Source.range(3).to(Sink.queue()).run()
        queue: SinkQueue[int] = running.value
        assert [await queue.pull() for _ in range(pulls)] == [0, 1, 2][:pulls]
        await wait(running)
        assert running.done()

    run_in_virtual_time(main())


def test_a_run_that_nobody_has_pulled_from_ends_when_it_is_awaited() -> None:
    async def main() -> None:
        told: list[str] = []
        running = watched(told, Source.range(3)).to(Sink.queue()).run()
        await settle()
        assert told == []
        await running
        assert [n async for n in running.value] == [0, 1, 2]

    run_in_virtual_time(main())


def test_an_awaited_run_waits_for_those_who_pull() -> None:
    async def main() -> None:
        told: list[str] = []
        source = TestSource[int]()
        running = watched(told, source).to(Sink.queue(), Keep.right).run()
        queue: SinkQueue[int] = running.value

        async def work() -> None:
            async for n in queue:
                await settle()
                told.append(f"handled {n}")

        working = asyncio.create_task(work())
        await source.probe.expect_request(16)
        source.probe.send_next(0, 1)
        source.probe.send_complete()
        await running
        assert told == ["handled 0", "handled 1", "ended"]
        await working

    run_in_virtual_time(main())


def test_a_queue_that_is_let_go_of_holds_no_run() -> None:
    async def main() -> None:
        told: list[str] = []
        watched(told, Source.range(3)).to(Sink.queue()).run()
        gc.collect()
        await settle()
        assert told == ["ended"]

    run_in_virtual_time(main())


def test_a_failure_that_nobody_has_come_for_ends_the_run_at_once(loop_reports: list[dict[str, Any]]) -> None:
    async def main() -> None:
        told: list[str] = []
        running = watched(told, Source.of(2, 0).map(lambda n: 2 // n)).to(Sink.queue()).run()
        await settle()
        assert told == ["ended"]
        assert len(running.value) == 1
        with pytest.raises(ZeroDivisionError):
            await running

    run_in_virtual_time(main())
    assert loop_reports == []


@pytest.mark.parametrize("end", ["cancel", "aclose", "stop"])
def test_a_run_at_its_end_can_be_left_all_the_same(end: str) -> None:
    async def main() -> None:
        told: list[str] = []
        running = watched(told, Source.range(3)).to(Sink.queue()).run()
        queue: SinkQueue[int] = running.value
        assert await queue.pull() == 0
        await settle()
        assert told == []
        if end == "cancel":
            queue.cancel()
            await running
        elif end == "aclose":
            await queue.aclose()
        else:
            await running.stop()
        assert told == ["ended"]

    run_in_virtual_time(main())


def test_a_task_that_pulls_from_many_queues_remembers_none_of_them() -> None:
    def living() -> list[Prefetch[Any]]:
        gc.collect()
        return [each for each in gc.get_objects() if type(each) is Prefetch]

    async def main() -> None:
        # The process may have some of other tests: a thread of one that reads by blocking may be on its way out still.
        others = living()
        for _ in range(5):
            running = Source.range(3).to(Sink.queue()).run()
            assert [n async for n in running.value] == [0, 1, 2]
            await running
            del running
        assert not [kept for kept in living() if not any(kept is other for other in others)]

    run_in_virtual_time(main())


def test_nothing_is_asked_of_a_source_that_has_ended_while_its_elements_are_taken() -> None:
    asked: list[str] = []

    class Five(Publisher[int], Subscription):
        def subscribe(self, subscriber: Subscriber[int]) -> None:
            subscriber.on_subscribe(self)
            for n in range(5):
                subscriber.on_next(n)
            asked.clear()
            subscriber.on_complete()

        def request(self, n: int) -> None:
            asked.append(f"request({n})")

        def cancel(self) -> None:
            asked.append("cancel()")

    async def main() -> None:
        five: Source[int] = Source(lambda _m: (Five(), None))
        assert [n async for n in five.iterate(prefetch=5)] == [0, 1, 2, 3, 4]
        async with contextlib.aclosing(five.iterate(prefetch=5)) as elements:
            assert await anext(elements) == 0
        assert asked == []

    run_in_virtual_time(main())
