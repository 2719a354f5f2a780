"""A batch that several queues hold alike is in memory once, counted once and read once, and goes with the last that holds it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.batch import BinaryColumn, MessageBatch
from actors.queue.vocabulary.events import MessagesAcknowledged, MessagesAdded
from actors.storage import Storage
from actors.storage.entry_cache import COLUMN_BYTES, ENTRY_BYTES, LEAVE_A_BATCH, QUEUE_BYTES, EntryCache
from journal import Journal, JournalOptions, ManualCommitter
from streams.testkit import run_in_virtual_time
from tests.actors.storage_lives import DATA, in_loop
from tests.examples_tried import tried
from tests.fault.disk import SimulatedDisk

QUEUES = 10


def weight(batch: MessageBatch, queues: int = QUEUES) -> int:
    """What a batch of payloads alone counts for in the cache, where so many queues share it."""
    return batch.nbytes + ENTRY_BYTES + COLUMN_BYTES + QUEUE_BYTES * queues


class Bench:
    """A storage over a simulated disk with ten queues, whose cache has ``cache_bytes``."""

    def __init__(self, cache_bytes: int, disk: Any = None) -> None:
        self.disk = SimulatedDisk() if disk is None else disk
        self.committer = ManualCommitter()
        self.cache_bytes = cache_bytes
        self.storage = Storage.open(
            DATA, JournalOptions(), files=self.disk, committer=self.committer, cache_bytes=cache_bytes
        )
        self.storage.start(self._failed)
        for number in range(len(self.storage.queues), QUEUES):
            self.storage.declare(f"q{number}", None)
        self.logs = {queue.number: queue.log for queue in self.storage.queues}

    @staticmethod
    def _failed(error: Exception) -> None:
        raise AssertionError("the storage failed") from error

    def publish(self, queues: Sequence[int], *payloads: bytes) -> MessageBatch:
        batch = MessageBatch.from_payloads(payloads)
        self.storage.record_all(
            {number: MessagesAdded(self.logs[number].next_sequence, batch, 1_000_000) for number in queues}
        )
        return batch

    def store(self, number: int, batch: MessageBatch) -> None:
        event = MessagesAdded(self.logs[number].next_sequence, batch, 1_000_000)
        self.logs[number].apply(event, self.storage.record(number, event))

    def settle(self) -> None:
        self.committer.run()
        self.storage._advance()

    def read(self, number: int, sequence: int) -> bytes:
        entry = self.logs[number].table.at(sequence)
        assert entry is not None
        return bytes(entry.part(sequence, sequence + 1).payloads[0])

    def acknowledge(self, number: int, sequence: int) -> None:
        event = MessagesAcknowledged(((sequence, sequence + 1),))
        self.logs[number].apply(event, self.storage.record(number, event))

    def again(self, cache_bytes: int | None = None) -> Bench:
        self.storage._gathered.write()
        self.settle()
        self.storage._journal.abandon()
        return Bench(self.cache_bytes if cache_bytes is None else cache_bytes, self.disk.restart())

    @property
    def cached(self) -> int:
        size: int = self.storage.statistics()["cache_bytes"]
        return size


@in_loop
def test_what_ten_queues_get_is_counted_once_and_is_one_object() -> None:
    bench = Bench(10**6)
    batch = bench.publish(range(QUEUES), bytes(3_000), bytes(2_000))
    assert bench.cached == weight(batch)
    entries = [bench.logs[number].table.at(0) for number in range(QUEUES)]
    assert all(entry is not None and entry.batch is batch for entry in entries)


@in_loop
def test_what_ten_queues_read_again_is_read_and_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(10**6)
    batch = bench.publish(range(QUEUES), b"one", b"two")
    bench = bench.again()
    reads = []
    read = Journal.read
    monkeypatch.setattr(Journal, "read", lambda *asked: reads.append(asked) or read(*asked))
    assert [bench.read(number, 1) for number in range(QUEUES)] == [b"two"] * QUEUES
    assert len(reads) == 1
    assert bench.cached == weight(batch)
    # Of each queue it is known when it came and by which record, whoever has read it.
    facts = {(entry.event, entry.enqueued_us, entry.size) for entry in map(_entry(bench), range(QUEUES))}
    assert len(facts) == 1


def _entry(bench: Bench) -> Any:
    return lambda number: bench.logs[number].table.at(0)


@pytest.mark.parametrize("again", [False, True])
@in_loop
def test_it_leaves_memory_with_the_last_queue_that_holds_it(again: bool) -> None:
    bench = Bench(10**6)
    batch = bench.publish(range(QUEUES), b"held")
    if again:
        bench = bench.again()
        for number in range(QUEUES):
            bench.read(number, 0)
    for number in (7, 2, 9, 0, 4, 1, 8, 3, 6):
        bench.acknowledge(number, 0)
        assert bench.cached == weight(batch)
        assert bench.read(5, 0) == b"held"
    bench.acknowledge(5, 0)
    assert bench.cached == 0
    assert not bench.storage._cache.shares


@pytest.mark.parametrize("again", [False, True])
def test_a_cache_by_queue_is_found(again: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The defect put in: each queue keeps what it has for itself, be it new or read again."""
    monkeypatch.setattr(
        EntryCache, "share", lambda cache, _place, _queues, _number, entry, batch: cache.keep(entry, batch)
    )
    test = test_what_ten_queues_get_is_counted_once_and_is_one_object
    if again:
        test = partial(test_what_ten_queues_read_again_is_read_and_decoded_once, monkeypatch=monkeypatch)
    with pytest.raises(AssertionError):
        test()


