"""Finding a queue apart from making it, and what a queue was declared with: kept as it came, as long as the queue is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import pytest

from actors.errors import QueueLimitError, StorageError
from actors.queue.directory_errors import QueueNotFoundError
from actors.queue.vocabulary.settings import MAX_ARGUMENTS_BYTES, QueueSettings
from actors.storage import codec
from actors.storage.settings_codec import arguments_from, settings_as_stored, settings_from
from tests.actors.stored_queues import StoredQueues, durable

ARGUMENTS = msgpack.packb({"x-message-ttl": 5, "x-odd": [1, None]})
SETTINGS = QueueSettings(max_messages=5)


@durable
async def test_a_queue_that_is_not_there_is_not_found_and_not_made(folder: Path) -> None:
    bench = StoredQueues(folder)
    with pytest.raises(QueueNotFoundError, match="there is no queue 'q'"):
        bench.queues.find("q")
    assert "q" not in list(bench.queues)
    await bench.close()


@durable
async def test_a_queue_is_found_with_its_settings_its_counts_and_what_it_was_declared_with(folder: Path) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("q", SETTINGS, ARGUMENTS)
    bench.queues.get_or_create("plain")
    found = bench.queues.find("q")
    assert found[:6] == ("q", bench.queues.number_of("q"), SETTINGS, True, ARGUMENTS, None)
    assert (found.ready, found.receivers) == (0, 0)
    plain = bench.queues.find("plain")
    assert (plain.declared, plain.arguments, plain.settings) == (False, b"", bench.queues.settings)
    name = bench.queues.owned.make(bench.queues.get("plain"), bench.queues.settings)
    assert bench.queues.find(name).owner is bench.queues.get("plain")
    await bench.close()


async def declared_and_started_again(folder: Path, *, checkpoint: bool) -> None:
    bench = StoredQueues(folder)
    bench.queues.declare("q", SETTINGS, ARGUMENTS)
    bench.queues.declare("q", SETTINGS, b"others are of no account")
    bench.queues.alter("q", {"max_messages": 9})
    bench.queues.declare("none", SETTINGS)
    await bench.settled()
    await bench.commit()
    if checkpoint:
        await bench.close()
    else:
        bench.storage._journal.abandon()
    again = StoredQueues(folder)
    found = again.queues.find("q")
    assert (found.arguments, found.settings) == (ARGUMENTS, QueueSettings(max_messages=9))
    assert again.queues.find("none").arguments == b""
    # It ends with the queue.
    again.queues.delete("q")
    again.queues.declare("q", SETTINGS)
    assert again.queues.find("q").arguments == b""
    await again.close()


@durable
async def test_what_a_queue_was_declared_with_outlives_a_broker_that_is_killed_and_other_settings(folder: Path) -> None:
    await declared_and_started_again(folder, checkpoint=False)


@durable
async def test_what_a_queue_was_declared_with_is_in_a_checkpoint(folder: Path) -> None:
    await declared_and_started_again(folder, checkpoint=True)


@durable
async def test_no_more_is_kept_than_has_a_name_and_then_no_queue_is_made(folder: Path) -> None:
    bench = StoredQueues(folder)
    with pytest.raises(QueueLimitError, match=f"MAX_ARGUMENTS_BYTES of {MAX_ARGUMENTS_BYTES}"):
        bench.queues.declare("q", SETTINGS, bytes(MAX_ARGUMENTS_BYTES + 1))
    assert "q" not in list(bench.queues)
    bench.queues.declare("q", SETTINGS, bytes(MAX_ARGUMENTS_BYTES))
    await bench.close()


def test_an_older_program_refuses_what_was_declared_with_arguments_and_nothing_else() -> None:
    plain = settings_as_stored(SETTINGS)
    assert "arguments" not in plain
    assert QueueSettings(**plain) == SETTINGS, "as a program from before reads it"
    stored = settings_as_stored(SETTINGS, ARGUMENTS)
    with pytest.raises(TypeError, match="arguments"):
        QueueSettings(**stored)
    assert (settings_from(stored), arguments_from(stored)) == (SETTINGS, ARGUMENTS)
    newer: Any = {**stored, "arguments": {"x": 1}}
    with pytest.raises(StorageError, match="newer version"):
        codec.decode_declared(memoryview(msgpack.packb([1, "q", newer])))
