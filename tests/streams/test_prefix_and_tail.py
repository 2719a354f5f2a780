"""prefix_and_tail and flat_map_prefix: the first elements apart from the rest, and how long the rest may wait."""

from __future__ import annotations

import asyncio
import gc
import math
import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import Flow, Sink, Source, StreamClosedError, SubscriptionTimeoutError
from streams.stages.prefix_and_tail import SUBSCRIPTION_TIMEOUT
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle


async def parted(source: TestSource[int], out: TestSink[Any], *prefix: int) -> Source[int]:
    """Sends the prefix; returns the tail."""
    await out.expect_subscription()
    out.request(1)
    await source.probe.expect_request(len(prefix))
    source.probe.send_next(*prefix)
    seen, tail = await out.expect_next()
    assert seen == list(prefix)
    result: Source[int] = tail
    return result


def test_the_first_elements_come_as_a_list_and_the_rest_as_a_source() -> None:
    async def main() -> None:
        pairs = Source.from_iterable(range(6)).prefix_and_tail(2)
        rest = pairs.flat_map_concat(lambda pair: pair[1].map(lambda n: (pair[0], n)))
        assert await rest.to(Sink.collect()).run() == [([0, 1], n) for n in range(2, 6)]

    run_in_virtual_time(main())


@pytest.mark.parametrize("count", [3, 4, 5])
def test_of_a_stream_that_is_no_longer_the_tail_is_empty(count: int) -> None:
    pairs = Source.from_iterable(range(3)).prefix_and_tail(count)
    whole = pairs.flat_map_concat(lambda pair: Source.single(pair[0]).concat(pair[1].map(lambda n: [n])))
    assert whole.to(Sink.collect()).run_blocking() == [[0, 1, 2]]


def test_of_an_empty_stream_both_are_empty() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        running = source.prefix_and_tail(2).to(out).run()
        await out.expect_subscription()
        source.probe.send_complete()
        await out.expect_no_message()
        out.request(1)
        prefix, tail = await out.expect_next()
        assert prefix == []
        await out.expect_complete()
        await running
        assert await tail.to(Sink.collect()).run() == []

    run_in_virtual_time(main())


def test_a_prefix_of_none_comes_before_any_element() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.prefix_and_tail(0).to(out).run()
        await out.expect_subscription()
        out.request(1)
        prefix, tail = await out.expect_next()
        assert prefix == []
        await source.probe.expect_no_request()
        end = TestSink[int]()
        tail.to(end).run()
        await end.expect_subscription()
        end.request(2)
        await source.probe.expect_request(2)
        source.probe.send_next(1, 2)
        await end.expect_next(1, 2)
        end.cancel()
        await source.probe.expect_cancellation()
        await out.expect_complete()

    run_in_virtual_time(main())


def test_nothing_is_asked_of_upstream_but_the_prefix_and_what_the_tail_asks() -> None:
    async def main() -> None:
        source, out, end = TestSource[int](), TestSink[Any](), TestSink[int]()
        running = source.prefix_and_tail(2).to(out).run()
        await source.probe.expect_no_request()
        tail = await parted(source, out, 0, 1)
        out.request(5)
        other = tail.to(end).run()
        await end.expect_subscription()
        await source.probe.expect_no_request()
        end.request(3)
        await source.probe.expect_request(3)
        source.probe.send_next(2)
        await end.expect_next(2)
        source.probe.send_complete()
        await end.expect_complete()
        await out.expect_complete()
        await running
        await other

    run_in_virtual_time(main())


def test_the_run_lasts_until_the_tail_is_over() -> None:
    async def main() -> None:
        async def slow(n: int) -> int:
            await elapse(1)
            return n

        got: list[int] = []

        def begin(pair: tuple[list[int], Source[int]]) -> None:
            pair[1].to(Sink.foreach(got.append)).run()

        source = Source.from_iterable(range(20)).map_async(1, slow)
        await source.prefix_and_tail(1).to(Sink.foreach(begin)).run()
        assert got == list(range(1, 20))
        assert asyncio.get_running_loop().time() == pytest.approx(20)

    run_in_virtual_time(main())


