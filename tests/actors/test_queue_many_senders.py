"""Thousands of senders that meet in one turn of the loop, and records that are too large or come too fast for the disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.errors import DiskBehindError, RecordTooLargeError, StorageError
from actors.queue.state.capacity import GRANTED_AT_ONCE
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.events import (
    Event,
    MessagesAcknowledged,
    MessagesAdded,
    MessagesReturned,
    QueuePurged,
    StagesDiscarded,
)
from actors.queue.vocabulary.settings import MAX_STAGE_NAME, MAX_STAGES, QueueSettings
from actors.queue.vocabulary.stages import StageKey
from actors.runtime.loop_ref import LoopActorRef
from actors.storage import Storage, codec, storage_options
from actors.storage import storage as storage_module
from journal import ManualCommitter
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.driven import Confirm, GrantCapacity, QueueState, Refuse
from tests.actors.stored_queues import Connection, StoredQueues, turns

PLENTY = 10**5
PRODUCERS = 3_000
LONG_NAME = 255


def name_of(number: int) -> str:
    return f"{number:06}".ljust(LONG_NAME, "n")


def batch(*payloads: bytes) -> MessageBatch:
    return MessageBatch.from_payloads(payloads or (b"x",))


def recording(queue_settings: QueueSettings | None = None) -> tuple[QueueState, list[Event]]:
    """A queue whose recorder refuses what the journal's codec refuses."""
    events: list[Event] = []

    def record(event: Event) -> int:
        if isinstance(event, MessagesAdded):
            codec.encode_added(event)
        events.append(event)
        return len(events)

    return QueueState("q", 0, queue_settings, record=record), events


def sender(queue: QueueState, connection: object, producer: str | None) -> None:
    queue.attach_sender(connection, producer)
    queue.request_capacity(connection, 100, PLENTY)


def test_three_thousand_producers_with_long_names_meet_in_one_turn_and_all_are_confirmed() -> None:
    queue, events = recording()
    for number in range(PRODUCERS):
        sender(queue, number, name_of(number))
    queue.take_effects()
    for number in range(PRODUCERS):
        queue.accept(number, 0, batch())
    queue.store(0.0, 1)
    confirmed = [effect for effect in queue.take_effects() if isinstance(effect, Confirm)]
    assert [effect.sender for effect in confirmed] == list(range(PRODUCERS))
    assert [effect.first for effect in confirmed] == list(range(PRODUCERS))
    assert len(queue.log.producers) == PRODUCERS
    assert len(events) < PRODUCERS // 50, "they are still joined, a hundred and more to a record"


def test_what_senders_leave_who_go_at_once_is_granted_once_to_the_many_who_wait() -> None:
    """Each that left had all others be granted a little: as a connection with 2,047 channels ended, the loop was held for 8 s."""
    queue, _ = recording(QueueSettings(max_messages=255))
    for number in range(100):
        sender(queue, number, None)
    queue.take_effects()
    holders = [number for number in range(100) if queue.senders[number].permits.messages > 1]
    assert sum(queue.senders[number].permits.messages for number in holders) == 255
    assert len(queue.capacity.waiting) > GRANTED_AT_ONCE
    for number in holders:
        queue.detach(number, 1.0)
    assert queue.take_effects() == []
    assert queue.next_deadline() == 1.0
    queue.tick(1.0)
    granted = [effect for effect in queue.take_effects() if isinstance(effect, GrantCapacity)]
    assert len({effect.sender for effect in granted}) == 97
    assert sum(effect.messages for effect in granted) == 255 - 97
    assert queue.next_deadline() is None


def test_a_producer_counts_once_in_a_record_however_many_of_its_batches_are_in_it() -> None:
    queue, events = recording()
    sender(queue, "s", name_of(0))
    queue.request_capacity("s", 10_000, 10**7)
    for number in range(4_000):
        queue.accept("s", number, batch())
    queue.store(0.0, 1)
    assert len(events) == 1


def test_a_record_that_is_too_large_refuses_its_batch_and_the_queue_goes_on() -> None:
    queue, events = recording()
    sender(queue, "good", "g")
    sender(queue, "bad", "b" * 70_000)
    queue.take_effects()
    queue.accept("good", 0, batch(b"1"))
    queue.accept("bad", 0, batch(b"2"))
    queue.accept("bad", 1, batch(b"3"))
    queue.accept("bad", 0, batch(b"2"))
    queue.accept("good", 1, batch(b"4"))
    queue.store(0.0, 1)
    effects = queue.take_effects()
    confirmed = [(effect.sender, effect.up_to, effect.first) for effect in effects if isinstance(effect, Confirm)]
    assert confirmed == [("good", 1, 0), ("good", 2, 1)]
    (refused,) = [effect for effect in effects if isinstance(effect, Refuse)]
    assert (refused.connection, refused.code, refused.close) == ("bad", RecordTooLargeError.code, True)
    assert len(events) == 2
    assert [connection.connection for connection in queue.statistics(0.0).connections] == ["good"]


