"""Defects put into the nodes on purpose: those of the machines of replication, and of what carries them out. Runs have to find them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import mock

from actors.storage.node_storage import NodeStorage
from journal.pins import Pins
from journal.replica_file import ReplicaFile
from tests.simulation.clustered.plan import ClusterPlan, draw_by_chance
from tests.simulation.clustered.runner import run_cluster_plan
from tests.simulation.replication import defects as machines

if TYPE_CHECKING:
    from tests.simulation.runner import Outcome


def _machines(**classes: Any) -> Callable[[], AbstractContextManager[Any]]:
    return lambda: mock.patch("transport.node.cluster_node.Replica", machines.replica(**classes))


@contextmanager
def _promised_in_memory() -> Iterator[None]:
    """A promise is forgotten with the process."""

    def promise(self: ReplicaFile, epoch: int, _durable: int) -> None:
        self.now = self.now._replace(promised=max(epoch, self.now.promised))

    with mock.patch.object(ReplicaFile, "promise", promise):
        yield


@contextmanager
def _folded_before_it_is_committed() -> Iterator[None]:
    """A follower folds all that it has been sent, and its checkpoints have that."""
    commit = NodeStorage.commit

    def of_all(self: NodeStorage, lsn: int) -> None:
        commit(self, lsn)
        if not self._leading:
            self._followed.want(self.journal.next_lsn)
            self._fold_soon()

    with mock.patch.object(NodeStorage, "commit", of_all):
        yield


@contextmanager
def _wiped_as_itself() -> Iterator[None]:
    """A directory that is made anew on a host has the id of the one before."""
    ids: dict[str, str] = {}
    open_file = ReplicaFile.open.__func__  # type: ignore[attr-defined]  # as it is under the class method

    def opened(cls: type[ReplicaFile], files: Any, *given: Any) -> ReplicaFile:
        made: ReplicaFile = open_file(cls, files, *given)
        if made.fresh and files.host in ids:
            made._write(made.now._replace(directory=ids[files.host]))
        ids[files.host] = made.now.directory
        return made

    with mock.patch.object(ReplicaFile, "open", classmethod(opened)):
        yield


@contextmanager
def _nothing_is_held() -> Iterator[None]:
    """Files that a transfer is read from may go."""
    with mock.patch.object(Pins, "hold", return_value=0):
        yield


DEFECTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "own sync is enough": _machines(leader=machines.OwnSyncLeader),
    "follower answers before its sync": _machines(follower=machines.HastyFollower),
    "seal not durable": _promised_in_memory,
    "old epoch accepted": _machines(follower=machines.ForgivingFollower),
    "old-epoch record counted as committed": _machines(leader=machines.OldRecordsLeader),
    "truncation left out": _machines(follower=machines.UncutFollower),
    "checkpoint of uncommitted": _folded_before_it_is_committed,
    "wiped node as itself": _wiped_as_itself,
    "lost swap answer taken for refused": _machines(
        takeover=machines.GuessingTakeover, membership=machines.GuessingMembership
    ),
    "transfer without pin": _nothing_is_held,
    "own log in place of the greatest": _machines(takeover=machines.OwnLogTakeover),
    "own seal is enough": _machines(takeover=machines.LoneTakeover),
    "a node in doubt votes": _machines(takeover=machines.TrustingTakeover),
}
"""By name; the first ten are of those that issue 19 lists."""


def with_faults(
    seed: int, *, mode: str | None = None, commit_delay: float | None = None, **kinds: float
) -> ClusterPlan:
    """The plan of a seed with nothing but these faults, often; in another mode, and with slower disks, if that is said."""
    plan = draw_by_chance(seed, mode=mode)
    weights = dict.fromkeys(plan.base.faults.weights, 0.0) | {kind.replace("_", " "): of for kind, of in kinds.items()}
    faults = replace(plan.base.faults, weights=weights, interval=min(plan.base.faults.interval, 1.0))
    delay = plan.base.commit_delay if commit_delay is None else commit_delay
    return replace(plan, base=replace(plan.base, faults=faults, commit_delay=delay))


def first_found(name: str, plans: Iterable[ClusterPlan]) -> Outcome | None:
    """The first of these runs that finds a defect; None where none does."""
    with DEFECTS[name]():
        for plan in plans:
            outcome = run_cluster_plan(plan)
            if outcome.findings:
                return outcome
    return None
