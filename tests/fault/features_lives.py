"""Lives of `features_program` on a disk that is watched, or fails; and what one leaves, to be damaged.

At each call the disk is what a process leaves that dies there, and what a loss of power leaves. Of those a start is asked for all that
somebody was told of (`features_model`), and some begin the next life: it dies in its own start, or later.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest import mock

from actors.errors import StorageError
from actors.queue.operations import calendar
from actors.runtime.loop_registry import LoopActorRegistry
from actors.storage import Storage
from journal import ManualCommitter
from streams.testkit import elapse, run_in_virtual_time
from tests.fault.disk import SimulatedDisk
from tests.fault.faulty_files import WRITING, Fault, FaultyFiles
from tests.fault.features_model import Fact, compare, compare_ids, known, places_of, require
from tests.fault.features_program import LETTERS, SMALL, US, FeaturesProgram
from tests.fault.history import HistoryError
from tests.fault.store_program import DATA, complaints


class Watched:
    """A disk of which each call that changes it leaves pictures, some of which are kept with how much was known then."""

    def __init__(self, disk: SimulatedDisk, program: FeaturesProgram, share: float) -> None:
        self.disk = disk
        self.left: list[Picture] = []
        self._program = program
        self._random = Random(program.count)
        self._share = share
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.disk, name)
        if name not in WRITING:
            return call

        def watched(*arguments: Any, **options: Any) -> Any:
            answer = call(*arguments, **options)
            self.calls[name] += 1
            if self._random.random() < self._share:
                power = self._random.random() < 0.6
                disk = self.disk.crash(self._random) if power else self.disk.restart()
                how = f"{'power' if power else 'death'} at {name}"
                program = self._program
                self.left.append(Picture(disk, len(program.facts), program.wall_us, program.over_us, how))
            return answer

        return watched


@dataclass(frozen=True, slots=True)
class Picture:
    """What a death leaves on the disk, how many facts were known then, the time of day, and until when what is of use may be gone."""

    disk: SimulatedDisk
    facts: int
    wall_us: int
    over_us: int
    how: str


def look(disk: SimulatedDisk, facts: Iterable[Fact], wall_us: int, over_us: int) -> None:
    """What a start finds on a disk is what was told; HistoryError where it is not."""
    damaged = complaints(disk)
    require(not damaged, f"nothing is damaged, and verify says: {damaged}")
    storage = Storage.open(DATA, SMALL, files=disk, committer=ManualCommitter())
    places = places_of(storage.queues)
    model = known(facts)
    compare(model, places, LETTERS, over_us)
    compare_ids(model, storage, wall_us, places)
    storage._journal.abandon()


async def lives(
    seed: int, names: Sequence[str] = (), share: float = 0.06, steps: int = 120, most: int = 4
) -> Counter[str]:
    """Several lives on one disk; returns what was seen, and HistoryError where a promise is broken."""
    program = FeaturesProgram(seed, names)
    disk, loop = SimulatedDisk(), asyncio.get_running_loop()
    for life in range(program.random.randint(2, most)):
        files = Watched(disk, program, share)
        await program.live(files, steps)
        program.seen.update(files.calls)
        for picture in files.left:
            try:
                look(picture.disk.restart(), program.facts[: picture.facts], picture.wall_us, picture.over_us)
            except HistoryError as error:
                raise HistoryError(f"life {life}, {picture.how}: {error}") from error
        program.seen["looked at"] += len(files.left)
        if files.left:
            # The next life begins with one of them.
            picture = program.random.choice(files.left)
            disk = picture.disk
            del program.facts[picture.facts :]
            program.base = picture.wall_us / US - loop.time() + 1.0
            if not program.leeway_us:
                # What came later in that life has not been.
                program.highest_us = picture.wall_us
        else:
            disk = disk.restart()
    await program.live(disk, 0, last=True)
    return program.seen


@dataclass(slots=True)
class Left:
    """A directory that nobody has open, the facts of it, and the times of then, as of `Picture`.

    Attributes:
        names: the queues that things were sent to.
        closed: whether the broker was told to stop, or killed; all was durable before.
    """

    disk: SimulatedDisk
    facts: list[Fact]
    wall_us: int
    over_us: int
    names: list[str]
    closed: bool


def left_by(seed: int, names: Sequence[str] = (), steps: int = 120, *, closed: bool = True) -> Left:
    """What one life leaves, in which nothing was wrong."""
    program, disk = FeaturesProgram(seed, names), SimulatedDisk()
    found: list[Left] = []

    async def main() -> None:
        await program.live(disk, steps, closes=closed)
        found.append(Left(disk.restart(), program.facts, program.wall_us, program.over_us, program.names, closed))

    run_in_virtual_time(main())
    return found[0]


async def failing(seed: int, fault: Fault, steps: int) -> bool:
    """One life on a disk that fails, and what it leaves; returns whether it came to that."""
    program, disk = FeaturesProgram(seed), SimulatedDisk()
    files = FaultyFiles(disk, fault)
    failed = False
    try:
        await program.live(files, steps)
    except Exception as error:
        # Whatever the queues say when the broker is about to end.
        ends = isinstance(error, StorageError) or program.bench.failures
        if isinstance(error, HistoryError) or not ends:
            raise
        failed = True
        for picture in (disk.restart(), disk.crash(program.random)):
            look(picture, program.facts, program.wall_us, program.over_us)
        if hasattr(program, "bench"):
            await program.bench.die()
            program.bench.queues.schedules.end()
        await elapse(1.0)
        await asyncio.gather(*(ref.stop(block=False) for ref in LoopActorRegistry.get_all()))
    told = failed or program.bench.failures or program.bench.storage._journal.failure
    require(told or not files.struck or fault.operation == "unlink", f"{fault}: it went on")
    return failed


def verify_fails_for_good(seed: int, fault: Fault, steps: int = 60) -> bool:
    """A disk that fails ends the broker, and the next start finds all that was told; returns whether it came to that."""
    found: list[bool] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        found.append(await failing(seed, fault, steps))

    run_in_virtual_time(main())
    return found[0]


def verify_features_survive(seed: int, names: Sequence[str] = (), **how: Any) -> Counter[str]:
    """See `lives`."""
    found: list[Counter[str]] = []

    async def main() -> None:
        found.append(await lives(seed, names, **how))

    # As ever in one run, and in small pieces in the next: a death may come between any two.
    small: dict[str, Any] = {"PIECE_MESSAGES": 5, "GROUPED_RUNS": 3, "MOVED_GROUPS": 2, "GROUP_MESSAGES": 3}
    pieces = small if seed % 2 else {name: getattr(calendar, name) for name in small}
    with mock.patch.multiple(calendar, **pieces):
        run_in_virtual_time(main())
    return found[0]
