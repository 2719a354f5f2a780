"""The four time-outs, and keep_alive."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import Source, StreamTimeoutError
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle

EXACT = 1e-6
"""Seconds: what a loop's clock may be off."""
ALL = ["idle_timeout", "completion_timeout", "initial_timeout", "backpressure_timeout"]


def now() -> float:
    return asyncio.get_running_loop().time()


def timers() -> list[asyncio.TimerHandle]:
    return [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]


async def fails_at(seconds: float, operator: str, source: TestSource[int], sink: TestSink[int], running: Any) -> None:
    error = await sink.expect_error(StreamTimeoutError)
    assert isinstance(error, TimeoutError)
    assert isinstance(error, StreamTimeoutError)
    assert now() == pytest.approx(seconds, abs=EXACT)
    assert (error.operator, error.seconds) == (operator, 5)
    assert f"5 s of {operator}" in str(error)
    assert source.probe.cancelled
    with pytest.raises(StreamTimeoutError):
        await running
    assert timers() == []


@pytest.mark.parametrize("operator", ALL)
def test_a_stream_in_which_nothing_happens_runs_into_every_time_out(operator: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=100)
        running = getattr(source, operator)(5).to(sink).run()
        if operator != "backpressure_timeout":
            sink.request(1)
        await fails_at(5, operator, source, sink, running)

    run_in_virtual_time(main())


def test_idle_timeout_is_set_back_by_every_element_with_one_timer_in_flight() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=100)
        running = source.idle_timeout(5).to(sink).run()
        sink.request(100)
        for n in range(20):
            await elapse(0.7)
            source.probe.send_next(n)
            assert len(timers()) == 1
        await sink.expect_n(20)
        await fails_at(14 + 5, "idle_timeout", source, sink, running)

    run_in_virtual_time(main())


def test_idle_timeout_counts_also_where_nothing_is_asked_for() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=100)
        running = source.idle_timeout(5).to(sink).run()
        sink.request(1)
        await elapse(3)
        source.probe.send_next(1)
        await sink.expect_next(1)
        await fails_at(8, "idle_timeout", source, sink, running)

    run_in_virtual_time(main())


def test_completion_timeout_is_set_back_by_nothing() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=100)
        running = source.completion_timeout(5).to(sink).run()
        sink.request(2)
        await elapse(4.5)
        source.probe.send_next(1)
        await sink.expect_next(1)
        await fails_at(5, "completion_timeout", source, sink, running)

    run_in_virtual_time(main())


def test_initial_timeout_is_over_with_the_first_element() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=100)
        source.initial_timeout(5).to(sink).run()
        sink.request(2)
        await elapse(4.9)
        source.probe.send_next(1)
        assert timers() == []
        await sink.expect_next(1)
        await sink.expect_no_message(50)
        source.probe.send_next(2)
        await sink.expect_next(2)
        sink.cancel()

    run_in_virtual_time(main())


def test_backpressure_timeout_counts_from_the_last_element_asked_for() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=100)
        running = source.backpressure_timeout(5).to(sink).run()
        sink.request(2)
        await elapse(50)
        source.probe.send_next(1)
        await elapse(50)
        source.probe.send_next(2)
        await sink.expect_next(1, 2)
        await elapse(4)
        sink.request(1)
        await elapse(2)
        source.probe.send_next(3)
        await sink.expect_next(3)
        await fails_at(106 + 5, "backpressure_timeout", source, sink, running)

    run_in_virtual_time(main())


