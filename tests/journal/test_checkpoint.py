"""A checkpoint stands for every record before it, and only then is anything removed."""

from __future__ import annotations

from typing import Any

import pytest

from journal import Journal, JournalDamagedError, JournalOptions, JournalUsageError
from journal.checkpoint import KEPT_CHECKPOINTS
from journal.checkpointing import SEALED_SEGMENTS_DUE
from tests.journal.harness import DIRECTORY, SMALL, Opened, SimulatedDisk, Watched, segments


def checkpoints(disk: Any) -> list[str]:
    return [name for name in disk.names(DIRECTORY) if name.startswith("checkpoint-")]


def test_only_records_behind_the_checkpoint_are_replayed() -> None:
    opened = Opened(SimulatedDisk())
    opened.event(b"contained")
    opened.checkpoint(b"state of one")
    opened.event(b"behind")
    opened.run()
    for again in (opened.killed(), opened.closed()):
        assert again.journal.checkpoint_payload == b"state of one"
        assert again.replayed == [(2, 1, b"behind")]


def test_records_behind_the_checkpoint_are_replayed_by_every_start_until_the_next_one() -> None:
    opened = Opened(SimulatedDisk())
    opened.checkpoint(b"early")
    for number in range(10):
        opened.event(bytes([number]) * 1500)
        opened.run()
    for _ in range(4):
        opened = opened.killed()
        assert [lsn for lsn, _, _ in opened.replayed] == list(range(1, 11))
        assert opened.journal.checkpoint_payload == b"early"


def test_everything_before_it_is_durable_before_it_is_written() -> None:
    files = Watched(SimulatedDisk())
    opened = Opened(files, JournalOptions(segment_bytes=4096, sync="never"))
    opened.event(b"never synced otherwise")
    files.order.clear()
    opened.checkpoint()
    changing = [name for name in files.order if name in {"write", "sync", "rename", "sync_directory", "create"}]
    assert changing == ["write", "sync", "create", "write", "sync", "rename", "sync_directory"]


def test_a_checkpoint_is_of_the_moment_it_was_asked_for() -> None:
    opened = Opened(SimulatedDisk())
    opened.event(b"before")
    opened.journal.checkpoint(b"one", lambda stream, first, stop: 0)
    opened.event(b"after")
    assert opened.journal.checkpointing
    opened.run()
    assert not opened.journal.checkpointing
    assert opened.killed().replayed == [(2, 1, b"after")]


def test_one_that_was_not_finished_never_was() -> None:
    opened = Opened(SimulatedDisk())
    opened.event(b"a")
    opened.run()
    opened.journal.checkpoint(b"unfinished", lambda stream, first, stop: 0)
    again = opened.killed()
    assert again.journal.checkpoint_payload is None
    assert again.replayed == [(1, 1, b"a")]


def test_there_is_one_at_a_time() -> None:
    opened = Opened(SimulatedDisk())
    opened.journal.checkpoint(b"one", lambda stream, first, stop: 0)
    assert not opened.journal.checkpoint_due()
    with pytest.raises(JournalUsageError, match="under way"):
        opened.journal.checkpoint(b"two", lambda stream, first, stop: 0)
    opened.run()
    opened.checkpoint(b"three")
    assert opened.killed().journal.checkpoint_payload == b"three"


def test_the_one_before_is_kept_and_older_ones_are_not() -> None:
    opened = Opened(SimulatedDisk())
    for number in range(5):
        opened.event(b"x")
        opened.checkpoint(b"%d" % number)
    assert checkpoints(opened.disk) == [f"checkpoint-{lsn:020d}" for lsn in (5, 6)]
    assert len(checkpoints(opened.disk)) == KEPT_CHECKPOINTS


def test_a_damaged_newest_one_is_refused_though_an_older_one_is_whole() -> None:
    opened = Opened(SimulatedDisk())
    for number in range(3):
        opened.event(b"x")
        opened.checkpoint(b"%d" % number)
    disk = opened.disk.restart()
    path = DIRECTORY / checkpoints(disk)[-1]
    content = disk.content(path)
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        disk.replace(path, bytes(changed))
        with pytest.raises(JournalDamagedError, match="repair") as damage:
            Journal.open(DIRECTORY, SMALL, disk)
        assert damage.value.file == path


