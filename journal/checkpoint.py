"""Checkpoint files: written aside, and the one before kept, so that there is always a whole one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from journal.checkpoint_format import Checkpoint, pack_checkpoint, unpack_checkpoint
from journal.durable import read_whole, write_aside
from journal.errors import FormatError, JournalDamagedError
from journal.files import Files
from journal.names import checkpoint_name, parse_checkpoint

KEPT_CHECKPOINTS = 2
"""The newest is what a start reads; the one before is for a person with a damaged newest one."""


def write_checkpoint(files: Files, directory: Path, checkpoint: Checkpoint) -> None:
    """Have the checkpoint durable, name and contents; OSError as the file system raises it."""
    write_aside(files, directory / checkpoint_name(checkpoint.lsn), [pack_checkpoint(checkpoint)])
    files.sync_directory(directory)


def newest_checkpoint(files: Files, directory: Path, names: Sequence[str]) -> Checkpoint | None:
    """The newest checkpoint among ``names``; None where there is none.

    Raises:
        JournalDamagedError: it is not whole. An older one would silently bring back what was done since.
    """
    lsns = [lsn for name in names if (lsn := parse_checkpoint(name)) is not None]
    if not lsns:
        return None
    path = directory / checkpoint_name(max(lsns))
    try:
        checkpoint = unpack_checkpoint(read_whole(files, path))
    except (OSError, FormatError) as error:
        raise JournalDamagedError(path, 0, str(error)) from error
    if checkpoint.lsn != max(lsns):
        raise JournalDamagedError(path, 0, f"it is of lsn {checkpoint.lsn}, its name is not")
    return checkpoint


def drop_old_checkpoints(files: Files, directory: Path, pinned: Collection[str] = ()) -> None:
    """Remove all but the newest ``KEPT_CHECKPOINTS``, and those that are pinned."""
    lsns = sorted(lsn for name in files.names(directory) if (lsn := parse_checkpoint(name)) is not None)
    for name in map(checkpoint_name, lsns[:-KEPT_CHECKPOINTS]):
        if name not in pinned:
            files.unlink(directory / name)