def test_a_tail_that_nobody_runs_fails_after_the_time_out_and_frees_upstream() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        running = source.prefix_and_tail(1).to(out).run()
        tail = await parted(source, out, 0)
        await out.expect_no_message(SUBSCRIPTION_TIMEOUT - 0.001)
        assert not source.probe.cancelled
        await out.expect_complete()
        assert asyncio.get_running_loop().time() == pytest.approx(SUBSCRIPTION_TIMEOUT)
        assert source.probe.cancelled
        await running
        with pytest.raises(SubscriptionTimeoutError, match="within 5 s") as failure:
            await tail.to(Sink.ignore()).run()
        assert failure.value.seconds == SUBSCRIPTION_TIMEOUT
        assert isinstance(failure.value, TimeoutError)

    run_in_virtual_time(main())


@pytest.mark.parametrize("seconds", [0.5, math.inf])
def test_the_time_out_can_be_set_and_ends_with_the_subscription(seconds: float) -> None:
    async def main() -> None:
        source, out, end = TestSource[int](), TestSink[Any](), TestSink[int]()
        source.prefix_and_tail(1, subscription_timeout=seconds).to(out).run()
        tail = await parted(source, out, 0)
        if seconds == math.inf:
            await elapse(1000)
        tail.to(end).run()
        await elapse(1000)
        await end.expect_subscription()
        end.request(1)
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        await end.expect_next(1)
        end.cancel()

    run_in_virtual_time(main())


def test_a_tail_runs_once() -> None:
    async def main() -> None:
        source, out, end = TestSource[int](), TestSink[Any](), TestSink[int]()
        source.prefix_and_tail(1).to(out).run()
        tail = await parted(source, out, 0)
        tail.to(end).run()
        with pytest.raises(StreamClosedError, match="one subscriber"):
            await tail.to(Sink.ignore()).run()
        end.cancel()

    run_in_virtual_time(main())


def test_a_tail_that_is_used_after_its_run_fails_and_says_so() -> None:
    async def main() -> None:
        closed: list[bool] = []

        def numbers() -> Any:
            try:
                yield from range(10)
            finally:
                closed.append(True)

        _, tail = await Source.from_iterable(numbers).prefix_and_tail(2).to(Sink.head()).run()
        assert closed == [True]
        with pytest.raises(StreamClosedError, match="use the tail within it"):
            await tail.to(Sink.ignore()).run()

    run_in_virtual_time(main())


def test_a_tail_in_use_when_its_run_is_cancelled_fails_and_upstream_is_cancelled() -> None:
    async def main() -> None:
        source, out, end = TestSource[int](), TestSink[Any](), TestSink[int]()
        running = source.prefix_and_tail(1).to(out).run()
        other = (await parted(source, out, 0)).to(end).run()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await end.expect_error(StreamClosedError)
        assert source.probe.cancelled
        with pytest.raises(StreamClosedError):
            await other

    run_in_virtual_time(main())


def test_a_failure_before_the_prefix_is_whole_is_downstreams() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        running = source.prefix_and_tail(2).to(out).run()
        await out.expect_subscription()
        out.request(1)
        await source.probe.expect_request(2)
        source.probe.send_next(0)
        source.probe.send_error(OSError("broken"))
        await out.expect_error(OSError)
        with pytest.raises(OSError, match="broken"):
            await running

    run_in_virtual_time(main())


def test_a_failure_after_it_is_the_tails_even_if_that_runs_later() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        running = source.prefix_and_tail(1).to(out).run()
        tail = await parted(source, out, 0)
        source.probe.send_error(OSError("broken"))
        await out.expect_complete()
        await running
        with pytest.raises(OSError, match="broken"):
            await tail.to(Sink.ignore()).run()

    run_in_virtual_time(main())


def test_cancelling_before_the_prefix_is_whole_cancels_upstream() -> None:
    async def main() -> None:
        source, out = TestSource[int](), TestSink[Any]()
        source.prefix_and_tail(2).to(out).run()
        await out.expect_subscription()
        out.request(1)
        await source.probe.expect_request(2)
        source.probe.send_next(0)
        out.cancel()
        await source.probe.expect_cancellation()
        source.probe.subscriber.on_next(1)
        await out.expect_no_message()

    run_in_virtual_time(main())


