"""A node that leads an epoch: it ships its log, and says what is committed and what may be confirmed.

It leads its epoch once: a node that starts anew, or stops leading, takes over with a greater epoch or follows. What it confirms rests on
what disks hold and on who has promised which epoch, never on a clock: clocks only decide when it gives up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from actors.replication.limits import (
    BEAT_SECONDS,
    HAND_OVER_SECONDS,
    LIMITS,
    MISS_SECONDS,
    OPEN_SECONDS,
    SILENT_SECONDS,
    Limits,
)
from actors.replication.modes import Rule, as_committed, committed, confirmed, enough
from actors.replication.positions import ReplicaLog
from actors.replication.shipping import APART, FILLING, STREAMING, Shipping
from actors.replication.vocabulary import (
    Commit,
    Confirm,
    Effects,
    Follow,
    Following,
    Keep,
    Lead,
    Open,
    Refused,
    Send,
    StepDown,
    Stored,
    TakeOver,
)


class Leader:
    """One node's lead of one epoch.

    Attributes:
        me: its directory.
        epoch: which it leads.
        log: its log.
        committed: every record below is committed, as far as it knows.
        confirmed: every record below may be confirmed and delivered.
        opened: whether its first record is committed.
        over: whether it leads no more.
        whole: whether nothing that was confirmed before it can be missing.
        ending: those whose process ends in good order, or has done so.
        short: those at whose disks senders would wait, where they led.
        makes_way: whether it is to end as soon as another one has everything that is not ``short``: senders wait here, and the register,
            without which nobody takes over, has just answered.
        made_way: whether it has ended for that.
    """

    __slots__ = (
        "_as_committed",
        "_began",
        "_connected",
        "_first",
        "_handing",
        "_kept",
        "_limits",
        "_recent",
        "_rules",
        "_shipping",
        "_ticked",
        "committed",
        "confirmed",
        "ending",
        "epoch",
        "log",
        "made_way",
        "makes_way",
        "me",
        "opened",
        "over",
        "short",
        "whole",
    )

    def __init__(
        self, now: float, me: str, epoch: int, log: ReplicaLog, *, whole: bool = True, limits: Limits = LIMITS
    ) -> None:
        self.me = me
        self.epoch = epoch
        self.log = log
        self.committed = log.committed
        self.confirmed = 0
        self.opened = False
        self.over = False
        self._first = 0  # the lsn of its first record
        self.whole = whole
        self.short: Collection[str] = ()
        self.ending: Collection[str] = ()
        self.makes_way = self.made_way = False
        self._limits = limits
        self._began = now
        self._rules: tuple[Rule, ...] = ()
        self._as_committed = False  # whether what is committed is what may be confirmed
        self._shipping: dict[str, Shipping] = {}
        self._ticked = now
        self._recent = (log.committed, log.committed)  # committed at the last two beats
        self._kept = 0
        self._handing: float | None = None  # since when it hands over
        self._connected: Collection[str] = ()  # then: to whom there is a connection

    # What holds

    def begin(self, now: float, rules: Iterable[Rule], peers: Iterable[str], connected: Iterable[str]) -> Effects:
        """Write the first record of the epoch, and ask everybody what their log is."""
        effects: Effects = [Lead(self.epoch), *self.ruled(now, rules, peers)]
        for peer in connected:
            effects += self.connected(now, peer)
        return effects

    def ruled(self, now: float, rules: Iterable[Rule], peers: Iterable[str]) -> Effects:
        """Which documents may hold, and to whom it ships: all that they name but itself."""
        self._rules = tuple(rules)
        self._as_committed = as_committed(self._rules)
        wanted = set(peers) - {self.me}
        effects: Effects = []
        for peer in sorted(self._shipping.keys() - wanted):
            effects += self._shipping.pop(peer).lost()
        for peer in sorted(wanted - self._shipping.keys()):
            self._shipping[peer] = Shipping(peer, self.epoch, self.log, self._limits, now)
        return effects + self._advance()

    @property
    def peers(self) -> list[str]:
        """To whom it ships."""
        return list(self._shipping)

    def stored(self, peer: str) -> int:
        """Every record below it is on that node's disk."""
        if peer == self.me:
            return self.log.durable
        shipping = self._shipping.get(peer)
        return 0 if shipping is None else shipping.stored

    def follower(self, peer: str) -> Shipping | None:
        """What is known of somebody to whom it ships, to be looked at only; None where it does not."""
        return self._shipping.get(peer)

    def ends(self) -> dict[str, int]:
        """What each node has stored."""
        ends = {peer: shipping.stored for peer, shipping in self._shipping.items()}
        ends[self.me] = self.log.durable
        return ends

    def caught_up(self, peer: str) -> bool:
        """Whether it has what was committed a beat ago, and gets what is new as it comes."""
        shipping = self._shipping.get(peer)
        return shipping is not None and shipping.state == STREAMING and 0 < self._recent[0] <= shipping.stored

    def silent(self, now: float, peer: str) -> bool:
        """Whether the mode ``all`` goes on without it: it has not answered for long, or ends and has said so."""
        shipping = self._shipping.get(peer)
        return shipping is not None and (peer in self.ending or now - shipping.silent_since() >= SILENT_SECONDS)

    # Connections

    def connected(self, now: float, peer: str) -> Effects:
        """There is a connection, a new one."""
        shipping = self._shipping.get(peer)
        if shipping is None:
            return []
        effects = shipping.lost()
        shipping.asked(now)
        return [*effects, Send(peer, Follow(self.epoch))]

    def lost(self, peer: str) -> Effects:
        """There is none any more."""
        shipping = self._shipping.get(peer)
        return [] if shipping is None else shipping.lost()

    # What comes

    def appended(self, now: float) -> Effects:
        """Records were appended to its log: they are shipped while they are synced."""
        if self.over:
            return []
        if not self._first:
            self._first = self.log.end - 1
        effects: Effects = []
        for shipping in self._shipping.values():
            effects += shipping.fill(now, self.committed)
        return effects

    def synced(self) -> Effects:
        """What was appended is on its own disk, or a part of it."""
        return self._advance()

    def shipped(self, now: float, peer: str, lsn: int, stop: int, nbytes: int) -> Effects:
        """What `Ship` said is sent: the records from ``lsn`` to ``stop``. None, ``stop == lsn``, where the log no longer holds them."""
        shipping = self._shipping.get(peer)
        if shipping is None or self.over:
            return []
        shipping.shipped(lsn, stop, nbytes)
        return shipping.fill(now, self.committed)

    def received(self, now: float, sender: str, message: object) -> Effects:
        """What a follower answers."""
        if self.over:
            return []
        if isinstance(message, Refused) and message.epoch > self.epoch:
            return self.step_down(f"{sender} has promised epoch {message.epoch}")
        shipping = self._shipping.get(sender)
        if shipping is None or not isinstance(message, Stored | Following) or message.epoch != self.epoch:
            return []
        if isinstance(message, Following):
            return shipping.following(now, message, self.committed)
        if not shipping.answered(now, message.lsn, message.sent, self.log.end):
            return []
        # What half + 1 have already the answer of another one does not change.
        news = message.lsn > self.committed or not self._as_committed
        effects = self._advance() if news else []
        effects += shipping.fill(now, self.committed)
        return effects + self.make_way() if self.makes_way else effects

    def _advance(self) -> Effects:
        """What is committed and may be confirmed by now."""
        if self.over or not self._rules or not self._first:
            return []
        effects: Effects = []
        ends = self.ends()
        lsn = committed(self._rules, ends)
        if lsn > self.committed and self._of_present(lsn):
            self.committed = lsn
            if not self.opened and lsn > self._first:
                # Before anybody can know that this epoch has opened, it has said what may be missing: see `Takeover.sure`.
                self.opened = True
                effects.append(Open(self.epoch, self.whole))
            effects.append(Commit(min(lsn, self.log.durable)))
        elif self.log.committed < min(self.committed, self.log.durable):
            effects.append(Commit(min(self.committed, self.log.durable)))
        if self.opened:
            if not self._as_committed:
                lsn = confirmed(self._rules, ends, self.me)
            if lsn > self.confirmed and self._of_present(lsn):
                self.confirmed = lsn
                effects.append(Confirm(lsn))
        return effects

    def _of_present(self, lsn: int) -> bool:
        """Whether the record before ``lsn`` is of this epoch: one of an earlier epoch that half + 1 have may still be cut off."""
        return lsn > self._first

    # Time

    def tick(self, now: float) -> Effects:
        """Beats, and what was waited for too long."""
        if self.over:
            return []
        heard = {peer for peer, shipping in self._shipping.items() if now - shipping.heard < MISS_SECONDS}
        if not enough(self._rules, heard | {self.me}):
            return self.step_down(f"half + 1 have not been heard for {MISS_SECONDS} s")
        if any(shipping.state == FILLING and peer in heard for peer, shipping in self._shipping.items()):
            self._began = now  # what a transfer takes is not lost time: whoever led next would have to give it again
        if not self.opened and now - max((self._began, *(s.progress for s in self._shipping.values()))) >= OPEN_SECONDS:
            return self.step_down(f"nothing of this epoch was committed in {OPEN_SECONDS:g} s")
        effects: Effects = []
        for shipping in self._shipping.values():
            if shipping.stored >= self.log.end:
                shipping.progress = now
            if now - shipping.said < BEAT_SECONDS:
                continue
            effects += shipping.fill(now, self.committed) or shipping.beat(now, self.committed)
        if now - self._ticked >= BEAT_SECONDS:
            self._ticked = now
            self._recent = (self._recent[1], self.committed if self.opened else 0)
            effects += self._keep()
        return effects + (self._hand_over(now) or self.make_way())

    def next_tick(self) -> float:
        """When `tick` is due; it never comes to be earlier than it was."""
        return min([self._ticked, *[shipping.said for shipping in self._shipping.values()]]) + BEAT_SECONDS

    def _keep(self) -> Effects:
        kept = min((self.committed, *(shipping.stored for shipping in self._shipping.values())))
        if kept == self._kept:
            return []
        self._kept = kept
        return [Keep(kept)]

    # The end

    def step_down(self, reason: str) -> Effects:
        """Lead no more."""
        if self.over:
            return []
        self.over = True
        effects: Effects = []
        for shipping in self._shipping.values():
            effects += shipping.lost()
        return [*effects, StepDown(reason)]

    def hand_over(self, now: float, connected: Collection[str]) -> Effects:
        """Stop leading once a follower has everything, which takes over at once. Nothing may be appended any more.

        ``connected`` is looked at as time goes on: to whom there is a connection then. Where there is none nobody is waited for.
        """
        if self._handing is None:
            self._handing, self._connected = now, connected
        return self._hand_over(now)

    def could_hand_over(self, connected: Collection[str]) -> bool:
        """Whether there is a connection to one that may lead, once it has everything."""
        return any(self._may_lead(peer) and peer in connected for peer in self._shipping)

    def _hand_over(self, now: float) -> Effects:
        if self._handing is None or self.over:
            return []
        successor = self._successor()
        if successor is None:
            if not self.could_hand_over(self._connected):
                return self.step_down("it was asked to hand over, and no follower is connected")
            if now - self._handing < HAND_OVER_SECONDS:
                return []
            return self.step_down("it was asked to hand over, and no follower has everything")
        return self._leave_to(successor, f"it hands over to {successor}")

    def could_make_way(self) -> bool:
        """Whether others could lead and go on without this one: half + 1 of them follow, and have room.

        Where they need this one, or another at whose disk senders would wait, that one is full soon, and takes nothing: then nothing is
        committed, acknowledgements neither. Here senders wait, and receivers go on, who free the disks.
        """
        with_room = {
            peer for peer, shipping in self._shipping.items() if shipping.state == STREAMING and peer not in self.short
        }
        return self.opened and enough(self._rules, with_room)

    def make_way(self) -> Effects:
        """End, where ``makes_way`` says so, and another one has everything by now."""
        if not self.makes_way or self.over or self._handing is not None or not self.could_make_way():
            return []
        successor = self._successor()
        if successor is None or successor in self.short or self._shipping[successor].state != STREAMING:
            return []  # who does not follow yet would not hear it
        self.made_way = True
        return self._leave_to(successor, f"senders wait for its disk, and it hands over to {successor}, which has room")

    def _leave_to(self, successor: str, reason: str) -> Effects:
        return [Send(successor, TakeOver(self.epoch)), *self.step_down(reason)]

    def _successor(self) -> str | None:
        """Somebody who has everything; one that has room, if there is one."""
        ready = [
            peer
            for peer, shipping in self._shipping.items()
            if self._may_lead(peer) and shipping.state != APART and shipping.stored >= self.log.end
        ]
        return min(ready, key=lambda peer: (peer in self.short, peer), default=None)

    def _may_lead(self, peer: str) -> bool:
        return all(peer in quorum for rule in self._rules for quorum in rule.quorums)
