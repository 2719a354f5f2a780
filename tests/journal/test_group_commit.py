"""What arrives while a sync is under way is written together and shares the next; lazy records wait for company."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from journal import Journal, JournalFailedError, JournalFullError, JournalOptions, OsFiles, ThreadCommitter
from journal.format import GROUP_UNKNOWN
from journal.group import pack_group
from journal.scan import SegmentScan
from journal.segment import Segment, new_header
from tests.journal.harness import DIRECTORY, SMALL, Opened, SimulatedDisk, Watched, segments

DEADLINE = 30.0


class Durable:
    """Waits for what a journal reports from its thread."""

    def __init__(self) -> None:
        self.told: list[int] = []
        self.failures: list[JournalFailedError] = []
        self._changed = threading.Condition()

    def __call__(self, lsn: int) -> None:
        with self._changed:
            self.told.append(lsn)
            self._changed.notify_all()

    def failed(self, error: JournalFailedError) -> None:
        with self._changed:
            self.failures.append(error)
            self._changed.notify_all()

    def wait(self, lsn: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: bool(self.told) and self.told[-1] >= lsn, DEADLINE)

    def wait_for_failure(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: bool(self.failures), DEADLINE)


def groups_of(disk: Any, directory: Path = DIRECTORY) -> list[tuple[int, int]]:
    found = []
    for name in segments(disk, directory):
        with SegmentScan(disk, directory / name) as scan:
            found += [(record.lsn, record.group) for record in scan.records()]
    return found


def test_what_arrives_during_a_sync_is_one_write_and_one_sync(tmp_path: Path) -> None:
    files, durable = Watched(OsFiles()), Durable()
    journal = Journal.open(tmp_path, files=files)
    journal.start(durable, durable.failed, ThreadCommitter())
    before = journal.statistics()
    files.may_sync.clear()
    while files.in_sync.acquire(blocking=False):
        pass
    journal.append(1, [b"first"])
    assert files.in_sync.acquire(timeout=DEADLINE)
    files.order.clear()
    for number in range(500):
        journal.append(1, [b"%d" % number])
    files.may_sync.set()
    durable.wait(502)
    after = journal.statistics()
    assert durable.told == [2, 502]
    assert (after.groups - before.groups, after.syncs - before.syncs) == (2, 2)
    assert files.order == ["write", "sync"]
    journal.close()
    assert groups_of(OsFiles(), tmp_path) == [(1, 0), *((lsn, lsn - 2) for lsn in range(2, 502)), (502, 0)]


def test_nothing_is_reported_durable_before_its_sync_has_returned(tmp_path: Path) -> None:
    files, durable = Watched(OsFiles()), Durable()
    journal = Journal.open(tmp_path, files=files)
    journal.start(durable, durable.failed)
    files.may_sync.clear()
    while files.in_sync.acquire(blocking=False):
        pass
    journal.append(1, [b"waits"])
    assert files.in_sync.acquire(timeout=DEADLINE)
    assert durable.told == []
    assert journal.durable_lsn == 1
    files.may_sync.set()
    durable.wait(2)
    assert journal.durable_lsn == 2
    journal.close()


def test_a_lazy_record_rides_with_the_next_one() -> None:
    clock = [0.0]
    opened = Opened(SimulatedDisk())
    writer = opened.journal._writer
    assert writer is not None
    writer._clock = lambda: clock[0]
    opened.event(b"lazy", lazy=True)
    assert not writer.ready()
    opened.event(b"urgent")
    assert writer.ready()
    writer.commit()
    assert opened.durable == [3]
    assert opened.journal.statistics().groups == 1


def test_a_lazy_record_waits_no_longer_than_it_may() -> None:
    clock = [10.0]
    opened = Opened(SimulatedDisk(), JournalOptions(segment_bytes=4096, lazy_delay=0.05))
    writer = opened.journal._writer
    assert writer is not None
    writer._clock = lambda: clock[0]
    assert writer.seconds_to_wait() is None
    opened.event(b"lazy", lazy=True)
    assert not writer.ready()
    assert writer.seconds_to_wait() == pytest.approx(0.05)
    clock[0] += 0.04
    opened.event(b"lazy too", lazy=True)
    assert not writer.ready()
    assert writer.seconds_to_wait() == pytest.approx(0.01)
    clock[0] += 0.02
    assert writer.ready()
    writer.commit()
    assert opened.durable == [3]
    assert writer.seconds_to_wait() is None


def test_a_lazy_record_alone_is_committed_by_the_thread(tmp_path: Path) -> None:
    durable = Durable()
    journal = Journal.open(tmp_path, JournalOptions(lazy_delay=0.001))
    journal.start(durable, durable.failed)
    for lsn in range(1, 20):
        assert journal.append(1, [b"lazy"], lazy=True) == lsn
        durable.wait(lsn + 1)
    journal.close()
    assert durable.failures == []


def test_with_an_interval_it_is_reported_when_written_and_synced_when_that_is_due() -> None:
    clock = [0.0]
    options = JournalOptions(segment_bytes=4096, sync="interval", sync_interval=1.0)
    opened = Opened(SimulatedDisk(), options)
    writer = opened.journal._writer
    assert writer is not None
    writer._clock = lambda: clock[0]
    opened.event(b"a")
    writer.commit()
    assert opened.durable == [2]
    assert opened.journal.statistics().syncs == 0
    assert not writer.ready()
    assert writer.seconds_to_wait() == 1.0
    clock[0] = 1.0
    assert writer.ready()
    writer.commit()
    assert opened.journal.statistics().syncs == 1
    assert writer.seconds_to_wait() is None


def test_without_syncs_records_of_many_groups_count_as_one() -> None:
    opened = Opened(SimulatedDisk(), JournalOptions(segment_bytes=4096, sync="never"))
    for number in range(3):
        opened.event(b"%d" % number)
        opened.run()
    assert opened.journal.statistics().syncs == 0
    assert groups_of(opened.disk) == [(1, 0), (2, 1), (3, 2)]


def test_a_group_of_too_many_records_says_that_it_proves_nothing() -> None:
    segment = Segment(DIRECTORY, new_header(1, 1))
    records = [(48 + 28 * number, 28, 1 + number, 1, 0, 0, 0, 0, 0, ()) for number in range(3)]
    packed = b"".join(pack_group(segment, records, GROUP_UNKNOWN - 1, 1))
    assert [int.from_bytes(packed[at + 14 : at + 16], "little") for at in (0, 28, 56)] == [65534, 65535, 65535]


def test_no_payload_that_is_large_is_copied() -> None:
    segment = Segment(DIRECTORY, new_header(1, 1))
    large, small = memoryview(bytearray(100_000)), b"small"
    records = [
        (48, 28 + 100_005, 1, 1, 0, 100_005, 0, 0, 0, (small, large)),
        (0, 28 + 5, 2, 1, 0, 5, 0, 0, 0, (small,)),
    ]
    buffers = pack_group(segment, records, 0, 1)
    assert sum(buffer is large for buffer in buffers) == 1
    assert sum(len(buffer) for buffer in buffers if buffer is not large) == 28 + 5 + 28 + 5


def test_a_segment_that_is_full_is_synced_before_the_next_has_its_name(tmp_path: Path) -> None:
    files, durable = Watched(OsFiles()), Durable()
    journal = Journal.open(tmp_path, SMALL, files)
    journal.start(durable, durable.failed)
    journal.append(1, [bytes(4000)])
    durable.wait(2)
    files.order.clear()
    journal.append(1, [bytes(4000)])
    durable.wait(3)
    assert files.order[:2] == ["truncate", "sync"]
    assert files.order.index("rename") > files.order.index("sync")
    assert files.order.index("sync_directory") < len(files.order) - 1 - files.order[::-1].index("sync")
    journal.close()


def test_more_than_may_wait_is_refused_and_taken_again_later() -> None:
    opened = Opened(SimulatedDisk(), JournalOptions(segment_bytes=4096, max_pending_bytes=1000))
    opened.event(bytes(900))
    with pytest.raises(JournalFullError, match="max_pending_bytes") as full:
        opened.event(bytes(100))
    assert full.value.limit == 1000
    opened.run()
    assert opened.event(bytes(900)) == 2


def test_one_record_may_be_larger_than_what_may_wait_and_than_a_segment() -> None:
    opened = Opened(SimulatedDisk(), JournalOptions(segment_bytes=4096, max_pending_bytes=1000))
    opened.items(1, 0, 1, bytes(range(256)) * 100)
    opened.run()
    opened.items(1, 1, 1, b"next")
    opened.run()
    assert opened.journal.read(1, 0).payload == bytes(range(256)) * 100
    assert len(segments(opened.disk)) == 2
    again = opened.killed()
    assert again.journal.read(1, 0).payload == bytes(range(256)) * 100
    assert again.journal.read(1, 1).payload == b"next"
