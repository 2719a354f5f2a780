"""A backup: a directory with the files of a journal as of one instant, and what it is, in the file ``backup.json``.

The files are written under ``TARGET.partial``. When all are durable, and read again without damage, the folder gets its name: so what
has the name is whole. A journal is not opened where a ``backup.json`` is: a backup that a broker has worked in would be none.

``backup.json`` is an object: ``format`` (1), ``epoch`` and ``store`` of the broker, ``lsn`` (every record below it is there, and none
other), ``taken`` (UTC, ISO 8601), ``about`` (an object of texts) and ``files``: of each its ``name``, ``size`` and ``sha256``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from journal.durable import create_anew, read_exactly, read_whole, write_all, write_aside
from journal.errors import BackupError, JournalDamagedError
from journal.files import Buffer, Files, OsFiles
from journal.format import LOG
from journal.names import ASIDE, BACKUP, ENCOUNTERED, LOCK, REPAIRED, is_part, parse_segment
from journal.newest import Newest, write_newest
from journal.scan import SegmentScan
from journal.verify import findings

FORMAT = 1
PARTIAL = ".partial"
"""Behind the name of a directory that is being written."""
COPY_BYTES = 1 << 20
"""Bytes read at a time."""
NOTES = frozenset({REPAIRED, ENCOUNTERED})
"""Files of a journal's directory that are no part of the journal, and belong to it all the same."""


