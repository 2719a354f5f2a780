"""A flipped bit in a record of several queues, or of a definition, is found, and costs that record: each queue says how much it has lost.

A directory has such records of every shape, in a combined segment, in sealed ones and in the log behind the checkpoint. Each place of each
record is damaged in turn. What is left after a repair must be what all the other records make of everything, and nothing else.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.exchanges.exchanges import Exchanges
from actors.exchanges.vocabulary import Destination, QueueUnbound
from actors.queue.vocabulary.events import Event, MessagesAcknowledged, MessagesAdded, MessagesMoved, QueuePurged
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey, StageNumbers, WriterVersion
from actors.storage import Storage, after_repair, contents, repair_storage, verify_storage
from journal import JournalOptions, ManualCommitter
from journal.format import COMPACTED, ITEMS, LOG, SEVERAL
from journal.names import parse_checkpoint, parse_segment
from journal.repair import _Repair
from journal.scan import ScannedRecord, SegmentScan
from journal.survey import Hole, pieces
from streams.testkit import run_in_virtual_time
from tests.fault.disk import SimulatedDisk
from tests.fault.history import HistoryError
from tests.fault.queues_model import (
    Added,
    Fold,
    Model,
    Ranges,
    Stored,
    acknowledged,
    committed,
    compare,
    declared,
    defined,
    together,
)
from tests.fault.store_program import DATA, Said, logger

OPTIONS: Final = JournalOptions(
    segment_bytes=2048, checkpoint_records=10**6, checkpoint_bytes=10**9, spare_segments=0, reserve_bytes=0
)
ROUNDS: Final = 40
"""Records of three queues before the checkpoint: five segments, of which the first ones are combined."""
HEADER: Final = {"mark": 4, "crc": 4, "length": 4, "kind": 1, "flags": 1, "group": 2, "epoch": 4, "lsn": 8}
SEVERAL_HEAD: Final = {"streams": 4, "other": 4}
ROW: Final = {"stream": 4, "first": 8, "items": 4, "start": 4, "length": 4}
PREFIX: Final = {"stream": 4, "first": 8, "items": 4}
EACH: Final = 20
NTHS: Final = (0, *(pytest.param(nth, marks=pytest.mark.soak) for nth in range(1, EACH)))
"""One place of so many, another in each record; and where there is time, the others."""


@dataclass(slots=True)
class Step:
    """Something that was recorded.

    Attributes:
        fold: what it makes of everything.
        added: how many messages queues get by it;
        moved: which have left another.
        changes: how many it is of exchanges and bindings.
        declared: number and name of a queue.
    """

    fold: Fold
    added: Mapping[int, int] = field(default_factory=dict)
    moved: bool = False
    changes: int = 0
    declared: tuple[int, str] | None = None


class Scribe:
    """Writes the directory, and knows what each record of it says, by its number."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk()
        self.committer = ManualCommitter()
        self.storage = Storage.open(DATA, OPTIONS, files=self.disk, committer=self.committer)
        self.storage.start(lambda _: None)
        self.committer.run()
        self.steps: dict[int, Step] = {}
        self.exchanges = Exchanges(self._is_durable, definitions=self.storage.definitions)

    def _is_durable(self, name: str) -> bool | None:
        found = [queue for queue in self.storage.queues if queue.name == name]
        return not found[0].transient if found else None

    def _do(self, fold: Fold, do: Callable[[], object], **more: Any) -> None:
        before = self.storage._journal.next_lsn
        do()
        self.storage._gathered.write()
        assert self.storage._journal.next_lsn == before + 1
        self.steps[before] = Step(fold, **more)
        # Each in a group of its own: damage in one of them is then no torn tail.
        self.committer.run()

    def declare(self, name: str, settings: QueueSettings | None = None) -> int:
        number = self.storage._contents.next_queue
        fold = partial(declared, number=number, name=name, settings=settings)
        self._do(fold, lambda: self.storage.declare(name, settings), declared=(number, name))
        return number

    def define(self, events: Any, deleted: int | None = None) -> None:
        numbered = [event for event in events if event.number]
        fold = partial(defined, events=numbered, deleted=deleted)
        self._do(fold, lambda: self.storage.change_definitions(events, deleted), changes=len(numbered))

    def add(self, *numbers: int, moved: Mapping[int, Ranges] | None = None, ttl: bool = False, **facts: Any) -> None:
        """Two messages for each of these queues, which may have left another."""
        lsn, gone = self.storage._journal.next_lsn, moved or {}
        payloads = [b"%d/%d" % (lsn, at) + bytes(30) for at in range(2)]
        batch, published = MessageBatch.from_payloads(payloads), Published("x", "k") if len(numbers) > 1 else None
        events: dict[int, Event] = {}
        added = {}
        for number in numbers:
            first = self.storage._contents.queues[number].log.next_sequence
            ttl_us = 10**9 + number if ttl else None
            events[number] = MessagesAdded(first, batch, 1, ttl_us=ttl_us, published=published, **facts)
            stored = tuple(Stored(payload, published, lsn) for payload in payloads)
            added[number] = Added(first, stored, facts.get("stage"))
        events |= {number: MessagesMoved(ranges) for number, ranges in gone.items()}
        fold = partial(together, added=added, gone=gone)
        counts = dict.fromkeys(numbers, 2)
        self._do(fold, lambda: self.storage.record_all(events), added=counts, moved=bool(gone))

    def purge(self, ranges: Mapping[int, Ranges]) -> None:
        events: dict[int, Event] = {number: QueuePurged(each) for number, each in ranges.items()}
        self._do(partial(together, added={}, gone=ranges), lambda: self.storage.record_all(events))

    def acknowledge(self, number: int, ranges: Ranges) -> None:
        event = MessagesAcknowledged(ranges)
        self._do(partial(acknowledged, number=number, ranges=ranges), lambda: self.storage.record_all({number: event}))

    def commit(self, version: WriterVersion, winners: Mapping[int, list[str]]) -> None:
        fold = partial(committed, version=version, winners=winners)
        self._do(fold, lambda: self.storage.commit(version, winners))

    def checkpoint(self) -> None:
        self.storage._checkpoints.make()
        self.storage._checkpoints._advance(whole=True)
        self.committer.run()


