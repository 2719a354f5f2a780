"""A node's log as the machines of replication read it (``ReplicaLog``), over whichever journal the node has open."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from actors.replication.positions import EpochStart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from journal import ReplicatedJournal


class _Frozen(NamedTuple):
    """A log as it was when it was closed to be opened anew."""

    start: int
    end: int
    durable: int
    committed: int
    promised: int
    doubt: int
    starts: tuple[EpochStart, ...]
    before: int


class JournalLog:
    """See ``ReplicaLog``. While the directory is closed to be opened anew, on a thread, it is as it was before."""

    def __init__(self, journal: ReplicatedJournal) -> None:
        self._journal: ReplicatedJournal | None = journal
        self._frozen: _Frozen | None = None

    def freeze(self) -> None:
        """The journal is about to be closed."""
        starts = tuple(self.epoch_starts())
        before = self.epoch_of(self.start - 1)
        self._frozen = _Frozen(
            self.start, self.end, self.durable, self.committed, self.promised, self.doubt, starts, before
        )
        self._journal = None

    def open(self, journal: ReplicatedJournal) -> None:
        """This one is open."""
        self._journal, self._frozen = journal, None

    @property
    def start(self) -> int:
        """See ``ReplicaLog``."""
        return self._journal.log_start if self._journal is not None else self._was.start

    @property
    def end(self) -> int:
        """See ``ReplicaLog``."""
        return self._journal.next_lsn if self._journal is not None else self._was.end

    @property
    def durable(self) -> int:
        """See ``ReplicaLog``."""
        return self._journal.durable_lsn if self._journal is not None else self._was.durable

    @property
    def committed(self) -> int:
        """See ``ReplicaLog``."""
        return self._journal.committed_lsn if self._journal is not None else self._was.committed

    @property
    def promised(self) -> int:
        """See ``ReplicaLog``."""
        return self._journal.promised if self._journal is not None else self._was.promised

    @property
    def doubt(self) -> int:
        """See ``ReplicaLog``."""
        return self._journal.doubt if self._journal is not None else self._was.doubt

    def epoch_of(self, lsn: int) -> int:
        """See ``ReplicaLog``."""
        if self._journal is not None:
            return self._journal.epoch_of(lsn)
        was = self._was
        return max((start.epoch for start in was.starts if start.lsn <= lsn), default=was.before)

    def epoch_starts(self) -> Sequence[EpochStart]:
        """See ``ReplicaLog``."""
        if self._journal is None:
            return self._was.starts
        return [EpochStart(*start) for start in self._journal.epoch_starts()]

    @property
    def _was(self) -> _Frozen:
        assert self._frozen is not None, "it is open, or was frozen"
        return self._frozen
