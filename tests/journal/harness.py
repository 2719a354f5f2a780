"""What the journal's tests share: a journal over a simulated disk that commits when it is told to, and a disk that counts."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from journal import Files, Held, Journal, JournalOptions, ManualCommitter, OsFiles
from journal.files import Buffer
from tests.fault.disk import SimulatedDisk

DIRECTORY = Path("/disk/journal")
SMALL = JournalOptions(segment_bytes=4096)


class Opened:
    """A journal that was opened and started; what it told is in ``durable`` and ``failures``, what it replayed in ``replayed``."""

    def __init__(self, disk: Any, options: JournalOptions = SMALL, directory: Path = DIRECTORY) -> None:
        self.disk = disk
        self.reports: list[str] = []
        self.durable: list[int] = []
        self.failures: list[Exception] = []
        self.committer = ManualCommitter()
        self.journal = Journal.open(directory, options, disk, self.reports.append)
        self.replayed = [(record.lsn, record.kind, bytes(record.payload)) for record in self.journal.replay()]
        self.journal.start(self.durable.append, self.failures.append, self.committer)

    def event(self, payload: bytes, lazy: bool = False) -> int:
        return self.journal.append(1, [payload], lazy=lazy)

    def items(self, stream: int, first: int, count: int, payload: bytes) -> int:
        return self.journal.append_items(2, stream, first, count, [payload])

    def several(self, payloads: dict[int, tuple[int, int, bytes]], other: bytes = b"") -> int:
        """A record of several streams: of each the first item, how many, and its payload; what is alike is stored once."""
        parts = list(dict.fromkeys(payload for _, _, payload in payloads.values()))
        held = [Held(stream, first, items, parts.index(part)) for stream, (first, items, part) in payloads.items()]
        return self.journal.append_several(3, held, [[part] for part in parts], other)

    def run(self) -> None:
        self.committer.run()
        assert not self.failures, self.failures

    def checkpoint(self, payload: bytes = b"state", live: Any = lambda stream, first, stop: stop - first) -> None:
        """Take one and have it durable."""
        done: list[bool] = []
        self.journal.checkpoint(payload, live, lambda: done.append(True))
        self.run()
        assert done == [True]

    def killed(self, options: JournalOptions = SMALL) -> Opened:
        """The next start after the process died here."""
        return Opened(self.disk.restart(), options)

    def closed(self, options: JournalOptions = SMALL) -> Opened:
        """The next start after a clean shutdown."""
        self.journal.close()
        return Opened(self.disk.restart(), options)


def segments(disk: Any, directory: Path = DIRECTORY) -> list[str]:
    """Names of the segments that hold records."""
    return [name for name in disk.names(directory) if name.endswith(".segment") and not name.startswith("spare-")]


class Watched:
    """Passes everything on; counts the calls, keeps the order of those that change something, and can hold a sync."""

    def __init__(self, inner: Files) -> None:
        self.inner = inner
        self.calls: Counter[str] = Counter()
        self.order: list[str] = []
        self.written: list[int] = []
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.in_sync = threading.Semaphore(0)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if name == "linked":
            return method  # it looks, and changes nothing

        def call(*arguments: Any, **keywords: Any) -> Any:
            self.calls[name] += 1
            self.order.append(name)
            return method(*arguments, **keywords)

        return call

    def write(self, file: int, parts: Sequence[Buffer], offset: int) -> int:
        self.calls["write"] += 1
        self.order.append("write")
        written = self.inner.write(file, parts, offset)
        self.written.append(written)
        return written

    def sync(self, file: int) -> None:
        self.calls["sync"] += 1
        self.order.append("sync")
        self.in_sync.release()
        assert self.may_sync.wait(30)
        self.inner.sync(file)


__all__ = ["DIRECTORY", "SMALL", "Journal", "Opened", "OsFiles", "SimulatedDisk", "Watched", "segments"]
