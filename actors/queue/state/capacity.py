"""How much senders may send: permits, granted from the room that is neither stored nor granted already.

What is stored stays within the queue's limits, but for what cannot be avoided:

- A permit is not taken back, so what idle senders were granted can still come when others have filled the queue. Those who send are lent
  the room of the idle, or five hundred idle senders would leave nothing to a busy one. All permits together are at most the limit and
  ``LENT_SHARE`` of it. So at worst a queue holds two and a half times its limit, when every idle sender sends all that it may at once.
- A sender that wants to send may hold one permit even if others hold all there is, while what is stored is below the limits. One message
  for each sender.
- A message may be sent while any byte of permit is left, however large it is. One message for each sender.
- The overhead that each stored batch counts for is known only when it comes.

A queue without a limit has room, but grants no more at a time than one with the usual limit that is empty: when a watermark has its
senders pause, that is what can still come.

A queue that rejects what it has no room for grants what is asked for, room or not: its senders are bounded by their own windows.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from actors.errors import DemandExceededError
from actors.queue.state.permits import UNBOUNDED, WINDOWED_BYTES, WINDOWED_MESSAGES, EndlessUnit, Permits, Unit
from actors.queue.vocabulary.replies import CapacityGranted, Effect, RoomGranted, Tell
from actors.queue.vocabulary.settings import DEFAULT_MAX_BYTES, DEFAULT_MAX_MESSAGES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from actors.batch import MessageBatch

TURN_SECONDS = 0.25
"""Whoever sent nothing in a whole turn is idle: long enough that hundreds who are busy at once each have sent something."""
REOPEN_MESSAGES = 1_000
REOPEN_BYTES = 256 * 1024
"""What must be free again of a queue that was full before it grants more: a good batch."""
REOPEN_SHARE = 8
"""Of a small queue, this part instead."""
GRANTED_AT_ONCE = 64
"""Senders that may wait, for what one that leaves has held to be granted at once. Where more wait it is granted with what others leave
in the same moment: each of a thousand that leave together would have all the others be granted a little."""


class Amount(NamedTuple):
    """So much of something."""

    messages: int
    bytes: int


@dataclass(eq=False, slots=True)
class Promised:
    """Room of a queue that rejects, for a batch that it has said yes to and that comes in parts.

    Attributes:
        messages: of it that are still to come.
        bytes: about as many bytes, and never less than none.
    """

    messages: int = 0
    bytes: int = 0

    def given(self, amount: Amount) -> None:
        """All of a batch is to come."""
        self.messages += amount.messages
        self.bytes += amount.bytes

    def taken(self, batch: MessageBatch) -> None:
        """A part of it has come."""
        self.messages = max(0, self.messages - batch.count)
        self.bytes = max(0, self.bytes - batch.nbytes)

    def over(self) -> None:
        """Nothing more of it comes."""
        self.messages = self.bytes = 0


@dataclass(eq=False, repr=False, slots=True)
class Capacity:
    """The permits of all senders, granted in turns.

    Args:
        max_messages: messages stored and granted together; None for no limit.
        max_bytes: bytes likewise.
        unlimited: whether to grant whatever is asked for.

    Attributes:
        waiting: who is to be granted more where there is room, in the order of their turns; to be looked at only.
        promised: what a queue that rejects has said yes to.
        put_off: since when there is something to be granted that a sender has left; None where there is not.
        holds_back: whether nothing is granted though all that is asked for would be.
    """

    max_messages: InitVar[int | None]
    max_bytes: InitVar[int | None]
    unlimited: bool = False
    waiting: OrderedDict[Permits, None] = field(default_factory=OrderedDict)
    promised: Promised = field(default_factory=Promised)
    put_off: float | None = None
    holds_back: bool = False
    # Those of the waiting who hold nothing: looked at first, and alone when there is no room, so that a thousand
    # waiting senders cost nothing while there is none.
    _stuck: OrderedDict[Permits, None] = field(default_factory=OrderedDict)
    _messages: Unit = field(init=False)
    _bytes: Unit = field(init=False)
    # Who has used permits in this turn, and in the one before; in an order that is the same each time.
    _now: dict[Permits, None] = field(default_factory=dict)
    _before: dict[Permits, None] = field(default_factory=dict)
    _turn_ends: float = 0.0
    # A full queue reopens for a batch, not for a message: granting each message's room as it is acknowledged would
    # have senders send batches of one, whose overhead fills the memory that large batches left.
    _reopen_messages: int = field(init=False)
    _reopen_bytes: int = field(init=False)
    _full_messages: int = field(init=False)
    _full_bytes: int = field(init=False)
    _full: bool = False
    lends: ClassVar[bool] = True
    """Whether senders have windows, and what the idle hold is lent to the others."""

    def __post_init__(self, max_messages: int | None, max_bytes: int | None) -> None:
        self._limit(max_messages, max_bytes)

    def _limit(self, max_messages: int | None, max_bytes: int | None) -> None:
        self._full_messages = UNBOUNDED if max_messages is None else max_messages
        self._full_bytes = UNBOUNDED if max_bytes is None else max_bytes
        self._messages = _unit(max_messages, DEFAULT_MAX_MESSAGES, WINDOWED_MESSAGES, lends=self.lends)
        self._bytes = _unit(max_bytes, DEFAULT_MAX_BYTES, WINDOWED_BYTES, lends=self.lends)
        most, most_bytes = self._full_messages, self._full_bytes
        self._reopen_messages = most - max(1, min(REOPEN_MESSAGES, most // REOPEN_SHARE))
        self._reopen_bytes = most_bytes - max(1, min(REOPEN_BYTES, most_bytes // REOPEN_SHARE))

    def alter(
        self, max_messages: int | None, max_bytes: int | None, unlimited: bool, senders: Iterable[Permits]
    ) -> None:
        """Have other limits. What ``senders``, all there are, hold stays theirs; their windows begin small again."""
        messages, nbytes = self._messages, self._bytes
        self._limit(max_messages, max_bytes)
        self._messages.granted, self._messages.idle = messages.granted, messages.idle
        self._bytes.granted, self._bytes.idle = nbytes.granted, nbytes.idle
        self.unlimited = unlimited
        # Whether it is full is found out by the new limits, without waiting for a good piece to be free.
        self._full = False
        for permits in senders:
            if permits.message_window:
                self._set_windows(permits)
                self._place(permits)

    @property
    def messages(self) -> int:
        """Messages granted and not used."""
        return self._messages.granted

    @property
    def bytes(self) -> int:
        """Bytes granted and not used."""
        return self._bytes.granted

    def request(self, permits: Permits, messages: int, size: int) -> None:
        """Want so many more messages and bytes."""
        permits.wanted_messages += messages
        permits.wanted_bytes += size
        if permits.idle:
            self._set_windows(permits)
        self._place(permits)

    def use(self, permits: Permits, batch: MessageBatch | None, count: int, size: int) -> None:
        """Use permits for ``batch``, which has ``count`` messages of ``size`` bytes; DemandExceededError if they do not suffice."""
        have = permits.bytes
        if count > permits.messages or (size > have and (batch is None or batch.prefix_bytes(count - 1) >= have)):
            raise DemandExceededError(count, size, permits.messages, have)
        if permits.idle:
            self._awake(permits)
        permits.used += count
        permits.messages -= count
        permits.bytes = have - size
        messages, nbytes = self._messages, self._bytes
        messages.granted -= count
        nbytes.granted -= min(size, have)
        # It may hold more when it has used as many as its window, and others less when it does nothing else for a turn.
        permits.used_messages += count
        permits.used_bytes += size
        if permits.used_messages >= permits.message_window:
            permits.used_messages = 0
            permits.message_window = messages.grown(permits.message_window, permits.messages)
        if permits.used_bytes >= permits.byte_window:
            permits.used_bytes = 0
            permits.byte_window = nbytes.grown(permits.byte_window, max(0, permits.bytes))
        self._now[permits] = None
        if permits.wanted_messages or permits.wanted_bytes:
            self._place(permits)

    def use_beyond(self, permits: Permits, count: int, size: int) -> None:
        """As `use`, of what was stored whether the permits suffice or not: what they do not suffice for was granted to nobody."""
        if count <= permits.messages and size <= permits.bytes:
            self.use(permits, None, count, size)
            return
        if not permits.message_window:
            # It has asked for nothing so far: without windows it could be granted nothing either, once it asks.
            self._set_windows(permits)
        messages, nbytes = max(0, count - permits.messages), max(0, size - permits.bytes)
        more_bytes = max(0, permits.bytes + nbytes) - max(0, permits.bytes)
        permits.messages += messages
        permits.bytes += nbytes
        self._messages.granted += messages
        self._bytes.granted += more_bytes
        if permits.idle:
            self._messages.idle += messages
            self._bytes.idle += more_bytes
        self.use(permits, None, count, size)

    def give_back(self, permits: Permits) -> None:
        """End a sender: what it holds and wants is nobody's."""
        self._messages.granted -= permits.messages
        self._bytes.granted -= max(0, permits.bytes)
        if permits.idle:
            self._messages.idle -= permits.messages
            self._bytes.idle -= max(0, permits.bytes)
        self._now.pop(permits, None)
        self._before.pop(permits, None)
        self.waiting.pop(permits, None)
        self._stuck.pop(permits, None)

    def closed(self, stored_messages: int, stored_bytes: int) -> bool:
        """Whether nothing is granted before more is acknowledged: the queue is full, or was and has not reopened."""
        if self._full:
            return stored_messages > self._reopen_messages or stored_bytes > self._reopen_bytes
        return stored_messages >= self._full_messages or stored_bytes >= self._full_bytes

    def room(self, stored_messages: int, stored_bytes: int) -> tuple[int, int]:
        """Messages and bytes that may come beside what is stored, and what was granted already; below zero where that is too much."""
        if self.unlimited:
            # What was granted says nothing of what is taken.
            return self._messages.left(stored_messages), self._bytes.left(stored_bytes)
        messages, size = self._room(stored_messages, stored_bytes)
        # Without a limit there is room for what comes in other ways, whatever senders hold.
        return UNBOUNDED if self._messages.endless else messages, UNBOUNDED if self._bytes.endless else size

    def note_stored(self, stored_messages: int, stored_bytes: int) -> bool:
        """So much is stored now; returns whether that leaves room."""
        self._full = self.closed(stored_messages, stored_bytes)
        return not self._full

    @property
    def stuck(self) -> list[Permits]:
        """Who can send nothing for want of room, in the order of their turns."""
        return list(self._stuck)

    @property
    def waits_for_room(self) -> int:
        """How many they are."""
        return len(self._stuck)

    def grant_one(self, permits: Permits, effects: list[Effect]) -> None:
        """Let a sender that is stuck send one message, whatever room there is."""
        self._give(permits, 1, 1, effects)

    def grant(self, stored_messages: int, stored_bytes: int, effects: list[Effect]) -> None:
        """Grant what there is room for, in turns and in equal shares; once full, only when a good piece is free again."""
        self.note_stored(stored_messages, stored_bytes)
        if self.unlimited:
            for permits in () if self.holds_back else list(self.waiting):
                self._give(permits, permits.wanted_messages, permits.wanted_bytes, effects)
            return
        if self._full:
            return
        if self._stuck:
            room, byte_room = self._room(stored_messages, stored_bytes)
            share, byte_share = max(0, room // len(self.waiting)), max(0, byte_room // len(self.waiting))
            while self._stuck:
                permits = next(iter(self._stuck))
                floor, byte_floor = int(permits.messages <= 0), int(permits.bytes <= 0)
                self._give(permits, max(floor, share), max(byte_floor, byte_share), effects)
        while self.waiting:
            room, byte_room = self._room(stored_messages, stored_bytes)
            others = len(self.waiting)
            share, byte_share = max(1, room // others), max(1, byte_room // others)
            for number in range(others):
                if number:
                    room, byte_room = self._room(stored_messages, stored_bytes)
                if room <= 0 or byte_room <= 0:
                    return
                permits = next(iter(self.waiting))
                self._give(permits, min(room, share), min(byte_room, byte_share), effects)

    def _room(self, stored_messages: int, stored_bytes: int) -> tuple[int, int]:
        return self._messages.room(stored_messages), self._bytes.room(stored_bytes)

    def _give(self, permits: Permits, messages: int, size: int, effects: list[Effect]) -> None:
        """Grant at most so much, and no more than it may hold, but for one message; and let the next one have its turn."""
        if permits.idle:
            # By what others who are idle hold now.
            self._set_windows(permits)
        held, debt = permits.bytes, 0
        if held < 0:
            # What the last message led beyond its permit is stored and counted there: making it good takes no room.
            held, debt = 0, -held
        if not self.unlimited:
            messages = min(messages, permits.message_window - permits.messages)
            size = min(size, permits.byte_window - held)
        messages = min(max(0, messages), permits.wanted_messages)
        size = min(max(0, size) + debt, permits.wanted_bytes)
        permits.messages += messages
        permits.wanted_messages -= messages
        permits.bytes += size
        permits.wanted_bytes -= size
        more = max(0, permits.bytes) - held
        self._messages.granted += messages
        self._bytes.granted += more
        if permits.idle:
            self._messages.idle += messages
            self._bytes.idle += more
        self._stuck.pop(permits, None)
        self.waiting.pop(permits, None)
        if permits.wanted_messages or permits.wanted_bytes:
            self._place(permits)
        queue = permits.queue
        granted = CapacityGranted(messages, size) if queue is None else RoomGranted(queue, messages, size)
        effects.append(Tell(permits.connection, granted))

    def _set_windows(self, permits: Permits) -> None:
        permits.message_window = self._messages.first_window()
        permits.byte_window = self._bytes.first_window()
        permits.used_messages = permits.used_bytes = 0

    def _awake(self, permits: Permits) -> None:
        """A sender that was idle sends: what it holds is not lent any more."""
        permits.idle = False
        self._messages.idle -= permits.messages
        self._bytes.idle -= max(0, permits.bytes)

    def pass_time(self, now: float) -> None:
        """It is ``now``, seconds, while something is sent. Whoever has sent nothing for a whole turn is idle, and begins small again."""
        if now < self._turn_ends:
            return
        self._turn_ends = now + TURN_SECONDS
        for permits in self._before:
            if permits in self._now:
                continue
            permits.idle = True
            self._messages.idle += permits.messages
            self._bytes.idle += max(0, permits.bytes)
            self._set_windows(permits)
            self._place(permits)
        self._before, self._now = self._now, {}

    def _place(self, permits: Permits) -> None:
        """Have a sender wait where it belongs; one that waits there keeps its turn."""
        if permits.is_stuck():
            self.waiting.setdefault(permits)
            self._stuck.setdefault(permits)
        elif permits.wants() or (self.unlimited and (permits.wanted_messages > 0 or permits.wanted_bytes > 0)):
            self.waiting.setdefault(permits)
        else:
            self.waiting.pop(permits, None)


def _unit(limit: int | None, usual: int, windowed: int, *, lends: bool) -> Unit:
    """What is counted of something; ``windowed`` is the least limit at which senders have windows."""
    return EndlessUnit(usual, lends) if limit is None else Unit(limit, lends and limit >= windowed)
