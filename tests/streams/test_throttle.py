"""throttle: exact in virtual time, and never faster than it says."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import RateExceededError, Sink, Source, ThrottleMode
from streams.stages.throttle import TokenBucket
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time

EXACT = 1e-6
"""Seconds: what a loop's clock may be off."""


def now() -> float:
    return asyncio.get_running_loop().time()


def test_elements_are_spread_evenly_after_the_burst() -> None:
    async def main() -> None:
        times: list[float] = []
        graph = Source.from_iterable(range(8)).throttle(2, 1.0, 3).to(Sink.foreach(lambda _: times.append(now())))
        await graph.run()
        assert times == pytest.approx([0, 0, 0, 0.5, 1, 1.5, 2, 2.5], abs=EXACT)

    run_in_virtual_time(main())


def test_the_burst_of_a_throttle_that_is_not_told_is_what_passes_in_a_tenth_of_a_second() -> None:
    async def main() -> None:
        times: list[float] = []
        graph = Source.from_iterable(range(52)).throttle(500, 1.0).to(Sink.foreach(lambda _: times.append(now())))
        await graph.run()
        assert times == pytest.approx([0] * 50 + [0.002, 0.004], abs=EXACT)

    run_in_virtual_time(main())


def test_a_throttle_without_burst_spreads_the_first_element_too() -> None:
    async def main() -> None:
        times: list[float] = []
        await Source.of(1, 2).throttle(1, 3.0, 0).to(Sink.foreach(lambda _: times.append(now()))).run()
        assert times == pytest.approx([3, 6], abs=EXACT)

    run_in_virtual_time(main())


def test_the_rate_does_not_drift_over_a_long_run() -> None:
    async def main() -> None:
        last = 0.0

        def note(_element: int) -> None:
            nonlocal last
            last = now()

        await Source.from_iterable(range(30_001)).throttle(3, 1.0, 1).to(Sink.foreach(note)).run()
        assert last == pytest.approx(10_000, abs=EXACT)

    run_in_virtual_time(main())


def test_costs_count_in_the_place_of_elements() -> None:
    async def main() -> None:
        times: list[float] = []
        source = Source.of(b"ab", b"", b"abcd", b"a")
        await source.throttle(2, 1.0, 2, len).to(Sink.foreach(lambda _: times.append(now()))).run()
        assert times == pytest.approx([0, 0, 2, 2.5], abs=EXACT)

    run_in_virtual_time(main())


def test_one_element_is_held_at_most_and_the_next_asked_for_when_it_is_out() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.throttle(1, 2.0, 1).to(sink).run()
        await source.probe.expect_no_request()
        sink.request(5)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        await sink.expect_next(1)
        await source.probe.expect_request(1)
        source.probe.send_next(2)
        await source.probe.expect_no_request(1.5)
        await sink.expect_no_message()
        await sink.expect_next(2)
        assert now() == pytest.approx(2, abs=EXACT)
        await source.probe.expect_request(1)
        sink.cancel()

    run_in_virtual_time(main())


def test_an_element_that_is_held_comes_before_the_end() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.throttle(1, 2.0, 1).to(sink).run()
        sink.request(2)
        source.probe.send_next(1)
        source.probe.send_next(2)
        source.probe.send_complete()
        await sink.expect_next(1, 2)
        await sink.expect_complete()
        assert now() == pytest.approx(2, abs=EXACT)

    run_in_virtual_time(main())


def test_an_enforcing_throttle_fails_what_is_too_fast_and_lets_the_exact_rate_through() -> None:
    async def main() -> None:
        enforcing = ThrottleMode.ENFORCING
        exact = Source.tick(0.1).take(50).throttle(10, 1.0, 1, mode=enforcing)
        assert await exact.to(Sink.collect()).run() == list(range(50))
        source, sink = TestSource[int](), TestSink[int]()
        running = source.throttle(10, 1.0, 2, mode=enforcing).to(sink).run()
        sink.request(9)
        source.probe.send_next(1)
        source.probe.send_next(2)
        await elapse(0.05)
        source.probe.send_next(3)
        await sink.expect_next(1, 2)
        error = await sink.expect_error(RateExceededError)
        assert "faster than 10 in 1 s with bursts of 2" in str(error)
        await source.probe.expect_cancellation()
        with pytest.raises(RateExceededError):
            await running

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [((0, 1.0), "elements"), ((1, 0.0), "per"), ((1, 1.0, -1), "maximum_burst")],
)
def test_a_throttle_that_makes_no_sense_is_refused_at_once(arguments: tuple[int, float], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        Source.of(1).throttle(*arguments)


def test_an_enforcing_throttle_without_burst_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="ENFORCING"):
        Source.of(1).throttle(1, 1.0, 0, mode=ThrottleMode.ENFORCING)


gaps = st.lists(st.tuples(st.one_of(st.just(0.0), st.floats(0, 3)), st.integers(0, 4)), max_size=40)


@given(gaps, st.integers(1, 5), st.sampled_from([0.5, 1.0, 3.0]), st.integers(4, 6))
def test_a_throttle_is_never_faster_than_its_rate_over_any_window_and_no_slower_than_it_must_be(
    arrivals: list[tuple[float, int]], elements: int, per: float, burst: int
) -> None:
    times: list[tuple[float, int]] = []

    async def main() -> None:
        source = TestSource[int]()
        flow = source.buffer(1000).throttle(elements, per, burst, lambda cost: cost)
        running = flow.to(Sink.foreach(lambda cost: times.append((now(), cost)))).run()
        for gap, cost in arrivals:
            if gap:
                await elapse(gap)
            source.probe.send_next(cost)
        source.probe.send_complete()
        await running

    run_in_virtual_time(main())
    assert [cost for _, cost in times] == [cost for _, cost in arrivals]
    rate = elements / per
    for i, j in itertools.combinations_with_replacement(range(len(times)), 2):
        spent = sum(cost for _, cost in times[i : j + 1])
        assert spent <= burst + rate * (times[j][0] - times[i][0]) + 1e-4
    assert [at for at, _ in times] == pytest.approx(bucket_model(arrivals, rate, burst), abs=1e-5)


def bucket_model(arrivals: list[tuple[float, int]], rate: float, burst: int) -> list[float]:
    """When a bucket that is filled step by step lets each through."""
    times = []
    came = at = 0.0
    tokens = float(burst)
    for gap, cost in arrivals:
        came += gap
        start = max(came, at)
        tokens = min(burst, tokens + (start - at) * rate)
        wait = max(0.0, (cost - tokens) / rate)
        tokens = tokens + wait * rate - cost
        at = start + wait
        times.append(at)
    return times


def test_what_a_bucket_was_emptied_by_it_has_to_make_up_for() -> None:
    bucket = TokenBucket(1, 1.0, 2)
    assert [bucket.take(5, 100.0), bucket.take(1, 103.0), bucket.take(2, 200.0), bucket.take(1, 200.0)] == [
        103.0,
        104.0,
        200.0,
        201.0,
    ]
