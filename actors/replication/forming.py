"""How a cluster begins, and how a node finds that it is a member of one: what it may do before it has a `Replica`.

A cluster is formed once all of its first members are there and hear each other: so the first message is confirmed by half + 1 of the
machines that were asked for, and not by the one that happened to start first. One of them writes the document; compare-and-swap decides.

Where one of them was a broker that was alone, and holds messages, nobody else may come to lead before having them: the others learn first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple

from actors.replication.document import MAJORITY, ClusterDocument, Member, check_member_name

FIRST_EPOCH = 1
"""Of the first document. Nobody leads in it: the first take-over is that of the epoch behind it."""


class Here(NamedTuple):
    """What a node says of itself at the start of each connection.

    Attributes:
        name: which member it is, or wants to be.
        cluster: the id of the cluster that its directory is of; "" for none yet.
        end: one more than the last record of its log; 1 for a log that holds nothing.
        member: its directory's id, and where it is reached.
        heals: whether a damaged journal was put aside there, and it may be filled anew without a person.
    """

    name: str
    cluster: str
    end: int
    member: Member
    heals: bool = False


class Wait(NamedTuple):
    """Nothing can be done yet; ``why`` is for a person."""

    why: str


class Form(NamedTuple):
    """Swap this document in where there is none, then read again."""

    document: ClusterDocument


class Join(NamedTuple):
    """The document names this node's directory: it is a member."""

    version: int
    document: ClusterDocument


class Leave(NamedTuple):
    """It can never be a member as it is; ``why`` says what to do."""

    why: str


Step = Wait | Form | Join | Leave


class Forming:
    """One node's way to its first document.

    Args:
        me: what this node is.
        first: the names of the members that the cluster begins with, this one among them or not; empty where nobody has said so: then
            the cluster has to be there.
        writer: what this start of this node calls itself in the document.
        new_id: makes the id of a cluster.
        mode: of the first document.
        copied: its log holds records of a cluster, and its directory is of none: nobody leads there in a first epoch.
    """

    def __init__(
        self,
        me: Here,
        first: Collection[str],
        writer: str,
        new_id: Callable[[], str],
        mode: str = MAJORITY,
        *,
        copied: bool = False,
    ) -> None:
        self._copied = copied
        self._me = me
        self._first = tuple(sorted(check_member_name(name) for name in first))
        self._writer = writer
        self._new_id = new_id
        self._mode = mode
        self._heard: dict[str, Here] = {me.name: me}

    def heard(self, peer: Here) -> None:
        """What another one says of itself."""
        if peer.name != self._me.name:
            self._heard[peer.name] = peer

    def lost(self, name: str) -> None:
        """Another one is not reached any more."""
        if name != self._me.name:
            self._heard.pop(name, None)

    def read(self, version: int, document: ClusterDocument | None) -> Step:
        """What follows from what the register holds."""
        return self._formed(version, document) if document is not None else self._none()

    def _formed(self, version: int, document: ClusterDocument) -> Step:
        me = self._me
        directory = me.member.directory
        if me.cluster not in ("", document.cluster):
            return Leave(
                f"this directory is of the cluster {me.cluster}, and the register holds the cluster {document.cluster}: name another "
                "register by --cluster, or another directory by --data"
            )
        # One that a member is to live in follows before it counts: it has to catch up first.
        every = (*document.members.items(), *document.members_after_change.items())
        named = next((name for name, member in every if member.directory == directory), None)
        if named == me.name:
            return Join(version, document)
        if named is not None:
            return Leave(f"this directory is the member {named!r} of its cluster: start it with --node {named}")
        if me.name in document.members:
            there, here = document.members[me.name].replication, me.member.replication
            where = me.name if there == here else f"{me.name}={here}"
            why = (
                f"the member {me.name!r} of the cluster has another directory than this one. If that is lost, which was at {there}, have "
                f"it live here by `penstock cluster move {where}`; if it is there, give this node another name by --node{self._emptied()}"
            )
        else:
            add = f"have it added by {_adding(me.name, me.member)}"
            is_none = (
                "this directory is no member of its cluster any more: its process can be stopped. To have it back,"
            )
            why = f"{is_none if me.cluster else f'the cluster has no member {me.name!r} yet:'} {add}{self._emptied()}"
        return Wait(why)

    def _emptied(self) -> str:
        """What has to be done first with a directory whose records are of nobody knows what: no member can live in it."""
        if self._me.cluster or self._me.end == 1:
            return ""
        return (
            ". First stop this node, put aside what is in its directory, all but the folder etcd, and start it again: this directory "
            "holds records, and does not say that they are of the cluster (its file `replica` is gone, or it was copied, restored or "
            "repaired, or its broker was alone)"
        )

    def _none(self) -> Step:
        if self._copied:
            return Leave(
                "this directory is a copy of one of another cluster, whose epochs it has: make a backup of it (penstock journal backup "
                "--data), and begin the cluster with that, restored"
            )
        why = self._why_none()
        if why:
            return Wait(why)
        peers = [self._heard[name] for name in self._first]
        full = next((peer.name for peer in peers if peer.end > 1), None)
        members = {peer.name: peer.member if full in (None, peer.name) else _learning(peer.member) for peer in peers}
        leader = full or self._me.name
        return Form(ClusterDocument(self._new_id(), FIRST_EPOCH, leader, members, self._mode, None, self._writer))

    def _why_none(self) -> str:
        """Why this node forms no cluster now; "" where it does."""
        me, first = self._me, self._first
        for peer in self._heard.values():
            if peer.cluster:
                return (
                    f"the register holds nothing, and the directory of {peer.name!r} is of the cluster {peer.cluster}: the register was "
                    "lost, or --cluster names another one. See docs/cluster.md"
                )
        if not first:
            return "the register holds no cluster: say by --cluster-members which nodes it begins with, as in a=HOST,b=HOST,c=HOST"
        if me.name not in first:
            return f"the cluster begins with {', '.join(first)}, and {me.name!r} can be added to it then"
        missing = [name for name in first if name not in self._heard]
        if missing:
            return f"the cluster begins when all of its members are there: {', '.join(missing)} cannot be reached yet"
        if len(full := [name for name in first if self._heard[name].end > 1]) > 1:
            return (
                f"the directories of {' and '.join(full)} hold messages already, and a cluster begins with those of one at most: give "
                "the others empty directories"
            )
        return "" if me.name == first[0] else f"{first[0]!r} forms the cluster"


def no_more(name: str, member: Member, document: ClusterDocument) -> str:
    """What a person is told by a node that was a member, and that a document names no more.

    Args:
        name: the member's.
        member: as it was.
        document: as it is.
    """
    other = document.members.get(name)
    if other is not None:
        where = f"the member {name!r} lives in another one now, at {other.replication}"
        return (
            f"this directory is no member of its cluster any more, for {where}: the process of this one can be stopped"
        )
    return (
        "this node is no member of its cluster any more, for it was removed: its process can be stopped. To have it back, start it again, "
        f"and have it added by {_adding(name, member)}"
    )


def _adding(name: str, member: Member) -> str:
    return f"`penstock cluster add {name}={member.replication}`"


def _learning(member: Member) -> Member:
    """One that counts once it has what the others have."""
    return replace(member, learner=True, in_step=False)
