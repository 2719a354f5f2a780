"""Queues that go with their owner: made with a name that nobody has chosen, and deleted when the owner's actor has ended."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from actors.errors import StorageError
from actors.queue.directory_errors import QueueExistsError, QueueNotFoundError, TooManyQueuesError
from actors.queue.queue_directory import QueueDirectory
from actors.queue.vocabulary import replies
from actors.queue.vocabulary.settings import QueueSettings
from streams.testkit import run_in_virtual_time
from tests.actors.publishing_bench import batch_of, client, defined, received, receiver
from tests.actors.stored_queues import (
    BrokenFiles,
    Connection,
    Ref,
    StoredQueues,
    durable,
    turns,
    with_and_without_journal,
)


class Bench(StoredQueues):
    """Queues, and owners that do nothing."""

    def owner(self) -> Ref:
        return Connection.start([])

    def make(self, owner: Ref, **settings: Any) -> str:
        return self.queues.owned.make(owner, QueueSettings(**settings))


async def ends(owner: Ref) -> None:
    await owner.stop(block=False)
    await turns()


both = with_and_without_journal(Bench)


@both
async def test_it_has_a_name_of_its_own_is_transient_and_is_gone_with_its_owner_and_what_led_to_it(
    bench: Bench,
) -> None:
    one, other = bench.owner(), bench.owner()
    names = [bench.make(one, ttl=5.0), bench.make(one), bench.make(other)]
    assert len(set(names)) == 3
    assert all(re.fullmatch(r"own\.[A-Za-z0-9_-]{22}", name) for name in names)
    assert bench.queues.settings_of(names[0]) == QueueSettings(ttl=5.0, durable=False)
    assert [bench.queues.owned.owner_of(name) for name in names] == [one, one, other]
    decide = bench.queues.exchanges.exchanges.decide
    await defined(bench, decide.declare("x", "fanout"))
    for name in names:
        await defined(bench, decide.bind("x", name))
    await ends(one)
    assert list(bench.queues) == [names[2]]
    assert bench.queues.exchanges.exchanges.route("x", ("",)) == (names[2],)
    assert [bench.queues.owned.owner_of(name) for name in names] == [None, None, other]
    assert len(bench.queues.owned._owned) == 1


@both
async def test_anybody_publishes_to_it_and_who_receives_from_it_is_told_of_its_end(bench: Bench) -> None:
    owner = bench.owner()
    name = bench.make(owner)
    decide = bench.queues.exchanges.exchanges.decide
    await defined(bench, decide.declare("x", "fanout"))
    await defined(bench, decide.bind("x", name))
    publisher = await client(bench, "x")
    _, told = await receiver(bench, name)
    publisher.send(batch_of(b"1"))
    await turns()
    assert received(told) == [b"1"]
    await ends(owner)
    assert type(told[-1]) is replies.QueueDeleted


@both
async def test_it_is_released_before_its_owner_ends_and_deleted_by_others_and_only_once(bench: Bench) -> None:
    owner = bench.owner()
    released, deleted, left = (bench.make(owner) for _ in range(3))
    bench.queues.owned.release(released)
    bench.queues.delete(deleted)
    bench.queues.declare("q", QueueSettings())
    for name in (released, deleted, "q"):
        with pytest.raises(QueueNotFoundError):
            bench.queues.owned.release(name)
    # Others have chosen the name meanwhile: the queue is theirs, and stays.
    bench.queues.declare(deleted, QueueSettings())
    assert bench.queues.owned.owner_of(deleted) is None
    assert len(owner.actor_inbox._watches or ()) == 1, "only for what is left"
    await ends(owner)
    assert set(bench.queues) == {deleted, "q"}
    assert left not in bench.queues


@both
async def test_one_whose_owner_has_ended_already_is_gone_in_the_next_turn(bench: Bench) -> None:
    owner = bench.owner()
    await ends(owner)
    name = bench.make(owner)
    await turns()
    assert name not in bench.queues
    assert bench.queues.owned.owner_of(name) is None


@both
async def test_where_nobody_named_a_queue_for_them_there_are_no_dead_letters(bench: Bench) -> None:
    owner = bench.owner()
    settings = [
        bench.queues.settings_of(bench.make(owner, max_receives=3, **more))
        for more in ({}, {"dead_letter_queue": "dead"})
    ]
    assert [(each.max_receives, each.dead_letter_queue) for each in settings] == [(None, None), (3, "dead")]


def test_names_come_of_the_randomness_that_is_given_and_none_is_given_twice() -> None:
    async def main() -> None:
        given: Iterator[bytes] = iter([bytes(16), b"\xff" * 16, bytes(16)])
        queues = QueueDirectory(QueueSettings(), lambda: 0.0, max_queues=2, random_bytes=lambda count: next(given))
        owner: Ref = Connection.start([])
        assert queues.owned.make(owner, QueueSettings()) == "own." + "A" * 22
        second = queues.owned.make(owner, QueueSettings())
        assert second == "own." + "_" * 21 + "w"
        with pytest.raises(QueueExistsError, match="gave a name twice"):
            queues.owned.make(owner, QueueSettings())
        await ends(owner)
        assert list(queues) == []

    run_in_virtual_time(main())


def test_where_there_is_no_room_none_is_made_and_nothing_is_left_to_be_deleted() -> None:
    async def main() -> None:
        queues = QueueDirectory(QueueSettings(), lambda: 0.0, max_queues=1)
        queues.get_or_create("q")
        owner: Ref = Connection.start([])
        with pytest.raises(TooManyQueuesError):
            queues.owned.make(owner, QueueSettings())
        assert not owner.actor_inbox._watches
        await ends(owner)
        assert (list(queues), queues.owned._owned) == (["q"], {})

    run_in_virtual_time(main())


@durable
async def test_a_start_forgets_them_for_their_owners_are_gone(folder: Path) -> None:
    bench = Bench(folder)
    name = bench.make(bench.owner())
    await bench.settled()
    await bench.die()
    again = Bench(folder)
    assert list(again.queues) == []
    assert again.queues.owned.owner_of(name) is None
    await again.close()


@durable
async def test_where_the_disk_fails_the_end_of_an_owner_breaks_nothing(folder: Path) -> None:
    files = BrokenFiles()
    bench = Bench(folder, files=files)
    owner = bench.owner()
    name = bench.make(owner)
    await bench.settled()
    files.broken = True
    bench.queues.declare("q", QueueSettings())
    await bench.settled()
    assert len(bench.failures) == 1
    with mock.patch.object(logging.getLogger("penstock.queue"), "debug") as said:
        await ends(owner)
    assert [call.args[1] for call in said.call_args_list] == [name]
    assert name in bench.queues, "the next start forgets it"
    with pytest.raises(StorageError):
        bench.queues.owned.release(name)
    await bench.close()
