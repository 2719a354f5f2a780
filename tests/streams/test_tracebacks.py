"""What ordinary code sees of a stream that fails or is cancelled: the exception as it was raised, with the stage's and stream's name."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from streams import RestartSettings, RestartSource, Sink, Source
from streams.testkit import TestSource, elapse, run_in_virtual_time, settle


class ConfigError(Exception):
    pass


def parse(n: int) -> int:
    try:
        return int(f"x{n}")
    except ValueError as error:
        raise ConfigError("no number") from error


async def fetch(n: int) -> int:
    await elapse(1)
    return parse(n)


async def fetch_in_thread(n: int) -> int:
    return await asyncio.to_thread(parse, n)


async def each(source: Source[Any]) -> None:
    async for _ in source:
        pass


async def to_a_sink(source: Source[Any]) -> None:
    await source.run_with(Sink.ignore())


STAGES: dict[str, tuple[Callable[[Source[int]], Source[Any]], str]] = {
    "map": (lambda source: source.map(parse), "map(parse)"),
    "filter": (lambda source: source.map(abs).filter(parse).map(abs), "filter(parse)"),
    "map_concat": (lambda source: source.map_concat(lambda n: [parse(n)]), "map_concat("),
    "scan": (lambda source: source.scan(0, lambda _, n: parse(n)), "scan("),
    "map_async": (lambda source: source.map_async(2, fetch), "map_async(fetch)"),
    "map_async, without waiting": (lambda source: source.map_async(2, parse), "map_async(parse)"),  # type: ignore[arg-type]  # raises first
    "map_async_unordered": (lambda source: source.map_async_unordered(2, fetch), "map_async_unordered(fetch)"),
    "map_async to a thread": (lambda source: source.map_async(2, fetch_in_thread), "map_async(fetch_in_thread)"),
    "map_blocking": (lambda source: source.map_blocking(2, parse), "map_blocking(parse)"),
    "after a buffer": (lambda source: source.buffer(2).map(parse).buffer(2), "map(parse)"),
    "of a restarted source": (
        lambda source: RestartSource.with_backoff(
            RestartSettings(1, 1, 0, max_restarts=1, max_restarts_within=60), lambda: source.map_async(1, fetch)
        ),
        "map_async(fetch)",
    ),
}


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("way", [each, to_a_sink])
def test_a_failure_arrives_as_raised_with_its_cause_and_its_place(name: str, way: Any) -> None:
    stage, place = STAGES[name]

    async def main() -> None:
        with pytest.raises(ConfigError) as caught:
            await way(stage(Source.of(7, 8, 9)))
        error = caught.value
        assert isinstance(error.__cause__, ValueError)
        assert [frame.name for frame in traceback.extract_tb(error.__traceback__)].count("parse") == 1
        assert [frame.name for frame in traceback.extract_tb(error.__cause__.__traceback__)] == ["parse"]
        notes = error.__notes__
        assert notes[0].startswith(f"in the stage {place}")
        assert notes[-1].startswith("in the stream ")
        text = "".join(traceback.format_exception(error))
        assert 'int(f"x{n}")' in text
        assert "direct cause" in text
        assert f"in the stage {place}" in text

    threads = "thread" in name or "blocking" in name
    asyncio.run(main()) if threads else run_in_virtual_time(main())


@pytest.mark.parametrize("kind", [Sink.foreach, lambda f: Sink.fold(0, lambda _, n: f(n))])
def test_a_sinks_failure_names_the_sink(kind: Any) -> None:
    async def main() -> None:
        with pytest.raises(ConfigError) as caught:
            await Source.of(1).run_with(kind(parse))
        assert caught.value.__notes__[0].startswith("in the sink fo")
        assert "parse" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]

    run_in_virtual_time(main())


def test_one_failure_gets_one_note_of_its_stage_however_many_stages_are_below() -> None:
    async def main() -> None:
        source = Source.of(1).map(parse).map(abs).buffer(3).map_async(1, fetch).grouped(2).recover(lambda _: None)
        with pytest.raises(ConfigError) as caught:
            await source.run_with(Sink.ignore())
        assert len(caught.value.__notes__) == 2

    run_in_virtual_time(main())


@pytest.mark.parametrize("work", ["map_async", "restart", "timer", "recover_with", "nested"])
def test_cancelling_whoever_waits_cancels_the_source_and_leaves_nothing(work: str) -> None:
    async def stay(_n: int) -> int:
        await asyncio.Event().wait()
        return 1

    async def main() -> None:
        source = TestSource[int]()
        stages: dict[str, Callable[[], Source[Any]]] = {
            "map_async": lambda: source.map_async(2, stay),
            "restart": lambda: RestartSource.with_backoff(RestartSettings(1, 1), lambda: source),
            "timer": lambda: source.grouped_within(10, 100),
            "recover_with": lambda: Source.failed(OSError()).recover_with(1, lambda _: source),
            "nested": lambda: Source.of(1).flat_map_concat(lambda _: source),
        }

        async def wait() -> None:
            await stages[work]().run_with(Sink.ignore())

        task = asyncio.create_task(wait())
        await source.probe.expect_request()
        source.probe.send_next(1)
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert source.probe.cancelled
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert [timer for timer in asyncio.get_running_loop()._scheduled if not timer.cancelled()] == []  # type: ignore[attr-defined]

    run_in_virtual_time(main())


def test_a_script_gets_the_result_or_the_whole_story() -> None:
    program = """
from streams import Sink, Source

def parse(line):
    return int(line)

print(Source.of("1", "2").map(parse).to(Sink.fold(0, int.__add__)).run_blocking())
print(Source.of("1", "2").map_blocking(2, parse).to(Sink.collect()).run_blocking())
Source.of("1", "two").map(parse).to(Sink.ignore()).run_blocking()
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout == "3\n[1, 2]\n"
    assert ended.returncode == 1
    assert ended.stderr.rstrip().splitlines()[-3:] == [
        "ValueError: invalid literal for int() with base 10: 'two'",
        "in the stage map(parse)",
        "in the stream iterable -> map -> ignore",
    ]
    assert "in parse" in ended.stderr


def test_run_blocking_within_a_loop_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match=r"await graph\.run"):
            Source.of(1).to(Sink.ignore()).run_blocking()

    run_in_virtual_time(main())
