"""A broker's journal as of one instant, held still to be read while everybody goes on. What is held, and how, is in ``journal/pins.py``."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from actors.errors import BackupFailedError

if TYPE_CHECKING:
    from actors.storage.storage import Storage
    from journal import Pin, PinnedFile

PIN_SECONDS: Final = 30.0
"""Seconds in which a checkpoint must be durable for it to be copied: on a disk that is slower a copy would take for ever."""


class PinnedJournal:
    """Files that stay as they are until `release`.

    Attributes:
        files: what there is to read, and how much of each: the checkpoint first.
        lsn: every record below it is among them, and none other.
        epoch: the broker's.
        store_id: the directory's.
    """

    def __init__(self, storage: Storage, pin: Pin, files: tuple[PinnedFile, ...]) -> None:
        self._storage: Storage | None = storage
        self._disk = storage._files
        self._directory = storage.directory
        self._sizes = dict(files)
        self.files = files
        self.lsn = pin.lsn
        self.epoch = storage.epoch
        self.store_id = storage.store_id

    @property
    def held_bytes(self) -> int:
        """Bytes of the disk that would be free without it."""
        return 0 if self._storage is None else self._storage._journal.pins.held_bytes

    def read(self, name: str, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes of one of the files, fewer where it ends. It reads the disk, so it is for a thread.

        Raises:
            LookupError: there is no such file.
            OSError: it cannot be read, or ends too early.
        """
        stop = min(offset + size, self._sizes[name])
        file = self._disk.open(self._directory / name)
        try:
            parts = []
            while offset < stop:
                part = self._disk.read(file, stop - offset, offset)
                if not part:
                    raise OSError(f"{name} ends at offset {offset}, before its {self._sizes[name]} bytes")
                parts.append(part)
                offset += len(part)
            return b"".join(parts)
        finally:
            self._disk.close(file)

    def release(self) -> None:
        """Let the files go; a second time does nothing."""
        storage, self._storage = self._storage, None
        if storage is not None:
            storage._checkpoints.release()


async def pin_journal(storage: Storage) -> PinnedJournal:
    """Hold still what is confirmed now, and perhaps some of what comes meanwhile, as of one instant. One at a time.

    Raises:
        BackupFailedError: another is held.
        StorageError: the journal has failed.
        TimeoutError: the disk took too long for it.
        OSError: the files that were just written cannot be read.
    """
    if storage.failure is not None:
        raise storage.failure
    loop = asyncio.get_running_loop()
    found: list[PinnedJournal | OSError] = []
    checkpoints = storage._checkpoints
    if checkpoints.pinned:
        raise BackupFailedError("the journal is held for another backup: one at a time")

    def ready(pin: Pin) -> None:
        """On a thread of the journal."""
        try:
            found.append(PinnedJournal(storage, pin, pin.files(storage._files, storage.directory)))
        except OSError as error:
            found.append(error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(storage._wake_synced)

    checkpoints.pin(ready)
    try:
        async with asyncio.timeout(PIN_SECONDS):
            while not found:
                await _something_happens(storage)
        if isinstance(found[0], OSError):
            raise found[0]
        return found[0]
    except BaseException:
        checkpoints.release()
        raise


async def _something_happens(storage: Storage) -> None:
    """Until something more is durable; StorageError where nothing will be."""
    if storage.failure is not None:
        raise storage.failure
    changed = asyncio.get_running_loop().create_future()
    storage._synced.append(changed)
    await changed
    if storage.failure is not None:
        raise storage.failure
