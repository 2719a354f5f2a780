"""Giving disk back: which segments nobody wants, and which neighbours hold so little that they are better combined.

What is wanted the caller knows; it is asked for ranges, never for single items of a long row.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, TypeAlias

from journal.catalog import Catalog
from journal.errors import JournalDamagedError
from journal.files import Files
from journal.format import RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SEVERAL_VERSION, StreamRows
from journal.names import index_name, parse_segment, spare_name
from journal.options import JournalOptions
from journal.segment import Segment

Live: TypeAlias = Callable[[int, int, int], int]
"""(stream, first, stop) -> how many items first <= n < stop are still wanted; 0 of a stream that is not known."""

MOST_SOURCES = 32
"""Segments combined at a time: they are copied in one go, between two checkpoints."""
MANY_SOURCES = 4
"""So many small segments are combined even where it frees less than half of them: their number is a cost too."""
MOST_QUESTIONS = 20_000
"""Calls of ``live`` while one combination is planned; what remains unasked counts as wanted."""
QUESTIONS_A_STEP = 256
"""Calls of ``live`` in one step: a millisecond of the caller's thread, or less."""


class Combination(NamedTuple):
    """Neighbours, and of each the rows of the records that are copied, by stream."""

    sources: tuple[Segment, ...]
    wanted: tuple[dict[int, StreamRows], ...]


