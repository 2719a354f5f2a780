"""recover."""

from __future__ import annotations

import pytest

from streams import Sink, Source
from streams.testkit import TestSink, TestSource, run_in_virtual_time


def test_recover_puts_one_element_in_the_place_of_a_failure() -> None:
    graph = Source.of(2, 1, 0, 5).map(lambda n: 10 // n).recover(lambda error: -len(type(error).__name__))
    assert graph.to(Sink.collect()).run_blocking() == [5, 10, -17]


def test_the_element_in_place_of_a_failure_waits_for_demand() -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        source.recover(lambda _: 0).to(sink).run()
        sink.request(1)
        source.probe.send_next(1)
        source.probe.send_error(OSError("broken"))
        await sink.expect_next(1)
        await sink.expect_no_message()
        await sink.request_next(0)
        await sink.expect_complete()

    run_in_virtual_time(main())


def test_recover_that_returns_none_lets_the_failure_pass() -> None:
    with pytest.raises(OSError, match="broken"):
        Source.failed(OSError("broken")).recover(lambda _: None).to(Sink.collect()).run_blocking()


def test_recover_that_raises_fails_the_stream_with_that() -> None:
    def burst(error: BaseException) -> int:
        raise KeyError("worse") from error

    with pytest.raises(KeyError, match="worse"):
        Source.failed(OSError("broken")).recover(burst).to(Sink.collect()).run_blocking()
