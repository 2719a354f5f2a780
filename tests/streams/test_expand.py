"""map_concat: any number of elements for one."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from streams import Sink, Source
from streams.testkit import TestSink, TestSource, run_in_virtual_time


def test_map_concat_asks_for_one_element_at_a_time_and_emits_its_results_under_demand() -> None:
    async def main() -> None:
        source, sink = TestSource[str](), TestSink[str]()
        source.map_concat(list).to(sink).run()
        sink.request(2)
        await source.probe.expect_request(1)
        source.probe.send_next("abc")
        await sink.expect_next("a", "b")
        await sink.expect_no_message()
        await source.probe.expect_no_request()
        sink.request(2)
        await sink.expect_next("c")
        await source.probe.expect_request(1)
        source.probe.send_complete()
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_results_at_hand_are_emitted_before_the_end() -> None:
    async def main() -> None:
        source, sink = TestSource[str](), TestSink[str]()
        source.map_concat(list).to(sink).run()
        sink.request(1)
        source.probe.send_next("ab")
        source.probe.send_complete()
        await sink.expect_next("a")
        await sink.expect_no_message()
        await sink.request_next("b")
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_an_endless_iterable_leaves_the_loop_its_turns() -> None:
    async def main() -> None:
        running = Source.of(1).map_concat(lambda _: itertools.count()).to(Sink.ignore()).run()
        for _ in range(20):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run_in_virtual_time(main())


def test_an_iterable_that_raises_fails_the_stream_after_what_it_gave() -> None:
    def two_and_burst(_element: int) -> Any:
        yield from (1, 2)
        raise OSError("burst")

    async def main() -> None:
        sink = TestSink[int]()
        running = Source.of(1).map_concat(two_and_burst).to(sink).run()
        await sink.request_next(1, 2)
        sink.request(1)
        await sink.expect_error(OSError)
        with pytest.raises(OSError, match="burst"):
            await running

    run_in_virtual_time(main())


def test_200_000_empty_results_neither_recurse_nor_stall() -> None:
    assert Source.from_iterable(range(200_000)).map_concat(lambda _: ()).to(Sink.collect()).run_blocking() == []
