"""Judges the nodes when everything is mended and quiet: all are members, have all that is committed, and come to the same state of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streams.testkit import elapse
from tests.actors.node_cluster import differences, state_of
from tests.simulation.clustered.watch import BEHIND, STATES, WatchedStorage
from tests.simulation.judged import Finding

if TYPE_CHECKING:
    from tests.simulation.clustered.host import Cluster

CATCH_UP_SECONDS: Final = 120.0
"""For all nodes to have all that is committed, once nothing goes wrong and nobody sends."""


async def judge_together(cluster: Cluster) -> list[Finding]:
    """What is wrong; nothing, if all is well."""
    storages = await _caught_up(cluster)
    if storages is None:
        where = {
            name: None if each is None else (each.log.committed, each.log.end) for name, each in _open(cluster).items()
        }
        return [Finding(BEHIND, cluster.loop.time(), f"nodes have not all that is committed: {where}")]
    found = []
    followers = [each for each in storages if cluster.leading is None or each.name != cluster.leading.name]
    states = {each.name: state_of(each._storage) for each in followers}
    one, *others = states
    for other in others:
        if states[one] != states[other]:
            text = differences(f"nodes {one} and {other}", states[one], states[other])
            found.append(Finding(STATES, cluster.loop.time(), text))
    return found


async def _caught_up(cluster: Cluster) -> list[WatchedStorage] | None:
    deadline = cluster.loop.time() + CATCH_UP_SECONDS
    while cluster.loop.time() < deadline:
        storages = [each for each in _open(cluster).values() if each is not None]
        agreed = len(storages) == len(cluster.hosts) and len({each.log.committed for each in storages}) == 1
        if agreed and all(each.log.end == each.log.committed and _folded(each) for each in storages):
            return storages
        await elapse(0.5)
    return None


def _open(cluster: Cluster) -> dict[str, WatchedStorage | None]:
    """The directories of the nodes that are members: not of one that has ended, or has met damage."""
    return {
        name: host.storage if host.node is not None and host.node.node is not None else None
        for name, host in cluster.hosts.items()
    }


def _folded(storage: WatchedStorage) -> bool:
    """Whether it has come to all of it; who leads has."""
    return bool(storage._leading) or storage.folded >= storage.log.committed
