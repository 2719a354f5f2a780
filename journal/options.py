"""What a journal can be told, and what it tells of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from journal.errors import JournalUsageError
from journal.format import MAX_SEGMENT_BYTES

ALWAYS: Final = "always"
INTERVAL: Final = "interval"
NEVER: Final = "never"

MIB = 1 << 20
MIN_SEGMENT_BYTES = 256
"""Smaller ones hold a header and hardly a record: useful to no one, tests of many segments included."""


def _nothing(_figure: float) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class JournalOptions:
    """How a journal works; nothing here changes what its files mean, so every start may choose anew.

    Attributes:
        segment_bytes: size of a segment file; a larger record has one to itself.
        sync: ``always`` (a record is reported durable when a sync has covered it), ``interval`` (when it is written; synced at most
            ``sync_interval`` later, which is what a power failure can cost), ``never`` (when it is written; the operating system
            decides). Whatever is chosen, full segments and checkpoints are synced.
        sync_interval: seconds.
        lazy_delay: seconds that a lazy record waits at most for another to ride with.
        max_pending_bytes: bytes appended and not yet durable above which appending is refused.
        spare_segments: dead segments kept to be written over, which syncs faster than a file that grows.
        reserve_bytes: room kept for a start on a full disk (journal/reserve.py); 0 for none.
        compact_below: neighbours are combined when live records fill less than this share of a segment in each.
        checkpoint_bytes: a checkpoint is due after so many bytes, which bounds what a start reads;
        checkpoint_records: or after so many records, which bounds what it replays.
        replicated: the directory is a replica of a cluster's log (journal/replicated.py), which is for its lifetime.
        cluster_log_bytes: of a replica's log this much is kept, at most, for members that lag.
        log_tail_bytes: of a replica's log this much, about, is in memory to be shipped; what waits for the disk is, however much it is.
        on_sync: told how many seconds each sync of a segment took, on whichever thread commits; it must not raise, nor take long.
        on_write: told how many bytes each group commit wrote; as above.
    """

    segment_bytes: int = 64 * MIB
    sync: str = ALWAYS
    sync_interval: float = 0.05
    lazy_delay: float = 0.05
    max_pending_bytes: int = 256 * MIB
    spare_segments: int = 2
    reserve_bytes: int = 0
    compact_below: float = 0.5
    checkpoint_bytes: int = 64 * MIB
    checkpoint_records: int = 100_000
    replicated: bool = False
    cluster_log_bytes: int = 1024 * MIB
    log_tail_bytes: int = 16 * MIB
    on_sync: Callable[[float], None] = _nothing
    on_write: Callable[[float], None] = _nothing

    def __post_init__(self) -> None:
        if self.sync not in {ALWAYS, INTERVAL, NEVER}:
            raise JournalUsageError(f"sync is one of {ALWAYS}, {INTERVAL}, {NEVER}, not {self.sync!r}")
        if not MIN_SEGMENT_BYTES <= self.segment_bytes <= MAX_SEGMENT_BYTES:
            raise JournalUsageError(
                f"segment_bytes is {MIN_SEGMENT_BYTES} to {MAX_SEGMENT_BYTES}, not {self.segment_bytes}"
            )
        for name in (
            "sync_interval",
            "lazy_delay",
            "max_pending_bytes",
            "checkpoint_bytes",
            "checkpoint_records",
            "cluster_log_bytes",
        ):
            if getattr(self, name) <= 0:
                raise JournalUsageError(f"{name} is more than 0, not {getattr(self, name)}")
        if self.spare_segments < 0 or not 0 <= self.compact_below <= 1:
            raise JournalUsageError(
                f"spare_segments is 0 or more and compact_below a share, not {self.spare_segments}, {self.compact_below}"
            )


@dataclass(frozen=True, slots=True)
class JournalStatistics:
    """A snapshot.

    Attributes:
        segments: files that hold records, the one being written included.
        disk_bytes: their size, that of the spare ones, and the reserve.
        spare_segments: dead files that wait to be written over.
        next_lsn: number of the next record.
        durable_lsn: every record below it is durable.
        pending_bytes: appended and not yet reported durable.
        syncs: syncs of segments since the start.
        groups: group commits since the start.
        records: records written since the start.
        last_sync_seconds: how long the last sync took; 0.0 before the first.
        mean_sync_seconds: how long they took on average.
        records_since_checkpoint: what a start would replay now.
    """

    segments: int
    disk_bytes: int
    spare_segments: int
    next_lsn: int
    durable_lsn: int
    pending_bytes: int
    syncs: int
    groups: int
    records: int
    last_sync_seconds: float
    mean_sync_seconds: float
    records_since_checkpoint: int
