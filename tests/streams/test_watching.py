"""watch_termination, monitor and log."""

from __future__ import annotations

import asyncio
import logging

import pytest

from streams import Flow, FlowMonitor, FlowPhase, FlowState, Keep, LogLevels, Sink, Source, Termination
from streams.testkit import TestSink, TestSource, elapse, run_in_virtual_time, settle


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


@pytest.mark.parametrize("end", ["complete", "error", "cancel", "run"])
def test_the_future_of_watch_termination_has_how_the_stream_ended(end: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.watch_termination(combine=Keep.right).to(sink, Keep.left).run()
        ended: asyncio.Future[Termination] = running.value
        sink.request(1)
        await settle()
        assert not ended.done()
        match end:
            case "complete":
                source.probe.send_complete()
                assert await ended is Termination.COMPLETED
            case "error":
                source.probe.send_error(OSError("broken"))
                with pytest.raises(OSError, match="broken"):
                    await ended
            case "cancel":
                sink.cancel()
                assert await ended is Termination.CANCELLED
            case _:
                running.cancel()
                assert await ended is Termination.CANCELLED
        running.abandon()

    run_in_virtual_time(main())


def test_a_failure_need_not_be_taken_from_the_future_as_well_as_from_the_handle() -> None:
    """What the loop reports of exceptions that nobody has retrieved would fail this test."""
    with pytest.raises(OSError, match="broken"):
        Source.failed(OSError("broken")).watch_termination().to(Sink.ignore()).run_blocking()


def test_the_future_of_a_flow_that_was_never_subscribed_to_ends_with_the_run() -> None:
    async def main() -> None:
        futures: list[asyncio.Future[Termination]] = []
        unused = Flow[int, int].identity().watch_termination()

        def attach(publisher, m):  # type: ignore[no-untyped-def]
            futures.append(unused.create_flow(publisher, m)[1])
            return publisher

        assert await Source.of(1).via(Flow(attach)).to(Sink.collect()).run() == [1]
        assert futures[0].done()
        assert futures[0].result() is Termination.CANCELLED

    run_in_virtual_time(main())


def test_a_monitor_is_a_view_of_what_has_passed() -> None:
    async def main() -> None:
        source, sink = TestSource[str](), TestSink[str]()
        running = source.monitor(Keep.right).to(sink, Keep.left).run()
        monitor: FlowMonitor[str] = running.value
        assert monitor.state == FlowState(FlowPhase.INITIALIZED, 0, None, None, None)
        sink.request(5)
        await elapse(2)
        source.probe.send_next("a")
        first = monitor.state
        await elapse(3)
        source.probe.send_next("b")
        second = monitor.state
        assert (first.phase, first.elements, first.last) == (FlowPhase.RECEIVING, 1, "a")
        assert first.last_at == pytest.approx(2)
        assert (second.phase, second.elements, second.last) == (FlowPhase.RECEIVING, 2, "b")
        assert second.last_at == pytest.approx(5)
        assert "receiving, 2 elements" in repr(monitor)
        source.probe.send_complete()
        assert (monitor.state.phase, monitor.state.elements) == (FlowPhase.COMPLETED, 2)

    run_in_virtual_time(main())


@pytest.mark.parametrize("end", ["error", "cancel", "run", "bad request"])
def test_a_monitor_knows_how_the_stream_ended(end: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](), TestSink[int]()
        running = source.monitor(Keep.right).to(sink, Keep.left).run()
        monitor: FlowMonitor[int] = running.value
        sink.request(1)
        failure = OSError("broken")
        match end:
            case "error":
                source.probe.send_error(failure)
                assert (monitor.state.phase, monitor.state.failure) == (FlowPhase.FAILED, failure)
            case "cancel":
                sink.cancel()
                assert (monitor.state.phase, monitor.state.failure) == (FlowPhase.CANCELLED, None)
            case "run":
                running.cancel()
                assert monitor.state.phase is FlowPhase.CANCELLED
            case _:
                sink.request(0)
                assert monitor.state.phase is FlowPhase.FAILED
        running.abandon()

    run_in_virtual_time(main())


def test_what_is_materialized_before_a_monitor_is_kept_unless_told_otherwise() -> None:
    async def main() -> None:
        graph = Source.queue(1).monitor(Keep.both).to(Sink.ignore(), Keep.left)
        running = graph.run()
        queue, monitor = running.value
        assert isinstance(monitor, FlowMonitor)
        queue.complete()
        await running
        assert monitor.state.phase is FlowPhase.COMPLETED

    run_in_virtual_time(main())


def entries(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, str]]:
    return [(record.name, record.levelno, record.getMessage()) for record in caplog.records if record.name != "asyncio"]


def test_log_writes_elements_and_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        assert Source.of(1, 2).log("numbers", lambda n: n * 10).to(Sink.collect()).run_blocking() == [1, 2]
    assert entries(caplog) == [
        ("streams", logging.DEBUG, "[numbers] element: 10"),
        ("streams", logging.DEBUG, "[numbers] element: 20"),
        ("streams", logging.DEBUG, "[numbers] completed"),
    ]


def test_log_writes_a_failure_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), pytest.raises(ZeroDivisionError):
        Source.of(1, 0).map(lambda n: 1 // n).log("shares").to(Sink.ignore()).run_blocking()
    assert [entry[:2] for entry in entries(caplog)] == [("streams", logging.ERROR)]
    [record] = [record for record in caplog.records if record.name == "streams"]
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


def test_log_writes_that_downstream_had_enough(caplog: pytest.LogCaptureFixture) -> None:
    levels = LogLevels(element=None, finish=logging.INFO)
    with caplog.at_level(logging.DEBUG):
        graph = Source.repeat(1).log("ones", levels=levels, logger=logging.getLogger("mine")).to(Sink.head())
        assert graph.run_blocking() == 1
    assert entries(caplog) == [("mine", logging.INFO, "[ones] cancelled by downstream")]


def test_what_the_log_does_not_want_is_not_extracted(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []
    with caplog.at_level(logging.INFO):
        Source.of(1).log("quiet", calls.append).to(Sink.ignore()).run_blocking()
    assert calls == []
    assert entries(caplog) == []


def test_an_extract_that_raises_fails_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    def burst(_n: int) -> str:
        raise OSError("burst")

    with caplog.at_level(logging.DEBUG), pytest.raises(OSError, match="burst") as caught:
        Source.of(1).log("numbers", burst).to(Sink.ignore()).run_blocking()
    assert any("log(" in note and "burst" in note for note in caught.value.__notes__)
