"""A host of a node: what its disk keeps of its lives, and the machine that a node of the product is given."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from actors.storage import storage_options
from journal.alone import TURN_SYNC
from tests.fault.disk import SimulatedDisk
from tests.simulation.storage import MOST_CALLS_BEFORE_DEATH, Death, MortalFiles, SimulatedCommitter
from transport.node.machine import Machine

if TYPE_CHECKING:
    from actors.replication.limits import Limits
    from actors.storage.node_storage import NodeStorage
    from tests.simulation.loop import SimulatedLoop
    from transport.wire.address import Address

SMALL_JOURNAL: Final = {
    "segment_bytes": 64 * 1024,
    "checkpoint_bytes": 200 * 1024,
    "checkpoint_records": 300,
    "reserve_bytes": 0,
}
"""A run's few hundred kilobytes are to fill segments, make checkpoints and have segments combined."""


class NodeDisk:
    """What survives a node's deaths.

    Attributes:
        host: whose it is.
        disk: the disk of this life.
    """

    def __init__(self, host: str, loop: SimulatedLoop, random: Random, longest_commit: float) -> None:
        self.host = host
        self.disk = SimulatedDisk()
        self._loop = loop
        self._random = random
        self._longest = longest_commit
        self._committer: SimulatedCommitter | None = None
        self.begin_life()

    def begin_life(self) -> None:
        """A process starts that has nothing open."""
        self.files = MortalFiles(self.disk)
        self.files.host = self.host
        self._committer = None

    def make_committer(self) -> SimulatedCommitter:
        """Of a journal that is started."""
        quick = self._longest < TURN_SYNC  # where a follower commits itself what has come in a turn
        self._committer = SimulatedCommitter(self._loop, self._random, self._longest, holds=quick)
        return self._committer

    def wipe(self) -> None:
        """Another disk is put in its place, which is empty."""
        self.disk = SimulatedDisk()

    def stop(self) -> None:
        """The process has ended in good order."""
        self.disk = self.disk.restart()

    def die(self, power: bool, jobs: list[Callable[[], object]]) -> None:
        """The process dies, now or in the midst of a commit, or of what one of its threads does; with ``power`` the cache is lost too."""
        random = self._random
        self.files.left = random.randint(0, MOST_CALLS_BEFORE_DEATH)
        if random.random() < 0.5:
            under_way = [*jobs, *((self._committer.run,) if self._committer is not None else ())]
            random.shuffle(under_way)
            for each in under_way:
                with contextlib.suppress(Death):
                    each()
        self.files.left = 0
        self.disk = self.disk.crash(random) if power else self.disk.restart()


def machine(
    disk: NodeDisk,
    open_storage: Callable[[Path, Any, int, NodeDisk], NodeStorage],
    chance: Callable[[], Random],
    limits: Limits,
) -> Machine:
    """What a node runs on."""
    return Machine(
        journal_options=lambda **said: storage_options(**{**said, **SMALL_JOURNAL}),
        open_storage=lambda directory, options, cache_bytes: open_storage(directory, options, cache_bytes, disk),
        listen=_listen,
        listen_to_nodes=_listen_to_nodes,
        chance=chance,
        limits=limits,
    )


async def _listen(intake: Any, host: str, port: int) -> Any:
    """On the simulated network."""
    return await asyncio.get_running_loop().create_server(intake.factory, host, port)


async def _listen_to_nodes(make: Callable[[], Any], address: Address) -> Any:
    """On the simulated network."""
    return await asyncio.get_running_loop().create_server(make, address.host, address.port)
