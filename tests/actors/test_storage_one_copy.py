"""One copy in ten queues, whatever they do with it and whatever happens between: read by each, stored once, gone with the last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesAdded, MessagesExpired
from actors.storage import Storage, codec
from actors.storage.after_repair import repair_storage, verify_storage
from journal import Journal, JournalOptions, ManualCommitter, compaction, housekeeping
from journal.format import COMPACTED, ITEMS, RECORD_HEADER_BYTES, SEVERAL, pack_record, unpack_record_header
from journal.items import ITEMS_PREFIX, part_of
from journal.names import parse_segment
from journal.reclaim import weigh
from journal.scan import SegmentScan
from journal.segment import Segment
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


FANOUT = 60
PAYLOAD = 900
WANTED = range(0, FANOUT, 5)
"""Of each five records one is wanted in the end: a fifth of each segment."""


class Fanout:
    """What one publisher has sent to some queues at once, of which all want the same few at last; and what the disk then holds."""

    def __init__(self, queues: int) -> None:
        self.disk = SimulatedDisk()
        self.committer = ManualCommitter()
        self.storage = Storage.open(DATA, OPTIONS, files=self.disk, committer=self.committer, cache_bytes=0)
        self.storage.start(Copies._failed)
        for number in range(queues):
            self.storage.declare(f"q{number}", None)
        self.logs = {queue.number: queue.log for queue in self.storage.queues}
        self.live = self.storage._contents.live
        for at in range(FANOUT):
            batch = MessageBatch.from_payloads([at.to_bytes(4, "big") * (PAYLOAD // 4)])
            self.storage.record_all({number: MessagesAdded(at, batch, 1_000_000) for number in self.logs})
            self.commit()
        done = tuple((at + 1, min(at + 5, FANOUT)) for at in WANTED)
        for number, log in self.logs.items():
            log.apply(MessagesAcknowledged(done), self.storage.record(number, MessagesAcknowledged(done)))
        self.storage._gathered.write()
        self.commit()

    def commit(self) -> None:
        self.committer.run()
        self.storage._advance()

    def checkpoints(self) -> None:
        """As many as it takes until nothing more is combined, and the sources are given back."""
        for _ in range(6):
            self.storage._checkpoints.make()
            self.storage._checkpoints._advance(whole=True)
            self.commit()

    @property
    def stored_bytes(self) -> int:
        """Of the segments that hold records, as the directory has them."""
        names = [name for name in self.disk.names(DATA) if parse_segment(name) is not None]
        return sum(len(self.disk.content(DATA / name).rstrip(b"\0")) for name in names)

    @property
    def combined(self) -> list[Segment]:
        return [each for each in self.storage._journal._catalog.segments if each.header.kind == COMPACTED]

    def weighed(self) -> int:
        """What the full segments weigh by what is wanted of them."""
        steps = weigh(self.storage._journal._catalog.segments[:-1], self.live)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return sum(wanted for _, wanted in end.value)

    def check(self) -> None:
        for log in self.logs.values():
            assert [at for start, stop in log.stored() for at in range(start, stop)] == list(WANTED)
            for at in WANTED:
                entry = log.table.at(at)
                assert entry is not None
                assert bytes(entry.part(at, at + 1).payloads[0][:4]) == at.to_bytes(4, "big")


@in_loop
def test_combination_copies_a_record_once_however_many_queues_want_it() -> None:
    one, ten = Fanout(1), Fanout(10)
    for fanout in (one, ten):
        before = fanout.stored_bytes
        fanout.checkpoints()
        assert fanout.combined
        assert fanout.stored_bytes < before / 2
        fanout.check()
    assert ten.stored_bytes < 1.5 * one.stored_bytes
    records = [record for each in ten.combined for record in records_of(ten.disk, each)]
    assert len(records) == len(set(records))
    assert len(WANTED) - 2 < len(records) <= len(WANTED), "the last one may be in the segment that the log goes on in"


@in_loop
def test_a_record_is_weighed_once_however_many_queues_want_it() -> None:
    """Were it weighed once for each, a segment of which a fifth is wanted would seem full, and would never be combined."""
    one, ten = Fanout(1), Fanout(10)
    assert one.weighed() > len(WANTED) * PAYLOAD / 2
    assert ten.weighed() < 1.5 * one.weighed()
    full = ten.storage._journal.statistics().segments
    ten.checkpoints()
    assert ten.combined
    assert ten.storage._journal.statistics().segments < full / 2


def records_of(disk: SimulatedDisk, segment: Segment) -> Iterator[int]:
    """The numbers of a segment's records, as they stand in the file."""
    with SegmentScan(disk, segment.path) as scan:
        yield from (record.lsn for record in scan.records())


# --- the defects that these two are there for, put in


class Apart(int):
    """A place that is no other's, be it the same."""

    __slots__ = ()
    __eq__ = object.__eq__
    __hash__ = int.__hash__


def copied_once_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A combination makes a record of its own of what each queue wants of one."""
    in_order, read_again = compaction._in_order, compaction._read_again

    def by_queue(files: Any, file: int, source: Segment, row: Any, header: Any) -> tuple[bytes, int]:
        record, lsn = read_again(files, file, source, row, header)
        found = unpack_record_header(record)
        part = part_of(memoryview(record)[RECORD_HEADER_BYTES:], row.stream) if found.flags & SEVERAL else None
        if part is None:
            return record, lsn
        payload = ITEMS_PREFIX.pack(row.stream, part.first, part.items) + bytes(part.payload)
        return pack_record(header, lsn, found.epoch, codec.ADDED, ITEMS, 0, payload), lsn

    monkeypatch.setattr(compaction, "_read_again", by_queue)
    monkeypatch.setattr(
        compaction, "_in_order", lambda wanted: (row._replace(offset=Apart(row.offset)) for row in in_order(wanted))
    )


def weighed_once_a_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each queue wants of a segment is added up."""

    def by_queue(segments: Iterable[Segment], live: Any) -> Any:
        weighed = []
        for segment in segments:
            if (summary := segment.summary) is None:
                continue
            wanted = [
                -(-size * min(live(stream, first, stop), items) // items)
                for stream, _, first, stop, items, size in zip(*summary, strict=True)
            ]
            weighed.append((segment, min(sum(wanted), segment.end)))
        yield
        return weighed

    monkeypatch.setattr(housekeeping, "weigh", by_queue)
    monkeypatch.setitem(globals(), "weigh", by_queue)


@pytest.mark.parametrize(
    ("put_in", "test"),
    [
        (copied_once_a_queue, test_combination_copies_a_record_once_however_many_queues_want_it),
        (weighed_once_a_queue, test_a_record_is_weighed_once_however_many_queues_want_it),
    ],
)
def test_a_defect_that_is_put_in_is_found(put_in: Any, test: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch)
    with pytest.raises(AssertionError):
        test()
