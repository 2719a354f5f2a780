"""A turn of the loop ends in time, however much was published: what is left is routed and stored in the next ones."""

from __future__ import annotations

import asyncio
from itertools import count, pairwise
from pathlib import Path
from unittest import mock

from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey
from tests.actors.publishing_bench import batch_of, client, received, receiver, stager
from tests.actors.stored_queues import StoredQueues, durable, turns
from tests.actors.test_exchange_publishing import bound, keyed


def slow(bench: StoredQueues) -> StoredQueues:
    """A turn ends behind each route and each record."""
    bench.queues.exchanges.publishing.clock = count().__next__
    return bench


async def all_stored(bench: StoredQueues) -> int:
    """Wait until nothing is left; returns how many turns of the loop that took."""
    publishing = bench.queues.exchanges.publishing
    # What was told is in its actor's inbox.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for taken in range(10_000):
        if publishing._round is None and not publishing._line:
            return taken
        await asyncio.sleep(0)
    raise AssertionError


async def stored(bench: StoredQueues, name: str, messages: int) -> None:
    """Wait until so many messages are in a queue, which is in the middle of something."""
    for _ in range(1_000):
        if bench.queues.logs()[name].stored_messages >= messages:
            return
        await asyncio.sleep(0)
    raise AssertionError


@durable
async def test_keys_whose_queues_overlap_are_stored_a_record_at_a_time_and_the_loop_goes_on_between(
    folder: Path,
) -> None:
    bench = slow(StoredQueues(folder))
    await bound(bench, "x", "topic", all="#", left="l")
    publisher = await client(bench, "x", None)
    found: list[int] = []
    publisher.send(keyed(*[b"l", b"r"] * 50))
    publishing = bench.queues.exchanges.publishing
    while publishing._round is not None or publishing._line or not found:
        await asyncio.sleep(0)
        found.append(bench.queues.logs()["all"].stored_messages)
    assert found[-1] == 100
    assert max(after - before for before, after in pairwise(found)) == 1
    assert publisher.confirmed == []
    await bench.commit()
    assert publisher.confirmed == [100]
    told = {name: (await receiver(bench, name))[1] for name in ("all", "left")}
    await bench.settled()
    assert received(told["all"]) == [b"l!", b"r!"] * 50
    assert received(told["left"]) == [b"l!"] * 50
    await bench.close()


@durable
async def test_a_sender_whose_keys_take_long_to_route_keeps_no_other_waiting(folder: Path) -> None:
    bench = slow(StoredQueues(folder))
    await bound(bench, "x", "topic", q="#")
    many, few = await client(bench, "x", None), await client(bench, "x", None)
    many.send(keyed(*[b"k.%d" % number for number in range(300)]))
    few.send(keyed(b"a"))
    few.send(keyed(b"b"))
    await turns()
    await bench.commit()
    assert few.confirmed == [1, 2]
    assert many.confirmed == []
    assert await all_stored(bench) > 100
    await bench.commit()
    assert many.confirmed == [300]
    assert bench.queues.logs()["q"].stored_batches == 3
    await bench.close()


@durable
async def test_what_comes_while_a_batch_is_stored_comes_behind_it_and_together(folder: Path) -> None:
    bench = slow(StoredQueues(folder))
    await bound(bench, "x", "topic", all="#", left="l")
    publisher = await client(bench, "x", None)
    publisher.send(keyed(*[b"l", b"r"] * 20))
    await stored(bench, "all", 5)
    for _ in range(5):
        publisher.send(keyed(b"r"))
    await turns()
    bench.queues.exchanges.publishing.clock = None
    await all_stored(bench)
    assert bench.queues.logs()["all"].stored_batches == 41
    await bench.commit()
    assert publisher.confirmed == [40, 41, 42, 43, 44, 45]
    await bench.close()


