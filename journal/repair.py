"""Making a damaged journal openable again: all that is whole is kept, and what is not is said, file by file.

A record that is lost is replaced by an empty one of the journal's own, so that the log has no gap. An original is kept aside,
whole, before anything takes its place, and each step leaves a directory that repair can be run on again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from journal.checkpoint_format import Checkpoint, SegmentFacts, pack_checkpoint
from journal.directory import lock, refuse_backup, require_journal
from journal.durable import create_anew, read_exactly, read_whole, write_all, write_aside
from journal.encountered import remove_encountered
from journal.errors import JournalDamagedError
from journal.files import Files, OsFiles
from journal.format import (
    CLOSED,
    COMPACTED,
    FIRST_LSN,
    LOG,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    pack_record,
    pack_segment_header,
)
from journal.judgement import Expected, Finding, expectations, judge
from journal.names import ASIDE, ENCOUNTERED, NEWEST, REPLICA, checkpoint_name, index_name, segment_name, stem_of
from journal.newest import Newest, write_newest
from journal.salt import header_from_records
from journal.salvage import MAX_FILLED, FoundAgain, Salvaged, contents_of, fits_between, runs_of, salvage, spans_of
from journal.scan import ScannedRecord, SegmentScan
from journal.segment import new_header
from journal.survey import Contents, Hole, SegmentFile, Survey, look, pieces
from journal.verify import findings

COPY_BYTES = 1 << 20
"""Bytes copied, or gathered for a write, at a time."""
DAMAGED = "damaged"
"""What the name of an original begins with that something else has replaced."""
SUPERSEDED = "superseded"
"""Likewise of a combined segment that is whole, and not needed: what it was made from is there."""
EPOCHS_SKIPPED = 1000
"""Starts that a lost checkpoint may have counted and no record shows: an epoch must never come twice."""


def repair(directory: Path, files: Files | None = None, begin: Callable[[], None] = lambda: None) -> list[str]:
    """Make a journal openable, and every item in it readable or gone; says what was lost, one line for each file and place.

    It mends what `verify` finds, by the same judgement, and looks again when it is done.

    Args:
        directory: the journal.
        files: the disk.
        begin: called before anything is changed, where something has to be.

    Returns: what was done; nothing where `verify` finds nothing that the next start does not mend by itself, and never nothing elsewhere.
    Of a note of the newest segment that is not whole it speaks in any case: what is lost with it nobody can tell.

    Raises:
        JournalMissingError: there is no journal.
        BackupError: it is a backup.
        JournalLockedError: a broker is at work in the directory.
        JournalDamagedError: something is damaged that repair does not know how to mend.
        OSError: the disk does not do what repair needs of it; run it again when that is mended.
    """
    files = OsFiles() if files is None else files
    require_journal(directory, files)
    refuse_backup(directory, files, mended=True)
    held = lock(directory, files, make=True)
    try:
        found = list(findings(directory, files))
        before = [finding for finding in found if finding.fatal]
        # It does not refuse the start, and what may be lost with it has to be said all the same.
        said = [f"{each.file}: {each.text}; the note is made again" for each in found if each.file.name == NEWEST]
        if not before:
            return said
        begin()
        said += _Repair(directory, files).run()
        said += _unsaid(before, said)
        left = next((finding for finding in findings(directory, files) if finding.fatal), None)
        if left is not None:
            raise JournalDamagedError(left.file, left.offset, f"repair could not mend this: {left.text}")
        if ENCOUNTERED in files.names(directory):
            remove_encountered(files, directory)
        return said
    finally:
        if held is not None:
            files.close(held)


def _unsaid(before: Iterable[Finding], said: Iterable[str]) -> list[str]:
    """Findings of files that repair said nothing of: they are gone with what was mended elsewhere."""
    told = "\n".join(said)
    return [
        f"{finding.file}, offset {finding.offset}: {finding.text}; mended with the others"
        for finding in before
        if finding.file.name not in told
    ]


class _Repair:
    """One run; ``said`` grows as it goes."""

    def __init__(self, directory: Path, files: Files) -> None:
        self._directory = directory
        self._files = files
        self._epoch = 0
        self._next_segment = 1
        self._start = FIRST_LSN
        self._again = FoundAgain()
        self.said: list[str] = []

    def run(self) -> list[str]:
        survey = look(self._directory, self._files)
        self._next_segment = max(
            survey.base.next_segment if survey.base else 1,
            survey.newest.segment_id + 1 if survey.newest else 1,
            *(file.segment_id + 1 for file in survey.segments),
        )
        for file in survey.in_use():
            if file.header is None:
                self._restore_header(file, survey)
        survey = look(self._directory, self._files)
        self._leave_cluster()
        self._start = self._first_needed(survey)
        in_use, facts = self._mend_segments(survey)
        self._write_checkpoint(survey, in_use, facts)
        return self.said

    def _first_needed(self, survey: Survey) -> int:
        """Where the log must begin: at the checkpoint; without any, where the oldest log segment does, or behind all records."""
        if survey.base is not None:
            return survey.base.lsn
        headers = [file.header for file in survey.segments if file.header is not None]
        logs = [header.first_lsn for header in headers if header.kind == LOG]
        there = (contents_of(file, self._files) for file in survey.segments if file.header is not None)
        stops = (contents.stop_lsn for contents in there if contents is not None)
        return min(logs) if logs else max(stops, default=FIRST_LSN)

    def _leave_cluster(self) -> None:
        """A replica whose log is mended has not what it promised to have: it is none any more."""
        if REPLICA in self._files.names(self._directory):
            kept = self._set_aside(self._directory / REPLICA)
            self.said.append(
                f"{self._directory / REPLICA}: the directory is no replica of its cluster any more, for its log is another; set aside as "
                f"{kept.name}"
            )

    # Headers.

    def _restore_header(self, file: SegmentFile, survey: Survey) -> None:
        """Make the header again from the file's name and its records, or set the file aside."""
        try:
            content = read_whole(self._files, file.path)
        except OSError as error:
            content = b""
            self.said.append(f"{file.path}: it cannot be read: {error}")
        listed = {facts.segment_id: facts.kind for facts in survey.base.segments} if survey.base else {}
        header = header_from_records(content, file.segment_id, listed.get(file.segment_id), file.first_lsn)
        if header is None:
            kept = self._set_aside(file.path)
            self.said.append(
                f"{file.path}, offset 0: {file.problem}, and no record tells what it was; set aside as {kept.name}"
            )
            return
        kept = self._keep_copy(file.path)
        write_aside(self._files, file.path, [pack_segment_header(header), memoryview(content)[SEGMENT_HEADER_BYTES:]])
        self._files.sync_directory(self._directory)
        self.said.append(f"{file.path}, offset 0: the header was made again from its records; kept as {kept.name}")

    # Segments.

    def _mend_segments(self, survey: Survey) -> tuple[list[SegmentHeader], dict[int, SegmentFacts]]:
        """Mend what is in use; returns its headers, in order, and what a checkpoint says of each."""
        in_use = survey.in_use()
        self.said += (
            f"{path}: the file is gone, and what it held is lost unless another file holds it" for path in survey.gone
        )
        listed = {facts.segment_id: facts for facts in survey.base.segments} if survey.base else {}
        in_use += self._salvage([file for file in survey.segments if file not in in_use], in_use, listed)
        in_use.sort(key=lambda file: (file.first_lsn, file.segment_id))
        headers: list[SegmentHeader] = []
        facts: dict[int, SegmentFacts] = {}

        def enter(header: SegmentHeader, stop_lsn: int, end: int) -> None:
            headers.append(header)
            facts[header.segment_id] = SegmentFacts(
                header.segment_id, header.kind, header.first_lsn, stop_lsn, end, sealed=True
            )

        expected, covered = self._start, 0
        for file, known in expectations(in_use, listed, max(self._start, survey.durable)):
            header = file.header
            if header is None:
                continue
            if header.kind == LOG and header.first_lsn < covered:
                kept = self._set_aside(file.path)
                self.said.append(f"{file.path}: it begins before the segment before it ends; set aside as {kept.name}")
                continue
            if header.kind == LOG and header.first_lsn > expected:
                missing = header.first_lsn - expected
                if missing > MAX_FILLED:
                    kept = self._set_aside(file.path)
                    self.said.append(f"{file.path}: {missing} records before it are gone; set aside as {kept.name}")
                    continue
                enter(*self._fill(expected, header.first_lsn))
            contents = self._mend_segment(file, known)
            if contents is None:
                continue
            enter(header, contents.stop_lsn, contents.end)
            if header.kind == LOG:
                covered = contents.stop_lsn
                expected = max(expected, covered)
        ends = [facts[header.segment_id].stop_lsn for header in headers if header.kind == LOG]
        needed = survey.base.durable if survey.base is not None else self._start
        if not ends or max(ends) < needed:
            enter(*self._fill(max(ends, default=self._start), needed))
        return headers, facts

    def _salvage(
        self, unused: list[SegmentFile], in_use: list[SegmentFile], listed: dict[int, SegmentFacts]
    ) -> list[SegmentFile]:
        """The combined segments that no checkpoint lists and that alone hold some record: they come into use, without the others.

        That is so when a checkpoint is lost that listed them: the one before lists what they were made from, which is gone. What is of
        the place of a segment in use, or behind the checkpoint, takes its old place again.
        """
        unused = [file for file in unused if file.header is not None and file.header.kind == COMPACTED]
        if not unused:
            return []
        held, places = spans_of(in_use, listed, self._start, self._files)
        found = list(salvage(unused, held, places, self._start, self._again, self._files))
        if len(found) == 1 and fits_between(found[0], places):
            return [self._adopt(found[0])]
        runs = runs_of(found, places)
        for each in found:
            self.said.append(f"{each.file.path}: {len(each.alone)} records that no other file holds are taken from it")
        return [self._write_run(run, max(each.version for each in found)) for run in runs]

    def _adopt(self, found: Salvaged) -> SegmentFile:
        """Have a segment in use as it is, or without what others hold."""
        file, header = found.file, found.file.header
        assert header is not None
        if found.others:
            self._keep_copy(file.path)
            records = (_pack(header, record) for record in found.alone)
            self._write_segment(file.path, chain([pack_segment_header(header)], records))
            self._files.sync_directory(self._directory)
        self.said.append(f"{file.path}: in use again, for {len(found.alone)} records that no other file holds")
        return file

    def _write_run(self, run: list[ScannedRecord], version: int) -> SegmentFile:
        """A segment of records that were found, between those that there are."""
        header = new_header(self._next_segment, run[0].lsn, COMPACTED, version)
        self._next_segment += 1
        path = self._directory / segment_name(stem_of(header.first_lsn, header.segment_id))
        self._write_segment(path, chain([pack_segment_header(header)], (_pack(header, record) for record in run)))
        self._files.sync_directory(self._directory)
        return SegmentFile(path, header.first_lsn, header.segment_id, header, "")

    def _mend_segment(self, file: SegmentFile, known: Expected) -> Contents | None:
        """Write a segment again without its damage, if it has any. None where it had to be set aside."""
        judgement = judge(file, known, self._files)
        contents = judgement.contents
        if contents is None:
            kept = self._set_aside(file.path)
            self.said += (f"{found.file}, offset {found.offset}: {found.text}" for found in judgement.segment)
            self.said.append(f"{file.path}: it cannot be read; set aside as {kept.name}")
            return None
        self._epoch = max(self._epoch, contents.epoch)
        for finding in judgement.index:
            self._drop(finding.file)
            self.said.append(f"{finding.file}, offset 0: {finding.text}; removed, and made again by the next start")
        if not judgement.fatal:
            return contents
        kept = self._keep_copy(file.path)
        self.said += (
            f"{found.file}, offset {found.offset}: {found.text}; kept in {kept.name}" for found in judgement.segment
        )
        is_log = file.header is not None and file.header.kind == LOG
        stop = known.must_hold
        if stop is not None and contents.stop_lsn < stop <= contents.stop_lsn + MAX_FILLED:
            behind = [record.lsn + 1 for record in self._again.between(contents.stop_lsn, stop)]
            contents.stop_lsn = stop if is_log else max(behind, default=contents.stop_lsn)
        end = self._write_segment(file.path, self._whole(file.path, contents))
        if back := self._again.between(file.first_lsn, contents.stop_lsn):
            self.said.append(f"{file.path}: {len(back)} records of it that another file holds are in their place again")
        self._files.sync_directory(self._directory)
        self._drop(file.path.with_name(index_name(file.path.stem)))
        contents.end = end
        return contents

    def _whole(self, path: Path, contents: Contents) -> Iterator[bytes]:
        """A segment's bytes without its damage, empty records in the place of lost ones."""
        misshapen = {offset for offset, _ in contents.misshapen}
        with SegmentScan(self._files, path) as scan:
            header = self._again.header(scan.header, contents.stop_lsn)
            yield pack_segment_header(header)
            following = header.first_lsn
            for piece in pieces(scan):
                if isinstance(piece, Hole) or piece.offset in misshapen:
                    continue
                yield from self._instead(header, following, piece.lsn)
                following = piece.lsn + 1
                yield _pack(header, piece)
            yield from self._instead(header, following, contents.stop_lsn)

    def _fill(self, first_lsn: int, stop_lsn: int) -> tuple[SegmentHeader, int, int]:
        """A segment of empty records in the place of one that is gone."""
        header = self._again.header(new_header(self._next_segment, first_lsn), stop_lsn)
        self._next_segment += 1
        path = self._directory / segment_name(stem_of(first_lsn, header.segment_id))
        end = self._write_segment(
            path, chain([pack_segment_header(header)], self._instead(header, first_lsn, stop_lsn))
        )
        self._files.sync_directory(self._directory)
        if stop_lsn > first_lsn:
            self.said.append(
                f"{path}: the records {first_lsn} to {stop_lsn - 1} are gone; empty ones stand for those that no other file has"
            )
        return header, stop_lsn, end

    def _instead(self, header: SegmentHeader, first_lsn: int, stop_lsn: int) -> Iterator[bytes]:
        """Records in the place of lost ones: the same from another file, or in the log empty ones."""
        if header.kind != LOG:
            yield from (_pack(header, again) for again in self._again.between(first_lsn, stop_lsn))
            return
        for lsn in range(first_lsn, stop_lsn):
            again = self._again.records.get(lsn)
            yield _pack(header, again) if again else pack_record(header, lsn, self._epoch, CLOSED, 0, 0, b"")

    # The checkpoint.

    def _write_checkpoint(self, survey: Survey, in_use: list[SegmentHeader], facts: dict[int, SegmentFacts]) -> None:
        """A checkpoint that lists what there is; those that cannot be read are set aside when it is durable."""
        base = survey.base
        logs = [header for header in in_use if header.kind == LOG]
        lsn = self._start
        lost = bool(survey.checkpoints) and survey.checkpoints[0].checkpoint is None
        epoch = max(self._epoch, base.epoch if base else 0) + (EPOCHS_SKIPPED if lost or base is None else 0)
        listed = [
            facts[header.segment_id]
            if header is not logs[-1]
            else SegmentFacts(header.segment_id, header.kind, header.first_lsn, 0, 0, sealed=False)
            for header in in_use
            if header.kind == COMPACTED or header.first_lsn < lsn or header is logs[0]
        ]
        path = self._directory / checkpoint_name(lsn)
        checkpoint = Checkpoint(lsn, epoch, self._next_segment, tuple(listed), base.payload if base else None)
        if base is not None:
            checkpoint = checkpoint._replace(behind=base.alone().behind)
        damaged = [file for file in survey.checkpoints if file.checkpoint is None]
        copies = {file.path: self._keep_copy(path) for file in damaged if file.path == path}
        self._set_unused_aside(survey, facts)
        write_aside(self._files, path, [pack_checkpoint(checkpoint)])
        self._files.sync_directory(self._directory)
        write_newest(self._files, self._directory, Newest(logs[-1].segment_id, logs[-1].first_lsn))
        for file in damaged:
            kept = copies.get(file.path) or self._set_aside(file.path)
            instead = f"the checkpoint before record {base.lsn}" if base else "no checkpoint: the log is all there is"
            self.said.append(f"{file.path}, offset 0: {file.problem}; set aside as {kept.name}; instead {instead}")

    def _set_unused_aside(self, survey: Survey, facts: dict[int, SegmentFacts]) -> None:
        """Combined segments that are not listed; an older checkpoint than the one that listed them would take them for log."""
        for file in survey.segments:
            if file.header is not None and file.header.kind == COMPACTED and file.segment_id not in facts:
                kept = self._set_aside(file.path, SUPERSEDED).name
                self.said.append(
                    f"{file.path}: nothing in it is damaged, and nothing is lost with it: what it was made from is still there; "
                    f"set aside as {kept}"
                )

    # Files.

    def _write_segment(self, path: Path, parts: Iterable[bytes]) -> int:
        """Have ``path`` hold these bytes, durable; returns how many they are. They are written as they come."""
        aside = path.with_name(path.name + ASIDE)
        file = create_anew(self._files, aside)
        try:
            at = 0
            gathered: list[bytes] = []
            waiting = 0
            for part in parts:
                gathered.append(part)
                waiting += len(part)
                if waiting >= COPY_BYTES:
                    at = write_all(self._files, file, gathered, at)
                    gathered, waiting = [], 0
            at = write_all(self._files, file, gathered, at)
            self._files.sync(file)
        finally:
            self._files.close(file)
        self._files.rename(aside, path)
        return at

    def _keep_copy(self, path: Path) -> Path:
        """A copy beside the original, durable before the original is replaced."""
        kept = self._free_name(path)
        source = self._files.open(path)
        try:
            size = self._files.size(source)
            self._write_segment(
                kept, (read_exactly(self._files, source, COPY_BYTES, at) for at in range(0, size, COPY_BYTES))
            )
        finally:
            self._files.close(source)
        self._files.sync_directory(self._directory)
        return kept

    def _set_aside(self, path: Path, why: str = DAMAGED) -> Path:
        """Take a file out of the journal's sight, as it is."""
        kept = self._free_name(path, why)
        self._files.rename(path, kept)
        self._files.sync_directory(self._directory)
        return kept

    def _free_name(self, path: Path, why: str = DAMAGED) -> Path:
        names = set(self._files.names(self._directory))
        name = f"{why}-{path.name}"
        number = 1
        while name in names:
            number += 1
            name = f"{why}-{number}-{path.name}"
        return path.with_name(name)

    def _drop(self, path: Path) -> None:
        """Remove an index that speaks of the segment as it was; the next start makes another."""
        if path.name in self._files.names(self._directory):
            self._files.unlink(path)
            self._files.sync_directory(self._directory)


def _pack(header: SegmentHeader, record: ScannedRecord) -> bytes:
    """A record as it is in a segment of this header."""
    return pack_record(header, record.lsn, record.epoch, record.kind, record.flags, record.group, record.payload)
