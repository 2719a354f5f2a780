"""The disk beneath a durable broker: where its files go, what they use, and the ceilings, plain appends and ``fdatasync``."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks._paced import FIRST_DELAY, spread
from benchmarks._payloads import batches, make_payloads
from benchmarks._processes import ROOT, BenchmarkError, Worker
from benchmarks._worker import Parent
from transport import MessageBatch

APPEND_TIMEOUT = 300.0
"""Seconds for one ceiling."""
SECTOR_BYTES = 512
"""What ``st_blocks`` counts in, whatever the file system's blocks are."""
IN_MEMORY = ("tmpfs", "ramfs")


@contextlib.contextmanager
def data_folder(parent: Path | None) -> Iterator[Path]:
    """A new folder in ``parent``, in the repository by default; it is removed with all that is in it.

    Raises:
        BenchmarkError: it would lie in memory, where a sync costs nothing.
    """
    place = (ROOT if parent is None else parent).resolve()
    kind = _file_system(place)
    if kind in IN_MEMORY:
        raise BenchmarkError(f"{place} is on {kind}, where a sync costs nothing; name another folder with --data")
    with tempfile.TemporaryDirectory(prefix="penstock-benchmark-", dir=place) as folder:
        yield Path(folder)


def disk_bytes(directory: Path) -> int:
    """What the files of ``directory`` take on disk; one that vanishes meanwhile takes nothing."""
    total = 0
    for path in directory.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_blocks * SECTOR_BYTES
    return total


def append(folder: Path, messages: int, size: int, batch: int, blocks_per_sync: int = 1) -> dict[str, Any]:
    """Run `append_blocks` in a process of its own; its result with rates."""
    arguments = {"path": str(folder / "appended"), "messages": messages, "size": size, "batch": batch}
    with Worker("_disk:append_blocks", **arguments, blocks_per_sync=blocks_per_sync) as worker:
        worker.hear()
        worker.go()
        done = worker.hear(APPEND_TIMEOUT)
    return {
        "kind": f"append + fdatasync, {blocks_per_sync} blocks a sync",
        "messages_per_s": messages / done["seconds"],
        "sync_ms": done["seconds"] / done["syncs"] * 1000,
        **done,
    }


# Roles


def append_blocks(parent: Parent, path: str, messages: int, size: int, batch: int, blocks_per_sync: int) -> None:
    """Append the blocks that carry ``messages`` payloads to a new file, which is removed afterwards.

    Args:
        parent: who started this.
        path: of the file.
        messages: how many payloads.
        size: bytes of each.
        batch: how many of them in a block.
        blocks_per_sync: how many blocks are written and then synced together.
    """
    payloads = make_payloads(messages, size)
    pool = [buffers_of(one) for one in batches(payloads, len(payloads), batch)]
    whole, rest = divmod(messages, len(payloads))
    blocks = whole * len(pool) + -(-rest // batch)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        parent.say(ready=True)
        parent.wait()
        started = time.monotonic()
        written = syncs = 0
        for start in range(0, blocks, blocks_per_sync):
            for number in range(start, min(blocks, start + blocks_per_sync)):
                written += os.writev(descriptor, pool[number % len(pool)])
            os.fdatasync(descriptor)
            syncs += 1
        seconds = time.monotonic() - started
    finally:
        os.close(descriptor)
        Path(path).unlink()
    parent.say(seconds=seconds, bytes=written, blocks=blocks, syncs=syncs)


def append_paced(parent: Parent, path: str, rate: float, count: int, size: int, skip: int) -> None:
    """Append ``count`` payloads on a schedule, ``rate`` a second: everything that is due in one write, then one sync.

    What is timed is from when each was to be written to when its sync is done; the first ``skip`` do not count.
    """
    latencies = array("q")
    payload = make_payloads(1, size)[0]
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        parent.say(ready=True)
        parent.wait()
        start = time.monotonic() + FIRST_DELAY
        done = syncs = 0
        while done < count:
            wait = start + done / rate - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            due = min(count, max(done + 1, int((time.monotonic() - start) * rate) + 1))
            os.write(descriptor, payload * (due - done))
            os.fdatasync(descriptor)
            syncs += 1
            now = time.monotonic()
            latencies.extend([int((now - start - number / rate) * 1e9) for number in range(done, due)])
            done = due
    finally:
        os.close(descriptor)
        Path(path).unlink()
    parent.say(messages=done, syncs=syncs, latency_us=spread(latencies[skip:]))


def buffers_of(batch: MessageBatch) -> list[Any]:
    return list(batch.buffers())


def _file_system(path: Path) -> str:
    """The kind of file system that ``path`` is on, by the longest mount point above it; empty where the system does not say."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return ""
    found = ("", "")
    for line in mounts.read_text("utf-8", "replace").splitlines():
        _, point, kind, *_ = line.split()
        if path.is_relative_to(point) and len(point) >= len(found[0]):
            found = (point, kind)
    return found[1]