@durable
async def test_a_queue_that_rejects_keeps_room_for_the_rest_of_a_batch_that_it_takes(folder: Path) -> None:
    bench = slow(StoredQueues(folder))
    bench.queues.declare("small", QueueSettings(max_messages=20, overflow="reject"))
    await bound(bench, "x", "topic", small="#", left="l")
    publisher = await client(bench, "x", None)
    ref, native = await bench.connect(
        bench.queues.get("small"),
        lambda ref: commands.AttachSender(None, connection=ref),
        lambda ref: commands.RequestCapacity(1_000, 10_000, ref),
    )
    other = await client(bench, "", "small")
    publisher.send(keyed(*[b"l", b"r"] * 10))
    await stored(bench, "small", 5)
    bench.queues.get("small").tell(commands.OfferBatch(0, batch_of(b"n"), connection=ref))
    await asyncio.sleep(0)
    other.send(batch_of(b"o"))
    await all_stored(bench)
    await bench.settled()
    (refused,) = [reply for reply in native if isinstance(reply, replies.SentMessages)]
    assert refused.rejected is not None
    assert "20 of max_messages 20" in refused.rejected
    assert publisher.confirmed == [20]
    assert publisher.rejected == []
    assert [up_to for up_to, _ in other.rejected] == [1]
    assert bench.queues.logs()["small"].stored_messages == 20
    assert bench.queues.state("small").capacity.promised.messages == 0
    await bench.close()


@durable
async def test_what_an_older_connection_has_not_stored_is_stored_once_by_the_newer_one(folder: Path) -> None:
    bench = slow(StoredQueues(folder))
    await bound(bench, "x", "topic", all="#", left="l")
    older = await client(bench, "x", None, "p")
    older.send(keyed(*[b"l", b"r"] * 20))
    await stored(bench, "all", 5)
    newer = await client(bench, "x", None, "p")
    newer.send(keyed(*[b"l", b"r"] * 20), sequence=0)
    await all_stored(bench)
    await bench.commit()
    assert [code for code, _ in older.errors] == ["taken-over"]
    assert older.confirmed == []
    assert newer.confirmed == [40]
    told = {name: (await receiver(bench, name))[1] for name in ("all", "left")}
    await bench.settled()
    assert received(told["all"]) == [b"l!", b"r!"] * 20
    assert received(told["left"]) == [b"l!"] * 20
    await bench.close()


@durable
async def test_a_producer_that_is_gone_and_comes_again_at_once_has_nothing_stored_twice(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "fanout", q="")
    first = await client(bench, "x", "", "p")
    first.send(batch_of(b"1"))
    await bench.settled()
    again = await client(bench, "x", "", "p")
    again.send(batch_of(b"1", b"2"), sequence=0)
    stopping = again.ref.stop(block=False)
    await asyncio.sleep(0)
    third = await client(bench, "x", "", "p")
    third.send(batch_of(b"1", b"2"), sequence=0)
    await stopping
    await bench.settled()
    assert third.confirmed == [2]
    _, told = await receiver(bench, "q")
    await bench.settled()
    assert received(told) == [b"1", b"2"]
    await bench.close()


@durable
async def test_what_a_sender_without_a_name_has_said_is_stored_when_it_is_gone_and_no_queue_knows_it_any_more(
    folder: Path,
) -> None:
    bench = slow(StoredQueues(folder))
    await bound(bench, "x", "topic", all="#", left="l")
    publisher = await client(bench, "x", None)
    publisher.send(keyed(*[b"l", b"r"] * 20))
    await asyncio.sleep(0)
    await publisher.ref.stop(block=False)
    assert await all_stored(bench) > 20
    await bench.settled()
    assert bench.queues.logs()["all"].stored_messages == 40
    assert [len(bench.queues.state(name).senders) for name in ("all", "left")] == [0, 0]
    await bench.close()


@durable
async def test_of_a_stage_that_is_stored_batch_by_batch_no_more_is_whole_than_is_on_the_disk(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(overflow="reject"))
    await bound(bench, "x", "direct", left="l", right="r", small="s")
    key = StageKey("w", 0, "0")
    staging, other = await stager(bench, key), await client(bench, "x", "s")
    staging.send(keyed(b"l"))
    staging.send(keyed(b"r"))
    other.send(batch_of(b"m"))
    await turns()
    bench.commit_groups(2)
    await bench.die()
    again = StoredQueues(folder)
    assert [again.queues.logs()[name].staged_messages for name in ("left", "right")] == [1, 0]
    staging = await stager(again, key)
    (attached,) = staging.attached
    assert attached.last_sequence == 1
    await again.close()


@durable
async def test_a_mark_comes_behind_all_that_was_sent_before_it_however_many_turns_that_takes(folder: Path) -> None:
    bench = slow(StoredQueues(folder))
    await bound(bench, "x", "topic", all="#", left="l")
    publisher = await client(bench, "x", None)
    publisher.send(keyed(*[b"l", b"r"] * 50))
    publisher.ref.tell(commands.CaughtUp(False, publisher.ref))
    await turns()
    assert publisher.marks == 0
    await all_stored(bench)
    assert publisher.marks == 1
    assert bench.queues.logs()["all"].stored_messages == 100
    await bench.close()


