"""Backups of a running broker's journal, which a client reads piece by piece: one at a time, and none for ever.

The client asks for each piece, so a piece is all that is in memory, and one that is slow slows nobody. What is copied is held on the disk
(`PinnedJournal`) until the client says that it is done, its connection ends, or one of the limits below is reached.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from actors.errors import StorageError
from actors.storage import PinnedJournal, Storage, pin_journal
from transport.broker.unhurried import Unhurried
from transport.errors import BackupRefusedError, RemoteProtocolError

PIECE_BYTES: Final = 256 * 1024
"""Of one answer: less than a millisecond of the loop, and of the line in front of what others are sent."""
IDLE_SECONDS: Final = 30.0
"""Without a question, after which a backup is given up: its client has died, or its disk."""
LEAST_BYTES_A_SECOND: Final = 1024 * 1024
"""Pace below which it is given up, after ``IDLE_SECONDS``: the time of a backup grows with its size, and has an end."""

logger = logging.getLogger("penstock.broker")

NO_JOURNAL: Final = "this broker keeps everything in memory: it has no journal to back up"
NOT_BEGUN: Final = "there is no backup under way on this connection: begin one with journal.backup"


@dataclass(slots=True)
class _UnderWay:
    """One backup.

    Attributes:
        asker: whose it is.
        since: when it began; monotonic seconds.
        journal: what is held; None until it is.
        until: when it is given up, whatever happens.
        timer: looks whether it goes on.
        wanted: the piece that is being read.
        abandoned: nobody waits any more for it to be held.
    """

    asker: object
    since: float
    journal: PinnedJournal | None = None
    until: float = 0.0
    timer: asyncio.TimerHandle | None = None
    wanted: tuple[str, int, int] = ("", 0, 0)
    abandoned: bool = False


class Backups:
    """The one backup that there may be.

    Args:
        storage: of the broker; None where everything is in memory.
        short_of_room: whether senders wait for room on the disk.
    """

    def __init__(self, storage: Storage | None, short_of_room: Callable[[], bool] = lambda: False) -> None:
        self._storage = storage
        self._short_of_room = short_of_room
        self._under_way: _UnderWay | None = None
        self._given_up: tuple[object, str] | None = None
        self._reading = Unhurried(self._read_wanted, _late)

    async def begin(self, asker: object) -> dict[str, Any]:
        """Hold the journal still for ``asker``: what a backup is, and the files that it has.

        Raises:
            BackupRefusedError: there is no journal, or a backup is under way.
            StorageError: the journal has failed.
        """
        if self._storage is None:
            raise BackupRefusedError(NO_JOURNAL)
        loop = asyncio.get_running_loop()
        if self._under_way is not None:
            other, seconds = self._under_way.asker, loop.time() - self._under_way.since
            raise BackupRefusedError(
                f"a backup of this broker is under way, by {other}, for {seconds:.0f} s: one at a time, so try again later"
            )
        self._given_up = None
        under_way = self._under_way = _UnderWay(asker, loop.time())
        taken = time.time()
        try:
            journal = await pin_journal(self._storage)
        except BaseException as error:
            self._forget(under_way)
            if isinstance(error, TimeoutError | OSError) and not isinstance(error, StorageError):
                raise BackupRefusedError(
                    f"no backup can be begun: {str(error) or 'the disk takes too long'}"
                ) from error
            raise
        under_way.journal = journal
        if under_way.abandoned:
            self._forget(under_way)
            raise BackupRefusedError(NOT_BEGUN)
        size = sum(file.size for file in journal.files)
        under_way.until = loop.time() + IDLE_SECONDS + size / LEAST_BYTES_A_SECOND
        self._go_on(under_way)
        return {
            "epoch": journal.epoch,
            "store": journal.store_id,
            "lsn": journal.lsn,
            "taken_us": int(taken * 1e6),
            "piece_bytes": PIECE_BYTES,
            "files": [[file.name, file.size] for file in journal.files],
        }

    async def read(self, asker: object, name: str, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes of a file, and ``PIECE_BYTES`` at most; fewer where it ends.

        Raises:
            BackupRefusedError: the backup was given up, or none was begun; or the disk cannot be read.
            RemoteProtocolError: there is no such file in it.
        """
        under_way = self._of(asker)
        under_way.wanted = (name, offset, min(size, PIECE_BYTES))
        if self._short_of_room() and under_way.journal is not None and under_way.journal.held_bytes:
            self._give_up(under_way, "the disk is short of room, and the backup keeps some of it from being given back")
        if asyncio.get_running_loop().time() > under_way.until:
            self._give_up(under_way, f"it is slower than {LEAST_BYTES_A_SECOND} bytes a second")
        self._of(asker)
        self._go_on(under_way)
        try:
            data = await self._reading.later()
        except LookupError:
            raise RemoteProtocolError(f"the backup has no file {name!r:.100}") from None
        except OSError as error:
            self._give_up(under_way, f"the disk cannot be read: {error}")
            data = b""
        # It may have been given up meanwhile, and the file be another.
        self._of(asker)
        return data

    def release(self, asker: object) -> bool:
        """It is done; whether there was one."""
        under_way = self._under_way
        if under_way is None or under_way.asker is not asker:
            return False
        if under_way.journal is None:
            # Until it is held the place is taken: two cannot be held.
            under_way.abandoned = True
        else:
            self._forget(under_way)
        return True

    def gone(self, asker: object) -> None:
        """The connection of ``asker`` is over."""
        if self.release(asker):
            logger.info("the backup by %s ended with its connection", asker)

    # Inside

    def _of(self, asker: object) -> _UnderWay:
        under_way = self._under_way
        if under_way is None or under_way.asker is not asker or under_way.journal is None:
            given_up = self._given_up
            raise BackupRefusedError(given_up[1] if given_up is not None and given_up[0] is asker else NOT_BEGUN)
        return under_way

    def _read_wanted(self) -> bytes:
        """In a thread."""
        under_way = self._under_way
        if under_way is None or under_way.journal is None:
            return b""
        return under_way.journal.read(*under_way.wanted)

    def _go_on(self, under_way: _UnderWay) -> None:
        """Something was asked for."""
        if under_way.timer is not None:
            under_way.timer.cancel()
        why = f"nothing was asked for in {IDLE_SECONDS:.0f} s"
        under_way.timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._give_up, under_way, why)

    def _give_up(self, under_way: _UnderWay, why: str) -> None:
        if self._under_way is under_way:
            text = f"the backup was given up: {why}"
            logger.warning("%s (by %s)", text, under_way.asker)
            self._given_up = (under_way.asker, text)
            self._forget(under_way)

    def _forget(self, under_way: _UnderWay) -> None:
        if self._under_way is under_way:
            self._under_way = None
        if under_way.timer is not None:
            under_way.timer.cancel()
        if under_way.journal is not None:
            under_way.journal.release()


def _late(why: str) -> Exception:
    return OSError(why)
