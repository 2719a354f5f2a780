"""The disks of machines, and what can happen to them: syncs that take long or fail, no space, errors, flipped bits, power that is lost.

`Disk` is a folder. Its faults strike calls of the C library (disk_faults.c), so of any program that makes them through it: our broker
does, a program in Go, such as etcd, does not. `ImageDisk` is a file system of its own besides: it is truly full when it is, for every
program, and it can lose its power, and what had not been synced with it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
import select
import shutil
import struct
import subprocess
import time
from functools import cache
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from tests.fault.machines.namespaces import run

SOURCE: Final = Path(__file__).with_name("disk_faults.c")
BUILD: Final = Path(__file__).resolve().parents[3] / "build" / "disk-faults"
PAGE: Final = struct.Struct("=IIiiqq")
"""As `struct page` in disk_faults.c: active, microseconds of a sync, errno of a sync, errno of a write, room in bytes, calls struck."""
PAGE_BYTES: Final = 4096
COMPILE_SECONDS: Final = 60.0
ANY_ROOM: Final = -1
READ_BYTES: Final = 4096
EXT4_IOC_SHUTDOWN: Final = 0x8004587D
NOTHING_FLUSHED: Final = struct.pack("I", 2)
"""EXT4_GOING_FLAGS_NOLOGFLUSH: neither what is dirty, nor the file system's own log."""
BALLAST: Final = "ballast"
WRITTEN_BYTES: Final = 64
"""Far more zeros than stand in a row in what is written."""
MOST_PICKS: Final = 20_000
"""Bytes that are looked at for one that is written."""
BLOCK_BYTES: Final = 4096


class DiskError(Exception):
    """What was asked for cannot be had here."""


class FlippedBit(NamedTuple):
    """Which bit was flipped."""

    path: Path
    offset: int
    bit: int


