"""A program that uses a store's map beside its queues, step by step from a seed, through any number of deaths.

What a start finds must be the map after some first part of the changes that were made, and that part must hold every change that was
confirmed. So nothing that was confirmed is lost, what was not is there or not, and the map is never a mix.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, Final, TypeAlias

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesAdded
from actors.storage import Storage
from journal import JournalOptions, ManualCommitter
from journal.files import Files
from streams.testkit import run_in_virtual_time
from tests.fault.disk import ROOT, SimulatedDisk
from tests.fault.faulty_files import FaultyFiles, Panic
from tests.fault.history import HistoryError
from tests.fault.workload import End, Outcome, random_death

DATA: Final = ROOT / "data"
SMALL: Final = JournalOptions(segment_bytes=4096, checkpoint_bytes=8192, checkpoint_records=40, spare_segments=2)
SECTIONS: Final = ("smq", "subscriptions")
KEYS: Final = 6
LARGEST_VALUE: Final = 300

logger = logging.getLogger("penstock.storage")

Change: TypeAlias = tuple[str, str, bytes | None]
Opener: TypeAlias = Callable[..., Storage]


def entries_of(storage: Storage) -> dict[tuple[str, str], bytes]:
    """Every entry of a store's map, by section and key."""
    return {(name, key): value for name in SECTIONS for key, value in storage.section(name).items()}


def fold(changes: list[Change]) -> dict[tuple[str, str], bytes]:
    """The map after these changes."""
    entries: dict[tuple[str, str], bytes] = {}
    for section, key, value in changes:
        if value is None:
            entries.pop((section, key), None)
        else:
            entries[section, key] = value
    return entries


