"""What the journal tells of its work, counted by size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from actors.queue.structures.histogram import STORING_SECONDS, Histogram

if TYPE_CHECKING:
    from journal import JournalOptions, JournalStatistics

WRITE_BYTES: Final = tuple(float(256 << shift) for shift in range(0, 18, 2))
"""From a small record by itself to the largest group, 16 MiB."""


class JournalMeasures:
    """The journal's thread observes, whoever looks or not.

    Attributes:
        sync_seconds: how long each sync of a segment took.
        write_bytes: how much each group commit wrote.
    """

    def __init__(self) -> None:
        self.sync_seconds = Histogram(STORING_SECONDS)
        self.write_bytes = Histogram(WRITE_BYTES)

    def told(self, options: JournalOptions) -> JournalOptions:
        """The options of a journal that tells this."""
        return replace(options, on_sync=self.sync_seconds.observe, on_write=self.write_bytes.observe)


def figures_of(journal: JournalStatistics, checkpoints: int) -> dict[str, Any]:
    """The journal's part of what ``penstock stats`` shows of the storage."""
    return {
        "segments": journal.segments,
        "disk_bytes": journal.disk_bytes,
        "next_lsn": journal.next_lsn,
        "durable_lsn": journal.durable_lsn,
        "pending_bytes": journal.pending_bytes,
        "syncs": journal.syncs,
        "groups": journal.groups,
        "records": journal.records,
        "checkpoints": checkpoints,
        "sync_ms": round(journal.mean_sync_seconds * 1000, 3),
    }
