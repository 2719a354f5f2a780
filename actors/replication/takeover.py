"""From missing the leader to leading: ask the others, swap the epoch, seal half + 1, adopt the greatest log.

The swap decides who may; sealing decides that nobody before does any more; adopting makes sure that what was committed is there. Who is in
doubt, as it has cut a write off its log that may have been answered for (doubt.py), seals like all others; but it does not show that what
it lacks was never confirmed, so at least half have to seal without doubt, or all. Each step has a deadline; who gives up leaves the next
attempt to others for a while. An attempt is known by its writer in the document: a swap of it that is done after it was given up leads
nobody, and the next attempt takes the epoch after.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from actors.replication.document import ONE, ClusterDocument
from actors.replication.follower import Follower
from actors.replication.forming import FIRST_EPOCH
from actors.replication.limits import (
    ADOPT_SECONDS,
    ALL_BUT_ONE_SECONDS,
    BEAT_SECONDS,
    FIRST_CHANCE_SECONDS,
    HINDERED_SECONDS,
    HOLD_OFF_SECONDS,
    MISS_SECONDS,
    REGISTER_SECONDS,
    SEAL_SECONDS,
)
from actors.replication.modes import Rule, certain, enough, rule_of, voters, whole
from actors.replication.positions import LogSummary, Position, parting, position, summary
from actors.replication.vocabulary import (
    FIRST_DOUBTFUL,
    Append,
    Effects,
    Fetch,
    Fetched,
    Hindered,
    Missed,
    Missing,
    ReadRegister,
    Seal,
    Send,
    SwapRegister,
)

IDLE: Final = "idle"
ASKING: Final = "asking"
READING: Final = "reading"
SWAPPING: Final = "swapping"
UNSURE: Final = "unsure"
"""It is not known whether the swap was done: it is read again a beat later."""
READING_AGAIN: Final = "reading again"
SEALING: Final = "sealing"
CUTTING: Final = "cutting"
"""What its log has beyond the one that it adopts is being cut: nothing may be appended meanwhile."""
ADOPTING: Final = "adopting"
DONE: Final = "done"
"""The log is the greatest one: lead."""


class Takeover:
    """One node's attempts to lead.

    Attributes:
        state: one of those above.
        epoch: that it has swapped.
        document: as it was read or swapped last; None where nothing was.
        version: its version.
        rule: what that document asks for.
        sealed: who has promised the epoch, with their logs.
        doubted: those of them that are in doubt, also when it has given up.
        short: whether senders would wait for this node's disk, where it led.
    """

    __slots__ = (
        "_accepted",
        "_ask",
        "_asked",
        "_fetched",
        "_fetching",
        "_follower",
        "_former",
        "_former_epoch",
        "_free",
        "_hindered",
        "_log",
        "_me",
        "_missed",
        "_next",
        "_number",
        "_numbers",
        "_since",
        "_source",
        "_started",
        "_writer",
        "document",
        "doubted",
        "epoch",
        "rule",
        "sealed",
        "short",
        "state",
        "version",
    )

    def __init__(self, me: str, follower: Follower, writer: str, numbers: Iterator[int]) -> None:
        self.state = IDLE
        self.epoch = 0
        self.document: ClusterDocument | None = None
        self.version = 0
        self.rule: Rule | None = None
        self.sealed: dict[str, LogSummary] = {}
        self.doubted: set[str] = set()
        self.short = False
        self._me = me
        self._follower = follower
        self._log = follower.log
        self._writer = writer
        self._numbers = numbers
        self._number = 0
        self._accepted = 0  # what it had promised when this attempt began
        self._ask = 0
        self._asked = 0.0  # when something was last asked
        self._since = 0.0  # when this state began, or when something last went on in it
        self._started = 0.0  # when the others were first asked, without a pause
        self._free = 0.0  # not before this time: it has given up
        self._hindered = 0.0  # until then it takes for in doubt who was when it could not lead
        self._missed: dict[str, Position] = {}  # who misses the leader too
        self._next: ClusterDocument | None = None  # the document of this attempt
        self._source: str | None = None  # whose log is adopted
        self._former: str | None = None  # the directory of the leader before
        self._former_epoch = 0  # and its epoch
        self._fetching = 0.0  # when a piece of it was last asked for
        self._fetched = False  # it has come

    @property
    def sure(self) -> bool:
        """Whether nothing that was confirmed can be missing in the logs that were asked."""
        assert self.rule is not None
        asked = self.sealed.keys() - self.doubted
        greatest = max(log.epoch for log in self.sealed.values())
        if not greatest and self._former_epoch == FIRST_EPOCH:
            # Nobody has led yet. What there may be is of a broker that was alone, whose directory the first document names.
            return whole(self.rule, asked, self._former, opened=True)
        # Between a leader that has confirmed and this one there may have been others that wrote, and never opened: what is missing then,
        # nobody has said. A leader has opened if something of its epoch is known to be committed.
        opened = any(log.opened(greatest) for log in self.sealed.values())
        return whole(
            self.rule, asked, self._former if opened and greatest == self._former_epoch else None, opened=opened
        )

    def knows(self, version: int, document: ClusterDocument) -> None:
        """What the register has said."""
        self.version, self.document = version, document
        self.rule = rule_of(document)

    def may(self) -> bool:
        """Whether the document that it knows counts this node, and will when the change is done: only who counts takes over.

        Not who has diverged: what it knows as committed is not what the others have.
        """
        if self.rule is None or self._follower.diverged:
            return False
        return all(self._me in quorum for quorum in self.rule.quorums)

    # Do you miss it too?

    def missing(self, now: float) -> Effects:
        """The leader is missed here: ask the others, again and again."""
        if self.state == IDLE and self.may() and now >= self._free:
            self.state = ASKING
            self._started = now
            self._asked = now - BEAT_SECONDS
        if self.state != ASKING or now - self._asked < BEAT_SECONDS:
            return []
        return self._ask_all(now)

    def _ask_all(self, now: float) -> Effects:
        assert self.rule is not None
        hindered = self._could_not(self._missed, self._in_doubt(now)) if now - self._started >= SEAL_SECONDS else []
        # What was said a beat ago is old; who asks says it anew.
        self._asked = now
        self._ask += 1
        self._missed = {self._me: position(self._log)}
        effects: Effects = [
            Send(peer, Missing(self._log.promised, self._ask, self._missed[self._me]))
            for peer in sorted(voters((self.rule,)) - {self._me})
        ]
        return hindered + effects + self._judge(now)

    def missed(self, now: float, sender: str, message: Missed | Missing) -> Effects:
        """What another one says; who asks misses it too."""
        if self.state != ASKING or (isinstance(message, Missed) and not (message.ask == self._ask and message.missed)):
            return []
        if message.ask >= FIRST_DOUBTFUL:
            return []  # who asks where its leader's log ends misses none
        assert self.rule is not None
        if sender not in voters((self.rule,)):
            return []
        self._missed[sender] = message.position
        return self._judge(now)

    def _judge(self, now: float) -> Effects:
        assert self.rule is not None
        if not enough((self.rule,), self._missed):
            return []
        if not certain((self.rule,), self._missed, self._in_doubt(now)):
            return []  # an attempt would take an epoch, and come to nothing
        return self.begin(now) if now - self._started >= self._patience() else []

    def _in_doubt(self, now: float) -> set[str]:
        """Who is in doubt, as far as is known: no doubt of a log ends without a leader."""
        others = self.doubted - {self._me} if now < self._hindered else set()
        return others | {self._me} if self._log.doubt else others

    def _patience(self) -> float:
        """For how long others have the first chance: first those that have room, and among them, as among the rest, the greatest log.

        Who has that has nothing to fetch.
        """
        behind = position(self._log) < max(self._missed.values())
        return (HOLD_OFF_SECONDS if self.short else 0.0) + (FIRST_CHANCE_SECONDS if behind else 0.0)

    def found(self) -> None:
        """There is a leader, or will be: it is not missed any more."""
        if self.state == ASKING:
            self.state = IDLE
        if self._follower.leader is not None:
            self._hindered = 0.0

    # The swap

    def begin(self, now: float) -> Effects:
        """Take over: the others miss the leader too, or it has asked for it."""
        if self.state not in (IDLE, ASKING):
            return []
        self._accepted = self._follower.accepted
        return self._read(now, READING)

    def _read(self, now: float, state: str) -> Effects:
        self.state, self._since = state, now
        self._number = next(self._numbers)
        return [ReadRegister(self._number)]

    def read(self, now: float, number: int, version: int, document: ClusterDocument | None) -> Effects:
        """What the document is."""
        if number != self._number or self.state not in (READING, READING_AGAIN):
            return []
        if document is None:
            return self.give_up(now)
        if self.state == READING_AGAIN:
            return self._read_again(now, version, document)
        # Whoever this node had promised an epoch before it began was given its time by that, and is missed since: it is no news, or one
        # that seals again and again, and cannot lead, would keep the one that could from it. One that is promised only since then is
        # news: the two have begun at the same time, and the other was first.
        known = self._accepted if self.document is None else max(self.document.epoch, self._accepted)
        news = self.document is not None and document.epoch > known
        self.knows(version, document)
        if not self.may() or (news and document.members[document.leader].directory != self._me):
            return self._lost(now)  # somebody else has taken over: it gets its time
        name = next(name for name, member in document.members.items() if member.directory == self._me)
        self._former = document.members[document.leader].directory
        self._former_epoch = document.epoch
        self._number = next(self._numbers)
        writer = f"{self._writer}-{self._number}"
        self._next = replace(document, epoch=max(document.epoch, self._log.promised) + 1, leader=name, writer=writer)
        return self._swap(now)

    def _swap(self, now: float) -> Effects:
        assert self._next is not None
        self.state, self._since = SWAPPING, now
        self._number = next(self._numbers)
        return [SwapRegister(self._number, self.version, self._next)]

    def _read_again(self, now: float, version: int, document: ClusterDocument) -> Effects:
        assert self._next is not None
        if version == self.version:
            return self._swap(now)  # what was sent may still come, but only one of the two can be done
        if document.writer == self._next.writer:
            return self._won(now, version)
        self.knows(version, document)
        return self._lost(now)

    def swapped(self, now: float, number: int, version: int) -> Effects:
        """The swap was done."""
        return self._won(now, version) if number == self._number and self.state == SWAPPING else []

    def moved(self, now: float, number: int) -> Effects:
        """The document is of another version: an earlier try of this one was done, or somebody else's."""
        return self._read(now, READING_AGAIN) if number == self._number and self.state == SWAPPING else []

    def failed(self, now: float, number: int) -> Effects:
        """The register could not be asked, or the answer was lost."""
        if number != self._number:
            return []
        if self.state in (SWAPPING, READING_AGAIN):
            self.state, self._since = UNSURE, now
        elif self.state == READING:
            self.state = IDLE
            self._free = now + BEAT_SECONDS
        return []

    def _lost(self, now: float) -> Effects:
        self.state = IDLE
        self._free = now + MISS_SECONDS
        return []

    def give_up(self, now: float, seconds: float = HOLD_OFF_SECONDS) -> Effects:
        """Leave it to others for a while."""
        self.state = IDLE
        self._free = now + seconds
        self.sealed = {}
        return []

    # Sealing

    def _won(self, now: float, version: int) -> Effects:
        assert self._next is not None
        self.knows(version, self._next)
        if self._next.epoch < self._follower.accepted:
            # The answer took so long that somebody else has taken over since, and has this node's promise.
            return self._lost(now)
        self.epoch = self._next.epoch
        self.state, self._since = SEALING, now
        self.sealed = {}
        self.doubted = set()
        return [*self._follower.promise(self.epoch), *self._seal_all(now)]

    def _seal_all(self, now: float) -> Effects:
        assert self.rule is not None
        self._asked = now
        return [Send(peer, Seal(self.epoch)) for peer in sorted(voters((self.rule,)) - {self._me})]

    def promised(self, now: float, epoch: int) -> Effects:
        """This node itself has promised."""
        if self.state != SEALING or epoch != self.epoch:
            return []
        return self.sealed_by(now, self._me, summary(self._log), doubt=self._log.doubt > 0)

    def sealed_by(self, now: float, peer: str, log: LogSummary, *, doubt: bool = False) -> Effects:
        """One more has promised; ``log`` is what it has, and it may be in doubt."""
        if self.state != SEALING or self.rule is None or peer not in voters((self.rule,)):
            return []
        self.sealed[peer] = log
        (self.doubted.add if doubt else self.doubted.discard)(peer)
        return self._sealed(now)

    def _sealed(self, now: float) -> Effects:
        rule = self.rule
        assert rule is not None
        if self._me not in self.sealed or not certain((rule,), self.sealed, self.doubted):
            return []
        asked = self.sealed.keys() - self.doubted
        if rule.mode == ONE and now - self._since < ALL_BUT_ONE_SECONDS and not whole(rule, asked, None, opened=True):
            return []
        return self._adopt(now)

    # Adopting

    def _adopt(self, now: float) -> Effects:
        source, log = max(self.sealed.items(), key=lambda item: (item[1].position, item[0] == self._me, item[0]))
        if log.position <= position(self._log):
            self.state = DONE
            return []
        agreed = parting(summary(self._log, None), log)
        if agreed < log.start or agreed < self._log.committed:
            # It would need a transfer first: somebody whose log is longer is to try.
            return self.give_up(now)
        self._since, self._source = now, source
        if agreed < self._log.end:
            self.state = CUTTING
            effects = self._follower.cut(agreed)  # `truncated` goes on
            return effects + self.give_up(now) if self._follower.diverged else effects
        self.state = ADOPTING
        return self._fetch(now)

    def truncated(self, now: float) -> Effects:
        """What it had beyond is cut."""
        if self.state != CUTTING:
            return []
        self.state, self._since = ADOPTING, now
        return self._fetch(now)

    def _fetch(self, now: float) -> Effects:
        assert self._source is not None
        self._fetching = now
        self._fetched = False
        return [Send(self._source, Fetch(self.epoch, self._log.end))]

    def fetched(self, now: float, sender: str, message: Fetched) -> Effects:
        """A piece of the log that is adopted."""
        if self.state != ADOPTING or (sender, message.epoch, message.lsn) != (self._source, self.epoch, self._log.end):
            return []
        if self._fetched:
            return []
        log = self.sealed[sender]
        records = [record for record in message.records if record.lsn < log.end]
        # Others than it has sealed: it has promised somebody else more, and was cut, before they were read.
        others = any(log.epoch_at(record.lsn) not in (record.epoch, None) for record in records)
        if not records or others:
            return self.give_up(now)
        self._fetched = True
        self._since = now
        return [Append(records)]

    def synced(self, now: float) -> Effects:
        """What was appended is on the disk, or a part of it."""
        if self.state != ADOPTING or not self._fetched or self._log.durable < self._log.end:
            return []
        assert self._source is not None
        if self._log.end >= self.sealed[self._source].end:
            self.state = DONE
            return []
        return self._fetch(now)

    # Time

    def tick(self, now: float) -> Effects:
        """What was waited for too long, and what is asked again."""
        waited = now - self._since
        if self.state in (READING, SWAPPING, READING_AGAIN) and waited >= REGISTER_SECONDS:
            return self.failed(now, self._number)
        if self.state == UNSURE and waited >= BEAT_SECONDS:
            return self._read(now, READING_AGAIN)
        adopting = self.state in (CUTTING, ADOPTING)
        if (self.state == SEALING and waited >= SEAL_SECONDS) or (adopting and waited >= ADOPT_SECONDS):
            hindered = self._could_not(self.sealed, self.doubted) if self._me in self.sealed else []
            self._hindered = now + HINDERED_SECONDS if hindered else 0.0
            return hindered + self.give_up(now)
        effects: Effects = self._sealed(now) if self.state == SEALING else []
        if self.state == ADOPTING and now - self._fetching >= 2 * BEAT_SECONDS and not self._fetched:
            effects = effects + self._fetch(now)
        if (self.state == SEALING or adopting) and now - self._asked >= BEAT_SECONDS:
            # Those that have sealed hear that somebody is to lead, too.
            effects = effects + self._seal_all(now)
        return effects

    def _could_not(self, answered: Collection[str], doubted: Collection[str]) -> Effects:
        """Half + 1 are there, and some of them are in doubt: that is why it cannot lead."""
        assert self.rule is not None
        hindered = enough((self.rule,), answered) and not certain((self.rule,), answered, doubted)
        return [Hindered(frozenset(doubted))] if hindered else []

    def superseded(self, now: float, epoch: int) -> None:
        """Somebody has promised a greater epoch than the one of this attempt."""
        if self.state in (SEALING, CUTTING, ADOPTING) and epoch > self.epoch:
            self.give_up(now, MISS_SECONDS)