@given(st.lists(st.tuples(st.floats(0, 4).map(lambda s: round(s, 2)), st.booleans()), max_size=25))
def test_backpressure_timeout_fails_exactly_when_its_model_says(script: list[tuple[float, bool]]) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=100)
        running = source.backpressure_timeout(5).to(sink).run()
        clock, since, demand = 0.0, 0.0, 0
        failed = None
        for gap, asks in script:
            if not demand and clock + gap >= since + 5:
                failed = since + 5
                break
            clock += gap
            if gap:
                await elapse(gap)
            if asks:
                sink.request(1)
                demand += 1
            elif demand:
                source.probe.send_next(1)
                await sink.expect_next(1)
                demand -= 1
                since = since if demand else clock
        if failed is None and not demand:
            failed = since + 5
        if failed is None:
            await sink.expect_no_message(100)
            running.abandon()
        else:
            await fails_at(failed, "backpressure_timeout", source, sink, running)

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", [*ALL, "keep_alive"])
@pytest.mark.parametrize("end", ["complete", "error", "cancel", "bad request", "run"])
def test_no_timer_outlives_the_stream(operator: str, end: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        arguments: list[Any] = [5, lambda: 0] if operator == "keep_alive" else [5]
        running = getattr(source, operator)(*arguments).to(sink).run()
        sink.request(1)
        assert len(timers()) == 1
        match end:
            case "complete":
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


@pytest.mark.parametrize("operator", [*ALL, "initial_delay", "take_within", "drop_within", "delay"])
def test_a_time_that_is_no_time_is_refused_at_once(operator: str) -> None:
    with pytest.raises(ValueError, match=f"{operator}: seconds must be more than 0"):
        getattr(Source.of(1), operator)(0)


def test_keep_alive_fills_pauses_at_its_pace() -> None:
    async def main() -> None:
        source, sink = TestSource[str](), TestSink[str](timeout=100)
        source.keep_alive(5, lambda: "still here").to(sink).run()
        sink.request(9)
        await elapse(3)
        source.probe.send_next("a")
        await sink.expect_next("a")
        for seconds in (8, 13):
            await sink.expect_next("still here")
            assert now() == pytest.approx(seconds, abs=EXACT)
        await elapse(1)
        source.probe.send_next("b")
        await sink.expect_next("b")
        await sink.expect_next("still here")
        assert now() == pytest.approx(19, abs=EXACT)
        source.probe.send_complete()
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_keep_alive_that_is_not_asked_waits_and_then_answers_at_once() -> None:
    async def main() -> None:
        source, sink = TestSource[str](), TestSink[str]()
        source.keep_alive(5, lambda: "still here").to(sink).run()
        await sink.expect_no_message(50)
        assert timers() == []
        sink.request(2)
        await sink.expect_next("still here")
        assert now() == pytest.approx(50, abs=EXACT)
        await sink.expect_no_message(4.9)
        sink.cancel()

    run_in_virtual_time(main())


def test_an_element_whose_demand_was_used_up_by_keep_alive_is_held_and_none_more_is_asked_for() -> None:
    async def main() -> None:
        source, sink = TestSource[str](), TestSink[str](timeout=100)
        source.keep_alive(5, lambda: "still here").to(sink).run()
        sink.request(1)
        await source.probe.expect_request(1)
        await sink.expect_next("still here")
        source.probe.send_next("a")
        await sink.expect_no_message(20)
        await source.probe.expect_no_request()
        source.probe.send_complete()
        await sink.request_next("a")
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_a_source_that_has_elements_at_hand_goes_before_keep_alive() -> None:
    async def main() -> None:
        sink = TestSink[int]()
        Source.from_iterable(range(3)).keep_alive(5, lambda: -1).to(sink).run()
        await sink.expect_no_message(50)
        await sink.request_next(0, 1, 2)
        await sink.expect_complete()

    run_in_virtual_time(main())


@pytest.mark.parametrize("made", [None, OSError("burst")])
def test_what_keep_alive_cannot_make_fails_the_stream(made: OSError | None) -> None:
    def make() -> Any:
        if made is not None:
            raise made

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int](timeout=100)
        running = source.keep_alive(5, make).to(sink).run()
        sink.request(1)
        await sink.expect_error(TypeError if made is None else OSError)
        assert source.probe.cancelled
        with pytest.raises((TypeError, OSError)) as caught:
            await running
        assert "keep_alive" in "".join(caught.value.__notes__)

    run_in_virtual_time(main())


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0, 7.0, 11.0]), st.sampled_from(["come", "ask"])), max_size=25))
def test_keep_alive_loses_nothing_and_keeps_to_demand(script: list[tuple[float, str]]) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        seen: list[int] = []
        source.keep_alive(5.5, lambda: -1).map(lambda n: seen.append(n) or n).to(sink).run()  # type: ignore[func-returns-value]
        sent: list[int] = []
        asked = 0
        for number, (gap, what) in enumerate(script):
            if gap:
                await elapse(gap)
            if what == "ask":
                sink.request(1)
                asked += 1
            elif source.probe.demand.outstanding:
                sent.append(number)
                source.probe.send_next(number)
            await settle()
            assert len(seen) <= asked
            elements = [n for n in seen if n >= 0]
            assert elements == sent[: len(elements)]
            assert len(sent) - len(elements) <= 1
        assert sink.violations == []
        sink.cancel()

    run_in_virtual_time(main())
