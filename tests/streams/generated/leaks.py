"""``python -m tests.streams.generated.leaks``: 10,000 streams, started and cancelled at random moments, leave nothing behind.

Every operator, source and sink takes part, in turn. What is counted afterwards: tasks, timers, threads, open files, runs that are held,
and objects of the streams package that the garbage collector still finds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any, Final

from streams import RunnableGraph, Sink, Source
from streams.running import _supervisors
from streams.testkit import VirtualTimeLoop, run_in_virtual_time
from streams.testkit.virtual_time import pass_time
from tests.streams.catalogue import every
from tests.streams.generated.pacing import finish

STREAMS: Final = 10_000
AT_ONCE: Final = 50
"""Streams that run side by side."""
LONGEST: Final = 20.0
"""Seconds of the loop's time after which the last is cancelled; those with threads get a thousandth of it."""


def graphs(virtual_time: bool) -> list[tuple[str, Callable[[], RunnableGraph[Any]]]]:
    """What is run: each case as an endless stream; those in virtual time, or the others."""
    found: list[tuple[str, Callable[[], RunnableGraph[Any]]]] = []
    found += [
        (case.name, lambda case=case: numbers().via(case.flow()).to(unhurried()))
        for case in every.flows()
        if case.virtual_time == virtual_time
    ]
    found += [
        (case.name, lambda endless=case.endless: endless().to(unhurried()))
        for case in every.sources()
        if case.endless is not None and case.virtual_time == virtual_time
    ]
    found += [
        (case.name, lambda case=case: numbers().to(case.sink()))
        for case in every.sinks()
        if case.virtual_time == virtual_time
    ]
    return found


def numbers() -> Source[int]:
    """Without end, and now and then late, so that time passes."""

    async def late() -> Any:
        for number in count():
            if not number % 5:
                await pause(0.3)
            yield number

    return Source.from_async_iterable(late)


def unhurried() -> Sink[Any, int]:
    """Takes one element at a time and is now and then slow: behind what never waits, no time would pass."""
    taken = count()

    async def look(_element: Any) -> None:
        if not next(taken) % 5:
            await pause(0.3)

    return Sink.foreach_async(1, look)


async def pause(seconds: float) -> None:
    """Virtual seconds, or thousandths of real ones."""
    loop = asyncio.get_running_loop()
    await pass_time(loop, seconds if isinstance(loop, VirtualTimeLoop) else seconds / 1000)


class Remains:
    """What is left after the streams, by kind; compared with what there was before them."""

    def __init__(self) -> None:
        gc.collect()
        gc.collect()
        self.objects = Counter(
            f"{type(found).__module__}.{type(found).__qualname__}"
            for found in gc.get_objects()
            if str(type(found).__module__).split(".", 1)[0]
            in {"streams", "reactivex"}  # some extension types have no text there
        )
        self.threads = {thread.name for thread in threading.enumerate()}
        self.files = len(os.listdir("/proc/self/fd"))

    def since(self, before: Remains) -> list[str]:
        """What there is more of than before."""
        return [
            *(f"{number} x {name}" for name, number in (self.objects - before.objects).items()),
            *(f"thread {name}" for name in self.threads - before.threads),
            *([f"{self.files - before.files} open files"] if self.files > before.files else []),
        ]


async def start_and_cancel(
    makers: list[tuple[str, Callable[[], RunnableGraph[Any]]]], streams: int, seed: int
) -> list[str]:
    """Runs ``streams`` of them and returns what they left on the loop."""
    random = Random(seed)
    loop = asyncio.get_running_loop()

    async def one(number: int) -> None:
        _name, make = makers[number % len(makers)]
        await pause(random.uniform(0, LONGEST / 4))
        running = make().run()
        await pause(random.choice([0, 0, random.uniform(0, 1), random.uniform(0, LONGEST)]))
        running.abandon()
        await finish(running)

    for first in range(0, streams, AT_ONCE):
        await asyncio.gather(*(one(number) for number in range(first, min(first + AT_ONCE, streams))))
    left = [f"task {task.get_name()}" for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    left += [f"timer {timer!r}" for timer in getattr(loop, "_scheduled", []) if not timer.cancelled()]
    left += [f"run {task.get_name()}" for task in _supervisors]
    return left


def leaks(streams: int, seed: int, *, virtual_time: bool) -> list[str]:
    """What ``streams`` streams leave behind, as text; nothing, if all is well."""
    makers = graphs(virtual_time)
    run: Callable[[Any], list[str]] = run_in_virtual_time if virtual_time else asyncio.run
    run(start_and_cancel(makers, len(makers), seed))  # first, for what is made once and kept
    before = Remains()
    left = run(start_and_cancel(makers, streams, seed + 1))
    return left + Remains().since(before)


def main() -> int:
    """Runs what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failed = False
    for virtual_time in (True, False):
        left = leaks(options.streams // 2, options.seed, virtual_time=virtual_time)
        kinds = len(graphs(virtual_time))
        where = "virtual" if virtual_time else "real"
        print(f"{options.streams // 2} streams of {kinds} kinds in {where} time: {left or 'nothing left'}")
        failed |= bool(left) or not kinds
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
