"""In debug mode a stage that blocks the loop is named, while it does; elsewhere nobody looks."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streams import Flow, Sink, Source, blocked_loop
from streams.testkit import run_in_virtual_time

WAIT = 30.0
"""Seconds within which the watch must report; only a failing test takes them."""
SLOW = 0.02
"""Seconds that a callback may take in these tests."""
MUCH = 1.0
"""The same in a test in which none takes it."""


class Reported(logging.Handler):
    """Collects the warnings, and releases whoever blocks the loop until there is one.

    On a busy machine a program takes long to begin its run, too, and asyncio's debug mode to note where each callback was made. That is
    told as well, and is not what these tests ask for.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if not any(other in message for other in ("<locals>.main (", "/traceback.py:", "/linecache.py:")):
            self.messages.append(message)
            self.came.set()


@pytest.fixture
def reported() -> Iterator[Reported]:
    handler = Reported()
    blocked_loop.logger.addHandler(handler)
    yield handler
    blocked_loop.logger.removeHandler(handler)


@pytest.fixture
def block(reported: Reported) -> Callable[[Any], Any]:
    def block_the_loop(element: Any) -> Any:
        assert reported.came.wait(WAIT), "the watch has not reported"
        return element

    return block_the_loop


def run(graph: Callable[[], Any], debug: bool = True) -> Any:
    async def main() -> Any:
        asyncio.get_running_loop().slow_callback_duration = SLOW
        return await graph()

    return asyncio.run(main(), debug=debug)


@pytest.mark.parametrize("name", ["map", "filter", "scan", "take_while", "map_concat"])
def test_the_stage_the_function_and_the_line_are_told(
    name: str, reported: Reported, block: Callable[[Any], Any], loop_reports: list[str]
) -> None:
    stages: dict[str, Flow[int, Any]] = {
        "map": Flow[int, int].identity().filter(lambda _: True).map(block).filter(lambda _: True),
        "filter": Flow[int, int].identity().map(abs).filter(block).map(abs),
        "scan": Flow[int, int].identity().scan(0, lambda _, n: block(n)),
        "take_while": Flow[int, int].identity().take_while(block),
        "map_concat": Flow[int, int].identity().map_concat(lambda n: [block(n)]),
    }
    run(lambda: Source.of(1).via(stages[name]).run_with(Sink.ignore()))
    assert len(reported.messages) == 1
    message = reported.messages[0]
    assert f"the stage {name} " in message
    assert "map_blocking" in message
    assert "test_blocked_loop.py:" in message
    assert ("block_the_loop" if name not in {"scan", "map_concat"} else "<lambda>") in message
    assert any("Executing" in report for report in loop_reports)  # asyncio's own, which does not know the stage


def test_a_coroutine_that_blocks_is_found_by_its_task(
    reported: Reported, block: Callable[[Any], Any], loop_reports: list[str]
) -> None:
    async def fetch(element: int) -> int:
        return int(block(element))

    async def fetch_later(element: int) -> int:
        await asyncio.sleep(0)
        return int(block(element))

    run(lambda: Source.of(1).map_async(1, fetch).run_with(Sink.ignore()))
    reported.came.clear()
    run(lambda: Source.of(1).map_async_unordered(1, fetch_later).run_with(Sink.ignore()))
    first, second = reported.messages
    assert "the stage map_async" in first
    assert "fetch" in first
    assert "the stage map_async_unordered" in second
    assert "fetch_later" in second


def test_a_sink_and_a_source_that_block_are_told_of(
    reported: Reported, block: Callable[[Any], Any], loop_reports: list[str]
) -> None:
    def elements() -> Iterator[int]:
        yield block(1)

    run(lambda: Source.of(1).run_with(Sink.foreach(block)))
    reported.came.clear()
    run(lambda: Source.from_iterable(elements).run_with(Sink.ignore()))
    first, second = reported.messages
    assert "the stage foreach" in first
    assert "block_the_loop" in first
    assert "at the beginning of the stream" in second
    assert "elements" in second


