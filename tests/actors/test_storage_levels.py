"""A queue with levels over the journal: what it holds after kills, with checkpoints and without, and what its levels are there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.queue.state.leveled_log import LeveledLog
from actors.queue.vocabulary.events import (
    Event,
    MessagesAcknowledged,
    MessagesAdded,
    MessagesReturned,
    QueuePurged,
    StagesDiscarded,
)
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey, WriterVersion
from actors.storage import Storage, repair_storage, verify_storage
from tests.actors.driven import Deliver, QueueState
from tests.actors.storage_lives import DATA, Life, in_loop

SMALL = {"segment_bytes": 4096, "checkpoint_records": 10**9}
LEVELS = 5
LARGE = 10**9


class LeveledLife(Life):
    """One process over a disk, in which queue ``q`` has levels and is not the only one."""

    def __init__(self, disk: Any = None, **options: Any) -> None:
        super().__init__(disk, **(SMALL | options))
        if "q" not in {queue.name for queue in self.storage.queues}:
            self.storage.declare("q", QueueSettings(max_priority=LEVELS))
            self.storage.declare("behind", None)
            self.logs = {queue.number: queue.log for queue in self.storage.queues}
        self.number = next(queue.number for queue in self.storage.queues if queue.name == "q")

    @property
    def log(self) -> LeveledLog:
        log = self.logs[self.number]
        assert isinstance(log, LeveledLog)
        return log

    def killed(self, **options: Any) -> LeveledLife:
        self.storage._journal.abandon()
        return LeveledLife(self.disk.restart(), **options)

    def add(self, priority: int, *payloads: bytes, **facts: Any) -> int:
        event = self.added(self.number, *payloads, priority=priority, **facts)
        self.record(self.number, event)
        return event.first

    def happened(self, event: Event) -> None:
        self.record(self.number, event)

    def acknowledge(self, *ranges: tuple[int, int]) -> None:
        self.happened(MessagesAcknowledged(ranges))

    def received(self) -> list[tuple[int, bytes]]:
        """What a receiver gets, in order, each with its number."""
        queue = QueueState("q", self.number, QueueSettings(max_priority=LEVELS), log=self.log)
        queue.attach_receiver("r")
        queue.receive("r", LARGE, LARGE, 0.0)
        found: list[tuple[int, bytes]] = []
        while True:
            for effect in queue.take_effects():
                if isinstance(effect, Deliver):
                    found += [(effect.first + n, bytes(p)) for n, p in enumerate(effect.batch.payloads)]
            if queue.unfinished_at is None:
                break
            queue.tick(0.0)
        queue.reset(0.0)
        return found


class Model:
    """Every message by itself."""

    def __init__(self) -> None:
        self.next = 0
        self.stored: dict[int, tuple[int, bytes]] = {}
        self.staged: dict[StageKey, dict[int, tuple[int, bytes]]] = {}

    def add(self, priority: int, payloads: list[bytes], key: StageKey | None = None) -> None:
        place = self.stored if key is None else self.staged.setdefault(key, {})
        for payload in payloads:
            place[self.next] = (priority, payload)
            self.next += 1

    def received(self) -> list[tuple[int, bytes]]:
        order = sorted(self.stored, key=lambda number: (-self.stored[number][0], number))
        return [(number, self.stored[number][1]) for number in order]


def ranges_of(numbers: list[int]) -> tuple[tuple[int, int], ...]:
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number:
            ranges[-1] = (ranges[-1][0], number + 1)
        else:
            ranges.append((number, number + 1))
    return tuple(ranges)


def check(life: LeveledLife, model: Model) -> None:
    log = life.log
    assert log.next_sequence == model.next
    assert log.stored_messages == len(model.stored)
    for level in range(LEVELS + 1):
        stored = sum(priority == level for priority, _ in model.stored.values())
        known = log.levels.by_number.get(level)
        assert (0 if known is None else known.stored) == stored
    wanted = [*model.stored, *(number for stage in model.staged.values() for number in stage)]
    assert [n for low, high in log.acknowledged.gaps(0, model.next) for n in range(low, high)] == sorted(wanted)
    assert log.acknowledged.count_within(0, model.next) == model.next - len(wanted)
    assert log.acknowledged.reach(0) == min(wanted, default=model.next)
    assert life.received() == model.received()


@pytest.mark.parametrize("seed", range(12))
@in_loop
def test_histories_with_kills_and_checkpoints_leave_what_a_model_has(seed: int) -> None:
    random_ = random.Random(seed)
    life, model = LeveledLife(), Model()
    keys = [StageKey("w", 1, name) for name in "ab"]
    version = 1
    for step in range(250):
        what = random_.random()
        if what < 0.45:
            payloads = [random_.randbytes(random_.choice((1, 40, 300))) for _ in range(random_.choice((1, 1, 3, 20)))]
            priority = random_.choice((0, 0, 1, 2, LEVELS))
            key = random_.choice(keys) if random_.random() < 0.15 else None
            life.add(priority, *payloads, stage=key)
            model.add(priority, payloads, key)
        elif what < 0.75 and model.stored:
            # From the head, as receivers do, or anywhere.
            order = [number for number, _ in model.received()]
            chosen = order[: random_.randint(1, 30)]
            if random_.random() < 0.3:
                chosen = random_.sample(order, min(len(order), random_.randint(1, 8)))
            life.acknowledge(*ranges_of(chosen))
            for number in chosen:
                del model.stored[number]
        elif what < 0.78 and model.stored:
            chosen = random_.sample(sorted(model.stored), min(len(model.stored), 3))
            life.happened(QueuePurged(ranges_of(chosen)))
            for number in chosen:
                del model.stored[number]
        elif what < 0.81 and model.stored:
            chosen = random_.sample(sorted(model.stored), min(len(model.stored), 3))
            life.happened(MessagesReturned(tuple((n, n + 1, 1) for n in sorted(chosen))))
        elif what < 0.84 and model.staged:
            key = random_.choice(sorted(model.staged))
            life.happened(StagesDiscarded((key,), life.log.next_sequence))
            del model.staged[key]
        elif what < 0.87 and model.staged:
            key = random_.choice(sorted(model.staged))
            life.storage.commit(WriterVersion("w", version), {life.number: [key.name]})
            model.stored |= model.staged.pop(key)
            for other in [other for other in model.staged if other.version <= version]:
                del model.staged[other]
            version += 1
            keys = [StageKey("w", version, name) for name in "ab"]
        elif what < 0.9:
            life.record(0, life.added(0, b"of another queue" * 20))
        elif what < 0.95:
            life.checkpoint()
        else:
            life.storage._gathered.write()
            life.run()
            life = life.killed()
        if step % 10 == 0:
            check(life, model)
    life.storage._gathered.write()
    life.run()
    life = life.killed()
    check(life, model)


@in_loop
def test_while_high_levels_are_consumed_and_a_low_one_waits_each_level_has_one_range() -> None:
    life = LeveledLife()
    for n in range(300):
        life.add(n % 3, b"%d" % n)
    high = [n for n in range(300) if n % 3]
    life.acknowledge(*((n, n + 1) for n in high))
    assert [len(life.log.levels.at(level).acknowledged) for level in range(3)] == [0, 1, 1]
    life.checkpoint()
    life = life.killed()
    assert [len(life.log.levels.at(level).acknowledged) for level in range(3)] == [0, 1, 1]
    assert [number for number, _ in life.received()] == [n for n in range(300) if n % 3 == 0]


@in_loop
def test_what_is_consumed_gives_its_room_back_level_by_level_and_what_waits_stays() -> None:
    life = LeveledLife()
    for n in range(400):
        life.add(n % 2, b"x" * 100)
    many = life.storage._journal.statistics().segments
    life.acknowledge(*((n, n + 1) for n in range(400) if n % 2))
    for _ in range(40):
        life.checkpoint()
    # Half of each segment is dead: neighbours are combined.
    assert life.storage._journal.statistics().segments < many * 0.75
    assert [number for number, _ in life.received()] == list(range(0, 400, 2))
    life = life.killed()
    life.acknowledge((0, 400))
    for _ in range(4):
        life.checkpoint()
    assert life.storage._journal.statistics().segments <= 2
    assert life.received() == []


@in_loop
def test_a_queue_behind_one_with_levels_gets_none_of_its_streams() -> None:
    life = LeveledLife()
    numbers = {queue.name: queue.number for queue in life.storage.queues}
    assert numbers["behind"] == numbers["q"] + LEVELS + 1
    life.add(LEVELS, b"high")
    life.record(numbers["behind"], life.added(numbers["behind"], b"other"))
    life.run()
    life = life.killed()
    assert life.received() == [(0, b"high")]
    assert life.held(numbers["behind"]) == [b"other"]
    # Nor when its declaration is read from a checkpoint.
    life.checkpoint()
    life = life.killed()
    assert life.storage.declare("last", None).number == numbers["behind"] + 1


@in_loop
def test_a_deleted_queue_gives_back_all_its_levels() -> None:
    life = LeveledLife()
    for n in range(200):
        life.add(n % (LEVELS + 1), b"x" * 100)
    life.storage.delete(life.number)
    del life.logs[life.number]
    for _ in range(4):
        life.checkpoint()
    assert life.storage._journal.statistics().segments <= 2
    life.run()
    life.storage._journal.abandon()
    again = Storage.open(DATA, files=life.disk.restart())
    assert "q" not in {queue.name for queue in again.queues}


def payloads(batch: MessageBatch) -> Iterator[bytes]:
    return iter([bytes(payload) for payload in batch.payloads])


@in_loop
def test_one_record_gives_a_batch_to_queues_with_levels_and_without() -> None:
    life = LeveledLife()
    batch = MessageBatch.from_payloads([b"for all"])
    lsn = life.storage.record_all({0: MessagesAdded(0, batch, 1), life.number: MessagesAdded(0, batch, 1, priority=3)})
    assert lsn
    life.run()
    life = life.killed()
    assert life.held(0) == [b"for all"]
    assert life.received() == [(0, b"for all")]
    assert life.log.levels.at(3).stored == 1


@in_loop
def test_an_older_program_says_that_it_does_not_know_the_checkpoint() -> None:
    life = LeveledLife()
    life.checkpoint()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("actors.storage.snapshot.READABLE", frozenset({1, 2, 3, 4, 5, 6}))
        with pytest.raises(StorageError, match="a checkpoint of version 7"):
            life.killed()


@pytest.mark.parametrize("closed", [False, True])
@in_loop
def test_records_that_damage_has_taken_are_given_up_and_every_level_has_the_rest(closed: bool) -> None:
    life = LeveledLife(reserve_bytes=0)
    for n in range(60):
        life.add(n % 3, b"%d: here" % n + bytes(100))
    life.acknowledge(*((n, n + 1) for n in range(20)))
    life.checkpoint()
    life.add(1, b"staged", stage=StageKey("w", 1, "s"))
    life.run()
    if closed:
        life.storage._gathered.write()
        life.storage.close()
    else:
        life.storage._journal.abandon()
    disk = life.disk.restart()
    lost = (5, 30, 31, 44)
    for name in disk.names(DATA):
        content = before = disk.content(DATA / name)
        for n in lost:
            content = content.replace(b"\0%d: here" % n, b"\0%d: gone" % n)
        if content != before:
            disk.replace(DATA / name, content)
    # Two that are neighbours are one finding, and of message 5 nothing was there any more.
    assert len(verify_storage(DATA, disk)) == 2
    assert repair_storage(DATA, disk)
    assert verify_storage(DATA, disk) == []
    again = LeveledLife(disk, reserve_bytes=0)
    left = [n for n in range(20, 60) if n not in lost]
    assert [number for number, _ in again.received()] == sorted(left, key=lambda n: (-(n % 3), n))
    assert again.log.stored_messages == len(left)
    assert again.log.stored_batches == len(left)
    assert not again.log.stages
    again.acknowledge((0, 60))
    assert (again.log.stored_messages, again.log.stored_batches, again.log.stored_bytes) == (0, 0, 0)
