"""A transaction that goes with its connection publishes to several queues and settles in several, by one record: all of it or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from actors.batch import Message, MessageBatch
from actors.errors import QueueLimitError, StageGoneError, StorageError, UnknownAcknowledgementError
from actors.limits import NO_DEADLINE
from actors.queue import passing_transactions
from actors.queue.distribution import SYNCED_BYTES
from actors.queue.passing_transactions import PassingTransaction, TransactionRejectedError
from actors.queue.state.staged import CommittedVersions
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.distributed import Settlement
from actors.queue.vocabulary.settings import REJECT, QueueSettings
from actors.storage import Storage, codec
from actors.storage.contents import _APPLY
from streams.testkit import elapse
from tests.actors.publishing_bench import LARGE, Client, client, defined, received, receiver, stager
from tests.actors.stored_queues import Ref, StoredQueues, durable, turns

DEAD = QueueSettings(max_receives=1_000, dead_letter_queue="dead")
FULL = QueueSettings(max_messages=3, overflow=REJECT)


def keyed(*keys: bytes) -> MessageBatch:
    return MessageBatch.from_messages([Message(key + b"!", key) for key in keys])


async def bench_of(folder: Path | None, again: bool = False, **made: QueueSettings) -> StoredQueues:
    """Queues behind the topic exchange ``x``, each bound by its own name."""
    bench = StoredQueues(folder)
    if not again:
        decide = bench.queues.exchanges.exchanges.decide
        await defined(bench, decide.declare("x", "topic"))
        for queue, settings in made.items():
            bench.queues.declare(queue, settings)
            await defined(bench, decide.bind("x", queue, f"#.{queue}.#"))
    return bench


async def settled(bench: StoredQueues) -> None:
    await (turns() if bench._storage is None else bench.settled())


class Holder:
    """One that receives without a deadline, and what it holds."""

    def __init__(self, bench: StoredQueues, queue: str, ref: Ref, told: list[Any]) -> None:
        self.bench, self.queue, self.ref, self.told = bench, queue, ref, told
        self.number = bench.queues.number_of(queue)

    @property
    def payloads(self) -> list[bytes]:
        return received(self.told)

    def settlement(
        self, acknowledged: Iterable[int] = (), refused: Iterable[int] = (), returned: Iterable[int] = ()
    ) -> Settlement:
        """Of messages by the queue's numbers."""
        ranges = [tuple((at, at + 1) for at in sorted(each)) for each in (acknowledged, refused, returned)]
        return Settlement(self.queue, self.number, self.ref, *ranges, "rejected")


async def holder(bench: StoredQueues, queue: str, messages: int = 100) -> Holder:
    ref, told = await bench.connect(
        bench.queues.get(queue),
        lambda ref: commands.AttachReceiver(connection=ref, told_visibility=NO_DEADLINE),
        lambda ref: commands.DemandSignalled(messages, LARGE, connection=ref),
    )
    await settled(bench)
    return Holder(bench, queue, ref, told)


async def filled(bench: StoredQueues, queue: str, count: int) -> None:
    """Messages that are there before."""
    publisher = await client(bench, "x", None)
    publisher.send(keyed(*[queue.encode() + b".%d" % each for each in range(count)]))
    await settled(bench)
    await publisher.ref.stop(block=False)


async def staging(bench: StoredQueues, transaction: PassingTransaction) -> Client:
    return await stager(bench, transaction.stage())


def ready(bench: StoredQueues, queue: str) -> int:
    return bench.queues.find(queue).ready


async def receivable(bench: StoredQueues, name: str) -> list[bytes]:
    ref, told = await receiver(bench, name)
    await settled(bench)
    await ref.stop(block=False)
    await turns()
    return received(told)


@durable
async def test_a_commit_publishes_and_settles_in_all_queues_by_one_record(folder: Path) -> None:
    for place in (folder, None):
        bench = await bench_of(place, a=QueueSettings(), b=DEAD)
        await filled(bench, "a", 2)
        await filled(bench, "b", 3)
        from_a, from_b = await holder(bench, "a"), await holder(bench, "b")
        transaction = bench.queues.passing.begin()
        writer = await staging(bench, transaction)
        writer.send(keyed(b"a", b"a.b", b"none"))
        await turns()
        before = None if place is None else bench.storage._journal.next_lsn
        number = transaction.commit([from_a.settlement([0], returned=[1]), from_b.settlement([0], [1], [2])])
        if before is not None:
            assert bench.storage._journal.next_lsn == before + 1
            assert number == before
        logs = bench.queues.logs()
        assert not any(log.stages for log in logs.values())
        assert [logs[name].total_acknowledged for name in "ab"] == [1, 1]
        await settled(bench)
        # What came back is there again, before what was published; what was refused is a dead letter.
        assert from_a.payloads == [b"a.0!", b"a.1!", b"a.1!", b"a!", b"a.b!"]
        assert from_b.payloads == [b"b.0!", b"b.1!", b"b.2!", b"b.2!", b"a.b!"]
        assert await receivable(bench, "dead") == [b"b.1!"]
        await bench.close()


