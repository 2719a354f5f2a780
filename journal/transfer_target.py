"""A directory that is filled by another replica: the records that are wanted before a checkpoint, as compacted segments, and that.

While the file ``transfer`` is there, the directory is no journal, and nothing opens it. What is written goes segment by segment: one that
is full, and durable, stays, so an interrupted transfer goes on behind the last of them. ``finish`` writes the checkpoint and the segment
that the log will go on in, and removes the file last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace as with_other
from pathlib import Path
from typing import Final

from journal.checkpoint import write_checkpoint
from journal.checkpoint_format import Checkpoint, EpochStart, LogFacts, SegmentFacts
from journal.durable import create_anew, make_directory, read_whole, write_all, write_aside
from journal.errors import (
    FormatError,
    JournalDamagedError,
    JournalError,
    JournalFailedError,
    JournalLockedError,
    ReplicaError,
)
from journal.files import Buffer, Files, OsFiles
from journal.format import (
    COMPACTED,
    ITEMS,
    LOG,
    RECORD_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SEVERAL,
    SEVERAL_VERSION,
    pack_record,
    pack_segment_header,
)
from journal.index import add_row, save_index
from journal.items import unpack_items_prefix, unpack_several
from journal.names import (
    ASIDE,
    BACKUP,
    ENCOUNTERED,
    LOCK,
    REPLICA,
    TRANSFER,
    is_part,
    is_spare,
    parse_segment,
    segment_name,
    stem_of,
)
from journal.options import JournalOptions
from journal.replica_file import ReplicaFile
from journal.replicated import ReplicatedJournal
from journal.scan import ScannedRecord, SegmentScan
from journal.segment import Segment, make_segment_file, new_header
from journal.shipped import ShippedRecord
from journal.transfer_source import TransferHead

MAX_STATE_BYTES: Final = 1 << 30
"""Of a checkpoint's state: it is in memory when it is written, and when it is read."""
CLEARING: Final = b"clearing\n"
"""In the file ``transfer``: what was there before is being removed."""
FILLING: Final = b"filling\n"
"""What is there was sent."""
WRITE_BYTES: Final = 1 << 20
"""Bytes collected before they are written."""


