"""How long one turn of a broker's loop takes at worst, where it has the most to do: ``python -m tests.fault.turns purge --ranges 1000000``.

What is measured is the processor time of the loop's thread from one wait for events to the next, so that it is the broker's work and
not that of whatever else the machine does; the longest turn is printed, and how many took how long.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import selectors
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from actors.batch import MessageBatch
from actors.loop_registry import LoopActorRegistry
from actors.messages import PurgeQueue
from actors.queue_directory import QueueDirectory
from actors.queue_state import QueueSettings
from actors.queue_state.events import MessagesAcknowledged, MessagesAdded
from actors.storage import Storage

BATCH = 1000
"""Messages of one batch of a backlog."""
LIMIT = 0.020
"""Seconds that no turn may take."""
STEPS_MS = (1, 2, 5, 10, 20, 50, 100)


class TimedSelector(selectors.DefaultSelector):
    """Notes the processor time from one wait to the next.

    Attributes:
        turns: seconds of each turn that did something.
    """

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[float] = []
        self._since = time.thread_time()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See ``selectors``."""
        self.turns.append(time.thread_time() - self._since)
        try:
            return super().select(timeout)
        finally:
            self._since = time.thread_time()


def timed(scenario: Callable[[TimedSelector], Coroutine[Any, Any, None]]) -> list[float]:
    """Run a scenario on a loop of its own; returns its turns since it cleared them last."""
    selector = TimedSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(scenario(selector))
    return selector.turns


def report(turns: list[float], seconds: float) -> bool:
    """Print what was seen; returns whether no turn was too long."""
    counts = Counter(next((step for step in STEPS_MS if turn * 1000 <= step), 1000) for turn in turns)
    spread = ", ".join(f"{counts[step]} up to {step} ms" for step in (*STEPS_MS, 1000) if counts[step])
    print(f"{len(turns)} turns in {seconds:.1f} s, the longest {max(turns) * 1000:.1f} ms: {spread}")
    return max(turns) <= LIMIT


async def purge(selector: TimedSelector, directory: Path, ranges: int) -> None:
    """A queue of which every other message was acknowledged is purged: so many single messages."""
    storage = Storage.open(directory)
    storage.start(_fail)
    stored = storage.declare("q", None)
    body = MessageBatch.from_payloads([b"x" * 16] * BATCH)
    for first in range(0, 2 * ranges, BATCH):
        added = MessagesAdded(first, body, 1, ())
        stored.log.apply(added, storage.record(stored.number, added))
        taken = MessagesAcknowledged(tuple((n, n + 1) for n in range(first, first + BATCH, 2)))
        storage.record(stored.number, taken)
        stored.log.apply(taken)
    queues = QueueDirectory(QueueSettings(), time.time, storage=storage)
    queue = queues.get("q")
    await storage.synced()
    gc.collect()
    gc.freeze()
    selector.turns.clear()
    purged = await queue.ask(PurgeQueue(), block=False)
    await asyncio.sleep(0)
    turns = selector.turns.copy()
    assert purged == ranges, f"{purged} of {ranges} messages were purged"
    await LoopActorRegistry.shutdown()
    storage.close()
    selector.turns[:] = turns


def _fail(error: Exception) -> None:
    raise error


def main(arguments: list[str] | None = None) -> int:
    """Run one scenario; 0 when no turn was too long."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.turns", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    purging = verbs.add_parser("purge", help="purge single messages")
    purging.add_argument("--ranges", type=int, default=100_000, help="how many (default 100000)")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        start = time.monotonic()
        turns = timed(lambda selector: purge(selector, Path(directory) / "data", chosen.ranges))
        return 0 if report(turns, time.monotonic() - start) else 1


if __name__ == "__main__":
    sys.exit(main())