def weigh(segments: Iterable[Segment], live: Live) -> Generator[None, None, list[tuple[Segment, int]]]:
    """Each sealed segment with the bytes of it that are wanted, in proportion to its wanted items; 0 where it is dead.

    In steps, as all here: what is dead in one stays dead. It is an estimate; the records to copy are chosen one by one.
    """
    weighed = []
    asked = 0
    for segment in segments:
        summary = segment.summary
        if summary is None:
            continue
        wanted = most = 0
        for stream, first, stop, items, size in zip(
            summary.stream, summary.first, summary.stop, summary.items, summary.bytes, strict=True
        ):
            asked += 1
            if asked % QUESTIONS_A_STEP == 0:
                yield
            # Rounded up: one wanted item of a million keeps its segment.
            wanted_by_one = -(-size * min(live(stream, first, stop), items) // items)
            wanted += wanted_by_one
            most = max(most, wanted_by_one)
        held = sum(summary.bytes)
        if held > segment.end:
            # What several streams hold alike is counted for each of them, and stands there once.
            wanted = max(most, -(-wanted * segment.end // held))
        weighed.append((segment, min(wanted, segment.end)))
    return weighed


def plan_combination(
    catalog: Catalog,
    weighed: Sequence[tuple[Segment, int]],
    live: Live,
    options: JournalOptions,
    report: Callable[[str], None],
) -> Generator[None, None, Combination | None]:
    """The first neighbours that are worth combining, or None.

    Each has less than ``compact_below`` of a segment wanted, all of that fits one segment, and half of what they take is freed.
    ``report`` is told of one whose records cannot be found for damage; it is not considered again.
    """
    limit = options.compact_below * options.segment_bytes
    run: list[Segment] = []
    total = reached = 0
    for segment, wanted in [*weighed, (None, 0)]:
        # Repairs once left segments whose records lie between those of others: copied one behind the other they would not be found.
        between = segment is not None and segment.header.first_lsn < reached
        reached = reached if segment is None else max(reached, segment.stop_lsn)
        fits = (
            segment is not None
            and not segment.busy
            and not segment.stuck
            and wanted < limit
            and total + wanted <= options.segment_bytes - SEGMENT_HEADER_BYTES
            and len(run) < MOST_SOURCES
            and not between
        )
        if not fits:
            if _worth_it(run, total):
                found = yield from _choose(catalog, run, live, options, report)
                if found is not None:
                    return found
            run, total = [], 0
            if segment is None or between or segment.busy or segment.stuck or wanted >= limit:
                continue
        assert segment is not None
        run.append(segment)
        total += wanted
    return None


def discard(files: Files, directory: Path, paths: Iterable[Path], spares: deque[Path], options: JournalOptions) -> None:
    """Make dead segments spare ones, as many as are wanted, and remove the others; with their indexes.

    Only once the checkpoint that does not list them is durable.
    """
    made_spare: list[Path] = []
    for path in paths:
        named = parse_segment(path.name)
        assert named is not None
        if len(spares) + len(made_spare) < options.spare_segments:
            spare = directory / spare_name(named[1])
            files.rename(path, spare)
            made_spare.append(spare)
        else:
            files.unlink(path)
        try:
            files.unlink(directory / index_name(path.stem))
        except FileNotFoundError:
            continue  # it was never written, or removed as damaged
    files.sync_directory(directory)
    spares.extend(made_spare)


def _worth_it(run: Sequence[Segment], wanted: int) -> bool:
    taken = sum(segment.end for segment in run)
    return len(run) >= 2 and (len(run) >= MANY_SOURCES or wanted * 2 <= taken)


def _choose(
    catalog: Catalog, run: Sequence[Segment], live: Live, options: JournalOptions, report: Callable[[str], None]
) -> Generator[None, None, Combination | None]:
    """The very records to copy: whole ones with a wanted item. They may take more than was estimated, so fewer sources may fit."""
    questions = Questions(live)
    room = options.segment_bytes - SEGMENT_HEADER_BYTES
    sources: list[Segment] = []
    wanted: list[dict[int, StreamRows]] = []
    for segment in run:
        # Its rows may have to be read: those of one segment in one step, not of all of them.
        yield
        chosen: dict[int, StreamRows] = {}
        try:
            all_rows = catalog.rows(segment)
        except JournalDamagedError as damage:
            segment.stuck = True
            report(f"segments could not be combined, and are left as they are: {damage}")
            return None
        for stream, rows in all_rows.items():
            numbers = yield from questions.wanted_rows(stream, rows)
            if numbers:
                chosen[stream] = _select(rows, numbers)
        room -= _taken_by(segment, all_rows, chosen)
        if room < 0:
            break
        sources.append(segment)
        wanted.append(chosen)
    taken = options.segment_bytes - SEGMENT_HEADER_BYTES - room
    if not any(wanted) or (len(sources) < len(run) and not _worth_it(sources, taken)):
        return None
    return Combination(tuple(sources), tuple(wanted))


def _taken_by(segment: Segment, all_rows: Mapping[int, StreamRows], chosen: Mapping[int, StreamRows]) -> int:
    """Bytes of the records that are chosen, or somewhat more."""
    if segment.header.version < SEVERAL_VERSION:
        return sum(RECORD_HEADER_BYTES * len(rows.firsts) + sum(rows.lengths) for rows in chosen.values())
    # A record of several streams is copied whole, for whichever of them: up to where the next one with items begins.
    wanted = {offset for rows in chosen.values() for offset in rows.offsets}
    starts = sorted({offset for rows in all_rows.values() for offset in rows.offsets})
    return sum(stop - start for start, stop in pairwise([*starts, segment.end]) if start in wanted)


def _select(rows: StreamRows, numbers: Sequence[int]) -> StreamRows:
    """The rows of these numbers, in columns of their own: the others need not stay in memory."""
    return StreamRows(*(array(column.typecode, [column[number] for number in numbers]) for column in rows))


class Questions:
    """Finds the rows with a wanted item by halving, which for the usual long stretches takes few questions: ``most`` of them in all."""

    def __init__(self, live: Live, most: int = MOST_QUESTIONS) -> None:
        self._live = live
        self._left = most

    def wanted_rows(self, stream: int, rows: StreamRows) -> Generator[None, None, list[int]]:
        """The numbers of the rows, ascending, in steps; rows that nobody could be asked about are among them."""
        wanted: list[int] = []
        pending = [(0, len(rows.firsts))]
        while pending:
            start, stop = pending.pop()
            self._left -= 1
            if self._left % QUESTIONS_A_STEP == 0:
                yield
            if self._left >= 0:
                count = self._live(stream, rows.firsts[start], rows.firsts[stop - 1] + rows.counts[stop - 1])
                if count == 0:
                    continue
                if stop - start > 1 and count < sum(rows.counts[start:stop]):
                    middle = (start + stop) // 2
                    pending += ((middle, stop), (start, middle))
                    continue
            wanted += range(start, stop)
        return wanted
