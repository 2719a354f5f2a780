"""Items are found by stream and number at all times: before they are written, after, in other segments, and after a start."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import Journal, JournalDamagedError, Located, UnknownItemError, index
from journal.catalog import LOADED_INDEXES, OPEN_FILES
from journal.format import StreamRows
from tests.journal.harness import DIRECTORY, SMALL, Opened, SimulatedDisk, Watched, segments


def loaded(journal: Journal) -> list[Any]:
    return [segment for segment in journal._catalog.segments if segment.rows is not None]


def test_an_item_can_be_read_before_it_is_written() -> None:
    opened = Opened(SimulatedDisk())
    values = array("i", [1, 2, 3])
    lsn = opened.journal.append_items(9, 4, 100, 3, [memoryview(values), b"-", b"tail"])
    for sequence in (100, 101, 102):
        stored = opened.journal.read(4, sequence)
        assert stored[:4] == (100, 103, 9, lsn)
        assert bytes(stored.payload) == values.tobytes() + b"-tail"
    opened.run()
    stored = opened.journal.read(4, 101)
    assert stored[:4] == (100, 103, 9, lsn)
    assert bytes(stored.payload) == values.tobytes() + b"-tail"
    assert opened.journal.locate(4, 102) == Located(100, 103, 17)


def test_an_item_of_one_part_is_read_without_a_copy_before_it_is_written() -> None:
    opened = Opened(SimulatedDisk())
    payload = b"x" * 1000
    opened.items(1, 0, 1, payload)
    assert opened.journal.read(1, 0).payload.obj is payload


class ReadsInSync(Watched):
    """A disk on which somebody reads while a sync is under way."""

    def __init__(self, inner: SimulatedDisk) -> None:
        super().__init__(inner)
        self.reader: Any = None

    def sync(self, file: int) -> None:
        if self.reader is not None:
            self.reader()
        super().sync(file)


def test_what_was_written_and_not_synced_can_be_read() -> None:
    files = ReadsInSync(SimulatedDisk())
    opened = Opened(files)
    opened.items(1, 0, 1, b"x")
    read: list[bytes] = []
    files.reader = lambda: read.append(bytes(opened.journal.read(1, 0).payload))
    before = files.calls["read"]
    opened.run()
    assert read == [b"x"]
    assert files.calls["read"] > before


@pytest.mark.parametrize(("stream", "sequence"), [(1, 9), (1, 12), (1, 14), (1, 21), (2, 10), (1, 2**63)])
def test_an_item_that_was_never_appended_is_unknown(stream: int, sequence: int) -> None:
    opened = Opened(SimulatedDisk())
    opened.items(1, 10, 2, b"a")
    opened.items(1, 15, 6, b"b")
    assert opened.journal.locate(stream, sequence) is None
    with pytest.raises(UnknownItemError, match=f"item {sequence} of stream {stream}") as unknown:
        opened.journal.read(stream, sequence)
    assert isinstance(unknown.value, KeyError)


def test_spans_are_the_records_that_a_range_meets() -> None:
    opened = Opened(SimulatedDisk())
    for first, count in ((0, 5), (5, 5), (20, 3), (23, 1)):
        opened.items(1, first, count, bytes(2000))
    opened.items(2, 0, 100, b"another stream")

    def spans(start: int, stop: int) -> list[tuple[int, int]]:
        return [(found.first, found.stop) for found in opened.journal.spans(1, start, stop)]

    assert spans(0, 100) == [(0, 5), (5, 10), (20, 23), (23, 24)]
    assert spans(4, 6) == [(0, 5), (5, 10)]
    assert spans(5, 10) == [(5, 10)]
    assert spans(10, 20) == []
    assert spans(10, 21) == [(20, 23)]
    assert spans(24, 99) == []
    assert spans(7, 7) == []
    opened.run()
    opened = opened.killed()
    assert spans(0, 100) == [(0, 5), (5, 10), (20, 23), (23, 24)]


def test_spans_go_on_when_segments_come_and_go_meanwhile() -> None:
    opened = Opened(SimulatedDisk())
    for first in range(10):
        opened.items(1, first, 1, bytes(1500))
    opened.run()
    spans = opened.journal.spans(1, 0, 100)
    assert next(spans).first == 0
    opened.checkpoint(live=lambda stream, first, stop: max(0, stop - max(first, 6)))
    for first in range(10, 13):
        opened.items(1, first, 1, bytes(1500))
    assert [found.first for found in spans] == [6, 7, 8, 9, 10, 11, 12]


def test_changed_bytes_are_never_given_out() -> None:
    opened = Opened(SimulatedDisk())
    opened.items(1, 0, 1, b"payload")
    opened.run()
    path = DIRECTORY / segments(opened.disk)[0]
    content = opened.disk.content(path)
    for bit in range(8 * 48, 8 * (48 + 28 + 16 + 7)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        opened.disk.replace(path, bytes(changed))
        with pytest.raises(JournalDamagedError) as damage:
            opened.journal.read(1, 0)
        assert (damage.value.file, damage.value.offset) == (path, 48)
    opened.disk.replace(path, content[:60])
    with pytest.raises(JournalDamagedError, match="ends after"):
        opened.journal.read(1, 0)
    opened.disk.replace(path, content)
    assert opened.journal.read(1, 0).payload == b"payload"


def test_a_segment_whose_file_is_gone_or_another_is_damaged() -> None:
    opened = Opened(SimulatedDisk())
    opened.items(1, 0, 1, b"payload")
    opened.run()
    path = DIRECTORY / segments(opened.disk)[0]
    content = opened.disk.content(path)
    opened.disk.unlink(path)
    with pytest.raises(JournalDamagedError, match="cannot be opened"):
        opened.journal.read(1, 0)
    opened.disk.replace(path, bytes(48) + content[48:])
    with pytest.raises(JournalDamagedError, match="header"):
        opened.journal.read(1, 0)


def many_segments(count: int = 30) -> Opened:
    opened = Opened(SimulatedDisk())
    for first in range(count * 2):
        opened.items(1 + first % 2, first, 1, bytes([first]) * 1800)
        opened.run()
    assert len(segments(opened.disk)) == count
    return opened


def test_rows_are_in_memory_for_few_segments_only_however_many_there_are() -> None:
    opened = many_segments()
    assert len(loaded(opened.journal)) <= LOADED_INDEXES + 2, (
        "the one being written, and the one whose index was not on disk yet"
    )
    for first in range(60):
        assert opened.journal.read(1 + first % 2, first).payload == bytes([first]) * 1800
        assert len(loaded(opened.journal)) <= LOADED_INDEXES + 1
    again = opened.closed()
    assert len(loaded(again.journal)) <= LOADED_INDEXES + 1
    for first in reversed(range(60)):
        assert again.journal.read(1 + first % 2, first).payload == bytes([first]) * 1800
    assert len(loaded(again.journal)) <= LOADED_INDEXES + 1


def test_after_a_start_from_a_checkpoint_no_sealed_segment_is_read_and_no_rows_are_loaded() -> None:
    opened = many_segments()
    opened.checkpoint()
    opened.journal.close()
    watched = Watched(opened.disk.restart())
    journal = Journal.open(DIRECTORY, SMALL, watched)
    assert len(loaded(journal)) == 1
    assert watched.calls["read"] < 3 * 30 + 10, "headers and summaries, not records"


def test_few_files_are_open_however_many_segments_there_are() -> None:
    opened = many_segments()
    for first in range(60):
        opened.journal.read(1 + first % 2, first)
    assert len(opened.disk.open_descriptors()) <= OPEN_FILES + 2
    opened.journal.close()
    assert opened.disk.open_descriptors() == []


@pytest.mark.parametrize("harm", ["missing", "changed", "of another"])
def test_an_index_that_is_missing_or_wrong_is_made_again(harm: str) -> None:
    opened = many_segments(8)
    opened.checkpoint()
    opened.journal.close()
    disk = opened.disk.restart()
    names = [name for name in disk.names(DIRECTORY) if name.endswith(".index")]
    path = DIRECTORY / names[2]
    content = disk.content(path)
    if harm == "missing":
        disk.unlink(path)
    else:
        disk.replace(
            path, disk.content(DIRECTORY / names[3]) if harm == "of another" else content[:70] + b"\xff" + content[71:]
        )
    again = Opened(disk)
    assert [path.name in report for report in again.reports] == [True]
    assert disk.content(path) == content
    for first in range(16):
        assert again.journal.read(1 + first % 2, first).payload == bytes([first]) * 1800


def test_an_index_that_goes_bad_while_it_is_not_loaded_is_made_again_from_the_segment() -> None:
    opened = many_segments(12)
    for name in opened.disk.names(DIRECTORY):
        if name.endswith(".index"):
            opened.disk.replace(DIRECTORY / name, b"gone bad")
    for first in range(24):
        assert opened.journal.read(1 + first % 2, first).payload == bytes([first]) * 1800


def test_a_segment_that_goes_bad_with_its_index_is_damaged_and_the_others_are_read() -> None:
    opened = many_segments(12)
    name = segments(opened.disk)[2]
    path = DIRECTORY / name
    opened.disk.unlink(path.with_suffix(".index"))
    content = bytearray(opened.disk.content(path))
    content[100] ^= 1
    opened.disk.replace(path, bytes(content))
    with pytest.raises(JournalDamagedError, match=name):
        opened.journal.read(1, 4)
    assert opened.journal.read(2, 7).payload == bytes([7]) * 1800


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 20)), min_size=1, max_size=40), st.integers(0, 400))
def test_finding_agrees_with_looking_at_every_record(steps: list[tuple[int, int]], position: int) -> None:
    opened = Opened(SimulatedDisk())
    first = 0
    records: list[tuple[int, int]] = []
    for gap, count in steps:
        first += gap
        opened.items(1, first, count, bytes(700))
        records.append((first, first + count))
        first += count
    opened.run()
    holds = next(((start, stop) for start, stop in records if start <= position < stop), None)
    located = opened.journal.locate(1, position)
    assert (located and located[:2]) == holds
    assert [span[:2] for span in opened.journal.spans(1, position, position + 30)] == [
        (start, stop) for start, stop in records if stop > position and start < position + 30
    ]


def test_columns_of_a_row_take_twenty_bytes() -> None:
    assert sum(column.itemsize for column in StreamRows.empty()) == 20


def test_a_segment_whose_index_is_damaged_is_read_whole_once_and_not_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Opened(SimulatedDisk())
    for item in range(200):
        opened.items(1, item, 1, bytes(300))
        opened.run()
    opened.checkpoint()
    opened.journal.close()
    disk = opened.disk.restart()
    name = next(name for name in disk.names(DIRECTORY) if name.endswith(".index"))
    content = disk.content(DIRECTORY / name)
    disk.replace(DIRECTORY / name, content[:-1] + bytes([content[-1] ^ 1]))
    scans: list[object] = []
    whole = index.rows_by_scan
    monkeypatch.setattr(index, "rows_by_scan", lambda files, segment: scans.append(segment) or whole(files, segment))
    again = Opened(disk)
    assert len(again.journal._catalog.segments) > LOADED_INDEXES + 5
    for _ in range(3):
        for item in range(0, 200, 5):
            assert again.journal.read(1, item).first == item
    assert len(scans) == 1
