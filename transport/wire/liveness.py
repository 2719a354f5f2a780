"""Heartbeats without a clock: when to ask whether the peer is there, and when to give it up.

PING goes out when this side has said nothing for one interval, so that a quiet connection costs one small frame an interval each
way; a peer that has said nothing for ``SILENT_INTERVALS`` intervals is gone, and so is one that for as long takes nothing of what waits
for it. docs/protocol.md, "Opening and closing", "What a client may have under way".

A broker of a cluster has a successor, so its clients want to know sooner that it is gone. It promises to say something often, and they
rely on that. Its patience with them stays as it is: a client that is busy, or on a slow line, is no dead one.
"""

from __future__ import annotations

import math
from dataclasses import InitVar, dataclass, field
from enum import Enum

DEFAULT_HEARTBEAT = 5.0
"""Seconds: a dead peer is noticed within three of them, and 10 000 idle connections cost 4 000 small frames a second."""
SILENT_INTERVALS = 3
LATE_SHARE = 0.25
"""Of the time for which a peer may say nothing: a look that comes later than that itself proves nothing, for what has been said since may
wait to be received."""
STUCK_LOOKS = 8
"""Looks in an interval at whether a peer that does not keep up takes anything."""
HANDSHAKE_TIMEOUT = 10.0
"""Seconds that a client gives the broker to answer HELLO."""
SIGNS_MISSED = 4
"""Signs, one behind the other, without which a broker is gone that has said that it is there and cannot answer HELLO yet.

WELCOME says what is stored, so it waits until that is confirmed. At a leader of a cluster that can take as long as it waits for a member
that is silent, and no other broker would answer sooner.
"""
SIGN_SECONDS = 0.5
"""Between two of them, for a client that has others to ask. The first comes before its patience for a first word is over."""
LONE_SIGN_SECONDS = HANDSHAKE_TIMEOUT / SIGNS_MISSED
"""Between two of them, for a client that has nobody else to ask."""
ENTRANCE_TIMEOUT = 5.0
"""Seconds that a broker gives a client to show who it is, from when it was accepted: TLS, HELLO and what authentication says."""


def handshake_seconds(serves: bool) -> float:
    """How long the peer of a broker, which ``serves``, or of a client has."""
    return ENTRANCE_TIMEOUT if serves else HANDSHAKE_TIMEOUT


class Verdict(Enum):
    """What `Liveness.check` finds."""

    FINE = "fine"
    PING = "ping"
    SILENT = "silent"
    STUCK = "stuck"


