"""A node that has cut a write off the end of its log which was damaged, or not finished: nobody can tell which, and when that is over.

What a power failure has cut short was never answered for. What a disk has damaged may have been, and then the node lacks a record that
half + 1 had. So as long as it is in doubt it counts for less in a take-over (`modes.certain`). The doubt ends when the log has all again
that the node can have answered for, which were records of leaders up to the epoch that it had promised when it cut:

- It has a record of a later epoch on its disk. That epoch's leader had everything that was committed before, and logs that have the same
  record are equal up to there.
- It has stored all that the leader of its epoch had when the node was back. A leader leads an epoch once and without a break, so its log
  has whatever the node has said that it stored. Where that log ends the leader is asked by a `Missing`: the answer of each version has it.
  One that has started anew leads no more, may lack what was not synced, and does not answer: its epoch and its id are still the same.

A transfer by itself ends no doubt: what it holds is committed, and may end before what the node has answered for.
"""

from __future__ import annotations

from actors.replication.follower import Follower
from actors.replication.limits import BEAT_SECONDS
from actors.replication.positions import position
from actors.replication.vocabulary import FIRST_DOUBTFUL, Effects, EndDoubt, Missed, Missing, Send


class Doubt:
    """Of one node, since its directory was opened.

    Attributes:
        over: whether there is none, or none any more; there is no new one before the directory is opened again.
    """

    __slots__ = ("_ask", "_asked", "_ending", "_follower", "_leader", "_until", "over")

    def __init__(self, follower: Follower, now: float) -> None:
        self.over = not follower.log.doubt
        self._follower = follower
        self._ending = False  # that it is over is being written
        self._ask = FIRST_DOUBTFUL
        self._asked = now - BEAT_SECONDS
        self._leader: tuple[str, int] | None = None  # who has said where its log ends, and its epoch
        self._until = 0  # that end

    def look(self, now: float) -> Effects:
        """Something has happened: end it, or ask for what is not known."""
        follower = self._follower
        if not follower.log.doubt:
            self.over = True
            return []
        if self._ending:
            return []
        if self._has_all():
            self._ending = True
            return [EndDoubt(follower.log.doubt)]
        leader, epoch = follower.leader, follower.epoch
        known = self._leader == (leader, epoch)
        if leader is None or known or epoch < follower.accepted or now - self._asked < BEAT_SECONDS:
            return []
        self._asked = now
        self._ask += 1
        return [Send(leader, Missing(epoch, self._ask, position(follower.log)))]

    def written(self) -> None:
        """What was to be written is; or it was not, for the directory was closed meanwhile."""
        self._ending = False

    def told(self, sender: str, message: Missed) -> None:
        """The leader's log ends where it says."""
        follower = self._follower
        asked = (sender, message.epoch, message.ask) == (follower.leader, follower.epoch, self._ask)
        if asked and not message.missed:
            self._leader, self._until = (sender, message.epoch), message.position.lsn + 1

    def _has_all(self) -> bool:
        follower = self._follower
        log = follower.log
        if follower.busy:
            return False
        if log.epoch_of(log.durable - 1) > log.doubt:
            return True
        return self._leader == (follower.leader, follower.epoch) and follower.durable() >= self._until