class MapProgram:
    """The program: its random generator and what it was told live through the deaths of its processes.

    Attributes:
        changes: of the map, in order, that are not known to be lost.
        confirmed: how many of the first of them were confirmed.
        lost: how many that nobody was told were durable were not found again.
    """

    def __init__(self, seed: int, opener: Opener = Storage.open) -> None:
        self.random = Random(seed)
        self.opener = opener
        self.changes: list[Change] = []
        self.confirmed = 0
        self.lost = 0
        self._messages = 0
        self._stored: list[tuple[int, int]] = []
        self._pending: list[tuple[int, int]] = []

    def live(self, files: Files, steps: int) -> Outcome:
        """One process: open, check what is found, take some steps, close; raises HistoryError where a promise is broken."""
        found: list[Outcome] = []

        async def main() -> None:
            found.append(self._live(files, steps))

        # A torn tail is told by a line, thousands of times here.
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            run_in_virtual_time(main())
        finally:
            logger.setLevel(level)
        return found[0]

    def _live(self, files: Files, steps: int) -> Outcome:
        self._stored, self._pending = [], []
        try:
            committer = ManualCommitter()
            storage = self.opener(DATA, SMALL, files=files, committer=committer)
            self._recovered(storage)
            storage.start(lambda _: None)
            if not storage.queues:
                storage.declare("q", None)
            for _ in range(steps):
                self._step(storage, committer)
                if storage._journal.failure is not None:
                    raise StorageError(str(storage._journal.failure))
            storage.close()
        except Panic as died:
            return Outcome(End.DIED, died, [])
        except (StorageError, OSError) as failure:
            return Outcome(End.DIED if isinstance(files, FaultyFiles) and files.dead else End.FAILED, failure, [])
        self.confirmed = len(self.changes)
        self._messages = storage.queues[0].log.next_sequence
        return Outcome(End.CLOSED, None, [])

    def _recovered(self, storage: Storage) -> None:
        number, found = storage.sections.number, entries_of(storage)
        if not self.confirmed <= number <= len(self.changes):
            raise HistoryError(f"{number} changes found, {self.confirmed} of {len(self.changes)} were confirmed")
        if found != fold(self.changes[:number]):
            raise HistoryError(f"the map is not what the first {number} changes make of it")
        if len(storage.sections) != len(found):
            raise HistoryError("there is a section that nobody has put anything into")
        self.lost += len(self.changes) - number
        del self.changes[number:]
        self.confirmed = number
        stored = storage.queues[0].log.next_sequence if storage.queues else 0
        if stored < self._messages:
            raise HistoryError(f"{self._messages} messages were confirmed, {stored} are stored")
        self._messages = stored

    def _step(self, storage: Storage, committer: ManualCommitter) -> None:
        draw = self.random.random()
        if draw < 0.45:
            self._put(storage)
        elif draw < 0.65:
            self._message(storage)
        elif draw < 0.70:
            self._acknowledge(storage)
        elif draw < 0.95:
            committer.run()
            storage._advance()
            self._confirm(storage)
        if draw >= 0.97 or storage._journal.checkpoint_due():
            storage._checkpoints.make()
        storage._checkpoints._advance(whole=True)

    def _put(self, storage: Storage) -> None:
        section, key = self.random.choice(SECTIONS), f"key-{self.random.randrange(KEYS)}"
        value = None if self.random.random() < 0.3 else self.random.randbytes(self.random.randrange(LARGEST_VALUE))
        changes = value != storage.get(section, key)
        lsn = storage.put(section, key, value)
        if changes:
            self.changes.append((section, key, value))
        self._pending.append((lsn, len(self.changes)))
        if storage.get(section, key) != value:
            raise HistoryError("what was put is not what is read")

    def _message(self, storage: Storage) -> None:
        queue = storage.queues[0]
        batch = MessageBatch.from_payloads([self.random.randbytes(self.random.randrange(LARGEST_VALUE))])
        event = MessagesAdded(queue.log.next_sequence, batch, 1)
        lsn = storage.record(queue.number, event)
        queue.log.apply(event, lsn)
        self._stored.append((lsn, queue.log.next_sequence))

    def _acknowledge(self, storage: Storage) -> None:
        queue = storage.queues[0]
        for start, stop in queue.log.stored()[:1]:
            event = MessagesAcknowledged(((start, self.random.randint(start + 1, stop)),))
            queue.log.apply(event, storage.record(queue.number, event))
            storage._gathered.write()

    def _confirm(self, storage: Storage) -> None:
        """What was recorded up to here is durable, and whoever asked was told."""
        for lsn, count in self._pending:
            if lsn <= storage.durable:
                self.confirmed = max(self.confirmed, count)
        for lsn, stop in self._stored:
            if lsn <= storage.durable:
                self._messages = max(self._messages, stop)
        self._pending = [item for item in self._pending if item[0] > storage.durable]
        self._stored = [item for item in self._stored if item[0] > storage.durable]


def verify_map_survives(seed: int, opener: Opener = Storage.open) -> Counter[str]:
    """Several lives on one disk, each ended by a power loss, the death of the process, or its own will.

    Returns: how often what a run is meant to see was seen, for a test that it is.

    Raises:
        HistoryError: the store broke a promise.
    """
    seen: Counter[str] = Counter()
    program = MapProgram(seed, opener)
    random = program.random
    disk: Any = SimulatedDisk()
    for _ in range(random.randint(2, 6)):
        files = FaultyFiles(disk, *random_death(random))
        outcome = program.live(files, steps=random.randint(10, 250))
        if outcome.end is End.FAILED:
            raise HistoryError(f"nothing was wrong, and the store failed: {outcome.failure!r}") from outcome.failure
        seen[f"life that {outcome.end.value}"] += 1
        seen["checkpoint"] += sum(
            call.operation == "rename" and call.name.startswith("checkpoint-") for call in files.calls
        )
        disk = disk.crash(random) if random.random() < 0.75 else disk.restart()
    last = program.live(disk, steps=0)
    if last.end is not End.CLOSED:
        raise HistoryError(f"the last start failed: {last.failure!r}") from last.failure
    seen["unconfirmed changes lost"] = program.lost
    seen["entries left"] = len(fold(program.changes))
    return seen
