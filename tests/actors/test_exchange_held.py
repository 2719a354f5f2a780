"""What waits for the room of a queue that is new to its sender goes where it leads when there is room, or is given up."""

from __future__ import annotations

from pathlib import Path

from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.distributed import OfferCopies, Unroutable
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey
from tests.actors.publishing_bench import Client, batch_of, client, defined, receiver, stager
from tests.actors.stored_queues import StoredQueues, durable, turns
from tests.actors.test_exchange_publishing import bound, keyed


async def held(folder: Path, *keys: bytes, mandatory: bool = False) -> tuple[StoredQueues, Client]:
    """Somebody who publishes to ``x``, and waits for ``small``, which is full of one message."""
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(max_messages=1))
    await bound(bench, "x", "direct", small="s", large="l")
    first = await client(bench, "x", "s")
    first.send(batch_of(b"full"))
    await bench.settled()
    waiting = await client(bench, "x", "l")
    (sender,) = [each for each in bench.queues.exchanges.publishing._senders if each.actor_ref == waiting.ref]
    sender.mandatory = mandatory
    for key in keys:
        waiting.send(keyed(key))
    await bench.settled()
    assert waiting.confirmed == []
    return bench, waiting


async def unbound(bench: StoredQueues) -> None:
    directory = bench.queues.exchanges
    await defined(bench, directory.exchanges.decide.unbind("x", "small", "s"))
    directory._changed()
    await bench.settled()


@durable
async def test_who_waits_for_a_full_queue_goes_on_when_nothing_leads_there_any_more(folder: Path) -> None:
    bench, waiting = await held(folder, b"s", b"l", mandatory=True)
    await unbound(bench)
    assert waiting.confirmed == [1, 2]
    assert [told.ranges for told in waiting.told if isinstance(told, Unroutable)] == [((0, 1),)]
    logs, counts = bench.queues.logs(), bench.queues.exchanges.publishing.counts.read("x")
    assert [logs[name].stored_messages for name in ("small", "large")] == [1, 1]
    assert (counts.published, counts.unroutable, counts.returned) == (3, 1, 1)
    await bench.close()


@durable
async def test_what_waits_for_a_queue_that_is_deleted_is_not_in_another_of_its_name(folder: Path) -> None:
    bench, waiting = await held(folder, b"s")
    bench.queues.delete("small")
    bench.queues.declare("small", QueueSettings())
    await bench.settled()
    assert waiting.confirmed == [1]
    assert bench.queues.logs()["small"].stored_messages == 0
    await bench.close()


@durable
async def test_what_waits_is_refused_with_the_exchange_that_is_deleted(folder: Path) -> None:
    bench, waiting = await held(folder, b"s")
    directory = bench.queues.exchanges
    await defined(bench, directory.exchanges.decide.delete("x"))
    directory._changed()
    await bench.settled()
    assert [code for code, _ in waiting.errors] == ["not-found"]
    await waiting.ref.stop(block=False)
    await bench.settled()
    assert bench.queues.logs()["small"].stored_messages == 1
    assert not bench.queues.exchanges.publishing._line._held
    await bench.close()


@durable
async def test_a_batch_that_cannot_be_routed_to_its_end_waits_for_no_room_to_be_refused(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(max_messages=1))
    bench.queues.declare("large", QueueSettings())
    publisher = await client(bench, "", None)
    for _ in range(6):
        publisher.send(keyed(*[b"large"] * 512))
        await bench.settled()
    first = await client(bench, "", "small")
    first.send(batch_of(b"full"))
    await bench.settled()
    publisher.send(keyed(*[b"small"] * 500, *[b"large"] * 600, b"x" * 1_000))
    await bench.settled()
    assert [code for code, _ in publisher.errors] == ["protocol-error"]
    await bench.close()