def test_downstream_may_cancel_once_it_has_the_pair_and_the_tail_goes_on() -> None:
    pairs = Source.from_iterable(range(6)).prefix_and_tail(2).take(1)
    assert pairs.flat_map_concat(lambda pair: pair[1]).to(Sink.collect()).run_blocking() == [2, 3, 4, 5]


def test_a_request_for_less_than_one_fails_the_stream_and_the_tail_rule_3_9() -> None:
    async def main() -> None:
        source, out, end = TestSource[int](), TestSink[Any](), TestSink[int]()
        running = source.prefix_and_tail(1).to(out).run()
        other = (await parted(source, out, 0)).to(end).run()
        await end.expect_subscription()
        out.request(0)
        await out.expect_error(ValueError)
        await end.expect_error(ValueError)
        assert source.probe.cancelled
        for handle in (running, other):
            with pytest.raises(ValueError, match=r"3\.9"):
                await handle

    run_in_virtual_time(main())


def test_a_tail_forgets_a_subscriber_that_has_cancelled_rule_3_13() -> None:
    async def main() -> None:
        source, out, end = TestSource[int](), TestSink[Any](), TestSink[int]()
        source.prefix_and_tail(1).to(out).run()
        tail = await parted(source, out, 0)
        other = tail.to(end).run()
        await end.expect_subscription()
        end.cancel()
        await other
        kept = weakref.ref(end)
        del end, other
        gc.collect()
        assert kept() is None
        assert tail.name == "tail"

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("count", "seconds", "message"), [(-1, 1.0, "count must not be negative"), (1, 0.0, "subscription_timeout")]
)
def test_what_cannot_be_is_refused(count: int, seconds: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Source.of(1).prefix_and_tail(count, subscription_timeout=seconds)


def test_the_prefix_chooses_the_flow_of_the_rest() -> None:
    def scaled(prefix: list[int]) -> Flow[int, int]:
        return Flow[int, int].identity().map(lambda n: n * prefix[0])

    flow = Flow[int, int].identity().flat_map_prefix(1, scaled)
    assert Source.of(10, 1, 2, 3).via(flow).to(Sink.collect()).run_blocking() == [10, 20, 30]


def test_a_prefix_that_is_cut_short_chooses_too() -> None:
    def prepend(prefix: list[int]) -> Flow[int, int]:
        return Flow[int, int].identity().concat(Source.from_iterable(prefix))

    assert Source.of(1, 2).flat_map_prefix(5, prepend).to(Sink.collect()).run_blocking() == [1, 2]


@pytest.mark.parametrize("f", [lambda prefix: 1 // prefix[0], lambda _: Source.of(1)])
def test_a_function_that_gives_no_flow_fails_the_stream_naming_the_stage(f: Any) -> None:
    with pytest.raises((ZeroDivisionError, TypeError)) as failure:
        Source.of(0, 1).flat_map_prefix(1, f).to(Sink.ignore()).run_blocking()
    assert any("in the stage flat_map_prefix" in note for note in failure.value.__notes__)


@given(
    elements=st.lists(st.integers(0, 9), max_size=30),
    count=st.integers(0, 12),
    asks=st.lists(st.integers(1, 5), max_size=20),
)
def test_prefix_and_tail_together_are_the_stream(elements: list[int], count: int, asks: list[int]) -> None:
    async def main() -> None:
        sink = TestSink[int]()
        pairs = Source.from_iterable(elements).prefix_and_tail(count, subscription_timeout=math.inf)
        running = pairs.flat_map_concat(lambda pair: Source.from_iterable(pair[0]).concat(pair[1])).to(sink).run()
        await sink.expect_subscription()
        for n in asks:
            sink.request(n)
            await settle()
        sink.request(len(elements) + 1)
        await running
        assert sink.violations == []
        assert [signal.element for signal in sink._signals if hasattr(signal, "element")] == elements

    run_in_virtual_time(main())
