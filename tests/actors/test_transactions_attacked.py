"""What an attack on transactions has found: waits that nothing ended, and ends that a neighbour's fate turned into errors."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from actors import MessageBatch, QueueSettings, StageKey
from actors.errors import TransactionTooLargeError
from actors.queue.state.log import QueueLog
from actors.queue.state.staged import CommittedVersions, apply_commit
from actors.queue.vocabulary.commands import AttachSender, GetStatistics
from actors.queue.vocabulary.replies import Refused, SenderAttached
from actors.queue.vocabulary.settings import DEFAULT_TRANSACTION_TIMEOUT
from actors.runtime.loop_future import ask
from streams.testkit import run_in_virtual_time
from tests.actors.driven import GrantCapacity, QueueState
from tests.actors.stored_queues import Connection, StoredQueues, turns
from tests.actors.test_transactions import AnyBench, MemoryBench, Ref, answered, staged

US_PER_SECOND = 1_000_000
ONE, OTHER = StageKey("w", 0, "one"), StageKey("w", 0, "other")
SOMEBODY = StageKey("somebody", 0, "s")


def numbered(count: int) -> MessageBatch:
    return MessageBatch.from_payloads([b"%d" % number for number in range(count)])


def stage(queue: QueueState, key: StageKey, count: int, wall_us: int = 0) -> None:
    """Stage ``count`` messages over a connection with the stage's own name, which stays."""
    connection = f"{key.writer}/{key.name}"
    queue.attach_stage(connection, key, 0.0)
    queue.request_capacity(connection, count, 100_000)
    queue.send(connection, 0, numbered(count), 0.0, wall_us)
    queue.take_effects()


def granted(queue: QueueState) -> list[tuple[Any, int]]:
    return [(effect.sender, effect.messages) for effect in queue.take_effects() if isinstance(effect, GrantCapacity)]


def test_an_abort_counts_what_there_is_when_a_queue_is_deleted_before_its_part_is_durable(tmp_path: Path) -> None:
    async def main() -> None:
        bench = StoredQueues(tmp_path / "data")
        await staged(bench, "deleted", "s", b"a", b"b")
        await staged(bench, "kept", "s", b"c")
        abort = asyncio.ensure_future(bench.queues.transactions.abort("w", 0))
        await turns()
        bench.queues.delete("deleted")
        await turns()
        await bench.commit()
        assert await abort == 1
        assert bench.queues.transactions.list() == []
        await bench.close()

    run_in_virtual_time(main())


@pytest.mark.parametrize("kind", ["memory", "durable"])
def test_an_abort_lets_those_go_too_who_wait_where_nothing_is_staged_yet(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        bench: AnyBench = MemoryBench() if kind == "memory" else StoredQueues(tmp_path / "data")
        await staged(bench, "orders", "s", b"a")
        told: dict[int, list[Any]] = {0: [], 1: []}
        returns = bench.queues.get_or_create("returns")
        for version, heard in told.items():
            sibling: Ref = Connection.start(heard)
            returns.tell(AttachSender(None, StageKey("w", version, "sibling"), connection=sibling))
        await turns()
        await bench.commit()
        assert await answered(bench, bench.queues.transactions.abort("w", 0)) == 1
        await turns()
        await bench.commit()
        assert [type(message) for message in told[0]] == [SenderAttached, Refused]
        assert told[0][1].code == "transaction-incomplete"
        assert [type(message) for message in told[1]] == [SenderAttached], "another version's goes on"
        assert len((await ask(returns, GetStatistics())).connections) == 1
        await bench.close()

    run_in_virtual_time(main())


@pytest.mark.parametrize("others", [0, 1])
def test_room_for_staging_is_granted_as_soon_as_there_is_any_for_nothing_else_may_end_before(others: int) -> None:
    queue = QueueState("q", 1, QueueSettings(max_staged_messages=1_000))
    stage(queue, ONE, 900 - others)
    stage(queue, SOMEBODY, 100)
    for number in range(others):
        stage(queue, StageKey(f"w{number}", 0, "s"), 1)
    queue.request_capacity("w/one", 2, 1_000)
    assert granted(queue) == []
    # Not so much that a queue would reopen that was full of what receivers acknowledge.
    assert queue.discard_transaction("somebody", 0, 1.0) == 100
    assert granted(queue) == [("w/one", 2)]
    queue.send("w/one", 900 - others, numbered(2), 1.0, 0)
    assert queue.log.stages[ONE].messages == 902 - others


def test_a_transaction_that_is_larger_than_limits_that_were_lowered_is_refused_and_not_kept_waiting() -> None:
    log = QueueLog()
    queue = QueueState("q", 1, QueueSettings(max_staged_messages=1_000), log=log)
    for key, count in ((ONE, 300), (OTHER, 600), (SOMEBODY, 50)):
        stage(queue, key, count)
    queue = QueueState("q", 1, QueueSettings(max_staged_messages=200), log=log)
    queue.attach_stage("w/other", OTHER, 0.0)
    queue.attach_stage("somebody/s", SOMEBODY, 0.0)
    queue.tick(DEFAULT_TRANSACTION_TIMEOUT)
    assert set(log.stages) == {OTHER, SOMEBODY}
    queue.request_capacity("w/other", 1, 1_000)
    assert granted(queue) == [("w/other", 1)]
    with pytest.raises(TransactionTooLargeError, match="max_staged_messages"):
        queue.send("w/other", 600, numbered(1), DEFAULT_TRANSACTION_TIMEOUT, 0)


@pytest.mark.parametrize(("set_to", "ready_at"), [(990, 15.0), (500, 15.0), (1_004, 11.0), (1_020, 5.0)])
def test_what_is_published_waits_no_longer_than_its_delay_though_the_time_of_day_went_back(
    set_to: int, ready_at: float
) -> None:
    log, settings = QueueLog(), QueueSettings(delay=10.0)
    stage(QueueState("q", 1, settings, log=log, wall_us=1_000 * US_PER_SECOND), ONE, 2, 1_000 * US_PER_SECOND)
    versions = CommittedVersions()
    queue = QueueState("q", 1, settings, log=log, now=5.0, wall_us=set_to * US_PER_SECOND, versions=versions)
    ended = apply_commit({1: log}, versions, "w", 0, {1: ["one"]}, 0)[1]
    queue.end_stages(ended, 0, 5.0)
    queue.tick(ready_at - 0.001)
    assert queue.statistics(ready_at).ready == (2 if ready_at == 5.0 else 0)
    queue.tick(ready_at)
    assert queue.statistics(ready_at).ready == 2
