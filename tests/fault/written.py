"""Small journals whose every byte is known, to be damaged; and what the next start makes of them.

Offsets are computed here from the format's own sizes, so that a test does not ask the code under test where a record is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from journal import Journal, JournalDamagedError, JournalOptions, ManualCommitter, Record
from tests.fault.disk import SimulatedDisk
from tests.fault.history import ITEMS_HEADER
from tests.fault.workload import DIRECTORY

SEGMENT_HEADER = 48
RECORD_HEADER = 28
KIND = 7
STREAM = 3
OPTIONS = JournalOptions(segment_bytes=1 << 16)


@dataclass(frozen=True, slots=True)
class Stored:
    """One record: what replay shows of it, the bytes it takes in its segment, the number of its group commit."""

    lsn: int
    payload: bytes
    offset: int
    stop: int
    group: int


@dataclass(frozen=True, slots=True)
class Written:
    """A directory with one log segment, as a process that was killed, or closed it, left it."""

    disk: SimulatedDisk
    segment: Path
    records: list[Stored]
    content: bytes = field(repr=False)

    @property
    def end(self) -> int:
        """Where the last record ends."""
        return self.records[-1].stop

    def with_content(self, content: bytes) -> SimulatedDisk:
        """The same directory with other bytes in the segment."""
        disk = self.disk.restart()
        disk.replace(self.segment, content)
        return disk

    def intact(self, content: bytes) -> list[Stored]:
        """The records before the first one that other bytes differ in."""
        for index, record in enumerate(self.records):
            if content[record.offset : record.stop] != self.content[record.offset : record.stop]:
                return self.records[:index]
        return self.records

    def at(self, offset: int) -> Stored | None:
        """The record that a byte is part of."""
        return next((record for record in self.records if record.offset <= offset < record.stop), None)


@dataclass(frozen=True, slots=True)
class Found:
    """What a start found: the records it replayed, what it reported, or why it refused."""

    records: list[tuple[int, bytes]]
    reports: list[str]
    refused: JournalDamagedError | None
    disk: SimulatedDisk


def write_groups(sizes: Sequence[Sequence[int]], *, closed: bool = False) -> Written:
    """A journal with these records, by group commit: payload sizes; every other record holds items."""
    random = Random(len(sizes))
    disk = SimulatedDisk()
    journal = Journal.open(DIRECTORY, OPTIONS, disk, lambda _: None)
    committer = ManualCommitter()
    journal.start(lambda _: None, lambda _: None, committer)
    records: list[Stored] = []
    offset = SEGMENT_HEADER
    for group, group_sizes in enumerate(sizes):
        for size in group_sizes:
            payload = random.randbytes(size)
            if len(records) % 2:
                lsn = journal.append_items(KIND, STREAM, len(records), 1, [payload])
                payload = ITEMS_HEADER.pack(STREAM, len(records), 1) + payload
            else:
                lsn = journal.append(KIND, [payload])
            stop = offset + RECORD_HEADER + len(payload)
            records.append(Stored(lsn, payload, offset, stop, group))
            offset = stop
        committer.run()
        assert journal.durable_lsn == journal.next_lsn
    if closed:
        journal.close()
    disk = disk.restart()
    (name,) = [name for name in disk.names(DIRECTORY) if name.endswith(".segment") and not name.startswith("spare")]
    content = disk.content(DIRECTORY / name)
    for record in records:
        assert content[record.offset : record.stop].endswith(record.payload), "the format has other sizes"
    return Written(disk, DIRECTORY / name, records, content)


def start(disk: SimulatedDisk, look: Callable[[Journal], None] = lambda _: None) -> Found:
    """Open what is on a disk, replay it, and have a look at it."""
    reports: list[str] = []
    replayed: list[Record] = []
    try:
        journal = Journal.open(DIRECTORY, OPTIONS, disk, reports.append)
        replayed = [Record(record.lsn, record.kind, memoryview(bytes(record.payload))) for record in journal.replay()]
    except JournalDamagedError as refused:
        return Found([], reports, refused, disk)
    look(journal)
    return Found([(record.lsn, bytes(record.payload)) for record in replayed], reports, None, disk)


def verify_cut(written: Written, content: bytes, found: Found) -> None:
    """Checks a start that refused nothing: a prefix of the records, all of those before the damage, and the cut is reported."""
    intact = written.intact(content)
    assert found.refused is None, found.refused
    assert found.records == [(record.lsn, record.payload) for record in intact]
    offset = intact[-1].stop if intact else SEGMENT_HEADER
    if any(content[offset:]):
        assert len(found.reports) == 1, found.reports
        assert written.segment.name in found.reports[0]
        assert str(offset) in found.reports[0]
        copy = DIRECTORY / f"torn-{written.segment.stem}-{offset}"
        assert found.disk.content(copy).rstrip(b"\0") == content[offset:].rstrip(b"\0")
    else:
        assert len(intact) == len(written.records) or found.reports == [] or str(offset) in found.reports[0]


def verify_refused(written: Written, offset: int, found: Found) -> None:
    """Checks a start that must refuse: it names the file, the offset, and the two commands that help."""
    assert found.refused is not None, "damage was not noticed"
    assert Path(found.refused.file).name == written.segment.name
    assert found.refused.offset == offset
    text = str(found.refused)
    assert written.segment.name in text
    assert "penstock journal verify" in text
    assert "repair" in text