@durable
async def test_what_an_older_writer_of_a_stage_has_waiting_counts_for_nothing_when_a_newer_one_writes(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(max_messages=1))
    first = await client(bench, "", "small")
    first.send(batch_of(b"full"))
    await bench.settled()
    key = StageKey("w", 0, "0")
    older = await stager(bench, key, exchange="")
    older.send(keyed(*[b"small"] * 20))
    await bench.settled()
    newer = await stager(bench, key, exchange="")
    newer.send(keyed(b"small"))
    await bench.settled()
    ref, _ = await receiver(bench, "small")
    # Both wait no more in the same turn, the older one first.
    publishing = bench.queues.exchanges.publishing
    publishing._planned = True
    older.ref.stop_nowait()
    await turns()
    bench.queues.get("small").tell(commands.Acknowledged(((0, 1),), connection=ref))
    await bench.settled()
    publishing._turn()
    await bench.settled()
    assert [newer.confirmed, older.confirmed] == [[1], []]
    assert bench.queues.logs()["small"].staged_messages == 1
    newer.ref.stop_nowait()
    again = await stager(bench, key, exchange="")
    assert [each.last_sequence for each in again.attached] == [1]
    await bench.close()


@durable
async def test_who_waits_for_all_answers_does_not_wait_for_room(folder: Path) -> None:
    bench, waiting = await held(folder, b"s", b"l")
    waiting.ref.tell(commands.CaughtUp(True, waiting.ref))
    await bench.settled()
    assert waiting.errors == [("shutting-down", "the broker is stopping; connect again later")]
    assert bench.queues.logs()["large"].stored_messages == 0
    late = await client(bench, "x", "l")
    late.send(keyed(b"l"))
    late.ref.tell(commands.CaughtUp(True, late.ref))
    late.send(keyed(b"s"))
    await bench.settled()
    assert late.confirmed == [1]
    assert [code for code, _ in late.errors] == ["shutting-down"]
    await bench.close()


async def full(bench: StoredQueues, *names: str) -> None:
    """Queues of one message, which they have."""
    for name in names:
        bench.queues.declare(name, QueueSettings(max_messages=1))
        (await client(bench, "", name)).send(batch_of(b"full"))
    await bench.settled()


async def room(bench: StoredQueues, name: str) -> None:
    """One message of a queue is taken out."""
    ref, told = await receiver(bench, name, 1)
    await bench.settled()
    (delivery,) = [each for each in told if isinstance(each, replies.ReceivedMessages)]
    bench.queues.get(name).tell(commands.Acknowledged(((delivery.first, 1),), connection=ref))
    await bench.settled()


