"""Watermarks: too much memory turns caches off, too little disk lets senders wait; receivers go on, for they make room.

Whether one is reached is decided from numbers alone; a timer of the loop looks at them. Each has another threshold for being lifted, so
that what moves about one of them does not switch at every look.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from transport.broker.freed_memory import FreedMemory
from transport.broker.memory import kept_bytes, memory_limit, release_memory, resident_bytes, small_bytes
from transport.config.config import BrokerConfig

WATERMARK_INTERVAL = 1.0
"""Seconds between looks: a broker takes in a few GB in one at most, which disk floor and memory left over have to hold."""
MEMORY_LIFT = 0.9
"""Share of the watermark below which memory must fall for caches to come back."""
DISK_LIFT = 1.1
"""How many times the floor must be free for senders to go on."""

logger = logging.getLogger("penstock.broker")


class Queues(Protocol):
    """What watermarks act on: the broker's `QueueDirectory`."""

    def set_memory_pressure(self, on: bool, /) -> None:
        """Turn caches off, or on again."""

    def pause_senders(self, reason: str | None, /) -> None:
        """Grant senders nothing more, because of ``reason``; None grants again."""


def free_bytes(directory: Path) -> int:
    """Bytes that a process without privileges may still write on the file system of ``directory``."""
    facts = os.statvfs(directory)
    return facts.f_bavail * facts.f_frsize


class MemoryWatermark:
    """Whether a process has more than its share of the memory it may have.

    Args:
        share: of the limit.

    Attributes:
        reached: since `look` has found so, until it is lifted.
        watermark: bytes, as of the last look.
        used: bytes, as of the last look.
    """

    def __init__(self, share: float) -> None:
        self.reached = False
        self.watermark = 0
        self.used = 0
        self._share = share

    def look(self, used: int, limit: int) -> bool:
        """Take in how much is used of how much; True when that changes ``reached``."""
        before = self.reached
        self.used, self.watermark = used, int(limit * self._share)
        self.reached = used > (self.watermark * MEMORY_LIFT if before else self.watermark)
        return self.reached != before

    def __str__(self) -> str:
        return f"{_mib(self.used)} of memory are used, and the watermark is {_mib(self.watermark)}"


class DiskFloor:
    """Whether a disk has too little room left.

    Args:
        floor: bytes that must be free; 0 for no floor.

    Attributes:
        reached: since `look` has found so, until it is lifted.
        free: bytes, as of the last look, or why they could not be read.
    """

    def __init__(self, floor: int) -> None:
        self.reached = False
        self.free: int | OSError = 0
        self._floor = floor

    def look(self, free: int | OSError) -> bool:
        """Take in how much is free; True when that changes ``reached``. A disk that cannot be asked is not written to either."""
        before = self.reached
        self.free = free
        self.reached = self._floor > 0 and (
            isinstance(free, OSError) or free < (self._floor * DISK_LIFT if before else self._floor)
        )
        return self.reached != before

    def __str__(self) -> str:
        if isinstance(self.free, OSError):
            return f"how much is free cannot be read ({self.free.strerror or self.free}), and the disk floor is {_mib(self._floor)}"
        return f"{_mib(self.free)} are free, and the disk floor is {_mib(self._floor)}"


class Watermarks:
    """Looks at memory and disk every ``WATERMARK_INTERVAL`` seconds and tells the queues what changes.

    A broker with a journal turns its caches off at the memory watermark: what they held is on disk. One without lets senders
    wait, for memory is all it has.

    Args:
        config: the watermark and the floor.
        directory: the journal's; None for a broker that keeps everything in memory.
        queues: who is told.
        used: bytes of memory in use.
        limit: bytes of memory allowed.
        free: bytes free at a directory; raises OSError.
        kept: bytes that the process holds and does not use; None where nobody can tell.
        small: bytes in small pieces that are in use.
        release: gives back what is not used.

    Attributes:
        memory: where memory is.
        disk: where the disk is; not looked at without a journal.
        paused: why senders wait; None when they do not.
    """

    def __init__(
        self,
        config: BrokerConfig,
        directory: Path | None,
        queues: Queues,
        *,
        used: Callable[[], int] = resident_bytes,
        limit: Callable[[], int] = memory_limit,
        free: Callable[[Path], int] = free_bytes,
        kept: Callable[[], int | None] = kept_bytes,
        small: Callable[[], int] = small_bytes,
        release: Callable[[], None] = release_memory,
    ) -> None:
        self.memory = MemoryWatermark(config.memory_watermark)
        self.disk = DiskFloor(config.disk_floor)
        self.paused: str | None = None
        self._directory = directory
        self._queues = queues
        self._used = used
        self._limit = limit
        self._free = free
        self._kept = kept
        self._small = small
        self._release = release
        self._freed = FreedMemory(used(), kept(), small())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look now, before anybody is granted anything, and from now on."""
        self._loop = loop
        self._tick()

    def stop(self) -> None:
        """Look no more."""
        self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """Look once, and tell the queues what has changed."""
        if self.memory.look(self._used(), self._limit()):
            self._memory_changed()
        # What receivers have taken is free again only to this process: without this a watermark that is reached might never be lifted.
        if self._freed.due(self.memory.used, self._kept(), self._small(), pressed=self.memory.reached):
            self._release()
            self._freed.given_back(self._used(), self._kept(), self._small())
        if self._directory is not None and self.disk.look(self._free_or_error(self._directory)):
            self._disk_changed(self._directory)

    def statistics(self) -> dict[str, Any]:
        """For ``stats``: the watermark in bytes, whether it is reached, and why senders wait, if they do."""
        return {
            "memory_watermark_bytes": self.memory.watermark,
            "memory_pressure": self.memory.reached,
            "paused": self.paused,
        }

    # Inside

    def _tick(self) -> None:
        if self._loop is None:
            return
        # Armed first: a look that fails, which the loop reports, must not be the last one.
        self._timer = self._loop.call_later(WATERMARK_INTERVAL, self._tick)
        self.look()

    def _memory_changed(self) -> None:
        on = self.memory.reached
        self._queues.set_memory_pressure(on)
        if self._directory is None:
            self._pause(f"{self.memory}: senders wait until receivers have made room" if on else None)
        else:
            logger.warning("%s: caches are %s", self.memory, "off" if on else "on again")

    def _disk_changed(self, directory: Path) -> None:
        # A folder that was deleted under the broker has room, and is no disk that becomes free.
        until = "it can be read; is the folder there?" if isinstance(self.disk.free, OSError) else "there is room"
        self._pause(f"at {directory} {self.disk}: senders wait until {until}" if self.disk.reached else None)

    def _pause(self, reason: str | None) -> None:
        self.paused = reason
        self._queues.pause_senders(reason)
        logger.warning("%s", reason or "there is room again: senders go on")

    def _free_or_error(self, directory: Path) -> int | OSError:
        try:
            return self._free(directory)
        except OSError as error:
            return error


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
