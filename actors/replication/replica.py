"""One node of a cluster: follower, candidate or leader, and what is told to which. The shell has one of these, and nothing to decide.

The shell carries out the effects that a call gives, in their order, before it makes the next call. It calls `tick` when `next_tick` says.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from actors.replication import takeover as steps
from actors.replication.document import ClusterDocument
from actors.replication.doubt import Doubt
from actors.replication.follower import Follower
from actors.replication.leader import Leader
from actors.replication.limits import BEAT_SECONDS, LIMITS, LOOK_SECONDS, MAKE_WAY_SECONDS, Limits
from actors.replication.membership import Membership
from actors.replication.positions import ReplicaLog, position
from actors.replication.takeover import Takeover
from actors.replication.vocabulary import (
    Effects,
    Fetched,
    Follow,
    Following,
    LeaderKnown,
    Message,
    Missed,
    Missing,
    ReadRegister,
    Refused,
    Replicate,
    Seal,
    Sealed,
    Send,
    Stored,
    TakeOver,
)

if TYPE_CHECKING:
    from collections.abc import Collection

FOLLOWER: Final = "follower"
CANDIDATE: Final = "candidate"
LEADER: Final = "leader"
CLOSING: Final = "closing"


class Replica:
    """One node.

    Attributes:
        me: the id of its directory.
        log: its log.
        follower: what it is when it does not lead.
        takeover: how it comes to lead.
        doubt: whether its log may lack what it has answered for.
        leader: its lead; None when it does not lead.
        membership: the document in its hands; None when it does not lead.
    """

    __slots__ = (
        "_closing",
        "_connected",
        "_full",
        "_limits",
        "_look",
        "_looked",
        "_made_way",
        "_numbers",
        "_ruled",
        "_short",
        "_writer",
        "doubt",
        "follower",
        "leader",
        "log",
        "me",
        "membership",
        "takeover",
    )

    def __init__(self, now: float, me: str, log: ReplicaLog, writer: str, limits: Limits = LIMITS) -> None:
        """``writer`` is what this start of this node calls itself in the document: no other start of any node has the same."""
        self.me = me
        self.log = log
        self.leader: Leader | None = None
        self.membership: Membership | None = None
        self._limits = limits
        self._writer = writer
        self._numbers = count(1)
        self._connected: set[str] = set()
        self._closing = False
        self._full = self._short = False
        self._ruled = 0  # up to which change of the documents the leader has been told
        self._look = 0  # the number of the read that is for the document alone
        self._looked = now - LOOK_SECONDS
        self._made_way = now - MAKE_WAY_SECONDS  # when it last did
        self.follower = self._make_follower(now)
        self.takeover = self._make_takeover()
        self.doubt = self._make_doubt(now)

    def _make_follower(self, now: float) -> Follower:
        return Follower(self.log, now, self._limits)

    def _make_doubt(self, now: float) -> Doubt:
        return Doubt(self.follower, now)

    def room(self, now: float, full: bool) -> Effects:
        """This node has no room for more of a leader's records, or has some again."""
        self._full = full
        return self._after(now, self.follower.room(now, full))

    def disks(self, now: float, short: bool, others: Collection[str]) -> Effects:
        """Whether senders wait for this node's disk, where it leads, and for whose of the ``others``, where they did.

        Such a node leaves a take-over to others first; and where it leads, it hands over to one that has room. Before that it reads the
        register: where that does not answer nobody could take over, and receivers, who free the disk, would have no leader either. Where
        the other one cannot lead, and this one does again, it stays for `MAKE_WAY_SECONDS`.
        """
        self._short = self.takeover.short = short
        leader = self.leader
        if leader is None:
            return []
        leader.short = others
        if not (short and now - self._made_way >= MAKE_WAY_SECONDS and leader.could_make_way()):
            leader.makes_way = False
            self._look = 0  # an answer that is still to come would have it make way for nothing
            return []
        effects = self._read(now)
        if effects:
            leader.makes_way = False  # until it has answered
        return effects

    def ending(self, others: Collection[str]) -> None:
        """Whose process ends in good order: who leads has nobody wait until they are silent for long."""
        if self.leader is not None:
            self.leader.ending = others

    def _make_takeover(self) -> Takeover:
        return Takeover(self.me, self.follower, self._writer, self._numbers)

    def _make_leader(self, now: float) -> Leader:
        return Leader(now, self.me, self.takeover.epoch, self.log, whole=self.takeover.sure, limits=self._limits)

    def _make_membership(self, version: int, document: ClusterDocument) -> Membership:
        return Membership(self.me, version, document, self._writer, self._numbers)

    @property
    def role(self) -> str:
        """What it is now."""
        if self._closing:
            return CLOSING
        if self.leader is not None:
            return LEADER
        return FOLLOWER if self.takeover.state in (steps.IDLE, steps.ASKING) else CANDIDATE

    @property
    def document(self) -> ClusterDocument | None:
        """As this node knows it; it may be old, unless it leads."""
        return self.takeover.document if self.membership is None else self.membership.document

    @property
    def document_is_old(self) -> bool:
        """Whether a later one than is known here has made the leader that is followed."""
        document = self.takeover.document
        return self.follower.leader is not None and (document is None or document.epoch < self.follower.epoch)

    @property
    def version(self) -> int:
        """Of the document as this node knows it."""
        return self.takeover.version if self.membership is None else self.membership.version

    # Connections

    def connected(self, now: float, peer: str) -> Effects:
        """There is a connection to a peer, a new one."""
        self._connected.add(peer)
        if self.leader is None:
            return []
        return self._after(now, self.leader.connected(now, peer))

    def lost(self, now: float, peer: str) -> Effects:
        """There is none any more, or it was refused."""
        self._connected.discard(peer)
        if self.leader is not None:
            return self._after(now, self.leader.lost(peer))
        return self._after(now, self.follower.lost(peer) + self._missing(now))

    def received(self, now: float, sender: str, message: Message) -> Effects:
        """What a peer says."""
        if self._closing:
            return []
        if self.leader is not None:
            return self._after(now, self._led(now, self.leader, sender, message))
        if type(message) is Replicate:  # as mostly
            return self._after(now, self._shipped_to(now, sender, message))
        return self._after(now, self._followed(now, sender, message))

    def _led(self, now: float, leader: Leader, sender: str, message: Message) -> Effects:
        match message:
            case Stored() | Following() | Refused():
                return leader.received(now, sender, message)
            case Missing(ask=ask) if message.epoch <= leader.epoch:
                return [Send(sender, Missed(leader.epoch, ask, False, position(self.log)))]
            case Missing() | Seal() | Follow() | Replicate() if message.epoch > leader.epoch:
                return leader.step_down(f"{sender} speaks of epoch {message.epoch}")
            case Seal() | Follow() | Replicate() if message.epoch < leader.epoch:
                return [Send(sender, Refused(leader.epoch))]
            case _:
                return []

    def _followed(self, now: float, sender: str, message: Message) -> Effects:
        takeover = self.takeover
        match message:
            case Missed():
                self.doubt.told(sender, message)
                return takeover.missed(now, sender, message)
            case Sealed(epoch, log, doubt):
                return takeover.sealed_by(now, sender, log, doubt=doubt) if epoch == takeover.epoch else []
            case Fetched():
                return takeover.fetched(now, sender, message)
            case Refused(epoch):
                takeover.superseded(now, epoch)
                return []
            case TakeOver(epoch):
                asked = epoch == self.log.promised and sender == self.follower.leader and takeover.may()
                return takeover.begin(now) if asked else []
            case _:
                effects = self.follower.received(now, sender, message)
                if isinstance(message, Missing):
                    effects += takeover.missed(now, sender, message)
                else:
                    self._look_for_leader(now)
                takeover.superseded(now, self.follower.accepted)
                return effects

    def _shipped_to(self, now: float, sender: str, message: Replicate) -> Effects:
        """What nearly all messages to a follower are."""
        effects = self.follower.received(now, sender, message)
        self._look_for_leader(now)
        self.takeover.superseded(now, self.follower.accepted)
        return effects

    def _look_for_leader(self, now: float) -> None:
        if not self.follower.misses(now):
            self.takeover.found()

    # What the disk says

    def promised(self, now: float, epoch: int) -> Effects:
        """An epoch is promised, and everything that was appended before is synced."""
        if self.leader is not None or self._closing:
            return []
        return self._after(now, self.follower.promised(now, epoch) + self.takeover.promised(now, epoch))

    def doubt_ended(self, now: float) -> Effects:
        """An `EndDoubt` was carried out."""
        self.doubt.written()
        return self._after(now, [])

    def appended(self, now: float) -> Effects:
        """The leader has appended to its log: the first record of its epoch, or what senders sent."""
        return [] if self.leader is None else self._after(now, self.leader.appended(now))

    def synced(self, now: float) -> Effects:
        """The log's ``durable`` has moved."""
        if self._closing:
            return []
        if self.leader is not None:
            return self._after(now, self.leader.synced())
        return self._after(now, self.follower.synced() + self.takeover.synced(now))

    def truncated(self, now: float) -> Effects:
        """What was to be cut is cut."""
        return self._after(now, self.follower.truncated(now) + self.takeover.truncated(now))

    def shipped(self, now: float, peer: str, lsn: int, stop: int, nbytes: int) -> Effects:
        """A `Ship` was carried out; ``stop == lsn`` where the log no longer held the records. Nothing follows for anybody else."""
        return [] if self.leader is None else self.leader.shipped(now, peer, lsn, stop, nbytes)

    def taking(self, now: float) -> None:
        """A piece of a transfer has come."""
        self.follower.taking(now)

    def transferred(self, now: float) -> Effects:
        """A transfer is whole, aside."""
        return self._after(now, self.follower.transferred())

    def transfer_failed(self, now: float) -> Effects:
        """A transfer cannot go on."""
        return self._after(now, self.follower.transfer_failed(now))

    def installed(self, now: float) -> Effects:
        """A transfer is in the log's place."""
        return self._after(now, self.follower.installed(now))

    def reopened(self, now: float) -> Effects:
        """The directory is open again behind a `StepDown`."""
        self._closing = False
        version, document = self.takeover.version, self.takeover.document
        self.follower = self._make_follower(now)
        self.follower.full = self._full
        self.takeover = self._make_takeover()
        self.takeover.short = self._short
        self.doubt = self._make_doubt(now)
        if document is not None:
            self.takeover.knows(version, document)
        return self.tick(now)

    # What the register says

    def register_read(self, now: float, number: int, version: int, document: ClusterDocument | None) -> Effects:
        """The document as it is."""
        if number == self._look:
            self._look = 0
            if self.leader is not None:
                self.leader.makes_way = document is not None and document.epoch == self.leader.epoch
                return self._after(now, self.leader.make_way())
            idle = self.leader is None and self.takeover.state in (steps.IDLE, steps.ASKING)
            if idle and document is not None and version >= self.takeover.version:
                before = self.takeover.document
                self.takeover.knows(version, document)
                effects: Effects = []
                leader, members = self.follower.leader, None if before is None else before.members
                if leader is not None and members != document.members:
                    # Clients may reach it elsewhere.
                    effects.append(LeaderKnown(leader, self.follower.epoch))
                return self._after(now, effects + self._missing(now))
            return []
        if self.membership is not None:
            return self._after(now, self.membership.read(now, number, version, document))
        return self._after(now, self.takeover.read(now, number, version, document))

    def register_swapped(self, now: float, number: int, version: int) -> Effects:
        """The swap was done; ``version`` is the document's."""
        if self.membership is not None:
            self.membership.swapped(number, version)
            return self._after(now, [])
        return self._after(now, self.takeover.swapped(now, number, version))

    def register_moved(self, now: float, number: int) -> Effects:
        """The document was of another version: nothing was changed by this swap."""
        if self.membership is not None:
            return self._after(now, self.membership.moved(now, number))
        return self._after(now, self.takeover.moved(now, number))

    def look(self, now: float) -> Effects:
        """Read the document anew, for it may be newer than is known here; not again within `LOOK_SECONDS`."""
        return [] if self._closing or self.leader is not None else self._read(now)

    def _read(self, now: float) -> Effects:
        if now - self._looked < LOOK_SECONDS:
            return []
        self._looked = now
        self._look = next(self._numbers)
        return [ReadRegister(self._look)]

    def register_failed(self, now: float, number: int) -> Effects:
        """The register cannot be asked, or its answer was lost."""
        if number == self._look:
            self._look = 0
            if self.leader is not None:
                self.leader.makes_way = False
            return []
        if self.membership is not None:
            self.membership.failed(now, number)
            return []
        return self._after(now, self.takeover.failed(now, number))

    # Time

    def tick(self, now: float) -> Effects:
        """Whatever is due."""
        if self._closing:
            return []
        if self.leader is not None:
            return self._after(now, self.leader.tick(now))
        effects = self.follower.tick(now) + self.takeover.tick(now)
        if not self.follower.misses(now):
            self.takeover.found()
        return self._after(now, effects + self._missing(now))

    def next_tick(self, now: float) -> float:
        """When `tick` is due next, unless something happens before."""
        if self._closing:
            return now + LOOK_SECONDS
        if self.leader is not None:
            return max(self.leader.next_tick(), now)
        if self.takeover.state == steps.IDLE and not self.follower.misses(now) and self.takeover.document is not None:
            return max(self.follower.missed_at(), now + BEAT_SECONDS / 2)
        return now + BEAT_SECONDS / 2

    def hand_over(self, now: float) -> Effects:
        """Have another one lead. Nothing may be appended from now on."""
        return [] if self.leader is None else self._after(now, self.leader.hand_over(now, self._connected))

    @property
    def could_hand_over(self) -> bool:
        """Whether it leads, and another one that is connected might do so in its place."""
        return self.leader is not None and self.leader.could_hand_over(self._connected)

    def _missing(self, now: float) -> Effects:
        """The leader may be missed: look who leads, and ask the others."""
        if self._closing or self.leader is not None:
            return []
        effects: Effects = []
        missed = self.follower.misses(now)
        idle = self.takeover.state in (steps.IDLE, steps.ASKING)
        if idle and (missed or self.takeover.document is None):
            effects += self._read(now)
        return effects + self.takeover.missing(now) if missed else effects

    def _after(self, now: float, effects: Effects) -> Effects:
        """What follows from what has happened."""
        if not self.doubt.over and not self._closing:
            effects = effects + self.doubt.look(now)
        if self.leader is None and self.takeover.state == steps.DONE:
            effects = effects + self._lead(now)
        leader, membership = self.leader, self.membership
        if leader is None or membership is None:
            return effects
        if not leader.over:
            if more := membership.tick(now, leader):
                effects = effects + more
            if membership.superseded is not None:
                effects = effects + leader.step_down(membership.superseded)
        if leader.over:
            if leader.made_way:
                self._made_way = now
            self.leader = self.membership = None
            self._closing = True
            self.takeover.knows(membership.version, membership.document)
            return effects
        if membership.changes != self._ruled:
            # Before a swap is sent, its document is satisfied as well.
            self._ruled = membership.changes
            effects = leader.ruled(now, membership.rules(), membership.peers()) + effects
        return effects

    def _lead(self, now: float) -> Effects:
        takeover = self.takeover
        assert takeover.document is not None
        self.leader = self._make_leader(now)
        self.membership = self._make_membership(takeover.version, takeover.document)
        takeover.state = steps.IDLE
        self._ruled = self._look = 0  # what a follower has asked the register is no leader's
        peers = self.membership.peers() - {self.me}
        begun = self.leader.begin(now, self.membership.rules(), peers, sorted(peers & self._connected))
        return [LeaderKnown(self.me, takeover.epoch), *begun]
