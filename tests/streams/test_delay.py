"""delay, initial_delay, take_within and drop_within."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import UNBOUNDED, BufferOverflowError, OverflowStrategy, Sink, Source
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle

EXACT = 1e-6
"""Seconds: what a loop's clock may be off."""


def now() -> float:
    return asyncio.get_running_loop().time()


def timers() -> list[asyncio.TimerHandle]:
    return [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]


def test_every_element_comes_out_of_delay_as_long_after_it_came() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=100)
        source.delay(5, 3).to(sink).run()
        sink.request(9)
        await source.probe.expect_request(3)
        source.probe.send_next(1)
        await elapse(2)
        source.probe.send_next(2, 3)
        await sink.expect_next(1)
        assert now() == pytest.approx(5, abs=EXACT)
        source.probe.send_complete()
        await sink.expect_next(2, 3)
        assert now() == pytest.approx(7, abs=EXACT)
        await sink.expect_complete()
        assert now() == pytest.approx(7, abs=EXACT)

    run_in_virtual_time(main())


def test_what_is_due_waits_for_demand_without_a_timer() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.delay(1, 3).to(sink).run()
        await source.probe.expect_request(3)
        source.probe.send_next(1, 2)
        assert timers() == []
        await sink.expect_no_message(4)
        source.probe.send_complete()
        await sink.request_next(1)
        await sink.request_next(2)
        await sink.expect_complete()
        assert now() == pytest.approx(4, abs=EXACT)

    run_in_virtual_time(main())


def test_a_failure_does_not_wait() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.delay(1).to(sink).run()
        sink.request(3)
        source.probe.send_next(1)
        source.probe.send_error(OSError("broken"))
        await sink.expect_error(OSError)
        assert (now(), timers()) == (0, [])
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


def drop(strategy: OverflowStrategy, waiting: deque[tuple[float, int]]) -> bool:
    """What a strategy does to what waits; False if what comes is lost."""
    match strategy:
        case OverflowStrategy.DROP_HEAD:
            waiting.popleft()
        case OverflowStrategy.DROP_TAIL:
            waiting.pop()
        case OverflowStrategy.DROP_BUFFER:
            waiting.clear()
        case _:
            return False
    return True


DROPPING = [
    OverflowStrategy.DROP_HEAD,
    OverflowStrategy.DROP_TAIL,
    OverflowStrategy.DROP_NEW,
    OverflowStrategy.DROP_BUFFER,
]


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 0.3, 0.4, 1.0]), st.booleans()), max_size=30),
    st.integers(1, 4),
    st.sampled_from(DROPPING),
)
def test_delay_follows_its_model(script: list[tuple[float, bool]], size: int, strategy: OverflowStrategy) -> None:
    """Time passes, then an element comes or one is asked for: against a deque of what waits and when it is due."""

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        got: list[tuple[float, int]] = []
        flow = source.delay(0.95, size, strategy).map(lambda n: (round(now(), 3), n))
        flow.to(sink).run()  # type: ignore[arg-type]
        await source.probe.expect_request(UNBOUNDED)
        waiting: deque[tuple[float, int]] = deque()
        expected: list[tuple[float, int]] = []
        clock, demand = 0.0, 0
        for number, (gap, arrives) in enumerate(script):
            if gap:
                await elapse(gap)
            clock += gap
            while demand and waiting and waiting[0][0] <= clock:
                demand -= 1
                expected.append((round(waiting[0][0], 3), waiting.popleft()[1]))
            if arrives:
                source.probe.send_next(number)
                if len(waiting) < size or drop(strategy, waiting):
                    waiting.append((clock + 0.95, number))
            else:
                sink.request(1)
                demand += 1
                if waiting and waiting[0][0] <= clock:
                    demand -= 1
                    expected.append((round(clock, 3), waiting.popleft()[1]))
            await settle()
            got += [await sink.expect_next() for _ in range(len(expected) - len(got))]  # type: ignore[misc]
            assert got == expected
            await sink.expect_no_message()
        sink.cancel()
        assert timers() == []

    run_in_virtual_time(main())


def test_a_delay_that_may_not_overflow_fails_the_stream() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.delay(1, 2, OverflowStrategy.FAIL).to(sink).run()
        sink.request(9)
        source.probe.send_next(1, 2, 3)
        await sink.expect_error(BufferOverflowError)
        with pytest.raises(BufferOverflowError):
            await running

    run_in_virtual_time(main())


def test_a_delay_that_holds_upstream_back_passes_its_size_in_its_time() -> None:
    async def main() -> None:
        times: list[float] = []
        await Source.from_iterable(range(6)).delay(1, 2).to(Sink.foreach(lambda _: times.append(now()))).run()
        assert times == pytest.approx([1, 1, 2, 2, 3, 3], abs=EXACT)

    run_in_virtual_time(main())


def test_initial_delay_asks_for_nothing_until_its_time_is_up() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.initial_delay(5).to(sink).run()
        sink.request(2)
        sink.request(3)
        await source.probe.expect_no_request(4.9)
        await elapse(0.1)
        await source.probe.expect_request(5)
        sink.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        await sink.expect_next(1)
        sink.cancel()

    run_in_virtual_time(main())


def test_an_end_is_not_held_back_by_initial_delay() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.initial_delay(5).to(sink).run()
        source.probe.send_complete()
        await sink.expect_complete()
        assert (now(), timers()) == (0, [])

    run_in_virtual_time(main())


def test_take_within_ends_at_its_time_and_cancels_upstream() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=10)
        source.take_within(5).to(sink).run()
        sink.request(9)
        source.probe.send_next(1)
        await elapse(4.9)
        source.probe.send_next(2)
        await sink.expect_next(1, 2)
        await sink.expect_complete()
        assert now() == pytest.approx(5, abs=EXACT)
        assert source.probe.cancelled

    run_in_virtual_time(main())


def test_drop_within_replaces_what_it_drops_and_needs_no_timer() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.drop_within(5).to(sink).run()
        sink.request(1)
        await source.probe.expect_request(1)
        assert timers() == []
        source.probe.send_next(1)
        await source.probe.expect_request(1)
        await elapse(5)
        source.probe.send_next(2)
        await sink.expect_next(2)
        await source.probe.expect_no_request()
        sink.cancel()

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["delay", "initial_delay", "take_within"])
@pytest.mark.parametrize("end", ["complete", "error", "cancel", "bad request", "run"])
def test_no_timer_outlives_the_stream(operator: str, end: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = getattr(source, operator)(1000).to(sink).run()
        sink.request(1)
        if operator == "delay":
            source.probe.send_next(1)
        assert len(timers()) == 1
        match end:
            case "complete":
                if operator == "delay":
                    sink.cancel()
                source.probe.send_complete()
            case "error":
                source.probe.send_error(OSError("broken"))
            case "cancel":
                sink.cancel()
            case "run":
                running.cancel()
            case _:
                sink.request(0)
        assert timers() == []
        running.abandon()

    run_in_virtual_time(main())
