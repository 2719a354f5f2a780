"""also_to, divert_to and wire_tap: who gets what, and what becomes of failures and ends beside the stream."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streams import Flow, Keep, Materialization, Publisher, Sink, Source
from streams.stages.side_run import LAST_WORK_TIMEOUT
from streams.testkit import TestSink, TestSource, TestSubscriber, elapse, run_in_virtual_time, settle
from tests.streams.beside import beside, every_kind
from tests.streams.substream_probes import later


@pytest.mark.parametrize(
    ("kind", "here", "there"),
    [
        ("also_to", [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]),
        ("divert_to", [0, 2, 4], [1, 3]),
        ("wire_tap", [0, 1, 2, 3, 4], [0, 1, 2, 3, 4]),
    ],
)
def test_each_output_gets_its_elements_in_order(kind: str, here: list[int], there: list[int]) -> None:
    async def main() -> None:
        running = beside(kind, Source.from_iterable(range(5)), Sink.collect(), Keep.right).to(Sink.collect()).run()
        assert await running == here
        assert await running.value == there

    run_in_virtual_time(main())


@every_kind
def test_the_side_sinks_value_is_kept_only_if_that_is_asked_for(kind: str) -> None:
    async def main() -> None:
        queue, tap = beside(kind, Source.queue(4), Sink.collect(), Keep.both).to(Sink.ignore()).run().value
        queue.offer(1)
        queue.complete()
        assert await tap in ([1], [])
        kept = beside(kind, Source.queue(4), Sink.collect()).to(Sink.ignore()).run()
        kept.value.complete()
        assert await kept is None

    run_in_virtual_time(main())


@every_kind
def test_a_flow_can_have_a_sink_beside_it(kind: str) -> None:
    seen: list[int] = []
    flow: Flow[int, int] = beside(kind, Flow.identity(), Sink.foreach(seen.append))
    assert Source.of(1, 2, 3).via(flow).to(Sink.collect()).run_blocking() == ([2] if kind == "divert_to" else [1, 2, 3])
    assert seen == ([1, 3] if kind == "divert_to" else [1, 2, 3])


@every_kind
def test_the_run_is_not_over_before_the_side_sink_is(kind: str) -> None:
    async def main() -> None:
        done: list[int] = []

        async def store(n: int) -> None:
            await elapse(n)
            done.append(n)

        await beside(kind, Source.of(1, 3), Sink.foreach_async(2, store)).to(Sink.ignore()).run()
        assert done == [1, 3]
        assert asyncio.get_running_loop().time() == pytest.approx(3)

    run_in_virtual_time(main())


@every_kind
def test_a_side_sink_that_fails_fails_the_run(kind: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = beside(kind, source, Sink.foreach(lambda n: 1 // (n - 3))).to(sink).run()
        sink.request(9)
        await settle()
        source.probe.send_next(1)
        source.probe.send_next(3)
        if kind != "divert_to":
            await sink.expect_next(1, 3)
        await sink.expect_error(ZeroDivisionError)
        assert source.probe.cancelled
        with pytest.raises(ZeroDivisionError):
            await running

    run_in_virtual_time(main())


@every_kind
def test_a_side_sink_that_fails_after_the_last_element_fails_the_run(kind: str) -> None:
    async def fail(n: int) -> None:
        await elapse(n)
        raise OSError("disk full")

    async def main() -> None:
        with pytest.raises(OSError, match="disk full"):
            await beside(kind, Source.of(1), Sink.foreach_async(1, fail)).to(Sink.ignore()).run()

    run_in_virtual_time(main())


@every_kind
def test_each_source_of_a_flat_map_has_a_side_sink_of_its_own_which_is_waited_for(kind: str) -> None:
    async def main() -> None:
        stored: list[int] = []

        async def store(n: int) -> None:
            await elapse(1)
            stored.append(n)

        def inner(n: int) -> Source[int]:
            stream: Source[int] = beside(kind, Source.of(n, n), Sink.foreach_async(1, store))
            return stream

        flattened = Source.of(1, 3).flat_map_concat(inner)
        await flattened.to(Sink.ignore()).run()
        assert stored[0] == 1
        assert stored[-1] == 3
        assert asyncio.get_running_loop().time() == pytest.approx(len(stored))
        stored.clear()
        await Source.of(1, 3).flat_map_concat(inner).merge(Source.single(2)).to(Sink.head()).run()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


def test_each_substream_has_a_side_sink_of_its_own() -> None:
    sums: list[int] = []
    each: Sink[int, Any] = Flow[int, int].identity().fold(0, int.__add__).to(Sink.foreach(sums.append))
    groups = Source.from_iterable(range(6)).group_by(2, lambda n: n % 2).also_to(each).merge_substreams()
    assert groups.to(Sink.collect()).run_blocking() == list(range(6))
    assert sorted(sums) == [6, 9]


def test_work_of_a_side_sink_is_finished_when_its_source_is_left() -> None:
    async def main() -> None:
        stored: list[int] = []

        async def store(n: int) -> None:
            await elapse(1)
            stored.append(n)

        inner = Source.from_iterable(range(9)).also_to(Sink.foreach_async(1, store))
        assert await Source.of(0).flat_map_concat(lambda _: inner).take(1).to(Sink.collect()).run() == [0]
        assert stored == [0]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


@every_kind
def test_a_run_that_is_cancelled_tells_downstream_nothing_of_the_side_sinks_cancellation(kind: str) -> None:
    async def main() -> None:
        source, here = TestSource[int](), TestSink[int]()
        running = beside(kind, source, Sink.ignore()).to(here).run()
        await here.expect_subscription()
        running.cancel()
        await here.expect_no_message()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert source.probe.cancelled

    run_in_virtual_time(main())


@every_kind
def test_a_side_sink_is_cancelled_at_the_end_of_a_run_that_has_not_told_it_the_end(kind: str) -> None:
    class Leaves:
        """Is done at once, and cancels nothing."""

        def attach_sink(self, publisher: Publisher[int], m: Materialization, /) -> asyncio.Future[None]:
            publisher.subscribe(TestSubscriber[int]())
            done: asyncio.Future[None] = m.loop.create_future()
            done.set_result(None)
            return done

    async def main() -> None:
        source = TestSource[int]()
        running = beside(kind, source, Sink.collect(), Keep.right).to(Leaves()).run()
        await running
        assert running.value.cancelled()
        assert source.probe.cancelled is (kind != "wire_tap")
        assert asyncio.get_running_loop().time() < LAST_WORK_TIMEOUT

    run_in_virtual_time(main())


@every_kind
def test_what_a_side_sink_owns_ends_with_the_run(kind: str) -> None:
    seen: list[str] = []

    class Owner:
        def attach_sink(self, publisher: Publisher[int], m: Materialization, /) -> asyncio.Future[Any]:
            async def idle() -> None:
                try:
                    await m.loop.create_future()
                finally:
                    seen.append("task")

            m.spawn(idle(), "idle")
            m.on_end(lambda: seen.append("end"))
            return Sink.ignore().attach_sink(publisher, m)

    async def main() -> None:
        await beside(kind, Source.of(1, 2), Owner()).map_async(1, later).to(Sink.ignore()).run()
        assert seen == ["task", "end"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


@every_kind
def test_a_side_sink_that_cannot_be_attached_fails_the_run_at_its_start(kind: str) -> None:
    class Broken:
        def attach_sink(self, publisher: Publisher[int], m: Materialization, /) -> asyncio.Future[None]:
            raise OSError("no such sink")

    async def main() -> None:
        with pytest.raises(OSError, match="no such sink"):
            beside(kind, Source.of(1), Broken()).to(Sink.ignore()).run()
        await settle()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())
