"""A program that uses a store's map beside its queues, step by step from a seed, through any number of deaths.

What a start finds must be the map after some first part of the changes that were made, and that part must hold every change that was
confirmed. So nothing that was confirmed is lost, what was not is there or not, and the map is never a mix.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, TypeAlias

from actors.batch import MessageBatch
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesAdded
from actors.storage import Storage
from journal import ManualCommitter
from tests.fault.history import HistoryError
from tests.fault.store_program import Opener, StoreProgram, verify_lives

SECTIONS: Final = ("smq", "subscriptions")
KEYS: Final = 6
LARGEST_VALUE: Final = 300

Change: TypeAlias = tuple[str, str, bytes | None]


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


class MapProgram(StoreProgram):
    """The program.

    Attributes:
        changes: of the map, in order, that are not known to be lost.
        confirmed: how many of the first of them were confirmed.
    """

    def __init__(self, seed: int, opener: Opener = Storage.open) -> None:
        super().__init__(seed, opener)
        self.changes: list[Change] = []
        self.confirmed = 0
        self._messages = 0
        self._stored: list[tuple[int, int]] = []
        self._pending: list[tuple[int, int]] = []

    def _started(self, storage: Storage) -> None:
        if not storage.queues:
            storage.declare("q", None)

    def _closed(self, storage: Storage) -> None:
        self.confirmed = len(self.changes)
        self._messages = storage.queues[0].log.next_sequence

    def _recovered(self, storage: Storage) -> None:
        self._stored, self._pending = [], []
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
    """Several lives (`verify_lives`); raises HistoryError where the store broke a promise."""
    program = MapProgram(seed, opener)
    seen = verify_lives(program)
    seen["entries left"] = len(fold(program.changes))
    return seen
