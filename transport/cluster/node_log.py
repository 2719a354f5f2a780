"""The log of a node as its machines see it, whichever journal has it.

A journal is opened anew when its end is cut, a lead is over, or a transfer takes its place.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from actors.replication.positions import EpochStart

if TYPE_CHECKING:
    from actors.replication.positions import ReplicaLog
    from journal.replicated import ReplicatedJournal


class NodeLog:
    """A `ReplicaLog` over a journal, or over what was noted of one that is not open now.

    Args:
        journal: the first.
    """

    __slots__ = ("_log",)

    def __init__(self, journal: ReplicatedJournal) -> None:
        self._log: ReplicaLog = _JournalLog(journal)

    def hold(self) -> None:
        """The journal is about to be closed: from now on this says what it says now. A second time does nothing."""
        if isinstance(self._log, _JournalLog):
            self._log = _Noted(self._log)

    def follow(self, journal: ReplicatedJournal) -> None:
        """Say what this journal says."""
        self._log = _JournalLog(journal)

    @property
    def start(self) -> int:
        """As `ReplicaLog.start`."""
        return self._log.start

    @property
    def end(self) -> int:
        """As `ReplicaLog.end`."""
        return self._log.end

    @property
    def durable(self) -> int:
        """As `ReplicaLog.durable`."""
        return self._log.durable

    @property
    def committed(self) -> int:
        """As `ReplicaLog.committed`."""
        return self._log.committed

    @property
    def promised(self) -> int:
        """As `ReplicaLog.promised`."""
        return self._log.promised

    def epoch_of(self, lsn: int) -> int:
        """As `ReplicaLog.epoch_of`."""
        return self._log.epoch_of(lsn)

    def epoch_starts(self) -> Sequence[EpochStart]:
        """As `ReplicaLog.epoch_starts`."""
        return self._log.epoch_starts()


class _JournalLog:
    __slots__ = ("_journal",)

    def __init__(self, journal: ReplicatedJournal) -> None:
        self._journal = journal

    @property
    def start(self) -> int:
        return self._journal.log_start

    @property
    def end(self) -> int:
        return self._journal.next_lsn

    @property
    def durable(self) -> int:
        return self._journal.durable_lsn

    @property
    def committed(self) -> int:
        return self._journal.committed_lsn

    @property
    def promised(self) -> int:
        return self._journal.promised

    def epoch_of(self, lsn: int) -> int:
        return self._journal.epoch_of(lsn)

    def epoch_starts(self) -> Sequence[EpochStart]:
        return [EpochStart(*each) for each in self._journal.epoch_starts()]


class _Noted:
    __slots__ = ("_before", "_starts", "committed", "durable", "end", "promised", "start")

    def __init__(self, log: _JournalLog) -> None:
        self.start, self.end, self.durable = log.start, log.end, log.durable
        self.committed, self.promised = log.committed, log.promised
        self._before = log.epoch_of(self.start - 1)
        self._starts = log.epoch_starts()

    def epoch_of(self, lsn: int) -> int:
        index = bisect_right(self._starts, lsn, key=lambda each: each.lsn)
        return self._starts[index - 1].epoch if index else self._before

    def epoch_starts(self) -> Sequence[EpochStart]:
        return self._starts