@durable
async def test_a_receiver_that_leaves_right_behind_the_commit_gives_back_nothing_that_is_settled(folder: Path) -> None:
    for place in (folder, None):
        bench = await bench_of(place, b=DEAD)
        await filled(bench, "b", 4)
        from_b = await holder(bench, "b")
        # It says so first, and the queue hears it behind the commit.
        bench.queues.get("b").tell(commands.Left(connection=from_b.ref))
        bench.queues.passing.begin().commit([from_b.settlement([0], [1], [2])])
        await settled(bench)
        assert await receivable(bench, "b") == [b"b.2!", b"b.3!"]
        assert await receivable(bench, "dead") == [b"b.1!"]
        await bench.close()


@durable
async def test_nothing_is_seen_of_a_transaction_before_it_is_durable(folder: Path) -> None:
    bench = await bench_of(folder, a=QueueSettings(), b=QueueSettings())
    await filled(bench, "b", 1)
    from_a, from_b = await holder(bench, "a"), await holder(bench, "b")
    transaction = bench.queues.passing.begin()
    writer = await staging(bench, transaction)
    writer.send(keyed(b"a"))
    await settled(bench)
    assert from_a.payloads == []
    number = transaction.commit([from_b.settlement([0])])
    told = asyncio.ensure_future(transaction.durable(number))
    await turns()
    assert not told.done()
    assert from_a.payloads == []
    await bench.commit()
    assert told.done()
    assert from_a.payloads == [b"a!"]
    await bench.close()


@durable
async def test_what_little_is_staged_is_synced_with_its_commit_and_no_sooner(folder: Path) -> None:
    bench = await bench_of(folder, a=QueueSettings(), b=QueueSettings())
    transaction = bench.queues.passing.begin()
    writer = await staging(bench, transaction)
    recorded = bench.storage._journal._append
    with mock.patch.object(bench.storage._journal, "_append", side_effect=recorded) as appends:
        writer.send(keyed(b"a"))
        writer.send(keyed(b"a.b"))
        await turns()
        writer.send(MessageBatch.from_messages([Message(b"!" * SYNCED_BYTES, b"a.b")]))
        await turns()
        transaction.commit([])
    lazy = [call.args[-1] for call in appends.call_args_list]
    assert lazy == [True, True, False, False]
    await settled(bench)
    assert writer.confirmed == [1, 2, 3]
    assert [ready(bench, name) for name in "ab"] == [3, 2]
    await bench.close()


@durable
async def test_after_a_crash_all_of_a_commit_is_there_or_nothing(folder: Path) -> None:
    for kept in (False, True):
        place = folder / str(kept)
        bench = await bench_of(place, a=QueueSettings(), b=DEAD)
        await filled(bench, "a", 1)
        await filled(bench, "b", 2)
        from_a, from_b = await holder(bench, "a"), await holder(bench, "b")
        transaction = bench.queues.passing.begin()
        writer = await staging(bench, transaction)
        writer.send(keyed(b"a.b"))
        await settled(bench)
        transaction.commit([from_a.settlement([0]), from_b.settlement([0], [1])])
        if kept:
            bench.committer.run()
        await bench.die()
        bench = await bench_of(place, again=True)
        await settled(bench)
        assert not any(log.stages for log in bench.queues.logs().values())
        assert await receivable(bench, "a") == ([b"a.b!"] if kept else [b"a.0!"])
        assert await receivable(bench, "b") == ([b"a.b!"] if kept else [b"b.0!", b"b.1!"])
        assert await receivable(bench, "dead") == ([b"b.1!"] if kept else [])
        await bench.close()


@durable
async def test_an_older_program_refuses_a_directory_with_a_commit_that_settles(folder: Path) -> None:
    bench = await bench_of(folder, a=QueueSettings())
    await filled(bench, "a", 1)
    from_a = await holder(bench, "a")
    transaction = bench.queues.passing.begin()
    transaction.commit([from_a.settlement([0])])
    bench.committer.run()
    await bench.die()
    older = {kind: apply for kind, apply in _APPLY.items() if kind != codec.IN_TURN}
    with (
        mock.patch("actors.storage.contents._APPLY", older),
        pytest.raises(StorageError, match="unknown kind 39: this directory was written by a newer version"),
    ):
        Storage.open(folder)


