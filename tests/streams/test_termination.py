"""recover and watch_termination."""

from __future__ import annotations

import asyncio

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


@pytest.mark.parametrize("end", ["complete", "error", "cancel", "bad request"])
def test_watch_termination_tells_once_how_the_stream_ended(end: str) -> None:
    async def main() -> None:
        told: list[BaseException | None] = []
        source, sink = TestSource[int](), TestSink[int]()
        running = source.watch_termination(told.append).to(sink).run()
        sink.request(1)
        source.probe.send_next(1)
        await sink.expect_next(1)
        failure = OSError("broken")
        if end == "complete":
            source.probe.send_complete()
            await running
            assert told == [None]
        elif end == "error":
            source.probe.send_error(failure)
            with pytest.raises(OSError, match="broken"):
                await running
            assert told == [failure]
        elif end == "cancel":
            sink.cancel()
            await running
            assert [type(error) for error in told] == [asyncio.CancelledError]
        else:
            sink.request(0)
            with pytest.raises(ValueError, match=r"3\.9"):
                await running
            assert [type(error) for error in told] == [ValueError]
        source.probe.send_complete()
        assert len(told) == 1

    run_in_virtual_time(main())


def test_a_watcher_that_fails_is_reported_and_changes_nothing(loop_reports: list[str]) -> None:
    def burst(_error: BaseException | None) -> None:
        raise KeyError("watcher")

    assert Source.of(1).watch_termination(burst).to(Sink.collect()).run_blocking() == [1]
    assert "burst" in loop_reports[0]
