"""Streams that share one numbering: which of them holds an item, and where a stream goes on, against a list that knows every item."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from journal import Journal, JournalOptions, ManualCommitter

STREAMS = range(3, 8)
SEGMENT_BYTES = 2048


class Shared:
    """A journal in which numbers are items of some of ``STREAMS``, and the same as a list: stream, first, stop of each record."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.records: list[tuple[int, int, int]] = []
        self.gone: set[int] = set()
        self.next = 0
        self.open()

    def open(self) -> None:
        self.committer = ManualCommitter()
        self.journal = Journal.open(self._folder, JournalOptions(segment_bytes=SEGMENT_BYTES))
        self.journal.start(lambda _lsn: None, lambda _error: None, self.committer)

    def add(self, stream: int, count: int) -> None:
        self.journal.append_items(1, stream, self.next, count, [b"x" * 20])
        self.records.append((stream, self.next, self.next + count))
        self.next += count

    def live(self, stream: int, first: int, stop: int) -> int:
        wanted = [range(low, high) for of, low, high in self.records if of == stream and low not in self.gone]
        return sum(max(0, min(stop, each.stop) - max(first, each.start)) for each in wanted)

    def give_back(self) -> None:
        """What is gone leaves the disk where its segment is dead, or is combined with others."""
        for _ in range(3):
            self.journal.checkpoint(b"", self.live)
            self.committer.run()

    def reopen(self) -> None:
        self.committer.run()
        self.journal.close()
        self.open()

    def there(self) -> list[tuple[int, int, int]]:
        """The records that the journal still has, which may be some that are gone."""
        found = []
        for record in self.records:
            located = self.journal.locate(record[0], record[1])
            assert located is not None or record[1] in self.gone
            if located is not None:
                found.append(record)
        return found


@pytest.mark.parametrize("seed", range(6))
def test_what_is_answered_of_streams_that_share_numbers_is_what_a_list_says(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    shared = Shared(tmp_path / "data")
    for step in range(4):
        for _ in range(150):
            # Some streams come seldom, one never.
            shared.add(random_.choice((3, 3, 3, 4, 4, 5, 7 if step == 2 else 3)), random_.choice((1, 1, 2, 9)))
        shared.gone |= {first for _, first, _ in random_.sample(shared.records, len(shared.records) // 2)}
        if step % 2:
            shared.give_back()
        if step == 2:
            shared.reopen()
        check(shared, random_)
    shared.reopen()
    check(shared, random_)
    shared.journal.close()


def check(shared: Shared, random_: random.Random) -> None:
    journal, there = shared.journal, shared.there()
    assert len(there) < len(shared.records) or not shared.gone or len(shared.records) < 200
    for position in random_.sample(range(shared.next + 5), 120):
        holder = next(((s, low, high) for s, low, high in there if low <= position < high), None)
        found = journal.holder(STREAMS, position)
        assert (None if found is None else (found[0], found[1].first, found[1].stop)) == holder
        stop = position + random_.choice((1, 3, 40, 500))
        assert [(s, each.first, each.stop) for s, each in journal.spans_of_all(STREAMS, position, stop)] == [
            record for record in there if record[1] < stop and position < record[2]
        ]
        for stream in STREAMS:
            mine = [(low, high) for of, low, high in there if of == stream]
            following = next((low for low, high in mine if high > position), None)
            assert journal.nearest(stream, position) == following
            count = sum(max(0, min(stop, high) - max(position, low)) for low, high in mine)
            assert journal.items_within(stream, position, stop) == count
    for stream, first, _ in random_.sample(there, min(60, len(there))):
        before = [high for of, low, high in there if of == stream and low < first]
        assert journal.stop_before(stream, first) == (before[-1] if before else 0)
