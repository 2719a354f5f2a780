"""How long one turn of a broker's loop takes at worst, where it has the most to do.

``python -m tests.fault.turns purge --ranges 1000000`` purges a million single messages, and ``python -m tests.fault.turns queues
--queues 10000 --seconds 60`` sends to, receives from and acknowledges in ten thousand queues while checkpoints are made. ``alter
--spans 100000`` alters ``max_receives`` of a queue that got so many single messages back: to one, and all leave; and to none, and what
still waits to leave is ready again.

What is measured is the processor time of the loop's thread from one wait for events to the next, so that it is the broker's work and
not that of whatever else the machine does. Python's garbage collector is measured apart: a collection of everything comes
whenever it wants, and takes the longer the more objects there are. The longest turn is printed, and how many took how long.
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
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from actors.batch import MessageBatch
from actors.queue.queue_directory import QueueDirectory
from actors.queue.vocabulary.commands import (
    Acknowledged,
    AlterQueue,
    AttachReceiver,
    AttachSender,
    DemandSignalled,
    GetStatistics,
    OfferBatch,
    PurgeQueue,
    RequestCapacity,
)
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesAdded, MessagesReturned
from actors.queue.vocabulary.settings import QueueSettings
from actors.runtime.loop_actor import LoopActor
from actors.runtime.loop_registry import LoopActorRegistry
from actors.storage import Storage, storage_options
from transport.broker.memory import collect_rarely

BATCH = 1000
"""Messages of one batch of a backlog."""
LIMIT = 0.020
"""Seconds that no turn may take."""
QUEUES_A_TURN = 20
"""Queues that are sent to in one turn."""
STEPS_MS = (1, 2, 5, 10, 20, 50, 100)


class Turns(NamedTuple):
    """Seconds of each turn, and of each collection of garbage, which are not in them; and of each slice of a checkpoint."""

    seconds: list[float]
    collections: list[float]
    slices: list[float]


class TimedSelector(selectors.DefaultSelector):
    """Notes the processor time from one wait to the next.

    Attributes:
        turns: seconds of each turn, without the collector's.
        collections: seconds of each collection.
        slices: seconds of each slice of a checkpoint.
    """

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[float] = []
        self.collections: list[float] = []
        self.slices: list[float] = []
        self._collected = 0.0
        self._began = 0.0
        gc.callbacks.append(self._collecting)
        self._since = time.thread_time()

    def _collecting(self, phase: str, _facts: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.thread_time()
        else:
            self.collections.append(time.thread_time() - self._began)
            self._collected += self.collections[-1]

    def close(self) -> None:
        """See ``selectors``."""
        gc.callbacks.remove(self._collecting)
        super().close()

    def measured(self) -> Turns:
        """What there was until now."""
        return Turns(self.turns.copy(), self.collections.copy(), self.slices.copy())

    def watch(self, storage: Storage) -> None:
        """Measure the slices of its checkpoints."""
        checkpoints: Any = storage._checkpoints
        advance = checkpoints._advance

        def timed_advance(**options: Any) -> None:
            before, collected = time.thread_time(), self._collected
            advance(**options)
            self.slices.append(time.thread_time() - before - (self._collected - collected))

        checkpoints._advance = timed_advance

    def begin(self) -> None:
        """Forget what there was: what comes counts. Garbage is looked for as in a broker."""
        collect_rarely()
        self.turns.clear()
        self.collections.clear()
        self.slices.clear()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See ``selectors``."""
        self.turns.append(time.thread_time() - self._since - self._collected)
        self._collected = 0.0
        try:
            return super().select(timeout)
        finally:
            self._since = time.thread_time()


def timed(scenario: Callable[[TimedSelector], Coroutine[Any, Any, Turns]]) -> Turns:
    """Run a scenario on a loop of its own; returns what it measured. Garbage is looked for as before behind it."""
    selector, before = TimedSelector(), gc.get_threshold()
    try:
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
            return runner.run(scenario(selector))
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def report(turns: Turns, seconds: float) -> bool:
    """Print what was seen; returns whether no turn was too long.

    Where a group commit confirms something for thousands of queues at once, each of them acts in the turn behind it: that is the load. So
    with many queues the slices of the checkpoints are what is judged.
    """
    counts = Counter(next((step for step in STEPS_MS if turn * 1000 <= step), 1000) for turn in turns.seconds)
    spread = ", ".join(f"{counts[step]} up to {step} ms" for step in (*STEPS_MS, 1000) if counts[step])
    longest = max(turns.seconds)
    print(f"{len(turns.seconds)} turns in {seconds:.1f} s, the longest {longest * 1000:.1f} ms: {spread}")
    if turns.collections:
        print(f"{len(turns.collections)} garbage collections, the longest {max(turns.collections) * 1000:.1f} ms")
    if turns.slices:
        print(f"{len(turns.slices)} slices of checkpoints, the longest {max(turns.slices) * 1000:.1f} ms")
    return max(turns.slices or turns.seconds) <= LIMIT


async def purge(selector: TimedSelector, directory: Path, ranges: int) -> Turns:
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
    selector.begin()
    purged = await queue.ask(PurgeQueue(), block=False)
    await asyncio.sleep(0)
    turns = selector.measured()
    assert purged == ranges, f"{purged} of {ranges} messages were purged"
    await LoopActorRegistry.shutdown()
    storage.close()
    return turns