@durable
async def test_a_transaction_without_settlements_or_publishes_is_recorded_where_it_has_something(folder: Path) -> None:
    bench = await bench_of(folder, a=QueueSettings())
    before = bench.storage._journal.next_lsn
    assert bench.queues.passing.begin().commit([]) == 0
    await filled(bench, "a", 1)
    from_a = await holder(bench, "a")
    before = bench.storage._journal.next_lsn
    assert bench.queues.passing.begin().commit([from_a.settlement(returned=[0])]) == 0
    assert bench.storage._journal.next_lsn == before
    await settled(bench)
    assert from_a.payloads == [b"a.0!", b"a.0!"]
    await bench.close()


@durable
async def test_what_is_rolled_back_is_nowhere_and_its_sender_stores_nothing_more(folder: Path) -> None:
    for place in (folder, None):
        bench = await bench_of(place, a=QueueSettings(), b=QueueSettings())
        await filled(bench, "a", 1)
        from_a = await holder(bench, "a")
        transaction = bench.queues.passing.begin()
        writer, other = await staging(bench, transaction), await staging(bench, transaction)
        writer.send(keyed(b"a", b"b"))
        other.send(keyed(b"a.b"))
        await settled(bench)
        # It is on its way, and comes behind the end.
        writer.send(keyed(b"a"))
        transaction.roll_back()
        transaction.roll_back()
        await settled(bench)
        assert not any(log.stages for log in bench.queues.logs().values())
        assert bench.queues.exchanges.publishing._stages._stages == {}
        assert from_a.payloads == [b"a.0!"]
        # What it held it holds.
        assert bench.queues.state("a").leases.in_flight == 1  # type: ignore[union-attr]  # it is there
        assert [ready(bench, name) for name in "ab"] == [0, 0]
        await bench.close()


@durable
async def test_a_sender_that_comes_behind_the_end_of_its_transaction_stages_nothing_and_nothing_is_left_of_it(
    folder: Path,
) -> None:
    bench = await bench_of(folder, a=QueueSettings())
    for ends in (PassingTransaction.roll_back, lambda each: each.commit([])):
        transaction = bench.queues.passing.begin()
        key = transaction.stage()
        ends(transaction)
        writer = await stager(bench, key)
        writer.send(keyed(b"a"))
        await settled(bench)
        assert [code for code, _ in writer.errors] == ["transaction-incomplete"]
        await writer.ref.stop(block=False)
        assert bench.queues.logs()["a"].stages == {}
        assert bench.queues.exchanges.publishing._stages._stages == {}
    await bench.close()


@durable
async def test_a_start_discards_what_was_staged_for_a_connection(folder: Path) -> None:
    bench = await bench_of(folder, a=QueueSettings(), b=QueueSettings())
    transaction = bench.queues.passing.begin()
    writer = await staging(bench, transaction)
    writer.send(keyed(b"a.b"))
    await settled(bench)
    await bench.die()
    for _ in range(2):
        bench = await bench_of(folder, again=True)
        assert not any(log.stages for log in bench.queues.logs().values())
        assert bench.queues.logs()["a"].total_discarded == 1
        await settled(bench)
        assert await receivable(bench, "a") == []
        await bench.die()


@durable
async def test_a_stage_stays_when_its_sender_is_gone_until_the_transaction_is_over(folder: Path) -> None:
    bench = await bench_of(folder, a=QueueSettings())
    from_a = await holder(bench, "a")
    transaction = bench.queues.passing.begin()
    writer = await staging(bench, transaction)
    writer.send(keyed(b"a"))
    await settled(bench)
    await writer.ref.stop(block=False)
    await elapse(10 * 3_600)
    transaction.commit([])
    await settled(bench)
    assert from_a.payloads == [b"a!"]
    await bench.close()


@durable
async def test_a_full_queue_that_rejects_has_nothing_of_the_transaction_happen(folder: Path) -> None:
    for place in (folder, None):
        bench = await bench_of(place, a=QueueSettings(), b=FULL)
        await filled(bench, "a", 1)
        await filled(bench, "b", 3)
        from_a, from_b = await holder(bench, "a"), await holder(bench, "b")
        transaction = bench.queues.passing.begin()
        writer = await staging(bench, transaction)
        writer.send(keyed(b"a", b"b", b"b"))
        await settled(bench)
        assert not writer.errors
        with pytest.raises(
            TransactionRejectedError, match="queue 'b' is full: 2 of max_messages 3 messages are stored, and the 2 "
        ):
            transaction.commit([from_a.settlement([0]), from_b.settlement([0])])
        assert bench.queues.state("b").total_rejected == 2  # type: ignore[union-attr]  # it is there
        assert bench.queues.logs()["a"].total_acknowledged == 0
        # There is room in the place of what it acknowledges.
        transaction.commit([from_a.settlement([0]), from_b.settlement([0, 1])])
        await settled(bench)
        assert from_a.payloads == [b"a.0!", b"a!"]
        assert from_b.payloads == [b"b.0!", b"b.1!", b"b.2!", b"b!", b"b!"]
        await bench.close()


