"""Files that stay as they are while somebody copies them: a checkpoint, the segments that it lists, and the log behind it.

A segment's bytes up to an end that was given never change while its file lives: records are only appended. So a copy needs nothing but
that no file of it is removed or written over. A file that is dead and pinned is held, and goes with the first checkpoint after `release`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from journal.catalog import Catalog
from journal.durable import look_into
from journal.errors import JournalUsageError
from journal.files import Files
from journal.names import checkpoint_name, index_name


class PinnedFile(NamedTuple):
    """A file to copy: its name, and how many of its bytes; what is behind them is no part of the copy."""

    name: str
    size: int


class Pin(NamedTuple):
    """One instant of a journal.

    Attributes:
        checkpoint_lsn: of the checkpoint; everything below it is contained in that.
        lsn: every record below it is in the copy, and none other.
        segments: the segments that hold them, by first lsn.
        sealed: names of those that the checkpoint lists as sealed; they have an index.
    """

    checkpoint_lsn: int
    lsn: int
    segments: tuple[PinnedFile, ...]
    sealed: frozenset[str]

    def files(self, files: Files, directory: Path) -> tuple[PinnedFile, ...]:
        """Everything to copy, once the checkpoint is durable; OSError where a file is not there.

        An index that is missing is left out: whoever opens the copy makes it again.
        """
        found = [_sized(files, directory, checkpoint_name(self.checkpoint_lsn)), *self.segments]
        for name in sorted(self.sealed):
            with suppress(FileNotFoundError):
                found.append(_sized(files, directory, index_name(Path(name).stem)))
        return tuple(found)


def _sized(files: Files, directory: Path, name: str) -> PinnedFile:
    return PinnedFile(name, look_into(files, directory / name, files.size))


class Pins:
    """At most one pin at a time, of a backup; and what transfers hold. `let_go` is for the journal's worker, the others for who appends.

    Attributes:
        names: the files that are pinned.
        held_bytes: of dead files that are there for the pin's sake only.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.names: frozenset[str] = frozenset()
        self.held_bytes = 0
        self._held: list[Path] = []
        self._sizes: dict[str, int] = {}
        self._cut_lsn = 0
        self._pinned: frozenset[str] = frozenset()
        self._holds: dict[int, frozenset[str]] = {}
        self._next_hold = 1

    def cut(self, lsn: int) -> None:
        """A checkpoint is cut before the record ``lsn``, and lists what the catalog has now."""
        self._cut_lsn = lsn

    def take(self) -> Pin:
        """Pin the checkpoint that was cut, and is stored next, before anything else is appended; with all that was appended until now.

        It can be copied once that checkpoint is durable; so is then everything that was appended before it.

        Raises:
            JournalUsageError: there is a pin, or no checkpoint.
        """
        if self._pinned or not self._cut_lsn:
            raise JournalUsageError("one pin at a time, and each of a checkpoint that was just stored")
        found = self._catalog.segments
        segments = tuple(PinnedFile(segment.path.name, segment.end) for segment in found)
        sealed = frozenset(each.path.name for each in found if each.sealed and each.stop_lsn <= self._cut_lsn)
        self._sizes.update(segments)
        self._pinned = frozenset((checkpoint_name(self._cut_lsn), *dict(segments)))
        self._changed()
        return Pin(self._cut_lsn, found[-1].stop_lsn, segments, sealed)

    def release(self) -> None:
        """Nothing is pinned any more; what transfers hold is."""
        self._pinned = frozenset()
        self._changed()

    @property
    def pinned(self) -> bool:
        """Whether there is a pin."""
        return bool(self._pinned)

    def hold(self, files: Sequence[PinnedFile]) -> int:
        """Have files stay as they are until `drop` is told the number that is returned. As many as one likes."""
        number, self._next_hold = self._next_hold, self._next_hold + 1
        self._sizes.update(files)
        self._holds[number] = frozenset(file.name for file in files)
        self._changed()
        return number

    def drop(self, number: int) -> None:
        """What was held under a number is not any more; a second time does nothing."""
        self._holds.pop(number, None)
        self._changed()

    def _changed(self) -> None:
        self.names = self._pinned.union(*self._holds.values())
        held = {path.name for path in self._held}
        self._sizes = {name: size for name, size in self._sizes.items() if name in self.names or name in held}

    def let_go(self, dead: Sequence[Path]) -> list[Path]:
        """Of the files that are dead, those that were held included, the ones that may go."""
        names, every = self.names, [*self._held, *dead]
        self._held = [path for path in every if path.name in names]
        self.held_bytes = sum(self._sizes.get(path.name, 0) for path in self._held)
        return [path for path in every if path.name not in names]
