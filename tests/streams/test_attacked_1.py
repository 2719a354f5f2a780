"""What was found by attacking the toolkit: loops that stood still, parts that are none, frames beside broken ones, too few threads."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import math
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest
import reactivex
from reactivex.subject import Subject

from streams import (
    Flow,
    FrameTooLongError,
    Framing,
    FramingError,
    Keep,
    KillSwitches,
    LineTooLongError,
    OverflowStrategy,
    RestartFlow,
    RestartSettings,
    RestartSink,
    RestartSource,
    Sink,
    Source,
    Subscription,
    blocked_loop,
    materialize,
)
from streams.publishers.iterable import EMIT_BUDGET
from streams.stages.framing import LineFraming
from streams.stages.stage import StageFlow
from streams.testkit import elapse, run_in_virtual_time

WAIT = 30.0
"""Seconds within which a thread must get on; only a failing test takes them."""
QUICK = RestartSettings(min_backoff=0.01, max_backoff=0.01, random_factor=0)
ENOUGH = 20 * EMIT_BUDGET
"""Elements after which a stream that feeds itself is known to leave nobody else a turn."""


# The loop's turns


def test_a_queue_that_its_own_stream_offers_to_gives_the_loop_its_turns() -> None:
    async def main() -> int:
        stopped = asyncio.Event()

        def again(n: int) -> None:
            if stopped.is_set() or n == ENOUGH:
                queue.complete()
            else:
                queue.offer(n + 1)

        running = Source.queue(4).to(Sink.foreach(again), Keep.left).run()
        queue = running.value
        asyncio.get_running_loop().call_soon(stopped.set)
        queue.offer(1)
        return await running  # type: ignore[no-any-return]

    assert 0 < run_in_virtual_time(main()) <= 2 * EMIT_BUDGET


def test_a_queue_that_gives_way_loses_nothing_and_keeps_the_order() -> None:
    async def main() -> list[int]:
        seen: list[int] = []

        def again(n: int) -> None:
            seen.append(n)
            if n < ENOUGH:
                assert queue.offer(n + 1)
            else:
                queue.complete()

        running = Source.queue(4).to(Sink.foreach(again), Keep.left).run()
        queue = running.value
        queue.offer(1)
        await running
        return seen

    assert run_in_virtual_time(main()) == list(range(1, ENOUGH + 1))


def test_an_observable_that_its_own_stream_feeds_gives_the_loop_its_turns() -> None:
    async def main() -> int:
        subject: Subject[int] = Subject()

        def again(n: int) -> None:
            if n < ENOUGH:
                subject.on_next(n + 1)

        running = Source.from_observable(subject, 4, OverflowStrategy.FAIL).to(Sink.foreach(again)).run()
        loop = asyncio.get_running_loop()
        # The subject is subscribed to in the turn after the run's start; the end is called for in the turn after the first element.
        loop.call_soon(loop.call_soon, lambda: (loop.call_soon(subject.on_completed), subject.on_next(1)))
        return await running

    assert 0 < run_in_virtual_time(main()) <= 2 * EMIT_BUDGET


# What is no failure, and what is no part


@pytest.mark.parametrize("failure", ["text", None])
def test_a_subject_that_fails_with_what_is_no_exception_fails_the_stream_and_says_so(failure: Any) -> None:
    async def main() -> None:
        subject: Subject[int] = Subject()
        running = Source.from_observable(subject, 4, OverflowStrategy.FAIL).to(Sink.collect()).run()
        loop = asyncio.get_running_loop()
        loop.call_soon(loop.call_soon, subject.on_error, failure)
        with pytest.raises(TypeError, match=rf"failed with {failure!r}, which is no exception"):
            await running

    run_in_virtual_time(main())


def test_a_coroutine_that_is_given_to_a_second_run_stays_with_the_first() -> None:
    async def main() -> None:
        gate: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def work() -> int:
            return await gate

        source = Source.future(work())
        first = source.run_with(Sink.head())
        await elapse(1)
        second, third = source.run_with(Sink.head()), source.run_with(Sink.head())
        third.cancel()
        with pytest.raises(RuntimeError, match="which is for one run"):
            await second
        with pytest.raises(asyncio.CancelledError):
            await third
        gate.set_result(7)
        assert await first == 7

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("kind", "graph"),
    [
        ("source", lambda make: RestartSource.with_backoff(QUICK, make).to(Sink.ignore())),
        ("flow", lambda make: Source.range(3).via(RestartFlow.with_backoff(QUICK, make)).to(Sink.ignore())),
        ("sink", lambda make: Source.range(3).to(RestartSink.with_backoff(QUICK, make))),
    ],
)
def test_what_is_restarted_fails_at_once_where_its_function_returns_something_else(kind: str, graph: Any) -> None:
    calls: list[int] = []

    def make() -> Any:
        calls.append(1)
        return [1, 2]

    async def main() -> None:
        with pytest.raises(TypeError, match=f"restart_{kind}: the function must return a {kind}, not list"):
            await graph(make).run()

    run_in_virtual_time(main())
    assert len(calls) == 1


def test_a_source_that_fails_because_what_it_waited_for_was_cancelled_is_restarted() -> None:
    lives: list[int] = []

    async def life() -> AsyncIterator[int]:
        lives.append(1)
        yield len(lives)
        if len(lives) < 3:
            raise asyncio.CancelledError

    async def main() -> list[int]:
        source = RestartSource.on_failures_with_backoff(QUICK, lambda: Source.from_async_iterable(life))
        return await source.run_with(Sink.collect())

    assert run_in_virtual_time(main()) == [1, 2, 3]


def _levels(error: BaseException) -> int:
    return len(traceback.extract_tb(error.__traceback__))


def test_a_failure_that_is_asked_for_again_and_again_does_not_grow() -> None:
    async def main() -> None:
        running = Source.failed(ValueError("pulled")).run_with(Sink.queue(), Keep.right)
        queue = Source.queue(1).run_with(Sink.ignore(), Keep.left)
        queue.value.fail(ValueError("offered"))
        for ask in (running.value.pull, queue.value.watch_completion):
            levels: set[int] = set()
            for _ in range(10):
                with pytest.raises(ValueError, match=r"pulled|offered") as caught:
                    await ask()
                levels.add(_levels(caught.value))
            assert len(levels) == 1
        for each in (running, queue):
            with pytest.raises(ValueError, match=r"pulled|offered"):
                await each

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_backoff": math.inf},
        {"min_backoff": math.nan},
        {"random_factor": math.nan},
        {"random_factor": math.inf},
        {"max_restarts_within": math.nan},
    ],
)
def test_restart_settings_refuse_what_no_timer_can_be_set_for(wrong: dict[str, float]) -> None:
    settings: dict[str, Any] = {"min_backoff": 0.1, "max_backoff": 1.0, **wrong}
    with pytest.raises(ValueError, match=r"backoff|random_factor|max_restarts_within"):
        RestartSettings(**settings)


def test_take_last_of_more_than_any_deque_can_hold_takes_all() -> None:
    assert Source.range(3).to(Sink.take_last(10 * sys.maxsize)).run_blocking() == [0, 1, 2]


class _Refusing:
    """A subscriber that breaks rule 2.13: it raises at the first element."""

    def on_subscribe(self, subscription: Subscription) -> None:
        subscription.request(10)

    def on_next(self, _element: object) -> None:
        raise OSError("refused")

    def on_error(self, _error: BaseException) -> None:
        pass

    def on_complete(self) -> None:
        pass


def _offered(end: str) -> Source[int]:
    def offer(queue: Any) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(queue.offer, 1)
        loop.call_soon(queue.complete) if end == "completes" else loop.call_soon(queue.fail, ValueError())

    return Source.queue(4).map_materialized(offer)


def _observed(end: str) -> Source[int]:
    return Source.from_observable(
        reactivex.of(1, 2) if end == "completes" else reactivex.throw(ValueError()), 4, OverflowStrategy.FAIL
    )


def _restarted(end: str) -> Source[int]:
    return RestartSource.on_failures_with_backoff(
        dataclasses.replace(QUICK, max_restarts=1),
        lambda: Source.of(1) if end == "completes" else Source.failed(ValueError()),
    )


@pytest.mark.parametrize("end", ["completes", "fails"])
@pytest.mark.parametrize("source", [_offered, _observed, _restarted])
def test_a_subscriber_that_raises_at_what_a_stage_emits_at_the_end_fails_the_run(
    source: Callable[[str], Source[int]], end: str
) -> None:
    async def main() -> None:
        elements: Source[Any] = source(end)
        last = elements.grouped(10) if end == "completes" else elements.drop(10).recover(lambda _: 1)
        with pytest.raises(OSError, match="refused"):
            await last.run_with(Sink.from_subscriber(_Refusing))

    run_in_virtual_time(main())


# Frames


def _received(flow: Any, blocks: Iterable[bytes], failure: type[Exception]) -> list[bytes]:
    frames: list[bytes] = []
    with pytest.raises(failure):
        Source.from_iterable(list(blocks)).via(flow).to(Sink.foreach(frames.append)).run_blocking()
    return frames


def _lines() -> StageFlow[bytes, bytes]:
    return StageFlow(lambda downstream, m: LineFraming(downstream, m, 3), "lines")


@pytest.mark.parametrize(
    ("flow", "data", "frames", "failure"),
    [
        (Framing.delimiter(b"|", 3), b"a|bc|long|d|", [b"a", b"bc"], FrameTooLongError),
        (Framing.delimiter(b"|", 3), b"a|bc|long", [b"a", b"bc"], FrameTooLongError),
        (Framing.delimiter(b"\r\n", 3), b"a\r\nbc\r\nlong\r\nd\r\n", [b"a", b"bc"], FrameTooLongError),
        (Framing.delimiter(b"\r\n", 3), b"a\r\nbc\r\nlonger", [b"a", b"bc"], FrameTooLongError),
        (_lines(), b"a\nbc\nlong\nd\n", [b"a", b"bc"], LineTooLongError),
        (Framing.length_field(1, max_frame_bytes=3), b"\1a\2bc\xffd", [b"\1a", b"\2bc"], FrameTooLongError),
        (
            Framing.length_field(1, max_frame_bytes=3, compute_frame_size=lambda _before, value: value),
            b"\2a\3bc\0\2d",
            [b"\2a", b"\3bc"],
            FramingError,
        ),
        (
            Framing.length_field(1, max_frame_bytes=9, compute_frame_size=lambda _before, value: 4 // value),
            b"\2a\2b\0",
            [b"\2a", b"\2b"],
            ZeroDivisionError,
        ),
    ],
)
def test_frames_before_one_that_cannot_be_read_arrive_however_the_bytes_are_cut(
    flow: Any, data: bytes, frames: list[bytes], failure: type[Exception]
) -> None:
    assert _received(flow, [data], failure) == frames
    assert _received(flow, (bytes([byte]) for byte in data), failure) == frames


def test_what_cannot_delimit_or_count_is_refused_when_the_flow_is_made() -> None:
    with pytest.raises(TypeError, match="delimiter must be bytes, not str"):
        Framing.delimiter("|", 3)  # type: ignore[arg-type]  # what is tested
    for flow in (Framing.length_field, Framing.encode_length_field):
        with pytest.raises(ValueError, match="field_length must be 1 to 8 bytes, not 9"):
            flow(9, max_frame_bytes=100)


# Tasks and threads


@pytest.mark.parametrize("operator", ["map_async", "map_async_unordered"])
def test_a_function_that_has_ended_its_own_stage_is_interrupted_where_it_then_waits(operator: str) -> None:
    async def main() -> None:
        switch = KillSwitches.shared("switch")
        interrupted: list[bool] = []
        released: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def f(element: int) -> int:
            switch.shutdown()
            try:
                await asyncio.Event().wait()
            finally:
                interrupted.append(released.done())
            return element

        source: Source[int] = Source.never().prepend(Source.of(1))
        stage = getattr(source, operator)(2, f).via(switch.flow)
        running = stage.concat(Source.future(released)).run_with(Sink.collect())
        asyncio.get_running_loop().call_later(1, released.set_result, 5)
        assert await running == [5]
        assert interrupted == [False]

    run_in_virtual_time(main())


@pytest.fixture
def few_threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many threads of map_blocking the system still gives."""
    left = [0]
    start = threading.Thread.start

    def start_if_any_left(thread: threading.Thread) -> None:
        if thread.name.startswith("map_blocking"):
            if not left[0]:
                raise RuntimeError("can't start new thread")
            left[0] -= 1
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_if_any_left)
    return left


