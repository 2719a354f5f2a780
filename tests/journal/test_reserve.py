"""A disk that is full to the last byte: the next start has room all the same, so that what is stored can be received."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from actors.storage import storage_options
from actors.storage.options import RESERVE_BYTES
from journal import JournalFailedError, JournalOptions, verify
from journal.names import RESERVE
from journal.reserve import keep_reserve
from tests.fault.faulty_files import Fault, FaultyFiles, Kind
from tests.journal.harness import DIRECTORY, SMALL, Opened, SimulatedDisk

RESERVED = replace(SMALL, reserve_bytes=4 * SMALL.segment_bytes)
ITEMS = 60


def full(options: JournalOptions) -> SimulatedDisk:
    """A disk without a free byte, and on it a journal of several segments that a kill has ended."""
    disk = SimulatedDisk()
    opened = Opened(disk, options)
    for item in range(ITEMS):
        opened.items(1, item, 1, bytes(500))
    opened.run()
    left: SimulatedDisk = disk.restart()
    left.capacity = sum(len(left.content(DIRECTORY / name)) for name in left.names(DIRECTORY))
    assert left.free_bytes(DIRECTORY) == 0
    return left


def test_a_start_on_a_full_disk_takes_the_reserve_and_a_checkpoint_makes_it_again_when_there_is_room() -> None:
    disk = full(RESERVED)
    assert RESERVE in disk.names(DIRECTORY)
    assert verify(DIRECTORY, disk) == []
    opened = Opened(disk, RESERVED)
    assert len(opened.replayed) == ITEMS
    (said,) = opened.reports
    assert "the disk is full, so the start took the reserve" in said
    without = opened.journal.statistics().disk_bytes

    # Everything is received: acknowledgements have room, and what they free is there again.
    for _ in range(20):
        opened.event(bytes(100))
    opened.run()
    opened.checkpoint(live=lambda *_: 0)
    assert RESERVE not in disk.names(DIRECTORY), "it must not be what fills the disk"
    assert disk.capacity is not None
    disk.capacity *= 2
    opened.checkpoint(live=lambda *_: 0)
    assert RESERVE in disk.names(DIRECTORY)
    assert disk.free_bytes(DIRECTORY) > 0
    assert opened.journal.statistics().disk_bytes - RESERVED.reserve_bytes < without


def test_without_a_reserve_such_a_start_is_refused() -> None:
    with pytest.raises(JournalFailedError, match="No space left"):
        Opened(full(SMALL), SMALL)


def test_a_reserve_that_finds_no_room_is_left_out_and_any_other_failure_is_one() -> None:
    for kind in (Kind.ENOSPC, Kind.EIO):
        disk = SimulatedDisk()
        disk.make_directory(DIRECTORY)
        files = FaultyFiles(disk, Fault(0, kind, "allocate"))
        if kind is Kind.ENOSPC:
            assert keep_reserve(files, DIRECTORY, 4096) is False
            assert disk.names(DIRECTORY) == []
            assert keep_reserve(files, DIRECTORY, 4096) is True
            assert disk.names(DIRECTORY) == [RESERVE]
        else:
            with pytest.raises(OSError, match="Input/output") as error:
                keep_reserve(files, DIRECTORY, 4096)
            assert error.value.errno == errno.EIO


def test_a_broker_has_a_reserve_that_its_segments_fit_in() -> None:
    assert storage_options().reserve_bytes == RESERVE_BYTES
    assert storage_options(segment_bytes=1 << 20).reserve_bytes == 4 << 20
    assert storage_options(reserve_bytes=0).reserve_bytes == 0
