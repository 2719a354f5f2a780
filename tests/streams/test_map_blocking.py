"""map_blocking: calls in threads, in order or as they are done; the loop goes on meanwhile, and no thread is left behind."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from typing import Any

import pytest

from streams import Sink, Source
from streams.testkit import TestSink, TestSource

OPERATORS = ("map_blocking", "map_blocking_unordered")
each_operator = pytest.mark.parametrize("operator", OPERATORS)
WAIT = 30.0
"""Seconds within which a thread must get on; only a failing test takes them."""
variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def stream_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("map_blocking")]


@each_operator
def test_each_call_is_in_a_thread_with_a_name_and_none_is_left_at_the_end(operator: str) -> None:
    names: set[str] = set()

    def f(element: int) -> int:
        names.add(threading.current_thread().name)
        return element + 1

    async def main() -> None:
        results = await getattr(Source.from_iterable(range(200)), operator)(4, f).run_with(Sink.collect())
        assert sorted(results) == list(range(1, 201))
        if operator == "map_blocking":
            assert results == list(range(1, 201))
        assert not stream_threads()

    asyncio.run(main())
    assert 1 <= len(names) <= 4
    assert all(name.startswith(f"{operator}(") and "f)-" in name for name in names)


@each_operator
def test_parallelism_calls_are_under_way_at_once_and_the_loop_is_free(operator: str) -> None:
    together = threading.Barrier(3)

    def f(element: int) -> int:
        together.wait(WAIT)
        return element

    async def main() -> None:
        running = getattr(Source.from_iterable(range(6)), operator)(3, f).run_with(Sink.collect())
        assert sorted(await running) == list(range(6))

    asyncio.run(main())
    assert not together.broken


def test_results_keep_the_order_and_unordered_ones_do_not_wait() -> None:
    release = threading.Event()

    def f(element: int) -> int:
        if element == 0:
            assert release.wait(WAIT)
        return element

    async def main() -> None:
        source, sink = TestSource[int](WAIT), TestSink[int](WAIT)
        source.map_blocking_unordered(2, f).to(sink).run()
        sink.request(2)
        await source.probe.expect_request(2)
        source.probe.send_next(0, 1)
        await sink.expect_next(1)
        release.set()
        await sink.expect_next(0)
        sink.cancel()
        assert await Source.of(0, 1).map_blocking(2, f).run_with(Sink.collect()) == [0, 1]

    asyncio.run(main())


@each_operator
def test_no_more_than_parallelism_elements_are_asked_for_before_results_are_taken(operator: str) -> None:
    async def main() -> None:
        source, sink = TestSource[int](WAIT), TestSink[int](WAIT)
        getattr(source, operator)(2, str).to(sink).run()
        await source.probe.expect_no_request()
        sink.request(1)
        await source.probe.expect_request(2)
        source.probe.send_next(1, 2)
        await sink.expect_n(1)
        await source.probe.expect_request(1)
        await source.probe.expect_no_request()
        source.probe.send_complete()
        sink.request(1)
        await sink.expect_n(1)
        await sink.expect_complete()

    asyncio.run(main())


@each_operator
def test_a_thread_sees_the_context_variables_of_the_stream_and_changes_none(operator: str) -> None:
    def f(element: int) -> str:
        seen = variable.get()
        variable.set("changed in a thread")
        return seen

    async def main() -> None:
        variable.set("of the loop")
        results = await getattr(Source.from_iterable(range(9)), operator)(2, f).run_with(Sink.collect())
        assert set(results) == {"of the loop"}
        assert variable.get() == "of the loop"

    asyncio.run(main())


@each_operator
@pytest.mark.parametrize("error", [KeyError("k"), SystemExit(3), StopIteration(1)])
def test_whatever_a_call_raises_fails_the_stream_with_the_traceback_of_the_thread(
    operator: str, error: BaseException
) -> None:
    def burst(element: int) -> int:
        raise error

    async def main() -> None:
        running = getattr(Source.of(1), operator)(2, burst).run_with(Sink.ignore())
        with pytest.raises(BaseException) as caught:  # noqa: PT011 - the kinds are the test's parameters
            await running
        found = caught.value.__cause__ if isinstance(error, StopIteration) else caught.value
        assert found is error
        assert f"in the stage {operator}(" in "".join(error.__notes__)
        frames = []
        traceback = error.__traceback__
        while traceback is not None:
            frames.append(traceback.tb_frame.f_code.co_name)
            traceback = traceback.tb_next
        assert "burst" in frames
        assert not stream_threads()

    asyncio.run(main())


@each_operator
def test_none_is_refused(operator: str) -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match="returned None"):
            await getattr(Source.of(1), operator)(2, lambda _: None).run_with(Sink.ignore())

    asyncio.run(main())


@each_operator
def test_a_cancelled_run_waits_for_the_call_under_way_and_begins_no_other(operator: str) -> None:
    begun: list[int] = []
    inside, release = threading.Event(), threading.Event()

    def f(element: int) -> int:
        begun.append(element)
        inside.set()
        assert release.wait(WAIT)
        return element

    async def main() -> None:
        loop = asyncio.get_running_loop()
        running = getattr(Source.of(1, 2, 3), operator)(1, f).run_with(Sink.ignore())
        await loop.run_in_executor(None, inside.wait, WAIT)

        async def wait() -> None:
            await running

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not running.done()
        release.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert running.done()
        assert begun == [1]
        assert not stream_threads()

    asyncio.run(main())


def test_a_call_that_never_returns_is_reported_at_the_deadline_and_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.materialize.STOP_TIMEOUT", 0.05)
    inside, release = threading.Event(), threading.Event()

    def stuck(element: int) -> int:
        inside.set()
        release.wait(WAIT)
        return element

    async def main() -> None:
        loop = asyncio.get_running_loop()
        found: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _loop, context: found.append(context))
        running = Source.of(1).map_blocking(1, stuck).run_with(Sink.ignore())
        await loop.run_in_executor(None, inside.wait, WAIT)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert ["stuck" in str(context["exception"]) for context in found] == [True]
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("map_blocking")]
        release.set()
        for thread in threads:
            thread.join(WAIT)

    asyncio.run(main())
    assert not stream_threads()


def test_a_call_that_never_returns_does_not_keep_the_process_from_ending() -> None:
    program = """
import threading
import streams.materialize
from streams import Sink, Source
streams.materialize.STOP_TIMEOUT = 0.05

def stuck(element):
    threading.Event().wait()

def also_stuck(element):
    raise OSError("ends the stream")

try:
    Source.of(1, 2).map_blocking_unordered(2, lambda n: stuck(n) if n == 1 else also_stuck(n)).to(Sink.ignore()).run_blocking()
except OSError as error:
    print("failed:", error)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT, check=False, cwd="."
    )
    assert ended.stdout == "failed: ends the stream\n"
    assert "threads of map_blocking_unordered" in ended.stderr
    assert ended.returncode == 0


@each_operator
def test_parallelism_below_one_is_refused(operator: str) -> None:
    with pytest.raises(ValueError, match="parallelism"):
        getattr(Source.of(1), operator)(0, str)
