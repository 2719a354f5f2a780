"""Logs, documents and machines for tests."""

from __future__ import annotations

from itertools import count
from typing import Any

from actors.replication.document import MAJORITY, ClusterDocument, Member
from actors.replication.follower import Follower
from actors.replication.leader import Leader
from actors.replication.modes import rule_of
from actors.replication.positions import LogSummary, summary
from actors.replication.takeover import Takeover
from actors.replication.vocabulary import Append, Following, Lead, Promise, Send, Stored
from tests.simulation.replication.disk import Disk, Record


def directory(name: str) -> str:
    """The id of a node's directory."""
    return f"{ord(name):02x}".ljust(32, "0")


A, B, C, D, E = (directory(name) for name in "abcde")


def member(name: str, *, learner: bool = False, in_step: bool = True) -> Member:
    address = f"{name}:1"
    return Member(directory(name), address, address, address, None, learner, in_step and not learner)


def document(names: str = "abc", mode: str = MAJORITY, epoch: int = 1, **others: Any) -> ClusterDocument:
    return ClusterDocument("0" * 32, epoch, names[0], {name: member(name) for name in names}, mode, **others)


def log(*epochs: int, synced: bool = True, committed: int = 1, name: str = "a") -> Disk:
    """One with a record of each of these epochs."""
    disk = Disk(directory(name))
    append(disk, *epochs)
    if synced:
        disk.durable = disk.end
    disk.committed = committed
    return disk


def records(start: int, *epochs: int) -> tuple[Record, ...]:
    return tuple(Record(start + index, epoch, ("p", start + index)) for index, epoch in enumerate(epochs))


def append(disk: Disk, *epochs: int) -> None:
    disk.append(records(disk.end, *epochs))


def sent(effects: list[Any], to: str | None = None) -> list[Any]:
    """The messages among effects."""
    return [each.message for each in effects if isinstance(each, Send) and to in (None, each.to)]


def kinds(effects: list[Any]) -> list[type]:
    return [type(each) for each in effects]


def following(disk: Disk, epoch: int, leader: str = A, now: float = 0.0) -> Follower:
    """A follower that has promised an epoch and follows its leader."""
    disk.promised = epoch
    follower = Follower(disk, now)
    from actors.replication.vocabulary import Follow

    assert sent(follower.received(now, leader, Follow(epoch))) == [Following(epoch, summary(disk))]
    return follower


def leading(disk: Disk, epoch: int, *documents: ClusterDocument, now: float = 0.0) -> Leader:
    """A leader whose first record is in its log, synced, and whose followers are connected."""
    disk.promised = epoch
    leader = Leader(now, A, epoch, disk)
    rules = [rule_of(each) for each in documents]
    peers = {node for rule in rules for quorum in rule.quorums for node in quorum} - {A}
    effects = leader.begin(now, rules, peers, sorted(peers))
    assert effects[0] == Lead(epoch)
    append(disk, epoch)
    leader.appended(now)
    disk.durable = disk.end
    leader.synced()
    return leader


def follows(leader: Leader, peer: str, disk: Disk, now: float = 0.0) -> list[Any]:
    """A follower says what its log is."""
    return leader.received(now, peer, Following(leader.epoch, summary(disk)))


def stores(leader: Leader, peer: str, lsn: int, now: float = 0.0) -> list[Any]:
    return leader.received(now, peer, Stored(leader.epoch, lsn, now))


def candidate(disk: Disk, known: ClusterDocument, now: float = 0.0) -> tuple[Takeover, Follower]:
    follower = Follower(disk, now)
    takeover = Takeover(A, follower, "a1", count(1))
    takeover.knows(1, known)
    return takeover, follower


def carried_out(disk: Disk, effects: list[Any]) -> None:
    """Promises and appends, on the disk."""
    for effect in effects:
        if isinstance(effect, Promise):
            disk.promised = effect.epoch
        elif isinstance(effect, Append):
            disk.append(effect.records)  # type: ignore[arg-type]
        disk.durable = disk.end


def told(disk: Disk) -> LogSummary:
    return summary(disk)
