"""A program that uses a journal as a broker does, step by step from a seed, through any number of deaths.

Every choice is drawn from one random generator and the journal's work is done on the calling thread, so a seed makes the
same calls in the same order each time, and "a fault at call 137" means something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from random import Random
from typing import Protocol

from journal import (
    Held,
    Journal,
    JournalDamagedError,
    JournalError,
    JournalFailedError,
    JournalOptions,
    ManualCommitter,
    UnknownItemError,
)
from journal.files import Buffer, Files
from journal.items import pack_several
from tests.fault.disk import ROOT, SimulatedDisk
from tests.fault.faulty_files import Fault, FaultyFiles, Kind, Panic
from tests.fault.history import ACKNOWLEDGE, ADD, ADD_SEVERAL, FORGET, NOTE, RANGE, Entry, History, HistoryError

DIRECTORY = ROOT / "journal"
SMALL = JournalOptions(segment_bytes=4096, checkpoint_bytes=8192, checkpoint_records=40, spare_segments=2)
"""Segments of which a handful of records fills one, so that a short run sees rolls, recycling and compaction."""
MOST_STREAMS = 4
LARGEST_PAYLOAD = 1500
SEGMENT_KIND_AT = 11
"""Where a segment's header says whether it is one of the log or a combined one."""
SEVERAL_SEEDS = 4
"""One seed in so many adds to several streams at once, too; the others have segments as they always were."""
WANTED_ITEMS = 60
"""Live items beyond which the program acknowledges more than it adds."""


class Opener(Protocol):
    """How a journal is opened: ``Journal.open``, or a defective one that the checks must catch."""

    def __call__(
        self, directory: Path, options: JournalOptions, files: Files, report: Callable[[str], None]
    ) -> Journal: ...


class End(Enum):
    """How one life of the program ended."""

    CLOSED = "closed"
    DIED = "died"
    FAILED = "failed"


@dataclass(slots=True)
class Outcome:
    """One life: how it ended, with which failure, and what recovery reported."""

    end: End
    failure: BaseException | None
    reports: list[str]


class Workload:
    """The program: its random generator and its history live through the deaths of its processes.

    Args:
        seed: what it does.
        options: the journal's.
        opener: opens the journal.
        directory: where it is.
    """

    def __init__(
        self,
        seed: int,
        options: JournalOptions = SMALL,
        opener: Opener = Journal.open,
        directory: Path = DIRECTORY,
    ) -> None:
        self._directory = directory
        self.random = Random(seed)
        self.history = History()
        self._options = options
        self.opener = opener
        self._next_stream = 1
        self._unique = 0
        self._several = seed % SEVERAL_SEEDS == 2

    def live(self, files: Files, steps: int) -> Outcome:
        """One process: open, check what is found, take some steps, close.

        Raises:
            HistoryError: the journal broke a promise.
        """
        reports: list[str] = []
        try:
            journal = self.opener(self._directory, self._options, files, reports.append)
        except Panic as died:
            return Outcome(End.DIED, died, reports)
        except (JournalError, OSError) as failure:
            return Outcome(End.FAILED, failure, reports)
        try:
            self._run(journal, steps)
        except Panic as died:
            return Outcome(End.DIED, died, reports)
        except JournalDamagedError as failure:
            journal.close()
            return Outcome(End.FAILED, failure, reports)
        except JournalFailedError as failure:
            if isinstance(files, FaultyFiles) and files.dead:
                return Outcome(End.DIED, failure, reports)
            self._stays_failed(journal, failure)
            return Outcome(End.FAILED, failure, reports)
        return Outcome(End.CLOSED, None, reports)

    def _run(self, journal: Journal, steps: int) -> None:
        self.history.recovered(journal)
        failures: list[JournalFailedError] = []
        committer = ManualCommitter()
        journal.start(self.history.reported, failures.append, committer)
        for _ in range(steps):
            self._step(journal, committer)
            if failures:
                raise failures[0]
        journal.close()
        if failures:
            raise failures[0]
        self.history.reported(journal.next_lsn)

    def _step(self, journal: Journal, committer: ManualCommitter) -> None:
        draw = self.random.random()
        if draw < 0.60:
            self._append(journal)
        elif draw < 0.85:
            committer.run()
        elif draw < 0.95:
            self._look(journal)
        if journal.checkpoint_due() or draw >= 0.98:
            self._checkpoint(journal)

    def _append(self, journal: Journal) -> None:
        streams = self.history.streams
        live = sum(len(stream.live) for stream in streams.values())
        draw = self.random.random()
        if not streams or draw < (0.5 if live < WANTED_ITEMS else 0.2):
            several = self._several and len(streams) > 1 and self.random.random() < 0.4
            (self._add_several if several else self._add)(journal)
        elif draw < 0.93 and live:
            self._acknowledge(journal)
        elif draw < 0.95 and streams:
            number = self.random.choice(sorted(streams))
            self._event(journal, Entry(FORGET, RANGE.pack(number, 0, 0)))
        else:
            self._event(journal, Entry(NOTE, self._payload()))

    def _add(self, journal: Journal) -> None:
        streams = self.history.streams
        if len(streams) < MOST_STREAMS and self.random.random() < 0.3:
            number, self._next_stream = self._next_stream, self._next_stream + 1
        else:
            number = self.random.choice(sorted(streams) or [self._next_stream])
            self._next_stream = max(self._next_stream, number + 1)
        first = streams[number].next if number in streams else 0
        count = self.random.choice((1, 1, 1, 5, 20))
        entry = Entry(ADD, self._payload(), number, first, count)
        half = self.random.randrange(len(entry.payload) + 1)
        parts: list[Buffer] = [entry.payload[:half], memoryview(entry.payload)[half:]]
        lsn = journal.append_items(ADD, number, first, count, parts)
        self.history.appended(lsn, entry)

    def _add_several(self, journal: Journal) -> None:
        """The same items to some streams at once, and others to another."""
        streams = self.history.streams
        numbers = self.random.sample(sorted(streams), self.random.randint(1, len(streams)))
        count = self.random.choice((1, 1, 5))
        payloads = [self._payload(), self._payload()]
        which = [self.random.random() < 0.3 for _ in numbers]
        held = [Held(number, streams[number].next, count, part) for number, part in zip(numbers, which, strict=True)]
        packed = pack_several(held, [[payload] for payload in payloads], b"other")
        parts = tuple(Entry(ADD_SEVERAL, payloads[part], number, first, count) for number, first, _, part in held)
        lsn = journal.append_several(ADD_SEVERAL, held, [[payload] for payload in payloads], b"other")
        self.history.appended(lsn, Entry(ADD_SEVERAL, b"".join(packed.buffers), parts=parts))

    def _acknowledge(self, journal: Journal) -> None:
        """Mostly from the front, as consumers do, sometimes from the middle."""
        streams = self.history.streams
        number = self.random.choice([number for number, stream in sorted(streams.items()) if stream.live])
        live = sorted(streams[number].live)
        first = live[0] if self.random.random() < 0.7 else self.random.choice(live)
        count = self.random.choice((1, 3, 10, 30))
        entry = Entry(ACKNOWLEDGE, RANGE.pack(number, first, count))
        self._event(journal, entry, lazy=True)

    def _event(self, journal: Journal, entry: Entry, *, lazy: bool = False) -> None:
        self.history.appended(journal.append(entry.kind, [entry.payload], lazy=lazy), entry)

    def _payload(self) -> bytes:
        self._unique += 1
        size = int(LARGEST_PAYLOAD * self.random.random() ** 3)
        return self._unique.to_bytes(4, "little") + self.random.randbytes(size)

    def _look(self, journal: Journal) -> None:
        """Read one live item, written or not."""
        live = [(number, item) for number, s in sorted(self.history.streams.items()) for item in sorted(s.live)]
        if live:
            number, item = self.random.choice(live)
            try:
                stored = journal.read(number, item)
            except UnknownItemError as error:
                raise HistoryError(f"stream {number}: item {item} is wanted, and is gone") from error
            if not stored.first <= item < stored.stop:
                raise HistoryError(f"stream {number}: reading item {item} gave {stored.first} to {stored.stop - 1}")

    def _checkpoint(self, journal: Journal) -> None:
        if not journal.checkpointing:
            lsn = journal.next_lsn
            payload = self.history.checkpointing(lsn)
            journal.checkpoint(payload, self.history.live, partial(self.history.checkpointed, lsn))

    def _stays_failed(self, journal: Journal, failure: JournalFailedError) -> None:
        """A failed journal takes nothing more, says so each time, and can be let go."""
        if journal.failure is None:
            raise HistoryError(f"the journal does not say that it failed: {failure}")
        try:
            journal.append(NOTE, [b"too late"])
        except JournalFailedError:
            pass
        else:
            raise HistoryError("a failed journal took another record")
        try:
            journal.close()
        except JournalFailedError:
            return


