"""A batch for several queues is in all of them by one record, at once and after a restart; each queue delivers it at its own demand."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from actors.batch import Message, MessageBatch
from actors.errors import DiskBehindError, InvalidRequestError, QueueLimitError, StorageError
from actors.queue import in_calendars
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.settings import QueueSettings
from streams.testkit import run_in_virtual_time
from tests.actors.publishing_bench import LARGE, batch_of, received, receiver
from tests.actors.stored_queues import BrokenFiles, StoredQueues, durable, turns


@durable
async def test_it_is_one_record_and_each_queue_delivers_it_when_that_is_durable_and_not_before(folder: Path) -> None:
    bench = StoredQueues(folder)
    told = {name: (await receiver(bench, name))[1] for name in "abc"}
    await bench.settled()
    before = bench.storage._journal.next_lsn
    found = bench.queues.distributor.store("abc", batch_of(b"1", b"2"))
    assert (found.event, found.queues, found.rejected) == (before, ("a", "b", "c"), {})
    assert bench.storage._journal.next_lsn == before + 1
    await turns()
    assert [received(each) for each in told.values()] == [[], [], []]
    await bench.commit()
    assert [received(each) for each in told.values()] == [[b"1", b"2"]] * 3
    await bench.close()


async def _in_memory() -> None:
    bench = StoredQueues(None)
    told = {name: (await receiver(bench, name))[1] for name in "abc"}
    assert bench.queues.distributor.store("ac", batch_of(b"1")).queues == ("a", "c")
    await turns()
    assert [received(each) for each in told.values()] == [[b"1"], [], [b"1"]]
    await bench.close()


def test_queues_in_memory_have_it_at_once() -> None:
    run_in_virtual_time(_in_memory())


@durable
async def test_it_stands_between_what_others_sent_in_the_order_in_which_it_was_stored(folder: Path) -> None:
    bench = StoredQueues(folder)
    queue = bench.queues.get_or_create("a")
    sender, _ = await bench.connect(
        queue,
        lambda ref: commands.AttachSender("p", connection=ref),
        lambda ref: commands.RequestCapacity(100, LARGE, ref),
    )
    bench.queues.get_or_create("b")
    for round_ in range(3):
        queue.tell(commands.OfferBatch(round_, batch_of(b"own %d" % round_), connection=sender))
        if round_ != 1:
            # In the second round what was accepted is not stored yet: it comes behind.
            await turns()
        bench.queues.distributor.store("ab", batch_of(b"both %d" % round_))
        await turns()
    _, a = await receiver(bench, "a")
    _, b = await receiver(bench, "b")
    await bench.settled()
    assert received(a) == [b"own 0", b"both 0", b"both 1", b"own 1", b"own 2", b"both 2"]
    assert received(b) == [b"both 0", b"both 1", b"both 2"]
    await bench.close()


@durable
async def test_each_queue_has_it_after_a_restart_but_for_what_it_has_acknowledged(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.get_or_create("b")
    ref, told = await receiver(bench, "a")
    bench.queues.distributor.store("ab", batch_of(b"1", b"2", b"3"))
    await bench.settled()
    assert received(told) == [b"1", b"2", b"3"]
    bench.queues.get("a").tell(commands.Acknowledged(((0, 2),), connection=ref))
    await turns()
    await bench.close()
    again = StoredQueues(folder)
    told_again = {name: (await receiver(again, name))[1] for name in "ab"}
    await again.settled()
    assert received(told_again["a"]) == [b"3"]
    assert received(told_again["b"]) == [b"1", b"2", b"3"]
    await again.close()


@durable
async def test_each_queues_own_delay_and_time_to_live_hold_where_the_batch_has_none(folder: Path) -> None:
    bench = StoredQueues(folder)
    settings = {"now": QueueSettings(), "later": QueueSettings(delay=60.0), "brief": QueueSettings(ttl=5.0)}
    for name, each in settings.items():
        bench.queues.declare(name, each)
    bench.queues.distributor.store(settings, batch_of(b"x"))
    bench.queues.distributor.store(settings, batch_of(b"y"), delay=0.0, ttl=90.0)
    entries = {name: [bench.queues.logs()[name].table.at(at) for at in (0, 1)] for name in settings}
    times = {name: [entry.ttl_us for entry in found if entry is not None] for name, found in entries.items()}
    assert times == {"now": [None, 90_000_000], "later": [None, 90_000_000], "brief": [5_000_000, 5_000_000]}
    told = {name: (await receiver(bench, name))[1] for name in settings}
    await bench.settled()
    assert received(told["now"]) == received(told["brief"]) == [b"x", b"y"]
    assert received(told["later"]) == [b"y"]
    await bench.close()


@durable
async def test_what_is_known_of_what_others_have_stored_in_a_calendar_is_told_when_that_is_durable(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    queue = bench.queues.declare("a", QueueSettings(deduplication_window=60.0))
    ref, told = await bench.connect(
        queue,
        lambda ref: commands.AttachSender(None, connection=ref),
        lambda ref: commands.RequestCapacity(100, LARGE, ref),
    )
    await bench.settled()
    message = MessageBatch.from_messages([Message(b"x", deduplication_id="1")])
    bench.queues.distributor.store("a", message, delay=3_600.0, producers=(("p", 1),))
    queue.tell(commands.OfferBatch(0, message, connection=ref))
    _, named = await bench.connect(queue, lambda ref: commands.AttachSender("p", connection=ref))
    await turns()
    assert not [each for each in told if isinstance(each, replies.SentMessages)], "the other may be lost"
    assert not [each for each in named if isinstance(each, replies.SenderAttached)]
    await bench.commit()
    assert [each.numbers for each in told if isinstance(each, replies.SentMessages)] == [((None, 1),)]
    assert [each.last_sequence for each in named if isinstance(each, replies.SenderAttached)] == [1]
    await bench.close()


@durable
async def test_how_far_a_producer_is_with_duplicates_is_told_when_that_is_durable(folder: Path) -> None:
    bench = StoredQueues(folder)
    queue = bench.queues.declare("a", QueueSettings(deduplication_window=60.0))
    message = MessageBatch.from_messages([Message(b"x", deduplication_id="1")])
    bench.queues.distributor.store("a", message)
    await bench.settled()
    bench.queues.distributor.store("a", message, producers=(("p", 1),))
    _, named = await bench.connect(queue, lambda ref: commands.AttachSender("p", connection=ref))
    assert not named
    await bench.commit()
    assert [each.last_sequence for each in named] == [1]
    await bench.close()


@durable
async def test_what_waits_long_in_too_many_queues_for_one_record_takes_no_more_memory_than_it_may(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    for name in "ab":
        bench.queues.declare(name, QueueSettings())
    store = bench.queues.distributor.store
    with mock.patch.multiple(in_calendars, MAX_CALENDARS=1, MAX_DELAYED=2):
        for _ in range(2):
            store("ab", batch_of(b"x"), delay=3_600.0)
            await turns()
        with pytest.raises(QueueLimitError, match="at most 1 queues at a time"):
            store("ab", batch_of(b"y"), delay=3_600.0)
        store("a", batch_of(b"z"), delay=3_600.0)
    await bench.settled()
    assert [log.stored_messages for _, log in sorted(bench.queues.logs().items())] == [3, 2]
    await bench.close()


@durable
async def test_a_queue_that_rejects_answers_for_itself_and_the_others_have_it(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("small", QueueSettings(max_messages=2, overflow="reject"))
    bench.queues.declare("large", QueueSettings())
    assert bench.queues.distributor.store(["small", "large"], batch_of(b"1", b"2")).rejected == {}
    found = bench.queues.distributor.store(["small", "large"], batch_of(b"3"))
    assert found.queues == ("large",)
    assert "queue 'small' is full: 2 of max_messages 2" in found.rejected["small"]
    statistics = bench.queues.read("small")
    assert statistics is not None
    assert statistics.total_rejected == 1
    only = bench.queues.distributor.store(["small"], batch_of(b"4"))
    assert (only.event, only.queues, list(only.rejected)) == (0, (), ["small"])
    await bench.close()


@durable
async def test_a_queue_that_is_full_by_it_grants_its_senders_nothing_until_there_is_room(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("a", QueueSettings(max_messages=4))
    bench.queues.distributor.store("a", batch_of(*[b"x"] * 4))
    _, told = await bench.connect(
        bench.queues.get("a"),
        lambda ref: commands.AttachSender(None, connection=ref),
        lambda ref: commands.RequestCapacity(2, 100, ref),
    )
    assert not [reply for reply in told if isinstance(reply, replies.CapacityGranted)]
    ref, _ = await receiver(bench, "a")
    await bench.settled()
    bench.queues.get("a").tell(commands.Acknowledged(((0, 4),), connection=ref))
    await turns()
    assert [reply for reply in told if isinstance(reply, replies.CapacityGranted)]
    await bench.close()


@durable
async def test_a_queue_that_was_deleted_is_passed_over(folder: Path) -> None:
    bench = StoredQueues(folder)
    for name in "ab":
        bench.queues.get_or_create(name)
    bench.queues.delete("a")
    assert bench.queues.distributor.store("ab", batch_of(b"1")).queues == ("b",)
    assert bench.queues.distributor.store("a", batch_of(b"1")) == (0, (), {})
    await bench.close()


@durable
async def test_what_cannot_be_changes_nothing_for_any_queue(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.get_or_create("a")
    # Where all is in the order in which it was sent, what waits is in memory.
    bench.queues.declare("b", QueueSettings(exclusive=True))
    before = bench.storage._journal.next_lsn
    store = bench.queues.distributor.store
    with pytest.raises(InvalidRequestError, match="a delay of"):
        store("ab", batch_of(b"1"), delay=-1.0)
    with mock.patch("actors.queue.operations.sending.MAX_DELAYED", 0), pytest.raises(QueueLimitError):
        store("ab", batch_of(b"1"), delay=1.0)
    bench.storage._behind = True
    with mock.patch("actors.storage.storage.MAX_PENDING_BYTES", -1), pytest.raises(DiskBehindError):
        store("ab", batch_of(b"1"))
    assert bench.storage._journal.next_lsn == before
    assert [bench.queues.logs()[name].next_sequence for name in "ab"] == [0, 0]
    bench.storage._behind = False
    assert store("ab", batch_of(b"1")).queues == ("a", "b")
    _, told = await receiver(bench, "b")
    await bench.settled()
    assert received(told) == [b"1"]
    await bench.close()


@durable
async def test_where_the_disk_fails_no_queue_delivers_it(folder: Path) -> None:
    files = BrokenFiles()
    bench = StoredQueues(folder, files=files)
    told = {name: (await receiver(bench, name))[1] for name in "ab"}
    await bench.settled()
    files.broken = True
    bench.queues.distributor.store("ab", batch_of(b"1"))
    await bench.settled()
    assert len(bench.failures) == 1
    assert [received(each) for each in told.values()] == [[], []]
    with pytest.raises(StorageError):
        bench.queues.distributor.store("ab", batch_of(b"2"))
    await bench.close()


@durable
async def test_many_in_one_turn_wake_each_queue_once(folder: Path) -> None:
    bench = StoredQueues(folder)
    told = {name: (await receiver(bench, name, 10))[1] for name in "ab"}
    await bench.settled()
    distributor = bench.queues.distributor
    with mock.patch.object(distributor, "_wake", wraps=distributor._wake) as wake:
        for number in range(30):
            distributor.store("ab", batch_of(b"%d" % number))
        assert sorted(call.args for call in wake.call_args_list) == [("a",), ("b",)]
    await bench.settled()
    # Its own demand holds each back.
    assert [len(received(each)) for each in told.values()] == [10, 10]
    await bench.close()
