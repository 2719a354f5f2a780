"""A node that takes records from a leader: every node but the one that leads, learners too.

It answers to one rule: what it has promised, it keeps. From the moment that it is asked to promise an epoch it takes nothing older, and it
says that it has promised, or stored, only what is on its own disk.
"""

from __future__ import annotations

from actors.replication.limits import BEAT_SECONDS, LIMITS, MISS_SECONDS, TRANSFER_SECONDS, Limits
from actors.replication.positions import ReplicaLog, position, summary
from actors.replication.vocabulary import (
    FIRST_DOUBTFUL,
    Append,
    Commit,
    Diverged,
    DropTransfer,
    Effects,
    Fetch,
    Fetched,
    Follow,
    Following,
    Install,
    LeaderKnown,
    Missed,
    Missing,
    Promise,
    Refused,
    Replicate,
    Seal,
    Sealed,
    Send,
    Ship,
    Stored,
    Take,
    TakeTransfer,
    Truncate,
)


class Follower:
    """What a node does with what a leader sends, and with who wants to become one.

    Attributes:
        log: its log.
        leader: the directory of the leader that it follows; None for none.
        epoch: that leader's.
        diverged: whether it has seen that it cannot follow: what it knows as committed is another's.
        full: whether it has no room for more records: it takes none, and answers for what it has.
    """

    __slots__ = (
        "_announced",
        "_committed",
        "_cutting",
        "_gone",
        "_heard",
        "_installing",
        "_limits",
        "_matched",
        "_promising",
        "_sent",
        "_source",
        "_taking",
        "_told",
        "_waiting",
        "_whole",
        "diverged",
        "epoch",
        "full",
        "leader",
        "log",
    )

    def __init__(self, log: ReplicaLog, now: float, limits: Limits = LIMITS) -> None:
        self.log = log
        self.leader: str | None = None
        self.epoch = 0
        self.diverged = False
        self.full = False
        self._limits = limits
        self._heard = now  # when something of a leader was read, or of one that is to come
        self._gone = False  # the connection to the leader ended
        self._promising = 0  # an epoch that is being written
        self._waiting: dict[str, Follow | Seal] = {}  # who waits for it; of each peer the last
        self._cutting = False
        self._source: str | None = None  # who gives a transfer
        self._whole = False  # all of it is there
        self._installing = False  # it is whole, and comes into the log's place
        self._taking = 0.0  # since when nothing has been heard of it
        self._matched = 0  # every record below it is the leader's
        self._committed = 0  # as the leader said, at most `_matched`
        self._sent = 0.0  # of the leader's last message
        self._told = 0  # the last `Commit`
        self._announced: float | None = None  # when it said what its log is, and nothing has come since

    @property
    def accepted(self) -> int:
        """Nothing older than this epoch is taken any more."""
        return max(self.log.promised, self._promising)

    @property
    def busy(self) -> bool:
        """Whether its log is being changed as a whole: cut, or replaced by a transfer."""
        return self._cutting or self._source is not None

    @property
    def _fixed(self) -> bool:
        """Whether nothing else may be done to its log until the disk is done."""
        return self._cutting or self._installing

    def misses(self, now: float) -> bool:
        """Whether there is no leader that it hears."""
        return not self._fixed and (self._gone or now - self._heard >= MISS_SECONDS)

    def missed_at(self) -> float:
        """When it will miss its leader, if it hears nothing more."""
        return self._heard if self._gone else self._heard + MISS_SECONDS

    def hear(self, now: float) -> None:
        """Somebody leads, or will soon: it is given time."""
        self._heard = now
        self._gone = False

    def lost(self, peer: str) -> Effects:
        """The connection to a peer ended, or cannot be made."""
        self._waiting.pop(peer, None)
        if peer != self.leader:
            return []
        self._gone = True
        return self._unknown()

    def _unknown(self) -> Effects:
        """Nobody is known to lead: clients that were sent there would go in vain."""
        known, self.leader = self.leader, None
        return [LeaderKnown("", self.epoch)] if known is not None else []

    def received(self, now: float, sender: str, message: object) -> Effects:
        """What a peer says to a follower."""
        match message:
            case Replicate():
                return self._replicate(now, sender, message)
            case Follow() | Seal():
                return self._asked(now, sender, message)
            case Missing(ask=ask) if ask < FIRST_DOUBTFUL:  # else it is the leader's to say
                return [Send(sender, Missed(self.accepted, ask, self.misses(now), position(self.log)))]
            case Fetch(epoch, lsn):
                return self._fetch(sender, epoch, lsn)
            case TakeTransfer():
                return self._take(now, sender, message)
            case _:
                return []

    # Promises

    def promise(self, epoch: int) -> Effects:
        """Promise an epoch that nobody here has promised yet; `promised` goes on."""
        self._promising = max(self._promising, epoch)
        effects: Effects = []
        if epoch > self.epoch:
            effects += self._unknown()
            if self._source is not None and not self._installing:
                # What a former leader gives would come into the place of what is said to the new one. What is on its way into the log's
                # place comes before the promise.
                effects.append(DropTransfer(self._source))
                self._source = None
        if not self._fixed:
            effects.append(Promise(epoch))
        return effects

    def _promise_held(self) -> Effects:
        """What was to be promised while its log was changed as a whole."""
        if not self._promising and self._waiting:
            self._promising = self.log.promised
        return [Promise(self._promising)] if self._promising else []

    def promised(self, now: float, epoch: int) -> Effects:
        """An epoch is durably promised, and so is the log as it was."""
        effects: Effects = []
        if epoch < self.accepted:
            return effects  # a greater one is on its way: they wait for that, and are refused
        self._promising = 0
        waiting, self._waiting = self._waiting, {}
        for sender, message in waiting.items():
            if message.epoch < epoch:
                effects.append(Send(sender, Refused(epoch)))
            elif isinstance(message, Seal):
                effects.append(Send(sender, Sealed(epoch, summary(self.log), self.log.doubt > 0)))
            else:
                effects += self._announce(now, sender, epoch)
        return effects + self._install()

    def _asked(self, now: float, sender: str, message: Follow | Seal) -> Effects:
        epoch = message.epoch
        if epoch < self.accepted:
            return [Send(sender, Refused(self.accepted))]
        if self.diverged:
            return []
        self.hear(now)
        settled = epoch == self.log.promised and not (self._promising or self._fixed)
        if settled and isinstance(message, Follow):
            return self._announce(now, sender, epoch)
        if settled and isinstance(message, Seal) and self.log.durable == self.log.end:
            return [Send(sender, Sealed(epoch, summary(self.log), self.log.doubt > 0))]
        self._waiting[sender] = message
        return [] if epoch == self._promising or (self._fixed and epoch == self.log.promised) else self.promise(epoch)

    def _announce(self, now: float, sender: str, epoch: int) -> Effects:
        effects: Effects = []
        if (sender, epoch) != (self.leader, self.epoch):
            effects.append(LeaderKnown(sender, epoch))
        self.leader, self.epoch = sender, epoch
        self._matched = self._committed = 0
        self._announced = now
        self.hear(now)
        return [*effects, Send(sender, Following(epoch, summary(self.log)))]

    # Records

    def _replicate(self, now: float, sender: str, message: Replicate) -> Effects:
        if message.epoch < self.accepted:
            return [Send(sender, Refused(self.accepted))]
        if (sender, message.epoch) != (self.leader, self.epoch) or self._promising:
            # Its connection is older than what is known here: it has to say first that it leads.
            return self._asked(now, sender, Follow(message.epoch))
        self.hear(now)
        self._sent = message.sent
        if self.busy or self.diverged:
            return [Send(sender, Stored(self.epoch, 0, self._sent))]
        return self._continue(now, sender, message)

    def _continue(self, now: float, sender: str, message: Replicate) -> Effects:
        """Its records, if they go on from what is here."""
        before, lsn = message.previous
        if lsn >= self.log.end and self.full:
            # What it did not take: it is asked for again when there is room.
            return [*self._stored(), *([] if self._matched else [Send(sender, Stored(self.epoch, 0, self._sent))])]
        if lsn >= self.log.end:
            # Something is missing in between. What is under way still is as much too far; then it is said again.
            if self._announced is not None and now - self._announced < BEAT_SECONDS:
                return [Send(sender, Stored(self.epoch, 0, self._sent))]
            return self._announce(now, sender, message.epoch)
        if self._parted(lsn, before):
            return self._cut(lsn)
        records = message.records
        if records and not before <= records[0].epoch <= records[-1].epoch <= message.epoch:
            return []  # no leader's log is like that: they were read from one that was cut meanwhile
        self._announced = None
        return self._accept(message._replace(records=()) if self.full else message)

    def _accept(self, message: Replicate) -> Effects:
        records = message.records
        end = self.log.end
        known = 0
        if records and records[0].lsn < end:
            for record in records:
                if record.lsn >= end:
                    break
                if self._parted(record.lsn, record.epoch):
                    return self._cut(record.lsn)
                known += 1
        new = records[known:] if known else records
        last = records[-1].lsn if records else message.previous.lsn
        self._matched = max(self._matched, last + 1)
        self._committed = max(self._committed, min(message.committed, self._matched))
        if new:
            return [Append(new)]  # it answers when that is on the disk
        return self._stored()

    def synced(self) -> Effects:
        """What was appended is on the disk, or a part of it."""
        return self._stored()

    def _stored(self) -> Effects:
        """To its leader: how far its log is on its disk."""
        if self.leader is None or self._promising or self.busy or not self._matched:
            return []
        effects: Effects = [Send(self.leader, Stored(self.epoch, self.durable(), self._sent))]
        committed = min(self._committed, self.log.durable)
        if committed > max(self._told, self.log.committed):
            self._told = committed
            effects.append(Commit(committed))
        return effects

    def durable(self) -> int:
        """What it may answer for: the leader's records that its own disk has."""
        return min(self._matched, self.log.durable)

    def room(self, now: float, full: bool) -> Effects:
        """There is no room for more records, or there is again: then its leader is told what it lacks."""
        before, self.full = self.full, full
        if full or not before or self.leader is None or self._promising or self.busy or self.diverged:
            return []
        return self._announce(now, self.leader, self.epoch)

    # Logs that part

    def _parted(self, lsn: int, epoch: int) -> bool:
        """Whether its log has something else at an lsn than its leader's. What is in its checkpoint is the same."""
        return lsn >= self.log.start - 1 and self.log.epoch_of(lsn) != epoch

    def _cut(self, lsn: int) -> Effects:
        if lsn < max(self.log.committed, self._told):
            return self._diverge(lsn)
        self._cutting = True
        return [Truncate(lsn)]

    def _diverge(self, lsn: int) -> Effects:
        self.diverged = True
        return [Diverged(lsn)]

    def cut(self, lsn: int) -> Effects:
        """For who takes over: what its log has beyond the one that it adopts."""
        return self._cut(lsn)

    def truncated(self, now: float) -> Effects:
        """What was beyond is cut, durably."""
        self._cutting = False
        if self.leader is None or self._promising or self._waiting:
            return self._promise_held()
        return self._announce(now, self.leader, self.epoch)

    # Others that need its log

    def _fetch(self, sender: str, epoch: int, lsn: int) -> Effects:
        if epoch < self.accepted:
            return [Send(sender, Refused(self.accepted))]
        if self.busy or self._promising or epoch != self.log.promised:
            return []
        empty = Fetched(epoch, lsn)
        if not self.log.start <= lsn < self.log.end:
            return [Send(sender, empty)]
        return [Ship(sender, empty, lsn, self._limits.ship_records, self._limits.ship_bytes)]

    # Transfers

    def _take(self, now: float, sender: str, message: TakeTransfer) -> Effects:
        epoch = message.epoch
        if (sender, epoch) != (self.leader, self.epoch) or epoch < self.accepted or self._fixed:
            return []
        before, lsn = message.before
        if lsn < self.log.end:
            if not self._parted(lsn, before):
                return []  # of a connection before this: its log has come further since
            if lsn < max(self.log.committed, self._told):
                return self._diverge(lsn)
        self._taking = now
        if self._source == sender:
            return []
        self._source, self._whole = sender, False
        return [Take(sender)]

    def taking(self, now: float) -> None:
        """A piece of a transfer has come."""
        self._taking = now
        if self._source is not None and self._source == self.leader:
            self.hear(now)

    def transferred(self) -> Effects:
        """A transfer is whole, in its folder aside."""
        if self._source is None or self._fixed:
            return []
        self._whole = True
        return self._install()

    def _install(self) -> Effects:
        """Once nothing is being promised: the promise syncs the log as it is."""
        if self._source is None or not self._whole or self._promising:
            return []
        self._whole = False
        self._installing = True
        return [Install(self._source)]

    def installed(self, now: float) -> Effects:
        """It is in the place of the log. What was promised stays so."""
        self._installing = False
        self._told = 0
        return self.transfer_failed(now)

    def transfer_failed(self, now: float) -> Effects:
        """No more of a transfer will come; the log is as it was."""
        if self._installing:
            return []
        self._source = None
        if self.leader is None or self._promising or self._waiting:
            return self._promise_held()
        return self._announce(now, self.leader, self.epoch)

    def tick(self, now: float) -> Effects:
        """A transfer of which nothing comes is over."""
        if self._source is None or self._installing or now - self._taking < TRANSFER_SECONDS:
            return []
        return [DropTransfer(self._source), *self.transfer_failed(now)]