def test_a_built_in_that_blocks_is_told_of_by_the_stage(reported: Reported, loop_reports: list[str]) -> None:
    lock = threading.Lock()
    lock.acquire()

    def release(record: logging.LogRecord) -> bool:
        if "the stage map " in record.getMessage():
            lock.release()
        return True

    reported.addFilter(release)
    run(lambda: Source.of(True).map(abs).map(lock.acquire).map(abs).scan(0, max).run_with(Sink.ignore()))
    assert len(reported.messages) == 1
    assert "the stage map " in reported.messages[0]


def test_one_place_is_told_of_once(reported: Reported, loop_reports: list[str]) -> None:
    again = threading.Event()

    def first(element: int) -> int:
        assert reported.came.wait(WAIT)
        return element

    def second(element: int) -> int:
        # The watch has looked at this callback for many times as long as it needs to, or this is the second report.
        assert again.wait(WAIT)
        return element

    def release(_record: logging.LogRecord) -> bool:
        if "second" in _record.getMessage():
            again.set()
        return True

    reported.addFilter(release)
    run(lambda: Source.of(1, 2, 3).map(first).map(second).run_with(Sink.ignore()))
    assert len(reported.messages) == 2
    assert "first" in reported.messages[0]
    assert "second" in reported.messages[1]


def test_a_loop_that_only_waits_is_not_blocked(reported: Reported) -> None:
    async def main() -> None:
        # So long that no callback takes it, however busy the machine is; the ticks together take longer.
        asyncio.get_running_loop().slow_callback_duration = MUCH
        running = Source.tick(MUCH / 4).take(6).map(abs).run_with(Sink.collect())
        assert await running == list(range(6))

    asyncio.run(main(), debug=True)
    assert reported.messages == []


def test_what_blocks_the_loop_beside_the_streams_is_not_told_of(reported: Reported, loop_reports: list[str]) -> None:
    def beside() -> None:
        assert not reported.came.wait(SLOW * 10)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.slow_callback_duration = SLOW
        running = Source.queue(1).map(abs).run_with(Sink.ignore())
        beside()
        running.value.complete()
        await running

    asyncio.run(main(), debug=True)
    assert reported.messages == []


def test_outside_debug_mode_there_is_no_watch_and_in_it_one_until_the_last_run_has_ended() -> None:
    def watches() -> list[threading.Thread]:
        return [thread for thread in threading.enumerate() if thread.name == "stream watch"]

    async def main(debug: bool) -> None:
        loop = asyncio.get_running_loop()
        loop.set_debug(debug)
        loop.slow_callback_duration = WAIT  # a machine that is busy with others holds any callback up
        running = [Source.queue(1).run_with(Sink.ignore()) for _ in range(3)]
        found = watches()
        assert len(found) == int(debug)
        for stream in running:
            stream.value.complete()
            await stream
        assert blocked_loop._watches == {}
        for thread in found:
            thread.join(WAIT)
        assert watches() == []

    # Another test's last watch may have been told to end, and not have ended yet.
    for thread in watches():
        thread.join(WAIT)
    asyncio.run(main(False))
    asyncio.run(main(True))
    assert watches() == []


def test_the_watch_leaves_virtual_time_alone(reported: Reported) -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_debug(True)
        assert await Source.tick(3600).take(3).map(abs).run_with(Sink.collect()) == [0, 1, 2]
        assert asyncio.get_running_loop().time() == 7200

    run_in_virtual_time(main())
    assert reported.messages == []


def test_a_collection_of_garbage_that_starts_a_thread_does_not_stop_the_watch_for_ever() -> None:
    # CPython issue 106883. Every allocation is counted, so that collections fall into the making of the frames of twelve threads.
    program = """
import gc, threading
from streams import blocked_loop

def collected(phase, info):
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()

for _ in range(12):
    threading.Thread(target=lambda: threading.Event().wait(), daemon=True).start()
gc.set_threshold(4)
gc.callbacks.append(collected)
frames = blocked_loop._current_frames()
gc.callbacks.clear()
print(len(frames), gc.isenabled())
gc.disable()
print(len(blocked_loop._current_frames()), gc.isenabled())
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=WAIT, check=True)
    assert ran.stdout.split() == ["13", "True", "13", "False"]
