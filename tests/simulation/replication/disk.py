"""An abstract log on a disk: appends that a sync makes durable, and crashes between any two steps of it."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from actors.replication.positions import EpochStart

OPENING = "open"
CLOSED = "closed"


class Record(NamedTuple):
    """A record. Its payload is (producer, number), or what the first of an epoch is."""

    lsn: int
    epoch: int
    payload: tuple[Any, ...]


class Disk:
    """The directory of a node, and what its journal knows of it. The records of ``start`` and those above are in the log, those below in
    the checkpoint.

    Attributes:
        directory: its id.
        records: all, by lsn; those from ``durable`` on are not synced.
        checkpoint: every record below is in the checkpoint.
        aside: what was cut off, and kept.
        written: the last write that was synced begins there.
        noted: every record below is known to have been durable, by a note of its own.
        doubt: what was promised when a write was cut off its end that may have been answered for; 0 for no doubt.
        damaged: whether what was cut off then had been synced.
        had: how many records it had when it was damaged.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.records: list[Record] = []
        self.start = 1
        self.durable = 1
        self.committed = 1
        self.checkpoint = 1
        self.promised = 0
        self.combined = 0  # how often the files below the checkpoint were made anew
        self.changed = 0  # how often it was cut or replaced
        self.aside: list[Record] = []
        self.written = self.noted = 1
        self.doubt = 0
        self.damaged = False
        self.had = 0
        self._starts: list[EpochStart] = []

    @property
    def end(self) -> int:
        return len(self.records) + 1

    def epoch_of(self, lsn: int) -> int:
        if lsn == 0:
            return 0
        assert self.start - 1 <= lsn, f"record {lsn} is not in the log, which starts at {self.start}"
        return self.records[lsn - 1].epoch

    def epoch_starts(self) -> Sequence[EpochStart]:
        starts = self._starts
        if not starts:
            return []
        # What is below `start` is not known any more.
        index = len(starts) - 1
        while index > 0 and starts[index].lsn > self.start:
            index -= 1
        known = starts[index:]
        if known[0].lsn < self.start:
            known = [EpochStart(known[0].epoch, self.start), *known[1:]] if self.start < self.end else []
        return known

    def append(self, records: Sequence[Record]) -> None:
        for record in records:
            assert record.lsn == self.end, f"record {record.lsn} does not follow on {self.end - 1}"
            if not self._starts or self._starts[-1].epoch != record.epoch:
                self._starts.append(EpochStart(record.epoch, record.lsn))
            self.records.append(record)

    def synced(self, end: int) -> None:
        """What was written up to there is on the disk, by one sync."""
        if end > self.durable:
            self.written, self.durable = self.durable, end

    def noted_durable(self) -> None:
        """All of it is on the disk, and so is a note of that: where a record is missing at a start, that is damage."""
        self.durable = self.noted = self.end

    def damage(self, random: Random) -> bool:
        """Behind a crash: some of the last write that was synced cannot be read, and a start cuts it off; False where it would see more."""
        first = max(self.written, self.noted, self.checkpoint)
        if first >= self.durable or not self.promised:
            return False
        self.had = max(self.had, self.durable - 1)
        self._cut(random.randrange(first, self.durable))
        self.durable, self.doubt, self.damaged = self.end, self.promised, True
        return True

    def cut(self, lsn: int) -> None:
        self.aside += self.records[lsn - 1 :]
        self._cut(lsn)

    def _cut(self, lsn: int) -> None:
        del self.records[lsn - 1 :]
        self.changed += 1
        while self._starts and self._starts[-1].lsn >= lsn:
            self._starts.pop()
        self.durable = min(self.durable, lsn)
        self.written, self.noted = min(self.written, lsn), min(self.noted, lsn)

    def crash(self, random: Random, *, power: bool) -> None:
        """What was not synced may be there or not: without power mostly not."""
        if self.durable < self.end:
            lost_all = random.random() < (0.8 if power else 0.3)
            self._cut(self.durable if lost_all else random.randint(self.durable, self.end))
        self.durable = self.end
        self.committed = self.checkpoint

    def take_checkpoint(self, lsn: int, keep: int) -> None:
        """Have a checkpoint of everything below ``lsn``, and give back the log below ``keep``."""
        self.checkpoint = max(self.checkpoint, lsn)
        start = max(self.start, min(keep, self.checkpoint))
        if start != self.start:
            self.start = start
            self.combined += 1

    def install(self, records: list[Record], start: int) -> None:
        """A transfer comes into the place of everything but the promise."""
        self.records = list(records)
        self._starts = []
        for record in self.records:
            if not self._starts or self._starts[-1].epoch != record.epoch:
                self._starts.append(EpochStart(record.epoch, record.lsn))
        self.start = self.checkpoint = self.committed = self.noted = self.written = start
        self.durable = self.end
        self.combined += 1
        self.changed += 1

    def copy(self, directory: str) -> Disk:
        """A backup of what is durable, restored with another id."""
        other = Disk(directory)
        other.append(self.records[: self.durable - 1])
        other.start, other.checkpoint = self.start, self.checkpoint
        other.durable, other.committed = other.end, other.checkpoint
        return other
