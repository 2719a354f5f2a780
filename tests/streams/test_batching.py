"""grouped and grouped_within."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from streams import UNBOUNDED, Sink, Source
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_request_for_a_group_is_a_request_for_its_elements() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[list[int]]()
        source.grouped(3).to(sink).run()
        sink.request(2)
        await source.probe.expect_request(6)
        source.probe.send_next(1, 2, 3, 4)
        source.probe.send_complete()
        await sink.expect_next([1, 2, 3], [4])
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_unbounded_demand_for_groups_stays_unbounded() -> None:
    async def main() -> None:
        source = TestSource[int]()
        running = source.grouped(3).to(Sink.ignore()).run()
        await source.probe.expect_request(UNBOUNDED)
        running.cancel()

    run_in_virtual_time(main())


def test_a_group_is_emitted_when_it_is_full_without_waiting() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[list[int]]()
        source.grouped_within(2, 10).to(sink).run()
        sink.request(2)
        source.probe.send_next(1, 2)
        await sink.expect_next([1, 2])
        assert now() == 0
        sink.cancel()

    run_in_virtual_time(main())


def test_the_clock_of_a_group_starts_with_its_first_element() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[list[int]](timeout=100)
        source.grouped_within(10, 5).to(sink).run()
        sink.request(5)
        await sink.expect_no_message(7)
        source.probe.send_next(1)
        await elapse(4)
        source.probe.send_next(2)
        await sink.expect_next([1, 2])
        assert now() == 12
        await sink.expect_no_message(50)
        source.probe.send_next(3)
        await sink.expect_next([3])
        assert now() == 67
        sink.cancel()

    run_in_virtual_time(main())


def test_a_full_group_does_not_shorten_the_time_of_the_next() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[list[int]](timeout=100)
        source.grouped_within(2, 5).to(sink).run()
        sink.request(5)
        source.probe.send_next(1)
        await elapse(4)
        source.probe.send_next(2, 3)
        await sink.expect_next([1, 2])
        await sink.expect_next([3])
        assert now() == 9
        sink.cancel()

    run_in_virtual_time(main())


def test_a_group_whose_time_is_up_waits_for_demand_and_grows_no_more_than_its_size() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[list[int]]()
        source.grouped_within(3, 1).to(sink).run()
        sink.request(1)
        source.probe.send_next(1)
        await sink.expect_next([1])
        source.probe.send_next(2)
        await sink.expect_no_message(2)
        source.probe.send_next(3, 4)
        assert source.probe.demand.outstanding == 0
        await sink.expect_no_message(2)
        await sink.request_next([2, 3, 4])
        assert source.probe.demand.outstanding == 3
        sink.cancel()

    run_in_virtual_time(main())


def test_the_rest_comes_before_the_end_when_it_is_asked_for() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[list[int]]()
        running = source.grouped_within(3, 1).to(sink).run()
        sink.request(1)
        source.probe.send_next(1, 2, 3, 4)
        source.probe.send_complete()
        await sink.expect_next([1, 2, 3])
        await sink.expect_no_message(5)
        await sink.request_next([4])
        await sink.expect_complete()
        await running

    run_in_virtual_time(main())


def test_no_clock_runs_while_nothing_waits() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[list[int]]()
        source.grouped_within(3, 1).to(sink).run()
        sink.request(9)
        source.probe.send_next(1, 2, 3)
        await settle()
        timers = [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
        assert timers == []
        sink.cancel()

    run_in_virtual_time(main())


@settings(deadline=None)
@given(st.lists(st.floats(0, 3), max_size=30), st.integers(1, 5))
def test_no_element_waits_longer_than_the_time_and_none_is_lost(gaps: list[float], size: int) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        source = TestSource[float]()
        waits: list[float] = []
        groups: list[list[float]] = []

        def keep(group: list[float]) -> None:
            groups.append(group)
            waits.extend(loop.time() - came for came in group)

        running = source.grouped_within(size, 1.0).to(Sink.foreach(keep)).run()
        sent = []
        for gap in gaps:
            await elapse(gap)
            sent.append(loop.time())
            source.probe.send_next(sent[-1])
        source.probe.send_complete()
        await running
        assert [element for group in groups for element in group] == sent
        assert all(1 <= len(group) <= size for group in groups)
        assert all(wait <= 1.0 + 1e-6 for wait in waits)

    run_in_virtual_time(main())


def test_a_tick_stream_is_grouped_by_time() -> None:
    async def main() -> None:
        assert await Source.tick(1.0).take(5).grouped_within(100, 1.5).to(Sink.collect()).run() == [[0, 1], [2, 3], [4]]

    run_in_virtual_time(main())
