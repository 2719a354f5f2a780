"""What a checkpoint brings with it: dead segments are given back, and neighbours that hold little are combined.

The first half of each step runs on the thread that appends and owns the catalog, the second on the journal's worker. A file is
removed only when a checkpoint that does not list it is durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from journal.catalog import Catalog
from journal.checkpoint import drop_old_checkpoints, write_checkpoint
from journal.checkpoint_format import Checkpoint
from journal.compaction import Combined, combine
from journal.errors import JournalDamagedError
from journal.files import Files
from journal.options import JournalOptions
from journal.pins import Pins
from journal.reclaim import Combination, Live, discard, plan_combination, weigh
from journal.reserve import has_reserve, keep_reserve
from journal.segment import Segment

Keeps: TypeAlias = Callable[[Segment], bool]


class Housekeeping:
    """One checkpoint and one combination at a time.

    Attributes:
        checkpointing: a checkpoint is under way, from its preparation until it is durable.
        stored: the newest checkpoint that is durable, without its payload; None where nobody has said of one since the start.
        reserved: the reserve is there.
        pins: what must stay though it is dead.
    """

    def __init__(
        self,
        files: Files,
        directory: Path,
        options: JournalOptions,
        catalog: Catalog,
        spares: deque[Path],
        report: Callable[[str], None],
    ) -> None:
        self.checkpointing = False
        self.stored: Checkpoint | None = None
        self.reserved = has_reserve(files, directory)
        self.pins = Pins(catalog)
        self._files = files
        self._directory = directory
        self._options = options
        self._catalog = catalog
        self._spares = spares
        self._report = report
        self._combining = False
        self._combined: Combined | None = None
        self._dead: list[Path] = []
        self._gone: list[Segment] = []
        self._combination: Combination | None = None

    # On the thread that appends.

    def prepare(self, live: Live, keeps: Keeps | None = None) -> Iterator[None]:
        """Find what is dead and choose what to combine, step by step, before a checkpoint is cut.

        ``keeps`` says of which segments neither is to be done, whatever is live: those are the last ones.
        """
        self._dead = self._adopt()
        self._combination = None
        segments = self._catalog.segments
        if keeps is not None:
            # Those that are sealed from here on hold records that nobody was asked about.
            segments = [segment for segment in segments if segment.sealed and not keeps(segment)]
        weighed = yield from weigh(segments, live)
        self._gone = [segment for segment, wanted in weighed if not wanted and not segment.busy]
        if not self._combining:
            weighed = [(segment, wanted) for segment, wanted in weighed if wanted]
            self._combination = yield from plan_combination(self._catalog, weighed, live, self._options, self._report)

    def cut(self, lsn: int) -> tuple[list[Path], Combination | None]:
        """Take out of the catalog what `prepare` found dead, for a checkpoint before the record ``lsn``.

        Returns: the files to remove behind the checkpoint, and what `combine` is to do then, or None.
        """
        self._catalog.remove(self._gone)
        self._catalog.trim()
        self.pins.cut(lsn)
        dead = self._dead + [segment.path for segment in self._gone]
        self._dead, self._gone = [], []
        if self._combination is not None:
            self._combining = True
            for source in self._combination.sources:
                source.busy = True
        return dead, self._combination

    def _adopt(self) -> list[Path]:
        """Put a segment that was combined in the place of its sources, which are dead once a checkpoint says so."""
        combined, self._combined = self._combined, None
        if combined is None:
            return []
        self._combining = False
        for source in combined.sources:
            source.busy = False
            source.stuck = combined.segment is None
        if combined.segment is None:
            return []
        self._catalog.replace(combined.sources, combined.segment)
        return [source.path for source in combined.sources]

    # On the journal's worker.

    def write(self, checkpoint: Checkpoint, dead: Sequence[Path], done: Callable[[], None] | None) -> None:
        """Have the checkpoint durable, then remove what it does not list."""
        write_checkpoint(self._files, self._directory, checkpoint)
        self.stored = checkpoint._replace(payload=None)
        drop_old_checkpoints(self._files, self._directory, self.pins.names)
        if gone := self.pins.let_go(dead):
            discard(self._files, self._directory, gone, self._spares, self._options)
        self.reserved = keep_reserve(self._files, self._directory, self._options.reserve_bytes)
        self.checkpointing = False
        if done is not None:
            done()

    def combine(self, combination: Combination, segment_id: int) -> None:
        """Copy; the next `tidy` takes what came of it. A source that is damaged is left alone, and reading it says so."""
        try:
            self._combined = combine(self._files, self._directory, combination, segment_id)
        except JournalDamagedError as damage:
            self._report(f"segments could not be combined, and are left as they are: {damage}")
            self._combined = Combined(combination.sources, None)