@durable
async def test_a_tally_counts_what_was_staged_before_it_and_nothing_behind(folder: Path) -> None:
    bench = slow(StoredQueues(folder))
    await bound(bench, "x", "topic", all="#", left="l")
    staging = await stager(bench, StageKey("w", 0, "0"))
    staging.send(keyed(*[b"l", b"r"] * 10))
    staging.tally(7)
    staging.send(keyed(b"r"))
    await all_stored(bench)
    await bench.commit()
    assert [(each.request, each.held) for each in staging.tallied] == [(7, (("all", 20), ("left", 10)))]
    assert staging.confirmed == [20, 21]
    await bench.close()


@durable
async def test_the_window_of_who_makes_a_record_of_each_message_stays_small(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "topic", all="#", left="l")
    windows = []
    for keys in ([b"l", b"r"] * 256, [b"l"] * 512):
        publisher = await client(bench, "x", None)
        for _ in range(6):
            publisher.send(keyed(*keys))
            await bench.settled()
        windows.append(publisher.granted - publisher.sequence)
    assert windows == [1_024, 4_096]
    await bench.close()


@durable
async def test_a_full_queue_takes_nothing_more_through_the_default_exchange_whoever_comes(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(max_messages=4))
    bench.queues.declare("other", QueueSettings())
    publishers = [await client(bench, "", None) for _ in range(3)]
    for publisher in publishers:
        publisher.send(keyed(b"other", b"small", b"small"))
        await bench.settled()
    assert [publisher.confirmed for publisher in publishers] == [[3], [3], []]
    assert bench.queues.logs()["small"].stored_messages == 4
    publishers[2].send(keyed(b"other"))
    await bench.settled()
    assert publishers[2].confirmed == []
    ref, told = await receiver(bench, "small")
    await bench.settled()
    bench.queues.get("small").tell(commands.Acknowledged(((0, 4),), connection=ref))
    await bench.settled()
    assert publishers[2].confirmed == [3, 4]
    assert len(received(told)) == 6
    await bench.close()


