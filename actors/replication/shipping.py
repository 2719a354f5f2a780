"""What a leader knows of one follower, and what is under way to it: bounded in records and in bytes, and none of it held in memory here."""

from __future__ import annotations

from collections import deque
from typing import Final

from actors.replication.limits import Limits
from actors.replication.positions import Position, ReplicaLog, parting, summary
from actors.replication.vocabulary import Effects, Follow, Following, Give, Replicate, Send, Ship, TakeTransfer, Unpin

APART: Final = "apart"
"""No connection."""
ASKED: Final = "asked"
"""It was asked what its log is."""
STREAMING: Final = "streaming"
"""It gets records as there are any."""
FILLING: Final = "filling"
"""It takes a transfer."""


class Shipping:
    """One follower of a leader.

    Attributes:
        to: its directory.
        state: one of the four above.
        stored: every record below it is on its disk, as it has said in this epoch.
        heard: when it was sent the last message that it has answered.
        progress: when it last had everything, or stored something.
    """

    __slots__ = (
        "_bytes",
        "_epoch",
        "_from",
        "_limits",
        "_log",
        "_next",
        "_reading",
        "_under_way",
        "heard",
        "progress",
        "said",
        "state",
        "stored",
        "to",
    )

    def __init__(self, to: str, epoch: int, log: ReplicaLog, limits: Limits, now: float) -> None:
        self.to = to
        self.state = APART
        self.stored = 0
        self.heard = now
        self.progress = now
        self.said = now  # when something was last sent to it
        self._epoch = epoch
        self._log = log
        self._limits = limits
        self._next = 0  # the lsn that is shipped next
        self._from = 0  # the first that was, on this connection
        self._reading = False  # the shell reads what it was told to ship
        self._under_way: deque[tuple[int, int]] = deque()  # messages not answered: the lsn behind, and bytes
        self._bytes = 0

    def lost(self) -> Effects:
        """There is no connection any more."""
        filling, self.state = self.state == FILLING, APART
        self._forget()
        return [Unpin(self.to)] if filling else []

    def asked(self, now: float) -> None:
        """It was asked what its log is."""
        self.state = ASKED
        self.said = now
        self._forget()

    def _forget(self) -> None:
        self._under_way.clear()
        self._bytes = 0
        self._reading = False

    def following(self, now: float, message: Following, committed: int) -> Effects:
        """It says what its log is: ship from where the two part."""
        effects: Effects = [Unpin(self.to)] if self.state == FILLING else []
        self._forget()
        agreed = parting(summary(self._log, None), message.log)
        if agreed < self._log.start:
            self.state = FILLING
            self.said = now
            before = self._log.start - 1
            needs = TakeTransfer(self._epoch, Position(self._log.epoch_of(before), before))
            return [*effects, Give(self.to), Send(self.to, needs)]
        self.state = STREAMING
        self._next = self._from = agreed
        return effects + (self.fill(now, committed) or self.beat(now, committed))

    def beat(self, now: float, committed: int) -> Effects:
        """Say who leads, and what is committed; or ask what its log is, where that is not known."""
        self.said = now
        if self.state == FILLING:
            self._next = self._log.end  # whatever: it only hears that it is led
        elif self.state != STREAMING or self._next < self._log.start:
            self.asked(now)
            return [Send(self.to, Follow(self._epoch))]
        return [Send(self.to, self._message(now, committed))]

    def fill(self, now: float, committed: int) -> Effects:
        """Ship what there is, as far as there is room."""
        if self.state != STREAMING or self._reading or self._next >= self._log.end:
            return []
        if self._next < self._log.start:
            self._gone()
            return []
        records = self._limits.window_records - (self._next - max(self.stored, self._from))
        nbytes = self._limits.window_bytes - self._bytes
        if records <= 0 or nbytes <= 0:
            return []
        self._reading = True
        self.said = now
        records, nbytes = min(records, self._limits.ship_records), min(nbytes, self._limits.ship_bytes)
        return [Ship(self.to, self._message(now, committed), self._next, records, nbytes)]

    def shipped(self, lsn: int, stop: int, nbytes: int) -> None:
        """The shell has sent the records from ``lsn`` to ``stop``; none, ``stop == lsn``, where the log no longer holds them."""
        if not self._reading or lsn != self._next:
            return  # of a connection before this
        if stop == lsn:
            self._gone()
            return
        self._reading = False
        self._next = stop
        self._under_way.append((stop, nbytes))
        self._bytes += nbytes

    def _gone(self) -> None:
        """What is to be shipped is no longer in the log: it needs a transfer, once it has said again what its log is."""
        self.state = APART
        self._forget()

    def answered(self, now: float, lsn: int, sent: float, end: int) -> bool:
        """It has stored everything below ``lsn``. Whether that is news."""
        self.heard = max(self.heard, min(sent, now))
        news = lsn > self.stored
        if news:
            self.stored = lsn
        if news or self.stored >= end:
            self.progress = now
        under_way = self._under_way
        while under_way and under_way[0][0] <= lsn:
            self._bytes -= under_way.popleft()[1]
        return news

    def silent_since(self) -> float:
        """Since when it has not answered, or not stored what there is."""
        return min(self.heard, self.progress)

    def _message(self, now: float, committed: int) -> Replicate:
        before = self._next - 1
        return Replicate(self._epoch, Position(self._log.epoch_of(before), before), committed, now)
