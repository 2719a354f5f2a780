"""A dead segment is written over: faster than a new one, and never mistaken for what it was."""

from __future__ import annotations

from pathlib import Path

from journal import JournalOptions, OsFiles
from journal.format import unpack_segment_header
from journal.scan import SegmentScan
from tests.journal.harness import DIRECTORY, SMALL, Opened, SimulatedDisk, Watched, segments

RECORD = bytes(3000)


def nothing(stream: int, first: int, stop: int) -> int:
    return 0


def spares(disk: SimulatedDisk) -> list[str]:
    return [name for name in disk.names(DIRECTORY) if name.startswith("spare-")]


def filled(count: int, options: JournalOptions = SMALL) -> Opened:
    """A journal of ``count`` dead segments, and the one that is being written."""
    opened = Opened(SimulatedDisk(), options)
    for number in range(count + 1):
        opened.items(1, number, 1, RECORD)
    opened.run()
    return opened


def test_dead_segments_become_spare_ones_and_no_more_than_are_wanted() -> None:
    opened = filled(6)
    assert len(segments(opened.disk)) == 7
    opened.checkpoint(live=nothing)
    assert len(segments(opened.disk)) == 1
    assert len(spares(opened.disk)) == 2
    assert [name for name in opened.disk.names(DIRECTORY) if name.endswith(".index")] == []
    assert opened.journal.statistics().spare_segments == 2


def test_without_spares_wanted_they_are_removed() -> None:
    options = JournalOptions(segment_bytes=4096, spare_segments=0)
    opened = filled(6, options)
    opened.checkpoint(live=nothing)
    assert spares(opened.disk) == []
    assert len(segments(opened.disk)) == 1


def test_a_spare_segment_is_renamed_with_a_header_of_its_own_and_takes_no_new_room() -> None:
    opened = filled(3)
    opened.checkpoint(live=nothing)
    before = len(spares(opened.disk))
    watched = Watched(opened.disk)
    opened.journal._writer._files = watched  # type: ignore[union-attr]
    opened.items(1, 10, 1, RECORD)
    opened.run()
    assert len(spares(opened.disk)) == before - 1
    assert watched.calls["create"] == 2, "those of the index and of the note; no segment is created"
    newest = segments(opened.disk)[-1]
    header = unpack_segment_header(opened.disk.content(DIRECTORY / newest)[:48])
    assert header.recycled
    assert 0 not in header.mark


def test_records_of_an_earlier_life_never_come_back() -> None:
    opened = Opened(SimulatedDisk())
    first = 0
    for life in range(6):
        for _ in range(20):
            opened.items(1, first, 1, b"life %d " % life * 20)
            first += 1
        opened.run()
        opened.checkpoint(b"%d" % life, live=nothing)
        lsn = opened.journal.next_lsn
        opened.items(1, first, 1, b"only this")
        first += 1
        opened.run()
        opened = opened.killed()
        assert [(number, payload[16:]) for number, _, payload in opened.replayed] == [(lsn, b"only this")]
        assert opened.reports == [], "old contents behind the end are no torn write"


def test_old_records_at_the_very_place_where_new_ones_follow_are_not_taken_for_them() -> None:
    """Same sizes, so every record of the old life begins where one of the new life would."""
    opened = Opened(SimulatedDisk())
    for number in range(30):
        opened.event(b"%028d" % number * 10)
    opened.run()
    opened.checkpoint(live=nothing)
    while not any(
        unpack_segment_header(opened.disk.content(DIRECTORY / name)[:48]).recycled for name in segments(opened.disk)
    ):
        opened.event(b"%028d" % 99 * 10)
        opened.run()
    again = opened.killed()
    assert again.replayed
    assert {payload for _, _, payload in again.replayed} == {b"%028d" % 99 * 10}
    with SegmentScan(again.disk, DIRECTORY / segments(again.disk)[-1]) as scan:
        assert sum(1 for _ in scan.records()) < 12, "the file still has room, and behind the end stand old records"


def test_a_torn_write_in_a_recycled_file_is_cut_and_said() -> None:
    opened = filled(3)
    opened.checkpoint(live=nothing)
    opened.items(1, 10, 1, RECORD)
    opened.run()
    path = DIRECTORY / segments(opened.disk)[-1]
    opened.event(b"t" * 500)
    opened.run()
    content = bytearray(opened.disk.content(path))
    offset = 48 + 28 + 16 + 3000
    content[offset + 300] ^= 1
    disk = opened.disk.restart()
    disk.replace(path, bytes(content))
    again = Opened(disk)
    (report,) = again.reports
    assert f"offset {offset}" in report
    assert [lsn for lsn, _, _ in again.replayed] == [5]


def test_spares_that_a_start_finds_are_used_and_surplus_ones_removed() -> None:
    opened = filled(4)
    opened.checkpoint(live=nothing)
    again = opened.killed(JournalOptions(segment_bytes=4096, spare_segments=1))
    assert len(spares(again.disk)) == 1
    again.items(1, 20, 1, RECORD)
    again.run()
    assert spares(again.disk) == []
    assert again.killed().replayed[-1][0] == 6


def test_ids_are_never_used_again() -> None:
    seen: set[str] = set()
    opened = Opened(SimulatedDisk())
    first = 0
    for _ in range(5):
        for _ in range(4):
            opened.items(1, first, 1, RECORD)
            first += 1
        opened.run()
        now = {name.split("-")[1] for name in segments(opened.disk)}
        assert not (now - {max(seen, default="")}) & seen
        seen |= now
        opened.checkpoint(live=nothing)
        opened = opened.closed()


def test_disk_used_stays_near_what_is_stored(tmp_path: Path) -> None:
    opened = Opened(OsFiles(), JournalOptions(), tmp_path)
    for number in range(30):
        opened.items(1, number, 1, bytes(100_000))
    opened.run()
    used = sum(path.stat().st_blocks * 512 for path in tmp_path.iterdir())
    assert used <= 9 << 20, "3 MB stored, and one step of 8 MiB allocated"
    opened.journal.close()
