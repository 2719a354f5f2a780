"""The broker's disk under simulation: commits that happen when virtual time says so, and a death between any two calls of the disk."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from journal.committer import RESTS, ManualCommitter
from tests.fault.disk import ROOT, SimulatedDisk

if TYPE_CHECKING:
    import asyncio

    from journal.writer import Writer
    from tests.simulation.loop import SimulatedLoop

DIRECTORY = ROOT / "data"
LAZY_DELAY = 0.05
"""Seconds that acknowledgements may wait for something to ride on; the journal's."""
MOST_CALLS_BEFORE_DEATH = 40
"""Calls of the disk after which a dying broker dies at the latest: a few group commits, or a checkpoint."""


class Death(BaseException):
    """The process died here. Nothing may catch it, for there is nobody left to."""


class MortalFiles:
    """A disk whose user may die before any call.

    Attributes:
        left: calls until death, None while nobody is dying.
        host: whose disk it is, where there are several.
    """

    def __init__(self, disk: SimulatedDisk) -> None:
        self.left: int | None = None
        self.host = ""
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._disk, name)

        def mortal(*arguments: Any, **options: Any) -> Any:
            if self.left is not None:
                if self.left <= 0:
                    raise Death
                self.left -= 1
            return call(*arguments, **options)

        setattr(self, name, mortal)  # found at once from now on
        return mortal


class SimulatedCommitter(ManualCommitter):
    """Commits a while after it was rung, or at once: what comes until then is in the same group. What takes long happens later still.

    Args:
        loop: whose clock counts.
        random: where the delays come from.
        longest: seconds until a commit, at most.
        holds: whether half of what may be is committed where it is appended; a slow disk's never is.
    """

    def __init__(self, loop: SimulatedLoop, random: Random, longest: float, *, holds: bool = True) -> None:
        super().__init__(holds=lambda: holds and random.random() < 0.5)
        self.resting = RESTS
        self._loop = loop
        self._random = random
        self._longest = longest
        self._due: asyncio.TimerHandle | None = None
        self._urgent_tasks = 0

    def start(self, writer: Writer) -> None:
        """See `Committer`."""
        super().start(writer)
        writer.background = self._later
        self.ring()

    def ring(self) -> None:
        """Have what is there committed soon, or with what comes if there is no hurry."""
        writer = self._writer
        if writer is None:
            return
        hurry = writer.urgent_lsn > writer.durable_lsn or writer.urgent_tasks > self._urgent_tasks
        due = self._loop.time() + (self._random.uniform(0, self._longest) if hurry else LAZY_DELAY)
        if self._due is None or due < self._due.when():
            if self._due is not None:
                self._due.cancel()
            self._due = self._loop.arrive_at(due, self, self._commit)

    def _commit(self) -> None:
        self._due = None
        writer = self._writer
        assert writer is not None
        while writer.queue and writer.failure is None and not writer.stopped:
            writer.commit()
        self._urgent_tasks = writer.urgent_tasks

    def _later(self, task: Callable[[], None]) -> None:
        self._tasks.append(task)
        self._loop.arrive_at(self._loop.time() + self._random.uniform(0, self._longest), None, self._work)

    def _work(self) -> None:
        # None left: closing has run them.
        if self._tasks:
            self._tasks.popleft()()


class Disk:
    """The broker host's: what survives its deaths."""

    def __init__(self, loop: SimulatedLoop, random: Random, longest_commit: float) -> None:
        self._loop = loop
        self._random = random
        self._longest = longest_commit
        self._disk = SimulatedDisk()
        self.files = MortalFiles(self._disk)
        self.committer = SimulatedCommitter(loop, random, longest_commit)

    def begin_life(self) -> None:
        """A process starts that has nothing open."""
        self.files = MortalFiles(self._disk)
        self.committer = SimulatedCommitter(self._loop, self._random, self._longest)

    def stop(self) -> None:
        """The process has ended in good order."""
        self._disk = self._disk.restart()

    def die(self, power: bool) -> None:
        """The process dies, now or in the middle of the commit that is under way; with ``power`` the cache is lost too."""
        self.files.left = self._random.randint(0, MOST_CALLS_BEFORE_DEATH)
        if self._random.random() < 0.5:
            with contextlib.suppress(Death):
                self.committer.run()
        self.files.left = 0
        self._disk = self._disk.crash(self._random) if power else self._disk.restart()
