"""The directory of queues, and what becomes of it when a queue has failed for good."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import pykka
import pytest

from actors.batch import MessageBatch
from actors.errors import StorageError
from actors.queue.directory_errors import QueueNotFoundError
from actors.queue.queue_actor import QueueActor
from actors.queue.vocabulary import commands
from actors.queue.vocabulary.stages import StageKey
from actors.runtime.loop_future import ask
from actors.runtime.loop_registry import LoopActorRegistry
from streams.testkit import run_in_virtual_time
from tests.actors.stored_queues import Connection, Ref, StoredQueues, durable


class Bench(StoredQueues):
    """Queues that can be made to fail for good."""

    async def fail_for_good(self, name: str) -> Ref:
        queue = self.queues.get_or_create(name)
        for _ in range(QueueActor.max_restarts + 1):
            queue.tell(object())
        await queue.stopped()
        return queue

    async def send(self, name: str, *payloads: bytes) -> list[Any]:
        told: list[Any] = []
        connection: Ref = Connection.start(told)
        queue = self.queues.get_or_create(name)
        queue.tell(commands.AttachSender(None, connection=connection))
        queue.tell(commands.RequestCapacity(100, 10**5, connection=connection))
        queue.tell(commands.OfferBatch(0, MessageBatch.from_payloads(payloads), None, None, connection=connection))
        await self.settled()
        return told

    async def stored(self, name: str) -> int:
        await self.settled()
        statistics = await ask(self.queues.get(name), commands.GetStatistics())
        return int(statistics.stored_messages)

    def names_in_the_journal(self) -> list[str]:
        return [queue.name for queue in self.storage.queues]


def queue_actors() -> int:
    return sum(issubclass(ref.actor_class, QueueActor) for ref in LoopActorRegistry.get_all())


@durable
async def test_a_queue_that_failed_for_good_is_deleted_whole_and_made_anew_once(folder: Path) -> None:
    bench = Bench(folder)
    await bench.send("other", b"kept")
    await bench.send("q", b"1", b"2")
    await bench.fail_for_good("q")
    bench.queues.delete("q")
    assert list(bench.queues) == bench.names_in_the_journal() == ["other"]
    with pytest.raises(QueueNotFoundError):
        bench.queues.get("q")
    await bench.send("q", b"3")
    assert sorted(bench.names_in_the_journal()) == ["other", "q"]
    await bench.close()
    bench = Bench(folder)
    assert (list(bench.queues), queue_actors()) == (["other", "q"], 2)
    assert (await bench.stored("q"), await bench.stored("other")) == (1, 1)
    await bench.close()


@durable
async def test_whoever_asks_for_a_queue_that_failed_for_good_gets_its_successor_with_all_it_holds(folder: Path) -> None:
    bench = Bench(folder)
    for find in (
        bench.queues.get,
        bench.queues.get_or_create,
        lambda name: bench.queues.declare(name, bench.queues.settings),
    ):
        name = f"q{id(find)}"
        await bench.send(name, b"1", b"2")
        dead = await bench.fail_for_good(name)
        found = find(name)
        assert found.is_alive()
        assert found is not dead
        assert find(name) is found
        assert await bench.stored(name) == 2
    assert not bench.failures
    await bench.close()


@durable
async def test_a_queue_whose_actor_cannot_be_started_is_not_declared_a_second_time(folder: Path) -> None:
    bench = Bench(folder)
    # Taken away behind it, so that a class made of this one starts as itself again.
    with mock.patch.object(QueueActor, "start", side_effect=MemoryError), pytest.raises(MemoryError):
        bench.queues.get_or_create("q")
    await bench.send("q", b"1")
    assert bench.names_in_the_journal() == ["q"]
    assert len(bench.queues) == 1
    bench.queues.delete("q")
    assert bench.names_in_the_journal() == []
    await bench.close()


@durable
async def test_a_delete_that_the_journal_refuses_deletes_nothing(folder: Path) -> None:
    bench = Bench(folder)
    await bench.send("q", b"1")
    storage = bench.storage
    refusing = storage._append

    def refuse(_kind: int, _payload: bytes) -> int:
        raise StorageError("no")

    storage._append = refuse  # type: ignore[method-assign]
    with pytest.raises(StorageError):
        bench.queues.delete("q")
    storage._append = refusing  # type: ignore[method-assign]
    assert list(bench.queues) == bench.names_in_the_journal() == ["q"]
    assert bench.queues.get("q").is_alive()
    await bench.close()


@durable
async def test_a_journal_with_two_queues_of_one_name_starts_with_one_actor_and_the_later_queue(folder: Path) -> None:
    """An earlier version left such journals: deleting a queue that had failed was not recorded."""
    bench = Bench(folder)
    await bench.send("q", b"deleted", b"deleted")
    bench.storage.declare("q", None)
    await bench.settled()
    await bench.close()
    bench = Bench(folder)
    assert (list(bench.queues), queue_actors(), bench.names_in_the_journal()) == (["q"], 1, ["q"])
    assert await bench.stored("q") == 0
    await bench.send("q", b"3")
    assert await bench.stored("q") == 1
    await bench.close()


def test_a_queue_in_memory_that_failed_for_good_begins_empty_and_is_deleted_as_any_other() -> None:
    async def main() -> None:
        bench = Bench(None)
        await bench.send("q", b"1")
        await bench.fail_for_good("q")
        assert await bench.stored("q") == 0
        await bench.fail_for_good("q")
        bench.queues.delete("q")
        assert list(bench.queues) == []
        await bench.close()

    run_in_virtual_time(main())


@durable
async def test_an_ask_that_waits_for_the_disk_when_the_queue_fails_for_good_is_answered_with_that(folder: Path) -> None:
    bench = Bench(folder)
    queue = bench.queues.get_or_create("q")
    bench.committer.run()
    connection: Ref = Connection.start([])
    queue.tell(commands.AttachSender(None, connection=connection))
    queue.tell(commands.RequestCapacity(100, 10**5, connection=connection))
    QueueActor.supervision, kept = QueueActor.supervision.STOP, QueueActor.supervision
    try:
        queue.tell(commands.OfferBatch(0, MessageBatch.from_payloads([b"x"]), connection=connection))
        answer = ask(queue, commands.PurgeQueue())
        queue.tell(object())
        with pytest.raises(pykka.ActorDeadError):
            await answer
    finally:
        QueueActor.supervision = kept
    await bench.close()


OF_QUEUES = (
    "actors.batch",
    "actors.queue.queue_output",
    "actors.queue.operations",
    "actors.queue.queue_state",
    "actors.queue.state",
    "actors.queue.structures",
    "actors.queue.vocabulary.events",
    "actors.queue.vocabulary.settings",
)


def of_queues() -> Counter[str]:
    """What there is of queues' states, by type; batches too."""
    return Counter(
        f"{type(each).__module__}.{type(each).__qualname__}"
        for each in gc.get_objects()
        if str(type(each).__module__).startswith(OF_QUEUES)
    )


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "disk"])
def test_a_queue_that_is_deleted_is_free_at_once_with_what_it_held(tmp_path: Path, durable: bool) -> None:
    """Without the collector, which looks at everything rarely or never. Held, delayed, reserved, staged: whatever it had."""

    async def main() -> None:
        bench = Bench(tmp_path / "data" if durable else None)
        gc.collect()
        gc.disable()
        before = of_queues()
        try:
            await bench.send("q", *[b"held"] * 9)
            queue, connections = bench.queues.get("q"), [Connection.start([]) for _ in range(5)]
            receiver, delayed, owner, staging, waiting = connections
            for each in (receiver, delayed, waiting):
                queue.tell(commands.AttachReceiver(connection=each))
            queue.tell(commands.DemandSignalled(2, 100, connection=receiver))
            queue.tell(commands.DemandSignalled(2, 100, connection=delayed))
            queue.tell(commands.OpenSubscription("s", "own", None, "earliest", 60.0, connection=owner))
            await bench.settled()
            queue.tell(commands.Rejected([(2, 2)], 60.0, connection=delayed))
            queue.tell(commands.ReserveRequested(1, 0, 3, 1000, 60.0, connection=owner))
            queue.tell(commands.AttachSender(None, StageKey("w", 1, "part"), connection=staging))
            queue.tell(commands.RequestCapacity(1, 1000, connection=staging))
            await bench.settled()
            queue.tell(commands.OfferBatch(0, MessageBatch.from_payloads([b"staged"]), None, None, connection=staging))
            await bench.settled()
            statistics = await ask(queue, commands.GetStatistics())
            assert (statistics.in_flight, statistics.reserved, statistics.delayed) == (2, 3, 2)
            del statistics
            bench.queues.delete("q")
            await bench.settled()
            del queue
            await asyncio.gather(*(each.stop(block=False) for each in connections))
            for each in connections:
                assert each._actor_weakref() is None
            left = of_queues() - before
            if durable:
                # The cache has them, which is for all queues, and has its bound.
                left -= Counter({"actors.batch.MessageBatch": 2, "actors.batch.BinaryColumn": 2})
            assert not left
        finally:
            gc.enable()
        await bench.close()

    run_in_virtual_time(main())
