"""Neighbours that hold little are combined; what they hold is found all the while, and their disk comes back."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from journal import JournalDamagedError, JournalOptions, repair, verify
from journal.catalog import Catalog
from journal.format import COMPACTED, unpack_segment_header
from journal.segment import Segment
from tests.journal.harness import DIRECTORY, Opened, SimulatedDisk, segments

OPTIONS = JournalOptions(segment_bytes=8192, spare_segments=0)
COUNT = 60


def kinds(disk: Any) -> list[int]:
    return [unpack_segment_header(disk.content(DIRECTORY / name)[:48]).kind for name in segments(disk)]


class Wanted:
    """Which items of which stream are wanted; counts how often it is asked."""

    def __init__(self, items: set[tuple[int, int]]) -> None:
        self.items = items
        self.asked = 0

    def __call__(self, stream: int, first: int, stop: int) -> int:
        self.asked += 1
        return sum(1 for item in range(first, stop) if (stream, item) in self.items)


def payload(first: int) -> bytes:
    return bytes([first % 256]) * 900


def filled() -> Opened:
    opened = Opened(SimulatedDisk(), OPTIONS)
    for first in range(COUNT):
        opened.items(1 + first % 3, first * 4, 4, payload(first))
        opened.event(b"an event that nobody needs later")
        opened.run()
    return opened


def verify_found(opened: Opened, wanted: Wanted) -> None:
    for stream, item in wanted.items:
        stored = opened.journal.read(stream, item)
        assert item in range(stored.first, stored.stop)
        assert stored.payload == payload(stored.first // 4)
        located = opened.journal.locate(stream, item)
        assert located is not None
        assert located[:2] == stored[:2]


def sparse() -> Wanted:
    """One item of every seventh record."""
    return Wanted({(1 + first % 3, first * 4 + 2) for first in range(0, COUNT, 7)})


def test_sparse_neighbours_become_one_segment_and_give_their_disk_back() -> None:
    opened, wanted = filled(), sparse()
    before = opened.journal.statistics()
    assert before.segments > 6
    opened.checkpoint(live=wanted)
    assert COMPACTED in kinds(opened.disk)
    verify_found(opened, wanted)
    opened.checkpoint(live=wanted)
    verify_found(opened, wanted)
    after = opened.journal.statistics()
    assert after.segments <= 3
    assert after.disk_bytes < before.disk_bytes / 2
    for again in (opened.killed(OPTIONS), opened.closed(OPTIONS)):
        verify_found(again, wanted)
        assert again.journal.statistics().segments <= 3
        assert COMPACTED in kinds(again.disk)


def test_no_step_of_a_preparation_reads_the_rows_of_more_than_one_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, wanted = filled(), sparse()
    read: list[Segment] = []
    rows = Catalog.rows
    monkeypatch.setattr(Catalog, "rows", lambda self, segment: read.append(segment) or rows(self, segment))
    counts = [len(read) for _ in opened.journal.prepare_checkpoint(wanted)]
    counts.append(len(read))
    assert len(read) > 4
    assert all(after - before <= 1 for before, after in pairwise([0, *counts]))


def test_a_crash_between_the_copy_and_the_checkpoint_loses_nothing() -> None:
    opened, wanted = filled(), sparse()
    opened.checkpoint(live=wanted)
    assert COMPACTED in kinds(opened.disk)
    again = opened.killed(OPTIONS)
    verify_found(again, wanted)
    assert COMPACTED not in kinds(again.disk), "no checkpoint lists the copy, so it is removed"
    again.checkpoint(live=wanted)
    again.checkpoint(live=wanted)
    assert again.journal.statistics().segments <= 3
    verify_found(again, wanted)


def test_a_combined_segment_whose_checkpoint_is_gone_is_found_and_set_aside_and_nothing_is_lost() -> None:
    opened, wanted = filled(), sparse()
    opened.checkpoint(live=wanted)
    disk = opened.disk.restart()
    newest = max(name for name in disk.names(DIRECTORY) if name.startswith("checkpoint-"))
    (combined,) = [name for name, kind in zip(segments(disk), kinds(disk), strict=True) if kind == COMPACTED]
    disk.unlink(DIRECTORY / newest)
    disk.sync_directory(DIRECTORY)
    with pytest.raises(JournalDamagedError):
        Opened(disk.restart(), OPTIONS)
    assert [(found.file.name, found.fatal) for found in verify(DIRECTORY, disk)] == [(combined, True)]
    (said,) = repair(DIRECTORY, disk)
    assert combined in said
    assert "nothing in it is damaged" in said
    assert f"superseded-{combined}" in disk.names(DIRECTORY)
    assert not any(name.startswith("damaged-") for name in disk.names(DIRECTORY))
    assert verify(DIRECTORY, disk) == []
    verify_found(Opened(disk, OPTIONS), wanted)


def test_records_are_copied_whole_and_in_order_of_their_lsn() -> None:
    opened, wanted = filled(), sparse()
    opened.checkpoint(live=wanted)
    opened.checkpoint(live=wanted)
    found = sorted((opened.journal.read(stream, item).lsn, stream, item) for stream, item in wanted.items)
    assert [lsn for lsn, _, _ in found] == [1 + 2 * first for first in range(0, COUNT, 7)]
    assert next(opened.journal.spans(1, 0, 240))[:2] == (0, 4)


def test_what_dies_while_it_is_copied_dies_with_the_copy() -> None:
    opened, wanted = filled(), sparse()
    opened.checkpoint(live=wanted)
    wanted.items.clear()
    opened.checkpoint(live=wanted)
    assert opened.journal.statistics().segments == 1
    assert kinds(opened.disk) == [0]
    assert opened.journal.locate(1, 2) is None


def test_a_combined_segment_is_combined_again() -> None:
    opened, wanted = filled(), sparse()
    random = Random(7)
    first = COUNT
    for _ in range(12):
        opened.checkpoint(live=wanted)
        for _ in range(12):
            opened.items(1 + first % 3, first * 4, 4, payload(first))
            if random.random() < 0.1:
                wanted.items.add((1 + first % 3, first * 4 + 1))
            first += 1
        opened.run()
        if wanted.items and random.random() < 0.5:
            wanted.items.remove(random.choice(sorted(wanted.items)))
    opened.checkpoint(live=wanted)
    opened.checkpoint(live=wanted)
    verify_found(opened, wanted)
    wanted_bytes = len(wanted.items) * (900 + 44)
    assert opened.journal.statistics().disk_bytes < 4 * wanted_bytes + 3 * OPTIONS.segment_bytes
    verify_found(opened.killed(OPTIONS), wanted)


def test_full_segments_are_left_alone() -> None:
    opened = filled()
    wanted = Wanted({(1 + first % 3, first * 4) for first in range(COUNT)})
    before = segments(opened.disk)
    opened.checkpoint(live=wanted)
    opened.checkpoint(live=wanted)
    assert segments(opened.disk) == before


def test_with_a_share_of_zero_nothing_is_combined() -> None:
    opened = Opened(SimulatedDisk(), JournalOptions(segment_bytes=8192, compact_below=0.0))
    for first in range(COUNT):
        opened.items(1 + first % 3, first * 4, 4, payload(first))
    opened.run()
    before = segments(opened.disk)
    opened.checkpoint(live=sparse())
    opened.checkpoint(live=sparse())
    assert COMPACTED not in kinds(opened.disk)
    assert len(segments(opened.disk)) == len(before)


def test_long_rows_are_asked_about_in_few_questions() -> None:
    opened = Opened(SimulatedDisk(), JournalOptions(segment_bytes=1 << 17, spare_segments=0))
    for item in range(6000):
        opened.items(1, item, 1, b"small")
    opened.run()
    count = len(segments(opened.disk))
    wanted = Wanted({(1, item) for item in range(6000) if item % 1500 < 40})
    opened.checkpoint(live=wanted)
    assert wanted.asked < 60 * count
    opened.checkpoint(live=wanted)
    for _, item in wanted.items:
        assert opened.journal.read(1, item).payload == b"small"
    assert opened.journal.locate(1, 700) is None


def test_one_stubborn_pattern_costs_a_bounded_number_of_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.reclaim.MOST_QUESTIONS", 50)
    opened, wanted = filled(), sparse()
    opened.checkpoint(live=wanted)
    assert wanted.asked < 50 + 3 * COUNT
    opened.checkpoint(live=wanted)
    verify_found(opened, wanted)


def test_a_damaged_source_is_left_alone_and_said() -> None:
    opened, wanted = filled(), sparse()
    stored = opened.journal.read(1 + 7 % 3, 30)
    name = segments(opened.disk)[[n <= f"{stored.lsn:020d}-g" for n in segments(opened.disk)].index(False) - 1]
    content = bytearray(opened.disk.content(DIRECTORY / name))
    at = content.find(payload(7))
    content[at] ^= 1
    opened.disk.replace(DIRECTORY / name, bytes(content))
    opened.checkpoint(live=wanted)
    assert [name in report for report in opened.reports] == [True]
    assert [n for n in opened.disk.names(DIRECTORY) if n.endswith(".tmp")] == []
    wanted.items.discard((1 + 7 % 3, 30))
    opened.checkpoint(live=wanted)
    opened.checkpoint(live=wanted)
    verify_found(opened, wanted)
    assert len(opened.reports) == 1, "it is not tried again and again"
