"""What a transaction publishes to exchanges is in all of its queues when it is committed, and in none before, whatever its sender does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from actors.batch import Message, MessageBatch
from actors.errors import InvalidRequestError, TransactionIncompleteError
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import EnlistedStage, StageKey, StageNumbers
from streams.testkit import elapse, run_in_virtual_time
from tests.actors.publishing_bench import LARGE, Client, batch_of, client, defined, received, receiver, stager
from tests.actors.stored_queues import StoredQueues, durable, turns

KEY = StageKey("w", 1, "s")
TIMEOUT = 30.0


def keyed(*keys: bytes) -> MessageBatch:
    return MessageBatch.from_messages([Message(key + b"!", key) for key in keys])


async def bench_of(folder: Path | None, again: bool = False, **bindings: str) -> StoredQueues:
    """Queues behind the topic exchange ``x``, each bound by its key."""
    bench = StoredQueues(folder, transaction_timeout=TIMEOUT)
    if not again:
        decide = bench.queues.exchanges.exchanges.decide
        await defined(bench, decide.declare("x", "topic"))
        for queue, key in bindings.items():
            bench.queues.get_or_create(queue)
            await defined(bench, decide.bind("x", queue, key))
    return bench


async def bound(bench: StoredQueues, queue: str, key: str) -> None:
    bench.queues.get_or_create(queue)
    await defined(bench, bench.queues.exchanges.exchanges.decide.bind("x", queue, key))


async def settled(bench: StoredQueues) -> None:
    await (turns() if bench._storage is None else bench.settled())


async def tallied(bench: StoredQueues, writer: Client) -> tuple[tuple[str, int], ...]:
    writer.tally(len(writer.tallied))
    await settled(bench)
    tally = writer.tallied[-1]
    assert tally.request == len(writer.tallied) - 1
    return tally.held


async def committed(bench: StoredQueues, counts: tuple[tuple[str, int], ...], key: StageKey = KEY) -> int:
    stages = [EnlistedStage(queue, key.name, count) for queue, count in counts]
    commit = asyncio.ensure_future(bench.queues.transactions.commit(key.writer, key.version, stages))
    while not commit.done():
        await settled(bench)
    return await commit


async def aborted(bench: StoredQueues, key: StageKey = KEY) -> int:
    abort = asyncio.ensure_future(bench.queues.transactions.abort(key.writer, key.version))
    while not abort.done():
        await settled(bench)
    return await abort


async def receivable(bench: StoredQueues, *names: str) -> dict[str, list[bytes]]:
    receivers = {name: await receiver(bench, name) for name in names}
    await settled(bench)
    for ref, _ in receivers.values():
        await ref.stop(block=False)
    return {name: received(told) for name, (_, told) in receivers.items()}


def staged(bench: StoredQueues, name: str, key: StageKey = KEY) -> int:
    log = bench.queues.logs()[name]
    return log.stages[key].messages if key in log.stages else 0


@durable
async def test_a_stage_is_in_no_queue_before_its_commit_and_in_each_of_its_queues_after_it(folder: Path) -> None:
    for place in (folder, None):
        bench = await bench_of(place, all="#", left="l.*", right="r.*")
        writer = await stager(bench, KEY)
        assert writer.attached == [replies.SenderAttached(None, committed=False)]
        assert writer.granted == 1_024
        writer.send(keyed(b"l.0", b"r.1", b"none", b"l.2"))
        writer.send(keyed(b"r.3"))
        await settled(bench)
        assert writer.confirmed == [4, 5]
        counts = await tallied(bench, writer)
        assert counts == (("all", 5), ("left", 2), ("right", 2))
        assert await receivable(bench, "all", "left", "right") == {"all": [], "left": [], "right": []}
        assert await committed(bench, counts) == 9
        assert await receivable(bench, "all", "left", "right") == {
            "all": [b"l.0!", b"r.1!", b"none!", b"l.2!", b"r.3!"],
            "left": [b"l.0!", b"l.2!"],
            "right": [b"r.1!", b"r.3!"],
        }
        await bench.close()


@durable
async def test_batches_of_one_turn_are_one_record_and_two_stages_are_never_one_batch(folder: Path) -> None:
    bench = await bench_of(folder, a="#", b="#")
    writer, other = await stager(bench, KEY), await stager(bench, KEY._replace(name="t"))
    publisher = await client(bench, "x", None)
    before = bench.storage._journal.next_lsn
    for number in range(3):
        for each in (writer, other, publisher):
            each.send(keyed(b"k%d" % number))
    await turns()
    assert bench.storage._journal.next_lsn - before == 3
    await settled(bench)
    assert await tallied(bench, writer) == (("a", 3), ("b", 3))
    assert await tallied(bench, other) == (("a", 3), ("b", 3))
    await bench.close()


@durable
async def test_a_tally_comes_behind_the_confirmations_and_when_all_of_it_is_on_the_disk(folder: Path) -> None:
    bench = await bench_of(folder, a="#", b="#")
    writer = await stager(bench, KEY)
    await settled(bench)
    writer.send(keyed(b"k"))
    writer.tally()
    writer.send(keyed(b"k"))
    await turns()
    assert writer.confirmed == []
    assert writer.tallied == []
    await bench.commit()
    kinds = [type(each).__name__ for each in writer.told if not isinstance(each, replies.CapacityGranted)]
    assert kinds == ["SenderAttached", "SentMessages", "StageTallied", "SentMessages"]
    assert writer.tallied[0].held == (("a", 1), ("b", 1))
    await bench.close()


@durable
async def test_who_comes_again_goes_on_where_it_was_confirmed_and_nothing_is_stored_twice(folder: Path) -> None:
    bench = await bench_of(folder, left="l.*", right="r.*")
    writer = await stager(bench, KEY)
    writer.send(keyed(b"l.0", b"r.1", b"none"))
    await turns()
    again = await stager(bench, KEY)
    assert writer.errors == [("taken-over", "a newer connection carries this stage")]
    # What it is told counts as confirmed: it has to be on the disk.
    assert again.attached == []
    assert again.granted == 0
    await bench.commit()
    assert again.attached == [replies.SenderAttached(3, committed=False)]
    again.send(keyed(b"r.1", b"none", b"l.3"), sequence=1)
    await settled(bench)
    assert again.confirmed == [4]
    assert await tallied(bench, again) == (("left", 2), ("right", 1))
    assert writer.confirmed == []
    await bench.close()


@durable
async def test_a_crash_that_leaves_a_part_of_a_batch_is_made_good_by_what_is_sent_again(folder: Path) -> None:
    bench = await bench_of(folder, left="l.*", right="r.*")
    writer = await stager(bench, KEY)
    writer.send(keyed(b"l.0", b"r.1"))
    await settled(bench)
    writer.send(keyed(b"l.2", b"r.3", b"l.4"))
    await turns()
    bench.commit_groups(1)
    await turns()
    assert writer.confirmed == [2]
    await bench.die()
    bench = await bench_of(folder, again=True)
    assert [staged(bench, name) for name in ("left", "right")] == [3, 1]
    writer = await stager(bench, KEY)
    # Number 3 is not there; number 4 is, and is not stored again.
    assert writer.attached == [replies.SenderAttached(3, committed=False)]
    writer.send(keyed(b"r.3", b"l.4", b"r.5"), sequence=3)
    await settled(bench)
    assert writer.confirmed == [6]
    counts = await tallied(bench, writer)
    assert counts == (("left", 3), ("right", 3))
    await committed(bench, counts)
    assert await receivable(bench, "left", "right") == {
        "left": [b"l.0!", b"l.2!", b"l.4!"],
        "right": [b"r.1!", b"r.3!", b"r.5!"],
    }
    await bench.close()


@durable
async def test_numbers_behind_those_that_are_known_are_refused(folder: Path) -> None:
    bench = await bench_of(folder, a="#")
    writer = await stager(bench, KEY)
    writer.send(keyed(b"k"), sequence=3)
    await settled(bench)
    assert "message 3 of this producer came where 0 had to" in writer.errors[0][1]
    assert staged(bench, "a") == 0
    await bench.close()


@durable
async def test_a_stage_stays_in_all_queues_while_its_sender_lives_and_is_gone_from_all_when_it_was_away_too_long(
    folder: Path,
) -> None:
    for place in (folder, None):
        bench = await bench_of(place, a="#", b="b")
        writer = await stager(bench, KEY)
        writer.send(keyed(b"b"))
        await settled(bench)
        # A queue that is no target any more, and one that comes later.
        await defined(bench, bench.queues.exchanges.exchanges.decide.unbind("x", "b", "b"))
        await bound(bench, "c", "#")
        writer.send(keyed(b"b"))
        await settled(bench)
        await elapse(10 * TIMEOUT)
        assert await tallied(bench, writer) == (("a", 2), ("b", 1), ("c", 1))
        await writer.ref.stop(block=False)
        await elapse(TIMEOUT - 1)
        assert [staged(bench, name) for name in "abc"] == [2, 1, 1]
        again = await stager(bench, KEY)
        await elapse(2 * TIMEOUT)
        assert await tallied(bench, again) == (("a", 2), ("b", 1), ("c", 1))
        await again.ref.stop(block=False)
        await elapse(TIMEOUT + 1)
        assert [staged(bench, name) for name in "abc"] == [0, 0, 0]
        assert bench.queues.exchanges.publishing._stages._stages == {}
        await settled(bench)
        anew = await stager(bench, KEY)
        await settled(bench)
        assert anew.attached == [replies.SenderAttached(None, committed=False)]
        for name in "abc":
            statistics = bench.queues.read(name)
            assert statistics is not None
            assert (statistics.staged_messages, statistics.ready) == (0, 0)
        await bench.close()


@durable
async def test_a_restart_finds_stages_whose_sender_is_away_from_then_on(folder: Path) -> None:
    bench = await bench_of(folder, a="#", b="b")
    writer = await stager(bench, KEY)
    writer.send(keyed(b"b", b"k"))
    await settled(bench)
    await bench.die()
    bench = await bench_of(folder, again=True)
    await elapse(TIMEOUT - 1)
    assert [staged(bench, name) for name in "ab"] == [2, 1]
    before = bench.storage._journal.next_lsn
    await elapse(2)
    assert [staged(bench, name) for name in "ab"] == [0, 0]
    # It is one record: a crash leaves it in both or in none.
    assert bench.storage._journal.next_lsn == before + 1
    await bench.close()


@durable
async def test_an_abort_discards_it_in_all_queues_by_one_record_and_its_sender_ends(folder: Path) -> None:
    bench = await bench_of(folder, a="#", b="b")
    writer = await stager(bench, KEY)
    writer.send(keyed(b"b", b"k"))
    await settled(bench)
    before = bench.storage._journal.next_lsn
    writer.send(keyed(b"b"))
    assert await aborted(bench) == 3
    assert bench.storage._journal.next_lsn == before + 1
    assert [staged(bench, name) for name in "ab"] == [0, 0]
    assert [code for code, _ in writer.errors] == ["transaction-incomplete"]
    assert writer.confirmed == [2]
    await writer.ref.stop(block=False)
    await settled(bench)
    assert [staged(bench, name) for name in "ab"] == [0, 0]
    again = await stager(bench, KEY)
    await settled(bench)
    assert again.attached == [replies.SenderAttached(None, committed=False)]
    again.send(keyed(b"b"), sequence=0)
    await settled(bench)
    counts = await tallied(bench, again)
    assert counts == (("a", 1), ("b", 1))
    assert await committed(bench, counts) == 2
    assert await receivable(bench, "a", "b") == {"a": [b"b!"], "b": [b"b!"]}
    await bench.close()


@durable
async def test_an_abort_is_answered_no_sooner_than_it_is_durable(folder: Path) -> None:
    bench = await bench_of(folder, a="#", b="b")
    writer = await stager(bench, KEY)
    writer.send(keyed(b"b", b"k"))
    await settled(bench)
    await writer.ref.stop(block=False)
    abort = asyncio.ensure_future(bench.queues.transactions.abort(KEY.writer, KEY.version))
    await turns()
    assert [staged(bench, name) for name in "ab"] == [0, 0]
    assert not abort.done()
    await bench.commit()
    assert await abort == 3
    await bench.die()
    bench = await bench_of(folder, again=True)
    assert [staged(bench, name) for name in "ab"] == [0, 0], "what was answered is so after a crash"
    await bench.close()


def test_the_deadline_of_a_stage_that_was_lost_by_half_does_not_end_the_one_that_is_begun_in_its_place() -> None:
    async def main() -> None:
        bench = await bench_of(None, a="#", b="b")
        writer = await stager(bench, KEY)
        writer.send(keyed(b"b"))
        await turns()
        await writer.ref.stop(block=False)
        await elapse(TIMEOUT / 2)
        with mock.patch.object(bench.queues._logs["b"], "stages", {}):
            again = await stager(bench, KEY)
            assert again.attached == [replies.SenderAttached(None, committed=False)]
            assert staged(bench, "a") == 0, "a half is of no use"
            again.send(keyed(b"k", b"k"))
            await turns()
            # Past the time at which the first would have been given up.
            await elapse(TIMEOUT)
            assert staged(bench, "a") == 2
            assert await tallied(bench, again) == (("a", 2),)
            await again.ref.stop(block=False)
            await elapse(TIMEOUT - 1)
            assert staged(bench, "a") == 2
            await elapse(2)
            assert staged(bench, "a") == 0
        await bench.close()

    run_in_virtual_time(main())


@durable
async def test_nothing_is_added_to_a_version_that_is_committed(folder: Path) -> None:
    bench = await bench_of(folder, a="#")
    writer, loser = await stager(bench, KEY), await stager(bench, KEY._replace(name="t"))
    for each in (writer, loser):
        each.send(keyed(b"k"))
    await settled(bench)
    commit = asyncio.ensure_future(bench.queues.transactions.commit("w", 1, [EnlistedStage("a", "s", 1)]))
    await turns()
    writer.send(keyed(b"late"))
    await turns()
    assert writer.errors == []
    await settled(bench)
    assert await commit == 1
    assert [code for code, _ in writer.errors] == ["transaction-committed"]
    assert [code for code, _ in loser.errors] == ["transaction-committed"]
    assert await receivable(bench, "a") == {"a": [b"k!"]}
    late = await stager(bench, KEY._replace(name="u"))
    assert late.attached == [replies.SenderAttached(None, committed=True)]
    late.tally()
    await settled(bench)
    assert [code for code, _ in late.errors] == ["transaction-committed"]
    assert late.tallied == []
    await bench.close()


@durable
async def test_more_than_may_be_staged_in_one_of_the_queues_ends_the_sender_whatever_the_queue_has_noticed(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(max_staged_messages=4, overflow="reject"))
    await defined(bench, bench.queues.exchanges.exchanges.decide.declare("x", "topic"))
    for name in ("small", "large"):
        await bound(bench, name, "#")
    writer = await stager(bench, KEY)
    assert writer.granted == 4
    writer.send(batch_of(b"1", b"2", b"3"))
    await turns()
    other = await stager(bench, KEY._replace(name="t"))
    # Both are of one transaction. The second comes before the queue has noticed the first of this turn.
    writer.send(batch_of(b"4"))
    other.send(batch_of(b"5"))
    await settled(bench)
    assert writer.confirmed == [3, 4]
    assert [code for code, _ in other.errors] == ["transaction-too-large"]
    assert "5 of max_staged_messages 4 staged in queue 'small'" in other.errors[0][1]
    assert [staged(bench, name) for name in ("small", "large")] == [4, 4]
    assert staged(bench, "large", KEY._replace(name="t")) == 0
    await bench.close()


@durable
async def test_a_delay_of_its_own_is_refused_and_that_of_the_queue_counts(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("later", QueueSettings(delay=60.0))
    await defined(bench, bench.queues.exchanges.exchanges.decide.declare("x", "topic"))
    for name in ("later", "now"):
        await bound(bench, name, "#")
    hasty = await stager(bench, KEY._replace(name="t"))
    hasty.send(batch_of(b"1"), delay=1.0)
    await settled(bench)
    assert "no delay or time to live of its own" in hasty.errors[0][1]
    assert staged(bench, "now", KEY._replace(name="t")) == 0
    writer = await stager(bench, KEY)
    writer.send(batch_of(b"1"))
    await settled(bench)
    await committed(bench, await tallied(bench, writer))
    _, told = await receiver(bench, "later")
    assert await receivable(bench, "now") == {"now": [b"1"]}
    assert received(told) == []
    await elapse(61)
    await settled(bench)
    assert received(told) == [b"1"]
    with pytest.raises(InvalidRequestError, match="no delay"):
        bench.queues.distributor.store(["now"], batch_of(b"1"), ttl=1.0, stage=KEY, numbers=StageNumbers(1, 1))
    await bench.close()


@durable
async def test_a_queue_that_is_deleted_is_not_in_the_tally_and_one_that_comes_in_its_place_begins_anew(
    folder: Path,
) -> None:
    bench = await bench_of(folder, a="#", b="#")
    writer = await stager(bench, KEY)
    writer.send(keyed(b"1", b"2"))
    await settled(bench)
    bench.queues.delete("b")
    assert await tallied(bench, writer) == (("a", 2),)
    await bound(bench, "b", "#")
    writer.send(keyed(b"3"))
    await settled(bench)
    counts = await tallied(bench, writer)
    assert counts == (("a", 3), ("b", 1))
    bench.queues.delete("b")
    with pytest.raises(TransactionIncompleteError):
        await committed(bench, counts)
    assert await committed(bench, await tallied(bench, writer)) == 3
    await bench.close()


def test_a_queue_in_memory_that_has_failed_with_what_it_held_is_found_by_the_tally_and_by_who_comes_again() -> None:
    async def main() -> None:
        bench = await bench_of(None, a="#", b="#")
        writer = await stager(bench, KEY)
        writer.send(keyed(b"1"))
        await turns()
        with mock.patch.object(bench.queues._logs["b"], "stages", {}):
            writer.tally()
            await turns()
            assert [code for code, _ in writer.errors] == ["transaction-incomplete"]
            assert "queue 'b' has lost what it held of stage 's'" in writer.errors[0][1]
            assert writer.tallied == []
            await writer.ref.stop(block=False)
            again = await stager(bench, KEY)
            assert again.attached == [replies.SenderAttached(None, committed=False)]
            assert staged(bench, "a") == 0
            again.send(keyed(b"2"), sequence=1)
            await turns()
            assert again.errors
        await bench.close()

    run_in_virtual_time(main())


@durable
async def test_only_a_stage_has_a_tally(folder: Path) -> None:
    bench = await bench_of(folder, a="#")
    publisher = await client(bench, "x", None)
    publisher.tally()
    await turns()
    assert publisher.errors == [("protocol-error", "nothing is staged on this connection: there is no stage to tally")]
    await bench.close()


async def direct(bench: StoredQueues, name: str, key: StageKey = KEY) -> list[Any]:
    _, told = await bench.connect(
        bench.queues.get_or_create(name),
        lambda ref: commands.AttachSender(stage=key, connection=ref),
        lambda ref: commands.RequestCapacity(100, LARGE, ref),
        lambda ref: commands.OfferBatch(0, batch_of(b"direct"), connection=ref),
    )
    return told


@durable
async def test_a_stage_is_written_through_an_exchange_or_by_a_queues_own_sender_and_never_by_both(folder: Path) -> None:
    bench = await bench_of(folder, a="#")
    writer = await stager(bench, KEY)
    refused = await direct(bench, "a")
    assert "is written through an exchange in queue 'a'" in refused[0].text
    writer.send(keyed(b"k"))
    await settled(bench)
    await writer.ref.stop(block=False)
    assert "is written through an exchange in queue 'a'" in (await direct(bench, "a"))[0].text
    # The other way round: attached, and stored.
    other = KEY._replace(name="t")
    told = await direct(bench, "a", other)
    late = await stager(bench, other)
    await settled(bench)
    assert "is written by a sender to this queue in queue 'a'" in late.errors[0][1]
    await settled(bench)
    assert [type(each).__name__ for each in told][-1] == "SentMessages"
    # Through the default exchange it cannot be known before.
    third = await stager(bench, other, "", None)
    third.send(keyed(b"a"))
    await settled(bench)
    assert "is written by a sender to this queue in queue 'a'" in third.errors[0][1]
    assert [staged(bench, "a", key) for key in (KEY, other)] == [1, 1]
    await bench.close()


@durable
async def test_more_queues_than_one_record_may_hold_end_the_sender_with_what_to_do(folder: Path) -> None:
    bench = await bench_of(folder, a="#", b="#", c="#")
    writer = await stager(bench, KEY)
    with mock.patch("actors.storage.together.MAX_TOGETHER_QUEUES", 2):
        writer.send(keyed(b"k"))
        await settled(bench)
    assert writer.errors == [("limit-exceeded", "3 queues in one record exceed 2: do it in several steps")]
    assert writer.confirmed == []
    other = await stager(bench, KEY._replace(name="t"))
    with mock.patch("actors.queue.routed_stages.MAX_DESTINATIONS", 2):
        other.send(keyed(b"k"))
        await settled(bench)
    assert [code for code, _ in other.errors] == ["limit-exceeded"]
    assert "MAX_DESTINATIONS" in other.errors[0][1]
    assert [staged(bench, name, other_key) for name in "abc" for other_key in (KEY, KEY._replace(name="t"))] == [0] * 6
    await bench.close()


@durable
async def test_there_are_as_many_stages_as_there_may_be_and_those_that_hold_nothing_give_way(folder: Path) -> None:
    bench = await bench_of(folder, a="a")
    with mock.patch("actors.queue.routed_stages.MAX_STAGES", 2):
        nothing = await stager(bench, KEY)
        nothing.send(keyed(b"nowhere"))
        await settled(bench)
        await nothing.ref.stop(block=False)
        one = await stager(bench, KEY._replace(name="1"))
        two = await stager(bench, KEY._replace(name="2"))
        three = await stager(bench, KEY._replace(name="3"))
    assert [each.errors for each in (one, two)] == [[], []]
    assert [code for code, _ in three.errors] == ["limit-exceeded"]
    await bench.close()


@durable
async def test_what_went_to_no_queue_is_known_to_have_come_while_the_broker_lives(folder: Path) -> None:
    bench = await bench_of(folder, a="a")
    writer = await stager(bench, KEY)
    writer.send(keyed(b"nowhere", b"nowhere"))
    await settled(bench)
    assert writer.confirmed == [2]
    again = await stager(bench, KEY)
    await settled(bench)
    assert again.attached == [replies.SenderAttached(2, committed=False)]
    assert await tallied(bench, again) == ()
    await bench.close()


@durable
async def test_a_stage_that_is_begun_anew_before_its_queue_has_heard_of_its_end_is_published_as_any(
    folder: Path,
) -> None:
    bench = await bench_of(folder, a="#")
    writer = await stager(bench, KEY)
    writer.send(keyed(b"old"))
    await settled(bench)
    queue = bench.queues._states["a"]
    bench.queues.transactions.discard(lambda key: key == KEY)
    store = bench.queues.distributor.store
    store(["a"], batch_of(b"new", b"newer"), stage=KEY, numbers=StageNumbers(2, 2))
    bench.queues.transactions._publish("w", 1, {bench.queues.number_of("a"): ["s"]})
    await settled(bench)
    assert (queue.staged.stages, list(queue.staged.numbers), queue.staged.beside) == ({}, [], {})
    assert await receivable(bench, "a") == {"a": [b"new", b"newer"]}
    await bench.close()
