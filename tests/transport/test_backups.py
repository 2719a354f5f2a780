"""Backups of a running broker over real sockets: what is in one, who may have one, and when it is given up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from actors.errors import BackupFailedError, StorageError
from actors.storage import restore_storage
from actors.storage.backups import RESTORED_EPOCHS
from journal import OsFiles, read_manifest, verify
from streams import Sink, Source
from tests.transport.conftest import until
from transport import Administration, Backoff, Broker, BrokerConfig, BrokerError, MessageBatch, Receiver, Sender
from transport.broker import backups
from transport.errors import ConfirmedLostError, PeerTimeoutError

FREE_PORT = "127.0.0.1:0"
PAYLOADS = [b"%d" % number for number in range(1000)]


@asynccontextmanager
async def broker_on(directory: Path | None, address: str = FREE_PORT) -> AsyncIterator[Broker]:
    where = None if directory is None else str(directory)
    config = BrokerConfig(directory=where, send_address=address, receive_address=FREE_PORT, segment_bytes=65536)
    async with Broker(config) as broker:
        yield broker


async def send(broker: Broker, payloads: list[bytes] = PAYLOADS, client_id: str | None = None) -> None:
    sender = Sender(broker.send_address, queue="orders", client_id=client_id)
    batches = [MessageBatch.from_payloads(payloads[at : at + 50]) for at in range(0, len(payloads), 50)]
    await Source.from_iterable(batches).via(sender).to(Sink.ignore()).run()


async def received(broker: Broker, count: int) -> dict[bytes, bytes]:
    """The payloads that are there, by their ids."""
    receiver = Receiver(broker.receive_address, queue="orders")
    found = await receiver.take(count).to(Sink.collect()).run()
    for delivery in found:
        delivery.acknowledge()
    return {delivery.id: delivery.payload for delivery in found}


def refused(text: str) -> Any:
    return pytest.raises(BrokerError, match=text)


def test_a_backup_is_restored_with_all_messages_under_other_ids_and_a_greater_epoch(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_on(tmp_path / "data") as broker, Administration(broker.send_address) as administration:
            await send(broker)
            told: list[tuple[int, int]] = []
            made = await administration.backup(tmp_path / "backup", on_progress=lambda *each: told.append(each))
            prefix = broker.id_prefix("orders")
            assert told[-1][0] == told[-1][1] == sum(file.size for file in read_manifest(OsFiles(), made.path).files)
        assert (made.epoch, verify(made.path)) == (broker.epoch, [])
        restore_storage(made.path, tmp_path / "restored")
        async with broker_on(tmp_path / "restored") as restored:
            assert restored.epoch == broker.epoch + RESTORED_EPOCHS + 1
            assert restored.id_prefix("orders") != prefix
            assert sorted((await received(restored, 1000)).values()) == sorted(PAYLOADS)
        restore_storage(made.path, tmp_path / "moved", same_broker=True)
        async with broker_on(tmp_path / "moved") as moved:
            assert moved.id_prefix("orders") == prefix
            assert all(each.startswith(prefix) for each in await received(moved, 1000))

    run(main)


def test_a_sender_that_has_confirmed_more_than_the_backup_has_is_told_of_the_loss(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        confirmed: list[int] = []
        async with broker_on(tmp_path / "data") as broker, Administration(broker.send_address) as administration:
            address = broker.send_address
            back = Backoff(minimum=0.01, maximum=0.05)
            sender = Sender(address, queue="orders", client_id="till", reconnect=back)
            source = Source.queue(10, of=MessageBatch).via(sender)
            running = source.to(Sink.foreach(lambda each: confirmed.append(each.count))).run()
            running.value.offer(MessageBatch.from_payloads([b"1"]))
            await until(lambda: len(confirmed) == 1)
            await administration.backup(tmp_path / "backup")
            running.value.offer(MessageBatch.from_payloads([b"2"]))
            await until(lambda: len(confirmed) == 2)
        restore_storage(tmp_path / "backup", tmp_path / "restored")
        async with broker_on(tmp_path / "restored", address):
            with pytest.raises(ConfirmedLostError):
                await running

    run(main)


def test_a_sender_that_began_behind_the_backup_is_told_of_the_loss_too(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        confirmed: list[int] = []
        async with broker_on(tmp_path / "data") as broker, Administration(broker.send_address) as administration:
            address = broker.send_address
            await administration.create_queue("orders")
            await administration.backup(tmp_path / "backup")
            back = Backoff(minimum=0.01, maximum=0.05)
            sender = Sender(address, queue="orders", client_id="till", reconnect=back)
            source = Source.queue(10, of=MessageBatch).via(sender)
            running = source.to(Sink.foreach(lambda each: confirmed.append(each.count))).run()
            running.value.offer(MessageBatch.from_payloads([b"1", b"2"]))
            await until(lambda: sum(confirmed) == 2)
        restore_storage(tmp_path / "backup", tmp_path / "restored")
        async with broker_on(tmp_path / "restored", address):
            with pytest.raises(ConfirmedLostError, match=r"queue orders: .*'till' below 0, .* below 2"):
                await running

    run(main)


def test_a_broker_in_memory_and_one_whose_journal_has_failed_say_so_and_nothing_is_left(
    run: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        async with broker_on(None) as broker, Administration(broker.send_address) as administration:
            with refused("keeps everything in memory"):
                await administration.backup(tmp_path / "backup")
        async with broker_on(tmp_path / "data") as broker, Administration(broker.send_address) as administration:
            assert broker._storage is not None
            broker._storage.failure = StorageError("the disk is broken")
            with refused("the disk is broken"):
                await administration.backup(tmp_path / "backup")
            broker._storage.failure = None
        assert OsFiles().names(tmp_path) == ["data"]

    run(main)


def test_a_target_that_is_there_is_refused_before_the_broker_is_asked(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_on(tmp_path / "data") as broker, Administration(broker.send_address) as administration:
            (tmp_path / "backup").mkdir()
            for target in (tmp_path / "backup", Path(".."), Path(), Path("/")):
                with pytest.raises(BackupFailedError, match="is there already"):
                    await administration.backup(target)
            with pytest.raises(FileNotFoundError):
                await administration.backup(tmp_path / "nowhere" / "backup")

    run(main)


def test_a_second_backup_is_refused_by_name_until_the_first_is_released_or_its_connection_is_gone(
    run: Any, tmp_path: Path
) -> None:
    async def main() -> None:
        async with broker_on(tmp_path / "data") as broker, Administration(broker.send_address) as second:
            storage = broker._storage
            assert storage is not None
            async with Administration(broker.send_address) as first:
                await first._ask_for("journal.backup", {})
                with refused(r"is under way, by anyone from 127\.0\.0\.1:\d+, for 0 s"):
                    await second.backup(tmp_path / "backup")
                await first._ask_for("journal.release", {})
                await second.backup(tmp_path / "backup")
                await first._ask_for("journal.backup", {})
                assert storage._checkpoints.pinned
            await until(lambda: not storage._checkpoints.pinned)
            await second.backup(tmp_path / "another")

    run(main)


def test_a_backup_whose_client_leaves_while_it_is_begun_holds_nothing(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_on(tmp_path / "data") as broker:
            storage = broker._storage
            assert storage is not None
            await send(broker)
            for _ in range(20):
                client = Administration(broker.send_address)
                async with client:
                    with suppress(PeerTimeoutError, BrokerError):
                        await client._ask_for("journal.backup", {}, 0.0005)
            await until(lambda: not storage._checkpoints.pinned)
            async with Administration(broker.send_address) as administration:
                await administration.backup(tmp_path / "backup")

    run(main)


def test_a_client_that_asks_for_nothing_is_given_up_and_told_why(
    run: Any, tmp_path: Path, jump: Any, monkeypatch: Any
) -> None:
    # The test's own deadline comes nearer too.
    monkeypatch.setattr(backups, "IDLE_SECONDS", 6.0)

    async def main() -> None:
        async with broker_on(tmp_path / "data") as broker, Administration(broker.send_address) as administration:
            storage = broker._storage
            assert storage is not None
            backup = backups.Backups(storage)
            await backup.begin(administration)
            jump(backups.IDLE_SECONDS)
            await until(lambda: not storage._checkpoints.pinned)
            with pytest.raises(backups.BackupRefusedError, match="given up: nothing was asked for in 6 s"):
                await backup.read(administration, "newest", 0, 1)
            await backup.begin(administration)
            for _ in range(3):
                jump(backups.IDLE_SECONDS / 2)
                under_way = backup._under_way
                assert under_way is not None
                backup._go_on(under_way)
            with pytest.raises(backups.BackupRefusedError, match="given up: it is slower than 1048576 bytes a second"):
                await backup.read(administration, "newest", 0, 1)

    run(main)


def test_a_backup_that_keeps_room_from_a_disk_that_is_short_of_it_is_given_up(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_on(tmp_path / "data") as broker, Administration(broker.send_address) as administration:
            storage = broker._storage
            assert storage is not None
            await send(broker)
            begun = await administration._ask_for("journal.backup", {})
            assert b"checkpoint-" in bytes(begun)
            broker.watermarks.disk.reached = True
            name = next(iter(storage._journal.pins.names))
            # As long as it holds nothing it harms nobody.
            await administration._ask_for("journal.read", {"name": name, "offset": 0, "bytes": 1})
            storage._journal.pins.held_bytes = 1
            with refused("short of room"):
                await administration._ask_for("journal.read", {"name": name, "offset": 0, "bytes": 1})
            assert not storage._checkpoints.pinned

    run(main)


def test_what_is_no_file_of_the_backup_and_what_was_not_begun_is_refused(run: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with broker_on(tmp_path / "data") as broker, Administration(broker.send_address) as administration:
            piece = {"name": "newest", "offset": 0, "bytes": 1}
            with refused("no backup under way on this connection"):
                await administration._ask_for("journal.read", piece)
            await administration._ask_for("journal.backup", {})
            for name in ("../../etc/passwd", "lock", "", "newest"):
                with refused("has no file"):
                    await administration._ask_for("journal.read", piece | {"name": name})
            for wrong in ({"bytes": 0}, {"offset": -1}, {"name": 3}):
                with refused("the argument"):
                    await administration._ask_for("journal.read", piece | wrong)

    run(main)