def random_death(random: Random) -> list[Fault]:
    """A panic at some call of a life, most often: at any, or at a write or a sync, where it tears most."""
    if random.random() < 0.15:
        return []
    kind = random.choice((Kind.PANIC_BEFORE, Kind.PANIC_WITHIN, Kind.PANIC_AFTER))
    operation = random.choice((None, None, "write", "sync"))
    return [Fault(int(10 ** random.uniform(0.5, 2.2 if operation else 3.0)), kind, operation)]


def verify_survives(seed: int, options: JournalOptions = SMALL, opener: Opener = Journal.open) -> Counter[str]:
    """Several lives on one disk, each ended by a power loss, the death of the process, or its own will.

    Returns: how often what a run is meant to see was seen, for a test that it is.

    Raises:
        HistoryError: the journal broke a promise.
    """
    seen: Counter[str] = Counter()
    workload = Workload(seed, options, opener)
    random = workload.random
    disk = SimulatedDisk()
    for _ in range(random.randint(2, 7)):
        files = FaultyFiles(disk, *random_death(random))
        outcome = workload.live(files, steps=random.randint(10, 400))
        if outcome.end is End.FAILED:
            raise HistoryError(f"nothing was wrong, and the journal failed: {outcome.failure!r}") from outcome.failure
        seen.update(_seen(outcome, files, disk))
        disk = disk.crash(random) if random.random() < 0.75 else disk.restart()
    last = workload.live(disk, steps=0)
    if last.end is not End.CLOSED:
        raise HistoryError(f"the last start failed: {last.failure!r}") from last.failure
    seen["unreported records lost"] = workload.history.lost
    return seen


def _seen(outcome: Outcome, files: FaultyFiles, disk: SimulatedDisk) -> Iterator[str]:
    yield f"life that {outcome.end.value}"
    if outcome.end is End.DIED:
        yield f"death at {files.calls[-1].operation}"
    yield from ("torn tail cut" for text in outcome.reports if "cut off" in text)
    for call in files.calls:
        if call.operation == "rename" and call.name.startswith("spare-"):
            yield "segment recycled"
        elif call.operation == "rename" and call.name.startswith("checkpoint-"):
            yield "checkpoint"
    if DIRECTORY.name in disk.names(ROOT):
        compacted = (data[SEGMENT_KIND_AT] for name, data in disk.files(DIRECTORY).items() if name.endswith(".segment"))
        yield from ("segments combined" for kind in compacted if kind)
