"""Backups of data directories that no broker has open, as their queues see them."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from shutil import copytree

from actors.queue.vocabulary.settings import QueueSettings
from actors.storage import BackupWriting, Storage, backup_storage, restore_storage
from journal import OsFiles, read_manifest, verify


def test_a_directory_whose_broker_was_killed_before_its_first_checkpoint_is_restored_under_another_id(
    tmp_path: Path,
) -> None:
    async def killed() -> int:
        storage = Storage.open(tmp_path / "data").start(lambda _: None)
        storage.declare("orders", QueueSettings(max_messages=7))
        await storage.synced()
        copytree(tmp_path / "data", tmp_path / "killed")
        storage.close()
        return storage.store_id

    before = asyncio.run(killed())
    backup = backup_storage(tmp_path / "killed", tmp_path / "backup").path
    for same_broker in (False, True):
        restore_storage(backup, tmp_path / f"restored {same_broker}", same_broker=same_broker)
        restored = Storage.open(tmp_path / f"restored {same_broker}")
        assert (restored.store_id == before, bool(restored.store_id)) == (same_broker, True)
        assert [(queue.name, queue.settings) for queue in restored.queues] == [
            ("orders", QueueSettings(max_messages=7))
        ]
        restored.close()


def test_one_that_is_given_up_while_it_gets_its_name_is_whole(tmp_path: Path) -> None:
    async def filled() -> None:
        storage = Storage.open(tmp_path / "data").start(lambda _: None)
        storage.declare("orders", None)
        storage.close()

    class GivenUp(OsFiles):
        """Its task was cancelled, and gives up in a thread of its own."""

        def rename(self, source: Path, target: Path) -> None:
            if target.name == "copy":
                giving_up.start()
                # It has all the time it may want, and has to wait.
                giving_up.join(0.2)
            super().rename(source, target)

    asyncio.run(filled())
    original = backup_storage(tmp_path / "data", tmp_path / "backup").path
    writing = BackupWriting(tmp_path / "copy", GivenUp())
    giving_up = threading.Thread(target=writing.give_up)
    for file in read_manifest(OsFiles(), original).files:
        writing.begin(file.name)
        writing.write((original / file.name).read_bytes())
        writing.end()
    writing.finish(1, 1, 1, "2026-01-01T00:00:00Z", {})
    giving_up.join()
    assert verify(tmp_path / "copy") == []
    restore_storage(tmp_path / "copy", tmp_path / "restored")