async def alter(selector: TimedSelector, directory: Path, spans: int) -> Turns:
    """A queue to which every other message came back once, each by itself, counts failures otherwise: those leave, and come back."""
    counting = QueueSettings(max_receives=2, max_messages=4 * spans)
    storage = Storage.open(directory)
    storage.start(_fail)
    stored = storage.declare("q", counting)
    body = MessageBatch.from_payloads([b"x" * 16] * BATCH)
    for first in range(0, 2 * spans, BATCH):
        added = MessagesAdded(first, body, 1, ())
        stored.log.apply(added, storage.record(stored.number, added))
        returned = MessagesReturned(tuple((n, n + 1, 1) for n in range(first, first + BATCH, 2)))
        storage.record(stored.number, returned)
        stored.log.apply(returned)
    queue = QueueDirectory(QueueSettings(), time.time, storage=storage).get("q")
    await storage.synced()
    selector.begin()
    await queue.ask(AlterQueue(replace(counting, max_receives=1)), block=False)
    facts = await queue.ask(GetStatistics(), block=False)
    while facts.ready != spans:
        facts = await queue.ask(GetStatistics(), block=False)
    await queue.ask(AlterQueue(replace(counting, max_receives=None)), block=False)
    while facts.leaving:
        facts = await queue.ask(GetStatistics(), block=False)
    await asyncio.sleep(0)
    turns = selector.measured()
    assert facts.ready + facts.total_dead_lettered == 2 * spans, f"{facts.ready} of {2 * spans} are ready"
    print(f"{spans} spans left, and {facts.ready - spans} came back")
    await LoopActorRegistry.shutdown()
    storage.close()
    return turns


async def queues(selector: TimedSelector, directory: Path, count: int, seconds: float) -> Turns:
    """So many queues, of which the next in line has a batch sent, received and acknowledged, again and again."""
    # Segments so small that there is always something to give back: a checkpoint is made as often as one may be.
    storage = Storage.open(directory, storage_options(segment_bytes=1 << 20))
    storage.start(_fail)
    selector.watch(storage)
    directory_of_queues = QueueDirectory(QueueSettings(), time.time, max_queues=count, storage=storage)
    refs = [directory_of_queues.get_or_create(f"queue {number}") for number in range(count)]
    await storage.synced()
    client = Client.start()
    for ref in refs:
        ref.tell(AttachSender(connection=client))
        ref.tell(AttachReceiver(client))
        ref.tell(RequestCapacity(10**6, 10**9, client))
        ref.tell(DemandSignalled(10**6, 10**9, client))
        await asyncio.sleep(0)
    body = MessageBatch.from_payloads([b"x" * 64] * 4)
    sent = [0] * count
    selector.begin()
    made = storage.statistics()["checkpoints"]
    until = time.monotonic() + seconds
    at = 0
    while time.monotonic() < until:
        for _ in range(QUEUES_A_TURN):
            ref = refs[at]
            ref.tell(OfferBatch(sent[at], body, connection=client))
            # What was delivered the last time round.
            if sent[at]:
                ref.tell(Acknowledged(((sent[at] - len(body), len(body)),), client))
            sent[at] += len(body)
            at = (at + 1) % count
        await asyncio.sleep(0)
        if at % (20 * QUEUES_A_TURN) == 0:
            await storage.synced()
    turns = selector.measured()
    print(f"{sum(sent)} messages in {count} queues, {storage.statistics()['checkpoints'] - made} checkpoints")
    await LoopActorRegistry.shutdown()
    storage.close()
    return turns


class Client(LoopActor):
    """Takes what it is told."""

    max_inbox = 10**6

    def on_receive(self, message: Any) -> None:
        """See ``LoopActor``."""


def _fail(error: Exception) -> None:
    raise error


def main(arguments: list[str] | None = None) -> int:
    """Run one scenario; 0 when no turn was too long."""
    parser = argparse.ArgumentParser(prog="python -m tests.fault.turns", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    purging = verbs.add_parser("purge", help="purge single messages")
    purging.add_argument("--ranges", type=int, default=100_000, help="how many (default 100000)")
    altering = verbs.add_parser("alter", help="alter a queue that got single messages back")
    altering.add_argument("--spans", type=int, default=100_000, help="how many (default 100000)")
    busy = verbs.add_parser("queues", help="use many queues")
    busy.add_argument("--queues", type=int, default=10_000, help="how many (default 10000)")
    busy.add_argument("--seconds", type=float, default=30.0, help="for how long (default 30)")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        start = time.monotonic()
        data = Path(directory) / "data"
        if chosen.verb == "purge":
            turns = timed(lambda selector: purge(selector, data, chosen.ranges))
        elif chosen.verb == "alter":
            turns = timed(lambda selector: alter(selector, data, chosen.spans))
        else:
            turns = timed(lambda selector: queues(selector, data, chosen.queues, chosen.seconds))
        return 0 if report(turns, time.monotonic() - start) else 1


if __name__ == "__main__":
    sys.exit(main())