@durable
async def test_a_client_is_told_what_of_it_waits_when_its_queue_has_said_that_it_is_full_and_when_it_goes_on(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    await full(bench, "small", "other")
    bench.queues.declare("large", QueueSettings())
    waiting = await client(bench, "", None)
    for key in (b"large", b"small", b"other", b"large"):
        waiting.send(keyed(key))
    await bench.settled()
    assert (waiting.confirmed, waiting.waits) == ([1], [1])
    await room(bench, "small")
    # What is behind waits for another queue.
    assert (waiting.confirmed, waiting.waits) == ([1, 2], [1, 2])
    await room(bench, "other")
    assert (waiting.confirmed, waiting.waits) == ([1, 2, 3, 4], [1, 2, None])
    await bench.close()


@durable
async def test_a_client_hears_of_no_wait_where_each_queue_that_is_new_has_room(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("rejects", QueueSettings(max_messages=1, overflow="reject"))
    waiting = await client(bench, "", None)
    for number in range(4):
        bench.queues.declare(f"q{number}", QueueSettings(max_messages=1))
        waiting.send(keyed(b"q%d" % number))
    for _ in range(2):
        waiting.send(keyed(b"rejects"))
    await bench.settled()
    assert (waiting.confirmed, len(waiting.rejected), waiting.waits) == ([1, 2, 3, 4, 5], 1, [])
    await bench.close()


@durable
async def test_a_queue_that_is_filled_before_it_is_asked_has_its_client_told_too(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(max_messages=1))
    first = await client(bench, "", "small")
    waiting = await client(bench, "", None)
    # When this comes the queue is empty, and it is full when it is asked for room.
    first.send(batch_of(b"full"))
    waiting.send(keyed(b"small"))
    await bench.settled()
    assert (first.confirmed, waiting.confirmed, waiting.waits) == ([1], [], [0])
    await bench.close()


@durable
async def test_definitions_that_change_do_not_have_a_client_told_again_that_it_waits(folder: Path) -> None:
    bench = StoredQueues(folder)
    await full(bench, "small")
    waiting = await client(bench, "", None)
    waiting.send(keyed(b"small"))
    await bench.settled()
    for name in "xy":
        await bound(bench, name, "fanout")
        bench.queues.exchanges._changed()
        await bench.settled()
    assert (waiting.confirmed, waiting.waits) == ([], [0])
    bench.queues.delete("small")
    await bench.settled()
    assert (waiting.confirmed, waiting.waits) == ([1], [0, None])
    await bench.close()


@durable
async def test_a_client_that_is_gone_or_ends_while_it_waits_is_told_nothing_more(folder: Path) -> None:
    bench = StoredQueues(folder)
    await full(bench, "small")
    ended, gone = await client(bench, "", None), await client(bench, "", None)
    for each in (ended, gone):
        each.send(keyed(b"small"))
    await bench.settled()
    gone.ref.stop_nowait()
    ended.ref.tell(commands.CaughtUp(True, ended.ref))
    await bench.settled()
    assert [each.waits for each in (ended, gone)] == [[0], [0]]
    assert [code for code, _ in ended.errors] == ["shutting-down"]
    await bench.close()


@durable
async def test_who_sends_in_parts_may_send_one_message_to_find_a_queue_and_then_what_that_has_room_for(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("three", QueueSettings(max_messages=3))
    careful = Client(bench, "", None, in_parts=True)
    await turns()
    assert careful.granted == 1
    careful.send(keyed(b"three"))
    await bench.settled()
    assert (careful.confirmed, careful.granted) == ([1], 3)
    careful.send(keyed(b"three", b"three"))
    await bench.settled()
    assert (careful.confirmed, careful.granted) == ([1, 3], 3)
    # When definitions change it knows no queue any more: one message again, and no other as long as that waits.
    for name in "xy":
        await bound(bench, name, "fanout")
        bench.queues.exchanges._changed()
        await bench.settled()
        assert careful.granted == 4
        if careful.sequence == 3:
            careful.send(keyed(b"three"))
            await bench.settled()
    assert (careful.confirmed, careful.waits) == ([1, 3], [3])
    await bench.close()


@durable
async def test_who_sends_in_parts_what_no_queue_takes_may_send_twice_as_much_each_time(folder: Path) -> None:
    bench = StoredQueues(folder)
    careful = Client(bench, "", None, in_parts=True)
    await turns()
    granted = [careful.granted]
    while careful.granted - careful.sequence < 1_024:
        careful.send(keyed(*[b"nowhere"] * (careful.granted - careful.sequence)))
        await bench.settled()
        granted.append(careful.granted)
    assert granted[:5] == [1, 3, 7, 15, 31]
    assert len(granted) == 11
    await bench.close()


@durable
async def test_copies_wait_together_where_one_of_their_queues_is_full(folder: Path) -> None:
    bench = StoredQueues(folder)
    await full(bench, "small")
    bench.queues.declare("large", QueueSettings())
    waiting = Client(bench, "", None, in_parts=True)
    await turns()
    waiting.ref.tell(OfferCopies(0, keyed(b"large"), None, None, waiting.ref, 0, ("small",)))
    await bench.settled()
    assert (waiting.confirmed, waiting.waits) == ([], [0])
    assert bench.queues.logs()["large"].stored_messages == 0
    await room(bench, "small")
    assert (waiting.confirmed, waiting.waits) == ([1], [0, None])
    assert [bench.queues.logs()[name].stored_messages for name in ("small", "large")] == [1, 1]
    await bench.close()
