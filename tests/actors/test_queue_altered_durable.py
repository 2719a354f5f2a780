"""Other settings of a queue are recorded before it goes on with them, answered when that is durable, and hold for its successors."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors.errors import InvalidRequestError, StorageError
from actors.queue.directory_errors import QueueNotFoundError
from actors.queue.queue_actor import QueueActor
from actors.queue.vocabulary.settings import QueueSettings
from actors.runtime.loop_future import ask
from tests.actors.stored_queues import BrokenFiles, StoredQueues, durable, turns

BEFORE = QueueSettings(max_messages=5)


def altering(bench: StoredQueues, name: str, **changed: Any) -> asyncio.Future[QueueSettings]:
    change = bench.queues.alter(name, changed)
    return asyncio.ensure_future(ask(bench.queues.get(name), change))


@durable
async def test_a_change_is_answered_when_it_is_durable_and_holds_after_a_restart(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("q", BEFORE)
    await bench.settled()
    answer = altering(bench, "q", max_messages=9, ttl=3.0)
    await turns()
    assert not answer.done()
    assert bench.queues.settings_of("q").max_messages == 9
    await bench.commit()
    assert await answer == QueueSettings(max_messages=9, ttl=3.0)
    bench.storage._journal.abandon()
    again = StoredQueues(folder)
    assert again.queues.settings_of("q") == QueueSettings(max_messages=9, ttl=3.0)
    await again.close()


@durable
async def test_a_change_that_was_not_durable_when_the_broker_died_has_not_happened(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("q", BEFORE)
    await bench.settled()
    answer = altering(bench, "q", max_messages=9)
    await turns()
    assert not answer.done()
    answer.cancel()
    bench.storage._journal.abandon()
    again = StoredQueues(folder)
    assert again.queues.settings_of("q") == BEFORE
    await again.close()


@durable
async def test_a_queue_that_had_the_brokers_settings_keeps_all_of_its_own_whatever_those_come_to_be(
    folder: Path,
) -> None:
    bench = StoredQueues(folder, QueueSettings(max_messages=7))
    bench.queues.get_or_create("q")
    bench.queues.get_or_create("other")
    answer = altering(bench, "q", delay=2.0)
    await bench.settled()
    await answer
    await bench.close()
    again = StoredQueues(folder, QueueSettings(max_messages=8))
    assert again.queues.settings_of("q") == QueueSettings(max_messages=7, delay=2.0)
    assert again.queues.settings_of("other").max_messages == 8
    await again.close()


@durable
async def test_a_queue_that_failed_for_good_is_altered_and_its_successor_has_the_settings(folder: Path) -> None:
    bench = StoredQueues(folder)
    queue = bench.queues.declare("q", BEFORE)
    for _ in range(QueueActor.max_restarts + 1):
        queue.tell(object())
    await queue.stopped()
    answer = altering(bench, "q", max_messages=9)
    await bench.settled()
    assert (await answer).max_messages == 9
    await bench.close()


@durable
async def test_a_change_that_cannot_be_recorded_has_not_happened(folder: Path) -> None:
    files = BrokenFiles()
    bench = StoredQueues(folder, files=files)
    bench.queues.declare("q", BEFORE)
    await bench.settled()
    files.broken = True
    answer = altering(bench, "q", max_messages=9)
    await bench.settled()
    with pytest.raises(StorageError):
        bench.queues.alter("q", {"max_messages": 10})
    assert bench.queues.settings_of("q").max_messages == 9
    assert not answer.done()
    files.broken = False
    await bench.close()
    with pytest.raises(Exception, match="stopped before its answer was durable"):
        await answer
    again = StoredQueues(folder)
    assert again.queues.settings_of("q") == BEFORE
    await again.close()


@durable
async def test_what_cannot_be_altered_is_refused_and_nothing_is_recorded(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("q", BEFORE)
    await bench.settled()
    before = bench.storage.statistics()["next_lsn"]
    for name, changed, error in (
        ("missing", {"delay": 1.0}, QueueNotFoundError),
        ("q", {"exclusive": True}, InvalidRequestError),
        ("q", {"durable": False}, InvalidRequestError),
        ("q", {"dead_letter_queue": "q", "ttl": 1.0}, InvalidRequestError),
        ("q", {"max_messages": 0}, ValueError),
    ):
        with pytest.raises(error):
            bench.queues.alter(name, changed)
    assert bench.storage.statistics()["next_lsn"] == before
    assert bench.queues.settings_of("q") == BEFORE
    await bench.close()
