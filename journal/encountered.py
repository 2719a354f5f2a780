"""Damage that a running broker came upon, noted beside the journal: the next start does not read what is stored, and has to know.

The file ``encountered`` is one line of UTF-8: the name of the damaged file, the offset, and what is wrong there, with blanks between.
Whoever writes it is about to end; a start that finds nothing wrong in that file any more removes it, and so does ``repair``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from journal.checkpoint_format import SegmentFacts
from journal.durable import read_whole, write_aside
from journal.errors import FormatError, JournalDamagedError
from journal.files import Files
from journal.judgement import Expected, judge
from journal.names import ENCOUNTERED, segment_name, stem_of
from journal.survey import look_at_segment


class Encountered(NamedTuple):
    """Where a broker has ended."""

    name: str
    offset: int
    text: str


def write_encountered(files: Files, directory: Path, damage: JournalDamagedError) -> None:
    """Have it durable; OSError as the file system raises it."""
    text = " ".join(f"{damage.file.name} {damage.offset} {damage.text}".split())
    write_aside(files, directory / ENCOUNTERED, [text.encode(errors="replace") + b"\n"])
    files.sync_directory(directory)


def read_encountered(files: Files, directory: Path) -> Encountered | None:
    """What the note says; None where there is none.

    Raises:
        FormatError: it says nothing that can be understood.
        OSError: it cannot be read.
    """
    return _understood(files, directory) if ENCOUNTERED in files.names(directory) else None


def _understood(files: Files, directory: Path) -> Encountered:
    """The note, which is there; raises as `read_encountered`."""
    try:
        name, offset, text = read_whole(files, directory / ENCOUNTERED).decode().rstrip("\n").split(" ", 2)
        return Encountered(name, int(offset), text)
    except ValueError as error:
        raise FormatError(f"a note of damage that cannot be understood: {error}") from error


def remove_encountered(files: Files, directory: Path) -> None:
    """There is nothing wrong any more."""
    files.unlink(directory / ENCOUNTERED)
    files.sync_directory(directory)


def look_again(files: Files, directory: Path, names: Collection[str], listed: Sequence[SegmentFacts]) -> str:
    """Look where a broker has ended on damage, if one has; returns what there is to report, "" where there is no note.

    The named file is read whole, if it is one of ``listed``, those that a start does not read; it is a segment at most.

    Args:
        files: the file system.
        directory: the journal's.
        names: what there is in it.
        listed: the segments that the checkpoint lists.

    Raises:
        JournalDamagedError: the file is still damaged.
    """
    if ENCOUNTERED not in names:
        return ""
    try:
        noted = _understood(files, directory)
    except (FormatError, OSError) as error:
        return f"{directory / ENCOUNTERED}: {error}; it was removed; `penstock journal verify {directory}` reads everything"
    stem = Path(noted.name).stem
    for facts in listed:
        if facts.sealed and stem_of(facts.first_lsn, facts.segment_id) == stem:
            file = look_at_segment(directory / segment_name(stem), facts.first_lsn, facts.segment_id, files)
            judged = judge(file, Expected(facts, None, None), files)
            for finding in (*judged.segment, *judged.index):
                if finding.fatal:
                    text = f"{finding.text}; the last broker here ended on damage in this file"
                    raise JournalDamagedError(finding.file, finding.offset, text)
    return (
        f"{directory / noted.name}, offset {noted.offset}: a broker ended here on damage ({noted.text}), and there is none "
        f"any more; `penstock journal verify {directory}` reads everything"
    )
