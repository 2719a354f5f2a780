"""An iterator is gone through once: a run that finds it used up says so, and is not an empty stream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from streams import Sink, Source
from streams.testkit import run_in_virtual_time


def three() -> Iterator[int]:
    yield from range(3)


async def three_later() -> AsyncIterator[int]:
    for n in range(3):
        yield n


@pytest.mark.parametrize(
    "iterator", [three, lambda: iter([0, 1, 2]), lambda: map(int, "012")], ids=["generator", "list", "map"]
)
def test_a_used_up_iterator_run_again_fails(iterator: object) -> None:
    source: Source[int] = Source.from_iterable(iterator())  # type: ignore[operator]
    assert source.to(Sink.collect()).run_blocking() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="used up: give a function"):
        source.to(Sink.collect()).run_blocking()


def test_an_iterator_that_is_not_used_up_goes_on_where_the_run_before_has_left_it() -> None:
    source = Source.from_iterable(three())
    assert source.take(1).to(Sink.collect()).run_blocking() == [0]
    assert source.to(Sink.collect()).run_blocking() == [1, 2]
    with pytest.raises(RuntimeError, match="used up"):
        source.to(Sink.collect()).run_blocking()


def test_an_asynchronous_iterator_is_for_one_run_since_that_closes_it() -> None:
    async def main() -> None:
        for first in (Source.from_async_iterable(three_later()), Source.from_async_iterable(three_later())):
            assert await first.take(2).to(Sink.collect()).run() == [0, 1]
            with pytest.raises(RuntimeError, match="used up: give a function"):
                await first.to(Sink.collect()).run()

    run_in_virtual_time(main())


def test_what_a_function_gives_is_gone_through_by_each_run() -> None:
    source = Source.from_iterable(three)
    assert [source.to(Sink.collect()).run_blocking() for _ in range(2)] == [[0, 1, 2]] * 2