@pytest.mark.parametrize("staged", [False, True])
def test_a_batch_that_the_disk_is_too_slow_for_is_refused_and_nothing_of_it_is_left(staged: bool) -> None:
    behind = False

    def record(_event: Event) -> int:
        if behind:
            raise DiskBehindError(2, 1)
        return 1

    queue = QueueState("q", 0, record=record)
    if staged:
        queue.attach_stage("s", StageKey("w", 1, "stage"), 0.0)
    else:
        queue.attach_sender("s", "producer")
    queue.request_capacity("s", 100, PLENTY)
    queue.accept("s", 0, batch())
    behind = True
    before = queue.statistics(0.0)
    queue.store(0.0, 1)
    effects = queue.take_effects()
    assert [type(effect) for effect in effects if not hasattr(effect, "messages")] == [Refuse]
    after = queue.statistics(0.0)
    assert after.stored_messages == before.stored_messages == 0
    assert not after.connections
    behind = False
    # It comes again and says the same.
    if staged:
        assert queue.attach_stage("t", StageKey("w", 1, "stage"), 1.0).messages == 0
    else:
        assert queue.attach_sender("t", "producer") is None
    queue.request_capacity("t", 100, PLENTY)
    queue.accept("t", 0, batch())
    queue.store(1.0, 1)
    assert [effect.up_to for effect in queue.take_effects() if isinstance(effect, Confirm)] == [1]


@pytest.mark.parametrize(
    "event",
    [
        MessagesAcknowledged(tuple((2 * i, 2 * i + 1) for i in range(100_000))),
        MessagesReturned(tuple((2 * i, 2 * i + 1, 1) for i in range(100_000))),
        QueuePurged(tuple((2 * i, 2 * i + 1) for i in range(100_000))),
        StagesDiscarded(tuple(StageKey("w" * MAX_STAGE_NAME, i, f"{i:0255}") for i in range(10_000)), 1),
    ],
    ids=lambda event: type(event).__name__,
)
def test_records_whose_size_depends_on_clients_come_back_however_large_they_are(event: Event) -> None:
    kind, payload = codec.encode(7, event)
    assert codec.decode(kind, memoryview(payload)) == (7, event)


def test_the_largest_commit_of_a_transaction_fits_one_record() -> None:
    names = [f"{number:0{MAX_STAGE_NAME}}" for number in range(MAX_STAGES // 10)]
    payload = codec.encode_transaction("w" * MAX_STAGE_NAME, 1, {1: names})
    assert codec.decode_transaction(memoryview(payload)) == ("w" * MAX_STAGE_NAME, 1, {1: names})
    # Ten times as many, and four bytes a character, stay below the gigabyte that a record can have.
    assert len(payload) * 10 * 4 < 2**30


async def attached(queue: LoopActorRef[Any], producer: str | None) -> tuple[LoopActorRef[Any], list[Any]]:
    told: list[Any] = []
    ref: LoopActorRef[Any] = Connection.start(told)
    queue.tell(commands.AttachSender(producer, connection=ref))
    queue.tell(commands.RequestCapacity(100, PLENTY, connection=ref))
    return ref, told


def test_when_more_waits_for_the_disk_than_may_wait_the_batch_is_refused_and_the_broker_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_module, "PENDING_HIGH_BYTES", 5_000)
    monkeypatch.setattr(storage_module, "MAX_PENDING_BYTES", 20_000)

    async def main() -> None:
        stored = StoredQueues(tmp_path / "data", options=storage_options())
        queue = stored.queues.get_or_create("q")
        connections = [await attached(queue, name_of(number)) for number in range(4)]
        for ref, _ in connections:
            queue.tell(commands.OfferBatch(0, batch(b"x" * 9_000), None, None, connection=ref))
            await turns()
        # Declarations and the rest are not refused for what messages take.
        stored.queues.declare("other", QueueSettings(max_messages=5))
        await stored.commit()
        refused = [item for _, told in connections for item in told if isinstance(item, replies.Refused)]
        assert [item.code for item in refused] == ["limit-exceeded"]
        assert not stored.failures
        assert queue.is_alive()
        confirmed = [item for _, told in connections for item in told if isinstance(item, replies.SentMessages)]
        assert [item.first for item in confirmed] == [0, 1, 2]
        again, told = await attached(queue, name_of(3))
        queue.tell(commands.OfferBatch(0, batch(b"y"), None, None, connection=again))
        await stored.settled()
        assert [item.first for item in told if isinstance(item, replies.SentMessages)] == [3]
        await stored.close()

    run_in_virtual_time(main())


def test_acknowledgements_wait_for_room_in_the_journal_and_the_broker_lives(tmp_path: Path) -> None:
    async def main() -> None:
        committer = ManualCommitter()
        failures: list[StorageError] = []
        options = storage_options(max_pending_bytes=10_000)
        storage = Storage.open(tmp_path / "data", options, committer=committer).start(failures.append)
        committer.run()
        number = storage.declare("q", None).number
        committer.run()
        # What was appended fills the journal but for less than the record of acknowledgements takes.
        storage.record(number, MessagesAdded(0, batch(b"x" * 9_900), 1))
        storage.record(number, MessagesAcknowledged(tuple((2 * i, 2 * i + 1) for i in range(100))))
        before = storage.statistics()["next_lsn"]
        await elapse(1.0)
        assert storage.statistics()["next_lsn"] == before
        committer.run()
        await elapse(1.0)
        assert storage.statistics()["next_lsn"] == before + 1
        assert not failures
        storage.close()

    run_in_virtual_time(main())
