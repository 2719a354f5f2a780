"""map_async_partitioned: order, the bound on each partition, and that one partition does not hold up another."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import Flow, Sink, Source
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time

OPERATORS = ("map_async_partitioned", "map_async_partitioned_unordered")
each_operator = pytest.mark.parametrize("operator", OPERATORS)


@settings(deadline=None)
@given(
    st.sampled_from(OPERATORS), st.integers(0, 2**32), st.integers(1, 8), st.integers(1, 4), st.lists(st.integers(0, 3))
)
def test_bounds_and_orders_hold_whatever_the_keys_and_durations(
    operator: str, seed: int, parallelism: int, per_partition: int, keys: list[int]
) -> None:
    chance = random.Random(seed)
    at_work: Counter[int] = Counter()
    begun: list[tuple[int, int]] = []

    async def f(element: tuple[int, int], key: int) -> tuple[int, int]:
        assert element[0] == key
        at_work[key] += 1
        begun.append(element)
        assert at_work[key] <= per_partition
        assert at_work.total() <= parallelism
        if chance.random() < 0.7:
            await elapse(chance.choice([0, 0.5, 1, 3]))
        at_work[key] -= 1
        return element

    async def main() -> None:
        elements = list(zip(keys, range(len(keys)), strict=True))
        stage = getattr(Source.from_iterable(elements), operator)(parallelism, per_partition, lambda e: e[0], f)
        results = await stage.run_with(Sink.collect())
        assert sorted(results) == sorted(elements)
        if operator == "map_async_partitioned":
            assert results == elements
        for key in set(keys):
            assert [e for e in begun if e[0] == key] == [e for e in elements if e[0] == key]
            if per_partition == 1:
                assert [e for e in results if e[0] == key] == [e for e in elements if e[0] == key]

    run_in_virtual_time(main())


def test_a_busy_partition_does_not_hold_up_the_others() -> None:
    finished: dict[str, float] = {}

    async def f(element: str, key: str) -> str:
        await elapse(10 if key == "a" else 1)
        finished[element] = asyncio.get_running_loop().time()
        return element

    async def main() -> None:
        source = Source.of("a1", "a2", "b1", "c1")
        stage = source.map_async_partitioned(4, 1, lambda element: element[0], f)
        assert await stage.run_with(Sink.collect()) == ["a1", "a2", "b1", "c1"]
        assert finished == {"b1": 1, "c1": 1, "a1": 10, "a2": 20}

    run_in_virtual_time(main())


def test_elements_that_wait_for_their_partition_count_as_under_way() -> None:
    async def f(element: int, key: int) -> int:
        await elapse(1)
        return element

    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.via(Flow[int, int].identity().map_async_partitioned(3, 1, lambda _: 0, f)).to(sink).run()
        sink.request(9)
        await source.probe.expect_request(3)
        source.probe.send_next(1, 2, 3)
        await source.probe.expect_no_request()
        await sink.expect_next(1)
        await source.probe.expect_request(1)
        sink.cancel()
        await source.probe.expect_cancellation()

    run_in_virtual_time(main())


@each_operator
@pytest.mark.parametrize("partition", [lambda _: 1 / 0, lambda _: []])
def test_a_partition_function_that_fails_or_gives_no_key_fails_the_stream_and_is_named(
    operator: str, partition: Any
) -> None:
    async def f(element: int, key: int) -> int:
        return element

    async def main() -> None:
        stage = getattr(Source.of(1, 2), operator)(2, 1, partition, f)
        with pytest.raises((ZeroDivisionError, TypeError)) as caught:
            await stage.run_with(Sink.ignore())
        assert f"in the stage {operator}(" in caught.value.__notes__[0]
        assert "<lambda>" in caught.value.__notes__[0]

    run_in_virtual_time(main())


def test_a_failure_of_an_ordered_partition_comes_in_its_elements_place() -> None:
    async def f(element: int, key: int) -> int:
        if element == 3:
            raise KeyError(element)
        await elapse(element)
        return element

    async def main() -> None:
        sink = TestSink[int](timeout=10)
        running = Source.of(1, 2, 3, 4).map_async_partitioned(4, 2, lambda n: n % 2, f).to(sink).run()
        sink.request(9)
        await sink.expect_next(1, 2)
        await sink.expect_error(KeyError)
        with pytest.raises(KeyError):
            await running

    run_in_virtual_time(main())


@each_operator
def test_bounds_below_one_are_refused(operator: str) -> None:
    async def f(element: int, key: int) -> int:
        return element

    with pytest.raises(ValueError, match="parallelism"):
        getattr(Source.of(1), operator)(0, 1, abs, f)
    with pytest.raises(ValueError, match="per_partition"):
        getattr(Source.of(1), operator)(1, 0, abs, f)
