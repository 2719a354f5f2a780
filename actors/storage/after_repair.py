"""Mending a data directory that no broker has open, and what a repaired journal has lost, told to the queues that counted on it.

``repair`` keeps whatever is whole, but it knows nothing of queues: their state may still have messages as stored whose records are gone. So
it leaves a mark, and the next start compares the two, once, record by record.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from actors.errors import StorageError
from actors.queue.state.leveled_log import LeveledLog
from actors.queue.vocabulary.events import QueuePurged, StagesDiscarded
from actors.storage.failures import storage_error
from journal import JournalError, OsFiles, glance, repair, verify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.queue.state.log import QueueLog
    from actors.queue.structures.ranges import Range
    from journal import Files, Finding, Journal


MARK = "repaired"
"""A file of this name in the data directory: the journal was repaired, and no start has looked since."""

LOST = "%d messages of queue %s are lost with records that were damaged"
"""Said once for each queue, by the start that finds it."""
LOST_QUEUE = "%d messages of queue number %d are lost: the record that declared the queue was damaged"
"""Said by each start that reads the log from before them: the queue's name is lost too."""
LOST_CHANGES = (
    "%d changes of the durable map are lost with records that were damaged: what they changed is as it was before"
)
"""Said by each start that reads the log from before them."""
LOST_DEFINITIONS = (
    "%d changes of exchanges and bindings are lost with records that were damaged, and %d bindings lead to queues that are lost: "
    "see what is bound"
)
"""Likewise."""


def is_marked(files: Files, directory: Path) -> bool:
    """Whether the directory has the mark."""
    return MARK in files.names(directory)


def set_mark(files: Files, directory: Path) -> None:
    """Leave the mark, durably."""
    if not is_marked(files, directory):
        files.close(files.create(directory / MARK))
    files.sync_directory(directory)


def remove_mark(files: Files, directory: Path) -> None:
    """The comparison is done, and its result durable."""
    files.unlink(directory / MARK)
    files.sync_directory(directory)


def without_record(files: Files, directory: Path, queue: str, sequence: int) -> StorageError:
    """The error for a stored message that the journal has no record of; the mark has the next start look for all of them."""
    with suppress(OSError):
        # Where the disk refuses the mark too, the next start fails here again, and says the same.
        set_mark(files, directory)
    return StorageError(
        f"message {sequence} of queue {queue} is stored, and the journal in {directory} has no record of it: it was lost to "
        "damage. Start the broker again: it compares every queue with the journal, gives up what has no record, says how "
        "many messages those are, and goes on with all others"
    )


def drop_lost(journal: Journal, number: int, log: QueueLog) -> tuple[int, StagesDiscarded]:
    """Have a queue's log forget the stored messages that the journal has no record of, and all that is staged.

    Returns:
        how many messages that is, and what the journal has to be told before anything else: a stage may be begun anew under its old name,
        and be committed, before a checkpoint has forgotten what it held.
    """
    gone = 0
    if not isinstance(log, LeveledLog):
        lost, batches, size = _compared(journal, number, log.stored())
        if lost:
            log.apply(QueuePurged(tuple(lost)))
        gone = sum(stop - start for start, stop in lost)
        log.stored_batches = batches
        log.stored_bytes = size + batches * log.table.overhead + (0 if log.calendar is None else log.calendar.bytes)
    for stream, slot in () if log.calendar is None else log.calendar.streams.items():
        waiting, _, _ = _compared(journal, stream, slot.gone.gaps(0, slot.next))
        gone += log.lost_in_calendar(stream, waiting)
    # Which stage lost what nobody can tell where the loss is in the log's tail, and a sender would go on behind a hole in its stage.
    # So every transaction that is open begins anew: its commit is refused, its senders are told that the stage is gone.
    discarded = log.total_discarded
    event = StagesDiscarded(tuple(log.stages), log.next_sequence)
    log.apply(event)
    if isinstance(log, LeveledLog):
        gone += log.count_anew()
    return gone + log.total_discarded - discarded, event


def _compared(journal: Journal, number: int, ranges: Iterable[Range]) -> tuple[list[Range], int, int]:
    """Which messages of ``ranges`` have no record, and how many batches and bytes those are that have."""
    lost: list[Range] = []
    batches = size = 0
    counted = -1
    for start, stop in ranges:
        position = start
        for located in journal.spans(number, start, stop):
            if located.first > position:
                lost.append((position, located.first))
            position = located.stop
            if located.first > counted:
                counted = located.first
                batches += 1
                size += located.payload_bytes
        if position < stop:
            lost.append((position, stop))
    return lost, batches, size


def glance_storage(directory: Path, files: Files | None = None) -> list[Finding]:
    """What would keep a broker from opening a data directory, as far as names, checkpoints and headers show; nothing is changed.

    Nothing of one that is not there, or is empty: a start makes it.

    Raises:
        NoStorageError: it is a file, or below one.
        StorageError: it cannot be read, or a broker has it open.
    """
    try:
        return glance(directory, files)
    except (JournalError, OSError) as error:
        raise storage_error(error, f"the data directory {directory} cannot be opened") from error


def verify_storage(directory: Path, files: Files | None = None) -> list[Finding]:
    """Everything that is wrong with a data directory, by file and offset; nothing is changed.

    Raises:
        NoStorageError: there is none.
        StorageError: it cannot be read at all, or a broker has it open.
    """
    try:
        return verify(directory, files)
    except (JournalError, OSError) as error:
        raise storage_error(error, f"the data directory {directory} cannot be verified") from error


def repair_storage(directory: Path, files: Files | None = None) -> list[str]:
    """Make a damaged data directory one that opens, with everything that is whole; returns what was done, and what was lost.

    The mark is made first: whatever of the repair has happened, the next start looks what the queues have lost by it.

    Raises:
        NoStorageError: there is none.
        StorageError: it cannot be mended, or a broker has it open.
    """
    disk = OsFiles() if files is None else files
    try:
        return repair(directory, disk, lambda: set_mark(disk, directory))
    except (JournalError, OSError) as error:
        raise storage_error(error, f"the data directory {directory} cannot be repaired") from error
