"""The memory of processes, and what a folder takes on the disk, looked at from outside at intervals."""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from benchmarks._disk import disk_bytes
from benchmarks._processes import BenchmarkError, resident_bytes

LOOK_SECONDS = 0.2
Samples = list[tuple[float, int]]
"""(monotonic seconds, bytes)."""


class MemoryWatch:
    """Looks from when it is entered until it is left, on a thread of its own.

    Attributes:
        samples: what was seen of each, by the name that it was given.
    """

    def __init__(self) -> None:
        self.samples: dict[str, Samples] = {}
        self._pids: dict[str, int] = {}
        self._folders: dict[str, Path] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory watch")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def process(self, name: str, pid: int) -> None:
        """Look at a process's memory from now on; at another one's that had the name no more."""
        self.samples[name] = []
        self._pids[name] = pid

    def folder(self, name: str, path: Path) -> None:
        """Look at what a folder takes on the disk."""
        self.samples[name] = []
        self._folders[name] = path

    def growth(self, name: str, begin: float, end: float) -> tuple[int, int]:
        """What a process had at ``begin``, and how much more it had at most until ``end``."""
        seen = [nbytes for when, nbytes in self.samples[name] if begin <= when <= end]
        if not seen:
            raise BenchmarkError(f"{name} was not looked at in {end - begin:.1f} s")
        return seen[0], max(seen) - seen[0]

    def _look(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            now = time.monotonic()
            for name, pid in list(self._pids.items()):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    if nbytes := resident_bytes(pid):  # one that has ended, and is not waited for yet, has none
                        self.samples[name].append((now, nbytes))
            for name, path in list(self._folders.items()):
                with contextlib.suppress(FileNotFoundError):
                    self.samples[name].append((now, disk_bytes(path)))
