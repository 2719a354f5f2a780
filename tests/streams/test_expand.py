"""map_concat and the framing of lines."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import LineTooLongError, Sink, Source
from streams.stages.expand import LineFraming
from streams.stages.stage import StageFlow
from streams.testkit import TestSink, TestSource, run_in_virtual_time


def framing(limit: int = 1000) -> StageFlow[bytes, bytes]:
    return StageFlow(lambda downstream, m: LineFraming(downstream, m, limit), "lines")


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


@settings(deadline=None)
@given(st.binary(max_size=60).map(lambda data: data.replace(b"a", b"\n")), st.lists(st.integers(1, 7), max_size=60))
def test_lines_are_the_same_however_the_bytes_are_cut(data: bytes, cuts: list[int]) -> None:
    blocks, rest = [], data
    for cut in cuts:
        blocks.append(rest[:cut])
        rest = rest[cut:]
    blocks = [block for block in [*blocks, rest] if block]
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    assert Source.from_iterable(blocks).via(framing()).to(Sink.collect()).run_blocking() == lines


@pytest.mark.parametrize(
    "blocks", [[b"abcd\n"], [b"ab", b"cd"], [b"x\nabcd\ny\n"], [b"ab", b"cd\n"], [b"x\nab", b"c", b"d"]]
)
def test_a_line_longer_than_the_limit_fails_the_stream_and_names_the_limit(blocks: list[bytes]) -> None:
    with pytest.raises(LineTooLongError, match="limit of 3 bytes") as caught:
        Source.from_iterable(blocks).via(framing(3)).to(Sink.collect()).run_blocking()
    assert caught.value.limit == 3


def test_a_line_of_exactly_the_limit_passes() -> None:
    assert Source.of(b"a", b"bc\n", b"def").via(framing(3)).to(Sink.collect()).run_blocking() == [b"abc", b"def"]
