"""A replica's journal that is damaged is put aside whole, so that its node can be filled anew in the same directory; nothing is deleted.

It goes into a folder ``damaged-N`` beside it, which has a name of its own until all of it is there: ``damaged-N.part``. Whoever opens the
directory does what is left first. What tells whose replica it was goes last: until then no other journal is opened there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from journal.directory import claim
from journal.durable import look_into
from journal.errors import JournalFailedError
from journal.files import Files
from journal.names import (
    ASIDE,
    ENCOUNTERED,
    INCOMING,
    INSTALLING,
    REPAIRED,
    REPLICA,
    is_part,
    is_spare,
)

_FOLDER = re.compile(r"damaged-(\d{1,9})")
_PART = ".part"
_NOTES = frozenset({ENCOUNTERED, INSTALLING, REPAIRED, REPLICA})
_DIVERGED = "diverged-"


class Kept(NamedTuple):
    """What lies in a replica's directory, and is of no use to it any more: somebody may want to look at it, and removes it.

    Attributes:
        files: copies of what was cut off the log (``diverged-...``);
        nbytes: their bytes.
        damaged: journals that were put aside, each a folder ``damaged-N``.
    """

    files: int = 0
    nbytes: int = 0
    damaged: int = 0


def set_aside(files: Files, directory: Path, report: Callable[[str], None]) -> Path:
    """Put the journal in a directory aside, durably, and let the directory be empty; the folder that it is in then.

    Raises:
        JournalLockedError: the directory is open.
        JournalFailedError: the file system refuses; what was begun is finished by whoever opens the directory next.
    """
    held = claim(directory, files)
    try:
        names = files.names(directory)
        taken = [int(found[1]) for name in names if (found := _FOLDER.fullmatch(name.removesuffix(_PART)))]
        folder = directory / f"damaged-{max(taken, default=0) + 1}"
        files.make_directory(folder.with_name(folder.name + _PART))
        files.sync_directory(directory)
        _carry_out(files, folder, report)
    except OSError as error:
        raise JournalFailedError(error) from error
    finally:
        files.close(held)
    return folder


def finish_set_aside(files: Files, directory: Path, report: Callable[[str], None]) -> None:
    """Do what is left of one that was interrupted, if one was; the directory is locked.

    Raises:
        OSError: the file system refuses.
    """
    for name in files.names(directory):
        if name.endswith(_PART) and _FOLDER.fullmatch(name.removesuffix(_PART)):
            _carry_out(files, directory / name.removesuffix(_PART), report)


def kept(files: Files, directory: Path) -> Kept:
    """What is kept in a directory.

    Raises:
        OSError: it cannot be looked at.
    """
    names = files.names(directory)
    copies = [name for name in names if name.startswith(_DIVERGED) and not name.endswith(ASIDE)]
    size = sum(look_into(files, directory / name, files.size) for name in copies)
    return Kept(len(copies), size, sum(_FOLDER.fullmatch(name) is not None for name in names))


def _carry_out(files: Files, folder: Path, report: Callable[[str], None]) -> None:
    """Each step does what is left of it."""
    directory, aside = folder.parent, folder.with_name(folder.name + _PART)
    names = [name for name in files.names(directory) if _goes(name)]
    for name in sorted(names, key=lambda each: each.startswith(REPLICA)):
        if name == REPLICA:
            # By then nothing else may be left here, whatever the disk does.
            files.sync_directory(aside)
            files.sync_directory(directory)
        files.rename(directory / name, aside / name)
    files.sync_directory(aside)
    files.sync_directory(directory)
    files.rename(aside, folder)
    files.sync_directory(directory)
    report(f"{directory}: the journal was put aside, into {folder.name}; remove that when nobody needs it any more")


def _goes(name: str) -> bool:
    return is_part(name) or is_spare(name) or name == INCOMING or name.removesuffix(ASIDE) in _NOTES
