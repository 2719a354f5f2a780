"""buffer: bounded, and explicit about what happens at the bound."""

from __future__ import annotations

import itertools
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import UNBOUNDED, BufferOverflowError, OverflowStrategy, Sink, Source
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle


def test_a_buffer_asks_for_what_it_can_hold_before_anything_is_asked_of_it() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.buffer(4).to(sink).run()
        await source.probe.expect_request(4)
        source.probe.send_next(1, 2, 3, 4)
        await sink.expect_no_message()
        await source.probe.expect_no_request()
        await sink.request_next(1)
        await source.probe.expect_no_request()
        await sink.request_next(2)
        await source.probe.expect_request(2)
        sink.cancel()

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("overflow", "kept"),
    [
        (OverflowStrategy.DROP_HEAD, [3, 4, 5]),
        (OverflowStrategy.DROP_TAIL, [1, 2, 5]),
        (OverflowStrategy.DROP_NEW, [1, 2, 3]),
        (OverflowStrategy.DROP_BUFFER, [4, 5]),
    ],
)
def test_what_a_full_buffer_drops(overflow: OverflowStrategy, kept: list[int]) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.buffer(3, overflow).to(sink).run()
        await source.probe.expect_request(UNBOUNDED)
        source.probe.send_next(1, 2, 3, 4, 5)
        source.probe.send_complete()
        sink.request(9)
        await sink.expect_next(*kept)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_a_full_buffer_can_fail_the_stream() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.buffer(2, OverflowStrategy.FAIL).to(sink).run()
        source.probe.send_next(1, 2)
        await sink.expect_no_message()
        source.probe.send_next(3)
        error = await sink.expect_error(BufferOverflowError)
        assert source.probe.cancelled
        with pytest.raises(BufferOverflowError, match="2 elements") as caught:
            await running
        assert caught.value is error

    run_in_virtual_time(main())


def test_a_publisher_that_ignores_back_pressure_fails_at_the_bound() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.buffer(2).to(sink).run()
        source.probe.send_next(1, 2)
        source.probe.subscriber.on_next(3)
        await sink.expect_error(BufferOverflowError)
        with pytest.raises(BufferOverflowError):
            await running

    run_in_virtual_time(main())


def test_what_waits_comes_before_the_end_and_is_lost_in_a_failure() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.buffer(2).to(sink).run()
        source.probe.send_next(1)
        source.probe.send_complete()
        await sink.expect_no_message()
        await sink.request_next(1)
        await sink.expect_complete()
        failing, sink = TestSource[int](), TestSink[int]()
        running = failing.buffer(2).to(sink).run()
        failing.probe.send_next(1)
        failing.probe.send_error(OSError("broken"))
        await sink.expect_error(OSError)
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


def test_an_endless_source_before_a_slow_sink_stays_within_the_bound() -> None:
    """What has left the source and not reached the sink is the buffer and what the slow stage works on."""
    made = seen = most = 0

    def count(_element: int) -> int:
        nonlocal made, most
        made += 1
        most = max(most, made - seen)
        return made

    async def slow(element: int) -> int:
        nonlocal seen
        await elapse(1)
        seen += 1
        return element

    async def main() -> None:
        await Source.repeat(1).map(count).buffer(10).map_async(3, slow).take(300).to(Sink.ignore()).run()
        await settle()

    run_in_virtual_time(main())
    assert 10 <= most <= 14


def test_unbounded_demand_that_comes_late_leaves_the_loop_its_turns() -> None:
    """A buffer that is drained by request() refills from a source that emits on the spot: the two must not go round for ever."""

    async def main() -> None:
        sink = TestSink[int]()
        running = Source.repeat(1).buffer(8).to(sink).run()
        await settle()
        sink.request(UNBOUNDED)
        await settle()
        assert not running.done()
        running.cancel()

    run_in_virtual_time(main())


@given(
    st.lists(st.one_of(st.integers(1, 6), st.integers(-4, -1)), max_size=30),
    st.integers(1, 5),
    st.sampled_from(list(OverflowStrategy)),
)
def test_a_buffer_follows_its_model(script: list[int], size: int, overflow: OverflowStrategy) -> None:
    """n > 0 elements come or -n are asked for, against a deque."""

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.buffer(size, overflow).to(sink).run()
        await source.probe.expect_request(size if overflow is OverflowStrategy.BACKPRESSURE else UNBOUNDED)
        waiting: deque[int] = deque()
        numbers = itertools.count()
        demand = 0

        async def expect() -> None:
            nonlocal demand
            while demand and waiting:
                demand -= 1
                await sink.expect_next(waiting.popleft())

        for n in script:
            for _ in range(min(n, source.probe.demand.outstanding)):
                number = next(numbers)
                source.probe.send_next(number)
                if len(waiting) == size:
                    match overflow:
                        case OverflowStrategy.DROP_HEAD:
                            waiting.popleft()
                        case OverflowStrategy.DROP_TAIL:
                            waiting.pop()
                        case OverflowStrategy.DROP_BUFFER:
                            waiting.clear()
                        case OverflowStrategy.DROP_NEW:
                            continue
                        case _:
                            assert overflow is OverflowStrategy.FAIL
                            await sink.expect_error(BufferOverflowError)
                            running.abandon()
                            return
                waiting.append(number)
                await expect()
            if n < 0:
                sink.request(-n)
                demand -= n
                await expect()
            if overflow is OverflowStrategy.BACKPRESSURE:
                ahead = len(waiting) + source.probe.demand.outstanding
                assert size - max(1, size // 2) < ahead <= size
            else:
                assert source.probe.demand.outstanding == UNBOUNDED
        await sink.expect_no_message()
        source.probe.send_complete()
        if waiting:
            await sink.expect_no_message()
            await sink.request_next(*waiting)
        await sink.expect_complete()

    run_in_virtual_time(main())
