"""What a replica's log holds, by lsn: positions, epochs, and the records themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.checkpoint_format import EpochStart
from journal.errors import JournalUsageError, LogGoneError
from journal.format import LOG
from journal.log_reader import PIECE_BYTES, LogPiece, LogTail, Places, StoredPiece, log_run
from journal.shipped import Position, ShippedRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from journal.catalog import Catalog
    from journal.epochs import Epochs
    from journal.files import Files


class LogReading:
    """The part of a `ReplicatedJournal` that looks at its log; for the thread that appends."""

    next_lsn: int
    _files: Files
    _catalog: Catalog
    _epochs: Epochs
    _log_begins: int
    _checkpoint_lsn: int
    _run_first: int | None
    _tail: LogTail
    _places: Places

    @property
    def position(self) -> Position:
        """How far the log goes, what is not on the disk yet included."""
        return Position(self._epochs.last, self.next_lsn - 1)

    @property
    def log_start(self) -> int:
        """The first record that `read_log` gives."""
        first = self._run_first
        if first is None:
            # Only a checkpoint changes it, and it is asked with each message of a leader.
            first = self._run_first = log_run(self._catalog.segments)[0].header.first_lsn
        return max(first, self._log_begins, self._epochs.known_from + 1)

    @property
    def checkpoint_lsn(self) -> int:
        """The first record that is behind the newest checkpoint: from there on a state that begins with that is made anew."""
        return self._checkpoint_lsn

    def epoch_of(self, lsn: int) -> int:
        """The epoch of a record of the log, or of the one before the first of it; 0 of one that is of none.

        Raises:
            LogGoneError: nobody knows any more.
            JournalUsageError: there is no such record yet.
        """
        if lsn >= self.next_lsn:
            raise JournalUsageError(f"there is no record {lsn}: the last is {self.next_lsn - 1}")
        if lsn < (start := self.log_start) - 1:
            raise LogGoneError(lsn, start)
        return self._epochs.of(lsn)

    def epoch_starts(self) -> list[EpochStart]:
        """The epochs of the records that the log holds, each with the first of these, ascending."""
        start = self.log_start
        if start == self.next_lsn:
            return []
        later = [each for each in self._epochs.starts() if each[1] > start]
        return [EpochStart(self._epochs.of(start), start), *later]

    def read_log(self, lsn: int) -> Iterator[ShippedRecord]:
        """The records from ``lsn`` on, up to the last there is when it comes there; also what is not on the disk yet.

        For the thread that appends. Appends, and checkpoints, may come between two records.

        Raises:
            LogGoneError: at once, or at a record that checkpoints have taken meanwhile.
            JournalUsageError: ``lsn`` is behind the next record's.
            JournalDamagedError: a record is not what was written.
        """
        self._check_held(lsn)
        return self._records_from(lsn)

    def held(self, lsn: int) -> ShippedRecord | None:
        """A record, if it is in memory: what was appended lately, and all that is not on the disk yet."""
        return self._tail.get(lsn)

    def log_piece(self, lsn: int, most: int = PIECE_BYTES) -> LogPiece:
        """Records from ``lsn`` on, one at least, and more up to ``most`` bytes, that any thread may read; errors as `read_log`.

        Who reads on asks for the next piece with the lsn behind the last record.
        """
        self._check_held(lsn)
        if lsn == self.next_lsn:
            raise JournalUsageError(f"there is no record {lsn} yet")
        if records := self._tail.piece(lsn, most):
            return LogPiece(records)
        catalog = self._catalog
        segment = next(
            each for each in reversed(catalog.segments) if each.header.kind == LOG and each.header.first_lsn <= lsn
        )
        stop = min(segment.stop_lsn, self._tail.first)
        return StoredPiece(self._files, catalog, segment, self._places, lsn, stop, most)

    def log_bytes_from(self, lsn: int) -> int:
        """Of the segments that hold the log from ``lsn`` on: what somebody lacks who has all before it, and up to a segment more."""
        return sum(each.end for each in log_run(self._catalog.segments) if each.stop_lsn > lsn)

    def _check_held(self, lsn: int) -> None:
        if lsn > self.next_lsn:
            raise JournalUsageError(f"there is no record {lsn} yet: the next is {self.next_lsn}")
        if lsn < (start := self.log_start):
            raise LogGoneError(lsn, start)

    def _records_from(self, lsn: int) -> Iterator[ShippedRecord]:
        while lsn < self.next_lsn:
            record = self._tail.get(lsn)
            for each in self.log_piece(lsn).read() if record is None else (record,):
                lsn = each.lsn + 1
                yield each
