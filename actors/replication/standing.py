"""How a cluster stands, as one of its nodes sees it: what people and Prometheus are told. Nothing goes by it.

Who leads knows what each of the others has stored. Every other node knows itself, and to whom it has a connection.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from actors.replication.document import ALL
from actors.replication.limits import MISS_SECONDS
from actors.replication.replica import LEADER
from actors.replication.shipping import FILLING

if TYPE_CHECKING:
    from actors.replication.document import ClusterDocument, Member
    from actors.replication.leader import Leader
    from actors.replication.replica import Replica

FOLLOWER: Final = "follower"
LEARNER: Final = "learner"
AWAY: Final = "away"
WAITING: Final = "waiting"
"""Of no cluster yet."""
DAMAGED: Final = "damaged"
"""A member by name only, until it is filled anew: its directory cannot be read."""
MAX_MARKS: Final = 512
"""Of one log: when there are more, every other one goes."""


class Marks:
    """When a log had grown how far, and how many bytes that were: what somebody lacks is told in seconds and in bytes by it.

    A mark is taken now and then, and what lies between two is taken to have come evenly. However long somebody lags there are as many
    marks at most: then they lie further apart.
    """

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._times: list[float] = []
        self._bytes: list[int] = []
        self._every = 1
        self._left_out = 0

    def add(self, now: float, end: int, appended: int) -> None:
        """Now the log ends at ``end``, and ``appended`` bytes have been appended to it."""
        ends, times, sizes = self._ends, self._times, self._bytes
        if ends and end <= ends[-1]:
            if len(ends) > 1 and ends[-2] == ends[-1]:
                times[-1] = now
                return
        else:
            self._left_out += 1
            if self._left_out < self._every:
                return
            self._left_out = 0
        ends.append(end)
        times.append(now)
        sizes.append(appended)
        if len(ends) > MAX_MARKS:
            self._every *= 2
            for each in (ends, times, sizes):
                del each[1:-1:2]

    def seconds(self, now: float, stored: int, end: int) -> float:
        """How old the first record is that somebody lacks who has everything below ``stored``."""
        if stored >= end or not self._ends:
            return 0.0
        # The last mark at which that record was not there yet; where there is none, it is older than all of them.
        index = bisect_right(self._ends, stored)
        return max(0.0, now - self._times[max(0, index - 1)])

    def lacking(self, stored: int, end: int, appended: int) -> int:
        """Bytes of the records from ``stored`` on to ``end``, where ``appended`` bytes were appended in all."""
        if stored >= end or not self._ends:
            return 0
        index = bisect_right(self._ends, stored)
        if index == 0:
            return max(0, appended - self._bytes[0])
        first, size = self._ends[index - 1], self._bytes[index - 1]
        last, whole = (self._ends[index], self._bytes[index]) if index < len(self._ends) else (end, appended)
        share = (stored - first) / (last - first) if last > first else 0.0
        return max(0, appended - round(size + (whole - size) * share))


def standing(
    replica: Replica, name: str, now: float, connected: Collection[str], marks: Marks, appended: int
) -> dict[str, Any]:
    """How the cluster stands.

    Args:
        replica: of this node.
        name: this node's.
        now: the node's clock.
        connected: the directories to whom there is a connection.
        marks: of its log, where it leads.
        appended: bytes that were appended to its log, as ``marks`` have them.
    """
    document, log, leader = replica.document, replica.log, replica.leader
    epoch = log.promised if leader is None else leader.epoch
    facts: dict[str, Any] = {
        "node": name,
        "role": replica.role,
        "cluster": None if document is None else document.cluster,
        "epoch": max(epoch, 0 if document is None else document.epoch),
        "leader": _leader(replica, document),
        "mode": None if document is None else document.mode,
        "end": log.end,
        "committed": log.committed if leader is None else leader.committed,
        "confirmed": None if leader is None else leader.confirmed,
        "whole": None if leader is None else leader.whole,
        "change": None,
        "members": [],
    }
    if document is None:
        return facts
    facts["change"] = _change(document)
    for each, member in document.members.items():
        row = _member(each, member, document)
        moved = _moved(each, document)
        if moved is not None and member.directory != replica.me:
            # It is of interest how far the directory is that it moves to, and not that the former one is away.
            row |= {"moves_to": moved.directory}
            former, member = member, moved  # noqa: PLW2901 - all of the rest is about this one
        if member.directory == replica.me:
            row |= {"role": _own_role(replica, member), "connected": True, "stored": log.durable}
            if leader is not None:
                row |= {"lag_records": 0, "lag_bytes": 0, "lag_s": 0.0, "in_step": True, "heard_s": 0.0}
        else:
            row |= _other(leader, member, now, member.directory in connected, marks, appended)
            if each == facts["leader"] and row["role"] != AWAY:
                row["role"] = LEADER
        if row["moves_to"] is not None and leader is not None:
            row["in_step"] = leader.caught_up(former.directory)  # until it has moved that one counts
        facts["members"].append(row)
    return facts


def standing_outside(
    document: ClusterDocument | None, name: str, connected: Collection[str], role: str
) -> dict[str, Any]:
    """How the cluster stands, as a node sees it that follows nobody: all that it may know is the document.

    Args:
        document: as it was read last; None where it was not.
        name: this node's.
        connected: the directories to whom there is a connection.
        role: of this node.
    """
    facts: dict[str, Any] = dict.fromkeys(
        ("cluster", "leader", "mode", "end", "committed", "confirmed", "whole", "change")
    )
    facts |= {"node": name, "role": role, "epoch": 0, "members": []}
    if document is None:
        return facts
    facts |= {"cluster": document.cluster, "mode": document.mode, "epoch": document.epoch, "change": _change(document)}
    for each, member in document.members.items():
        row = _member(each, member, document)
        if each == name:
            row |= {"role": role, "connected": True}
        else:
            row |= _other(None, member, 0.0, member.directory in connected, Marks(), 0)
        facts["members"].append(row)
    return facts


def _change(document: ClusterDocument) -> dict[str, Any] | None:
    return None if document.change is None else {"kind": document.change.kind, "name": document.change.name}


def _moved(name: str, document: ClusterDocument) -> Member | None:
    """What a member is to be that is filled in another directory; None where it is not."""
    change = document.change
    if change is None or change.name != name or change.member is None:
        return None
    if change.member.directory == document.members[name].directory:
        return None
    return replace(change.member, learner=True, in_step=False)


def _leader(replica: Replica, document: ClusterDocument | None) -> str | None:
    """The name of who leads, as far as it is heard here."""
    directory = replica.me if replica.role == LEADER else replica.follower.leader
    if document is None or directory is None:
        return None
    return next((name for name, member in document.members.items() if member.directory == directory), None)


def _own_role(replica: Replica, member: Member) -> str:
    return LEARNER if member.learner and replica.role == FOLLOWER else replica.role


def _member(name: str, member: Member, document: ClusterDocument) -> dict[str, Any]:
    return {
        "name": name,
        "role": FOLLOWER,
        "directory": member.directory,
        # The directory that all the rest is about, while the member moves there.
        "moves_to": None,
        "send": member.send,
        "receive": member.receive,
        "replication": member.replication,
        "http": member.http,
        "amqp": member.amqp,
        "amqps": member.amqps,
        "counts": not member.learner,
        # Whom the mode `all` waits for, as the document lists them; of other modes nobody is asked.
        "listed": member.in_step if document.mode == ALL else None,
        "in_step": None,
        "connected": False,
        "filling": False,
        # Why it has no room for more of the log; each node knows that of itself.
        "full": None,
        "stored": None,
        "lag_records": None,
        "lag_bytes": None,
        "lag_s": None,
        "heard_s": None,
    }


def _other(
    leader: Leader | None, member: Member, now: float, connected: bool, marks: Marks, appended: int
) -> dict[str, Any]:
    role = LEARNER if member.learner else FOLLOWER
    if leader is None:
        return {"connected": connected, "role": role if connected else AWAY}
    follower = leader.follower(member.directory)
    if follower is None:
        return {"connected": connected, "role": role if connected else AWAY}
    heard = max(0.0, now - follower.heard)
    end, stored = leader.log.end, follower.stored
    facts = {
        "connected": connected,
        "role": role if connected and heard < MISS_SECONDS else AWAY,
        "filling": follower.state == FILLING,
        "in_step": leader.caught_up(member.directory),
        "heard_s": round(heard, 3),
    }
    if not stored:
        # It has not said anything in this epoch yet.
        return facts
    return facts | {
        "stored": stored,
        "lag_records": max(0, end - stored),
        "lag_bytes": marks.lacking(stored, end, appended),
        "lag_s": round(marks.seconds(now, stored, end), 3),
    }
