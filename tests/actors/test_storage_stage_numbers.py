"""The numbers of a stage that is written through an exchange survive a restart, and nothing else is stored otherwise than before."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from actors.batch import MessageBatch
from actors.queue.state.log import QueueLog
from actors.queue.state.staged import CommittedVersions
from actors.queue.vocabulary.events import MessagesAdded, StagesDiscarded
from actors.queue.vocabulary.stages import StageKey, StageNumbers
from actors.storage import codec
from actors.storage.snapshot import Snapshot, StoredQueue, decode_snapshot, encoded

KEY = StageKey("w", 3, "s")
BATCH = MessageBatch.from_payloads([b"a", b"b"])


def items_of(event: MessagesAdded) -> list[Any]:
    """What a record says of a batch beside it."""
    header = bytes(codec.encode_added(event)[0])
    items: list[Any] = msgpack.unpackb(header[2:])
    return items


def checkpoint_of(log: QueueLog) -> bytes:
    return b"".join(encoded(Snapshot(1, 5, [StoredQueue(4, "q", None, log)], CommittedVersions())))


@pytest.mark.parametrize("temporary", [(), (("p", 3),)], ids=["alone", "with-temporary"])
@pytest.mark.parametrize("numbers", [None, StageNumbers(7, 5)], ids=["without", "with"])
def test_a_staged_batch_comes_back_with_its_numbers(numbers: StageNumbers | None, temporary: Any) -> None:
    event = MessagesAdded(5, BATCH, 9, (), 0, None, KEY, temporary, numbers)
    payload = memoryview(b"".join(codec.encode_added(event)))
    assert codec.decode_added(5, 2, payload) == event


def test_a_stage_of_one_queues_own_sender_is_recorded_as_ever_and_one_with_numbers_is_refused_by_older_programs() -> (
    None
):
    assert items_of(MessagesAdded(5, BATCH, 9, stage=KEY))[-1] == ["w", 3, "s"]
    numbered = items_of(MessagesAdded(5, BATCH, 9, stage=KEY, numbers=StageNumbers(7, 5)))[-1]
    with pytest.raises(TypeError):
        # As they read it; it is their "record of messages 5 to 6 cannot be decoded".
        StageKey(*numbered)


def test_a_checkpoint_has_the_numbers_and_is_of_a_newer_version_only_while_there_are_some() -> None:
    log = QueueLog()
    log.apply(MessagesAdded(0, BATCH, 9, stage=KEY))
    assert msgpack.unpackb(checkpoint_of(log))["version"] == 2
    routed = KEY._replace(name="t")
    log.apply(MessagesAdded(2, BATCH, 9, stage=routed, numbers=StageNumbers(4, 2)))
    log.apply(MessagesAdded(4, BATCH, 9, stage=routed, numbers=StageNumbers(9, 6)))
    packed = checkpoint_of(log)
    assert msgpack.unpackb(packed)["version"] == 5
    again = decode_snapshot(packed, lambda _number, _levels: log.table).queues[0].log
    assert again == log
    assert (again.stages[KEY].numbers, again.stages[routed].numbers) == (None, StageNumbers(9, 6))
    log.apply(StagesDiscarded((routed,), log.next_sequence))
    assert msgpack.unpackb(checkpoint_of(log))["version"] == 2