@durable
async def test_what_a_receiver_does_not_hold_fails_the_commit_and_nothing_happens(folder: Path) -> None:
    bench = await bench_of(folder, a=QueueSettings())
    await filled(bench, "a", 2)
    from_a = await holder(bench, "a", messages=1)
    transaction = bench.queues.passing.begin()
    writer = await staging(bench, transaction)
    writer.send(keyed(b"a"))
    await settled(bench)
    before = bench.storage._journal.next_lsn
    for unheld in (from_a.settlement([0, 1]), from_a.settlement([0], [1]), from_a.settlement(returned=[7])):
        with pytest.raises(UnknownAcknowledgementError):
            transaction.commit([unheld])
    assert bench.storage._journal.next_lsn == before
    transaction.commit([from_a.settlement([0])])
    await bench.close()


@durable
async def test_a_queue_that_was_deleted_keeps_nothing_of_a_transaction_from_the_others(folder: Path) -> None:
    for place in (folder, None):
        bench = await bench_of(place, a=QueueSettings(), b=QueueSettings())
        await filled(bench, "b", 1)
        from_a, from_b = await holder(bench, "a"), await holder(bench, "b")
        transaction = bench.queues.passing.begin()
        writer = await staging(bench, transaction)
        writer.send(keyed(b"a.b"))
        await settled(bench)
        bench.queues.delete("b")
        bench.queues.declare("b", QueueSettings())
        transaction.commit([from_b.settlement([0])])
        await settled(bench)
        assert from_a.payloads == [b"a.b!"]
        assert ready(bench, "b") == 0
        await bench.close()


@durable
async def test_a_queue_that_has_lost_what_it_held_fails_the_commit(folder: Path) -> None:
    bench = await bench_of(None, a=QueueSettings(), b=QueueSettings())
    from_a = await holder(bench, "a")
    transaction = bench.queues.passing.begin()
    writer = await staging(bench, transaction)
    writer.send(keyed(b"a.b"))
    await turns()
    await bench.queues.get("b").stop(block=False)
    bench.queues.get("b")
    with pytest.raises(StageGoneError):
        transaction.commit([])
    assert from_a.payloads == []
    transaction.roll_back()
    await bench.close()


@durable
async def test_a_time_to_live_of_its_own_is_a_passing_stages_alone(folder: Path) -> None:
    bench = await bench_of(folder, a=QueueSettings())
    transaction = bench.queues.passing.begin()
    writer = await staging(bench, transaction)
    writer.send(keyed(b"a"), ttl=5.0)
    writer.send(keyed(b"a"), ttl=50.0)
    await settled(bench)
    transaction.commit([])
    await settled(bench)
    assert ready(bench, "a") == 2
    await elapse(6.0)
    await settled(bench)
    assert await receivable(bench, "a") == [b"a!"]
    writer.send(keyed(b"a"), delay=1.0)
    await settled(bench)
    await bench.close()


@durable
async def test_a_commit_looks_at_no_other_transaction_of_its_queue(folder: Path) -> None:
    """There may be thousands, and each of them commits."""
    bench = await bench_of(folder, a=QueueSettings())
    transactions = [bench.queues.passing.begin() for _ in range(20)]
    for transaction in transactions:
        (await staging(bench, transaction)).send(keyed(b"a"))
    await settled(bench)
    with mock.patch.object(CommittedVersions, "covers", autospec=True, side_effect=CommittedVersions.covers) as asked:
        transactions[0].commit([])
        await settled(bench)
        looks = asked.call_count
    assert ready(bench, "a") == 1
    assert looks == 0


@durable
async def test_stages_of_one_transaction_have_a_limit(folder: Path) -> None:
    bench = await bench_of(folder)
    transaction = bench.queues.passing.begin()
    with mock.patch.object(passing_transactions, "MAX_PASSING_STAGES", 2):
        assert len({transaction.stage(), transaction.stage()}) == 2
        with pytest.raises(QueueLimitError, match="MAX_PASSING_STAGES of 2 is reached: commit more often"):
            transaction.stage()
        transaction.roll_back()
        transaction.stage()
    await bench.close()


@durable
async def test_transient_queues_alone_wait_for_nothing(folder: Path) -> None:
    bench = await bench_of(folder, t=QueueSettings(durable=False))
    await filled(bench, "t", 1)
    from_t = await holder(bench, "t")
    transaction = bench.queues.passing.begin()
    writer = await staging(bench, transaction)
    writer.send(keyed(b"t"))
    await turns()
    number = transaction.commit([from_t.settlement([0])])
    told = asyncio.ensure_future(transaction.durable(number))
    await turns()
    assert told.done()
    assert from_t.payloads == [b"t.0!", b"t!"]
    assert replies.SentMessages(1, None, None) in writer.told
    await bench.close()
