"""How map_async saves tasks, and that nobody can tell: contexts, timeouts and cancellation are as if each element had its own."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import pytest

from streams import Publisher, Sink, Source, Subscriber, Subscription
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle

OPERATORS = ("map_async", "map_async_unordered")
each_operator = pytest.mark.parametrize("operator", OPERATORS)
variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=-1)


class Instantly(Publisher[int], Subscription):
    """Gives what is asked for within the request, and never the loop a turn."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.demand = 0
        self.busy = False

    def subscribe(self, subscriber: Subscriber[int]) -> None:
        self.subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n: int) -> None:
        self.demand += n
        while self.demand and self.left and not self.busy:
            self.busy = True
            self.demand -= 1
            self.left -= 1
            self.subscriber.on_next(self.left)
            self.busy = False
            if not self.left:
                self.subscriber.on_complete()

    def cancel(self) -> None:
        self.left = 0


@each_operator
def test_coroutines_that_do_not_wait_cost_no_task_each(operator: str) -> None:
    tasks: set[Any] = set()

    async def f(element: int) -> int:
        tasks.add(asyncio.current_task())
        return element

    async def main() -> None:
        source = Source.from_iterable(range(5000))
        assert await getattr(source, operator)(8, f).run_with(Sink.collect()) == list(range(5000))
        assert len(tasks) < 50

    run_in_virtual_time(main())


@each_operator
def test_coroutines_that_wait_have_each_a_task_of_their_own(operator: str) -> None:
    tasks: set[Any] = set()

    async def f(element: int) -> int:
        tasks.add(asyncio.current_task())
        await elapse(1)
        return element

    async def main() -> None:
        results = await getattr(Source.from_iterable(range(8)), operator)(8, f).run_with(Sink.collect())
        assert sorted(results) == list(range(8))
        assert len(tasks) == 8
        assert asyncio.get_running_loop().time() == 1

    run_in_virtual_time(main())


@each_operator
@pytest.mark.parametrize("waits", [False, True])
def test_what_a_function_sets_in_its_context_neither_the_next_nor_a_later_stage_sees(
    operator: str, waits: bool
) -> None:
    async def f(element: int) -> int:
        before = variable.get()
        variable.set(element)
        if waits:
            await elapse(element % 3)
        assert variable.get() == element
        return before

    async def main() -> None:
        variable.set(100)
        seen = getattr(Source.from_iterable(range(20)), operator)(3, f).map(lambda before: (before, variable.get()))
        assert set(await seen.run_with(Sink.collect())) == {(100, 100)}

    run_in_virtual_time(main())


@each_operator
def test_a_plain_function_that_returns_an_awaitable_has_the_context_to_itself_too(operator: str) -> None:
    async def give(element: int) -> int:
        return element

    def f(element: int) -> Any:
        before = variable.get()
        variable.set(element)
        return give(before)

    async def main() -> None:
        assert set(await getattr(Source.from_iterable(range(9)), operator)(2, f).run_with(Sink.collect())) == {-1}

    run_in_virtual_time(main())


@each_operator
def test_a_timeout_in_the_function_ends_that_call_only(operator: str) -> None:
    async def f(element: int) -> int:
        try:
            async with asyncio.timeout(1):
                await elapse(element)
        except TimeoutError:
            return -element
        return element

    async def main() -> None:
        results = await getattr(Source.of(0, 5, 0, 7, 0), operator)(2, f).run_with(Sink.collect())
        assert sorted(results) == [-7, -5, 0, 0, 0]

    run_in_virtual_time(main())


@each_operator
def test_a_function_that_cancels_its_own_task_fails_the_stream_and_does_not_hang_it(operator: str) -> None:
    async def f(element: int) -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await elapse(1)
        return element

    async def main() -> None:
        running = getattr(Source.of(1, 2, 3), operator)(1, f).run_with(Sink.collect())
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())


@each_operator
def test_an_endless_stream_of_coroutines_that_do_not_wait_leaves_the_loop_its_turns(operator: str) -> None:
    async def f(element: int) -> int:
        return element

    async def main() -> None:
        count = 10_000
        source: Source[int] = Source.from_publisher(lambda: Instantly(count))
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        turn()
        assert await getattr(source, operator)(1, f).run_with(Sink.foreach(lambda _: None)) == count
        assert turns >= count // 1024

    run_in_virtual_time(main())


@each_operator
def test_elements_that_come_while_others_wait_are_begun_at_once(operator: str) -> None:
    begun: list[int] = []

    async def f(element: int) -> int:
        begun.append(element)
        await elapse(10)
        return element

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=30)
        getattr(source, operator)(4, f).to(sink).run()
        sink.request(4)
        await source.probe.expect_request(4)
        source.probe.send_next(1)
        await settle()
        source.probe.send_next(2, 3)
        await settle()
        assert begun == [1, 2, 3]
        source.probe.send_next(4)
        source.probe.send_complete()
        assert sorted(await sink.expect_n(4)) == [1, 2, 3, 4]
        await sink.expect_complete()
        assert asyncio.get_running_loop().time() == 10

    run_in_virtual_time(main())


@each_operator
def test_downstream_that_cancels_on_a_result_stops_the_others(operator: str) -> None:
    stopped: list[int] = []

    async def f(element: int) -> int:
        try:
            await elapse(element)
        except asyncio.CancelledError:
            stopped.append(element)
            raise
        return element

    async def main() -> None:
        assert await getattr(Source.of(1, 5, 6), operator)(3, f).take(1).run_with(Sink.collect()) == [1]
        assert sorted(stopped) == [5, 6]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


@each_operator
def test_a_coroutine_that_is_cancelled_may_clean_up_asynchronously(operator: str) -> None:
    cleaned: list[int] = []

    async def f(element: int) -> int:
        try:
            return await asyncio.Event().wait()
        finally:
            await elapse(2)
            cleaned.append(element)

    async def main() -> None:
        running = getattr(Source.of(1, 2), operator)(2, f).run_with(Sink.ignore())
        await settle()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert sorted(cleaned) == [1, 2]
        assert asyncio.get_running_loop().time() == 2

    run_in_virtual_time(main())


@each_operator
def test_a_subscriber_that_raises_fails_the_run_instead_of_getting_lost(operator: str) -> None:
    async def f(element: int) -> int:
        return element

    class Raising(TestSink[int]):
        def on_next(self, element: int) -> None:
            raise OSError("a subscriber must not")

    async def main() -> None:
        sink = Raising()
        running = getattr(Source.of(1, 2), operator)(2, f).to(sink).run()
        sink.request(2)
        with pytest.raises(OSError, match="must not"):
            await running

    run_in_virtual_time(main())