@dataclass(eq=False, slots=True)
class Liveness:
    """When each side was last heard; times are monotonic seconds.

    A peer is not silent while this side does not listen. One that takes nothing of what is written to it is stuck, whatever it says:
    where this side does not listen to it either, nothing else would ever end the connection.

    Attributes:
        interval: the heartbeat, seconds.
        heard: when something was last received.
        said: when something was last written.
        frame_began: when the frame now arriving began, or None between frames.
        waits: whether the peer has to wait for this side before it can go on.
        sign: seconds after which this side says something, where that is less than the heartbeat.
        patience: seconds without a word after which the peer is gone, where it has promised signs.
    """

    interval: float
    now: InitVar[float]
    heard: float = field(init=False)
    said: float = field(init=False)
    frame_began: float | None = None
    waits: bool = False
    sign: float = math.inf
    patience: float = math.inf
    _excused: float = -math.inf
    _deaf_since: float | None = None
    _stuck_since: float | None = None
    _one_sided: bool = False
    _waits_since: float = field(init=False)
    _waited: float = 0.0
    _taken: int = 0
    _taken_at: float = field(init=False)
    _checked: float = field(init=False)

    def __post_init__(self, now: float) -> None:
        self.heard = self.said = self._waits_since = self._checked = self._taken_at = now

    def one_sided(self) -> None:
        """The peer answers no PING, and may be silent for as long as it likes but in the middle of what it says."""
        self._one_sided = True

    def agree(self, heartbeat: float, silence: float | None = None, *, serves: bool = False) -> None:
        """The heartbeat. The side that ``serves`` says something in each half of a ``silence``, and is gone without in all of it."""
        self.interval = heartbeat
        self.sign = self.patience = math.inf
        if silence is None:
            return
        if serves:
            self.sign = silence / 2
        else:
            self.patience = silence

    @property
    def relies(self) -> bool:
        """Whether the peer has promised signs."""
        return self.patience < math.inf

    def begin_to_listen(self, now: float) -> None:
        """Nobody has listened before ``now``, so that the peer may have said what was not heard."""
        self._excused = now

    def stop_listening(self, now: float) -> None:
        """Nothing is received from now on: what the peer says waits."""
        if self._deaf_since is None:
            self._deaf_since = now

    def listen(self, now: float) -> None:
        """What the peer says is received again; the time between does not count."""
        since, self._deaf_since = self._deaf_since, None
        if since is not None:
            self.heard = now
            if self.frame_began is not None:
                self.frame_began += now - since

    def have_wait(self, waits: bool, now: float) -> None:
        """`waits` has changed."""
        if waits:
            self._waits_since = now
        else:
            self._waited += now - self._waits_since
        self.waits = waits

    def waited(self, now: float) -> float:
        """Seconds that the peer had to wait for this side, in all."""
        return self._waited + (now - self._waits_since if self.waits else 0.0)

    def left_waiting(self, taken: int, now: float) -> None:
        """Some of what was written waits; of all of it the peer has taken ``taken`` bytes so far."""
        if taken != self._taken:
            self._taken, self._taken_at = taken, now

    def held_up(self, taken: int, now: float) -> None:
        """The peer has taken ``taken`` bytes so far and does not keep up; to be said again before each `check`.

        It has the time since it took something: what began to wait long before is not new.
        """
        self.left_waiting(taken, now)
        self._stuck_since = self._taken_at

    def keeps_up(self) -> None:
        """The peer takes what is written again."""
        self._stuck_since = None

    def check(self, now: float) -> Verdict:
        """What to do at ``now``."""
        self._checked = now
        if now >= self._stuck_at():
            return Verdict.STUCK
        if now >= (silent := self._silent_at()) and not self._late(now, silent, self.interval * SILENT_INTERVALS):
            return Verdict.SILENT
        if now >= (gone := self._gone_at()) and not self._late(now, gone, self.patience):
            return Verdict.SILENT
        # What the peer does not take, it does not hear.
        if now >= self.said + min(self.interval, self.sign) and self._stuck_since is None and not self._one_sided:
            return Verdict.PING
        return Verdict.FINE

    def next_check(self) -> float:
        """The earliest time at which `check` can answer otherwise than FINE, or must be told how much was taken."""
        if self._stuck_since is not None:
            # What it took is noticed when it is looked at, and its time begins then.
            look = self._checked + self.interval / STUCK_LOOKS
        else:
            look = (self._checked if self._one_sided else self.said) + min(self.interval, self.sign)
        return min(look, self._silent_at(), self._gone_at(), self._stuck_at())

    def _late(self, now: float, due: float, limit: float) -> bool:
        """Whether this look itself comes too late to prove anything; then the peer has half of its time once more."""
        if now <= due + limit * LATE_SHARE:
            return False
        self._excused = max(self._excused, now - limit / 2)
        return True

    def _gone_at(self) -> float:
        return math.inf if self._deaf_since is not None else max(self.heard, self._excused) + self.patience

    def _stuck_at(self) -> float:
        return math.inf if self._stuck_since is None else self._stuck_since + self.interval * SILENT_INTERVALS

    def _silent_at(self) -> float:
        if self._deaf_since is not None:
            return math.inf
        limit = self.interval * SILENT_INTERVALS
        if self.frame_began is not None:
            return max(min(self.heard, self.frame_began), self._excused) + limit
        return math.inf if self._one_sided else max(self.heard, self._excused) + limit
