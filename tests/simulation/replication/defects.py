"""Defects put in on purpose: each is a rule that is left out, in a machine, in the shell or on the disk. Each has to be found."""

from __future__ import annotations

from typing import Any

from actors.replication import membership, takeover
from actors.replication.document import ClusterDocument
from actors.replication.doubt import Doubt
from actors.replication.follower import Follower
from actors.replication.leader import Leader
from actors.replication.membership import Membership
from actors.replication.modes import Rule
from actors.replication.positions import LogSummary
from actors.replication.replica import Replica
from actors.replication.takeover import Takeover
from actors.replication.vocabulary import DropTransfer, Effects, Replicate
from tests.simulation.replication.program import Defects


class OwnSyncLeader(Leader):
    def ends(self) -> dict[str, int]:
        return dict.fromkeys([*self.peers, self.me], self.log.durable)


class OldRecordsLeader(Leader):
    def _of_present(self, lsn: int) -> bool:
        return True


class HastyFollower(Follower):
    def _accept(self, message: Replicate) -> Effects:
        effects = super()._accept(message)
        return effects if self.busy or self.diverged else effects + self._stored()

    def durable(self) -> int:
        return self._matched


class ForgivingFollower(Follower):
    @property
    def accepted(self) -> int:
        return 0


class UncutFollower(Follower):
    def _parted(self, lsn: int, epoch: int) -> bool:
        return False


class GuessingMembership(Membership):
    """Goes on as if the document were as it was, and comes back to it after a while."""

    def failed(self, now: float, number: int) -> None:
        if number == self._number and self._state == membership.SWAPPING:
            self._intend(None)
            self._state = membership.IDLE
            self._looked = now + 5.0
        else:
            super().failed(now, number)


class GuessingTakeover(Takeover):
    def failed(self, now: float, number: int) -> Effects:
        if number == self._number and self.state == takeover.SWAPPING:
            return self._lost(now)
        return super().failed(now, number)


class OneMajorityMembership(Membership):
    """Satisfies the members after a change alone, from the moment that it is asked for."""

    def rules(self) -> tuple[Rule, ...]:
        return super().rules()[-1:]


class OwnLogTakeover(Takeover):
    """Leads with the log that it has."""

    def _adopt(self, now: float) -> Effects:
        self.state = takeover.DONE
        return []


class LoneTakeover(Takeover):
    """Takes its own seal for enough."""

    def _sealed(self, now: float) -> Effects:
        return self._adopt(now) if self._me in self.sealed else []


class HastyTakeover(Takeover):
    """Asks for records while what its log has beyond them is still being cut."""

    def _adopt(self, now: float) -> Effects:
        effects = super()._adopt(now)
        if self.state == takeover.CUTTING:
            self.state = takeover.ADOPTING
        return effects

    def truncated(self, now: float) -> Effects:
        return self._fetch(now) if self.state == takeover.ADOPTING else []


class OvertakenTakeover(Takeover):
    """Goes on when the answer to its swap comes, though it has promised somebody else a greater epoch since."""

    def _won(self, now: float, version: int) -> Effects:
        assert self._next is not None
        self.knows(version, self._next)
        self.epoch = self._next.epoch
        self.state, self._since = takeover.SEALING, now
        self.sealed = {}
        return [*self._follower.promise(self.epoch), *self._seal_all(now)]


class DroppingFollower(Follower):
    """Drops a transfer that is on its way into the place of its log."""

    def promise(self, epoch: int) -> Effects:
        effects: Effects = []
        if epoch > self.epoch and self._source is not None and self._installing:
            effects.append(DropTransfer(self._source))
        return effects + super().promise(epoch)


class TrustingTakeover(Takeover):
    """Takes who is in doubt for one like any other."""

    def sealed_by(self, now: float, peer: str, log: LogSummary, *, doubt: bool = False) -> Effects:
        return super().sealed_by(now, peer, log, doubt=False)

    def _in_doubt(self, now: float) -> set[str]:
        return set()


class HastyDoubt(Doubt):
    """Takes what is committed for all that a leader has."""

    def _has_all(self) -> bool:
        follower = self._follower
        return not follower.busy and 1 < follower.log.committed <= follower.durable()


def replica(**classes: Any) -> type[Replica]:
    """A replica with some machines that have a defect."""

    class Defective(Replica):
        def _make_follower(self, now: float) -> Follower:
            return classes.get("follower", Follower)(self.log, now, self._limits)

        def _make_doubt(self, now: float) -> Doubt:
            return classes.get("doubt", Doubt)(self.follower, now)

        def _make_takeover(self) -> Takeover:
            return classes.get("takeover", Takeover)(self.me, self.follower, self._writer, self._numbers)

        def _make_leader(self, now: float) -> Leader:
            return classes.get("leader", Leader)(
                now, self.me, self.takeover.epoch, self.log, whole=self.takeover.sure, limits=self._limits
            )

        def _make_membership(self, version: int, document: ClusterDocument) -> Membership:
            return classes.get("membership", Membership)(self.me, version, document, self._writer, self._numbers)

    return Defective


def defect(**values: Any) -> type[Defects]:
    """What the hosts of a run have."""
    return type("Defective", (Defects,), values)


DEFECTS: dict[str, type[Defects]] = {
    "own sync is enough": defect(replica=replica(leader=OwnSyncLeader)),
    "follower answers before its sync": defect(replica=replica(follower=HastyFollower)),
    "seal not durable": defect(promise_in_memory=True),
    "old epoch accepted": defect(replica=replica(follower=ForgivingFollower)),
    "old-epoch record counted as committed": defect(replica=replica(leader=OldRecordsLeader)),
    "truncation left out": defect(replica=replica(follower=UncutFollower)),
    "checkpoint of uncommitted": defect(checkpoint_all=True),
    "wiped node as itself": defect(keeps_id=True),
    "lost swap answer taken for refused": defect(
        replica=replica(membership=GuessingMembership, takeover=GuessingTakeover)
    ),
    "transfer without pin": defect(no_pin=True),
    "closed with an lsn": defect(closed_takes_lsn=True),
    "one majority while members change": defect(replica=replica(membership=OneMajorityMembership)),
    "own log in place of the greatest": defect(replica=replica(takeover=OwnLogTakeover)),
    "own seal is enough": defect(replica=replica(takeover=LoneTakeover)),
    "log adopted while it is cut": defect(replica=replica(takeover=HastyTakeover)),
    "transfer dropped while it is installed": defect(replica=replica(follower=DroppingFollower)),
}
"""By name; the first eleven are those that issue 19 lists."""

OF_DAMAGE: dict[str, type[Defects]] = {
    "a node in doubt votes": defect(replica=replica(takeover=TrustingTakeover)),
    "doubt forgotten by a crash": defect(forgets_doubt=True),
    "doubt ends before all is there": defect(replica=replica(doubt=HastyDoubt)),
}
"""What shows only where the last write on a disk may be damaged (``run(..., damaged=True)``)."""

RARE: dict[str, type[Defects]] = {
    "overtaken while it waited for the register": defect(replica=replica(takeover=OvertakenTakeover)),
}
"""What takes more than 2,000 seeds to be found."""
