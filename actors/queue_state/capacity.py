"""How much senders may send: permits, granted from the room that is neither stored nor granted already.

So what is stored stays within the queue's limits, but for what cannot be avoided:

- A sender that wants to send may hold one permit even if others hold all the room, while what is stored is below the
  limits; else senders that hold permits and send nothing could stop all others. It may fill the queue so, one message at a
  time, and what the idle ones were granted can still come, as a permit is not taken back. At worst that is the
  limits once more and one message for each sender; it is as little as the idle senders' windows are small.
- A message may be sent while any byte of permit is left, however large it is. One message for each sender.
- The overhead that each stored batch counts for is known only when it comes.

A queue that rejects what it has no room for grants what is asked for, room or not: its senders are bounded by their own windows.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from actors.errors import DemandExceededError
from actors.queue_state.effects import Connection, Effect, GrantCapacity

if TYPE_CHECKING:
    from actors.batch import MessageBatch


REOPEN_MESSAGES = 1_000
REOPEN_BYTES = 256 * 1024
"""What must be free again of a queue that was full before it grants more: a good batch."""
REOPEN_SHARE = 8
"""Of a small queue, this part instead."""


class Permits:
    """What one sender may send and what more it wants.

    Attributes:
        messages: messages granted and not used.
        bytes: bytes granted and not used; below zero when the last message led beyond them.
        wanted_messages: messages asked for and not granted.
        wanted_bytes: bytes asked for and not granted.
    """

    __slots__ = ("bytes", "connection", "messages", "wanted_bytes", "wanted_messages")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.messages = 0
        self.bytes = 0
        self.wanted_messages = 0
        self.wanted_bytes = 0

    def wants(self) -> bool:
        """Whether it asked for more than it was granted."""
        return self.wanted_messages > 0 or self.wanted_bytes > 0

    def is_stuck(self) -> bool:
        """Whether it can send nothing for want of what it asked for."""
        return (self.messages <= 0 < self.wanted_messages) or (self.bytes <= 0 < self.wanted_bytes)


class Capacity:
    """The permits of all senders, granted in turns.

    Args:
        max_messages: messages stored and granted together.
        max_bytes: bytes likewise.
        unlimited: whether to grant whatever is asked for.

    Attributes:
        messages: messages granted and not used.
        bytes: bytes granted and not used.
        waiting: who wants more than it was granted, in the order of their turns; to be looked at only.
    """

    __slots__ = (
        "_full",
        "_max_bytes",
        "_max_messages",
        "_reopen_bytes",
        "_reopen_messages",
        "_stuck",
        "_unlimited",
        "bytes",
        "messages",
        "waiting",
    )

    def __init__(self, max_messages: int, max_bytes: int, unlimited: bool = False) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self.waiting: OrderedDict[Permits, None] = OrderedDict()
        # Those of the waiting who hold nothing: looked at first, and alone when there is no room, so that a thousand
        # waiting senders cost nothing while there is none.
        self._stuck: OrderedDict[Permits, None] = OrderedDict()
        # A full queue reopens for a batch, not for a message: granting each message's room as it is acknowledged would
        # have senders send batches of one, whose overhead fills the memory that large batches left.
        step = min(REOPEN_MESSAGES, max_messages // REOPEN_SHARE)
        byte_step = min(REOPEN_BYTES, max_bytes // REOPEN_SHARE)
        self._reopen_messages = max_messages - max(1, step)
        self._reopen_bytes = max_bytes - max(1, byte_step)
        self._full = False
        self._unlimited = unlimited
        self.messages = 0
        self.bytes = 0

    def request(self, permits: Permits, messages: int, size: int) -> None:
        """Want so many more messages and bytes."""
        permits.wanted_messages += messages
        permits.wanted_bytes += size
        self._place(permits)

    def use(self, permits: Permits, batch: MessageBatch, count: int) -> None:
        """Use permits for ``batch``, which has ``count`` messages; DemandExceededError if they do not suffice."""
        size = batch.nbytes
        have = permits.bytes
        if count > permits.messages or (size > have and batch.prefix_bytes(count - 1) >= have):
            raise DemandExceededError(count, size, permits.messages, have)
        permits.messages -= count
        permits.bytes = have - size
        self.messages -= count
        self.bytes -= min(size, have)
        if permits.messages <= 0 or have <= size:
            self._place(permits)

    def give_back(self, permits: Permits) -> None:
        """End a sender: what it holds and wants is nobody's."""
        self.messages -= permits.messages
        self.bytes -= max(0, permits.bytes)
        self.waiting.pop(permits, None)
        self._stuck.pop(permits, None)

    def closed(self, stored_messages: int, stored_bytes: int) -> bool:
        """Whether nothing is granted before more is acknowledged: the queue is full, or was and has not reopened."""
        if self._full:
            return stored_messages > self._reopen_messages or stored_bytes > self._reopen_bytes
        return stored_messages >= self._max_messages or stored_bytes >= self._max_bytes

    def note_stored(self, stored_messages: int, stored_bytes: int) -> bool:
        """So much is stored now; returns whether that leaves room."""
        self._full = self.closed(stored_messages, stored_bytes)
        return not self._full

    @property
    def stuck(self) -> list[Permits]:
        """Who can send nothing for want of room, in the order of their turns."""
        return list(self._stuck)

    def grant_one(self, permits: Permits, effects: list[Effect]) -> None:
        """Let a sender that is stuck send one message, whatever room there is."""
        self._give(permits, 1, 1, effects)

    def grant(self, stored_messages: int, stored_bytes: int, effects: list[Effect]) -> None:
        """Grant what there is room for, in turns and in equal shares; once full, only when a good piece is free again."""
        self.note_stored(stored_messages, stored_bytes)
        if self._unlimited:
            for permits in list(self.waiting):
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
            for _ in range(others):
                room, byte_room = self._room(stored_messages, stored_bytes)
                if room <= 0 or byte_room <= 0:
                    return
                permits = next(iter(self.waiting))
                self._give(permits, min(room, share), min(byte_room, byte_share), effects)

    def _room(self, stored_messages: int, stored_bytes: int) -> tuple[int, int]:
        return self._max_messages - stored_messages - self.messages, self._max_bytes - stored_bytes - self.bytes

    def _give(self, permits: Permits, messages: int, size: int, effects: list[Effect]) -> None:
        """Grant at most so much, and let the next one have its turn."""
        messages = min(messages, permits.wanted_messages)
        # What the last message led beyond its permit is stored and counted there: making it good takes no room.
        debt = max(0, -permits.bytes)
        size = min(size + debt, permits.wanted_bytes)
        permits.messages += messages
        permits.wanted_messages -= messages
        held = max(0, permits.bytes)
        permits.bytes += size
        permits.wanted_bytes -= size
        self.messages += messages
        self.bytes += max(0, permits.bytes) - held
        self._stuck.pop(permits, None)
        self.waiting.pop(permits, None)
        self._place(permits)
        effects.append(GrantCapacity(permits.connection, messages, size))

    def _place(self, permits: Permits) -> None:
        """Have a sender wait where it belongs; one that waits there keeps its turn."""
        if permits.wants():
            self.waiting.setdefault(permits)
            if permits.is_stuck():
                self._stuck.setdefault(permits)
        else:
            self.waiting.pop(permits, None)
