"""Transactions over the queues of a broker, through its actors, with a journal and without."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from actors import MAX_ENLISTED, EnlistedStage, LoopActorRegistry, MessageBatch, QueueSettings, StageKey
from actors.errors import (
    InboxOverflowError,
    InvalidRequestError,
    QueueLimitError,
    StorageError,
    TransactionIncompleteError,
)
from actors.queue.queue_directory import QueueDirectory
from actors.queue.transactions import TELL_AGAIN
from actors.queue.vocabulary.commands import (
    AttachReceiver,
    AttachSender,
    DemandSignalled,
    EndStages,
    GetStatistics,
    Left,
    OfferBatch,
    RequestCapacity,
)
from actors.queue.vocabulary.replies import CapacityGranted, ReceivedMessages, Refused, SenderAttached, SentMessages
from actors.queue.vocabulary.stages import OpenTransaction
from actors.runtime.loop_future import ask
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.stored_queues import BrokenFiles, Connection, Ref, StoredQueues, durable, turns

TIMEOUT = 60.0


class MemoryBench:
    """A directory of queues in memory, with the same ways as the durable one."""

    def __init__(self) -> None:
        self.queues = QueueDirectory(QueueSettings(), lambda: 1_700_000_000.0, transaction_timeout=TIMEOUT)

    async def commit(self) -> None:
        await turns()

    async def close(self) -> None:
        await asyncio.gather(*(ref.stop(block=False) for ref in LoopActorRegistry.get_all()))


AnyBench = StoredQueues | MemoryBench


def everywhere(test: Callable[[Any], Coroutine[Any, Any, None]]) -> Callable[[Path, str], None]:
    """Run a test with a journal and without."""

    @pytest.mark.parametrize("kind", ["memory", "durable"])
    def run(tmp_path: Path, kind: str) -> None:
        async def main() -> None:
            bench: AnyBench = MemoryBench() if kind == "memory" else StoredQueues(tmp_path / "data")
            await test(bench)
            await bench.close()

        run_in_virtual_time(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def staged(
    bench: AnyBench, queue: str, name: str, *payloads: bytes, writer: str = "w", version: int = 0
) -> EnlistedStage:
    """Stage messages over a connection of their own, which leaves when they are confirmed."""
    told: list[Any] = []
    ref: Ref = Connection.start(told)
    actor = bench.queues.get_or_create(queue)
    actor.tell(AttachSender(None, StageKey(writer, version, name), connection=ref))
    actor.tell(RequestCapacity(1_000, 10**6, connection=ref))
    actor.tell(OfferBatch(0, MessageBatch.from_payloads(payloads), connection=ref))
    await turns()
    await bench.commit()
    assert [type(message) for message in told] == [SenderAttached, CapacityGranted, SentMessages]
    actor.tell(Left(connection=ref))
    await ref.stop(block=False)
    return EnlistedStage(queue, name, len(payloads))


async def answered(bench: AnyBench, answer: Awaitable[int]) -> int:
    task = asyncio.ensure_future(answer)
    await turns()
    await bench.commit()
    return await task


async def receiver(bench: AnyBench, queue: str) -> list[Any]:
    told: list[Any] = []
    ref: Ref = Connection.start(told)
    bench.queues.get_or_create(queue).tell(AttachReceiver(connection=ref))
    bench.queues.get_or_create(queue).tell(DemandSignalled(1_000, 8 * 2**20, connection=ref))
    await turns()
    return told


def payloads(told: list[Any]) -> list[bytes]:
    return [payload for message in told if isinstance(message, ReceivedMessages) for payload in message.batch.payloads]


@everywhere
async def test_one_commit_publishes_in_all_queues_and_is_answered_with_how_much(bench: AnyBench) -> None:
    stages = [await staged(bench, "a", "1", b"x", b"y"), await staged(bench, "b", "1", b"z")]
    loser = await staged(bench, "b", "2", b"z")
    left, right = await receiver(bench, "a"), await receiver(bench, "b")
    assert payloads(left) == payloads(right) == []
    assert await answered(bench, bench.queues.transactions.commit("w", 0, stages)) == 3
    assert (payloads(left), payloads(right)) == ([b"x", b"y"], [b"z"])
    assert loser.messages == 1
    statistics = await ask(bench.queues.get("b"), GetStatistics())
    assert (statistics.staged_messages, statistics.total_discarded) == (0, 1)


@everywhere
async def test_a_commit_that_is_repeated_changes_nothing_and_is_answered(bench: AnyBench) -> None:
    transactions = bench.queues.transactions
    stage = await staged(bench, "a", "1", b"x")
    assert await answered(bench, transactions.commit("w", 0, [stage, stage])) == 1
    assert await answered(bench, transactions.commit("w", 0, [stage])) == 0
    later = await staged(bench, "a", "1", b"y", version=7)
    assert await answered(bench, transactions.commit("w", 7, [later])) == 1
    assert await answered(bench, transactions.commit("w", 3, [EnlistedStage("nowhere", "1", 9)])) == 0
    assert transactions.last_version("w") == 7
    assert transactions.last_version("v") is None
    assert payloads(await receiver(bench, "a")) == [b"x", b"y"]


@everywhere
async def test_a_stage_that_is_not_there_whole_is_refused_and_nothing_has_changed(bench: AnyBench) -> None:
    transactions = bench.queues.transactions
    good, half = await staged(bench, "a", "1", b"x"), await staged(bench, "b", "1", b"y", b"z")
    for bad, numbers in (
        (half._replace(messages=3), "with 3 messages in queue 'b', which has 2 of it"),
        (half._replace(stage="2"), "stage '2' is committed with 2 messages in queue 'b', which has 0"),
        (half._replace(queue="c"), "queue 'c', which has 0"),
    ):
        with pytest.raises(TransactionIncompleteError, match=f"{numbers}.*stage the batch again") as raised:
            await transactions.commit("w", 0, [good, bad])
        assert (raised.value.code, raised.value.close) == ("transaction-incomplete", False)
    assert transactions.last_version("w") is None
    assert len(transactions.list()) == 1
    assert await answered(bench, transactions.commit("w", 0, [good, half])) == 3


@everywhere
async def test_a_stage_of_nothing_needs_not_to_be_there(bench: AnyBench) -> None:
    stage = await staged(bench, "a", "1", b"x")
    nothing = EnlistedStage("never-made", "2", 0)
    assert await answered(bench, bench.queues.transactions.commit("w", 0, [stage, nothing])) == 1
    assert await answered(bench, bench.queues.transactions.commit("w", 1, [])) == 0
    assert bench.queues.transactions.last_version("w") == 1


@everywhere
async def test_an_abort_discards_in_all_queues_and_leaves_what_is_committed(bench: AnyBench) -> None:
    transactions = bench.queues.transactions
    await staged(bench, "a", "1", b"x", b"y")
    await staged(bench, "b", "1", b"z")
    other = await staged(bench, "b", "1", b"other", writer="v")
    assert await answered(bench, transactions.abort("w", 0)) == 3
    assert await answered(bench, transactions.abort("w", 0)) == 0
    assert await answered(bench, transactions.commit("v", 0, [other])) == 1
    assert await answered(bench, transactions.abort("v", 0)) == 0
    assert payloads(await receiver(bench, "b")) == [b"other"]
    assert transactions.list() == []


@everywhere
async def test_open_transactions_are_listed_with_what_they_hold(bench: AnyBench) -> None:
    await staged(bench, "b", "1", b"x", b"y", version=2)
    await staged(bench, "a", "1", b"z", version=2)
    await staged(bench, "a", "2", b"z", version=2)
    await staged(bench, "a", "1", b"z", writer="v", version=9)
    found = bench.queues.transactions.list()
    assert [transaction._replace(bytes=0, queues=()) for transaction in found] == [
        OpenTransaction("v", 9, (), 1, 1, 0),
        OpenTransaction("w", 2, (), 3, 4, 0),
    ]
    assert sorted(found[1].queues) == ["a", "b"]
    statistics = [await ask(bench.queues.get(name), GetStatistics()) for name in "ab"]
    assert sum(transaction.bytes for transaction in found) == sum(facts.staged_bytes for facts in statistics)


@everywhere
async def test_what_a_deleted_queue_held_cannot_be_committed(bench: AnyBench) -> None:
    stages = [await staged(bench, "a", "1", b"x"), await staged(bench, "b", "1", b"y")]
    bench.queues.delete("b")
    await turns()
    with pytest.raises(TransactionIncompleteError, match="'b', which has 0"):
        await bench.queues.transactions.commit("w", 0, stages)
    bench.queues.get_or_create("b")
    with pytest.raises(TransactionIncompleteError):
        await bench.queues.transactions.commit("w", 0, stages)
    assert await answered(bench, bench.queues.transactions.commit("w", 0, stages[:1])) == 1


@everywhere
async def test_a_sender_of_a_losing_stage_hears_of_the_commit(bench: AnyBench) -> None:
    stage = await staged(bench, "a", "1", b"x")
    told: list[Any] = []
    ref: Ref = Connection.start(told)
    actor = bench.queues.get("a")
    actor.tell(AttachSender(None, StageKey("w", 0, "2"), connection=ref))
    await turns()
    assert told.pop() == SenderAttached(None)
    assert await answered(bench, bench.queues.transactions.commit("w", 0, [stage])) == 1
    assert [(message.code, message.close) for message in told] == [("transaction-committed", True)]
    actor.tell(AttachSender(None, StageKey("w", 0, "2"), connection=ref))
    await turns()
    assert told.pop() == SenderAttached(None, committed=True)
    actor.tell(OfferBatch(0, MessageBatch.from_payloads([b"late"]), connection=ref))
    await turns()
    assert [message.code for message in told if isinstance(message, Refused)] == ["transaction-committed"] * 2


@everywhere
async def test_names_and_numbers_that_cannot_be_are_refused(bench: AnyBench) -> None:
    transactions = bench.queues.transactions
    with pytest.raises(InvalidRequestError, match="version -1"):
        await transactions.commit("w", -1, [])
    with pytest.raises(InvalidRequestError, match="has a name"):
        await transactions.abort("", 0)
    with pytest.raises(QueueLimitError, match="MAX_ENLISTED"):
        await transactions.commit("w", 0, [EnlistedStage("a", "1", 1)] * (MAX_ENLISTED + 1))


@everywhere
async def test_a_queue_whose_inbox_is_full_is_told_of_the_commit_again(bench: AnyBench) -> None:
    stage = await staged(bench, "a", "1", b"x")
    told = await receiver(bench, "a")
    actor = bench.queues.get("a")
    tell = type(actor).tell
    refusals: list[Any] = []

    def full(ref: Ref, message: Any) -> None:
        if isinstance(message, EndStages) and not refusals:
            refusals.append(message)
            raise InboxOverflowError("a", 1)
        tell(ref, message)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(actor), "tell", full)
        assert await answered(bench, bench.queues.transactions.commit("w", 0, [stage])) == 1
    assert len(refusals) == 1
    assert payloads(told) == []
    await elapse(2 * TELL_AGAIN)
    await bench.commit()
    assert payloads(told) == [b"x"]


def test_a_stage_is_discarded_when_its_connection_has_been_away_for_the_timeout() -> None:
    async def main() -> None:
        bench = MemoryBench()
        stage = await staged(bench, "a", "1", b"x")
        await elapse(TIMEOUT - 1)
        assert len(bench.queues.transactions.list()) == 1
        await elapse(2)
        assert bench.queues.transactions.list() == []
        with pytest.raises(TransactionIncompleteError, match="transaction_timeout"):
            await bench.queues.transactions.commit("w", 0, [stage])
        await bench.close()

    run_in_virtual_time(main())


@durable
async def test_nobody_hears_of_a_commit_before_it_is_durable(directory: Path) -> None:
    bench = StoredQueues(directory)
    transactions = bench.queues.transactions
    first = await staged(bench, "a", "1", b"x", version=3)
    assert await answered(bench, transactions.commit("w", 3, [first])) == 1
    stage = await staged(bench, "a", "1", b"y", version=4)
    told = await receiver(bench, "a")
    zombie, late = await bench.connect(
        bench.queues.get("a"), lambda ref: AttachSender(None, StageKey("w", 4, "z"), connection=ref)
    )
    await bench.commit()
    late.clear()
    commit = asyncio.ensure_future(transactions.commit("w", 4, [stage]))
    again = asyncio.ensure_future(transactions.commit("w", 4, [stage]))
    await turns()
    _, newcomer = await bench.connect(
        bench.queues.get_or_create("b"), lambda ref: AttachSender(None, StageKey("w", 4, "n"), connection=ref)
    )
    elsewhere, sender = await bench.connect(
        bench.queues.get("a"), lambda ref: AttachSender(None, StageKey("w", 4, "m"), connection=ref)
    )
    bench.queues.get("a").tell(OfferBatch(0, MessageBatch.from_payloads([b"late"]), connection=elsewhere))
    bench.queues.get("a").tell(OfferBatch(0, MessageBatch.from_payloads([b"late"]), connection=zombie))
    await turns()
    assert not commit.done()
    assert not again.done()
    assert payloads(told) == [b"x"]
    assert (late, newcomer, sender) == ([], [], [])
    assert transactions.last_version("w") == 3
    await bench.commit()
    assert (await commit, await again) == (1, 0)
    assert payloads(told) == [b"x", b"y"]
    assert newcomer == [SenderAttached(None, committed=True)]
    assert [type(message) for message in sender] == [SenderAttached, Refused]
    # It was let go before it sent: what it hears first is why.
    assert [message.code for message in late] == ["transaction-committed", "protocol-error"]
    assert transactions.last_version("w") == 4
    assert zombie.is_alive()
    await bench.close()


@durable
async def test_committed_versions_and_stages_come_back_after_a_restart(directory: Path) -> None:
    bench = StoredQueues(directory)
    first = await staged(bench, "a", "1", b"x", version=3)
    assert await answered(bench, bench.queues.transactions.commit("w", 3, [first])) == 1
    second = await staged(bench, "a", "1", b"y", version=4)
    await bench.close()
    again = StoredQueues(directory)
    assert again.queues.transactions.last_version("w") == 3
    assert await answered(again, again.queues.transactions.commit("w", 3, [first])) == 0
    told = await receiver(again, "a")
    assert payloads(told) == [b"x"]
    _, attached = await again.connect(
        again.queues.get("a"), lambda ref: AttachSender(None, StageKey("w", 4, "1"), connection=ref)
    )
    assert attached == [SenderAttached(1)]
    assert await answered(again, again.queues.transactions.commit("w", 4, [second])) == 1
    assert payloads(told) == [b"x", b"y"]
    await again.close()


@durable
async def test_a_commit_that_cannot_be_made_durable_raises(directory: Path) -> None:
    files = BrokenFiles()
    bench = StoredQueues(directory, files=files)
    stage = await staged(bench, "a", "1", b"x")
    told = await receiver(bench, "a")
    files.broken = True
    with pytest.raises(StorageError):
        await answered(bench, bench.queues.transactions.commit("w", 0, [stage]))
    assert payloads(told) == []
    assert bench.queues.transactions.last_version("w") is None
    with pytest.raises(StorageError):
        await bench.queues.transactions.commit("w", 0, [stage])
    await bench.close()
