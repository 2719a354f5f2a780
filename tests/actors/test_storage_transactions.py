"""Transactions in the journal: whole or not at all over all queues, whenever the process or the power goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgpack
import pytest

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.queue.state.log import QueueLog
from actors.queue.state.staged import MAX_WRITERS, CommittedVersions
from actors.queue.vocabulary.events import MessagesAdded, StagesDiscarded
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey, WriterVersion
from actors.storage import Storage
from actors.storage.after_repair import drop_lost
from actors.storage.codec import (
    decode,
    decode_added,
    decode_transaction,
    encode,
    encode_added,
    encode_transaction,
)
from actors.storage.snapshot import Snapshot, StoredQueue, decode_snapshot, encoded
from journal import JournalOptions, ManualCommitter
from streams.testkit import run_in_virtual_time
from tests.actors.driven import Confirm, Deliver, QueueState
from tests.fault.disk import ROOT, SimulatedDisk
from tests.simulation.storage import Death, MortalFiles

LARGE = 10**9
DATA = ROOT / "data"
QUEUES = ("left", "right")
VERSIONS = 4
SMALL: dict[str, Any] = {"segment_bytes": 16 * 1024, "checkpoint_bytes": 3_000, "checkpoint_records": 12}
"""A run of a few dozen records has checkpoints and several segments in it."""


@dataclass
class Life:
    """One process over a disk: a storage, its two queues, and a writer that stages in both, version by version.

    Attributes:
        confirmed: payloads of plain messages whose sender was told that they are stored.
        staged: payloads of the winners of a version whose every message was confirmed.
        asked: versions whose commit was begun.
        answered: versions whose commit was durable.
        acknowledged: payloads that were delivered and acknowledged.
    """

    disk: Any
    confirmed: set[bytes] = field(default_factory=set)
    staged: dict[int, set[bytes]] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    answered: set[int] = field(default_factory=set)
    acknowledged: set[bytes] = field(default_factory=set)

    def open(self) -> None:
        self.committer = ManualCommitter()
        self.storage = Storage.open(DATA, JournalOptions(**SMALL), files=self.disk, committer=self.committer)
        self.failures: list[StorageError] = []
        self.storage.start(self.failures.append)
        self.queues: dict[str, QueueState] = {}
        self.sent = dict.fromkeys(QUEUES, 0)
        known = {stored.name: stored for stored in self.storage.queues}
        for name in QUEUES:
            stored = known.get(name) or self.storage.declare(name, None)
            self.queues[name] = QueueState(
                name, stored.number, log=stored.log, record=self.recorder(stored.number), versions=self.storage.versions
            )
            self.queues[name].attach_sender("plain", None)
            self.queues[name].request_capacity("plain", 10**5, LARGE)
            self.queues[name].attach_receiver("r")

    def recorder(self, number: int) -> Any:
        return lambda event: self.storage.record(number, event)

    def sync(self) -> list[Any]:
        """Have everything durable; returns the effects that may go out for it."""
        self.committer.run()
        self.storage._advance()
        effects = [effect for queue in self.queues.values() for effect in queue.take_effects()]
        assert all(effect.after <= self.storage.durable for effect in effects)
        return effects

    def stage(self, queue: QueueState, key: StageKey, count: int, size: int) -> set[bytes]:
        """Stage ``count`` messages in two batches; returns those that are confirmed."""
        connection = f"stage {key}"
        facts = queue.attach_stage(connection, key, 0.0)
        queue.request_capacity(connection, LARGE, LARGE)
        payloads = [f"{queue.name}/{key.version}/{key.name}/{n}".encode().ljust(size, b".") for n in range(count)]
        rest = payloads[facts.messages :]
        for part in (rest[: len(rest) // 2], rest[len(rest) // 2 :]):
            if part:
                queue.send(connection, payloads.index(part[0]), MessageBatch.from_payloads(part), 0.0, 1_000_000)
        plain = MessageBatch.from_payloads([b"plain " + payloads[0]])
        queue.send("plain", self.sent[queue.name], plain, 0.0, 1_000_000)
        self.sent[queue.name] += 1
        confirms = [effect for effect in self.sync() if isinstance(effect, Confirm)]
        assert len(confirms) > 0
        self.confirmed.add(b"plain " + payloads[0])
        queue.detach(connection, 0.0)
        return set(payloads)

    def work(self) -> None:
        """Commit every version that is not: stage winners and losers in both queues, commit, take some of what comes."""
        for version in range(VERSIONS):
            if self.storage.versions.covers("w", version):
                continue
            wins: dict[int, list[str]] = {}
            won: set[bytes] = set()
            for queue in self.queues.values():
                for name in ("one", "two"):
                    won |= self.stage(queue, StageKey("w", version, name), 6, 90)
                    wins.setdefault(queue.number, []).append(name)
                self.stage(queue, StageKey("w", version, "loser"), 3, 90)
                if version % 2:
                    doomed = StageKey("aborted", version, "x")
                    self.stage(queue, doomed, 2, 90)
                    assert queue.discard_transaction("aborted", version, 0.0) == 2
            self.staged[version] = won
            self.asked.add(version)
            number, ended = self.storage.commit(WriterVersion("w", version), wins)
            for queue in self.queues.values():
                queue.end_stages(ended[queue.number], number, 0.0)
            self.sync()
            self.answered.add(version)
            for queue in self.queues.values():
                queue.receive("r", 5, LARGE, 0.0)
            for effect in self.sync():
                if isinstance(effect, Deliver):
                    self.acknowledged |= set(effect.batch.payloads)
                    queue = next(
                        q for q in self.queues.values() if effect.batch.payloads.tolist()[0] in self.payloads(q)
                    )
                    queue.acknowledge("r", [(effect.first, len(effect.batch))])

    @staticmethod
    def payloads(queue: QueueState) -> set[bytes]:
        """What the journal still has of a queue, whatever became of it."""
        found: set[bytes] = set()
        for start, stop in queue.log.acknowledged.gaps(0, queue.log.next_sequence):
            position = start
            while position < stop:
                entry = queue.log.table.at(position)
                assert entry is not None
                found |= set(entry.part(position, min(stop, entry.stop)).payloads)
                position = min(stop, entry.stop)
        return found

    def drained(self) -> list[tuple[str, int, bytes]]:
        """Everything that can be received, with its queue and number."""
        found: list[tuple[str, int, bytes]] = []
        for name, queue in self.queues.items():
            queue.receive("r", LARGE, LARGE, 0.0)
            for effect in queue.take_effects():
                if isinstance(effect, Deliver):
                    found += [(name, effect.first + i, payload) for i, payload in enumerate(effect.batch.payloads)]
        return found


def judge(before: Life, after: Life) -> set[int]:
    """Assert that a crash has left transactions whole; returns the versions that it left published."""
    found = after.drained()
    payloads = [payload for _, _, payload in found]
    assert len(payloads) == len(set(payloads)), "nothing twice"
    have = set(payloads)
    assert before.confirmed <= have | before.acknowledged
    assert not any(
        b"/loser/" in payload or b"aborted" in payload for payload in have if not payload.startswith(b"plain")
    )
    published = set()
    for version in range(VERSIONS):
        parts = {payload for payload in have if f"/{version}/".encode() in payload and not payload.startswith(b"plain")}
        if after.storage.versions.covers("w", version):
            published.add(version)
            assert parts >= before.staged[version] - before.acknowledged, "whole, in both queues"
        else:
            assert parts == set(), "not at all"
    assert before.answered <= published <= before.asked
    for name in QUEUES:
        numbers = [number for queue, number, _ in found if queue == name]
        assert numbers == sorted(numbers), "in place"
    return published


def test_a_transaction_is_whole_or_not_at_all_whenever_the_process_dies_or_the_power_goes() -> None:
    """Between any two calls of the disk: the next life finishes what the last one began, and everything is there once."""
    fates: list[set[int]] = []

    async def main() -> None:
        calls = 0
        while True:
            disk: Any = SimulatedDisk()
            files = MortalFiles(disk)
            life = Life(files)
            life.open()
            files.left = calls
            try:
                life.work()
                life.storage.close()
            except Death:
                pass
            else:
                assert calls > 100, "the whole of it takes a few hundred calls"
                return
            random = Random(calls)
            disk = disk.crash(random) if calls % 2 else disk.restart()
            again = Life(
                disk, life.confirmed, dict(life.staged), set(life.asked), set(life.answered), life.acknowledged
            )
            again.open()
            fates.append(judge(life, again))
            again.storage.close()
            # And the writer, which begins with the version that was not answered, comes to its end.
            disk = disk.restart()
            third = Life(disk, set(), {}, set(), set(), set(life.acknowledged))
            third.open()
            for queue in third.queues.values():
                queue.receive("r", 0, 0, 0.0)
            third.work()
            assert {version for version in range(VERSIONS) if third.storage.versions.covers("w", version)} == set(
                range(VERSIONS)
            )
            third.storage.close()
            calls += 1

    run_in_virtual_time(main())
    assert {len(fate) for fate in fates} == set(range(VERSIONS + 1)), "crashes before and after every commit"


def run_with_disk(test: Any) -> None:
    """Run a test of a life on a loop, which a storage tells what is durable."""

    async def main() -> None:
        life = Life(SimulatedDisk())
        life.open()
        test(life)

    run_in_virtual_time(main())


def reopened(life: Life) -> Life:
    """What the next process finds after a kill."""
    again = Life(life.disk.restart())
    again.open()
    return again


def test_a_stage_survives_checkpoints_and_restarts_and_is_committed_whole_after_them() -> None:
    def check(life: Life) -> None:
        left = life.queues["left"]
        key = StageKey("w", 0, "s")
        payloads = life.stage(left, key, 10, 40)
        for filler in range(40):
            life.stage(left, StageKey("filler", filler, "s"), 2, 300)
            left.discard_transaction("filler", filler, 0.0)
            life.sync()
        # Again and again, so that it is in a checkpoint, and its records in segments that were combined.
        again = reopened(reopened(life))
        log, recovered = left.log, again.queues["left"].log
        assert recovered.stages == log.stages
        assert recovered == log or recovered.stages[key].messages == 10
        number, ended = again.storage.commit(WriterVersion("w", 0), {left.number: ["s"]})
        again.queues["left"].end_stages(ended[left.number], number, 0.0)
        got = [payload for _, _, payload in again.drained() if not payload.startswith(b"plain")]
        assert set(got) == payloads
        assert len(got) == 10

    run_with_disk(check)


def test_a_commit_is_in_every_queues_log_in_the_instant_in_which_it_is_recorded() -> None:
    def check(life: Life) -> None:
        for queue in life.queues.values():
            life.stage(queue, StageKey("w", 5, "s"), 4, 40)
        wins = {queue.number: ["s"] for queue in life.queues.values()}
        life.storage.commit(WriterVersion("w", 5), wins)
        # A checkpoint now has it everywhere, though neither queue has acted on it yet.
        life.storage._checkpoints.make()
        life.storage._checkpoints._advance(whole=True)
        life.committer.run()
        again = reopened(life)
        assert again.storage.versions.of("w") == 5
        assert [queue.log.staged_messages for queue in again.queues.values()] == [0, 0]
        assert sum(not payload.startswith(b"plain") for _, _, payload in again.drained()) == 8

    run_with_disk(check)


def test_what_was_never_delivered_before_the_restart_is_not_called_possibly_replayed() -> None:
    def check(life: Life) -> None:
        life.stage(life.queues["left"], StageKey("w", 0, "s"), 4, 40)
        again = reopened(life)
        queue = again.queues["left"]
        queue.receive("r", 1, LARGE, 0.0)
        number, ended = again.storage.commit(WriterVersion("w", 0), {queue.number: ["s"]})
        queue.end_stages(ended[queue.number], number, 0.0)
        queue.receive("r", LARGE, LARGE, 0.0)
        replayed = {
            payload.startswith(b"plain"): effect.possibly_replayed
            for effect in queue.take_effects()
            if isinstance(effect, Deliver)
            for payload in effect.batch.payloads
        }
        assert replayed == {True: True, False: False}

    run_with_disk(check)


def test_the_disk_gets_back_the_room_of_what_was_discarded_and_keeps_what_is_staged() -> None:
    def check(life: Life) -> None:
        left = life.queues["left"]
        kept = life.stage(left, StageKey("w", 1, "kept"), 3, 500)
        for version in range(60):
            life.stage(left, StageKey("lost", version, "s"), 4, 1_000)
            left.discard_transaction("lost", version, 0.0)
        left.receive("r", LARGE, LARGE, 0.0)
        for effect in life.sync():
            if isinstance(effect, Deliver):
                left.acknowledge("r", [(effect.first, len(effect.batch))])
        for _ in range(4):
            life.storage._gathered.write()
            life.storage._checkpoints.reclaim()
            life.storage._checkpoints._advance(whole=True)
            life.committer.run()
        assert life.storage.statistics()["disk_bytes"] < 60 * 4 * 1_000 / 3
        number, ended = life.storage.commit(WriterVersion("w", 1), {left.number: ["kept"]})
        left.end_stages(ended[left.number], number, 0.0)
        assert {payload for _, _, payload in life.drained()} == kept

    run_with_disk(check)


def test_the_events_of_transactions_are_what_they_were_after_the_journal() -> None:
    stage = StageKey("writer", 2**40, "0-1-abcd")
    event = MessagesAdded(7, MessageBatch.from_payloads([b"a", b"bc"]), 5, (), 10, 20, stage)
    payload = memoryview(b"".join(bytes(part) for part in encode_added(event)))
    assert decode_added(7, 2, payload) == event
    discarded = StagesDiscarded((stage, StageKey("w", 0, "")), 99)
    kind, packed = encode(3, discarded)
    assert decode(kind, memoryview(packed)) == (3, discarded)
    packed = encode_transaction("writer", 12, {0: ["a", "b"], 5: ["c"]})
    assert decode_transaction(memoryview(packed)) == ("writer", 12, {0: ["a", "b"], 5: ["c"]})


@pytest.mark.parametrize("payload", [b"", b"\x93\x01", msgpack.packb([1, 2]), msgpack.packb(["w", 1, [[2]]])])
def test_a_transactions_record_that_is_none_is_refused(payload: bytes) -> None:
    with pytest.raises(StorageError, match="transaction"):
        decode_transaction(memoryview(payload))


def test_a_batch_that_is_not_staged_is_stored_as_it_was_before_there_were_stages() -> None:
    plain = MessagesAdded(0, MessageBatch.from_payloads([b"a"]), 5)
    payload = b"".join(bytes(part) for part in encode_added(plain))
    header = msgpack.unpackb(payload[2 : 2 + int.from_bytes(payload[:2], "little")])
    assert len(header) == 9


def log_with_stages() -> QueueLog:
    log = QueueLog()
    queue = QueueState("q", 4, QueueSettings(delay=5.0), log=log)
    for connection, key in (("a", StageKey("w", 1, "a")), ("b", StageKey("w", 2, "b")), ("c", StageKey("v", 1, "c"))):
        queue.attach_stage(connection, key, 0.0)
        queue.request_capacity(connection, 100, 10_000)
    for number, connection in enumerate("abcaab"):
        sequence = log.stages[StageKey("w", 1, "a")].messages if connection == "a" and number else 0
        sequence = {"a": sequence, "b": 2 * (number == 5), "c": 0}[connection]
        queue.send(connection, sequence, MessageBatch.from_payloads([b"x" * number] * 2), 0.0, number)
    queue.discard_transaction("v", 1, 1.0)
    return log


def test_a_checkpoint_has_stages_and_committed_versions() -> None:
    log = log_with_stages()
    versions = CommittedVersions([("old", 3), ("new", 0)])
    packed = b"".join(encoded(Snapshot(1, 5, [StoredQueue(4, "q", None, log)], versions)))
    again = decode_snapshot(packed, lambda _number, _levels: log.table)
    assert again.queues[0].log == log
    assert {key: stage.delayed for key, stage in again.queues[0].log.stages.items()} == {
        key: stage.delayed for key, stage in log.stages.items()
    }
    assert log.staged_messages == 10
    assert list(again.versions) == [("old", 3), ("new", 0)]


def test_a_checkpoint_of_the_version_before_is_read_and_one_of_a_newer_version_refused() -> None:
    log = QueueLog()
    fields = msgpack.unpackb(b"".join(encoded(Snapshot(1, 5, [StoredQueue(4, "q", None, log)], CommittedVersions()))))
    old = {**fields, "version": 1}
    del old["writers"]
    for key in ("stages", "total_discarded"):
        del old["queues"][0][key]
    again = decode_snapshot(msgpack.packb(old), lambda _number, _levels: log.table)
    assert (again.store_id, again.queues[0].log.stages, len(again.versions)) == (1, {}, 0)
    with pytest.raises(StorageError, match="version 9; this program knows version 8"):
        decode_snapshot(msgpack.packb({**fields, "version": 9}), lambda _number, _levels: log.table)


class LossyJournal:
    """A journal that has lost the records that begin with some numbers."""

    def __init__(self, log: QueueLog, lost: set[int]) -> None:
        self.log = log
        self.lost = lost

    def spans(self, _stream: int, start: int, stop: int) -> list[Any]:
        @dataclass
        class Located:
            first: int
            stop: int
            payload_bytes: int

        return [Located(*extent) for extent in self.log.table.extents(start, stop) if extent.first not in self.lost]


def test_after_a_repair_every_open_transaction_begins_anew_whatever_was_lost() -> None:
    log = log_with_stages()
    staged, discarded = log.staged_messages, log.total_discarded
    a, b = StageKey("w", 1, "a"), StageKey("w", 2, "b")
    journal: Any = LossyJournal(log, {log.stages[a].first})
    assert drop_lost(journal, 4, log)[0] == staged
    assert log.stages == {}
    assert (log.staged_messages, log.staged_bytes) == (0, 0)
    assert log.total_discarded == discarded + staged
    queue = QueueState("q", 1, log=log)
    for key in (a, b):
        # Its sender has heard of more, so it knows that the stage is gone and does not go on behind a hole.
        assert queue.attach_stage(key.name, key, 0.0).messages == 0


def test_only_so_many_writers_are_remembered_the_least_recently_committed_forgotten_first() -> None:
    versions = CommittedVersions()
    for number in range(MAX_WRITERS):
        versions.note(f"w{number}", 0, number)
    versions.note("w0", 1, 1)
    versions.note("more", 0, 2)
    assert len(versions) == MAX_WRITERS
    assert (versions.of("w0"), versions.of("w1"), versions.of("more")) == (1, None, 0)


def test_a_deleted_queues_stages_are_gone_and_what_others_hold_is_committed_all_the_same() -> None:
    def check(life: Life) -> None:
        left, right = life.queues.values()
        for queue in (left, right):
            life.stage(queue, StageKey("w", 0, "s"), 4, 40)
        life.storage.delete(left.number)
        number, ended = life.storage.commit(WriterVersion("w", 0), {left.number: ["s"], right.number: ["s"]})
        assert list(ended) == [right.number]
        right.end_stages(ended[right.number], number, 0.0)
        life.sync()
        again = reopened(life)
        assert again.queues["left"].number not in (left.number, right.number)
        assert sum(not payload.startswith(b"plain") for _, _, payload in again.drained()) == 4

    run_with_disk(check)
