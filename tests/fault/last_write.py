"""Damage in the last write of a replica's log, which a start cannot tell from a write that a power failure has cut short."""

from __future__ import annotations

from pathlib import Path

from journal.checkpoint import newest_checkpoint
from journal.names import INSTALLING, REPLICA, parse_segment
from journal.replica_file import read_replica
from journal.scan import SegmentScan
from tests.fault.disk import SimulatedDisk


def damage_last_write(disk: SimulatedDisk, directory: Path, payload: bytes = b"") -> bool:
    """Flip the last bit but two of a log's last record, in which ``payload`` is.

    False, and nothing is done, where a start would know that the record was durable, or what was under way is to be finished first.
    """
    names = disk.names(directory)
    segments = sorted(name for name in names if parse_segment(name) is not None)
    if REPLICA not in names or INSTALLING in names or not segments:
        return False
    path = directory / segments[-1]
    with SegmentScan(disk, path) as scan:
        records = list(scan.records())
    replica, checkpoint = read_replica(disk, directory), newest_checkpoint(disk, directory, names)
    assert replica is not None
    durable = max(replica.durable, checkpoint.durable if checkpoint is not None else 0)
    if not records or records[-1].lsn < durable or not replica.promised:
        return False
    last = records[-1]
    assert payload in bytes(last.payload)
    content = bytearray(disk.content(path))
    content[last.end - 1] ^= 4
    disk.replace(path, bytes(content))
    return True
