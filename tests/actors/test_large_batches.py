"""Batches that are too large to be read within a turn of the loop: read beside it, few at a time, and delivered in order all the same."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock
from weakref import ref as weak

import pytest

from actors.batch import BinaryColumn, MessageBatch
from actors.limits import NO_DEADLINE
from actors.queue.vocabulary import commands, replies, takes
from actors.queue.vocabulary.settings import QueueSettings
from actors.storage import entry_cache, large_batches
from streams.testkit import elapse
from tests.actors.publishing_bench import batch_of, client, defined
from tests.actors.stored_queues import Ref, StoredQueues, durable, turns

SIZE = 5_000
"""Of a message that is large here."""
DEMAND = 1 << 30


@pytest.fixture(autouse=True)
def _little_is_large() -> Iterator[None]:
    with mock.patch.object(entry_cache, "LARGE_BYTES", 1_000):
        yield


class Memory(bytearray):
    """Bytes whose end is noticed, as that of a mapping is."""

    __slots__ = ("__weakref__",)


class Reader:
    """The thread that reads, as the test has it: what is asked for is read when it says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[asyncio.Future[Any], Callable[[], Any]]] = []

    def run_in_executor(self, _: None, read: Callable[[], Any]) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()
        self.asked.append((future, read))
        return future

    async def reads(self) -> None:
        """Read what was asked for."""
        asked, self.asked = self.asked, []
        for future, read in asked:
            future.set_result(read())
        del asked, future
        await turns()


class Bench(StoredQueues):
    """A storage whose thread is the test's."""

    def __init__(self, folder: Path, limit: int = 100 * SIZE) -> None:
        super().__init__(folder)
        self.reader = Reader()
        self.large = self.storage._cache.large
        self.large.limit = limit
        loop = asyncio.get_running_loop()
        wrapped = mock.Mock(wraps=loop)
        wrapped.run_in_executor = self.reader.run_in_executor
        self.large._loop = wrapped

    def store(self, name: str, *bodies: bytes, ttl: float | None = None) -> None:
        self.queues.get_or_create(name)
        for body in bodies:
            self.queues.distributor.store([name], large(body) if len(body) > 100 else batch_of(body), ttl=ttl)

    async def receiver(self, name: str, messages: int = 100) -> tuple[Ref, list[Any]]:
        return await self.connect(
            self.queues.get_or_create(name),
            lambda ref: commands.AttachReceiver(ref, NO_DEADLINE),
            lambda ref: commands.DemandSignalled(messages, DEMAND, connection=ref),
        )


def large(body: bytes) -> MessageBatch:
    """A message in memory whose end is noticed, as AMQP's is."""
    return MessageBatch(BinaryColumn.from_values([Memory(body)], own=True))


def came(told: list[Any]) -> list[bytes]:
    """The messages that a receiver was told, let go of."""
    found = [
        bytes(payload)
        for reply in told
        if isinstance(reply, replies.ReceivedMessages)
        for payload in reply.batch.payloads
    ]
    told.clear()
    return found


def damage(folder: Path) -> None:
    """One of a message's bytes is another."""
    (segment,) = folder.glob("*.segment")
    segment.write_bytes(segment.read_bytes().replace(b"1111", b"1211", 1))


ONE, TWO = b"1" * SIZE, b"2" * SIZE


@durable
async def test_what_was_just_stored_is_delivered_from_memory(folder: Path) -> None:
    bench = Bench(folder)
    _, told = await bench.receiver("q")
    bench.store("q", b"small", ONE)
    await bench.settled()
    assert came(told) == [b"small", ONE]
    assert not bench.reader.asked
    await bench.settled()
    gc.collect()
    await turns()
    assert (bench.large.bytes, bench.large.fresh) == (0, {})
    await bench.close()


@durable
async def test_what_was_published_is_free_when_it_has_left_though_the_collector_does_not_come_by(folder: Path) -> None:
    bench = Bench(folder)
    bench.queues.get_or_create("q")
    memory = Memory(ONE)
    ended: list[object] = []
    told_of = weak(memory, ended.append)
    publisher = await client(bench, "", "q")
    gc.collect()
    gc.disable()
    try:
        publisher.send(MessageBatch(BinaryColumn.from_values([memory], own=True)))
        del memory
        await bench.settled()
        _, told = await bench.receiver("q")
        await bench.reader.reads()
        assert came(told) == [ONE]
        await bench.commit()
        assert ended == [told_of]
    finally:
        gc.enable()
    await bench.close()


@durable
async def test_what_is_on_the_disk_is_read_beside_the_loop_and_nothing_passes_it(folder: Path) -> None:
    bench = Bench(folder)
    bench.store("q", b"before", ONE, b"behind", TWO)
    await bench.settled()
    await bench.commit()
    _, told = await bench.receiver("q")
    assert came(told) == [b"before"]
    assert len(bench.reader.asked) == 1
    # Others have their turn, and what comes meanwhile stands behind.
    bench.store("q", b"new")
    await bench.settled()
    assert came(told) == []
    await bench.reader.reads()
    assert came(told) == [ONE, b"behind"]
    await bench.reader.reads()
    assert came(told) == [TWO, b"new"]
    await turns()
    assert bench.large.bytes == 0
    await bench.close()


