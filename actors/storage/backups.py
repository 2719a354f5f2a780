"""Backups of a data directory, and what becomes of one. What is in a backup is said in ``journal/backup.py``.

A broker that is restored and the one that was backed up must not be taken for each other. So a restored directory has another epoch,
far above those that the other gets, and another store id, with which the ids of messages begin. Everything else is as it was.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgpack

from actors.queue.state.staged import CommittedVersions
from actors.storage.failures import backup_error
from actors.storage.snapshot import Snapshot, encoded
from journal import BackupWriter, JournalError, Manifest, OsFiles, back_up_directory, restore
from journal.format import MAX_EPOCH

if TYPE_CHECKING:
    from pathlib import Path

    from journal import Files
    from journal.checkpoint_format import Checkpoint

RESTORED_EPOCHS: Final = 1 << 16
"""By how much the epoch of a restored directory is greater: more than the starts that the other one may have had since."""
STORE_ID_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that is there.

    Attributes:
        path: where.
        files: how many it has.
        size: their bytes.
        lsn: every record below it is in it.
        epoch: of the broker.
        taken: when it began; UTC, ISO 8601.
    """

    path: Path
    files: int
    size: int
    lsn: int
    epoch: int
    taken: str


def _backup(path: Path, manifest: Manifest) -> Backup:
    return Backup(path, len(manifest.files), manifest.size, manifest.lsn, manifest.epoch, manifest.taken)


class BackupWriting:
    """Writes the backup of a broker as it comes: `begin`, `write` and `end` for each file, then `finish`; `give_up` at the end, always.

    Whoever is cancelled leaves a thread at work here. So `give_up` waits for what it does, or it would take the files from under it.

    Every method blocks for as long as the disk takes, and raises:
        BackupFailedError: the target is there already, or what was written is not whole; the text says where the rest is.
        OSError: the file system refuses.
    """

    def __init__(self, target: Path, files: Files | None = None) -> None:
        try:
            self._writer = BackupWriter(target, files)
        except JournalError as error:
            raise backup_error(error) from error
        self._at_work = threading.Lock()

    def begin(self, name: str) -> None:
        """The bytes that follow are those of a file."""
        try:
            with self._at_work:
                self._writer.begin(name)
        except JournalError as error:
            raise backup_error(error) from error

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Some of them."""
        with self._at_work:
            self._writer.write(data)

    def end(self) -> None:
        """The file is whole."""
        with self._at_work:
            self._writer.end()

    def finish(self, epoch: int, store: int, lsn: int, taken: str, about: dict[str, str]) -> Backup:
        """All files are there: read them again, and give the backup its name."""
        try:
            with self._at_work:
                return _backup(self._writer.target, self._writer.finish(Manifest(epoch, store, lsn, taken, about)))
        except JournalError as error:
            raise backup_error(error) from error

    def give_up(self) -> None:
        """Remove what is not finished."""
        with self._at_work:
            self._writer.give_up()


def backup_storage(directory: Path, target: Path, files: Files | None = None) -> Backup:
    """Make a backup of a data directory that no broker has open.

    Raises:
        NoStorageError: there is no data directory.
        BackupFailedError: the target is there, or the journal is damaged.
        StorageError: a broker has it open.
        OSError: the file system refuses.
    """
    manifest = Manifest(0, 0, 0, utc(time.time()), {"broker": f"stopped, of {directory}"})
    try:
        return _backup(target, back_up_directory(directory, target, manifest, OsFiles() if files is None else files))
    except JournalError as error:
        raise backup_error(error, f"the data directory {directory} cannot be backed up") from error


def restore_storage(backup: Path, directory: Path, files: Files | None = None, *, same_broker: bool = False) -> Backup:
    """Make a data directory of a backup; it must not be there, or be empty. What the backup is.

    Args:
        backup: its directory.
        directory: what a broker is given as its data directory.
        files: the disk.
        same_broker: whether messages keep their ids, and Spark's queries go on: for a broker that is moved, and has taken nothing since.

    Raises:
        BackupFailedError: there is no backup, it is damaged, or the directory holds something.
        OSError: the file system refuses.
    """

    def change(checkpoint: Checkpoint) -> Checkpoint:
        payload = checkpoint.payload
        if not same_broker:
            payload = _of_another_store(payload)
        return checkpoint._replace(epoch=min(checkpoint.epoch + RESTORED_EPOCHS, MAX_EPOCH), payload=payload)

    try:
        return _backup(backup, restore(backup, directory, OsFiles() if files is None else files, change))
    except JournalError as error:
        raise backup_error(error) from error


def _of_another_store(payload: bytes | None) -> bytes:
    """The state of a checkpoint, with a store id of its own. A broker that was killed in its first seconds has none: all is in the log."""
    if payload is None:
        payload = b"".join(encoded(Snapshot(0, 0, [], CommittedVersions())))
    fields = msgpack.unpackb(payload, strict_map_key=False)
    before = fields["store"]
    while fields["store"] in (before, 0):
        fields["store"] = int.from_bytes(os.urandom(STORE_ID_BYTES), "big")
    packed: bytes = msgpack.packb(fields)
    return packed


def utc(seconds: float) -> str:
    """A time as manifests have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
