"""The queue actor over a journal: nobody hears of what a crash could undo."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.queue.queue_actor import QueueActor
from actors.queue.vocabulary.commands import (
    Acknowledged,
    AttachReceiver,
    AttachSender,
    DemandSignalled,
    GetStatistics,
    Left,
    OfferBatch,
    PurgeQueue,
    RequestCapacity,
)
from actors.queue.vocabulary.replies import (
    CapacityGranted,
    QueueDeleted,
    ReceivedMessages,
    ReceiverAttached,
    Refused,
    SenderAttached,
    SentMessages,
)
from actors.queue.vocabulary.settings import QueueSettings
from streams.testkit import elapse
from tests.actors.stored_queues import BrokenFiles, Ref, StoredQueues, durable, turns


def sends(sequence: int, *payloads: bytes) -> Callable[[Ref], OfferBatch]:
    return lambda ref: OfferBatch(sequence, MessageBatch.from_payloads(payloads), connection=ref)


SENDER = (lambda ref: AttachSender("p", connection=ref), lambda ref: RequestCapacity(1000, 10**6, connection=ref))
RECEIVER = (AttachReceiver, partial(DemandSignalled, 1000, 8 * 2**20))


@durable
async def test_neither_sender_nor_receiver_hears_of_a_message_before_it_is_durable(directory: Path) -> None:
    bench = StoredQueues(directory)
    queue = bench.queues.get_or_create("q")
    sender, confirmed = await bench.connect(queue, *SENDER)
    _, delivered = await bench.connect(queue, *RECEIVER)
    await bench.commit()
    queue.tell(sends(0, b"a", b"b")(sender))
    await turns()
    assert [type(message) for message in confirmed] == [SenderAttached, CapacityGranted]
    assert [type(message) for message in delivered] == [ReceiverAttached]
    await bench.commit()
    assert confirmed[2:] == [SentMessages(2, 0)]
    assert [(m.first, m.possibly_replayed) for m in delivered[1:]] == [(0, False)]
    await bench.close()


@durable
async def test_a_sender_that_comes_back_is_told_only_of_what_is_durable(directory: Path) -> None:
    """What it is told was stored it takes for confirmed."""
    bench = StoredQueues(directory)
    queue = bench.queues.get_or_create("q")
    await bench.connect(queue, *SENDER, sends(0, b"a", b"b"))
    _, told = await bench.connect(queue, SENDER[0])
    assert told == []
    await bench.commit()
    assert told == [SenderAttached(2)]
    await bench.close()


@durable
async def test_what_is_durable_already_does_not_wait_for_what_is_not(directory: Path) -> None:
    bench = StoredQueues(directory)
    queue = bench.queues.get_or_create("q")
    sender, _ = await bench.connect(queue, *SENDER, sends(0, b"old"))
    await bench.commit()
    queue.tell(sends(1, b"new")(sender))
    _, delivered = await bench.connect(queue, *RECEIVER)
    assert [m.batch.payloads.tolist() for m in delivered if type(m) is ReceivedMessages] == [[b"old"]]
    await bench.commit()
    assert [m.batch.payloads.tolist() for m in delivered if type(m) is ReceivedMessages] == [[b"old"], [b"new"]]
    await bench.close()


@durable
async def test_a_delivery_does_not_overtake_one_that_is_held_and_has_become_durable(directory: Path) -> None:
    """The request is handled when both are durable, and before the queue hears of it."""
    bench = StoredQueues(directory)
    queue = bench.queues.declare("q", QueueSettings(exclusive=True))
    sender, _ = await bench.connect(queue, *SENDER)
    receiver, delivered = await bench.connect(
        queue, AttachReceiver, lambda ref: DemandSignalled(1, 8 * 2**20, connection=ref)
    )
    await bench.commit()
    for sequence in range(2):
        queue.tell(sends(sequence, b"%d" % sequence)(sender))
        await turns()
    bench.committer.run()
    queue.tell(DemandSignalled(1, 8 * 2**20, connection=receiver))
    await turns()
    assert [(m.first, m.delivery_count) for m in delivered if type(m) is ReceivedMessages] == [(0, 1), (1, 1)]
    await bench.close()


@durable
async def test_what_was_held_for_a_receiver_that_has_gone_does_not_have_the_next_one_served_out_of_turn(
    directory: Path,
) -> None:
    """What is durable is let out even where something before it is not."""
    bench = StoredQueues(directory)
    queue = bench.queues.declare("q", QueueSettings(exclusive=True))
    sender, _ = await bench.connect(queue, *SENDER)
    gone, _ = await bench.connect(queue, AttachReceiver, lambda ref: DemandSignalled(3, 8 * 2**20, connection=ref))
    receiver, delivered = await bench.connect(
        queue, AttachReceiver, lambda ref: DemandSignalled(1, 8 * 2**20, connection=ref)
    )
    await bench.commit()
    for sequence in range(3):
        queue.tell(sends(sequence, b"%d" % sequence)(sender))
        await turns()
    queue.tell(Left(connection=gone))
    await turns()
    bench.commit_groups(2)
    queue.tell(DemandSignalled(1, 8 * 2**20, connection=receiver))
    await turns()
    assert [m.first for m in delivered if type(m) is ReceivedMessages] == [0, 1]
    await bench.commit()
    await bench.close()


@durable
async def test_a_sender_that_is_refused_hears_first_of_what_it_sent_before(directory: Path) -> None:
    bench = StoredQueues(directory)
    queue = bench.queues.get_or_create("q")
    _, told = await bench.connect(queue, *SENDER, sends(0, b"a"), sends(5, b"after a gap"))
    await bench.commit()
    assert [type(message) for message in told] == [SenderAttached, CapacityGranted, SentMessages, Refused]
    await bench.close()


@durable
async def test_a_queue_whose_inbox_is_full_is_woken_by_a_commit_like_every_other(directory: Path) -> None:
    bench = StoredQueues(directory)
    with mock.patch.object(QueueActor, "max_inbox", 8):
        queues = [bench.queues.get_or_create(name) for name in ("full", "other")]
    told = [await bench.connect(queue, *SENDER, sends(0, b"a")) for queue in queues]
    full, (sender, _) = queues[0], told[0]
    bench.committer.run()
    for _ in range(8):
        full.tell(RequestCapacity(0, 0, connection=sender))
    await turns()
    assert [confirmed[-1] for _, confirmed in told] == [SentMessages(1, 0)] * 2
    await bench.close()


@durable
async def test_batches_that_arrive_together_are_stored_as_one_and_confirmed_each(directory: Path) -> None:
    bench = StoredQueues(directory)
    queue = bench.queues.get_or_create("q")
    _, confirmed = await bench.connect(queue, *SENDER, *(sends(n, b"%d" % n) for n in range(5)))
    await bench.commit()
    assert confirmed[2:] == [SentMessages(n + 1, n) for n in range(5)]
    located = bench.storage._journal.locate(bench.queues.number_of("q"), 0)
    assert located is not None
    assert (located.first, located.stop) == (0, 5)
    await bench.close()


@durable
async def test_an_acknowledgement_holds_nothing_up(directory: Path) -> None:
    bench = StoredQueues(directory)
    queue = bench.queues.get_or_create("q")
    await bench.connect(queue, *SENDER, sends(0, b"a", b"b"))
    await bench.commit()
    receiver, delivered = await bench.connect(
        queue, AttachReceiver, lambda ref: DemandSignalled(1, 8 * 2**20, connection=ref)
    )
    queue.tell(Acknowledged([(0, 1)], connection=receiver))
    queue.tell(DemandSignalled(1, 8 * 2**20, connection=receiver))
    await turns()
    assert [m.first for m in delivered if type(m) is ReceivedMessages] == [0, 1]
    await bench.close()


@durable
async def test_an_ask_is_answered_when_what_it_did_is_durable(directory: Path) -> None:
    bench = StoredQueues(directory)
    queue = bench.queues.get_or_create("q")
    await bench.connect(queue, *SENDER, sends(0, b"a", b"b", b"c"))
    await bench.commit()
    purged = asyncio.ensure_future(_await(queue.ask(PurgeQueue(), block=False)))
    await turns()
    assert not purged.done()
    bench.committer.run()
    assert await purged == 3
    await bench.close()


@durable
async def test_an_ask_that_waits_when_the_queue_stops_fails_instead_of_waiting_for_ever(directory: Path) -> None:
    bench = StoredQueues(directory)
    queue = bench.queues.get_or_create("q")
    _, told = await bench.connect(queue, *SENDER, sends(0, b"a"))
    await bench.commit()
    purged = asyncio.ensure_future(_await(queue.ask(PurgeQueue(), block=False)))
    await turns()
    bench.queues.delete("q")
    with pytest.raises(Exception, match="stopped before its answer was durable"):
        await purged
    assert type(told[-1]) is QueueDeleted
    await bench.close()


@durable
async def test_a_disk_that_fails_is_told_once_and_nothing_is_confirmed_after_it(directory: Path) -> None:
    files = BrokenFiles()
    bench = StoredQueues(directory, files=files)
    queue = bench.queues.get_or_create("q")
    sender, confirmed = await bench.connect(queue, *SENDER)
    await bench.commit()
    files.broken = True
    queue.tell(sends(0, b"a")(sender))
    await turns()
    await bench.commit()
    assert [type(failure) for failure in bench.failures] == [StorageError]
    assert "nothing that was reported durable is lost" in str(bench.failures[0])
    files.broken = False
    queue.tell(sends(1, b"b")(sender))
    await turns()
    await bench.commit()
    assert SentMessages not in map(type, confirmed)
    assert len(bench.failures) == 1
    await bench.close()


@durable
async def test_queues_come_back_with_their_names_numbers_settings_and_messages(directory: Path) -> None:
    bench = StoredQueues(directory)
    bench.queues.declare("declared", QueueSettings(max_messages=7))
    queue = bench.queues.get_or_create("q")
    await bench.connect(queue, *SENDER, sends(0, b"a"))
    numbers = [bench.queues.number_of(name) for name in ("declared", "q")]
    store = bench.storage.store_id
    await bench.commit()
    await bench.close()

    again = StoredQueues(directory)
    assert list(again.queues) == ["declared", "q"]
    assert [again.queues.number_of(name) for name in ("declared", "q")] == numbers
    assert again.queues.settings_of("declared").max_messages == 7
    assert again.storage.store_id == store, "the ids of messages stay what they were"
    assert (await again.queues.get("q").ask(GetStatistics(), block=False)).ready == 1
    await again.close()


@durable
async def test_a_sender_that_comes_back_after_a_restart_duplicates_nothing(directory: Path) -> None:
    bench = StoredQueues(directory)
    await bench.connect(bench.queues.get_or_create("q"), *SENDER, sends(0, b"a", b"b"))
    await bench.commit()
    await bench.close()
    again = StoredQueues(directory)
    _, told = await again.connect(again.queues.get("q"), *SENDER, sends(1, b"b", b"c"))
    await again.commit()
    assert told[0] == SenderAttached(2)
    assert told[2] == SentMessages(3, None)
    assert (await again.queues.get("q").ask(GetStatistics(), block=False)).total_in == 3
    await again.close()


@durable
async def test_a_jump_of_the_wall_clock_neither_ends_a_lease_nor_holds_it(directory: Path) -> None:
    """Known trap: wall-clock jumps that expire or freeze leases."""
    bench = StoredQueues(directory)
    for name, jump in (("forward", 86_400.0), ("back", -7 * 86_400.0)):
        queue = bench.queues.get_or_create(name)
        _, told = await bench.connect(queue, *RECEIVER)
        sender, _ = await bench.connect(queue, *SENDER, sends(0, b"held"))
        await bench.commit()
        bench.time_of_day += jump
        await elapse(9.0)
        queue.tell(sends(1, b"new")(sender))
        await turns()
        await bench.commit()
        assert [m.first for m in told if type(m) is ReceivedMessages] == [0, 1], "what is held is held"
        await elapse(1.5)
        assert [m.first for m in told if type(m) is ReceivedMessages] == [0, 1, 0], "for ten seconds"
    await bench.close()


async def _await(future: Any) -> Any:
    return await future
