"""How runs with a sink beside the stream end: who fails, who is cancelled, and what is finished before."""

from __future__ import annotations

import asyncio

import pytest

from streams import Keep, Materialization, Publisher, Sink, Source
from streams.stages.side_run import LAST_WORK_TIMEOUT
from streams.testkit import TestSink, TestSource, TestSubscriber, elapse, run_in_virtual_time, settle
from tests.streams.beside import beside, every_kind


@every_kind
def test_work_of_the_side_sink_is_finished_when_downstream_has_enough(kind: str) -> None:
    async def main() -> None:
        done: list[int] = []

        async def store(n: int) -> None:
            await elapse(2)
            done.append(n)

        source = Source.from_iterable([1, 2, 3, 4, 5, 6])
        head = await beside(kind, source, Sink.foreach_async(4, store)).to(Sink.head()).run()
        assert head == (2 if kind == "divert_to" else 1)
        assert done == [1]
        assert asyncio.get_running_loop().time() == pytest.approx(2)

    run_in_virtual_time(main())


@every_kind
def test_a_side_sink_that_does_not_end_after_the_run_is_cancelled_and_reported(
    kind: str, loop_reports: list[str]
) -> None:
    async def main() -> None:
        cancelled: list[int] = []

        async def hang(n: int) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                cancelled.append(n)
                raise

        source = Source.from_iterable([1, 2, 3])
        await beside(kind, source, Sink.foreach_async(1, hang)).to(Sink.head()).run()
        assert cancelled == [1]
        assert asyncio.get_running_loop().time() == pytest.approx(LAST_WORK_TIMEOUT)

    run_in_virtual_time(main())
    assert any("had not ended" in report for report in loop_reports)


@every_kind
def test_a_failure_after_the_run_has_ended_is_reported(kind: str, loop_reports: list[str]) -> None:
    async def fail(_: int) -> None:
        await elapse(1)
        raise OSError("disk full")

    async def main() -> None:
        source = Source.from_iterable([1, 2, 3])
        await beside(kind, source, Sink.foreach_async(1, fail)).to(Sink.head()).run()

    run_in_virtual_time(main())
    assert any("failed after the run had ended" in report and "disk full" in report for report in loop_reports)


@every_kind
def test_a_failure_while_downstream_no_longer_listens_fails_the_run(kind: str) -> None:
    async def fail(_: int) -> None:
        await elapse(1)
        raise OSError("disk full")

    async def later(n: int) -> int:
        await elapse(5)
        return n

    async def main() -> None:
        source = beside(kind, Source.from_iterable([1, 2, 3]), Sink.foreach_async(1, fail)).take(1)
        with pytest.raises(OSError, match="disk full"):
            await source.map_async(1, later).to(Sink.ignore()).run()

    run_in_virtual_time(main())


@every_kind
def test_a_failure_upstream_reaches_both(kind: str) -> None:
    async def main() -> None:
        source, here, there = TestSource[int](), TestSink[int](), TestSink[int]()
        running = beside(kind, source, there).to(here).run()
        await there.expect_subscription()
        source.probe.send_error(OSError("broken"))
        await here.expect_error(OSError)
        await there.expect_error(OSError)
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


@every_kind
def test_cancelling_the_run_stops_both_and_upstream(kind: str) -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = beside(kind, source, Sink.collect(), Keep.right).to(Sink.ignore()).run()
        await source.probe.expect_request()
        running.cancel()
        await source.probe.expect_cancellation()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert running.value.cancelled()

    run_in_virtual_time(main())


@every_kind
def test_a_run_that_is_cancelled_and_abandoned_reports_nothing(kind: str) -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = beside(kind, source, Sink.collect()).to(Sink.ignore()).run()
        await settle()
        running.abandon()
        await settle()
        assert running.done()

    run_in_virtual_time(main())


@every_kind
def test_when_downstream_cancels_the_side_sink_gets_its_end(kind: str) -> None:
    async def main() -> None:
        source, here, there = TestSource[int](), TestSink[int](), TestSink[int]()
        running = beside(kind, source, there).to(here).run()
        await here.expect_subscription()
        here.cancel()
        await there.expect_complete()
        assert source.probe.cancelled
        here.cancel()
        await running

    run_in_virtual_time(main())


@pytest.mark.parametrize("kind", ["also_to", "divert_to"])
def test_when_the_side_sink_has_enough_the_stream_ends(kind: str) -> None:
    async def main() -> None:
        source, here = TestSource[int](), TestSink[int]()
        running = beside(kind, source, Sink.head()).to(here).run()
        here.request(9)
        await settle()
        source.probe.send_next(1)
        if kind == "also_to":
            await here.expect_next(1)
        await here.expect_complete()
        assert source.probe.cancelled
        await running

    run_in_virtual_time(main())


def test_a_tap_that_has_enough_leaves_the_stream_as_it_is() -> None:
    async def main() -> None:
        running = Source.from_iterable(range(5)).wire_tap(Sink.head(), Keep.right).to(Sink.collect()).run()
        assert await running == [0, 1, 2, 3, 4]
        assert await running.value == 0

    run_in_virtual_time(main())


@every_kind
def test_a_side_sink_that_cancels_before_the_stream_begins_is_noticed(kind: str) -> None:
    class Declines:
        def attach_sink(self, publisher: Publisher[int], m: Materialization, /) -> asyncio.Future[None]:
            subscriber = TestSubscriber[int]()
            publisher.subscribe(subscriber)
            subscriber.cancel()
            done: asyncio.Future[None] = m.loop.create_future()
            done.set_result(None)
            return done

    expected = [0, 1, 2] if kind == "wire_tap" else []
    assert beside(kind, Source.from_iterable(range(3)), Declines()).to(Sink.collect()).run_blocking() == expected
