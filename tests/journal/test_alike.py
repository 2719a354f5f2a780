"""What several streams hold alike is weighed once, combined once, and says where it is and whose it is when it is read."""

from __future__ import annotations

import pytest

from journal import JournalOptions, verify
from journal.reclaim import weigh
from tests.journal.harness import DIRECTORY, Opened, SimulatedDisk

STREAMS = range(1, 11)
RECORDS = 60
OPTIONS = JournalOptions(segment_bytes=32_768, spare_segments=0)


def filled(others: bool = False) -> Opened:
    """Ten streams hold the same records; with ``others`` an eleventh has its own between them."""
    opened = Opened(SimulatedDisk(), OPTIONS)
    for number in range(RECORDS):
        opened.several(dict.fromkeys(STREAMS, (number, 1, b"%03d" % number * 1000)))
        if others:
            opened.items(11, number, 1, bytes(3_000))
        opened.run()
    return opened


def weighed(opened: Opened, wanted: dict[int, range]) -> list[tuple[int, int, int]]:
    """Of each sealed segment: what it weighs, what its wanted records take, and its size."""

    def live(stream: int, first: int, stop: int) -> int:
        return len([n for n in range(first, stop) if n in wanted.get(stream, ())])

    steps = weigh(opened.journal._catalog.segments, live)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found = end.value
            break
    rows = []
    for segment, weight in found:
        rows_of = opened.journal._catalog.rows(segment)
        starts = sorted({offset for columns in rows_of.values() for offset in columns.offsets})
        stops = dict(zip(starts, [*starts, segment.end][1:], strict=True))
        chosen = {
            offset
            for stream, columns in rows_of.items()
            for first, offset in zip(columns.firsts, columns.offsets, strict=True)
            if first in wanted.get(stream, ())
        }
        if starts:
            rows.append((weight, sum(stops[offset] - offset for offset in chosen), segment.end))
    return rows


@pytest.mark.parametrize("streams", [[3], [3, 7], list(STREAMS)])
@pytest.mark.parametrize("wanted", [range(RECORDS), range(30, RECORDS), range(0), range(17, 18)])
def test_a_segment_weighs_what_its_wanted_records_take_however_many_streams_want_them(
    streams: list[int], wanted: range
) -> None:
    opened = filled()
    found = weighed(opened, dict.fromkeys(streams, wanted))
    assert len(found) > 3
    for weight, taken, size in found:
        assert taken * 0.9 <= weight <= min(size, taken * 1.1 + 100)
        assert (weight == 0) == (taken == 0)


def test_what_one_stream_has_beside_it_weighs_what_it_takes() -> None:
    opened = filled(others=True)
    for weight, taken, size in weighed(opened, {11: range(RECORDS)}):
        assert taken * 0.9 <= weight <= size
    wanted = dict.fromkeys(STREAMS, range(RECORDS)) | {11: range(RECORDS)}
    assert all(weight >= size * 0.95 for weight, _, size in weighed(opened, wanted))


def test_what_ten_streams_have_left_of_many_segments_is_combined_into_few() -> None:
    opened = filled()
    before = opened.journal.statistics()
    for _ in range(6):
        opened.checkpoint(live=lambda _, first, stop: sum(n % 5 == 0 for n in range(first, stop)))
    after = opened.journal.statistics()
    assert after.segments < before.segments / 2
    assert after.disk_bytes < before.disk_bytes / 2
    for stream in STREAMS:
        for number in range(0, RECORDS, 5):
            assert bytes(opened.journal.read(stream, number).payload) == b"%03d" % number * 1_000
    opened.journal.close()
    assert verify(DIRECTORY, opened.disk) == []


def test_who_reads_learns_where_the_record_is_and_who_has_the_same() -> None:
    opened = Opened(SimulatedDisk(), OPTIONS)
    opened.several({4: (0, 2, b"alike"), 2: (5, 2, b"alike"), 3: (1, 1, b"another")})
    opened.items(2, 7, 1, b"alone")
    for again in (False, True):
        if again:
            opened = opened.closed(OPTIONS)
        else:
            shared = opened.journal.read(2, 5)
            opened.run()
        place = opened.journal.place(2, 6)
        assert place is not None
        for stream, item, alike in ((2, 6, (2, 4)), (4, 0, (2, 4)), (3, 1, (3,))):
            stored = opened.journal.read(stream, item)
            assert (stored.alike, stored.place) == (alike, place)
            assert opened.journal.place(stream, item) == place
        alone = opened.journal.read(2, 7)
        assert alone.alike == ()
        assert alone.place == opened.journal.place(2, 7) != place
        assert opened.journal.place(2, 8) is None
        assert opened.journal.read(2, 5) == shared