def test_map_blocking_makes_do_with_the_threads_that_it_gets(few_threads: list[int]) -> None:
    few_threads[0] = 1
    names: set[str] = set()

    def f(element: int) -> int:
        names.add(threading.current_thread().name)
        return element

    assert Source.range(20).map_blocking(4, f).to(Sink.collect()).run_blocking() == list(range(20))
    assert len(names) == 1


def test_map_blocking_that_gets_no_thread_fails_and_has_none_to_wait_for(
    few_threads: list[int], monkeypatch: pytest.MonkeyPatch, loop_reports: list[str]
) -> None:
    monkeypatch.setattr(materialize, "STOP_TIMEOUT", 0.05)  # so that a thread that is waited for in vain is told of
    assert few_threads == [0]
    with pytest.raises(RuntimeError, match="can't start new thread") as caught:
        Source.range(20).map_blocking(4, str).to(Sink.collect()).run_blocking()
    assert "in the stage map_blocking(str)" in caught.value.__notes__
    assert loop_reports == []


def test_a_file_that_is_stuck_in_a_write_is_named_when_its_run_ends_without_it(
    monkeypatch: pytest.MonkeyPatch, loop_reports: list[str]
) -> None:
    monkeypatch.setattr(materialize, "STOP_TIMEOUT", 0.05)
    writing, released = threading.Event(), threading.Event()

    class Stuck:
        def write(self, block: bytes) -> int:
            writing.set()
            released.wait(WAIT)
            return len(block)

        def flush(self) -> None:
            pass

    async def main() -> None:
        stuck: Any = Stuck()
        running = Source.never().prepend(Source.of(b"x")).run_with(Sink.file(stuck))
        assert await asyncio.to_thread(writing.wait, WAIT)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    try:
        asyncio.run(main())
    finally:
        released.set()
    assert any("thread of Sink.file" in report for report in loop_reports)


def test_the_watch_over_the_loop_asks_objects_of_the_users_nothing(loop_reports: list[str]) -> None:
    asked: list[str] = []
    told = threading.Event()

    class Reported(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            told.set()

    class Users:
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            raise AttributeError(name)

        def f(self, element: int) -> int:
            assert told.wait(WAIT), "the watch has not reported"
            return element

    async def main() -> list[int]:
        asyncio.get_running_loop().slow_callback_duration = 0.02
        f: Callable[[int], int] = Users().f
        flow: Flow[int, int] = Flow.identity().map(f)
        return await Source.of(1).via(flow).run_with(Sink.collect())

    handler = Reported(logging.WARNING)
    blocked_loop.logger.addHandler(handler)
    try:
        assert asyncio.run(main(), debug=True) == [1]
    finally:
        blocked_loop.logger.removeHandler(handler)
    assert "on_next" not in asked
    assert all("took" in report for report in loop_reports)  # asyncio's own word about the same
