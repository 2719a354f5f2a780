"""Sink.queue and Sink.as_async_iterator: elements pulled by hand."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from streams import Keep, Sink, SinkQueue, Source, StreamClosedError, TooManyWaitersError
from streams.subscribers import pull
from streams.testkit import TestSource, run_in_virtual_time, settle


def test_pull_gives_the_elements_and_then_none() -> None:
    async def main() -> None:
        running = Source.of(1, 2, 3).to(Sink.queue()).run()
        queue: SinkQueue[int] = running.value
        assert [await queue.pull() for _ in range(5)] == [1, 2, 3, None, None]
        assert await running is None

    run_in_virtual_time(main())


def test_no_more_than_the_prefetch_waits_and_as_much_is_asked_for_again_in_steps_of_half() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.to(Sink.queue(4), Keep.right).run()
        queue: SinkQueue[int] = running.value
        await source.probe.expect_request(4)
        source.probe.send_next(1, 2, 3, 4)
        assert len(queue) == 4
        assert await queue.pull() == 1
        await source.probe.expect_no_request(100)
        assert await queue.pull() == 2
        await source.probe.expect_request(2)
        assert len(queue) == 2
        running.abandon()

    run_in_virtual_time(main())


def test_what_has_come_can_be_pulled_after_the_end_and_a_failure_comes_last() -> None:
    async def main() -> None:
        running = Source.of(2, 1, 0).map(lambda n: 2 // n).to(Sink.queue()).run()
        queue: SinkQueue[int] = running.value
        await settle()
        assert [await queue.pull(), await queue.pull()] == [1, 2]
        for _ in range(2):
            with pytest.raises(ZeroDivisionError):
                await queue.pull()
        with pytest.raises(ZeroDivisionError):
            await running

    run_in_virtual_time(main())


def test_those_who_wait_are_served_in_turn_and_nobody_who_comes_later_overtakes_them() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.to(Sink.queue(), Keep.right).run()
        queue: SinkQueue[int] = running.value
        first, given_up, third = [asyncio.create_task(queue.pull()) for _ in range(3)]
        await settle()
        source.probe.send_next(1, 2)
        late = asyncio.create_task(queue.pull())
        given_up.cancel()  # after an element has come for it: that must not be lost
        await settle()
        assert await first == 1
        assert await third == 2
        assert not late.done()
        source.probe.send_next(3)
        assert await late == 3
        source.probe.send_next(4)
        assert await queue.pull() == 4
        running.abandon()

    run_in_virtual_time(main())


def test_a_waiting_pull_that_is_cancelled_loses_no_element() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.to(Sink.queue(), Keep.right).run()
        queue: SinkQueue[int] = running.value
        waiting = asyncio.create_task(queue.pull())
        await settle()
        source.probe.send_next(1)
        waiting.cancel()
        await settle()
        assert waiting.cancelled()
        assert await queue.pull() == 1
        running.abandon()

    run_in_virtual_time(main())


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "run"])
def test_the_end_reaches_all_who_wait(end: str) -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.to(Sink.queue(), Keep.right).run()
        queue: SinkQueue[int] = running.value
        waiting = [asyncio.create_task(queue.pull()) for _ in range(3)]
        await settle()
        if end == "complete":
            source.probe.send_complete()
        elif end == "fail":
            source.probe.send_error(OSError("broken"))
        elif end == "cancel":
            queue.cancel()
        else:
            running.cancel()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        kind: type = {"fail": OSError, "run": StreamClosedError}.get(end, type(None))
        assert [type(outcome) for outcome in outcomes] == [kind] * 3
        assert source.probe.cancelled is (end in ("cancel", "run"))
        running.abandon()

    run_in_virtual_time(main())


def test_cancel_drops_what_waits_and_ends_the_run_well() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.to(Sink.queue(), Keep.right).run()
        queue: SinkQueue[int] = running.value
        source.probe.send_next(1, 2)
        queue.cancel()
        queue.cancel()
        assert source.probe.cancelled
        source.probe.subscriber.on_next(3)  # was on its way
        assert len(queue) == 0
        assert await queue.pull() is None
        assert await running is None

    run_in_virtual_time(main())


def test_no_more_than_a_bound_of_pulls_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull, "MAX_WAITING_PULLS", 2)

    async def main() -> None:
        running = Source.never().to(Sink.queue()).run()
        queue: SinkQueue[int] = running.value
        waiting = [asyncio.create_task(queue.pull()) for _ in range(2)]
        await settle()
        with pytest.raises(TooManyWaitersError, match="2 callers wait"):
            await queue.pull()
        queue.cancel()
        assert await asyncio.gather(*waiting) == [None, None]

    run_in_virtual_time(main())


def test_an_async_iterator_gives_the_elements_under_back_pressure_and_closing_it_cancels() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.to(Sink.as_async_iterator(2), Keep.right).run()
        async with contextlib.aclosing(running.value) as elements:
            await source.probe.expect_request(2)
            source.probe.send_next(1, 2)
            async for element in elements:
                if element == 2:
                    break
        assert source.probe.cancelled
        assert await running is None

    run_in_virtual_time(main())


def test_an_async_iterator_ends_with_the_stream_and_raises_its_failure() -> None:
    async def main() -> None:
        running = Source.range(50).to(Sink.as_async_iterator()).run()
        assert [element async for element in running.value] == list(range(50))
        await running
        failing = Source.failed(OSError("broken")).to(Sink.as_async_iterator()).run()
        with pytest.raises(OSError, match="broken"):
            await anext(failing.value)
        failing.abandon()

    run_in_virtual_time(main())


@pytest.mark.parametrize("make", [Sink.queue, Sink.as_async_iterator])
def test_a_prefetch_below_one_makes_no_sense(make: Any) -> None:
    with pytest.raises(ValueError, match="prefetch"):
        make(0)