@pytest.mark.parametrize("what", ["records", "bytes", "segments"])
def test_one_is_due_after_enough_records_or_bytes_or_segments(what: str) -> None:
    large = 1 << 40
    limits = {"records": (10, large, large), "bytes": (large, 1000, large), "segments": (large, large, 4096)}
    records, size, segment = limits[what]
    options = JournalOptions(
        segment_bytes=min(segment, 1 << 20), checkpoint_records=records, checkpoint_bytes=size, spare_segments=0
    )
    opened = Opened(SimulatedDisk(), options)
    appended = 0
    while not opened.journal.checkpoint_due():
        opened.event(bytes(72))
        appended += 1
        assert appended < 1000
    assert appended == {"records": 10, "bytes": 10, "segments": SEALED_SEGMENTS_DUE * ((4096 - 48) // 100) + 1}[what]
    opened.checkpoint()
    assert not opened.journal.checkpoint_due()
    assert opened.journal.statistics().records_since_checkpoint == 0


def test_a_segment_with_a_wanted_item_stays_and_one_without_goes() -> None:
    opened = Opened(SimulatedDisk())
    for first in range(8):
        opened.items(1, first * 10, 10, bytes(3000))
        opened.items(2, first * 10, 10, bytes(500))
    opened.run()
    wanted = {(1, 33), (2, 57), (1, 71)}
    asked: list[tuple[int, int, int]] = []

    def live(stream: int, first: int, stop: int) -> int:
        asked.append((stream, first, stop))
        return sum(1 for of, item in wanted if of == stream and first <= item < stop)

    before = len(segments(opened.disk))
    assert before == 8
    opened.checkpoint(live=live)
    for again in (opened, opened.killed(), opened.closed()):
        assert len(segments(again.disk)) in {3, 4}
        for stream, item in wanted:
            assert item in range(*again.journal.read(stream, item)[:2])
        assert again.journal.locate(1, 5) is None
    assert {stream for stream, _, _ in asked} == {1, 2}


def test_nothing_is_removed_before_the_checkpoint_is_durable() -> None:
    files = Watched(SimulatedDisk())
    opened = Opened(files)
    for first in range(8):
        opened.items(1, first, 1, bytes(3000))
    opened.run()
    files.order.clear()
    opened.checkpoint(live=lambda stream, first, stop: 0)
    removed = min(files.order.index("unlink"), len(files.order) - 1 - files.order[::-1].index("rename"))
    assert "sync_directory" in files.order[:removed]


def test_a_segment_behind_the_checkpoint_is_kept_for_its_events() -> None:
    opened = Opened(SimulatedDisk())
    opened.event(b"contained")
    opened.journal.checkpoint(b"one", lambda stream, first, stop: 0)
    for number in range(10):
        opened.event(bytes([number]) * 1500)
    opened.run()
    assert [lsn for lsn, _, _ in opened.killed().replayed] == list(range(2, 12))


def test_statistics_tell_what_there_is() -> None:
    opened = Opened(SimulatedDisk())
    empty = opened.journal.statistics()
    assert (empty.segments, empty.disk_bytes, empty.next_lsn, empty.durable_lsn, empty.pending_bytes) == (
        1,
        48,
        1,
        1,
        0,
    )
    opened.items(1, 0, 1, bytes(3000))
    opened.items(1, 1, 1, bytes(3000))
    waiting = opened.journal.statistics()
    assert (waiting.segments, waiting.next_lsn, waiting.durable_lsn, waiting.pending_bytes) == (2, 3, 1, 2 * 3044)
    opened.run()
    now = opened.journal.statistics()
    assert (now.durable_lsn, now.pending_bytes, now.records, now.groups) == (3, 0, 2, 2)
    assert now.disk_bytes == 2 * (48 + 3044)
    assert now.syncs >= 2
