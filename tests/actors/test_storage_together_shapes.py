"""Records of several queues on the disk: their shapes, versions, and any events in any order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.batch import MessageBatch
from actors.errors import StorageError
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
from actors.storage import codec, repair_storage, verify_storage
from actors.storage.together import decode_together, encode_all, encode_commit
from journal import Journal
from streams.testkit import run_in_virtual_time
from tests.actors.storage_lives import DATA, KEY, NAMES, Life, facts, in_loop
from tests.examples_tried import tried
from tests.fault.disk import SimulatedDisk

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


@settings(max_examples=tried(60), deadline=None)
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
                life.storage._gathered.write()
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