@in_loop
def test_two_batches_of_one_record_are_each_shared_by_those_that_have_it() -> None:
    bench = Bench(10**6)
    left, right = MessageBatch.from_payloads([b"left"]), MessageBatch.from_payloads([b"rest"])
    bench.storage.record_all({number: MessagesAdded(0, left if number < 4 else right, 1) for number in range(QUEUES)})
    assert bench.cached == weight(left, 4) + weight(right, 6)
    bench = bench.again()
    found = [bench.read(number, 0) for number in reversed(range(QUEUES))]
    assert found == [b"rest"] * 6 + [b"left"] * 4
    assert bench.cached == weight(left, 4) + weight(right, 6)


@in_loop
def test_one_that_has_to_leave_memory_is_forgotten_by_all_that_have_it() -> None:
    bench = Bench(12_000)
    bench.publish(range(QUEUES), bytes(2_000))
    entries = [bench.logs[number].table.at(0) for number in range(QUEUES)]
    bench.settle()
    bench.publish([0], bytes(2_000))
    assert all(entry is not None and entry._batch is None for entry in entries)
    assert not bench.storage._cache.shares
    assert [len(bench.read(number, 0)) for number in range(QUEUES)] == [2_000] * QUEUES
    assert bench.cached <= 12_000


@pytest.mark.parametrize("cache_bytes", [0, 9_000, 10**6])
@settings(max_examples=tried(60))
@given(data=st.data())
def test_every_queue_reads_its_own_in_any_order_with_any_memory(cache_bytes: int, data: st.DataObject) -> None:
    def test() -> None:
        bench = Bench(cache_bytes)
        held: dict[int, dict[int, bytes]] = {number: {} for number in range(QUEUES)}
        entries: list[Any] = []
        for step in range(data.draw(st.integers(1, 40), label="steps")):
            kind = data.draw(st.sampled_from(["publish", "read", "read", "acknowledge", "again", "keep"]), label="kind")
            number = data.draw(st.integers(0, QUEUES - 1), label="queue")
            if kind == "publish":
                queues = data.draw(st.sets(st.integers(0, QUEUES - 1), min_size=1), label="queues")
                payload = b"%d" % step * data.draw(st.integers(1, 300), label="size")
                for queue in queues:
                    held[queue][bench.logs[queue].next_sequence] = payload
                bench.publish(sorted(queues), payload)
            elif kind == "again":
                entries.clear()
                bench = bench.again()
            elif held[number]:
                sequence = data.draw(st.sampled_from(sorted(held[number])), label="sequence")
                if kind == "acknowledge":
                    bench.acknowledge(number, sequence)
                    del held[number][sequence]
                else:
                    assert bench.read(number, sequence) == held[number][sequence]
                    if kind == "keep":
                        entries.append(bench.logs[number].table.at(sequence))
            assert bench.cached <= cache_bytes
        for queue, messages in held.items():
            for sequence, payload in messages.items():
                assert bench.read(queue, sequence) == payload
                bench.acknowledge(queue, sequence)
        assert bench.cached == 0
        assert not bench.storage._cache.shares

    run_in_virtual_time(_awaited(test))


async def _awaited(test: Any) -> None:
    test()


@in_loop
def test_what_a_deleted_queue_has_in_the_cache_leaves_as_batches_of_others_come() -> None:
    bench = Bench(10**6)
    batch = MessageBatch.from_payloads([bytes(100)])
    for _ in range(20):
        bench.store(3, batch)
        bench.publish([3, 4], bytes(200))
    bench.storage.delete(3)
    del bench.logs[3]
    for number in range(20):
        bench.acknowledge(4, number)
    for _ in range(40 // LEAVE_A_BATCH + 1):
        bench.store(5, batch)
    assert bench.cached == (40 // LEAVE_A_BATCH + 1) * weight(batch, 0)
    assert not bench.storage._cache._leaving
    assert not bench.storage._cache.shares


@in_loop
def test_queues_that_are_deleted_faster_than_batches_come_leave_nothing_behind() -> None:
    bench = Bench(10**6)
    batch = MessageBatch.from_payloads([b"one"])
    for _ in range(100):
        empty = bench.storage.declare("empty", None).number
        bench.storage.delete(empty)
    assert not bench.storage._cache._leaving, "what has nothing in the cache need not leave it"
    for number in range(QUEUES - 1):
        bench.store(number, batch)
        bench.storage.delete(number)
    for _ in range(4):
        bench.store(QUEUES - 1, batch)
    assert not bench.storage._cache._leaving
    assert bench.cached == 4 * weight(batch, 0)


def column(text: bytes) -> BinaryColumn:
    return BinaryColumn.from_values([text])


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
@in_loop
def test_the_cache_counts_about_what_single_messages_take_in_memory(columns: int) -> None:
    bench = Bench(10**9)

    def one(number: int) -> MessageBatch:
        text = b"%020d" % number
        keys, headers = (column(text) if at < columns else None for at in (1, 2))
        return MessageBatch(column(text), memoryview(text[-16:]) if columns > 3 else None, keys, headers)

    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        batches = [one(number) for number in range(2_000)]
        for batch in batches:
            bench.store(0, batch)
        del batches, batch
        bench.settle()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.7 < taken / bench.cached < 1.3