@durable
async def test_who_waits_for_a_full_queue_goes_on_when_it_is_deleted_and_what_waits_is_dropped_with_its_sender(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    for name in ("one", "two"):
        bench.queues.declare(name, QueueSettings(max_messages=1))
        first = await client(bench, "", name)
        first.send(batch_of(b"full"))
        await bench.settled()
    waiting, leaving = await client(bench, "", None), await client(bench, "", None)
    waiting.send(keyed(b"one"))
    leaving.send(keyed(b"two"))
    await bench.settled()
    assert waiting.confirmed == leaving.confirmed == []
    bench.queues.delete("one")
    await leaving.ref.stop(block=False)
    await bench.settled()
    assert waiting.confirmed == [1]
    assert bench.queues.logs()["two"].stored_messages == 1
    assert await all_stored(bench) == 0
    await bench.close()


@durable
async def test_keys_that_were_not_named_at_first_wait_for_the_queues_where_they_lead(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(max_messages=1))
    await bound(bench, "x", "direct", small="s", large="l")
    for number in range(3):
        publisher = await client(bench, "x", "l")
        publisher.send(keyed(b"s"))
        await bench.settled()
        assert publisher.confirmed == ([1] if number == 0 else [])
    assert bench.queues.logs()["small"].stored_messages == 1
    await bench.close()


@durable
async def test_a_queue_that_is_made_after_its_default_sender_came_has_its_room_counted(folder: Path) -> None:
    bench = StoredQueues(folder)
    publishers = [await client(bench, "", "later") for _ in range(2)]
    bench.queues.declare("later", QueueSettings(max_messages=2))
    for publisher in publishers:
        publisher.send(batch_of(b"1", b"2"))
        await bench.settled()
    assert [publisher.confirmed for publisher in publishers] == [[2], []]
    assert bench.queues.logs()["later"].stored_messages == 2
    await bench.close()


@durable
async def test_who_publishes_to_transient_queues_waits_for_nobody_elses_sync_and_has_its_own_answers_in_order(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("passing", QueueSettings(durable=False))
    await bound(bench, "x", "direct", passing="p", kept="k")
    kept, passing, both = [await client(bench, "x", None) for _ in range(3)]
    kept.send(keyed(b"k"))
    both.send(keyed(b"k"))
    await turns()
    passing.send(keyed(b"p"))
    both.send(keyed(b"p"))
    await turns()
    assert [each.confirmed for each in (kept, passing, both)] == [[], [1], []]
    await bench.commit()
    assert [each.confirmed for each in (kept, passing, both)] == [[1], [1], [1, 2]]
    await bench.close()


@durable
async def test_a_defect_of_ours_while_something_is_stored_ends_its_sender_and_confirms_nothing(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "topic", q="#")
    one, two = await client(bench, "x", None), await client(bench, "x", None)
    with mock.patch.object(bench.queues.distributor, "store", side_effect=KeyError("a defect")):
        one.send(keyed(b"1"))
        await turns()
    two.send(keyed(b"2"))
    await bench.settled()
    assert one.confirmed == []
    assert [text for _, text in one.errors] == ["what was sent could not be stored; the broker's log has the reason"]
    assert two.confirmed == [1]
    await bench.close()


@durable
async def test_keys_that_alternate_between_queues_are_put_together_a_step_at_a_time_and_counted_once_a_record(
    folder: Path,
) -> None:
    bench = slow(StoredQueues(folder))
    bench.queues.declare("small", QueueSettings(overflow="reject"))
    await bound(bench, "x", "direct", left="l", right="r", small="s")
    publisher = await client(bench, "x", None)
    distributor = bench.queues.distributor
    # Of each message a route or a run, and a step by which it is put together; where a queue rejects it is judged too.
    for keys, steps in (((b"l", b"r"), 2), ((b"l", b"s"), 3)):
        with (
            mock.patch.object(distributor, "used", wraps=distributor.used) as used,
            mock.patch.object(distributor, "rejects", wraps=distributor.rejects) as rejects,
        ):
            publisher.send(keyed(*keys * 100))
            assert await all_stored(bench) >= steps * 200
        assert used.call_count == 2
        assert rejects.call_count <= 2
    await bench.commit()
    assert publisher.confirmed == [200, 400]
    assert [bench.queues.logs()[name].stored_batches for name in ("left", "right", "small")] == [2, 1, 1]
    state, room = bench.queues.state("left"), next(iter(bench.queues.exchanges.publishing._senders))._room
    permits = state.senders[publisher.ref].permits
    assert (permits.messages, permits.bytes) == (room._targets["left"].messages, room._targets["left"].bytes)
    await bench.close()


@durable
async def test_a_queue_that_begins_to_reject_in_the_middle_of_a_batch_takes_the_rest_of_it(folder: Path) -> None:
    bench = slow(StoredQueues(folder))
    bench.queues.declare("small", QueueSettings(max_messages=100))
    await bound(bench, "x", "topic", small="#", left="l")
    publisher = await client(bench, "x", None, "p")
    publisher.send(keyed(*[b"l", b"r"] * 10))
    await stored(bench, "small", 5)
    bench.queues.get("small").tell(bench.queues.alter("small", {"overflow": "reject", "max_messages": 9}))
    await all_stored(bench)
    await bench.commit()
    # Were it rejected, other messages with these numbers would be taken for those that are there, once the client is connected anew.
    assert (publisher.confirmed, publisher.rejected) == ([20], [])
    assert [bench.queues.logs()[name].stored_messages for name in ("small", "left")] == [20, 10]
    publisher.send(keyed(b"r"))
    await bench.settled()
    assert [up_to for up_to, _ in publisher.rejected] == [21]
    await bench.close()


@durable
async def test_senders_look_for_their_queues_a_few_in_a_turn_however_often_definitions_change(folder: Path) -> None:
    bench = slow(StoredQueues(folder))
    await bound(bench, "x", "topic", a="a")
    senders = [await client(bench, "x", None) for _ in range(10)]
    decide, looked = bench.queues.exchanges.exchanges.decide, [0]
    for number in range(3):
        # Each look of a sender ends a turn.
        bench.queues.get_or_create(f"q{number}")
        bench.queues.exchanges._carry_out(decide.bind("x", f"q{number}", f"k{number}"))
    publishing = bench.queues.exchanges.publishing
    while publishing._to_look:
        left = len(publishing._to_look)
        await asyncio.sleep(0)
        looked.append(left - len(publishing._to_look))
    assert max(looked) == 1
    assert sum(looked) == len(senders)
    await bench.commit()
    senders[0].send(keyed(b"k0", b"k2"))
    await turns()
    await bench.commit()
    assert bench.queues.logs()["q2"].stored_messages == 1
    await bench.close()
