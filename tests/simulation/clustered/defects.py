"""Defects put into the nodes on purpose: those of the machines of replication, and of what carries them out. Runs have to find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

from journal.replica_file import ReplicaFile
from tests.simulation.clustered.plan import draw_clustered
from tests.simulation.clustered.runner import run_cluster_plan
from tests.simulation.replication import defects as machines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.simulation.runner import Outcome


def _machines(**classes: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: mock.patch("transport.node.cluster_node.Replica", machines.replica(**classes))


@contextmanager
def _promised_in_memory() -> Iterator[None]:
    """A promise is forgotten with the process."""

    def promise(self: ReplicaFile, epoch: int, durable: int) -> None:
        self.now = self.now._replace(promised=max(epoch, self.now.promised))

    with mock.patch.object(ReplicaFile, "promise", promise):
        yield


DEFECTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "own sync is enough": _machines(leader=machines.OwnSyncLeader),
    "follower answers before its sync": _machines(follower=machines.HastyFollower),
    "seal not durable": _promised_in_memory,
    "old epoch accepted": _machines(follower=machines.ForgivingFollower),
    "old-epoch record counted as committed": _machines(leader=machines.OldRecordsLeader),
    "truncation left out": _machines(follower=machines.UncutFollower),
    "lost swap answer taken for refused": _machines(
        takeover=machines.GuessingTakeover, membership=machines.GuessingMembership
    ),
    "own log in place of the greatest": _machines(takeover=machines.OwnLogTakeover),
    "own seal is enough": _machines(takeover=machines.LoneTakeover),
}
"""By name."""


def first_found(name: str, seeds: Iterable[int]) -> Outcome | None:
    """The first of these seeds that finds a defect; None where none does."""
    with DEFECTS[name]():
        for seed in seeds:
            outcome = run_cluster_plan(draw_clustered(seed))
            if outcome.findings:
                return outcome
    return None
