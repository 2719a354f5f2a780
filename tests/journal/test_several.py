"""A record that holds items of several streams is there for all of them or for none, and is read under each as if it were alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from journal import (
    FormatError,
    Held,
    JournalDamagedError,
    JournalError,
    JournalFullError,
    JournalOptions,
    JournalUsageError,
    UnknownItemError,
    repair,
    verify,
)
from journal.format import (
    ITEMS,
    SEGMENT_HEADER_BYTES,
    SEVERAL,
    SEVERAL_VERSION,
    VERSION,
    StreamRows,
    unpack_segment_header,
)
from journal.index import add_row
from journal.items import pack_several, part_of, unpack_items_prefix, unpack_several
from journal.names import index_name
from journal.scan import ScannedRecord, SegmentScan
from tests.journal.harness import DIRECTORY, SMALL, Opened, SimulatedDisk, segments

ALIKE = {1: (0, 3, b"alike"), 4: (7, 3, b"alike"), 9: (2, 1, b"another")}


def read(opened: Opened, stream: int, item: int) -> tuple[int, int, bytes]:
    stored = opened.journal.read(stream, item)
    return stored.first, stored.stop, bytes(stored.payload)


def check(opened: Opened, held: dict[int, tuple[int, int, bytes]] = ALIKE) -> None:
    """Each stream has its part, under each of its items, and the size of it is that of the part alone."""
    for stream, (first, items, payload) in held.items():
        for item in range(first, first + items):
            assert read(opened, stream, item) == (first, first + items, payload)
            located = opened.journal.locate(stream, item)
            assert located == (first, first + items, len(payload))
        assert [span.payload_bytes for span in opened.journal.spans(stream, first, first + items)] == [len(payload)]


def said(disk: Any) -> dict[str, tuple[int, bool]]:
    """Of each segment its version, and whether it has records of several streams."""
    found = {}
    for name in segments(disk):
        if not name.startswith(("damaged-", "superseded-")):
            with SegmentScan(disk, DIRECTORY / name) as scan:
                found[name] = (scan.header.version, any(record.flags & SEVERAL for record in scan.records()))
    return found


def versions(disk: Any) -> list[int]:
    found = []
    for name in segments(disk):
        if name.startswith("damaged-"):
            continue
        file = disk.open(DIRECTORY / name)
        found.append(unpack_segment_header(disk.read(file, SEGMENT_HEADER_BYTES, 0)).version)
        disk.close(file)
    return found


def test_every_stream_reads_its_own_part_before_and_after_it_is_written_and_after_a_restart() -> None:
    opened = Opened(SimulatedDisk())
    opened.items(4, 0, 7, b"before")
    lsn = opened.several(ALIKE, b"other")
    assert lsn == 2, "one record, one number"
    check(opened)
    opened.run()
    check(opened)
    opened = opened.killed()
    check(opened)
    (parts, other) = unpack_several(opened.replayed[-1][2])
    assert [(stream, first, items, bytes(part)) for stream, first, items, part in parts] == [
        (stream, *held) for stream, held in ALIKE.items()
    ]
    assert other == b"other"
    assert opened.items(4, 10, 1, b"behind") == 3, "and the items go on behind it"
    check(opened.closed())


def test_what_streams_get_alike_stands_in_the_record_once() -> None:
    sizes = {}
    for alike in (True, False):
        opened = Opened(SimulatedDisk())
        payload = bytes(1000)
        opened.several({n: (0, 1, payload if alike else payload + b"%d" % n) for n in range(3)})
        sizes[alike] = opened.journal.pending_bytes
    assert sizes[True] < 1200 < 3000 < sizes[False]


@pytest.mark.parametrize(
    "held",
    [
        [Held(1, 3, 1, 0), Held(2, 0, 1, 0)],
        [Held(2, 0, 1, 0), Held(2, 5, 1, 0)],
        [Held(2, 0, 0, 0)],
        [Held(2, -1, 1, 0)],
        [Held(2**32, 0, 1, 0)],
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing_for_any_stream(held: list[Held]) -> None:
    opened = Opened(SimulatedDisk())
    opened.items(1, 0, 5, b"x")
    before = (opened.journal.next_lsn, opened.journal.statistics().segments)
    with pytest.raises(JournalUsageError):
        opened.journal.append_several(3, held, [[b"y"]])
    assert (opened.journal.next_lsn, opened.journal.statistics().segments) == before
    assert opened.journal.locate(2, 0) is None
    opened.run()
    opened.closed()


@pytest.mark.parametrize(("limit", "refused"), [("the payload", JournalUsageError), ("what waits", JournalFullError)])
def test_one_that_is_refused_seals_no_segment(
    limit: str, refused: type[JournalError], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Opened(SimulatedDisk(), JournalOptions(max_pending_bytes=200))
    opened.event(b"before")
    before = opened.journal.statistics()
    if limit == "the payload":
        monkeypatch.setattr("journal.journal.MAX_PAYLOAD", 10)
    with pytest.raises(refused):
        opened.several({1: (0, 1, b"x" * (20 if limit == "the payload" else 400))})
    assert opened.journal.statistics() == before
    opened.run()
    opened.closed()


def test_a_write_that_is_torn_anywhere_leaves_it_for_no_stream() -> None:
    opened = Opened(SimulatedDisk())
    opened.items(1, 0, 1, b"first")
    opened.run()
    opened.several({1: (1, 1, b"one"), 2: (0, 2, b"two")}, b"other")
    opened.run()
    name = segments(opened.disk)[-1]
    path = DIRECTORY / name
    opened.journal.abandon()
    disk = opened.disk.restart()
    file = disk.open(path)
    whole = disk.read(file, disk.size(file), 0)
    disk.close(file)
    end = SEGMENT_HEADER_BYTES + len(whole[SEGMENT_HEADER_BYTES:].rstrip(b"\0"))
    for cut in range(SEGMENT_HEADER_BYTES, end):
        torn = disk.restart()
        file = torn.open(path, write=True)
        torn.truncate(file, cut)
        torn.sync(file)
        torn.close(file)
        after = Opened(torn)
        assert read(after, 1, 0) == (0, 1, b"first")
        assert after.journal.locate(1, 1) is None
        assert after.journal.locate(2, 0) is None
        after.journal.abandon()


def test_a_segment_says_by_its_version_that_it_may_hold_such_records_and_others_stay_as_they_were() -> None:
    opened = Opened(SimulatedDisk())
    opened.items(1, 0, 5, b"x")
    opened.journal.append_several(3, [], [], b"no items")
    opened.run()
    assert versions(opened.disk) == [VERSION]
    opened.several(ALIKE | {1: (5, 1, b"z")})
    opened.run()
    assert versions(opened.disk) == [VERSION, SEVERAL_VERSION]
    opened = opened.closed()
    opened.items(1, 6, 1, b"behind")
    opened.several({2: (0, 1, b"again")})
    opened.run()
    assert versions(opened.disk) == [VERSION, SEVERAL_VERSION]
    opened.items(1, 7, 1, bytes(3900))
    opened.several({2: (1, 1, b"once more")})
    opened.run()
    assert versions(opened.disk) == [VERSION, SEVERAL_VERSION, SEVERAL_VERSION], (
        "from there on no segment is cut short for it"
    )


def test_a_record_of_one_stream_may_ask_for_that_version_too() -> None:
    opened = Opened(SimulatedDisk())
    opened.items(1, 0, 5, b"x")
    opened.run()
    for first in (5, 6):
        opened.journal.append_items(2, 1, first, 1, [b"newer"], newer=True)
    opened.items(1, 16, 1, b"behind")
    opened.run()
    assert versions(opened.disk) == [VERSION, SEVERAL_VERSION]
    opened = opened.closed()
    assert [read(opened, 1, item)[2] for item in (0, 5, 6, 16)] == [b"x", b"newer", b"newer", b"behind"]


def test_the_first_record_of_a_directory_may_hold_several_streams() -> None:
    opened = Opened(SimulatedDisk())
    opened.several(ALIKE)
    opened = opened.killed()
    assert opened.journal.locate(1, 0) is None, "it was never written"
    assert opened.several(ALIKE) == 1
    opened.run()
    opened = opened.killed()
    check(opened)
    opened.checkpoint()
    opened = opened.closed()
    check(opened)
    opened.journal.close()
    assert verify(DIRECTORY, opened.disk) == []


def filled(spares: int = 0) -> tuple[Opened, dict[int, dict[int, tuple[int, int, bytes]]]]:
    """A journal of many small segments whose every fourth record holds three streams."""
    opened = Opened(SimulatedDisk(), JournalOptions(segment_bytes=1500, spare_segments=spares))
    several: dict[int, dict[int, tuple[int, int, bytes]]] = {}
    for n in range(40):
        if n % 4 == 0:
            held = {stream: (n, 1, b"%d/%d " % (stream, n) + bytes(60)) for stream in (1, 2, 3)}
            several[opened.several(held, b"other")] = held
        else:
            opened.items(1, n, 1, b"1/%d " % n + bytes(100))
        opened.run()
    return opened, several


def test_indexes_that_are_made_again_by_a_scan_say_the_same() -> None:
    opened, several = filled()
    opened.checkpoint()
    disk = opened.disk
    opened.journal.close()
    for name in segments(disk):
        index = index_name(name.removesuffix(".segment"))
        if index in disk.names(DIRECTORY):
            disk.unlink(DIRECTORY / index)
    again = Opened(disk.restart(), JournalOptions(segment_bytes=1500))
    for held in several.values():
        check(again, held)
    again.journal.close()
    assert verify(DIRECTORY, again.disk) == []


@pytest.mark.parametrize("wanted", [{2}, {2, 3}])
def test_a_record_is_kept_for_any_of_its_streams_and_combined_whole(wanted: set[int]) -> None:
    opened, several = filled()
    before = opened.journal.statistics().segments

    def live(stream: int, first: int, stop: int) -> int:
        # Some streams want what they have of every second record, and the others want nothing any more.
        return sum(n % 8 == 0 for n in range(first, stop)) if stream in wanted else 0

    for _ in range(6):
        opened.checkpoint(live=live)
    assert opened.journal.statistics().segments < before / 2
    assert opened.reports == []
    combined = {version for version, several_there in said(opened.disk).values() if several_there}
    assert combined == {SEVERAL_VERSION}
    for round_ in range(2):
        for held in several.values():
            first = held[2][0]
            if first % 8 == 0:
                check(opened, {stream: held[stream] for stream in wanted})
                # The dead ones beside it are where it is.
                assert read(opened, 1, first) == (first, first + 1, held[1][2])
        if not round_:
            opened.journal.close()
            assert verify(DIRECTORY, opened.disk) == []
            opened = Opened(opened.disk.restart(), JournalOptions(segment_bytes=1500))
    for _ in range(3):
        opened.checkpoint(live=lambda *_: 0)
    with pytest.raises(UnknownItemError):
        opened.journal.read(2, 0)


def test_a_damaged_one_is_lost_to_all_its_streams_and_to_nobody_else() -> None:
    opened, several = filled()
    opened.journal.close()
    disk = opened.disk
    lsn, held = list(several.items())[3]
    needle = held[2][2]
    for name in segments(disk):
        file = disk.open(DIRECTORY / name, write=True)
        content = disk.read(file, disk.size(file), 0)
        at = content.find(needle)
        if at >= 0:
            disk.write(file, [b"X"], at)
            disk.sync(file)
        disk.close(file)
    assert any(f"record {lsn} is lost" in str(finding) for finding in verify(DIRECTORY, disk))
    repair(DIRECTORY, disk)
    assert verify(DIRECTORY, disk) == []
    again = Opened(disk.restart(), JournalOptions(segment_bytes=1500))
    for other, kept in several.items():
        if other == lsn:
            for stream, (first, _, _) in kept.items():
                assert again.journal.locate(stream, first) is None
        else:
            check(again, kept)


def test_segments_that_are_combined_fit_one_however_little_of_each_record_is_wanted() -> None:
    opened = Opened(SimulatedDisk(), JournalOptions(segment_bytes=1500, spare_segments=0))
    for n in range(30):
        # Of 900 bytes only one small part is wanted.
        opened.several({1: (n, 1, b"%d" % n), 2: (n, 1, bytes(400)), 3: (n, 1, b"x" * 400)})
        opened.run()
    for _ in range(6):
        opened.checkpoint(live=lambda stream, first, stop: stop - first if stream == 1 else 0)
    for name in said(opened.disk):
        file = opened.disk.open(DIRECTORY / name)
        assert opened.disk.size(file) <= 1500
        opened.disk.close(file)
    for n in range(30):
        assert read(opened, 1, n) == (n, n + 1, b"%d" % n)


def test_one_whose_items_come_twice_for_one_stream_is_impossible_for_all() -> None:
    rows: dict[int, StreamRows] = {}
    for offset, held in ((0, {1: (0, 3), 2: (5, 1)}), (100, {1: (3, 1), 2: (5, 1), 4: (0, 1)})):
        packed = pack_several([Held(stream, *items, 0) for stream, items in held.items()], [[b"x"]], b"")
        record = ScannedRecord(offset, 1, 3, SEVERAL, 0, 1, memoryview(b"".join(packed.buffers)))
        if offset:
            with pytest.raises(JournalDamagedError, match="items of stream 2 from 5 on come twice"):
                add_row(rows, record, DIRECTORY)
        else:
            add_row(rows, record, DIRECTORY)
    assert {stream: list(columns.firsts) for stream, columns in rows.items()} == {1: [0], 2: [5]}


@pytest.mark.parametrize("alone", [False, True])
def test_what_repair_finds_again_in_another_file_makes_the_segment_one_of_its_version(alone: bool) -> None:
    opened = Opened(SimulatedDisk(), JournalOptions(segment_bytes=1500, spare_segments=0))
    for n in range(12):
        opened.items(1, n, 1, bytes(100))
    for n in range(60):
        payloads = {stream: b"%d/%d " % (stream, n) + bytes(100) for stream in (2, 3)}
        if alone:
            for stream, payload in payloads.items():
                opened.journal.append_items(2, stream, n, 1, [payload], newer=True)
        else:
            opened.several({stream: (n, 1, payload) for stream, payload in payloads.items()})
        opened.run()
    for _ in range(4):
        opened.checkpoint(live=lambda stream, first, stop: sum(n % 6 == 0 or stream == 1 for n in range(first, stop)))
    opened.journal.close()
    disk = opened.disk
    assert any("-" in name for name in disk.names(DIRECTORY))
    for name in disk.names(DIRECTORY):
        if name.startswith("checkpoint-"):
            disk.unlink(DIRECTORY / name)
    told = repair(DIRECTORY, disk)
    assert any("empty ones stand for those that no other file has" in line for line in told)
    assert verify(DIRECTORY, disk) == []
    found = said(disk)
    assert all(version == SEVERAL_VERSION for version, several in found.values() if several), found
    assert len(set(found.values())) > 1
    for name, (version, _) in found.items():
        with SegmentScan(disk, DIRECTORY / name) as scan:
            streams = {unpack_items_prefix(record.payload)[0] for record in scan.records() if record.flags & ITEMS}
        assert version == SEVERAL_VERSION or streams <= {1}, (name, streams)
    again = Opened(disk.restart(), JournalOptions(segment_bytes=1500))
    for n in range(0, 60, 6):
        for stream in (2, 3):
            assert read(again, stream, n)[2].startswith(b"%d/%d " % (stream, n))


@pytest.mark.parametrize("broken", ["mark", "all"])
def test_a_segments_header_that_is_made_again_has_its_version(broken: str) -> None:
    opened = Opened(SimulatedDisk(), SMALL)
    opened.several(ALIKE)
    opened.items(1, 3, 1, b"more")
    opened.items(1, 4, 1, b"and more")
    opened.journal.close()
    disk = opened.disk
    name = segments(disk)[-1]
    file = disk.open(DIRECTORY / name, write=True)
    disk.write(file, [bytes(1 if broken == "mark" else SEGMENT_HEADER_BYTES)], 0)
    disk.sync(file)
    disk.close(file)
    repair(DIRECTORY, disk)
    assert verify(DIRECTORY, disk) == []
    assert SEVERAL_VERSION in versions(disk)
    check(Opened(disk.restart()))


@given(st.binary(max_size=200))
def test_bytes_that_are_no_such_payload_are_an_error_of_the_format(payload: bytes) -> None:
    try:
        parts, _ = unpack_several(payload)
    except FormatError:
        return
    assert len(parts) * 24 + 8 <= len(payload)


@given(
    st.dictionaries(
        st.integers(0, 2**32 - 1), st.tuples(st.integers(0, 2**40), st.integers(1, 1000), st.integers(0, 3))
    ),
    st.lists(st.lists(st.binary(max_size=20), max_size=3), min_size=4, max_size=4),
    st.binary(max_size=30),
)
def test_a_payload_comes_back_as_it_was(
    rows: dict[int, tuple[int, int, int]], parts: list[list[bytes]], other: bytes
) -> None:
    held = [Held(stream, *row) for stream, row in rows.items()]
    packed = pack_several(held, parts, other)
    payload = b"".join(packed.buffers)
    assert packed.length == len(payload)
    found, rest = unpack_several(payload)
    assert rest == other
    assert [(stream, first, items, bytes(part)) for stream, first, items, part in found] == [
        (row.stream, row.first, row.items, b"".join(parts[row.part])) for row in sorted(held)
    ]
    assert packed.lengths == [len(part) for _, _, _, part in found]
    assert [part_of(payload, row.stream) for row in found] == found
    assert all(part_of(payload, row.stream + 1) is None for row in found if row.stream + 1 not in rows)
    for cut in range(min(len(payload), 8 + 24 * len(held) + len(other))):
        with pytest.raises(FormatError):
            unpack_several(payload[:cut])
