"""Opening a directory: the newest checkpoint, the segments it lists, and the log behind it.

How long it takes depends on what was appended since the checkpoint, and hardly on what is stored: of sealed segments only the
summary of the index is read. Nothing is removed before what replaces it is durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from journal.catalog import Catalog
from journal.checkpoint import drop_old_checkpoints, newest_checkpoint, write_checkpoint
from journal.checkpoint_format import Checkpoint, LogFacts, SegmentFacts
from journal.encountered import look_again, remove_encountered
from journal.epochs import NONE_YET, Epochs
from journal.errors import FormatError, JournalDamagedError, ReplicaError
from journal.files import Files
from journal.format import CLOSED, FIRST_LSN, LOG, SEVERAL_VERSION, VERSION, StreamRows
from journal.index import add_row, load_summary, rows_by_scan, save_index
from journal.names import ASIDE, NEWEST, REPLICA, is_spare, parse_index, parse_segment, segment_name, stem_of
from journal.newest import Newest, left_open, read_newest, write_newest
from journal.options import JournalOptions
from journal.reclaim import discard
from journal.replica_file import ReplicaFile
from journal.reserve import give_up_reserve, keep_reserve
from journal.scan import ScannedRecord, SegmentScan
from journal.segment import Segment, make_segment_file, new_header
from journal.tail import settle_tail


class Record(NamedTuple):
    """A record as it is replayed; the payload of one with items begins with what it says of them (journal/items.py)."""

    lsn: int
    kind: int
    payload: memoryview


@dataclass(slots=True)
class Recovered:
    """What a directory held, ready to be appended to.

    Attributes:
        catalog: the segments; the last is the one to go on in.
        checkpoint: the newest, as it was written anew with this start's epoch.
        replay_from: segment and offset of each stretch of records behind the checkpoint, in order.
        next_lsn: the lsn that the next record gets.
        next_segment: the id that the next segment gets.
        spares: dead segments that may be written over.
        epochs: of a replica's log.
        replica: its file, which whoever opens one adds.
    """

    catalog: Catalog
    checkpoint: Checkpoint
    replay_from: list[tuple[Segment, int, int]]
    next_lsn: int
    next_segment: int
    spares: deque[Path]
    epochs: Epochs | None = None
    replica: ReplicaFile | None = None


def recover(
    files: Files,
    directory: Path,
    options: JournalOptions,
    report: Callable[[str], None],
    durable_lsn: int = 0,
    cutting: Callable[[], None] = lambda: None,
) -> Recovered:
    """Open what is there, or begin. Every record below ``durable_lsn`` is known to have been durable, if one was.

    ``cutting`` is called before a write that was begun, and is not whole, is cut off the end of the log.

    Raises:
        JournalDamagedError: what was durable is not there or not whole.
        ReplicaError: it is a replica's, and is not opened as such.
        OSError: the file system refuses.
    """
    try:
        recovered = _recover(files, directory, options, report, durable_lsn, cutting)
    except OSError as error:
        if not give_up_reserve(files, directory, error):
            raise
        report(f"{directory}: the disk is full, so the start took the reserve: receive what is stored, or make room")
        return _recover(files, directory, options, report, durable_lsn, cutting)
    keep_reserve(files, directory, options.reserve_bytes)
    return recovered


def _recover(
    files: Files,
    directory: Path,
    options: JournalOptions,
    report: Callable[[str], None],
    durable_lsn: int,
    cutting: Callable[[], None],
) -> Recovered:
    # What is visible may not be durable yet, and what is done now builds on it.
    files.sync_directory(directory)
    names = files.names(directory)
    for name in names:
        if name.endswith(ASIDE):
            files.unlink(directory / name)
    return _Recovery(files, directory, options, report, names, durable_lsn, cutting).run()


class _Recovery:
    def __init__(
        self,
        files: Files,
        directory: Path,
        options: JournalOptions,
        report: Callable[[str], None],
        names: Sequence[str],
        durable_lsn: int,
        cutting: Callable[[], None],
    ) -> None:
        self._durable_lsn = durable_lsn
        self._cutting = cutting
        self._files = files
        self._directory = directory
        self._options = options
        self._report = report
        self._names = [name for name in names if not name.endswith(ASIDE)]
        self._found = {named: name for name in self._names if (named := parse_segment(name)) is not None}
        self._spares = deque(directory / name for name in self._names if is_spare(name))
        self._catalog = Catalog(files)
        self._replay_from: list[tuple[Segment, int, int]] = []
        self._epoch = 0
        self._log_facts: LogFacts | None = None
        self._epochs: Epochs | None = None

    def run(self) -> Recovered:
        before = newest_checkpoint(self._files, self._directory, self._names)
        self._lsn = before.lsn if before else FIRST_LSN
        self._log_facts = before.log if before else None
        self._durable_lsn = max(self._durable_lsn, before.durable if before else FIRST_LSN)
        if not self._options.replicated and (self._log_facts is not None or REPLICA in self._names):
            raise ReplicaError(
                f"{self._directory} is of a member of a cluster: start its broker as that, or make a backup of it and restore that for a "
                "broker that is alone"
            )
        if self._log_facts is not None:
            self._epochs = Epochs(self._log_facts.epochs)
        newest = self._newest()
        next_segment = max(
            [
                before.next_segment if before else 1,
                newest.segment_id + 1 if newest else 1,
                *(named[1] + 1 for named in self._found),
            ]
        )
        listed = before.segments if before else ()
        encountered = look_again(self._files, self._directory, self._names, listed)
        for facts in listed:
            if not self._holds_log(facts):
                self._enter_sealed(facts)
        log = self._log(listed)
        if log:
            next_lsn = self._read_log(log)
        else:
            if before is not None:
                raise JournalDamagedError(self._directory, 0, "the checkpoint lists no segment to go on in")
            self._begin(next_segment)
            next_segment += 1
            next_lsn = FIRST_LSN
        current = self._catalog.segments[-1].header
        if newest != (current.segment_id, current.first_lsn):
            # Before anything is removed: what it names must be there.
            write_newest(self._files, self._directory, Newest(current.segment_id, current.first_lsn))
        # Records of a replica do not say how many starts there were, so its checkpoints alone do.
        epoch = 0 if self._log_facts is not None else self._epoch
        checkpoint = Checkpoint(
            self._lsn,
            max(epoch, before.epoch if before else 0) + 1,
            next_segment,
            tuple(segment.facts() for segment in self._catalog.segments),
            before.payload if before else None,
            self._facts_of_log(next_lsn) if self._options.replicated else None,
            before.behind if before and not self._options.replicated else 0,
        )
        # The same lsn and payload: it is there to make the epoch, and what was found, durable before anything is written.
        write_checkpoint(self._files, self._directory, checkpoint)
        self._clean()
        if encountered:
            remove_encountered(self._files, self._directory)
            self._report(encountered)
        return Recovered(
            self._catalog, checkpoint, self._replay_from, next_lsn, next_segment, self._spares, self._epochs
        )

    def _facts_of_log(self, next_lsn: int) -> LogFacts:
        """What the checkpoint says of a replica's log; that of a broker that was alone until now begins behind all that it holds."""
        if self._log_facts is None:
            self._epochs = Epochs(NONE_YET)
            return LogFacts(next_lsn, next_lsn, NONE_YET)
        assert self._epochs is not None
        return self._log_facts._replace(epochs=self._epochs.before(self._lsn))

    def _newest(self) -> Newest | None:
        """The segment that was made last, as a note says; JournalDamagedError where it is gone."""
        try:
            newest = read_newest(self._files, self._directory)
        except (FormatError, OSError) as error:
            self._report(f"{self._directory / NEWEST}: {left_open(str(error))}. The note was made again")
            return None
        if newest is not None and newest.is_missing(self._found):
            raise JournalDamagedError(newest.path(self._directory), 0, "the file is missing; it was the newest segment")
        return newest

    def _enter_sealed(self, facts: SegmentFacts) -> None:
        """A segment that the checkpoint lists as sealed: its header and size are checked, its records are not read."""
        path = self._directory / segment_name(stem_of(facts.first_lsn, facts.segment_id))
        with self._open(path) as scan:
            if scan.size < facts.end:
                raise JournalDamagedError(path, scan.size, f"the file ends here, its records at offset {facts.end}")
            segment = Segment(self._directory, scan.header)
        segment.stop_lsn, segment.end, segment.sealed = facts.stop_lsn, facts.end, True
        segment.summary = load_summary(self._files, segment)
        if segment.summary is None:
            segment.rows = rows_by_scan(self._files, segment)
            self._seal(segment, segment.rows)
            self._report(f"{segment.index_path}: the index was missing or damaged, and was made again")
        else:
            segment.rows, segment.indexed = None, True
        self._catalog.add(segment)

    def _holds_log(self, facts: SegmentFacts) -> bool:
        """Whether a listed segment must be read: one being written, or sealed behind the checkpoint, as a start finds and lists them."""
        return not facts.sealed or facts.stop_lsn > self._lsn

    def _log(self, listed: Sequence[SegmentFacts]) -> list[tuple[int, int]]:
        """(first lsn, segment id) of every segment with records behind the checkpoint, and of the one to go on in."""
        current = [(facts.first_lsn, facts.segment_id) for facts in listed if self._holds_log(facts)]
        known = {(facts.first_lsn, facts.segment_id) for facts in listed}
        later = sorted(named for named in self._found if named[0] >= self._lsn and named not in known)
        log = [*current, *later]
        if not listed and log and log[0][0] != FIRST_LSN:
            path = self._directory / self._found[log[0]]
            raise JournalDamagedError(path, 0, f"it begins with record {log[0][0]}, and there is no checkpoint")
        return log

    def _read_log(self, log: Sequence[tuple[int, int]]) -> int:
        """Read every record of the segments that were not sealed at the checkpoint; returns the next lsn."""
        next_lsn = log[0][0]
        for position, (first_lsn, segment_id) in enumerate(log):
            path = self._directory / segment_name(stem_of(first_lsn, segment_id))
            if first_lsn != next_lsn:
                raise JournalDamagedError(
                    path, 0, f"it begins with record {first_lsn}, and no file holds {next_lsn} on"
                )
            segment = self._read_segment(path, None if position == len(log) - 1 else log[position + 1][0])
            next_lsn = segment.stop_lsn
        return next_lsn

    def _read_segment(self, path: Path, following: int | None) -> Segment:
        """Read one of them; ``following`` is the first lsn of the next, None for the last."""
        rows: dict[int, StreamRows] = {}
        with self._open(path) as scan:
            if scan.header.kind != LOG:
                raise JournalDamagedError(path, 0, "it is no segment of the log, and no checkpoint lists it")
            segment = Segment(self._directory, scan.header)
            epochs = self._epochs
            epochs_from = max(self._lsn, self._log_facts.start) if self._log_facts is not None else 0
            group_start: int | None = None
            replay: tuple[Segment, int, int] | None = None
            for record in scan.records():
                offset, lsn, kind, _, group, epoch, _ = record
                add_row(rows, record, path)
                if group == 0:
                    group_start = offset
                if replay is None and lsn >= self._lsn:
                    replay = (segment, offset, lsn)
                if kind == CLOSED:
                    group_start = None  # a clean shutdown has synced everything; a group behind it sets this anew
                self._epoch = max(self._epoch, epoch)
                if epochs is not None and epoch != epochs.last and lsn >= epochs_from:
                    if epoch < epochs.last:
                        text = f"record {lsn} is of epoch {epoch}, and one before it of epoch {epochs.last}"
                        raise JournalDamagedError(path, offset, text)
                    epochs.begin(epoch, lsn)
            if following is None:
                settle_tail(self._files, scan, self._durable_lsn, group_start, self._report, self._cutting)
            elif scan.next_lsn != following:
                text = (
                    f"record {scan.next_lsn} is not there ({scan.problem}), and the next file begins with {following}"
                )
                raise JournalDamagedError(path, scan.end, text)
            segment.end, segment.stop_lsn, segment.rows = scan.end, scan.next_lsn, rows
        if replay is not None:
            self._replay_from.append(replay)
        if following is not None:
            self._seal(segment, rows)
        self._catalog.add(segment)
        return segment

    def _begin(self, segment_id: int) -> None:
        """An empty directory: the first segment."""
        # What a replica is sent may be of several streams at any time.
        version = SEVERAL_VERSION if self._options.replicated else VERSION
        segment = Segment(self._directory, new_header(segment_id, FIRST_LSN, version=version))
        file, _ = make_segment_file(self._files, segment, self._spares, self._options.segment_bytes)
        self._files.close(file)
        self._catalog.add(segment)

    def _seal(self, segment: Segment, rows: dict[int, StreamRows]) -> None:
        segment.seal()
        save_index(self._files, segment, rows)

    def _clean(self) -> None:
        """Remove what no checkpoint lists: the end of work that a crash has interrupted."""
        kept = {segment.path.stem for segment in self._catalog.segments}
        drop_old_checkpoints(self._files, self._directory)
        for name in self._names:
            stem = parse_index(name)
            if stem is not None and stem not in kept:
                self._files.unlink(self._directory / name)
        stale = [self._directory / name for name in self._found.values()]
        discard(
            self._files,
            self._directory,
            [path for path in stale if path.stem not in kept],
            self._spares,
            self._options,
        )
        while len(self._spares) > self._options.spare_segments:
            self._files.unlink(self._spares.pop())

    def _open(self, path: Path) -> SegmentScan:
        if path.name not in self._names:
            raise JournalDamagedError(path, 0, "the file is missing")
        return SegmentScan(self._files, path)


def replay(files: Files, stretches: Sequence[tuple[Segment, int, int]]) -> Iterator[ScannedRecord]:
    """The caller's records of these stretches, in order, read once more: they are never all in memory."""
    for segment, offset, lsn in stretches:
        with SegmentScan(files, segment.path) as scan:
            stop = segment.end
            scan.end, scan.next_lsn = offset, lsn
            for record in scan.records():
                if record.kind != CLOSED:
                    yield record
            if scan.end < stop:
                raise JournalDamagedError(segment.path, scan.end, scan.problem)