@cache
def library() -> Path | None:
    """Where the compiled faults are; None where there is no C compiler. Compiled once, for all runs of this source."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    BUILD.mkdir(parents=True, exist_ok=True)
    made = BUILD / f"{digest}.so"
    if not made.exists():
        new = BUILD / f"{digest}.{os.getpid()}.so"
        command = (compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", str(new), str(SOURCE), "-ldl")
        subprocess.run(command, check=True, timeout=COMPILE_SECONDS)
        new.rename(made)
    return made


def why_no_faults() -> str | None:
    """Why no call can be made to fail here, or None."""
    return None if library() is not None else "faults of a disk need a C compiler (Debian: gcc, libc6-dev)"


def why_no_images() -> str | None:
    """Why no disk can be a file system of its own here, or None."""
    if missing := [name for name in ("mkfs.ext4", "mount", "umount") if shutil.which(name) is None]:
        return f"disks that lose power need {' and '.join(missing)}"
    return None if Path("/dev/loop-control").exists() else "disks that lose power need loop devices"


def is_written(path: Path, offset: int) -> bool:
    """Whether anything but zeros stands in the `WRITTEN_BYTES` of a file that a byte is one of."""
    with path.open("rb") as file:
        file.seek(offset - offset % WRITTEN_BYTES)
        return any(file.read(WRITTEN_BYTES))


class Disk:
    """A folder with faults.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self._page: mmap.mmap | None = None
        self._told = -1
        if library() is not None:
            self._make_page()

    def environment(self) -> dict[str, str]:
        """Variables of a process that the faults are to strike."""
        made = library()
        if made is None:
            return {}
        return {
            "LD_PRELOAD": str(made),
            "PENSTOCK_DISK": str(self.path.resolve()),
            "PENSTOCK_DISK_FAULTS": str(self._beside("faults")),
            "PENSTOCK_DISK_TOLD": str(self._beside("told")),
        }

    def slow_syncs(self, seconds: float) -> None:
        """From now on each sync takes so much longer."""
        self._set(sync_delay_us=round(seconds * 1e6))

    def fail_syncs(self, code: int = errno.EIO) -> None:
        """From now on each sync fails; it is not made."""
        self._set(sync_errno=code)

    def fail_writes(self, code: int = errno.EIO) -> None:
        """From now on each write fails; it is not made."""
        self._set(write_errno=code)

    def leave_room(self, size: int) -> None:
        """So many bytes may still be written; then there is no space, but for who writes into what was allocated before."""
        self._set(room=size)

    def mend(self) -> None:
        """All calls are made again as they should be."""
        self._set(active=0)

    @property
    def struck(self) -> int:
        """How many calls were struck so far."""
        return self._read()[-1]

    def wait_struck(self, count: int, seconds: float) -> None:
        """Wait until so many calls were struck in all.

        Raises:
            DiskError: they were not, within this time.
        """
        waiting = select.poll()
        waiting.register(self._told, select.POLLIN)
        end = time.monotonic() + seconds
        while self.struck < count:
            if not waiting.poll(max(end - time.monotonic(), 0) * 1000):
                raise DiskError(f"{self.struck} calls were struck within {seconds:.0f} s, not {count}")
            os.read(self._told, READ_BYTES)

    def flip_bit(self, path: Path, offset: int, bit: int) -> FlippedBit:
        """Flip one bit of a file, in place: whoever has it open reads it so."""
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            byte = os.pread(file, 1, offset)
            if not byte:
                raise DiskError(f"{path} has no byte {offset}")
            os.pwrite(file, bytes([byte[0] ^ (1 << bit)]), offset)
        finally:
            os.close(file)
        return FlippedBit(path, offset, bit)

    def flip_some_bit(self, random: Random, pattern: str = "**/*", *, written: bool = False) -> FlippedBit:
        """Flip a bit that ``random`` picks, of some file that is not empty and whose path matches: each byte is as likely as any other.

        Args:
            random: picks.
            pattern: of paths below the disk's.
            written: take no byte that stands among zeros alone (`WRITTEN_BYTES`): a file may have been given its size, and nothing may have
                been written there yet.

        Raises:
            DiskError: no file matches, or nothing is written in those that do.
        """
        files = [path for path in sorted(self.path.glob(pattern)) if path.is_file() and path.stat().st_size]
        if not files:
            raise DiskError(f"no file of {self.path} matches {pattern}, or all are empty")
        for _ in range(MOST_PICKS):
            [path] = random.choices(files, [each.stat().st_size for each in files])
            offset = random.randrange(path.stat().st_size)
            if not written or is_written(path, offset):
                return self.flip_bit(path, offset, random.randrange(8))
        raise DiskError(f"next to nothing is written in the files of {self.path} that match {pattern}")

    def lose_power(self) -> None:
        """Lose what was not synced: a folder of the machine that the tests run on cannot, and loses nothing."""

    def close(self) -> None:
        """Give back what this holds."""
        if self._page is not None:
            self._page.close()
            self._page = None
        if self._told >= 0:
            os.close(self._told)
            self._told = -1

    def _beside(self, name: str) -> Path:
        return self.path.with_name(f"{self.path.name}-{name}").resolve()

    def _make_page(self) -> None:
        with self._beside("faults").open("w+b") as file:
            file.truncate(PAGE_BYTES)
            self._page = mmap.mmap(file.fileno(), PAGE_BYTES)
        PAGE.pack_into(self._page, 0, 0, 0, 0, 0, ANY_ROOM, 0)
        os.mkfifo(self._beside("told"))
        # For writing too: so it never ends, whoever comes and goes.
        self._told = os.open(self._beside("told"), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def _read(self) -> tuple[int, int, int, int, int, int]:
        if self._page is None:
            raise DiskError(why_no_faults() or "the disk is closed")
        active, delay, sync_errno, write_errno, room, struck = PAGE.unpack_from(self._page, 0)
        return active, delay, sync_errno, write_errno, room, struck

    def _set(
        self,
        *,
        active: int = 1,
        sync_delay_us: int | None = None,
        sync_errno: int | None = None,
        write_errno: int | None = None,
        room: int | None = None,
    ) -> None:
        """Faults add up; with ``active`` 0 all end. All but the count, which others write."""
        now = self._read()
        old = now[1:5] if active else (0, 0, 0, ANY_ROOM)
        new = [
            was if wanted is None else wanted
            for was, wanted in zip(old, (sync_delay_us, sync_errno, write_errno, room), strict=True)
        ]
        assert self._page is not None
        self._page[: PAGE.size - 8] = PAGE.pack(active, *new, 0)[:-8]


class ImageDisk(Disk):
    """A file system of its own, in a file.

    Args:
        path: where it is mounted.
        size: in bytes; ext4 keeps some of it for itself.
    """

    def __init__(self, path: Path, size: int) -> None:
        if (reason := why_no_images()) is not None:
            raise DiskError(reason)
        super().__init__(path)
        self._image = self._beside("image")
        with self._image.open("wb") as file:
            file.truncate(size)
        # All at once, and no room that only root may use: what is full is full.
        run(
            "mkfs.ext4",
            "-q",
            "-F",
            "-m",
            "0",
            "-E",
            "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
            str(self._image),
        )
        self._mount()

    def lose_power(self) -> None:
        """What was not synced is gone, with the file system's own log of it; then it is mounted again, as at a start.

        Whoever has files open there meets errors from now on: kill them first (`Machine.power_off` does).
        """
        folder = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, NOTHING_FLUSHED)
        finally:
            os.close(folder)
        run("umount", str(self.path))
        self._mount()

    def fill(self, leave: int = 0) -> None:
        """Have it full, but for ``leave`` bytes: for every program, the one that asks how much is free too."""
        with (self.path / BALLAST).open("wb") as file:
            most = size = self._free() - leave
            while min(size, most) >= BLOCK_BYTES:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, min(size, most))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2  # the file system needs some of it to know where the rest is
                most = self._free() - leave

    def _free(self) -> int:
        free = os.statvfs(self.path)
        return free.f_bavail * free.f_frsize

    def unfill(self) -> None:
        """Undo `fill`."""
        (self.path / BALLAST).unlink()

    def close(self) -> None:
        """Unmount it."""
        super().close()
        if self.path.is_mount():
            run("umount", str(self.path))

    def _mount(self) -> None:
        run("mount", "-o", "loop", str(self._image), str(self.path))
