"""Records of several queues that are refused, or damaged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.errors import DiskBehindError, RecordTooLargeError, StorageError, TooMuchTogetherError
from actors.queue.vocabulary.events import (
    Event,
    MessagesAdded,
    QueuePurged,
)
from actors.queue.vocabulary.stages import WriterVersion
from actors.storage import storage as storage_module
from actors.storage import together
from streams.testkit import run_in_virtual_time
from tests.actors.storage_lives import Life, facts


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