@dataclass(frozen=True, slots=True)
class BackupFile:
    """One file of a backup."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup is; the fields are those of ``backup.json``."""

    epoch: int
    store: int
    lsn: int
    taken: str
    about: Mapping[str, str]
    files: Sequence[BackupFile] = field(default=())

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def pack(self) -> bytes:
        """The file's contents."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode() + b"\n"


def read_manifest(files: Files, directory: Path) -> Manifest:
    """What the backup in ``directory`` says that it is.

    Raises:
        BackupError: it is no backup, or of a format that this program does not know.
    """
    try:
        facts = json.loads(read_whole(files, directory / BACKUP))
        if facts["format"] != FORMAT:
            raise BackupError(f"{directory} is a backup of format {facts['format']!r:.20}; this program knows {FORMAT}")
        found = [BackupFile(str(each["name"]), int(each["size"]), str(each["sha256"])) for each in facts["files"]]
        epoch, store, lsn = (int(facts[name]) for name in ("epoch", "store", "lsn"))
        manifest = Manifest(epoch, store, lsn, str(facts["taken"]), dict(facts["about"]), tuple(found))
    except (FileNotFoundError, NotADirectoryError):
        raise BackupError(f"{directory} is no backup: there is no {directory / BACKUP}") from None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise BackupError(f"{directory / BACKUP} cannot be read: {error!r:.200}") from error
    for file in manifest.files:
        if not _may_be_copied(file.name):
            raise BackupError(f"{directory / BACKUP} names the file {file.name!r:.100}, which no journal has")
    return manifest


def _may_be_copied(name: str) -> bool:
    return (is_part(name) and not name.endswith(ASIDE)) or name in NOTES


class JournalWriter:
    """Writes the files of a journal into a directory of its own, each as a stream of bytes, durable at its end.

    Args:
        directory: it is there, and holds nothing but what an attempt before has left.
    """

    def __init__(self, directory: Path, files: Files) -> None:
        self.directory = directory
        self.written: list[BackupFile] = []
        self._files = files
        self._name = ""
        self._file: int | None = None
        self._offset = 0
        self._hash = hashlib.sha256()

    def begin(self, name: str) -> None:
        """The bytes that follow are those of the file ``name``; BackupError where no journal has such a file."""
        if not _may_be_copied(name):
            raise BackupError(f"no journal has a file {name!r:.100}")
        self._name, self._offset, self._hash = name, 0, hashlib.sha256()
        self._file = create_anew(self._files, self.directory / name)

    def write(self, data: Buffer) -> None:
        """Bytes of the file that was begun."""
        assert self._file is not None, "a file is begun"
        self._hash.update(data)
        self._offset = write_all(self._files, self._file, [data], self._offset)

    def end(self) -> BackupFile:
        """The file is whole; it is durable when this returns."""
        assert self._file is not None, "a file is begun"
        self._files.sync(self._file)
        self.close()
        written = BackupFile(self._name, self._offset, self._hash.hexdigest())
        self.written.append(written)
        return written

    def close(self) -> None:
        """Give back the file that is open, if one is."""
        file, self._file = self._file, None
        if file is not None:
            self._files.close(file)

    def note_newest(self) -> None:
        """Write which segment was made last, as the journal itself does: one that is lost later is then missed."""
        logs = sorted(
            named
            for file in self.written
            if (named := parse_segment(file.name)) is not None and self._is_log(self.directory / file.name)
        )
        if logs:
            first_lsn, segment_id = logs[-1]
            write_newest(self._files, self.directory, Newest(segment_id, first_lsn))

    def _is_log(self, path: Path) -> bool:
        with SegmentScan(self._files, path) as scan:
            return scan.header.kind == LOG


class BackupWriter(JournalWriter):
    """Writes a backup: `begin`, `write` and `end` for each file, then `finish`; or `give_up`, whatever has happened.

    Raises:
        BackupError: there is something of the target's name, or another backup is being written under it.
        OSError: the file system refuses.
    """

    def __init__(self, target: Path, files: Files | None = None) -> None:
        files = OsFiles() if files is None else files
        if target.name in ("", ".."):
            raise BackupError(f"{target} is there already: name a directory that is not")
        super().__init__(target.with_name(target.name + PARTIAL), files)
        self.target = target
        self._lock: int | None = None
        if target.name in files.names(target.parent):
            raise BackupError(f"{target} is there already: name a directory that is not")
        files.make_directory(self.directory)
        try:
            self._lock = files.lock(self.directory / LOCK)
        except BlockingIOError:
            raise BackupError(f"{self.directory} is being written by another backup: wait for that one") from None
        try:
            self._clear()
        except BaseException:
            self._unlock()
            raise

    def finish(self, manifest: Manifest) -> Manifest:
        """Read everything again, and give the directory its name; what is in it, with the files' names and sizes.

        Raises:
            BackupError: what was written is not whole; it is left under its partial name.
            OSError: the file system refuses.
        """
        files, directory = self._files, self.directory
        try:
            self.note_newest()
        except JournalDamagedError as damage:
            raise self._damaged([str(damage)]) from damage
        files.sync_directory(directory)
        damages = [f"{each.file.name}:{each.offset}: {each.text}" for each in findings(directory, files) if each.fatal]
        damages += [text for file in self.written for text in differences(files, directory, file)]
        if damages:
            raise self._damaged(damages)
        whole = Manifest(
            manifest.epoch, manifest.store, manifest.lsn, manifest.taken, manifest.about, tuple(self.written)
        )
        write_aside(files, directory / BACKUP, [whole.pack()])
        # The lock is still held, though nobody else can see it: whatever fails from here on, `give_up` removes the rest.
        files.unlink(directory / LOCK)
        files.sync_directory(directory)
        files.rename(directory, self.target)
        self._unlock()
        files.sync_directory(self.target.parent)
        return whole

    def _damaged(self, damages: Sequence[str]) -> BackupError:
        self._unlock()
        more = f", and {len(damages) - 1} more" if len(damages) > 1 else ""
        return BackupError(
            f"the backup is damaged: {damages[0]}{more}. So is the journal, perhaps: `penstock journal verify` reads it, with its broker "
            f"stopped. What was copied is in {self.directory}"
        )

    def give_up(self) -> None:
        """Remove what was written, unless it is finished, or damaged."""
        self.close()
        if self._lock is not None:
            self._clear()
            self._unlock()
            with suppress(FileNotFoundError):
                self._files.unlink(self.directory / LOCK)
            self._files.remove_directory(self.directory)

    def _unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            self._files.close(lock)

    def _clear(self) -> None:
        """Remove what a backup has written here that was not finished.

        Raises:
            BackupError: there is something else.
        """
        names = [name for name in self._files.names(self.directory) if name != LOCK]
        for name in names:
            if not (is_part(name) or name in NOTES or name.removesuffix(ASIDE) == BACKUP):
                raise BackupError(f"{self.directory / name} is no part of a backup: remove {self.directory}")
        for name in names:
            self._files.unlink(self.directory / name)


def differences(files: Files, directory: Path, file: BackupFile) -> Iterator[str]:
    """How a file differs from what its manifest says, in words: nothing, or one text."""
    try:
        found = hash_of(files, directory / file.name)
    except OSError as error:
        yield f"{file.name}: it cannot be read: {error}"
        return
    if found != (file.size, file.sha256):
        what = f"{found[0]} bytes with sha256 {found[1][:16]}..., not {file.size} with {file.sha256[:16]}..."
        yield f"{file.name}: it is not what was written: {what}"


def hash_of(files: Files, path: Path) -> tuple[int, str]:
    """The size and the sha256 of a file."""
    digest, size = hashlib.sha256(), 0
    for part in pieces_of(files, path):
        digest.update(part)
        size += len(part)
    return size, digest.hexdigest()


def pieces_of(files: Files, path: Path, size: int | None = None) -> Iterator[bytes]:
    """The first ``size`` bytes of a file, or all, piece by piece; fewer where it ends."""
    file = files.open(path)
    try:
        left, offset = files.size(file) if size is None else size, 0
        while left > 0 and (part := read_exactly(files, file, min(COPY_BYTES, left), offset)):
            yield part
            left -= len(part)
            offset += len(part)
    finally:
        files.close(file)
