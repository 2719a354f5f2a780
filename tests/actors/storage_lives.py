"""Lives of a storage over a simulated disk, with records of several queues."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.events import (
    Event,
    MessagesAdded,
)
from actors.queue.vocabulary.stages import StageKey
from actors.storage import Storage
from actors.storage.snapshot import COUNTERS
from journal import JournalOptions, ManualCommitter
from streams.testkit import run_in_virtual_time
from tests.actors.driven import Deliver, QueueState
from tests.fault.disk import ROOT, SimulatedDisk

LARGE = 10**9

DATA = ROOT / "data"

NAMES = ("a", "b", "c")

KEY = StageKey("w", 3, "s")


class Life:
    """One process over a disk: a storage and its three queues."""

    def __init__(self, disk: Any = None, **options: Any) -> None:
        self.disk = SimulatedDisk() if disk is None else disk
        self.committer = ManualCommitter()
        self.storage = Storage.open(DATA, JournalOptions(**options), files=self.disk, committer=self.committer)
        self.failures: list[StorageError] = []
        self.storage.start(self.failures.append)
        if not self.storage._contents.next_queue:
            for name in NAMES:
                self.storage.declare(name, None)
        self.logs: dict[int, QueueLog] = {queue.number: queue.log for queue in self.storage.queues}

    def run(self) -> None:
        self.committer.run()
        self.storage._advance()
        assert not self.failures

    def checkpoint(self) -> None:
        self.storage._gathered.write()
        self.storage._checkpoints.make()
        self.storage._checkpoints._advance(whole=True)
        self.run()

    def killed(self, **options: Any) -> Life:
        self.storage._journal.abandon()
        return Life(self.disk.restart(), **options)

    def closed(self) -> Life:
        self.storage.close()
        return Life(self.disk.restart())

    def added(self, number: int, *payloads: bytes, **facts: Any) -> MessagesAdded:
        batch = MessageBatch.from_payloads(payloads)
        return MessagesAdded(self.logs[number].next_sequence, batch, 1_000_000, **facts)

    def record(self, number: int, event: Event) -> int:
        lsn = self.storage.record(number, event)
        self.logs[number].apply(event, lsn)
        return lsn

    def held(self, number: int) -> list[bytes]:
        """The payloads of a queue that nobody has acknowledged."""
        log = self.logs[number]
        queue = QueueState(str(number), number, log=log)
        queue.attach_receiver("r")
        queue.receive("r", LARGE, LARGE, 0.0)
        found = [bytes(p) for e in queue.take_effects() if isinstance(e, Deliver) for p in e.batch.payloads]
        queue.reset(0.0)
        return found


def facts(log: QueueLog) -> dict[str, Any]:
    names = ("acknowledged", "producers", "ledgers", "returns", "delayed", "stages", "total_discarded")
    return {name: getattr(log, name) for name in (*COUNTERS, *names)}


def in_loop(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test on a loop, which a storage tells what is durable."""

    @wraps(test)
    def run(*arguments: Any, **fixtures: Any) -> None:
        async def main() -> None:
            test(*arguments, **fixtures)

        run_in_virtual_time(main())

    return run
