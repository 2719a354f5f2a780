"""A queue on the disk that is deleted while something of it is under way: nothing fails, and nobody is told of a defect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.batch import MessageBatch
from actors.errors import QueueGoneError
from actors.queue.operations.subscribing import STEP_RANGES
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.settings import QueueSettings
from actors.runtime.loop_future import ask
from streams.testkit import elapse
from tests.actors.stored_queues import Connection, Ref, StoredQueues, durable


class Bench(StoredQueues):
    """A queue on the disk with 200 batches, none of them in memory, and a subscription that has reserved them all."""

    def __init__(self, folder: Path, settings: QueueSettings) -> None:
        super().__init__(folder, settings, cache_bytes=0)
        self.queue = self.queues.get_or_create("q")
        self.told: list[Any] = []
        self.connection: Ref = Connection.start(self.told)

    async def filled(self, batches: int = 200) -> None:
        self.queue.tell(commands.AttachSender(None, connection=self.connection))
        self.queue.tell(commands.RequestCapacity(10**6, 10**8, connection=self.connection))
        for number in range(batches):
            # So large that they are not joined.
            payload = b"%06d" % number * 6_000
            self.queue.tell(
                commands.OfferBatch(
                    number, MessageBatch.from_payloads([payload]), None, None, connection=self.connection
                )
            )
        await self.settled()

    def delete_under_it(self) -> None:
        """What the directory does first; the actor has not heard of it."""
        self.storage.delete(self.queues.number_of("q"))

    def of(self, kind: type) -> list[Any]:
        return [message for message in self.told if isinstance(message, kind)]


async def reserving(bench: Bench) -> None:
    bench.queue.tell(commands.OpenSubscription("sub", "own", None, "earliest", None, connection=bench.connection))
    bench.queue.tell(commands.ReserveRequested(1, 0, 200, 10**8, 0.0, None, connection=bench.connection))
    await bench.settled()
    assert bench.of(replies.MessagesReserved)[0].end == 200


@durable
async def test_a_fetch_is_answered_in_steps_that_the_queue_has_read(folder: Path) -> None:
    bench = Bench(folder, QueueSettings())
    await bench.filled()
    await reserving(bench)
    position, numbers = 0, []
    while position is not None:
        bench.queue.tell(commands.FetchRequested(2, position, 200, connection=bench.connection))
        await bench.settled()
        step = bench.of(replies.FetchedRanges)[-1]
        assert 0 < len(step.ranges) <= STEP_RANGES
        assert sum(part.batch.nbytes for part in step.ranges) < 2**20 + 40_000
        numbers += [part.position for part in step.ranges]
        position = step.rest
    assert numbers == list(range(200))
    await bench.close()


@durable
async def test_what_was_read_for_a_fetch_outlives_the_queue_and_the_next_step_tells_of_its_end(folder: Path) -> None:
    bench = Bench(folder, QueueSettings())
    await bench.filled()
    await reserving(bench)
    bench.queue.tell(commands.FetchRequested(2, 0, 200, connection=bench.connection))
    await bench.settled()
    (step,) = bench.of(replies.FetchedRanges)
    bench.delete_under_it()
    assert [part.batch.payloads[0][:6] for part in step.ranges[:2]] == [b"000000", b"000001"]
    bench.queue.tell(commands.FetchRequested(2, step.rest, 200, connection=bench.connection))
    await bench.settled()
    assert [refused.code for refused in bench.of(replies.Refused)] == ["queue-deleted"]
    assert not bench.failures
    await bench.close()


@durable
async def test_a_tick_of_a_queue_that_is_being_deleted_costs_no_restart(folder: Path) -> None:
    bench = Bench(folder, QueueSettings(ttl=5.0))
    await bench.filled(20)
    bench.delete_under_it()
    await elapse(10.0)
    await bench.settled()
    assert not bench.queue.is_alive(), "it has noticed"
    assert bench.of(replies.QueueDeleted)
    assert not bench.of(replies.Refused), "nobody is told of a failure"
    assert not bench.failures
    await bench.close()


@durable
async def test_whoever_asks_a_queue_that_is_being_deleted_is_answered_so(folder: Path) -> None:
    bench = Bench(folder, QueueSettings())
    await bench.filled(20)
    bench.delete_under_it()
    with pytest.raises(QueueGoneError):
        await ask(bench.queue, commands.GetStatistics())
    assert await bench.queue.stopped() is None
    await bench.close()
