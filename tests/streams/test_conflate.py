"""conflate, batch, expand and extrapolate: the two ends of a stream at paces of their own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams import UNBOUNDED, Sink, Source
from streams.testkit import TestSink, TestSource, run_in_virtual_time, settle

Script = list[int]
"""What happens, one after the other: n > 0 elements come, or -n are asked for."""
scripts = st.lists(st.one_of(st.integers(1, 5), st.integers(-3, -1)), max_size=25)


@given(scripts)
def test_conflate_puts_together_exactly_what_was_not_asked_for(script: Script) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[list[int]]()
        source.conflate_with_seed(lambda n: [n], lambda group, n: [*group, n]).to(sink).run()
        await source.probe.expect_request(UNBOUNDED)
        numbers = itertools.count()
        demand, waiting = 0, list[int]()
        for n in script:
            if n > 0:
                for _ in range(n):
                    number = next(numbers)
                    source.probe.send_next(number)
                    waiting.append(number)
                    if demand:
                        demand -= 1
                        await sink.expect_next(waiting)
                        waiting = []
            else:
                sink.request(-n)
                demand -= n
                if waiting:
                    demand -= 1
                    await sink.expect_next(waiting)
                    waiting = []
        await sink.expect_no_message()
        source.probe.send_complete()
        if waiting:
            await sink.expect_no_message()
            await sink.request_next(waiting)
        await sink.expect_complete()

    run_in_virtual_time(main())


@given(scripts, st.integers(1, 5))
def test_batch_holds_upstream_back_at_its_size_and_loses_nothing(script: Script, size: int) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[list[int]]()
        source.batch(size, lambda n: [n], lambda group, n: [*group, n]).to(sink).run()
        await source.probe.expect_request(size)
        numbers = itertools.count()
        sent: list[int] = []
        seen: list[int] = []
        demand = 0
        for n in script:
            if n > 0:
                for _ in range(min(n, source.probe.demand.outstanding)):
                    sent.append(next(numbers))
                    source.probe.send_next(sent[-1])
            else:
                sink.request(-n)
                demand -= n
            while demand and len(seen) < len(sent):
                batch = await sink.expect_next()
                assert 1 <= len(batch) <= size
                seen += batch
                demand -= 1
            waiting = len(sent) - len(seen)
            # Room is asked for in steps of half.
            assert size - max(1, size // 2) < waiting + source.probe.demand.outstanding <= size
        await sink.expect_no_message()
        assert seen == sent[: len(seen)]

    run_in_virtual_time(main())


@given(scripts, st.integers(1, 6))
def test_a_batch_by_weight_is_as_full_as_it_can_be(script: Script, most: int) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[list[int]]()
        graph = source.batch_weighted(most, lambda n: n % 4, lambda n: [n], lambda group, n: [*group, n])
        graph.to(sink).run()
        numbers = itertools.count()
        demand = 0
        group: list[int] = []
        pending: list[int] = []
        for n in script:
            if n > 0:
                for _ in range(n):
                    if not source.probe.demand.outstanding:
                        assert pending, "held back without need"
                        break
                    number = next(numbers)
                    source.probe.send_next(number)
                    if group and sum(x % 4 for x in group) + number % 4 > most:
                        pending.append(number)
                    else:
                        group.append(number)
                    if demand:
                        demand -= 1
                        await sink.expect_next(group)
                        group, pending = pending, []
            else:
                sink.request(-n)
                demand -= n
                while demand and group:
                    demand -= 1
                    await sink.expect_next(group)
                    group, pending = pending, []
        source.probe.send_complete()
        for rest in (group, pending):
            if rest:
                await sink.request_next(rest)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_a_conflate_before_a_slow_sink_does_not_hold_its_source_back() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.conflate(int.__add__).to(sink).run()
        source.probe.send_next(*range(1000))
        await sink.request_next(sum(range(1000)))
        sink.cancel()
        assert source.probe.cancelled

    run_in_virtual_time(main())


@pytest.mark.parametrize("broken", ["seed", "f"])
def test_a_function_of_conflate_that_raises_fails_the_stream_by_its_name(broken: str) -> None:
    def burst(*_: object) -> int:
        raise OSError("burst")

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        seed = burst if broken == "seed" else lambda n: n
        running = source.conflate_with_seed(seed, burst).to(sink).run()
        source.probe.send_next(*range(1 if broken == "seed" else 2))
        await sink.expect_error(OSError)
        await source.probe.expect_cancellation()
        with pytest.raises(OSError, match="burst") as caught:
            await running
        assert any("conflate_with_seed" in note and "burst" in note for note in caught.value.__notes__)

    run_in_virtual_time(main())


@pytest.mark.parametrize("operator", ["grouped_weighted", "batch_weighted", "throttle"])
def test_a_cost_below_zero_fails_the_stream(operator: str) -> None:
    source = Source.of(1)
    flow = {
        "grouped_weighted": lambda: source.grouped_weighted(5, lambda _: -1),
        "batch_weighted": lambda: source.batch_weighted(5, lambda _: -1, lambda n: n, max),
        "throttle": lambda: source.throttle(5, 1, cost=lambda _: -1),
    }[operator]()
    with pytest.raises(ValueError, match="must not be negative"):
        flow.to(Sink.ignore()).run_blocking()


def test_expand_gives_more_of_the_last_element_until_the_next_comes() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[tuple[int, int]]()
        source.expand(lambda n: ((n, i) for i in itertools.count())).to(sink).run()
        await source.probe.expect_request(1)
        sink.request(1)
        await sink.expect_no_message()
        source.probe.send_next(1)
        await sink.expect_next((1, 0))
        await source.probe.expect_request(1)
        await sink.request_next((1, 1), (1, 2))
        source.probe.send_next(2)
        await source.probe.expect_no_request()
        await sink.request_next((2, 0), (2, 1))
        source.probe.send_complete()
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_at_least_one_of_each_element_comes_out_of_expand_before_the_end() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.expand(itertools.repeat).to(sink).run()
        await source.probe.expect_request(1)
        source.probe.send_next(7)
        source.probe.send_complete()
        await sink.expect_no_message()
        await sink.request_next(7)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_an_element_that_expands_to_nothing_is_passed_over() -> None:
    graph = Source.of(1, 2, 3, 4).expand(lambda n: (n,) if n % 2 else ()).to(Sink.collect())
    assert graph.run_blocking() == [1, 3]


def test_expand_under_unbounded_demand_leaves_the_loop_its_turns_and_upstream_its_say() -> None:
    """A source that has all its elements at hand gets them through, each at least once, between the endless repetitions."""

    async def main() -> None:
        source = TestSource[int]()
        seen: list[int] = []
        running = source.expand(itertools.repeat).to(Sink.foreach(seen.append)).run()
        for n in range(3):
            source.probe.send_next(n)
            await settle()
            assert seen[-1] == n
            assert len(seen) > n + 1
        source.probe.send_complete()
        await running

    run_in_virtual_time(main())


def test_what_is_at_hand_goes_before_more_of_the_same() -> None:
    async def main() -> None:
        source = Source.from_iterable(range(500)).expand(itertools.repeat)
        assert await source.to(Sink.collect()).run() == list(range(500))

    run_in_virtual_time(main())


def test_an_iterable_that_raises_fails_expand_after_what_it_gave() -> None:
    def one_and_burst(n: int) -> Iterator[int]:
        yield n
        raise OSError("burst")

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.expand(one_and_burst).to(sink).run()
        await source.probe.expect_request(1)
        source.probe.send_next(1)
        await sink.request_next(1)
        sink.request(1)
        await sink.expect_error(OSError)
        with pytest.raises(OSError, match="burst"):
            await running

    run_in_virtual_time(main())


def test_extrapolate_emits_each_element_itself_first_and_has_something_before_the_first() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.extrapolate(lambda n: (n * 10, n * 100), initial=3).to(sink).run()
        await sink.request_next(3, 30)
        await source.probe.expect_request(1)
        source.probe.send_next(4)
        await sink.request_next(4, 40, 400)
        sink.request(1)
        await sink.expect_no_message()
        source.probe.send_next(5)
        await sink.expect_next(5)
        sink.cancel()
        assert source.probe.cancelled

    run_in_virtual_time(main())
