"""Writing so that a short write is continued, and a crash leaves the old file or the new one, never half of either."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from journal.files import MAX_PARTS, Buffer, Files
from journal.names import ASIDE

T = TypeVar("T")


def size_of(part: Buffer) -> int:
    """Bytes of a buffer, whatever its items are."""
    return part.nbytes if isinstance(part, memoryview) else len(part)


def write_all(files: Files, file: int, parts: Sequence[Buffer], offset: int) -> int:
    """Write every part, end to end from ``offset`` on; returns where they end.

    A short write is no failure: what is left is written after it. OSError as the file system raises it, and where it takes nothing.
    """
    at = 0
    while at < len(parts):
        chunk = parts[at : at + MAX_PARTS]
        wanted = sum(map(size_of, chunk))
        written = files.write(file, chunk, offset)
        if written < wanted:
            _write_rest(files, file, chunk, offset, written)
        offset += wanted
        at += MAX_PARTS
    return offset


def _write_rest(files: Files, file: int, parts: Sequence[Buffer], offset: int, written: int) -> None:
    """Go on after a short write of ``parts``, of which ``written`` bytes were taken."""
    rest = [memoryview(part).cast("B") for part in parts]
    while True:
        if written == 0 and any(map(len, rest)):
            raise OSError(
                f"the file system took none of {sum(map(len, rest))} bytes at offset {offset} and gave no error"
            )
        offset += written
        while rest and written >= len(rest[0]):
            written -= len(rest.pop(0))
        if not rest:
            return
        rest[0] = rest[0][written:]
        written = files.write(file, rest, offset)


def write_aside(files: Files, path: Path, parts: Sequence[Buffer]) -> None:
    """Have ``path`` hold exactly ``parts``, replacing what was there.

    The contents are durable when this returns; the name is once the caller has synced the directory.
    """
    aside = path.with_name(path.name + ASIDE)
    file = create_anew(files, aside)
    try:
        write_all(files, file, parts, 0)
        files.sync(file)
    finally:
        files.close(file)
    files.rename(aside, path)


def create_anew(files: Files, path: Path) -> int:
    """A new empty file at ``path``, in the place of what an attempt before may have left there."""
    try:
        return files.create(path)
    except FileExistsError:
        files.unlink(path)
        return files.create(path)


def read_whole(files: Files, path: Path) -> bytes:
    """A file's contents, for files whose size is bounded by what wrote them."""
    return look_into(files, path, lambda file: read_exactly(files, file, files.size(file), 0))


def look_into(files: Files, path: Path, ask: Callable[[int], T]) -> T:
    """What ``ask`` says of a file that is open for as long as that takes."""
    file = files.open(path)
    try:
        return ask(file)
    finally:
        files.close(file)


def read_exactly(files: Files, file: int, size: int, offset: int) -> bytes:
    """``size`` bytes from ``offset`` on, fewer only where the file ends; a short read is continued."""
    data = files.read(file, size, offset)
    if len(data) == size or not data:
        return data
    parts = [data]
    got = len(data)
    while got < size and (data := files.read(file, size - got, offset + got)):
        parts.append(data)
        got += len(data)
    return b"".join(parts)


def make_directory(files: Files, directory: Path, begun: set[str]) -> Sequence[Path]:
    """Make a directory and those above it; returns the ones whose names have to be synced for it.

    Those are none where it was there already, unless it holds no more than ``begun``: then whoever made it may not have come so far.
    """
    for at, path in enumerate((directory, *directory.parents)):
        try:
            names = files.names(path)
        except FileNotFoundError:
            continue
        if at == 0:
            return directory.parents[:1] if begun.issuperset(names) else ()
        files.make_directory(directory)
        return directory.parents[:at]
    files.make_directory(directory)
    return directory.parents