@durable
async def test_only_so_much_is_in_memory_and_the_next_is_read_when_nobody_has_the_last_any_more(folder: Path) -> None:
    bench = Bench(folder, limit=2 * SIZE + 500)
    names = [f"q{number}" for number in range(5)]
    for name in names:
        bench.store(name, ONE, TWO)
    await bench.settled()
    await bench.commit()
    held = [(await bench.receiver(name))[1] for name in names]
    seen = 0
    while seen < 2 * len(names):
        assert len(bench.reader.asked) <= 2
        assert bench.large.bytes <= 2 * SIZE + 500
        await bench.reader.reads()
        found = [one for told in held for one in came(told)]
        assert found, "whoever waits is told when there is room"
        seen += len(found)
        await turns()
    assert bench.large.bytes == 0
    await bench.close()


@durable
async def test_one_is_read_however_large_it_is(folder: Path) -> None:
    bench = Bench(folder, limit=10)
    bench.store("q", ONE)
    await bench.settled()
    await bench.commit()
    _, told = await bench.receiver("q")
    await bench.reader.reads()
    assert came(told) == [ONE]
    await bench.close()


@durable
async def test_a_request_that_does_not_wait_is_answered_behind_what_is_being_read(folder: Path) -> None:
    bench = Bench(folder)
    bench.store("q", ONE)
    await bench.settled()
    await bench.commit()
    asks = [partial(takes.TakeMessages, number, 1, 1, 0.0, None) for number in (1, 2)]
    _, told = await bench.connect(bench.queues.get("q"), lambda ref: commands.AttachReceiver(ref, NO_DEADLINE), *asks)
    await elapse(1.0)
    assert [type(each) for each in told] == [replies.ReceiverAttached]
    await bench.reader.reads()
    answers = [(each.request, len(each.ranges)) for each in told if isinstance(each, replies.MessagesTaken)]
    assert answers == [(1, 1), (2, 0)]
    await bench.close()


@durable
async def test_what_a_receiver_holds_is_not_in_memory_and_is_read_again_when_it_comes_back(folder: Path) -> None:
    bench = Bench(folder)
    bench.store("q", ONE)
    await bench.settled()
    await bench.commit()
    ref, told = await bench.receiver("q")
    await bench.reader.reads()
    assert came(told) == [ONE]
    await turns()
    assert bench.large.bytes == 0
    _, other = await bench.receiver("q")
    bench.queues.get("q").tell(commands.Left(connection=ref))
    await turns()
    await bench.reader.reads()
    (reply,) = (each for each in other if isinstance(each, replies.ReceivedMessages))
    assert (reply.delivery_count, reply.possibly_replayed, reply.batch.payloads[0]) == (2, True, ONE)
    await bench.close()


@durable
async def test_what_was_read_and_nobody_wants_any_more_is_let_go(folder: Path) -> None:
    bench = Bench(folder)
    bench.store("q", ONE)
    await bench.settled()
    await bench.commit()
    ref, _ = await bench.receiver("q")
    bench.queues.get("q").tell(commands.Left(connection=ref))
    await turns()
    await bench.reader.reads()
    assert len(bench.large.read) == 1
    await elapse(large_batches.TAKEN_SECONDS + 1)
    assert (bench.large.bytes, len(bench.large.read)) == (0, 0)
    # Nor is what goes while it is read.
    ref, _ = await bench.receiver("q")
    bench.queues.delete("q")
    await turns()
    await bench.reader.reads()
    await elapse(large_batches.TAKEN_SECONDS + 1)
    assert (bench.large.bytes, len(bench.large.read)) == (0, 0)
    await bench.close()


@durable
async def test_what_cannot_be_read_beside_the_loop_is_read_within_it(folder: Path) -> None:
    bench = Bench(folder)
    bench.store("q", ONE)
    await bench.settled()
    await bench.commit()
    _, told = await bench.receiver("q")
    ((future, _),) = bench.reader.asked
    bench.reader.asked.clear()
    future.set_result(None)
    await turns()
    assert (came(told), bench.reader.asked) == ([ONE], [])
    await bench.close()


@durable
async def test_a_damaged_one_ends_the_broker(folder: Path) -> None:
    bench = Bench(folder)
    bench.store("q", ONE)
    await bench.settled()
    await bench.commit()
    damage(folder)
    _, told = await bench.receiver("q")
    await bench.reader.reads()
    assert (came(told), bench.reader.asked) == ([], [])
    assert "is not what was written" in str(bench.failures[0])
    await bench.die()


@durable
async def test_after_a_restart_one_whose_time_is_over_expires_and_another_is_delivered(folder: Path) -> None:
    bench = Bench(folder)
    bench.time_of_day -= 60
    bench.store("q", ONE, ttl=5.0)
    bench.store("q", TWO, ttl=500.0)
    await bench.settled()
    await bench.die()
    bench = Bench(folder)
    _, told = await bench.receiver("q")
    while bench.reader.asked:
        await bench.reader.reads()
    assert came(told) == [TWO]
    await bench.close()


@durable
async def test_several_queues_that_hold_the_same_each_deliver_it(folder: Path) -> None:
    bench = Bench(folder)
    decide = bench.queues.exchanges.exchanges.decide
    await defined(bench, decide.declare("x", "fanout"))
    for name in ("a", "b"):
        bench.queues.declare(name, QueueSettings())
    bench.queues.distributor.store(["a", "b"], large(ONE))
    await bench.settled()
    await bench.commit()
    for name in ("a", "b"):
        _, told = await bench.receiver(name)
        await bench.reader.reads()
        assert came(told) == [ONE]
    await turns()
    assert bench.large.bytes == 0
    await bench.close()
