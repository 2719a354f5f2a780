"""What is published to an exchange is in every queue that it is routed to, once, in order, within the room of the fullest of them."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from actors.batch import Message, MessageBatch
from actors.queue.distribution import Distributor
from actors.queue.exchange_room import Room
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.settings import QueueSettings
from streams.testkit import run_in_virtual_time
from tests.actors.publishing_bench import LARGE, batch_of, client, defined, received, receiver
from tests.actors.stored_queues import BrokenFiles, StoredQueues, durable, turns


async def bound(bench: StoredQueues, exchange: str, kind: str, **bindings: str) -> None:
    """An exchange of a kind with queues bound by these keys, each made if need be."""
    decide = bench.queues.exchanges.exchanges.decide
    await defined(bench, decide.declare(exchange, kind))
    for queue, key in bindings.items():
        bench.queues.get_or_create(queue)
        await defined(bench, decide.bind(exchange, queue, key))


@durable
async def test_a_fanout_gives_each_queue_a_copy_by_one_record_and_confirms_when_that_is_durable(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "fanout", a="", b="", c="")
    told = {name: (await receiver(bench, name))[1] for name in "abc"}
    publisher = await client(bench, "x")
    assert publisher.granted == 1_024
    before = bench.storage._journal.next_lsn
    publisher.send(batch_of(b"1", b"2"))
    publisher.send(batch_of(b"3"))
    await turns()
    assert bench.storage._journal.next_lsn == before + 1
    assert publisher.confirmed == []
    await bench.commit()
    assert publisher.confirmed == [2, 3]
    assert [received(each) for each in told.values()] == [[b"1", b"2", b"3"]] * 3
    await bench.close()


def test_queues_in_memory_have_it_and_confirm_it_at_once() -> None:
    async def main() -> None:
        bench = StoredQueues(None)
        await bound(bench, "x", "fanout", a="", b="")
        told = {name: (await receiver(bench, name))[1] for name in "ab"}
        publisher = await client(bench, "x")
        publisher.send(batch_of(b"1"))
        await turns()
        assert publisher.confirmed == [1]
        assert [received(each) for each in told.values()] == [[b"1"], [b"1"]]
        await bench.close()

    run_in_virtual_time(main())


def keyed(*keys: bytes) -> MessageBatch:
    return MessageBatch.from_messages([Message(key + b"!", key) for key in keys])


@durable
async def test_each_message_goes_where_its_own_key_leads_and_each_queue_has_its_own_in_order(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "topic", all="#", eu="eu.*", new="*.new")
    told = {name: (await receiver(bench, name))[1] for name in ("all", "eu", "new")}
    publisher = await client(bench, "x", None)
    publisher.send(keyed(b"eu.new", b"us.new", b"eu.old", b"us.old", b"eu.new"))
    await bench.settled()
    assert publisher.confirmed == [5]
    assert received(told["all"]) == [b"eu.new!", b"us.new!", b"eu.old!", b"us.old!", b"eu.new!"]
    assert received(told["eu"]) == [b"eu.new!", b"eu.old!", b"eu.new!"]
    assert received(told["new"]) == [b"eu.new!", b"us.new!", b"eu.new!"]
    await bench.close()


@durable
async def test_a_thousand_keys_into_one_queue_are_one_batch(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "topic", q="#")
    publishers = [await client(bench, "x", None) for _ in range(4)]
    before = bench.storage._journal.next_lsn
    for number in range(1_000):
        publishers[number % 4].send(keyed(b"k.%d" % number))
    await turns()
    assert bench.storage._journal.next_lsn == before + 1
    assert bench.queues.logs()["q"].stored_batches == 1
    _, told = await receiver(bench, "q")
    await bench.settled()
    assert sorted(received(told)) == sorted(b"k.%d!" % number for number in range(1_000))
    assert [len(publisher.confirmed) for publisher in publishers] == [250] * 4
    await bench.close()


@durable
async def test_what_goes_to_no_queue_is_confirmed_and_is_nowhere(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "direct", q="wanted")
    publisher = await client(bench, "x", "unwanted")
    before = bench.storage._journal.next_lsn
    publisher.send(batch_of(b"1"))
    await turns()
    assert publisher.confirmed == [1]
    assert bench.storage._journal.next_lsn == before
    await bench.close()


@durable
async def test_a_sender_has_the_room_of_the_fullest_queue_and_more_when_that_has_more(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(max_messages=4))
    await bound(bench, "x", "fanout", small="", large="")
    publisher = await client(bench, "x")
    assert publisher.granted == 4
    publisher.send(batch_of(*[b"m"] * 4))
    await bench.settled()
    assert publisher.confirmed == [4]
    assert publisher.granted == 4
    ref, told = await receiver(bench, "small")
    await bench.settled()
    assert len(received(told)) == 4
    bench.queues.get("small").tell(commands.Acknowledged(((0, 3),), connection=ref))
    await bench.settled()
    assert publisher.granted == 7
    assert bench.queues.logs()["large"].stored_messages == 4
    await bench.close()


@durable
async def test_what_is_answered_in_one_turn_has_its_queues_looked_at_once(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "fanout", a="", b="", c="")
    publisher = await client(bench, "x")
    for _ in range(100):
        publisher.send(batch_of(b"m"))
    await turns()
    with (
        mock.patch.object(Room, "ask", autospec=True, side_effect=Room.ask) as ask,
        mock.patch.object(Room, "grant", autospec=True, side_effect=Room.grant) as grant,
    ):
        await bench.commit()
        assert publisher.confirmed == list(range(1, 101))
        # Once for the answers, and once for what the queues grant anew.
        assert (ask.call_count <= 2, grant.call_count <= 2) == (True, True)
    publisher.send(batch_of(*[b"m"] * 800))
    await bench.settled()
    publisher.send(batch_of(*[b"m"] * 1_000))
    await bench.settled()
    assert publisher.confirmed[-1] == 1_900
    assert publisher.errors == []
    await bench.close()


@durable
async def test_what_is_stored_together_is_counted_against_each_queue_once_for_each_sender(folder: Path) -> None:
    bench = StoredQueues(folder)
    for name in "ab":
        bench.queues.declare(name, QueueSettings(max_messages=10_000))
    await bound(bench, "x", "fanout", a="", b="")
    first, second = await client(bench, "x"), await client(bench, "x")
    with (
        mock.patch.object(Distributor, "used", autospec=True, side_effect=Distributor.used) as used,
        mock.patch.object(Distributor, "store", autospec=True, side_effect=Distributor.store) as store,
    ):
        for _ in range(60):
            first.send(batch_of(b"12"))
            second.send(batch_of(b"1", b"2"))
        await bench.settled()
    assert used.call_count <= 2 * store.call_count < 120
    for sender, messages, size in ((first, 60, batch_of(b"12").nbytes), (second, 120, batch_of(b"1", b"2").nbytes)):
        told = [call.args[3:] for call in used.call_args_list if call.args[2] is sender.ref]
        assert [sum(each) for each in zip(*told, strict=True)] == [messages, 60 * size]
    for name in "ab":
        figures = bench.queues.read(name)
        assert figures is not None
        assert figures.stored_messages == 180
        assert figures.stored_messages + figures.capacity_granted <= 10_000
    assert (first.errors, second.errors) == ([], [])
    await bench.close()


@durable
async def test_whoever_waits_is_told_which_queue_is_full(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(max_messages=1))
    await bound(bench, "x", "fanout", small="", large="")
    publisher = await client(bench, "x")
    publisher.send(batch_of(b"m"))
    await bench.settled()
    publisher.ref.tell(commands.ExplainWait(7, publisher.ref))
    await turns()
    (explained,) = [reply for reply in publisher.told if isinstance(reply, replies.WaitExplained)]
    assert explained.request == 7
    assert "queue small is full" in explained.text
    await bench.close()


@durable
async def test_native_senders_and_those_of_an_exchange_share_a_queues_room(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("q", QueueSettings(max_messages=100))
    await bound(bench, "x", "fanout", q="")
    publisher = await client(bench, "x")
    _, native = await bench.connect(
        bench.queues.get("q"),
        lambda ref: commands.AttachSender(None, connection=ref),
        lambda ref: commands.RequestCapacity(1_000, LARGE, ref),
    )
    granted = sum(reply.messages for reply in native if isinstance(reply, replies.CapacityGranted))
    assert publisher.granted + granted <= 101
    publisher.send(batch_of(*[b"m"] * min(100, publisher.granted)))
    await bench.settled()
    assert bench.queues.logs()["q"].stored_messages <= 101
    await bench.close()


@durable
async def test_what_a_producer_sends_again_is_in_each_queue_once(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "topic", all="#", eu="eu.*")
    publisher = await client(bench, "x", None, "p")
    publisher.send(keyed(b"us.1", b"eu.2", b"us.3"))
    await bench.settled()
    await publisher.ref.stop(block=False)
    again = await client(bench, "x", None, "p")
    again.send(keyed(b"us.1", b"eu.2", b"us.3", b"eu.4", b"us.5"), sequence=0)
    again.send(keyed(b"eu.6"))
    await bench.settled()
    assert again.confirmed == [5, 6]
    told = {name: (await receiver(bench, name))[1] for name in ("all", "eu")}
    await bench.settled()
    assert received(told["all"]) == [b"us.1!", b"eu.2!", b"us.3!", b"eu.4!", b"us.5!", b"eu.6!"]
    assert received(told["eu"]) == [b"eu.2!", b"eu.4!", b"eu.6!"]
    await bench.close()


@durable
async def test_what_is_sent_again_is_confirmed_no_sooner_than_what_was_sent_first_is_durable(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "fanout", q="")
    publisher = await client(bench, "x", "", "p")
    publisher.send(batch_of(b"1"))
    await turns()
    again = await client(bench, "x", "", "p")
    assert publisher.errors == [("taken-over", "a newer connection carries this client id")]
    again.send(batch_of(b"1"), sequence=0)
    await turns()
    assert again.confirmed == []
    await bench.commit()
    assert again.confirmed == [1]
    assert bench.queues.logs()["q"].stored_messages == 1
    await bench.close()


@durable
async def test_a_queue_that_rejects_answers_and_the_others_have_it_and_what_comes_behind_is_rejected_too(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(max_messages=2, overflow="reject"))
    await bound(bench, "x", "topic", small="s", large="#")
    publisher = await client(bench, "x", None)
    publisher.send(keyed(b"s", b"s"))
    publisher.send(keyed(b"s"))
    publisher.send(keyed(b"t"))
    await bench.settled()
    assert publisher.confirmed == [2]
    assert [up_to for up_to, _ in publisher.rejected] == [3, 4]
    assert "queue 'small' is full" in publisher.rejected[0][1]
    assert "messages sent before, from number 2 on, were rejected" in publisher.rejected[1][1]
    publisher.send(keyed(b"t"), sequence=2)
    publisher.send(keyed(b"t"))
    await bench.settled()
    assert publisher.confirmed == [2, 3, 4]
    assert bench.queues.logs()["small"].stored_messages == 2
    assert publisher.errors == []
    await bench.close()


@durable
async def test_a_queue_that_is_bound_later_has_what_is_sent_from_then_on(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "fanout", a="")
    publisher = await client(bench, "x")
    publisher.send(batch_of(b"1"))
    await bench.settled()
    bench.queues.declare("b", QueueSettings(max_messages=3))
    await defined(bench, bench.queues.exchanges.exchanges.decide.bind("x", "b"))
    publisher.send(batch_of(b"2"))
    await bench.settled()
    told = {name: (await receiver(bench, name))[1] for name in "ab"}
    await bench.settled()
    assert [received(each) for each in told.values()] == [[b"1", b"2"], [b"2"]]
    await bench.close()


@durable
async def test_a_queue_that_is_deleted_holds_back_nobody_any_more(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(max_messages=1))
    await bound(bench, "x", "fanout", small="", large="")
    publisher = await client(bench, "x")
    publisher.send(batch_of(b"1"))
    await bench.settled()
    assert publisher.granted == 1
    bench.queues.delete("small")
    await bench.settled()
    assert publisher.granted > 500
    publisher.send(batch_of(b"2"))
    await bench.settled()
    assert publisher.confirmed == [1, 2]
    assert publisher.errors == []
    await bench.close()


@durable
async def test_who_leaves_gives_the_queues_their_room_back(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("q", QueueSettings(max_messages=10))
    await bound(bench, "x", "fanout", q="")
    first = await client(bench, "x")
    assert first.granted == 10
    await first.ref.stop(block=False)
    second = await client(bench, "x")
    assert second.granted == 10
    await bench.close()


@pytest.mark.parametrize(
    ("exchange", "code"), [("nowhere", "not-found"), ("inside", "forbidden")], ids=["missing", "internal"]
)
def test_an_exchange_that_takes_nothing_is_told_at_once(tmp_path: Path, exchange: str, code: str) -> None:
    async def main() -> None:
        bench = StoredQueues(tmp_path / "data")
        await defined(bench, bench.queues.exchanges.exchanges.decide.declare("inside", internal=True))
        publisher = await client(bench, exchange, None)
        assert [each[0] for each in publisher.errors] == [code]
        await bench.close()

    run_in_virtual_time(main())


@durable
async def test_an_exchange_that_is_deleted_ends_those_who_publish_there_and_what_was_sent_before_is_confirmed(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "fanout", q="")
    publisher = await client(bench, "x")
    publisher.send(batch_of(b"1"))
    await turns()
    await defined(bench, bench.queues.exchanges.exchanges.decide.delete("x"))
    publisher.send(batch_of(b"2"))
    await bench.settled()
    assert publisher.confirmed == [1]
    assert [code for code, _ in publisher.errors] == ["not-found"]
    await bench.close()


@durable
async def test_who_has_sent_nothing_but_what_is_stored_hears_that_before_its_exchange_is_gone(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "fanout", q="")
    publisher, idle = await client(bench, "x"), await client(bench, "x")
    publisher.send(batch_of(b"1"))
    publisher.send(batch_of(b"2"))
    await turns()
    directory = bench.queues.exchanges
    directory._definitions.change_definitions(directory.exchanges.decide.delete("x"))
    directory._changed()
    await turns()
    assert [code for code, _ in idle.errors] == ["not-found"]
    assert (publisher.confirmed, publisher.errors) == ([], []), "the disk has not followed"
    await bench.commit()
    assert publisher.confirmed == [1, 2]
    assert [code for code, _ in publisher.errors] == ["not-found"]
    await bench.close()


@durable
async def test_who_sends_more_than_was_granted_or_leaves_numbers_out_is_ended(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("q", QueueSettings(max_messages=2))
    await bound(bench, "x", "fanout", q="")
    greedy, careless = await client(bench, "x"), await client(bench, "x")
    greedy.send(batch_of(*[b"m"] * 9))
    careless.send(batch_of(b"1"))
    careless.send(batch_of(b"2"), sequence=5)
    await bench.settled()
    assert [code for code, _ in greedy.errors] == ["demand-exceeded"]
    assert careless.errors
    assert bench.queues.logs()["q"].stored_messages <= 2
    await bench.close()


@durable
async def test_where_the_disk_fails_nothing_is_confirmed(folder: Path) -> None:
    files = BrokenFiles()
    bench = StoredQueues(folder, files=files)
    await bound(bench, "x", "fanout", a="", b="")
    publisher = await client(bench, "x")
    files.broken = True
    publisher.send(batch_of(b"1"))
    await bench.settled()
    assert len(bench.failures) == 1
    assert publisher.confirmed == []
    await bench.close()


@durable
async def test_a_mark_comes_behind_all_that_was_sent_before_it(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "fanout", q="")
    publisher = await client(bench, "x")
    publisher.send(batch_of(b"1"))
    publisher.ref.tell(commands.CaughtUp(False, publisher.ref))
    publisher.ref.tell(commands.CaughtUp(True, publisher.ref))
    await turns()
    assert publisher.marks == 1
    assert bench.queues.logs()["q"].stored_messages == 1
    await bench.commit()
    assert publisher.marks == 2
    await bench.close()


@durable
async def test_what_a_crash_took_from_one_queue_is_stored_there_when_it_comes_again_and_nowhere_twice(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "topic", left="l.*", right="r.*")
    publisher = await client(bench, "x", None, "p")
    publisher.send(keyed(b"l.0", b"r.1", b"l.2"))
    await turns()
    # The record of the one queue is on the disk, and that of the other is not. Before it comes the segment that such a record begins.
    bench.commit_groups(2)
    await turns()
    assert publisher.confirmed == []
    await bench.die()
    again = StoredQueues(folder)
    assert [again.queues.logs()[name].stored_messages for name in ("left", "right")] == [2, 0]
    publisher = await client(again, "x", None, "p")
    publisher.send(keyed(b"l.0", b"r.1", b"l.2", b"r.3"))
    await again.settled()
    assert publisher.confirmed == [4]
    told = {name: (await receiver(again, name))[1] for name in ("left", "right")}
    await again.settled()
    assert received(told["left"]) == [b"l.0!", b"l.2!"]
    assert received(told["right"]) == [b"r.1!", b"r.3!"]
    await again.close()


@durable
async def test_behind_what_cannot_be_stored_nothing_of_its_sender_is_and_all_of_it_is_when_it_comes_again(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "topic", left="l.*", right="r.*")
    publisher = await client(bench, "x", None, "p")
    other = await client(bench, "x", None, "q")
    in_memory = {"MAX_DELAYED": 0, "keeps_calendar": lambda _: False}
    with mock.patch.multiple("actors.queue.operations.sending", **in_memory):
        publisher.send(keyed(b"l.0"))
        publisher.send(keyed(b"l.1", b"r.2"), delay=5.0)
        publisher.send(keyed(b"l.3", b"r.4"))
        other.send(keyed(b"r.5"))
        await bench.settled()
    assert publisher.confirmed == [1]
    assert [code for code, _ in publisher.errors] == ["limit-exceeded"]
    assert other.confirmed == [1]
    again = await client(bench, "x", None, "p")
    again.send(keyed(b"l.0"))
    again.send(keyed(b"l.1", b"r.2"))
    again.send(keyed(b"l.3", b"r.4"))
    await bench.settled()
    assert again.confirmed == [1, 3, 5]
    told = {name: (await receiver(bench, name))[1] for name in ("left", "right")}
    await bench.settled()
    assert received(told["left"]) == [b"l.0!", b"l.1!", b"l.3!"]
    assert received(told["right"]) == [b"r.5!", b"r.2!", b"r.4!"]
    await bench.close()


@durable
async def test_a_key_that_cannot_be_ends_its_sender_and_nothing_behind_it_is_stored(folder: Path) -> None:
    bench = StoredQueues(folder)
    await bound(bench, "x", "topic", q="#")
    publisher = await client(bench, "x", None, "p")
    publisher.send(keyed(b"k" * 256))
    publisher.send(keyed(b"k"))
    await bench.settled()
    assert publisher.confirmed == []
    assert [code for code, _ in publisher.errors] == ["protocol-error"]
    assert bench.queues.logs()["q"].stored_messages == 0
    await bench.close()


@durable
async def test_what_one_queue_rejects_no_other_remembers_by_its_number(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(max_messages=1, overflow="reject"))
    await bound(bench, "x", "topic", small="s", large="#")
    publisher = await client(bench, "x", None, "p")
    publisher.send(keyed(b"s"))
    publisher.send(keyed(b"s"))
    await bench.settled()
    assert [up_to for up_to, _ in publisher.rejected] == [2]
    # Another message has the number now, and the broker dies before that is on the disk.
    publisher.send(keyed(b"t"), sequence=1)
    await turns()
    await bench.die()
    again = StoredQueues(folder)
    publisher = await client(again, "x", None, "p")
    publisher.send(keyed(b"t"), sequence=1)
    await again.settled()
    _, told = await receiver(again, "large")
    await again.settled()
    assert received(told) == [b"s!", b"s!", b"t!"]
    await again.close()
