"""One copy in ten queues, whatever they do with it and whatever happens between: read by each, stored once, gone with the last."""

from __future__ import annotations

from random import Random

import pytest

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesAdded, MessagesExpired
from actors.storage import Storage
from actors.storage.after_repair import repair_storage, verify_storage
from journal import Journal, JournalOptions, ManualCommitter
from tests.actors.storage_lives import DATA, in_loop
from tests.fault.disk import SimulatedDisk

QUEUES = range(10)
RECORDS = 40
STEPS = 80
LARGEST = 1_500
OPTIONS = JournalOptions(segment_bytes=8 * 1024, checkpoint_records=10**6, spare_segments=0, reserve_bytes=0)
MORE = pytest.mark.soak


class Copies:
    """Ten queues over one storage, and what each still wants: by number, what was published."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = SimulatedDisk()
        self.wanted: list[dict[int, bytes]] = [{} for _ in QUEUES]
        self.open()
        for number in QUEUES:
            self.storage.declare(f"q{number}", None)
        self.look()

    def open(self) -> None:
        self.committer = ManualCommitter()
        self.storage = Storage.open(DATA, OPTIONS, files=self.disk, committer=self.committer, cache_bytes=4_000)
        self.storage.start(self._failed)
        self.look()

    def look(self) -> None:
        self.logs = {queue.number: queue.log for queue in self.storage.queues}

    @staticmethod
    def _failed(error: Exception) -> None:
        raise AssertionError("the storage failed") from error

    def publish(self, count: int) -> None:
        for _ in range(count):
            payload = self.random.randbytes(self.random.randint(16, LARGEST))
            batch = MessageBatch.from_payloads([payload])
            first = {number: self.logs[number].next_sequence for number in QUEUES}
            self.storage.record_all({number: MessagesAdded(at, batch, 1_000_000) for number, at in first.items()})
            for number, at in first.items():
                self.wanted[number][at] = payload
            self.run()

    def run(self) -> None:
        self.committer.run()
        self.storage._advance()

    def done(self, number: int, count: int, expired: bool) -> None:
        """A queue is done with some messages: acknowledged in any order, or expired from the front."""
        wanted = sorted(self.wanted[number])
        chosen = wanted[:count] if expired else self.random.sample(wanted, min(count, len(wanted)))
        ranges = tuple((at, at + 1) for at in sorted(chosen))
        if ranges:
            event = MessagesExpired(ranges) if expired else MessagesAcknowledged(ranges)
            self.logs[number].apply(event, self.storage.record(number, event))
            for at in chosen:
                del self.wanted[number][at]

    def checkpoint(self) -> None:
        """With it segments are given back, or combined."""
        self.storage._gathered.write()
        self.storage._checkpoints.make()
        self.storage._checkpoints._advance(whole=True)
        self.run()

    def restart(self, repair: bool) -> None:
        self.storage._gathered.write()
        self.run()
        if self.random.random() < 0.5 or repair:
            self.storage.close()
        else:
            self.storage._journal.abandon()
        self.disk = self.disk.restart()
        if repair:
            self.lose_an_index()
            repair_storage(DATA, self.disk)
        assert not [finding for finding in verify_storage(DATA, self.disk) if finding.fatal]
        self.open()

    def lose_an_index(self) -> None:
        """What a repair makes again from the records themselves."""
        names = sorted(name for name in self.disk.names(DATA) if name.endswith(".index"))
        if names:
            self.disk.unlink(DATA / self.random.choice(names))

    def check(self) -> None:
        places: dict[bytes, set[object]] = {}
        for number, wanted in enumerate(self.wanted):
            assert sum(stop - start for start, stop in self.logs[number].stored()) == len(wanted)
            for at, payload in wanted.items():
                entry = self.logs[number].table.at(at)
                assert entry is not None, f"queue {number} wants {at}, and it is gone"
                assert bytes(entry.part(at, at + 1).payloads[0]) == payload
                places.setdefault(payload, set()).add(self.storage._journal.place(number, at))
        catalog = self.storage._journal._catalog
        for segment in catalog.segments[:-1]:
            for columns in catalog.rows(segment).values():
                assert len(set(columns.firsts)) == len(columns.firsts), "a segment has it once"
        assert all(len(found) == 1 and None not in found for found in places.values()), (
            "it is there once, for all queues"
        )


@in_loop
def lived(seed: int) -> None:
    copies = Copies(seed)
    random = copies.random
    copies.publish(RECORDS)
    full = copies.storage.statistics()["disk_bytes"]
    assert full < RECORDS * LARGEST + 4 * OPTIONS.segment_bytes
    for step in range(STEPS):
        draw = random.random()
        if draw < 0.75:
            copies.done(random.choice(QUEUES), random.randint(1, 8), expired=random.random() < 0.2)
        elif draw < 0.82:
            copies.publish(1)
        elif draw < 0.94:
            copies.checkpoint()
        else:
            copies.restart(repair=random.random() < 0.5)
        if step % 5 == 0:
            copies.check()
    last = random.choice(QUEUES)
    for number in QUEUES:
        if number != last:
            copies.done(number, 10**6, expired=False)
    for _ in range(4):
        copies.checkpoint()
    copies.check()
    copies.done(last, 10**6, expired=False)
    for _ in range(4):
        copies.checkpoint()
    assert copies.storage.statistics()["disk_bytes"] < 4 * OPTIONS.segment_bytes
    assert not any(
        copies.storage._journal._catalog.rows(each) for each in copies.storage._journal._catalog.segments[:-1]
    )


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=MORE) for seed in range(2, 60))])
def test_each_queue_has_it_until_it_is_done_it_is_there_once_and_goes_with_the_last(seed: int) -> None:
    lived(seed)


def test_a_checkpoint_that_gives_back_what_queues_want_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = Journal.prepare_checkpoint
    monkeypatch.setattr(Journal, "prepare_checkpoint", lambda journal, _: prepare(journal, lambda *_asked: 0))
    with pytest.raises((AssertionError, StorageError)):
        lived(0)
