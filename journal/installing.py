"""A transfer that was taken aside comes into the place of a replica's journal: file by file, and to the end whatever interrupts it.

The file ``installing`` says what goes and what comes: a msgpack map of lsn, old, new and kept (names), and behind it a CRC-32C, u32. From
when it is durable the journal is the new one. Until it is gone, whoever opens the directory does what is left first.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
from crc32c import crc32c

from journal.diverged import diverged_name
from journal.durable import read_whole, write_aside
from journal.errors import JournalDamagedError, JournalFailedError, JournalLockedError, ReplicaError
from journal.files import Files
from journal.format import LOG
from journal.names import (
    ASIDE,
    ENCOUNTERED,
    INCOMING,
    INSTALLING,
    LOCK,
    REPLICA,
    TRANSFER,
    is_part,
    is_spare,
    parse_segment,
    segment_name,
    stem_of,
)
from journal.replica_file import ReplicaFile
from journal.scan import SegmentScan

_CRC = struct.Struct("<I")


class _Note(NamedTuple):
    """What the file says.

    Attributes:
        lsn: the log of the new journal begins with it.
        old: names of what is there.
        new: names of what comes.
        kept: those of the old ones that are kept under another name, for they hold what was never committed.
    """

    lsn: int
    old: list[str]
    new: list[str]
    kept: list[str]


def install(files: Files, directory: Path, lsn: int, committed: int, report: Callable[[str], None]) -> None:
    """Put the journal in the directory's ``incoming``, which a `TransferTarget` has finished, into the place of its own, durably.

    The directory stays the replica that it was, with what it has promised. Whoever has it open closes it first.

    Args:
        files: the file system.
        directory: the replica's.
        lsn: the log of the new journal begins with it (`TransferHead.lsn`); all before it is committed.
        committed: as far as the old log is known to be. What it has from there on may never have been: those segments are kept as
            ``diverged-...``.
        report: gets lines for a person.

    Raises:
        ReplicaError: what is there is no journal that a transfer has made.
        JournalLockedError: the directory is open.
        JournalFailedError: the file system refuses; what was begun is finished by the next start.
    """
    try:
        held = files.lock(directory / LOCK)
    except BlockingIOError:
        raise JournalLockedError(directory) from None
    except OSError as error:
        raise JournalFailedError(error) from error
    try:
        incoming = files.names(directory / INCOMING)
        if TRANSFER in incoming or REPLICA not in incoming or not any(map(is_part, incoming)):
            raise ReplicaError(f"{directory / INCOMING} holds no transfer that is whole")
        old = [name for name in files.names(directory) if _goes(name)]
        new = [name for name in incoming if is_part(name) and not name.endswith(ASIDE)]
        note = _Note(lsn, old, new, _uncommitted(files, directory, old, committed))
        body: bytes = msgpack.packb(note._asdict())
        write_aside(files, directory / INSTALLING, [body + _CRC.pack(crc32c(body))])
        files.sync_directory(directory)
        _carry_out(files, directory, note, held, report)
    except OSError as error:
        raise JournalFailedError(error) from error
    finally:
        files.close(held)


def finish_install(files: Files, directory: Path, lock: int, report: Callable[[str], None]) -> None:
    """Do what is left of one that was interrupted, if one was; ``lock`` is that of the directory, held.

    Raises:
        JournalDamagedError: the note of it cannot be read.
        OSError: the file system refuses.
    """
    if INSTALLING in files.names(directory):
        _carry_out(files, directory, _read(files, directory / INSTALLING), lock, report)


def _goes(name: str) -> bool:
    return is_part(name) or is_spare(name) or name == ENCOUNTERED


def _uncommitted(files: Files, directory: Path, names: Collection[str], committed: int) -> list[str]:
    """The segments of a log with records from ``committed`` on, as far as they can be read."""
    found = []
    for first_lsn, segment_id in (named for name in names if (named := parse_segment(name)) is not None):
        name = segment_name(stem_of(first_lsn, segment_id))
        with suppress(JournalDamagedError), SegmentScan(files, directory / name) as scan:
            for _ in scan.records():
                pass
            if scan.header.kind == LOG and scan.next_lsn > max(committed, first_lsn):
                found.append(name)
    return found


def _read(files: Files, path: Path) -> _Note:
    data = read_whole(files, path)
    body = data[: -_CRC.size]
    if len(data) < _CRC.size or _CRC.unpack(data[-_CRC.size :])[0] != crc32c(body):
        raise JournalDamagedError(path, 0, "its checksum does not hold")
    fields: dict[str, Any] = msgpack.unpackb(body)
    return _Note(**fields)


def _carry_out(files: Files, directory: Path, note: _Note, lock: int, report: Callable[[str], None]) -> None:
    """Each step does what is left of it."""
    incoming = directory / INCOMING
    replica = ReplicaFile.open(files, directory, lock, report)
    # The new log is committed as far as it goes, and has nothing behind.
    replica.cut(note.lsn)
    replica.stored(note.lsn)
    there = set(files.names(directory))
    waiting = set(files.names(incoming)) if INCOMING in there else set()
    kept = set(there)
    for name in note.old:
        if name not in there or (name in note.new and name not in waiting):
            continue  # it is gone, or is the new one of that name
        if name in note.kept:
            aside = diverged_name(name.removesuffix(".segment"), kept)
            files.rename(directory / name, directory / aside)
            kept.add(aside)
        elif name not in note.new:
            files.unlink(directory / name)
    # Only then may a name come to stand for another file.
    files.sync_directory(directory)
    for name in note.new:
        if name in waiting:
            files.rename(incoming / name, directory / name)
    files.sync_directory(directory)
    if INCOMING in there:
        for name in files.names(incoming):
            files.unlink(incoming / name)
        files.sync_directory(incoming)
        files.remove_directory(incoming)
        # Without the note nobody would remove it any more.
        files.sync_directory(directory)
    files.unlink(directory / INSTALLING)
    files.sync_directory(directory)
    if kept > there:
        names = ", ".join(sorted(kept - there))
        report(f"{directory}: what the log had that is not known to be committed is kept in {names}")
