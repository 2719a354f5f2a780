"""Taking a backup of a running broker: what is asked for piece by piece is written, made durable, and read again.

The broker holds its journal still until everything has come; it is let go before the copy is verified.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from actors.storage.backups import Backup, BackupWriting, utc
from transport.errors import RemoteProtocolError
from transport.wire.receiving import Part
from transport.wire.version import installed_version

BEGIN_SECONDS = 60.0
"""In which the broker must have made the checkpoint that a backup begins with; it gives up earlier itself."""
PIECE_SECONDS = 60.0
"""In which a piece must come: a disk that the broker itself gives up earlier."""
CAUGHT_UP = 0.1
US_PER_SECOND = 1_000_000

Progress = Callable[[int, int], None]


class Ask(Protocol):
    """Has a broker run a command; the answer as it came."""

    def __call__(self, name: str, arguments: dict[str, Any], seconds: float | None = None) -> Awaitable[Part]:
        """Errors are those of `Administration`."""


class _Begun(NamedTuple):
    """What a broker says of a backup."""

    epoch: int
    store: int
    lsn: int
    taken_us: int
    piece_bytes: int
    files: list[tuple[str, int]]


async def take_backup(ask: Ask, target: Path, broker: str, rate: int | None, progress: Progress | None) -> Backup:
    """See `Administration.backup`."""
    # Before the broker is asked: whoever names a target that is there holds nothing up.
    writing = await asyncio.to_thread(BackupWriting, target)
    try:
        begun = _begun(await ask("journal.backup", {}, BEGIN_SECONDS))
        pace = _Pace(rate)
        total, done = sum(size for _, size in begun.files), 0
        try:
            for name, size in begun.files:
                writing.begin(name)
                offset = 0
                while offset < size:
                    wanted = min(begun.piece_bytes, size - offset)
                    piece = await ask("journal.read", {"name": name, "offset": offset, "bytes": wanted}, PIECE_SECONDS)
                    if not 0 < len(piece) <= wanted:
                        raise RemoteProtocolError(
                            f"the broker gave {len(piece)} bytes of {name}; {wanted} were asked for"
                        )
                    # Our own disk is slow at times, and the broker wants to hear from us.
                    await asyncio.to_thread(writing.write, piece)
                    offset += len(piece)
                    done += len(piece)
                    if progress is not None:
                        progress(done, total)
                    await pace.after(len(piece))
                await asyncio.to_thread(writing.end)
        finally:
            await _release(ask)
        taken = utc(begun.taken_us / US_PER_SECOND)
        about = {"broker": broker, "written by": f"penstock {installed_version() or 'unknown'}"}
        return await asyncio.to_thread(writing.finish, begun.epoch, begun.store, begun.lsn, taken, about)
    finally:
        await asyncio.shield(asyncio.to_thread(writing.give_up))


async def _release(ask: Ask) -> None:
    """Tell the broker that nothing more is wanted; one that is gone need not be told."""
    try:
        await ask("journal.release", {})
    except Exception:  # noqa: BLE001 - what failed before is what is to be told, and a broker finds out by itself
        return


class _Pace:
    """Waits, so that no more than ``rate`` bytes a second come; of what was missed only ``CAUGHT_UP`` seconds are made up for."""

    def __init__(self, rate: int | None) -> None:
        self._rate = rate
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.time()

    async def after(self, size: int) -> None:
        """``size`` bytes have come."""
        if self._rate is None:
            return
        now = self._loop.time()
        self._next = max(self._next, now - CAUGHT_UP) + size / self._rate
        if self._next > now:
            due = asyncio.Event()
            timer = self._loop.call_at(self._next, due.set)
            try:
                await due.wait()
            finally:
                timer.cancel()


def _begun(body: Part) -> _Begun:
    try:
        answer = json.loads(bytes(body))
        files = [(str(name), int(size)) for name, size in answer["files"]]
        epoch, store, lsn, taken = (int(answer[key]) for key in ("epoch", "store", "lsn", "taken_us"))
        piece = int(answer["piece_bytes"])
        if piece < 1:
            raise ValueError(f"pieces of {piece} bytes")
        return _Begun(epoch, store, lsn, taken, piece, files)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise RemoteProtocolError(f"the broker's answer about the backup is of another shape: {error!r:.80}") from error
