"""A program that uses a store as a broker does, step by step from a seed, through any number of deaths.

Every choice is drawn from one random generator and the journal's work is done on the calling thread, so a seed makes the same calls in
the same order each time.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Final, TypeAlias

from actors.errors import NoStorageError, StorageError
from actors.storage import Storage, verify_storage
from journal import JournalError, JournalOptions, ManualCommitter
from journal.files import Files
from streams.testkit import run_in_virtual_time
from tests.fault.disk import ROOT, SimulatedDisk
from tests.fault.faulty_files import FaultyFiles, Panic
from tests.fault.history import HistoryError
from tests.fault.workload import End, Outcome, random_death

DATA: Final = ROOT / "data"
SMALL: Final = JournalOptions(segment_bytes=4096, checkpoint_bytes=8192, checkpoint_records=40, spare_segments=2)

logger = logging.getLogger("penstock.storage")

Opener: TypeAlias = Callable[..., Storage]


class Said(logging.Handler):
    """Keeps the lines that tell of a loss."""

    def __init__(self) -> None:
        super().__init__()
        self.lost: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler``."""
        if " are lost" in (text := record.getMessage()):
            self.lost.append(text)


class StoreProgram:
    """The program: its random generator and what it was told live through the deaths of its processes.

    Attributes:
        lost: how many changes that nobody was told were durable were not found again.
    """

    def __init__(self, seed: int, opener: Opener = Storage.open) -> None:
        self.random = Random(seed)
        self.opener = opener
        self.lost = 0

    def live(self, files: Files, steps: int) -> Outcome:
        """One process: open, check what is found, take some steps, close; raises HistoryError where a promise is broken."""
        found: list[Outcome] = []

        async def main() -> None:
            found.append(self._live(files, steps))

        # A torn tail is told by a line, thousands of times here.
        said = Said()
        logger.addHandler(said)
        logger.propagate = False
        try:
            run_in_virtual_time(main())
        finally:
            logger.removeHandler(said)
            logger.propagate = True
        if said.lost:
            raise HistoryError(f"nothing is damaged, and a start says: {said.lost}")
        return found[0]

    def _live(self, files: Files, steps: int) -> Outcome:
        storage: Storage | None = None
        try:
            committer = ManualCommitter()
            storage = self.opener(DATA, SMALL, files=files, committer=committer)
            self._recovered(storage)
            storage.start(lambda _: None)
            self._started(storage)
            for _ in range(steps):
                self._step(storage, committer)
                if storage._journal.failure is not None:
                    raise StorageError(str(storage._journal.failure))
            storage.close()
        except Panic as died:
            return Outcome(End.DIED, died, [])
        except (StorageError, JournalError, OSError) as failure:
            if isinstance(files, FaultyFiles) and files.dead:
                return Outcome(End.DIED, failure, [])
            if storage is not None and storage._journal.failure is not None:
                # As a broker does that ends; nothing more may be written.
                with suppress(StorageError):
                    storage.close()
            return Outcome(End.FAILED, failure, [])
        finally:
            if storage is not None:
                # What it has told the loop to do is done by nobody.
                storage._checkpoints.halted = True
        self._closed(storage)
        return Outcome(End.CLOSED, None, [])

    def _recovered(self, storage: Storage) -> None:
        """Checks what a start has found."""
        raise NotImplementedError

    def _started(self, storage: Storage) -> None:
        """What is done before anything else."""
        raise NotImplementedError

    def _step(self, storage: Storage, committer: ManualCommitter) -> None:
        """One of its steps."""
        raise NotImplementedError

    def _closed(self, storage: Storage) -> None:
        """It ended by its own will: all that it has done is durable."""
        raise NotImplementedError

    def saw(self, disk: SimulatedDisk) -> None:
        """What a life has left: to note what a run is meant to see."""


def complaints(disk: SimulatedDisk) -> list[str]:
    """What ``verify`` calls damaged; a directory that is not there has nothing wrong."""
    try:
        return [str(finding) for finding in verify_storage(DATA, disk.restart()) if finding.fatal]
    except NoStorageError:
        return []


def verify_lives(program: StoreProgram, most: int = 6, longest: int = 250) -> Counter[str]:
    """Several lives on one disk, each ended by a power loss, the death of the process, or its own will.

    Returns: how often what a run is meant to see was seen, for a test that it is.

    Raises:
        HistoryError: the store broke a promise.
    """
    seen: Counter[str] = Counter()
    random = program.random
    disk: Any = SimulatedDisk()
    for _ in range(random.randint(2, most)):
        files = FaultyFiles(disk, *random_death(random))
        outcome = program.live(files, steps=random.randint(10, longest))
        if outcome.end is End.FAILED:
            raise HistoryError(f"nothing was wrong, and the store failed: {outcome.failure!r}") from outcome.failure
        seen[f"life that {outcome.end.value}"] += 1
        seen["checkpoint"] += sum(
            call.operation == "rename" and call.name.startswith("checkpoint-") for call in files.calls
        )
        program.saw(disk)
        disk = disk.crash(random) if random.random() < 0.75 else disk.restart()
        if found := complaints(disk):
            raise HistoryError(f"nothing is damaged, and verify says: {found}")
    last = program.live(disk, steps=0)
    if last.end is not End.CLOSED:
        raise HistoryError(f"the last start failed: {last.failure!r}") from last.failure
    seen["unconfirmed changes lost"] = program.lost
    return seen
