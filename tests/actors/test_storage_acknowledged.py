"""Who waits for acknowledgements to be on the disk: not for those of others, and is told where theirs were lost on the way."""

from __future__ import annotations

import asyncio
from pathlib import Path
from unittest import mock

import pytest

from actors.errors import StorageError
from actors.queue.vocabulary import commands
from journal import JournalFailedError, JournalFullError
from tests.actors.queue_probes import batch
from tests.actors.stored_queues import Ref, StoredQueues, durable, turns


async def received(bench: StoredQueues, count: int) -> tuple[Ref, Ref]:
    """A queue, and a receiver that holds so many messages of it."""
    queue = bench.queues.get_or_create("a")
    await bench.connect(
        queue,
        lambda ref: commands.AttachSender(None, connection=ref),
        lambda ref: commands.RequestCapacity(100, 10**5, connection=ref),
        lambda ref: commands.OfferBatch(0, batch(*[b"x"] * count), None, None, connection=ref),
    )
    await bench.settled()
    receiver, _ = await bench.connect(
        queue,
        lambda ref: commands.AttachReceiver(connection=ref),
        lambda ref: commands.DemandSignalled(count, 10**6, connection=ref),
    )
    await bench.settled()
    return queue, receiver


async def acknowledge(queue: Ref, receiver: Ref, number: int) -> None:
    queue.tell(commands.Acknowledged(((number, number + 1),), connection=receiver))
    await turns()


@durable
async def test_who_waits_for_an_acknowledgement_does_not_wait_for_those_that_others_give_meanwhile(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    queue, receiver = await received(bench, 5)
    await acknowledge(queue, receiver, 0)
    waiting = asyncio.ensure_future(bench.queues.acknowledged())
    await turns()
    assert not waiting.done()
    await acknowledge(queue, receiver, 1)
    assert bench.storage._gathered
    await bench.commit()
    assert waiting.done()
    await waiting
    # The other one has no record yet.
    assert bench.storage._gathered
    await bench.close()


@durable
async def test_where_the_journal_is_full_an_acknowledgement_is_waited_for_until_there_is_room(folder: Path) -> None:
    bench = StoredQueues(folder)
    queue, receiver = await received(bench, 2)
    await acknowledge(queue, receiver, 0)
    # Something waits for the disk, so that there is something to wait for.
    bench.queues.get_or_create("b")
    with mock.patch.object(bench.storage._journal, "append", side_effect=JournalFullError(10, 10)):
        waiting = asyncio.ensure_future(bench.queues.acknowledged())
        await turns()
    await bench.commit()
    assert not waiting.done()
    await bench.commit()
    assert waiting.done()
    await waiting
    assert not bench.storage._gathered
    await bench.close()


@durable
async def test_an_acknowledgement_that_found_no_way_into_the_journal_is_not_said_to_be_there(folder: Path) -> None:
    bench = StoredQueues(folder)
    queue, receiver = await received(bench, 2)
    await acknowledge(queue, receiver, 0)
    failed = JournalFailedError(OSError(5, "Input/output error"))
    with (
        mock.patch.object(bench.storage._journal, "append", side_effect=failed),
        pytest.raises(StorageError, match="Input/output error"),
    ):
        await bench.queues.acknowledged()
    # Nor later, to whoever asks then.
    with pytest.raises(StorageError, match="Input/output error"):
        await bench.queues.acknowledged()
    assert len(bench.failures) == 1
    await bench.close()
