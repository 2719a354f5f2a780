"""What the tests of replicas share: a replica over a simulated disk, a log that is shipped from one to another, and its comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from journal import Held, JournalOptions, ManualCommitter, ReplicatedJournal, ShippedRecord
from tests.fault.disk import ROOT, SimulatedDisk

DIRECTORY = ROOT / "replica"
SMALL = JournalOptions(segment_bytes=1024, spare_segments=1)

Plain = tuple[int, int, int, int, bytes]
"""A record as (lsn, epoch, kind, flags, payload)."""


class Node:
    """A replica that was opened and, unless told otherwise, started; what it told is in ``durable`` and ``reports``."""

    def __init__(
        self,
        disk: Any = None,
        options: JournalOptions = SMALL,
        *,
        starts: bool = True,
        directory: Path = DIRECTORY,
    ) -> None:
        self.disk = SimulatedDisk() if disk is None else disk
        self.options = options
        self.reports: list[str] = []
        self.durable: list[int] = []
        self.failures: list[Exception] = []
        self.committer = ManualCommitter()
        self.started = False
        self.journal = ReplicatedJournal.open(directory, options, self.disk, self.reports.append)
        if starts:
            self.start()

    def start(self) -> None:
        self.started = True
        self.journal.start(self.durable.append, self.failures.append, self.committer)

    def lead(self, epoch: int) -> Node:
        self.journal.lead(epoch)
        return self

    def event(self, payload: bytes = b"event") -> int:
        return self.journal.append(1, [payload])

    def events(self, count: int, size: int = 100) -> None:
        for number in range(count):
            self.event(b"%d." % number + bytes(size))

    def items(self, stream: int, first: int, count: int, payload: bytes = b"items") -> int:
        return self.journal.append_items(2, stream, first, count, [payload[:2], memoryview(payload)[2:]])

    def several(self, streams: Iterable[int], first: int, payload: bytes = b"alike") -> int:
        return self.journal.append_several(3, [Held(each, first, 1, 0) for each in streams], [[payload]], b"other")

    def run(self) -> None:
        self.committer.run()
        assert not self.failures, self.failures

    def commit(self) -> None:
        """All is durable, and committed."""
        self.run()
        self.journal.committed(self.journal.next_lsn)
        self.run()

    def checkpoint(self, payload: bytes = b"state", live: Any = lambda _, first, stop: stop - first) -> None:
        """One of the leader's, of all that is committed."""
        done: list[bool] = []
        self.journal.checkpoint(payload, live, lambda: done.append(True))
        self.run()
        assert done == [True]

    def applied(self, lsn: int, payload: bytes = b"state", live: Any = lambda _, first, stop: stop - first) -> None:
        """A checkpoint of a follower that has applied everything below ``lsn``."""
        done: list[bool] = []
        list(self.journal.prepare_checkpoint(live, lsn))
        self.journal.cut_checkpoint(lsn)
        self.journal.store_checkpoint(payload, lambda: done.append(True))
        self.run()
        assert done == [True]

    def killed(self, *, starts: bool = True) -> Node:
        """The next start after the process died here."""
        return Node(self.disk.restart(), self.options, starts=starts)

    def closed(self, *, starts: bool = True) -> Node:
        """The next start after a clean shutdown."""
        self.journal.close()
        return Node(self.disk.restart(), self.options, starts=starts)


def ship(leader: Node, follower: Node, most: int = 1 << 30) -> None:
    """Send what the follower does not have, or the first ``most`` records of it, as it comes over a wire."""
    records = leader.journal.read_log(follower.journal.next_lsn)
    sent = [record for record, _ in zip(records, range(most), strict=False)]
    follower.journal.append_shipped(on_the_wire(sent))


def on_the_wire(records: Iterable[ShippedRecord]) -> Iterator[ShippedRecord]:
    for record in records:
        yield record._replace(payload=(memoryview(bytes(record.whole())),))


def plain(records: Iterable[ShippedRecord]) -> list[Plain]:
    return [(lsn, epoch, kind, flags, b"".join(payload)) for lsn, epoch, kind, flags, payload in records]


def log_of(node: Node, lsn: int | None = None) -> list[Plain]:
    """The log from a record on, or all that there is."""
    return plain(node.journal.read_log(node.journal.log_start if lsn is None else lsn))


def logs(disk: SimulatedDisk, directory: Path = DIRECTORY) -> list[str]:
    """Names of the segments."""
    return [name for name in disk.names(directory) if name.endswith(".segment") and name[0].isdigit()]
