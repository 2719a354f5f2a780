"""Events of several queues are one record: all of it happens or none, in every queue at once, and the disk has what it had for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.batch import MessageBatch
from actors.errors import DiskBehindError, RecordTooLargeError, StorageError, TooMuchTogetherError
from actors.queue.state.log import QueueLog
from actors.queue.state.staged import ended_stages
from actors.queue.vocabulary.events import (
    Event,
    MessagesAcknowledged,
    MessagesAdded,
    MessagesMoved,
    QueuePurged,
    StagesEnded,
    SubscriptionOwned,
)
from actors.queue.vocabulary.stages import StageKey, WriterVersion
from actors.storage import Storage, codec, repair_storage, together, verify_storage
from actors.storage import storage as storage_module
from actors.storage.snapshot import COUNTERS
from actors.storage.together import decode_together, encode_all, encode_commit
from journal import Journal, JournalOptions, ManualCommitter
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
        known = {queue.name for queue in self.storage.queues}
        for name in NAMES:
            if name not in known and len(known) < len(NAMES):
                self.storage.declare(name, None)
        self.logs: dict[int, QueueLog] = {queue.number: queue.log for queue in self.storage.queues}

    def run(self) -> None:
        self.committer.run()
        self.storage._advance()
        assert not self.failures

    def checkpoint(self) -> None:
        self.storage._write_acknowledged()
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


def in_loop(test: Callable[[], None]) -> Callable[[], None]:
    """Run a test on a loop, which a storage tells what is durable."""

    def run() -> None:
        async def main() -> None:
            test()

        run_in_virtual_time(main())

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


@in_loop
def test_what_goes_into_several_queues_is_in_all_of_them_in_one_instant_and_after_a_start() -> None:
    life = Life()
    batch = MessageBatch.from_payloads([b"1", b"2"])
    before = life.storage._journal.next_lsn
    lsn = life.storage.record_all({n: MessagesAdded(0, batch, 1_000_000) for n in range(3)})
    assert lsn == before
    assert life.storage._journal.next_lsn == before + 1, "one record"
    assert [life.held(n) for n in range(3)] == [[b"1", b"2"]] * 3
    life.run()
    assert life.storage.durable == lsn
    again = life.killed()
    assert [life.held(n) for n in range(3)] == [[b"1", b"2"]] * 3
    assert [facts(log) for log in again.logs.values()] == [facts(log) for log in life.logs.values()]
    after = again.closed()
    assert [after.held(n) for n in range(3)] == [[b"1", b"2"]] * 3
    assert [facts(log) for log in after.logs.values()] == [facts(log) for log in life.logs.values()]


@in_loop
def test_every_queue_counts_its_messages_as_if_they_were_recorded_alone() -> None:
    life, alone = Life(), Life()
    batch = MessageBatch.from_payloads([b"1", b"2"])
    life.storage.record_all({n: MessagesAdded(0, batch, 1_000_000) for n in range(3)})
    for n in range(3):
        alone.record(n, MessagesAdded(0, batch, 1_000_000))
    life.run()
    for run in (life, life.killed()):
        assert [facts(log) for log in run.logs.values()] == [facts(log) for log in alone.logs.values()]
        sizes = [run.storage._journal.locate(n, 0) for n in range(3)]
        assert sizes == [alone.storage._journal.locate(n, 0) for n in range(3)]
    again = life.killed()
    for n in range(3):
        again.record(n, MessagesAcknowledged(((0, 2),)))
    assert [(log.stored_messages, log.stored_batches, log.stored_bytes) for log in again.logs.values()] == [
        (0, 0, 0)
    ] * 3


@in_loop
def test_what_several_queues_get_alike_is_stored_once_and_what_differs_for_each() -> None:
    life = Life()
    batch = MessageBatch.from_payloads([bytes(5_000)])
    life.run()
    life.storage.record_all({n: MessagesAdded(0, batch, 1_000_000) for n in range(3)})
    assert life.storage.statistics()["pending_bytes"] < 6_000
    life.run()
    life.storage.record_all({n: MessagesAdded(1, batch, 1_000_000, ttl_us=1 + n // 2) for n in range(3)})
    assert 10_000 < life.storage.statistics()["pending_bytes"] < 11_000
    life.run()
    again = life.killed()
    entry = again.logs[2].table.at(1)
    assert entry is not None
    assert bytes(entry.batch.payloads[0]) == bytes(5_000)


@in_loop
def test_a_write_that_is_torn_anywhere_leaves_it_in_no_queue() -> None:
    life = Life(segment_bytes=4096, reserve_bytes=0)
    for n in range(3):
        life.record(n, life.added(n, b"before"))
    life.record(0, life.added(0, b"staged", stage=KEY))
    life.run()
    events: dict[int, Event] = {
        0: MessagesMoved(((0, 1),)),
        1: life.added(1, b"one"),
        2: life.added(2, b"two", b"three"),
    }
    life.storage.record_all(events)
    life.run()
    (path,) = [
        DATA / name for name in life.disk.names(DATA) if name.endswith(".segment") and name.startswith("0" * 19)
    ][-1:]
    life.storage._journal.abandon()
    disk = life.disk.restart()
    file = disk.open(path)
    whole = disk.read(file, disk.size(file), 0)
    disk.close(file)
    end = len(whole.rstrip(b"\0"))
    for cut in (*range(48, end), end):
        torn = disk.restart()
        file = torn.open(path, write=True)
        torn.truncate(file, cut)
        torn.sync(file)
        torn.close(file)
        after = Life(torn, segment_bytes=4096, reserve_bytes=0)
        held = [after.held(n) for n in range(3)]
        if cut == end:
            assert held == [[], [b"before", b"one"], [b"before", b"two", b"three"]]
        else:
            assert held == [[b"before"]] * 3
        after.storage._journal.abandon()


@in_loop
def test_a_checkpoint_has_it_in_every_queue_whatever_the_queues_have_made_of_it() -> None:
    life = Life()
    life.storage.record_all({n: life.added(n, b"x") for n in range(3)})
    life.checkpoint()
    again = life.killed()
    assert [again.held(n) for n in range(3)] == [[b"x"]] * 3
    assert again.storage._journal.checkpoint_payload is not None


@in_loop
def test_it_is_kept_on_the_disk_as_long_as_one_queue_wants_it_and_then_given_back() -> None:
    life = Life(segment_bytes=16 * 1024, spare_segments=0, reserve_bytes=0)
    batches = 40
    for number in range(batches):
        batch = MessageBatch.from_payloads([b"%d" % number + bytes(2_000)])
        life.storage.record_all({n: MessagesAdded(number, batch, 1) for n in range(3)})
        life.run()
    full = life.storage.statistics()["disk_bytes"]
    assert full < 2 * batches * 2_000 + 32 * 1024, "it is there once"
    for n in (0, 2):
        life.record(n, MessagesAcknowledged(((0, batches),)))
    for _ in range(3):
        life.checkpoint()
    assert [life.held(n) for n in (0, 2)] == [[], []]
    assert [payload.rstrip(b"\0") for payload in life.held(1)] == [b"%d" % number for number in range(batches)]
    life.record(1, MessagesAcknowledged(((0, 30),)))
    for _ in range(4):
        life.checkpoint()
    assert life.storage.statistics()["disk_bytes"] < full / 2
    assert len(life.held(1)) == 10
    again = life.closed()
    assert len(again.held(1)) == 10
    again.storage.close()
    assert verify_storage(DATA, again.disk) == []


@in_loop
def test_a_queue_that_was_deleted_gets_nothing_and_then_nobody_does() -> None:
    life = Life()
    for n in range(3):
        life.record(n, life.added(n, b"x"))
    gets: dict[int, Event] = {0: MessagesMoved(((0, 1),)), 1: life.added(1, b"y")}
    loses: dict[int, Event] = {1: MessagesMoved(((0, 1),)), 2: life.added(2, b"z")}
    life.storage.delete(1)
    before = life.storage._journal.next_lsn
    assert life.storage.record_all(gets) == 0
    assert life.storage._journal.next_lsn == before
    assert life.held(0) == [b"x"]
    assert life.storage.record_all(loses) == before, "what it would have lost is another's all the same"
    life.run()
    for run in (life, life.killed()):
        assert run.held(0) == [b"x"]
        assert run.held(2) == [b"x", b"z"]


@in_loop
def test_a_start_after_a_repair_keeps_messages_whose_new_queue_nobody_knows() -> None:
    life = Life()
    life.record(0, life.added(0, b"x"))
    batch = MessageBatch.from_payloads([b"x"])
    events = {0: MessagesMoved(((0, 1),)), 2: life.added(2, b"y"), 9: MessagesAdded(0, batch, 1)}
    life.storage._contents.apply(events, None, 7)
    assert (life.held(0), life.logs[2].next_sequence) == ([b"x"], 1)


@in_loop
def test_nothing_is_no_record() -> None:
    life = Life()
    before = life.storage._journal.next_lsn
    assert life.storage.record_all({}) == 0
    assert life.storage._journal.next_lsn == before


def refused(
    error: type[Exception], events: Mapping[int, Event], life: Life, version: WriterVersion | None = None
) -> Any:
    """Nothing happens, in no queue."""
    before = [facts(log) for log in life.logs.values()]
    lsn, segments = life.storage._journal.next_lsn, life.storage.statistics()["segments"]
    with pytest.raises(error) as caught:
        life.storage.record_all(events, version)
    assert [facts(log) for log in life.logs.values()] == before
    assert (life.storage._journal.next_lsn, life.storage.statistics()["segments"]) == (lsn, segments)
    assert list(life.storage.versions) == []
    assert not life.failures
    return caught.value


def test_more_queues_or_bytes_than_one_record_may_hold_are_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        life = Life()
        events: dict[int, Event] = {n: life.added(n, bytes(1_000) + b"%d" % n) for n in range(3)}
        monkeypatch.setattr(together, "MAX_TOGETHER_QUEUES", 2)
        error = refused(TooMuchTogetherError, events, life)
        assert (error.what, error.size, error.limit, error.code) == ("queues", 3, 2, "limit-exceeded")
        monkeypatch.setattr(together, "MAX_TOGETHER_QUEUES", 3)
        monkeypatch.setattr(together, "MAX_TOGETHER_BYTES", 3_000)
        error = refused(TooMuchTogetherError, events, life, WriterVersion("w", 1))
        assert (error.what, error.limit) == ("bytes", 3_000)
        assert 3_000 < error.size < 3_300
        refused(RecordTooLargeError, {0: life.added(0, b"x", producers=(("p" * 70_000, 1),)), 1: events[1]}, life)
        monkeypatch.setattr(together, "MAX_TOGETHER_BYTES", error.size)
        assert life.storage.record_all(events, WriterVersion("w", 1))

    run_in_virtual_time(main())


def test_messages_are_refused_while_the_disk_is_too_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        life = Life()
        life.run()
        monkeypatch.setattr(storage_module, "PENDING_HIGH_BYTES", 1_000)
        monkeypatch.setattr(storage_module, "MAX_PENDING_BYTES", 2_000)
        behind: list[bool] = []
        life.storage.on_behind = behind.append
        events: list[dict[int, Event]] = []
        for first in range(3):
            events.append({n: MessagesAdded(first, MessageBatch.from_payloads([bytes(400)]), 1) for n in range(3)})
            if first < 2:
                life.storage.record_all(events[first])
                assert behind == [True]
        refused(DiskBehindError, events[2], life)
        # What is no message is taken all the same.
        life.storage.record_all({0: QueuePurged(((0, 1),)), 1: QueuePurged(((0, 1),))})
        life.run()
        assert behind == [True, False]
        assert life.storage.record_all(events[2])

    run_in_virtual_time(main())


def test_a_journal_that_takes_nothing_more_ends_the_broker() -> None:
    async def main() -> None:
        life = Life(max_pending_bytes=2_000)
        life.run()
        life.storage.record_all(
            {n: MessagesAdded(0, MessageBatch.from_payloads([bytes(800) + b"%d" % n]), 1) for n in (0, 1)}
        )
        with pytest.raises(StorageError):
            life.storage.record_all(
                {n: MessagesAdded(1, MessageBatch.from_payloads([bytes(800) + b"%d" % n]), 1) for n in (0, 1)}
            )
        assert len(life.failures) == 1
        assert life.logs[0].next_sequence == 1

    run_in_virtual_time(main())


# --- the shapes on the disk

DEAD_LETTERS = bytes.fromhex(
    "180099ce000f424000ce039387000ac2c0c09092039407080a0b00000000040000000a000000646561646c6574746572"
)
COMMIT = bytes.fromhex("93a67772697465720c92920092a161a162920591a163")
"""What the version before has recorded of dead letters that leave queue 3, and of a transaction over the queues 0 and 5."""


def dead_letters() -> dict[int, Event]:
    batch = MessageBatch.from_payloads([b"dead", b"letter"])
    return {
        1: MessagesAdded(5, batch, 1_000_000, ttl_us=60_000_000),
        3: MessagesMoved(((7, 8), (10, 11))),
    }


@pytest.mark.parametrize("turned", [False, True])
def test_a_dead_letters_way_is_the_record_that_it_always_was(turned: bool) -> None:
    events = dead_letters()
    encoded = encode_all(dict(reversed(events.items())) if turned else events, None)
    assert (encoded.kind, encoded.held[0][:3]) == (codec.ADDED, (1, 5, 2))
    assert b"".join(bytes(part) for part in encoded.parts[0]) == DEAD_LETTERS
    assert codec.decode_stored(5, 2, memoryview(DEAD_LETTERS)) == (events[1], (3, events[3]))


def test_a_commit_is_the_record_that_it_always_was() -> None:
    keys = {0: [StageKey("writer", 12, "a"), StageKey("writer", 12, "b"), StageKey("writer", 11, "old")]}
    keys |= {5: [StageKey("writer", 12, "c")], 7: [StageKey("writer", 12, "lost")], 8: [StageKey("other", 1, "x")]}
    logs = {number: QueueLog() for number in keys}
    for number, stages in keys.items():
        for first, key in enumerate(stages):
            logs[number].apply(MessagesAdded(first, MessageBatch.from_payloads([b"x"]), 1, stage=key))
    winners = {0: ["a", "b"], 5: ["c"]}
    events = ended_stages(logs, "writer", 12, winners)
    assert sorted(events) == [0, 5, 7]
    encoded = encode_commit(events, WriterVersion("writer", 12))
    assert (encoded.kind, encoded.other) == (codec.TRANSACTION_COMMITTED, COMMIT)
    assert codec.decode_transaction(memoryview(COMMIT)) == ("writer", 12, winners)
    # Whatever happens in the same instant beside a commit, that kind does not say it.
    assert encode_all({**events, 9: QueuePurged(((0, 1),))}, WriterVersion("writer", 12)).kind == codec.TOGETHER
    assert encode_all({0: events[0]}, WriterVersion("writer", 12)).kind == codec.TOGETHER


@in_loop
def test_one_event_alone_is_the_record_that_it_always_was() -> None:
    kinds = []
    for all_at_once in (True, False):
        life = Life()
        for event in (life.added(1, b"x"), QueuePurged(((0, 1),))):
            if all_at_once:
                life.storage.record_all({1: event})
            else:
                life.record(1, event)
        life.run()
        life.storage._journal.abandon()
        journal = Journal.open(DATA, files=life.disk.restart())
        kinds.append([(record.kind, bytes(record.payload)) for record in journal.replay()][-2:])
    assert kinds[0] == kinds[1]
    assert [kind for kind, _ in kinds[0]] == [codec.ADDED, codec.PURGED]


@pytest.mark.parametrize(
    "payload", [b"", b"\0" * 7, b"\1" + b"\0" * 31, b"\0" * 4 + b"\1\0\0\0\xc1", b"\0" * 4 + b"\1\0\0\0\x90"]
)
def test_a_record_of_several_queues_that_is_none_is_refused(payload: bytes) -> None:
    with pytest.raises(StorageError, match="several queues cannot be decoded"):
        decode_together(memoryview(payload))


# --- versions


@in_loop
def test_a_version_is_committed_in_the_same_instant_with_whatever_happens() -> None:
    life = Life()
    life.record(0, life.added(0, b"staged", stage=KEY))
    life.record(1, life.added(1, b"old"))
    ended = ended_stages(life.logs, "w", 3, {0: ["s"]})
    events = {**ended, 1: MessagesMoved(((0, 1),)), 2: life.added(2, b"old")}
    number = life.storage.record_all(events, WriterVersion("w", 3))
    assert life.storage.versions.last_event == number
    life.run()
    for run in (life, life.killed(), life.killed().closed()):
        assert [run.held(n) for n in range(3)] == [[b"staged"], [], [b"old"]]
        assert list(run.storage.versions) == [("w", 3)]
        assert run.logs[0].stages == {}


@in_loop
def test_a_writers_last_version_never_goes_back() -> None:
    life = Life()
    for version in (2, 1):
        life.storage.record_all({0: life.added(0, b"x"), 1: life.added(1, b"x")}, WriterVersion("w", version))
    life.run()
    for run in (life, life.killed()):
        assert list(run.storage.versions) == [("w", 2)]


@in_loop
def test_a_commit_without_a_stage_is_remembered() -> None:
    life = Life()
    number, ended = life.storage.commit(WriterVersion("w", 3), {})
    assert ended == {}
    assert number
    life.run()
    assert list(life.killed().storage.versions) == [("w", 3)]


# --- damage


def damaged(closed: bool) -> SimulatedDisk:
    """The disk of a run with a dozen records of three queues, of which the sixth is damaged."""
    life = Life(segment_bytes=4096, reserve_bytes=0)
    for number in range(12):
        life.storage.record_all({n: life.added(n, b"%d/%d" % (n, number) + bytes(200)) for n in range(3)})
        life.run()
    if closed:
        life.storage.close()
    else:
        life.storage._journal.abandon()
    disk = life.disk.restart()
    for name in disk.names(DATA):
        if name.endswith(".segment"):
            file = disk.open(DATA / name, write=True)
            at = disk.read(file, disk.size(file), 0).find(b"1/5\0")
            if at >= 0:
                disk.write(file, [b"X"], at)
                disk.sync(file)
            disk.close(file)
    return disk


@pytest.mark.parametrize("closed", [False, True])
def test_one_that_is_damaged_is_lost_to_all_its_queues_and_each_says_how_much(
    closed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        disk = damaged(closed)
        assert len(verify_storage(DATA, disk)) == 1
        assert repair_storage(DATA, disk)
        after = Life(disk.restart())
        for n in range(3):
            kept = [k for k in range(12) if k != 5]
            assert [payload.rstrip(b"\0") for payload in after.held(n)] == [b"%d/%d" % (n, k) for k in kept]
            sizes = [after.storage._journal.locate(n, k) for k in kept]
            log = after.logs[n]
            assert (log.stored_messages, log.stored_batches) == (11, 11)
            assert log.stored_bytes == sum(
                size.payload_bytes + log.table.overhead for size in sizes if size is not None
            )
            assert f"1 messages of queue {NAMES[n]} are lost with records that were damaged" in caplog.messages

    run_in_virtual_time(main())


# --- anything, in any order


KINDS = st.sampled_from(["added", "alike", "acknowledged", "moved", "purged", "owned"])
STEPS = st.lists(st.tuples(st.dictionaries(st.integers(0, 2), KINDS), st.sampled_from(["", "run", "kill", "check"])))


def event_of(kind: str, queue: int, alike: MessageBatch, step: int, start: int, stop: int) -> Event:
    """An event of a queue whose next number is ``stop``."""
    match kind:
        case "added":
            return MessagesAdded(stop, MessageBatch.from_payloads([b"%d" % queue]), 1, ((f"p{queue}", stop + 1),))
        case "alike":
            return MessagesAdded(stop, alike, 1)
        case "acknowledged":
            return MessagesAcknowledged(((start, stop),))
        case "moved":
            return MessagesMoved(((start, stop),))
        case "purged":
            return QueuePurged(((start, stop),))
    return SubscriptionOwned("sub", step + 1, 0, None)


def sums(log: QueueLog) -> dict[str, Any]:
    """What a queue in memory has too: that counts its bytes in another way."""
    return {name: value for name, value in facts(log).items() if name != "stored_bytes"}


@settings(max_examples=60, deadline=None)
@given(STEPS, st.data())
def test_any_events_of_any_queues_are_what_they_are_one_by_one_and_after_a_start(
    steps: list[tuple[dict[int, str], str]], data: st.DataObject
) -> None:
    async def main() -> None:
        small: dict[str, Any] = {"segment_bytes": 4096, "reserve_bytes": 0}
        life = Life(**small)
        model = {n: QueueLog() for n in range(3)}
        for step, (kinds, then) in enumerate(steps):
            events: dict[int, Event] = {}
            alike = MessageBatch.from_payloads([b"step %d" % step] * 2)
            for n, kind in kinds.items():
                stop = model[n].next_sequence
                events[n] = event_of(kind, n, alike, step, data.draw(st.integers(0, stop)), stop)
            life.storage.record_all(events, WriterVersion("w", step) if step % 3 == 0 else None)
            for n, event in events.items():
                model[n].apply(event)
            if then:
                life.storage._write_acknowledged()
                life.run()
            if then == "check":
                life.checkpoint()
            if then == "kill":
                life = life.killed(**small)
            assert [sums(log) for log in life.logs.values()] == [sums(log) for log in model.values()]
            assert life.storage.versions.of("w") == step // 3 * 3
        again = life.closed()
        assert [len(again.held(n)) for n in range(3)] == [log.stored_messages for log in model.values()]
        again.storage.close()
        assert verify_storage(DATA, again.disk) == []

    run_in_virtual_time(main())


@in_loop
def test_a_stage_that_ended_is_not_there_to_end_again() -> None:
    life = Life()
    life.record(0, life.added(0, b"staged", stage=KEY))
    events = {0: StagesEnded((KEY,), (), 1), 1: life.added(1, b"x")}
    life.storage.record_all(events)
    before = [facts(log) for log in life.logs.values()]
    for n, event in events.items():
        life.logs[n].apply(event, 99)
    assert [facts(log) for log in life.logs.values()] == before
