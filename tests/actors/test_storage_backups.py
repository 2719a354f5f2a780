"""Backups of data directories that no broker has open, as their queues see them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from shutil import copytree

from actors.queue.vocabulary.settings import QueueSettings
from actors.storage import Storage, backup_storage, restore_storage


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
