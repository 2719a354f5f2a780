"""What a replica that has nothing, or is too far behind, is given by the leader: the records that are wanted before a checkpoint, and that.

Which records are wanted is asked while the checkpoint is prepared, so they are all that its state refers to, and perhaps some more.
The files that they are in are held until `TransferSource.release`. They are read by the thread of whoever sends them, in their order, in
pieces: nothing is in memory but one piece, and of each segment which stretches of its records are wanted. A transfer that was interrupted
goes on at the lsn that it has come to; also from another leader, for an item that nobody wants is not wanted later either.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from journal.checkpoint_format import unpack_checkpoint
from journal.durable import read_whole
from journal.errors import JournalDamagedError, JournalError, ReplicaError
from journal.format import ITEMS, SEVERAL
from journal.items import unpack_items_prefix, unpack_several
from journal.names import checkpoint_name, segment_name, stem_of
from journal.pins import PinnedFile
from journal.reclaim import Questions
from journal.scan import ScannedRecord, SegmentScan
from journal.shipped import ShippedRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from journal.catalog import Catalog
    from journal.checkpoint_format import Checkpoint
    from journal.files import Files
    from journal.pins import Pins
    from journal.reclaim import Live

TRANSFER_PIECE_BYTES: Final = 4 << 20
"""Of payloads, or of the state, in one piece of a transfer, unless one record has more. A piece passes through four threads and two sockets
before the next is asked for: where each of them waits for the processor, pieces of a fourth are a fourth as fast."""
TRANSFER_QUESTIONS: Final = 1 << 17
"""Calls of ``live`` for one transfer; records that nobody could be asked about are sent."""
_FOR_EVER: Final = 1 << 62
"""A row's number that no segment comes to."""

Stretches = dict[int, "array[int]"]
"""By stream, the rows that are wanted, as ascending bounds: the first of a stretch, one more than its last, and so on."""


class TransferHead(NamedTuple):
    """The checkpoint of a transfer.

    Attributes:
        lsn: every record below it is contained in the state; the log behind begins with it.
        epoch: that of the record before it.
        epoch_first: the first record of that epoch.
        state_bytes: how long the state is.
    """

    lsn: int
    epoch: int
    epoch_first: int
    state_bytes: int


class _Wanted(NamedTuple):
    """A segment that was asked about, and whether everything in it is wanted that was appended since."""

    stretches: Stretches
    grows: bool


class _Source(NamedTuple):
    """A segment that is read; ``wanted`` is None where all in it is, ``end`` 0 where it is not known."""

    path: Path
    first_lsn: int
    stop_lsn: int
    end: int
    wanted: _Wanted | None


