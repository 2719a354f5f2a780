"""What was cut off a replica's log and is kept for a person to look at: how its files are named, and how much of it there may be.

Each name has a number, greater than those of all that are there: by it the oldest is told, since no clock is asked for that. The first has
none in its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from journal.durable import look_into
from journal.files import Files
from journal.names import segment_name

MAX_DIVERGED_BYTES: Final = 1 << 30
"""Of these files in a directory, together. When there is more the oldest go; the newest one stays, however large it is."""
MAX_DIVERGED_FILES: Final = 100
"""Likewise."""

_NAME = re.compile(r"diverged-(?:(\d{1,19})-)?(\d{20}-[0-9a-f]{8,16})\.segment")


def diverged_name(stem: str, names: Collection[str]) -> str:
    """What the end of a segment is kept as, in a directory with these names."""
    number = 1 + max((found[0] for name in names if (found := _parse(name)) is not None), default=0)
    return f"diverged-{segment_name(stem)}" if number == 1 else f"diverged-{number}-{segment_name(stem)}"


def bound_diverged(files: Files, directory: Path, report: Callable[[str], None]) -> None:
    """Have no more of it than there may be. It is of no use to the journal: what cannot be removed stays, and that is said."""
    found = sorted((*number, name) for name in files.names(directory) if (number := _parse(name)) is not None)
    try:
        sizes = [look_into(files, directory / name, files.size) for *_, name in found]
        count, total, gone = len(found), sum(sizes), []
        for (*_, name), size in zip(found[:-1], sizes, strict=False):
            if count <= MAX_DIVERGED_FILES and total <= MAX_DIVERGED_BYTES:
                break
            files.unlink(directory / name)
            count, total = count - 1, total - size
            gone.append(name)
        if gone:
            files.sync_directory(directory)
            report(
                f"{directory}: the oldest of what was cut off the log and kept is removed, for there was more than "
                f"{MAX_DIVERGED_FILES} files or {MAX_DIVERGED_BYTES} bytes of it: {', '.join(gone)}"
            )
    except OSError as error:
        report(f"{directory}: the oldest of what was cut off the log and kept cannot be removed: {error}")


def _parse(name: str) -> tuple[int, str] | None:
    """(its number, the stem of the segment); None for any other name."""
    match = _NAME.fullmatch(name)
    return None if match is None else (int(match[1] or 1), match[2])