class TransferTarget:
    """Takes what a `TransferSource` gives: `add` for its records, `add_state` for its state, and `finish`; `close` in any case.

    Every method blocks for as long as the disk takes. A directory that holds a journal is refused, unless it is to be replaced: then the
    journal goes at once. As the replica that it was it comes back only with all that it ever had: `finish` refuses less.

    Args:
        directory: it is made if need be.
        options: of the journal that it will be.
        files: the file system.
        replace: the journal that is there is given up. It is opened and closed first, to know how much it had.
        new_id: the directory is another replica than it was, for one that is damaged: it has promised nothing, and stored nothing.
        report: gets lines for a person.

    Attributes:
        next_lsn: the records below it are there: go on with this one.

    Raises:
        ReplicaError: there is a journal, or a backup, or what no transfer has left.
        JournalLockedError: it is open elsewhere.
        JournalDamagedError: the journal that is to be replaced is damaged: give the directory a new id.
        JournalFailedError: the file system refuses; so everywhere here.
    """

    def __init__(
        self,
        directory: Path,
        options: JournalOptions | None = None,
        files: Files | None = None,
        *,
        replace: bool = False,
        new_id: bool = False,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.directory = directory
        self.next_lsn = 0
        self._files = files = OsFiles() if files is None else files
        self._options = with_other(options or JournalOptions(), replicated=True)
        self._report = report
        self._lock: int | None = None
        self._segment: Segment | None = None
        self._file: int | None = None
        self._written = 0
        self._waiting: list[Buffer] = []
        self._waiting_bytes = 0
        self._sealed: list[SegmentFacts] = []
        self._next_segment = 1
        self._stops: dict[int, int] = {}
        self._state: list[bytes] = []
        self._state_bytes = 0
        try:
            if replace and not new_id and self._holds_journal():
                ReplicatedJournal.open(directory, self._options, files, report).close()
            for parent in make_directory(files, directory, {LOCK}):
                files.sync_directory(parent)
            self._lock = files.lock(directory / LOCK)
            self._prepare(replace=replace, new_id=new_id)
        except BlockingIOError:
            raise JournalLockedError(directory) from None
        except OSError as error:
            self.close()
            raise JournalFailedError(error) from error
        except JournalError:
            self.close()
            raise

    @property
    def directory_id(self) -> str:
        """As `ReplicatedJournal.directory_id`."""
        return self._replica.now.directory

    @property
    def promised(self) -> int:
        """As `ReplicatedJournal.promised`."""
        return self._replica.now.promised

    def add(self, records: Iterable[ShippedRecord]) -> None:
        """Take records with items, ascending; those below ``next_lsn`` are there already, and are passed over.

        Raises:
            ReplicaError: one cannot be from a journal of these.
        """
        try:
            for record in records:
                if record.lsn >= self.next_lsn:
                    self._add(record)
        except OSError as error:
            raise JournalFailedError(error) from error

    def begin_state(self) -> None:
        """The state comes, from its beginning; what came of one before is forgotten."""
        self._state, self._state_bytes = [], 0

    def add_state(self, piece: Buffer) -> None:
        """The next piece of the state; ReplicaError where it is more than ``MAX_STATE_BYTES``."""
        self._state.append(bytes(piece))
        self._state_bytes += len(self._state[-1])
        if self._state_bytes > MAX_STATE_BYTES:
            raise ReplicaError(f"a state of more than {MAX_STATE_BYTES} bytes")

    def finish(self, head: TransferHead) -> None:
        """Have the directory be a journal, durable when this returns, and let go of it: its log goes on at ``head.lsn``.

        Raises:
            ReplicaError: state or records do not belong to the head; or the directory has had records from there on, and may have been
                counted on for them. Where there are records behind the head, the next transfer begins anew.
        """
        durable = self._replica.now.durable
        if head.lsn < durable:
            raise ReplicaError(
                f"this replica has had every record below {durable}, and would have none from {head.lsn} on: it needs a later "
                "checkpoint, or another id"
            )
        if self.next_lsn > head.lsn:
            # Of another leader before this one, whose checkpoint was later: it comes anew.
            try:
                self._note(CLEARING)
            except OSError as error:
                raise JournalFailedError(error) from error
        if self._state_bytes != head.state_bytes or self.next_lsn > head.lsn or not 0 <= head.epoch_first < head.lsn:
            raise ReplicaError(
                f"the checkpoint before record {head.lsn}, of {head.state_bytes} bytes, does not fit what was sent: records up to "
                f"{self.next_lsn - 1}, and {self._state_bytes} bytes"
            )
        try:
            self._finish(head)
        except OSError as error:
            raise JournalFailedError(error) from error
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the directory, as it is; a second time does nothing."""
        for name in ("_file", "_lock"):
            file = getattr(self, name)
            setattr(self, name, None)
            if file is not None:
                with suppress(OSError):
                    self._files.close(file)

    # What there is.

    def _holds_journal(self) -> bool:
        try:
            names = self._files.names(self.directory)
        except FileNotFoundError:
            return False
        return TRANSFER not in names and any(map(is_part, names))

    def _prepare(self, *, replace: bool, new_id: bool) -> None:
        """Have the directory be one that is being filled, with what a transfer before has left whole."""
        files, directory = self._files, self.directory
        assert self._lock is not None
        names = files.names(directory)
        if BACKUP in names:
            raise ReplicaError(f"{directory} holds a backup: name another directory")
        if TRANSFER not in names and any(map(is_part, names)) and not replace:
            raise ReplicaError(f"{directory} holds a journal: only one that is given up is replaced")
        if new_id and TRANSFER not in names and REPLICA in names:
            files.unlink(directory / REPLICA)
        # Its id and promise, and how much it had, are durable before what it had goes.
        self._replica = ReplicaFile.open(files, directory, self._lock, self._report)
        if TRANSFER not in names:
            self._note(CLEARING)
        kept: list[Segment] = []
        if read_whole(files, directory / TRANSFER) == FILLING:
            kept = self._sent_before(names)
        stay = {path for segment in kept for path in (segment.path, segment.index_path)}
        for path in [directory / name for name in names if _goes(name)]:
            if path not in stay:
                files.unlink(path)
        files.sync_directory(directory)
        self._note(FILLING)
        for segment in kept:
            self._enter(segment)

    def _note(self, what: bytes) -> None:
        write_aside(self._files, self.directory / TRANSFER, [what])
        self._files.sync_directory(self.directory)

    def _sent_before(self, names: Sequence[str]) -> list[Segment]:
        """The whole segments that a transfer before has written, in order."""
        kept: list[Segment] = []
        for first_lsn, segment_id in sorted(named for name in names if (named := parse_segment(name)) is not None):
            try:
                with SegmentScan(self._files, self.directory / segment_name(stem_of(first_lsn, segment_id))) as scan:
                    segment = Segment(self.directory, scan.header)
                    assert segment.rows is not None
                    for record in scan.records():
                        add_row(segment.rows, record, segment.path)
                    segment.end, segment.stop_lsn = scan.end, scan.next_lsn
                    if scan.header.kind != COMPACTED or scan.end != scan.size:
                        break
            except JournalDamagedError:
                break  # it is sent again, and what is behind it
            kept.append(segment)
        return kept

    def _enter(self, segment: Segment) -> None:
        """A segment is whole."""
        segment.seal()
        self._sealed.append(segment.facts())
        self._next_segment = segment.header.segment_id + 1
        self.next_lsn = segment.stop_lsn
        summary, rows = segment.summary, segment.rows
        assert summary is not None
        assert rows is not None
        self._stops.update(zip(summary.stream, summary.stop, strict=True))
        save_index(self._files, segment, rows)

    # What comes.

    def _add(self, record: ShippedRecord) -> None:
        lsn, epoch, kind, flags, _ = record
        payload = record.whole()
        size = RECORD_HEADER_BYTES + len(payload)
        segment = self._segment
        if segment is not None and segment.end + size > self._options.segment_bytes:
            self._seal()
            segment = None
        if flags not in (ITEMS, SEVERAL):
            raise ReplicaError(f"record {lsn} has no items, and is sent before a checkpoint")
        if segment is None:
            segment = self._begin(lsn)
        assert segment.rows is not None
        try:
            self._check(flags, payload)
            add_row(segment.rows, ScannedRecord(segment.end, lsn, kind, flags, 0, epoch, payload), segment.path)
        except (JournalDamagedError, FormatError) as error:
            raise ReplicaError(f"record {lsn} does not follow those that were sent before it: {error}") from error
        self._waiting.append(pack_record(segment.header, lsn, epoch, kind, flags, 0, payload))
        self._waiting_bytes += size
        segment.end += size
        segment.stop_lsn = self.next_lsn = lsn + 1
        if self._waiting_bytes >= WRITE_BYTES:
            self._write()

    def _check(self, flags: int, payload: memoryview) -> None:
        """FormatError where a record holds items that do not follow those of the segments before."""
        held = [unpack_items_prefix(payload)] if flags == ITEMS else [part[:3] for part in unpack_several(payload)[0]]
        for stream, first, _ in held:
            if first < self._stops.get(stream, 0):
                raise FormatError(f"items of stream {stream} from {first} on come twice")

    def _begin(self, first_lsn: int) -> Segment:
        segment = Segment(self.directory, new_header(self._next_segment, first_lsn, COMPACTED, SEVERAL_VERSION))
        self._next_segment += 1
        self._file = create_anew(self._files, _aside(segment.path))
        self._segment, self._written = segment, 0
        self._waiting, self._waiting_bytes = [pack_segment_header(segment.header)], SEGMENT_HEADER_BYTES
        return segment

    def _write(self) -> None:
        assert self._file is not None
        self._written = write_all(self._files, self._file, self._waiting, self._written)
        self._waiting, self._waiting_bytes = [], 0

    def _seal(self) -> None:
        """The segment is full: it is durable, and has its name, when this returns."""
        segment, file = self._segment, self._file
        assert segment is not None
        assert file is not None
        self._write()
        self._files.sync(file)
        self._file = self._segment = None
        self._files.close(file)
        self._enter(segment)
        self._files.rename(_aside(segment.path), segment.path)
        self._files.sync_directory(self.directory)

    def _finish(self, head: TransferHead) -> None:
        files, directory = self._files, self.directory
        if self._segment is not None:
            self._seal()
        log = Segment(directory, new_header(self._next_segment, head.lsn, LOG, SEVERAL_VERSION))
        file, _ = make_segment_file(files, log, deque(), self._options.segment_bytes)
        files.close(file)
        facts = (*self._sealed, log.facts())
        log_facts = LogFacts(head.lsn, head.lsn, (EpochStart(head.epoch, head.epoch_first),))
        state = b"".join(self._state)
        write_checkpoint(files, directory, Checkpoint(head.lsn, 0, self._next_segment + 1, facts, state, log_facts))
        files.unlink(directory / TRANSFER)
        files.sync_directory(directory)


def discard_transfer(files: Files, directory: Path) -> bool:
    """Remove a directory that a transfer was taken into and that nobody needs any more; whether there was one.

    Whatever interrupts it, what is left is not taken for the beginning of a transfer.

    Raises:
        JournalLockedError: it is being filled.
        JournalFailedError: the file system refuses.
    """
    try:
        if directory.name not in files.names(directory.parent):
            return False
        held = files.lock(directory / LOCK)
        try:
            write_aside(files, directory / TRANSFER, [CLEARING])
            files.sync_directory(directory)
            last = (TRANSFER, LOCK)
            for name in [name for name in files.names(directory) if name not in last]:
                files.unlink(directory / name)
            files.sync_directory(directory)
            for name in last:
                files.unlink(directory / name)
        finally:
            files.close(held)
        files.remove_directory(directory)
        files.sync_directory(directory.parent)
    except BlockingIOError:
        raise JournalLockedError(directory) from None
    except OSError as error:
        raise JournalFailedError(error) from error
    return True


def _goes(name: str) -> bool:
    """Whether a file of a directory that is to be filled is of what was there before."""
    return is_part(name) or is_spare(name) or name == ENCOUNTERED or (name.endswith(ASIDE) and name != REPLICA + ASIDE)


def _aside(path: Path) -> Path:
    return path.with_name(path.name + ASIDE)