class TransferSource:
    """One transfer. `choose`, `cut`, `stand_in` and `stored` are the journal's; `release` is for the thread that appends, the rest for any.

    Args:
        files: the file system.
        directory: the journal's.
        catalog: the journal's.
        pins: the journal's.
        ready: told on a thread of the journal, once, when there is something to read; or that there will not be.

    Attributes:
        failure: why there is nothing to read: a segment is damaged.
        lsn: the checkpoint's, once it is cut.
        is_there: whether there is something to read, or never will be.
    """

    def __init__(
        self,
        files: Files,
        directory: Path,
        catalog: Catalog,
        pins: Pins,
        ready: Callable[[TransferSource], None],
    ) -> None:
        self.failure: JournalError | None = None
        self.lsn = 0
        self.released = self.is_there = False
        self._files = files
        self._directory = directory
        self._catalog = catalog
        self._pins = pins
        self._ready = ready
        self._asked: dict[int, _Wanted] = {}
        self._sources: list[_Source] = []
        self._hold = 0

    # On the thread that appends.

    def choose(self, live: Live) -> Iterator[None]:
        """Ask which records are wanted, in steps, before the checkpoint is cut."""
        questions = Questions(live, TRANSFER_QUESTIONS)
        for segment in list(self._catalog.segments):
            yield
            grows = not segment.sealed
            stretches: Stretches = {}
            try:
                all_rows = self._catalog.rows(segment)
            except JournalDamagedError as damage:
                self.failure = damage
                return
            for stream, rows in list(all_rows.items()):
                asked = len(rows.firsts)
                bounds = _bounds((yield from questions.wanted_rows(stream, rows)))
                if grows:
                    bounds.extend((asked, _FOR_EVER))
                if bounds:
                    stretches[stream] = bounds
            self._asked[segment.header.segment_id] = _Wanted(stretches, grows)

    def cut(self, lsn: int) -> None:
        """The checkpoint is cut before the record ``lsn``: hold what it lists, and what is wanted of that."""
        self.lsn = lsn
        for segment in self._catalog.segments:
            header = segment.header
            if header.first_lsn >= lsn:
                continue
            wanted = self._asked.get(header.segment_id)
            if wanted is not None and not wanted.stretches and not wanted.grows:
                continue
            self._read_from(_Source(segment.path, header.first_lsn, segment.stop_lsn, segment.end, wanted))
        self._hold_sources()

    def stand_in(self, stored: Checkpoint) -> None:
        """Give a checkpoint that is stored already, which was made for nobody: with all records that it may refer to."""
        self.failure, self.lsn, self._sources = None, stored.lsn, []
        for facts in stored.segments:
            if facts.first_lsn < stored.lsn:
                path = self._directory / segment_name(stem_of(facts.first_lsn, facts.segment_id))
                stop = facts.stop_lsn if facts.sealed else stored.lsn
                self._read_from(_Source(path, facts.first_lsn, stop, facts.end, None))
        self._hold_sources()
        self.stored()

    def _read_from(self, source: _Source) -> None:
        """The next segment that is read; segments are read in the order of their records."""
        if self._sources and source.first_lsn < self._sources[-1].stop_lsn:
            self.failure = ReplicaError(
                f"the records of {source.path} lie between those of others, as a repair once left them: make a backup, restore it, "
                "and begin the cluster with that"
            )
        self._sources.append(source)

    def _hold_sources(self) -> None:
        self._asked = {}
        if self._hold:
            self._pins.drop(self._hold)
        if not self.released:
            held = [PinnedFile(source.path.name, source.end) for source in self._sources]
            self._hold = self._pins.hold([PinnedFile(checkpoint_name(self.lsn), 0), *held])

    def release(self) -> None:
        """Let the files go; whoever still reads them is told so. A second time does nothing."""
        self.released = True
        self._asked = {}
        if self._hold:
            self._pins.drop(self._hold)
            self._hold = 0

    # On a thread of the journal.

    def stored(self) -> None:
        """The checkpoint is durable, and so is every record before it."""
        self.is_there = True
        if not self.released:
            self._ready(self)

    # On any thread.

    def records(self, lsn: int = 0, most: int = TRANSFER_PIECE_BYTES) -> Iterator[list[ShippedRecord]]:
        """The records that are wanted, from ``lsn`` on, below the checkpoint's: ascending, in pieces of so many bytes at most, or of one.

        Raises:
            JournalDamagedError: one is not what was written.
            ReplicaError: the transfer was released.
        """
        self._check()
        piece: list[ShippedRecord] = []
        size = 0
        for source in self._sources:
            if source.stop_lsn <= lsn:
                continue
            for record in self._wanted_of(source):
                if record.lsn < lsn:
                    continue
                if piece and size + len(record.payload) > most:
                    yield piece
                    self._check()
                    piece, size = [], 0
                piece.append(ShippedRecord(record.lsn, record.epoch, record.kind, record.flags, (record.payload,)))
                size += len(record.payload)
        if piece:
            yield piece

    def head(self) -> TransferHead:
        """What the checkpoint is.

        Raises:
            JournalDamagedError: it is not what was written.
            ReplicaError: the transfer was released.
        """
        return self._checkpoint()[0]

    def state(self, most: int = TRANSFER_PIECE_BYTES) -> Iterator[memoryview]:
        """The checkpoint's state, in pieces; raises as `head`."""
        _, state = self._checkpoint()
        for start in range(0, len(state), most):
            yield memoryview(state)[start : start + most]

    def _checkpoint(self) -> tuple[TransferHead, bytes]:
        self._check()
        path = self._directory / checkpoint_name(self.lsn)
        try:
            checkpoint = unpack_checkpoint(read_whole(self._files, path))
        except (OSError, ValueError) as error:
            self._check()
            raise JournalDamagedError(path, 0, str(error)) from error
        state, log = checkpoint.payload or b"", checkpoint.log
        assert log is not None, "a replica's journal has written it"
        epoch, first = log.epochs[-1]
        return TransferHead(checkpoint.lsn, epoch, first, len(state)), state

    def _wanted_of(self, source: _Source) -> Iterator[ScannedRecord]:
        """The records of one segment that are wanted, below the checkpoint's lsn."""
        rows: dict[int, int] = {}
        wanted = source.wanted
        try:
            with SegmentScan(self._files, source.path) as scan:
                for record in scan.records():
                    if record.lsn >= self.lsn:
                        return
                    is_wanted = False
                    for stream in _streams_of(record):
                        row = rows.get(stream, 0)
                        rows[stream] = row + 1
                        is_wanted = is_wanted or _is_wanted(wanted, stream, row)
                    if is_wanted:
                        yield record
                # Of a segment that was not full at its checkpoint that says up to which record it goes, and not where this ends.
                if scan.end < source.end or (not source.end and scan.next_lsn < source.stop_lsn):
                    raise JournalDamagedError(source.path, scan.end, scan.problem)
        except JournalDamagedError:
            self._check()
            raise

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        if self.released:
            raise ReplicaError("the transfer was let go")


def _is_wanted(wanted: _Wanted | None, stream: int, row: int) -> bool:
    if wanted is None:
        return True
    bounds = wanted.stretches.get(stream)
    # A stream that was not there when the question was asked.
    return wanted.grows if bounds is None else bisect_right(bounds, row) % 2 == 1


def _streams_of(record: ScannedRecord) -> Iterable[int]:
    if record.flags & ITEMS:
        return (unpack_items_prefix(record.payload)[0],)
    if record.flags & SEVERAL:
        return [part.stream for part in unpack_several(record.payload)[0]]
    return ()


def _bounds(numbers: Sequence[int]) -> array[int]:
    """Ascending numbers as stretches."""
    bounds: array[int] = array("Q")
    for number in numbers:
        if bounds and bounds[-1] == number:
            bounds[-1] = number + 1
        else:
            bounds.extend((number, number + 1))
    return bounds
