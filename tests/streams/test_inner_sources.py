"""What sources within a stream register in the run goes with them: a run that opens any number of them holds a few."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reactivex import create
from reactivex.disposable import Disposable

from streams import Flow, Keep, KillSwitches, Materialization, OverflowStrategy, Publisher, Sink, Source
from streams.testkit import run_in_virtual_time

INNER = 10_000
LOOK_EVERY = 1_000


class Hooks:
    """Counts what the inner sources of a run have registered and what has become of it."""

    def __init__(self) -> None:
        self.open = 0
        self.most = 0
        self.held = 0

    def source(self, number: int) -> Source[int]:
        def create(m: Materialization) -> tuple[Publisher[int], Any]:
            self.open += 1
            self.most = max(self.most, self.open)
            m.on_cancel(lambda: None)
            m.on_end(self.ended)
            return Source.single(number).create(m)

        return Source(create)

    def ended(self) -> None:
        self.open -= 1

    def look(self, m: Materialization, number: int) -> int:
        if not number % LOOK_EVERY:
            self.held = max(self.held, len(m._cancel_hooks) + len(m._end_hooks) + len(m._parts) + len(m._endings))
        return number


def looking(hooks: Hooks) -> Flow[int, int]:
    return Flow(lambda publisher, m: Flow.identity().map(lambda n: hooks.look(m, n)).attach_flow(publisher, m))


OPERATORS: dict[str, Callable[[Source[int], Hooks], Any]] = {
    "flat_map_concat": lambda source, hooks: source.flat_map_concat(hooks.source).to(Sink.fold(0, lambda n, _x: n + 1)),
    "flat_map_merge": lambda source, hooks: source.flat_map_merge(4, hooks.source).to(
        Sink.fold(0, lambda n, _x: n + 1)
    ),
    "substreams into a sink": lambda source, hooks: (
        source.split_when(lambda _n: True).flat_map_concat(hooks.source).to(Sink.ignore())
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_ten_thousand_inner_sources_leave_nothing_behind_in_the_run(name: str) -> None:
    hooks = Hooks()

    async def main() -> None:
        count = await OPERATORS[name](Source.range(INNER).via(looking(hooks)), hooks).run()
        assert count >= INNER

    run_in_virtual_time(main())
    assert hooks.most <= 40, "inner sources at a time whose last work has not been done"
    assert hooks.held <= 40, "what the run holds"
    assert hooks.open == 0


ASKED: contextvars.ContextVar[str] = contextvars.ContextVar("asked", default="nobody")


@pytest.mark.parametrize("kind", ["lines", "file", "observable", "file sink", "map_blocking"])
def test_what_comes_from_a_thread_goes_on_in_the_context_of_the_run(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb\nc\n")
    seen: list[str] = []

    def look(_element: object) -> None:
        seen.append(ASKED.get())

    def push(observer: Any, _scheduler: Any = None) -> Any:
        thread = threading.Thread(target=lambda: (observer.on_next(1), observer.on_next(2), observer.on_completed()))
        thread.start()
        thread.join()
        return Disposable()

    def source() -> Source[Any]:
        match kind:
            case "lines":
                return Source.lines(path)
            case "file":
                return Source.file(path, chunk_bytes=2)
            case "observable":
                return Source.from_observable(create(push), 10, OverflowStrategy.FAIL)
            case "map_blocking":
                return Source.range(3).map_blocking(1, abs)
            case _:
                return Source.iterable(lambda: (b"x" for _ in range(3)))

    async def main() -> None:
        ASKED.set("me")
        if kind == "file sink":
            # The sink asks for each block after the first when a thread has written the one before.
            asked = source().map(lambda block: (look(block), block)[1])
            await asked.run_with(Sink.file(tmp_path / "out"))
        else:
            await source().run_with(Sink.foreach(look))

    asyncio.run(main())
    assert len(seen) >= 2
    assert set(seen) == {"me"}


def test_a_kill_switch_used_on_another_thread_ends_the_stream_in_the_context_of_the_run() -> None:
    seen: list[str] = []

    async def main() -> None:
        ASKED.set("me")
        flow = KillSwitches.single()
        watched = Source.never().via(flow, Keep.right).watch_termination(lambda _error: seen.append(ASKED.get()))
        running = watched.run_with(Sink.ignore())
        thread = threading.Thread(target=running.value.shutdown)
        thread.start()
        await running
        thread.join()

    asyncio.run(main())
    assert seen == ["me"]
