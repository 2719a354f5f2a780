"""What a member of a cluster knew to be durable is known to the journal that is restored of it, or mended, and is a member no more."""

from __future__ import annotations

import pytest

from journal import Journal, JournalDamagedError, Manifest, back_up_directory, repair, restore, verify
from journal.checkpoint import newest_checkpoint
from journal.names import REPLICA
from journal.scan import SegmentScan
from tests.fault.disk import ROOT, SimulatedDisk
from tests.journal.replicas import DIRECTORY, SMALL, Node, logs

TARGET, RESTORED = ROOT / "backup", ROOT / "restored"
ABOUT = Manifest(7, 42, 0, "2026-11-23T09:15:00Z", {"broker": "here"})


def stopped() -> SimulatedDisk:
    """The disk of a leader whose checkpoint, before record 3, may contain record 3, which is committed."""
    leader = Node().lead(1)
    leader.events(2)
    list(leader.journal.prepare_checkpoint(lambda *_: 0))
    leader.journal.cut_checkpoint()
    leader.event(b"behind the cut")
    leader.journal.store_checkpoint(b"state of three")
    leader.commit()
    leader.journal.close()
    return leader.disk.restart()


def behind(disk: SimulatedDisk, directory: object) -> tuple[int, int]:
    checkpoint = newest_checkpoint(disk, directory, disk.names(directory))  # type: ignore[arg-type]
    assert checkpoint is not None
    assert checkpoint.log is None
    return checkpoint.lsn, checkpoint.behind


def test_a_journal_that_is_restored_of_a_replica_knows_what_its_state_may_contain() -> None:
    disk = stopped()
    back_up_directory(DIRECTORY, TARGET, ABOUT, disk)
    restore(TARGET, RESTORED, disk, lambda checkpoint: checkpoint)
    assert behind(disk, RESTORED) == (3, 4)
    (name,) = logs(disk, RESTORED)
    with SegmentScan(disk, RESTORED / name) as scan:
        end = next(record.offset for record in scan.records() if record.lsn == 3)
    disk.replace(RESTORED / name, disk.content(RESTORED / name)[:end])
    assert [finding for finding in verify(RESTORED, disk) if finding.fatal]
    with pytest.raises(JournalDamagedError, match="record 3 was durable"):
        Journal.open(RESTORED, SMALL, disk)
    repair(RESTORED, disk)
    assert Journal.open(RESTORED, SMALL, disk).next_lsn == 4


def test_a_replica_that_is_mended_and_is_none_any_more_knows_what_its_state_may_contain() -> None:
    disk = stopped()
    assert REPLICA in disk.names(DIRECTORY)
    content = bytearray(disk.content(DIRECTORY / REPLICA))
    content[20] ^= 1
    disk.replace(DIRECTORY / REPLICA, bytes(content))
    assert repair(DIRECTORY, disk)
    assert behind(disk, DIRECTORY) == (3, 4)
