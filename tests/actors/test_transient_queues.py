"""Transient queues: their messages are in the journal, nothing waits for them, and a start forgets them."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any
from unittest import mock

import pytest

from actors.errors import InvalidRequestError, StorageError
from actors.queue.queue_directory import QueueDirectory
from actors.queue.vocabulary import commands, replies
from actors.queue.vocabulary.moves import MoveMessages
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey, WriterVersion
from actors.runtime.loop_future import ask
from actors.storage import Storage, backup_storage, restore_storage, verify_storage
from actors.storage.settings_codec import settings_as_stored, settings_from
from journal import JournalOptions
from streams.testkit import run_in_virtual_time
from tests.actors.publishing_bench import LARGE, batch_of, client, defined, received, receiver
from tests.actors.stored_queues import Ref, StoredQueues, durable, turns

TRANSIENT = QueueSettings(durable=False)


class Bench(StoredQueues):
    """Queues of both kinds, whose declarations are durable."""

    async def declare(self, name: str, settings: QueueSettings = TRANSIENT) -> Ref:
        queue = self.queues.declare(name, settings)
        await self.settled()
        return queue

    async def sender(self, name: str) -> tuple[Ref, list[Any]]:
        return await self.connect(
            self.queues.get(name),
            lambda ref: commands.AttachSender(None, connection=ref),
            lambda ref: commands.RequestCapacity(100_000, LARGE, ref),
        )

    async def send(self, name: str, *payloads: bytes) -> list[Any]:
        """Send, without a commit; what the sender was told of it."""
        ref, told = await self.sender(name)
        before = len(told)
        self.queues.get(name).tell(commands.OfferBatch(0, batch_of(*payloads), connection=ref))
        await turns()
        return told[before:]

    async def held(self, name: str) -> list[bytes]:
        """What a receiver gets that goes away again."""
        ref, told = await receiver(self, name)
        await self.settled()
        await ref.stop(block=False)
        await turns()
        return received(told)

    @property
    def durable_records(self) -> int:
        return self.storage._journal.durable_lsn

    @property
    def names(self) -> list[str]:
        return [queue.name for queue in self.storage.queues]


def confirmed(told: list[Any]) -> list[int]:
    return [reply.up_to for reply in told if isinstance(reply, replies.SentMessages)]


# Nothing waits.


@durable
async def test_what_is_sent_is_confirmed_and_delivered_and_acknowledged_while_the_disk_syncs_nothing(
    folder: Path,
) -> None:
    bench = Bench(folder)
    await bench.declare("t")
    before = bench.durable_records
    ref, told = await receiver(bench, "t")
    assert confirmed(await bench.send("t", b"1", b"2")) == [2]
    assert received(told) == [b"1", b"2"]
    bench.queues.get("t").tell(commands.Acknowledged(((0, 2),), connection=ref))
    purged = await ask(bench.queues.get("t"), commands.PurgeQueue())
    assert purged == 0
    assert bench.queues.logs()["t"].stored_messages == 0
    assert bench.durable_records == before
    assert bench.storage._journal.next_lsn > before, "it is in the journal all the same"
    await bench.close()


@durable
async def test_it_causes_no_sync_of_its_own_and_no_thread_stands_still_for_one(folder: Path) -> None:
    bench = Bench(folder)
    for name, settings in (("t", TRANSIENT), ("d", QueueSettings())):
        await bench.declare(name, settings)
    decide = bench.queues.exchanges.exchanges.decide
    await defined(bench, decide.declare("x", "fanout"))
    await defined(bench, decide.bind("x", "t"))
    writer = bench.committer._writer
    assert writer is not None
    publisher = await client(bench, "x")
    # The first that was published begins a segment of its version.
    publisher.send(batch_of(b"0"))
    await turns()
    await bench.commit()
    # From now on each record that comes alone is committed where it is appended.
    bench.committer._may_hold = lambda: True
    before = writer.groups
    await bench.send("t", b"1")
    publisher.send(batch_of(b"2"))
    await turns()
    assert publisher.confirmed == [1, 2]
    assert (writer.groups, writer.busy) == (before, False)
    await bench.send("d", b"3")
    assert writer.groups == before + 1
    await bench.close()


@durable
async def test_nothing_goes_out_before_the_queues_number_is_its_own_for_good(folder: Path) -> None:
    """What it delivers has the number in it, and a queue that a power failure has undone leaves it to another."""
    bench = Bench(folder)
    bench.queues.declare("t", TRANSIENT)
    _, told = await receiver(bench, "t")
    sent = await bench.send("t", b"1")
    assert (sent, received(told)) == ([], [])
    await bench.commit()
    assert received(told) == [b"1"]
    await bench.close()


@durable
async def test_what_is_published_to_transient_queues_alone_waits_for_nothing(folder: Path) -> None:
    bench = Bench(folder)
    for name in "st":
        await bench.declare(name)
    told = {name: (await receiver(bench, name))[1] for name in "st"}
    before = bench.durable_records
    for names in ("s", "st"):
        found = bench.queues.distributor.store(names, batch_of(names.encode()))
        assert found.queues == tuple(names)
        assert found.event <= bench.storage.durable
        await turns()
    assert [received(each) for each in told.values()] == [[b"s", b"st"], [b"st"]]
    assert bench.durable_records == before
    await bench.close()


@durable
async def test_what_is_published_to_a_durable_queue_too_waits_for_it_and_what_came_before_does_not(
    folder: Path,
) -> None:
    bench = Bench(folder)
    await bench.declare("d", QueueSettings())
    await bench.declare("t")
    decide = bench.queues.exchanges.exchanges.decide
    await defined(bench, decide.declare("x", "direct"))
    for name, key in (("t", "both"), ("d", "both"), ("t", "one")):
        await defined(bench, decide.bind("x", name, key))
    told = {name: (await receiver(bench, name))[1] for name in "dt"}
    both, one = await client(bench, "x", "both"), await client(bench, "x", "one")
    one.send(batch_of(b"first"))
    await turns()
    both.send(batch_of(b"both"))
    await turns()
    assert (one.confirmed, both.confirmed) == ([1], [])
    assert [received(each) for each in told.values()] == [[], [b"first"]]
    await bench.commit()
    assert both.confirmed == [1]
    assert [received(each) for each in told.values()] == [[b"both"], [b"first", b"both"]]
    await bench.close()


@durable
async def test_behind_something_that_is_waited_for_all_waits_for_that_in_its_order(folder: Path) -> None:
    bench = Bench(folder)
    await bench.declare("d", QueueSettings())
    await bench.declare("t")
    _, told = await receiver(bench, "t", 2)
    bench.queues.distributor.store("dt", batch_of(b"both"))
    await turns()
    sent = await bench.send("t", b"own", b"last")
    purged = asyncio.ensure_future(ask(bench.queues.get("t"), commands.PurgeQueue()))
    await turns()
    assert (confirmed(sent), received(told), purged.done()) == ([], [], False)
    await bench.commit()
    assert (received(told), await purged) == ([b"both", b"own"], 1)
    before = bench.durable_records
    assert confirmed(await bench.send("t", b"at once")) == [1]
    assert bench.durable_records == before
    await bench.close()


@durable
async def test_a_queue_that_has_not_looked_yet_waits_for_what_others_stored_in_it_before(folder: Path) -> None:
    bench = Bench(folder)
    await bench.declare("d", QueueSettings())
    await bench.declare("t")
    for names in ("dt", "t"):
        bench.queues.distributor.store(names, batch_of(b"1"))
    purged = asyncio.ensure_future(ask(bench.queues.get("t"), commands.PurgeQueue()))
    await turns()
    assert not purged.done()
    await bench.commit()
    assert await purged == 2
    await bench.close()


@durable
async def test_what_goes_from_one_transient_queue_to_another_waits_for_nothing(folder: Path) -> None:
    bench = Bench(folder)
    await bench.declare("t", QueueSettings(max_receives=1, dead_letter_queue="u", durable=False))
    for name in "uv":
        await bench.declare(name)
    before = bench.durable_records
    await bench.send("t", b"dead")
    ref, told = await receiver(bench, "t")
    assert received(told) == [b"dead"]
    bench.queues.get("t").tell(commands.Rejected(((0, 1),), connection=ref))
    await turns()
    assert bench.queues.logs()["t"].stored_messages == 0
    moved = asyncio.ensure_future(ask(bench.queues.get("u"), MoveMessages(bench.queues.get("v"), bytes(8))))
    await turns()
    assert (await moved).messages == 1
    _, told = await receiver(bench, "v")
    assert received(told) == [b"dead"]
    assert bench.durable_records == before
    await bench.close()


# A start forgets.


@durable
async def test_a_start_forgets_them_with_what_they_held_and_durable_queues_are_whole(folder: Path) -> None:
    for end in ("killed", "closed", "killed behind a checkpoint"):
        bench = Bench(folder / end)
        await bench.declare("t")
        await bench.declare("d", QueueSettings())
        assert len(await bench.send("t", b"gone", b"too")) == 1
        bench.queues.distributor.store("dt", batch_of(b"both"))
        await bench.settled()
        number = bench.queues.number_of("t")
        if end == "closed":
            await bench.close()
        else:
            if "checkpoint" in end:
                bench.storage._checkpoints.make()
                bench.storage._checkpoints._advance(whole=True)
                await bench.commit()
            await bench.die()
        with mock.patch.object(logging.getLogger("penstock.queue"), "info") as said:
            again = Bench(folder / end)
        assert [call.args[1:] for call in said.call_args_list] == [(1, 3)], end
        assert (again.names, list(again.queues)) == (["d"], ["d"])
        assert await again.held("d") == [b"both"]
        assert again.queues.number_of("d") != number
        await again.declare("t")
        assert again.queues.number_of("t") > number
        assert await again.held("t") == []
        await again.close()
        with mock.patch.object(logging.getLogger("penstock.queue"), "info") as said:
            third = Bench(folder / end)
        assert [call.args[1:] for call in said.call_args_list] == [(1, 0)], "each is forgotten once"
        await third.close()


@durable
async def test_their_room_on_the_disk_is_given_back(folder: Path) -> None:
    options = {"options": JournalOptions(segment_bytes=100_000, spare_segments=0)}
    bench = Bench(folder, **options)
    await bench.declare("t")
    for _ in range(20):
        await bench.send("t", bytes(50_000))
    await bench.commit()
    full = bench.storage._journal.statistics().segments
    await bench.die()
    again = Bench(folder, **options)
    for _ in range(2):
        again.storage._checkpoints.make()
        again.storage._checkpoints._advance(whole=True)
        await again.commit()
    assert full >= 10
    assert again.storage._journal.statistics().segments <= 2
    await again.close()


@durable
async def test_what_of_theirs_a_durable_queue_has_got_it_keeps(folder: Path) -> None:
    """Dead letters, a transaction and a move, in both directions."""
    bench = Bench(folder)
    for name, settings in (
        ("dead", QueueSettings()),
        ("t", QueueSettings(max_receives=1, dead_letter_queue="dead", durable=False)),
        ("d", QueueSettings(max_receives=1, dead_letter_queue="graves")),
        ("graves", TRANSIENT),
    ):
        await bench.declare(name, settings)
    for name in "td":
        await bench.send(name, b"of " + name.encode())
        await bench.commit()
        ref, told = await receiver(bench, name)
        (delivery,) = [reply for reply in told if isinstance(reply, replies.ReceivedMessages)]
        bench.queues.get(name).tell(commands.Rejected(((delivery.first, 1),), connection=ref))
        await bench.settled()
        await bench.settled()
        await ref.stop(block=False)
    assert await bench.held("graves") == [b"of d"]
    await bench.die()
    again = Bench(folder)
    assert again.names == ["dead", "d"]
    assert await again.held("dead") == [b"of t"]
    assert await again.held("d") == [], "what has left it does not come back"
    await again.close()


@durable
async def test_a_transaction_over_both_kinds_is_seen_in_neither_before_it_is_durable(folder: Path) -> None:
    bench = Bench(folder)
    await bench.declare("t")
    await bench.declare("d", QueueSettings())
    told = {"d": (await receiver(bench, "d"))[1]}
    for name, writer in (("d", "w"), ("t", "w"), ("t", "other")):
        key = StageKey(writer, 1, "s")
        ref, staged = await bench.connect(
            bench.queues.get(name),
            partial(lambda key, ref: commands.AttachSender(None, connection=ref, stage=key), key),
            lambda ref: commands.RequestCapacity(10, 10_000, ref),
        )
        bench.queues.get(name).tell(commands.OfferBatch(0, batch_of(b"staged"), connection=ref))
        await turns()
        assert len(confirmed(staged)) == (name == "t"), "what is staged in a transient queue waits for nothing"
        await bench.commit()
    numbers = {bench.queues.number_of(name): ["s"] for name in "dt"}
    event, ended = bench.storage.commit(WriterVersion("w", 1), numbers)
    for name in "dt":
        stages = ended[bench.queues.number_of(name)]
        bench.queues.transactions._tell(name, commands.EndStages(stages.published, stages.discarded, event))
    await turns()
    await bench.send("t", b"behind")
    # A receiver that comes behind an event of the queue's own waits too.
    bench.queues.get("t").tell(commands.DiscardTransaction("other", 1))
    told["t"] = (await receiver(bench, "t"))[1]
    assert [received(each) for each in told.values()] == [[], []]
    await bench.commit()
    assert [received(each) for each in told.values()] == [[b"staged"], [b"staged", b"behind"]]
    await bench.die()
    again = Bench(folder)
    assert (list(again.storage.versions), await again.held("d")) == ([("w", 1)], [b"staged"])
    await again.close()


# Exchanges, settings.


@durable
async def test_a_binding_of_one_is_as_durable_as_the_queue(folder: Path) -> None:
    bench = Bench(folder)
    await bench.declare("t")
    await bench.declare("d", QueueSettings())
    decide = bench.queues.exchanges.exchanges.decide
    await defined(bench, decide.declare("x", "fanout"))
    for name in "td":
        await defined(bench, decide.bind("x", name))
    kept = {binding.destination.name: binding.durable for binding in bench.storage.definitions.bindings()}
    assert kept == {"t": False, "d": True}
    await bench.die()
    again = Bench(folder)
    await again.declare("t", QueueSettings())
    assert again.queues.exchanges.exchanges.route("x", ("",)) == ("d",)
    await again.close()


@durable
async def test_whether_a_queue_is_durable_cannot_be_altered(folder: Path) -> None:
    bench = Bench(folder)
    await bench.declare("t")
    with pytest.raises(InvalidRequestError, match=r"durable of queue 't' cannot be altered, .*declare it anew"):
        bench.queues.alter("t", {"durable": True})
    bench.queues.alter("t", {"ttl": 5.0, "durable": False})
    assert bench.queues.settings_of("t") == QueueSettings(ttl=5.0, durable=False)
    await bench.die()
    again = Bench(folder)
    assert again.names == []
    await again.close()


@durable
async def test_where_the_broker_says_so_of_all_queues_those_that_are_made_then_are_transient_and_no_others(
    folder: Path,
) -> None:
    bench = Bench(folder)
    bench.queues.get_or_create("before")
    await bench.send("before", b"kept")
    await bench.commit()
    await bench.die()

    asked = QueueSettings(max_receives=3, durable=False)
    second = Bench(folder, asked)
    second.queues.get_or_create("then")
    dead = second.queues._dead_letter_queue("dead")
    await second.settled()
    assert dead.is_alive()
    kinds = {name: second.queues.settings_of(name).durable for name in second.queues}
    assert kinds == {"before": True, "then": False, "dead": True}
    await second.die()

    third = Bench(folder)
    assert third.names == ["before", "dead"]
    assert await third.held("before") == [b"kept"]
    await third.close()


@durable
async def test_a_queue_that_the_brokers_settings_declare_anew_as_transient_is_so_from_then_on(folder: Path) -> None:
    bench = Bench(folder)
    await bench.declare("q", QueueSettings())
    decide = bench.queues.exchanges.exchanges.decide
    await defined(bench, decide.declare("x", "fanout", auto_delete=True))
    await defined(bench, decide.bind("x", "q"))
    await bench.send("q", b"kept so far")
    await bench.commit()
    await bench.close()

    def start(said: mock.Mock) -> tuple[Storage, QueueDirectory]:
        storage = Storage.open(folder, committer=bench.committer).start(bench.failures.append)
        with mock.patch.object(logging.getLogger("penstock.queue"), "warning", said):
            return storage, QueueDirectory(QueueSettings(), lambda: 0.0, storage=storage, declared={"q": TRANSIENT})

    bench._storage, bench.queues = start(said := mock.Mock())
    ((text, *facts),) = [call.args for call in said.call_args_list]
    assert "is transient from now on" in text
    assert facts == ["q", 1]
    assert await bench.held("q") == [b"kept so far"]
    await bench.close()

    # Of the durable binding nothing is left, and nothing says that it was lost to damage.
    bench._storage, bench.queues = start(said := mock.Mock())
    assert not said.call_args_list
    assert await bench.held("q") == []
    assert "x" not in bench.queues.exchanges.exchanges.decide._definitions.exchanges
    await bench.die()
    with mock.patch.object(logging.getLogger("penstock.storage"), "warning") as lost:
        again = Bench(folder)
    assert not lost.call_args_list
    assert list(again.queues) == []
    await again.close()


def test_in_memory_it_changes_nothing() -> None:
    async def main() -> None:
        bench = Bench(None)
        bench.queues.declare("t", TRANSIENT)
        assert confirmed(await bench.send("t", b"1")) == [1]
        with pytest.raises(InvalidRequestError, match="durable of queue 't' cannot be altered"):
            bench.queues.alter("t", {"durable": True})
        await bench.close()

    run_in_virtual_time(main())


# Memory, directories, older programs.


@durable
async def test_what_is_long_is_on_the_disk_and_not_in_memory(folder: Path) -> None:
    kept = 100_000
    bench = Bench(folder, cache_bytes=kept)
    await bench.declare("t")
    payloads = [bytes([number]) * 10_000 for number in range(100)]
    for payload in payloads:
        await bench.send("t", payload)
        await bench.commit()
    assert bench.storage.statistics()["cache_bytes"] <= kept
    table = bench.queues.logs()["t"].table
    assert len(table._entries) <= kept // 10_000 + 1
    assert await bench.held("t") == payloads
    assert bench.storage.statistics()["cache_misses"] >= 80, "they were read from the disk"
    await bench.close()


@durable
async def test_verify_backup_and_restore_know_them_and_what_is_restored_forgets_them(folder: Path) -> None:
    bench = Bench(folder / "data")
    await bench.declare("t")
    await bench.declare("d", QueueSettings())
    await bench.send("t", b"gone")
    await bench.send("d", b"kept")
    await bench.commit()
    await bench.close()
    assert verify_storage(folder / "data") == []
    backup = backup_storage(folder / "data", folder / "backup").path
    for same_broker in (False, True):
        restored = folder / f"restored {same_broker}"
        restore_storage(backup, restored, same_broker=same_broker)
        again = Bench(restored)
        assert again.names == ["d"]
        assert await again.held("d") == [b"kept"]
        assert again.storage._contents.next_queue == 2, "its number is given to no other"
        await again.close()


class _Older:
    """What the settings of a queue were to programs that know no transient queue."""

    def __new__(cls, **fields: Any) -> Any:
        if "durable" in fields:
            raise TypeError("QueueSettings.__init__() got an unexpected keyword argument 'durable'")
        return QueueSettings(**fields)


@durable
async def test_an_older_program_refuses_a_directory_that_has_some_and_opens_every_other(folder: Path) -> None:
    bench = Bench(folder)
    await bench.declare("d", QueueSettings(ttl=5.0))
    older = mock.patch("actors.storage.settings_codec.QueueSettings", _Older)
    await bench.close()
    with older:
        Storage.open(folder).close()
    for end in ("killed", "closed"):
        bench = Bench(folder)
        await bench.declare("t")
        await (bench.die() if end == "killed" else bench.close())
        # One that refuses keeps what it has locked until it has ended.
        copytree(folder, copy := folder.with_name(end))
        with older, pytest.raises(StorageError, match=r"cannot be decoded: .*durable"):
            Storage.open(copy)
    # A start has forgotten them, and once its checkpoint is made nothing of them is left.
    await Bench(folder).close()
    with older:
        storage = Storage.open(folder)
    assert [queue.name for queue in storage.queues] == ["d"]
    storage.close()


def test_what_a_directory_says_of_settings_is_whether_they_are_durable_only_where_not() -> None:
    assert settings_from({"ttl": 5.0}) == QueueSettings(ttl=5.0)
    assert settings_from(settings_as_stored(TRANSIENT)) == TRANSIENT
    assert "durable" not in settings_as_stored(QueueSettings())
