"""Commands on exchanges are answered when they are durable, and a queue that is deleted takes with it what led to it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors.errors import StorageError
from actors.exchanges.errors import BoundQueueNotFoundError, ExchangeExistsError
from streams.testkit import run_in_virtual_time
from tests.actors.stored_queues import BrokenFiles, StoredQueues, durable, turns


@durable
async def test_each_command_is_answered_when_it_is_durable_and_not_before(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.get_or_create("q")
    await bench.settled()
    directory = bench.queues.exchanges
    for command in (
        lambda: directory.declare("x", "topic"),
        lambda: directory.declare("y", "fanout"),
        lambda: directory.bind("x", "q", "a.#"),
        lambda: directory.bind("x", "y", "b", to_exchange=True),
        lambda: directory.unbind("x", "q", "a.#"),
        lambda: directory.delete("y"),
    ):
        asked = asyncio.ensure_future(command())
        await turns()
        # Who asks for the same just behind it waits as long.
        again = asyncio.ensure_future(command())
        await turns()
        assert not asked.done()
        assert not again.done()
        await bench.commit()
        await asked
        await again
    await bench.close()


@durable
async def test_what_was_answered_is_found_by_the_next_start(folder: Path) -> None:
    bench = StoredQueues(folder)
    for name in "ab":
        bench.queues.get_or_create(name)
    directory = bench.queues.exchanges
    for command in (directory.declare("x", "topic"), directory.bind("x", "a", "k.*"), directory.bind("x", "b", "#")):
        asked = asyncio.ensure_future(command)
        await bench.settled()
        await asked
    bench.queues.delete("b")
    await bench.settled()
    await bench.close()
    again = StoredQueues(folder)
    assert again.queues.exchanges.exchanges.route("x", ("k.l",)) == ("a",)
    again.queues.get_or_create("b")
    assert again.queues.exchanges.exchanges.route("x", ("k.l",)) == ("a",), "another queue of the name is not bound"
    await again.close()


@durable
async def test_of_two_who_say_all_bindings_of_a_queue_the_last_one_is_right_and_the_next_start_finds_it(
    folder: Path,
) -> None:
    bench = StoredQueues(folder)
    bench.queues.get_or_create("q")
    directory = bench.queues.exchanges
    first = asyncio.ensure_future(directory.bind_only("q", [("amq.topic", key, None) for key in "abc"]))
    other = asyncio.ensure_future(directory.bind("amq.direct", "q", "a"))
    await turns()
    last = asyncio.ensure_future(directory.bind_only("q", [("amq.topic", "c", None), ("amq.topic", "d", None)]))
    await turns()
    assert not first.done()
    assert not last.done()
    await bench.settled()
    assert (await first, await other) == ([], True)
    assert [binding.key for binding in await last] == ["a", "b"]
    await bench.close()
    again = StoredQueues(folder)
    bindings = [(each.source, each.key) for each in again.queues.exchanges.exchanges.bindings()]
    assert bindings == [("amq.topic", "c"), ("amq.direct", "a"), ("amq.topic", "d")]
    await again.close()


@durable
async def test_what_is_refused_changes_nothing_and_is_told_at_once(folder: Path) -> None:
    bench = StoredQueues(folder)
    directory = bench.queues.exchanges
    asked = asyncio.ensure_future(directory.declare("x", "topic"))
    await bench.settled()
    await asked
    before = bench.storage._journal.next_lsn
    with pytest.raises(ExchangeExistsError):
        await directory.declare("x", "fanout")
    with pytest.raises(BoundQueueNotFoundError):
        await directory.bind("x", "nowhere")
    assert bench.storage._journal.next_lsn == before
    await bench.close()


@durable
async def test_where_the_disk_fails_whoever_waits_is_told(folder: Path) -> None:
    files = BrokenFiles()
    bench = StoredQueues(folder, files=files)
    await bench.settled()
    files.broken = True
    asked = asyncio.ensure_future(bench.queues.exchanges.declare("x"))
    await bench.settled()
    with pytest.raises(StorageError):
        await asked
    assert len(bench.failures) == 1
    await bench.close()


def test_in_memory_all_of_it_is_so_at_once() -> None:
    async def main() -> None:
        bench = StoredQueues(None)
        bench.queues.get_or_create("q")
        directory = bench.queues.exchanges
        await directory.declare("x", "fanout", auto_delete=True)
        await directory.bind("x", "q")
        assert directory.exchanges.route("x", ("",)) == ("q",)
        bench.queues.delete("q")
        assert directory.exchanges.get("x") is None
        await bench.close()

    run_in_virtual_time(main())
