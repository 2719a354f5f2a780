"""What leaves a node's directory for others, and what comes in from them whole: pieces of its log, and transfers."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from actors.errors import ActorError
from actors.storage.failures import storage_error
from journal import JournalError, LogGoneError, TransferTarget
from journal import ShippedRecord as ShippedRecord  # noqa: PLC0414 - given here too
from journal.installing import install
from journal.names import INCOMING
from journal.transfer_target import discard_transfer

if TYPE_CHECKING:
    from actors.storage.node_storage import NodeStorage
    from journal import Files, JournalOptions
    from journal.log_reader import LogPiece

logger = logging.getLogger("penstock.storage")


class RecordsGoneError(ActorError):
    """Records of a node's log that are asked for, and that it does not hold any more: what they come to is in its checkpoint."""


class Records:
    """Some records of a log that follow one another.

    Attributes:
        in_memory: whether `read` needs no disk.
    """

    __slots__ = ("_piece", "in_memory")

    def __init__(self, piece: LogPiece) -> None:
        self._piece = piece
        self.in_memory = piece.in_memory

    def read(self) -> list[ShippedRecord]:
        """They; on any thread.

        Raises:
            RecordsGoneError: their room was given back meanwhile.
            StorageError: they are damaged, or cannot be read.
        """
        try:
            return self._piece.read()
        except LogGoneError as error:
            raise RecordsGoneError(str(error)) from error
        except (JournalError, OSError) as error:
            raise storage_error(error) from error


class NodeShipping:
    """What is shipped of one directory, and taken into it.

    Args:
        storage: the directory.
        options: of the journal that a transfer makes.
        files: the file system; that of the directory by default.
    """

    def __init__(self, storage: NodeStorage, options: JournalOptions, files: Files | None = None) -> None:
        self._storage = storage
        self._options = options
        self._files = files or storage.files

    def records(self, lsn: int, most: int) -> Records:
        """From ``lsn`` on, one at least, and more up to about ``most`` bytes.

        Raises:
            RecordsGoneError: the log begins later.
        """
        try:
            return Records(self._storage.journal.log_piece(lsn, most))
        except LogGoneError as error:
            raise RecordsGoneError(str(error)) from error

    def lag(self, lsn: int) -> float:
        """How much of the log somebody lacks who has all before ``lsn``: 1 is all that is kept for who lags, infinite is too much.

        There may be more than is kept for that: what is wanted for another reason stays.
        """
        journal = self._storage.journal
        if lsn < journal.log_start:
            return math.inf
        return journal.log_bytes_from(lsn) / self._options.cluster_log_bytes

    def same_log(self) -> object:
        """Something that is the same object as long as the log is not cut or replaced, nor opened anew."""
        return self._storage.same_log

    async def join(self, cluster: str) -> None:
        """Be of a cluster, for good.

        Raises:
            StorageError: the disk fails.
        """
        journal = self._storage.journal
        try:
            await asyncio.to_thread(journal.join, cluster)
        except JournalError as error:
            raise storage_error(error) from error

    def target(self) -> TransferTarget:
        """Where a transfer is taken into, beside the journal; it blocks for as long as what came before takes to read."""
        incoming = self._storage.directory / INCOMING
        return TransferTarget(incoming, self._options, self._files, replace=True, report=logger.warning)

    def discard(self) -> bool:
        """Remove what a transfer has left that is needed no more; whether there was anything. It blocks.

        Raises:
            StorageError: the disk fails, or it is being taken into.
        """
        try:
            return discard_transfer(self._files, self._storage.directory / INCOMING)
        except JournalError as error:
            raise storage_error(error) from error

    async def install(self, lsn: int) -> None:
        """Put a transfer that is whole in the place of the journal; the log goes on at ``lsn`` then.

        Raises:
            StorageError: the disk fails.
        """
        storage = self._storage
        committed = storage.log.committed
        await storage.reopen(lambda: install(self._files, storage.directory, lsn, committed, logger.warning))
