"""The end of the log at a start: a torn write is cut off, damage is refused, and what is left is made durable.

Only the last segment can end in a write that was never synced: each before it was synced before the next got its name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from journal.durable import read_exactly, write_all, write_aside
from journal.errors import JournalDamagedError
from journal.files import Files
from journal.names import torn_name
from journal.scan import SCAN_BYTES, SegmentScan

Report = Callable[[str], None]


def settle_tail(
    files: Files,
    scan: SegmentScan,
    durable_lsn: int,
    group_start: int | None,
    report: Report,
    cutting: Callable[[], None],
) -> None:
    """Have the last segment end, durably, where its last whole record ends. ``scan`` has read all of them.

    ``durable_lsn``: what a checkpoint shows to have been durable. ``group_start``: where the last group begins; None if nothing
    can be in doubt, as after a clean shutdown. ``cutting`` is called before a write that was begun is cut off.

    Raises:
        JournalDamagedError: what follows the last whole record was durable once.
    """
    damage = scan.proof_of_damage(durable_lsn)
    if damage is not None:
        raise JournalDamagedError(scan.path, scan.end, damage)
    torn = scan.torn_bytes()
    file = files.open(scan.path, write=True)
    try:
        if torn:
            copy = scan.path.with_name(torn_name(scan.path.stem, scan.end))
            _keep_copy(files, scan, torn, copy)
            cutting()
            # Whole records may lie behind a torn one of their group; left there they would follow what is appended next.
            files.truncate(file, scan.end)
            report(
                f"{scan.path}, offset {scan.end}: cut off {torn} bytes of a write that was not finished ({scan.problem}); "
                f"nothing in them was reported durable, unless the disk has lost it since; a copy is in {copy.name}"
            )
        if group_start is not None:
            _write_again(files, file, group_start, scan.end)
        files.sync(file)
    finally:
        files.close(file)


def _keep_copy(files: Files, scan: SegmentScan, size: int, copy: Path) -> None:
    parts: list[bytes | bytearray | memoryview] = [
        scan.read(min(SCAN_BYTES, scan.end + size - offset), offset)
        for offset in range(scan.end, scan.end + size, SCAN_BYTES)
    ]
    write_aside(files, copy, parts)
    files.sync_directory(copy.parent)


def _write_again(files: Files, file: int, start: int, stop: int) -> None:
    """Write the last group over itself, so that the sync that follows covers it.

    It was read, perhaps from memory only: a sync that failed in the program's last run can have left it there, marked as written,
    and a sync now would pass it over.
    """
    while start < stop:
        data = read_exactly(files, file, min(SCAN_BYTES, stop - start), start)
        if not data:
            raise OSError(f"the file ended at offset {start} while it was read again")
        start = write_all(files, file, [data], start)