@dataclass(frozen=True, slots=True)
class Written:
    """The directory as a process that was killed left it.

    Attributes:
        steps: what its records say, by number.
        checkpoint: the first record that a start replays.
        last: the first of those that only stand at the end.
    """

    disk: SimulatedDisk
    steps: dict[int, Step]
    checkpoint: int
    last: int


@cache
def written() -> Written:
    found: list[Written] = []

    async def main() -> None:
        found.append(_written(Scribe()))

    run_in_virtual_time(main())
    return found[0]


def _written(scribe: Scribe) -> Written:
    a, b, c = (scribe.declare(name) for name in "abc")
    e = scribe.declare("e")
    scribe.define(scribe.exchanges.decide.declare("z", "fanout", auto_delete=True))
    scribe.define(scribe.exchanges.decide.bind("z", "e"))
    for _ in range(ROUNDS):
        scribe.add(a, b, c)
    # Of the first ones little is wanted, and by each queue something else; of the others all is.
    for number in (a, b, c):
        ranges = [(2 * at, 2 * at + 2) for at in range(ROUNDS // 2) if at % 6 != number]
        scribe.acknowledge(number, tuple(ranges))
    for _ in range(4):
        scribe.checkpoint()
    decide = scribe.exchanges.decide
    scribe.define(decide.declare("x", "topic", arguments={"alternate-exchange": "y"}))
    scribe.define(decide.declare("y", "fanout"))
    scribe.define(decide.bind("x", "a", "k"))
    scribe.define(decide.bind("x", "b", "k.#", {"some": "argument"}))
    scribe.define(decide.bind("x", "y", "#", to_exchange=True))
    d = scribe.declare("d", QueueSettings(max_receives=3, dead_letter_exchange="x"))
    scribe.define(decide.bind("y", "d"))
    t = scribe.declare("t", QueueSettings(durable=False))
    scribe.add(a, b, d)
    scribe.add(a, t, ttl=True)
    scribe.add(b, d, moved={a: ((60, 62),)})
    scribe.add(c, moved={b: ((62, 64),)})
    for numbers, name in (((a, c), "one"), ((b,), "two")):
        scribe.add(*numbers, stage=StageKey("w", 1, name), numbers=StageNumbers(2, 0))
    scribe.commit(WriterVersion("w", 1), {a: ["one"], c: ["one"], b: ["two"]})
    scribe.add(b, c, stage=StageKey("v", 1, "open"), numbers=StageNumbers(2, 0))
    scribe.purge({a: ((64, 66),), c: ((64, 66),)})
    scribe.define(decide.unbind("x", "a", "k"))
    scribe.define(decide.queue_deleted("e"), e)
    scribe.acknowledge(b, ((66, 68),))
    last = scribe.storage._journal.next_lsn
    for number in (a, b, c, d, t):
        scribe.add(number)
    scribe.define(decide.bind("x", "a", "last"))
    scribe.storage._checkpoints.halted = True
    scribe.storage._journal.abandon()
    disk = scribe.disk.restart()
    checkpoint = max(lsn for name in disk.names(DATA) if (lsn := parse_checkpoint(name)) is not None)
    return Written(disk, scribe.steps, checkpoint, last)


@dataclass(frozen=True, slots=True)
class Struck:
    """A record, and the bits of it that are flipped in turn, by the name of the place."""

    path: Path
    record: ScannedRecord
    kind: int
    bits: Mapping[str, int]


def records() -> Iterator[Struck]:
    """Every record of the directory that some queue gets messages by, or that says something of definitions or stages."""
    whole = written()
    for name in whole.disk.names(DATA):
        if parse_segment(name) is None:
            continue
        with SegmentScan(whole.disk, DATA / name) as found:
            for record in found.records():
                needed = whole.checkpoint <= record.lsn < whole.last or record.flags & (SEVERAL | ITEMS)
                if record.lsn in whole.steps and record.lsn < whole.last and needed:
                    yield Struck(DATA / name, record, found.header.kind, bits_of(record))


def bits_of(record: ScannedRecord) -> dict[str, int]:
    """One bit of each field that a record has, and of each part of what is behind."""
    fields = dict(HEADER)
    if record.flags & SEVERAL:
        fields |= SEVERAL_HEAD
        count = int.from_bytes(record.payload[:4], "little")
        fields |= {f"{name} of row {row}": size for row in range(count) for name, size in ROW.items()}
    elif record.flags & ITEMS:
        fields |= PREFIX
    size = record.end - record.offset - sum(fields.values())
    fields |= {f"part {at}": stop - start for at, (start, stop) in enumerate(pairwise([*range(0, size, 16), size]))}
    starts = accumulate(fields.values(), initial=0)
    return {
        name: 8 * (record.offset + start) + (start * 7 + record.lsn) % (8 * size)
        for start, (name, size) in zip(starts, fields.items(), strict=False)
    }


def flipped(struck: Struck, bit: int) -> SimulatedDisk:
    disk = written().disk.restart()
    content = bytearray(disk.content(struck.path))
    content[bit // 8] ^= 1 << bit % 8
    disk.replace(struck.path, bytes(content))
    return disk


def left_by(struck: Struck) -> tuple[Model, list[str]]:
    """What is left without a record: what all others make of everything; and what the start behind a repair must say."""
    whole, lsn, model = written(), struck.record.lsn, Model()
    # What a checkpoint has is known without its record, but for the messages themselves.
    replayed = lsn >= whole.checkpoint
    for number, step in whole.steps.items():
        if number != lsn or not replayed:
            step.fold(model)
    lost: Counter[int] = Counter(whole.steps[lsn].added if replayed else ())
    for number, queue in model.queues.items():
        if not replayed:
            for at in [at for at, stored in queue.wanted.items() if stored.record == lsn]:
                del queue.wanted[at]
                lost[number] += 1
        # Every transaction that is open begins anew.
        lost[number] += sum(map(len, queue.staged.values()))
        queue.staged.clear()
    told = [after_repair.LOST % (count, model.queues[number].name) for number, count in lost.items() if count]
    if (queue := whole.steps[lsn].declared) is not None and replayed:
        number, name = queue
        others = (step for each, step in whole.steps.items() if number in step.added and not step.moved)
        told.append(after_repair.LOST_QUEUE % (sum(step.added[number] for step in others), number))
        bound = len(model.definitions.bound_to(Destination(name)))
        model.definitions.apply(QueueUnbound(0, name))
        if bound:
            told.append(after_repair.LOST_DEFINITIONS % (0, bound))
    if (changes := whole.steps[lsn].changes) and replayed:
        told.append(after_repair.LOST_DEFINITIONS % (changes, 0))
    return model, sorted(told)


def verify_flip(struck: Struck, place: str, whole_way: bool = True) -> None:
    """Flip the bit of a place, and do what an operator does; AssertionError where something is lost that need not be, or is not said."""
    disk, lsn, where = flipped(struck, struck.bits[place]), struck.record.lsn, f"record {struck.record.lsn}, {place}"
    found = verify_storage(DATA, disk)
    assert [(each.file, each.offset, each.fatal) for each in found] == [(struck.path, struck.record.offset, True)], (
        where
    )
    refused = refusal(disk.restart())
    assert struck.path.name in refused, where
    assert f"offset {struck.record.offset}" in refused, where
    assert "penstock journal repair" in refused, where
    if not whole_way:
        return
    said = repair_storage(DATA, disk)
    assert any(struck.path.name in line and "lost" in line for line in said), where
    if struck.kind == LOG:
        assert any(f"record {lsn} is lost" in line for line in said), where
    assert verify_storage(DATA, disk) == [], where
    model, told = left_by(struck)
    with heard() as lines:
        storage = Storage.open(DATA, OPTIONS, files=disk)
    try:
        compare(model, {}, storage)
    except HistoryError as error:
        raise AssertionError(f"{where}: {error}") from error
    assert sorted(lines) == told, where


def refusal(disk: SimulatedDisk) -> str:
    """Why a start fails, or the first read of what is stored."""
    try:
        storage = Storage.open(DATA, OPTIONS, files=disk)
        for queue in storage.queues:
            for start, stop in queue.log.stored():
                for at in range(start, stop):
                    entry = queue.log.table.at(at)
                    assert entry is not None
                    assert entry.batch
    except StorageError as error:
        return str(error)
    return "nothing is refused"


@contextmanager
def heard() -> Iterator[list[str]]:
    """What a start says of losses."""
    said = Said()
    logger.addHandler(said)
    try:
        yield said.lost
    finally:
        logger.removeHandler(said)


def test_the_directory_has_records_of_every_shape_in_every_kind_of_segment() -> None:
    whole, found = written(), list(records())
    assert verify_storage(DATA, whole.disk.restart()) == []
    old = [struck for struck in found if struck.record.lsn < whole.checkpoint]
    assert sum(struck.kind == COMPACTED for struck in old) > 3
    assert sum(struck.kind == LOG for struck in old) > 3
    assert all(struck.record.flags & SEVERAL for struck in old)
    new = {struck.record.lsn for struck in found} - {struck.record.lsn for struck in old}
    assert new == set(range(whole.checkpoint, whole.last)), "and every record behind the checkpoint"


@pytest.mark.parametrize("nth", NTHS)
def test_a_flipped_bit_anywhere_costs_its_record_alone_and_each_queue_is_told_what_it_has_lost(nth: int) -> None:
    tried = Counter(
        (struck.kind, struck.record.lsn < written().checkpoint)
        for number, struck in enumerate(records())
        for place in list(struck.bits)[(number + nth) % EACH :: EACH]
        if verify_flip(struck, place) is None
    )
    assert len(tried) == 3
    assert sum(tried.values()) > 50


def first_caught(*places: str) -> AssertionError | None:
    for struck in records():
        for place in places:
            try:
                verify_flip(struck, place)
            except AssertionError as caught:
                return caught
    return None


def test_a_start_that_says_nothing_of_a_lost_declaration_is_caught() -> None:
    with mock.patch.object(contents, "LOST_QUEUE", "%d of %d"):
        assert first_caught("crc") is not None


def test_a_start_that_counts_the_loss_for_one_queue_alone_is_caught() -> None:
    drop_lost = contents.drop_lost

    def dropped(journal: Any, number: int, log: Any) -> Any:
        lost, event = drop_lost(journal, number, log)
        return (0 if number == 1 else lost), event

    with mock.patch.object(contents, "drop_lost", dropped):
        assert first_caught("crc") is not None


def test_a_repair_that_takes_a_whole_record_along_is_caught() -> None:
    def greedy(found: SegmentScan) -> Iterator[Any]:
        after = False
        for piece in pieces(found):
            if not after:
                yield piece
            after = isinstance(piece, Hole)

    with mock.patch.object(sys.modules[_Repair.__module__], "pieces", greedy):
        assert first_caught("crc") is not None
