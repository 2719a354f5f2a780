"""How much senders may send: permits, such that what is stored and what may yet come stay within the queue's limits.

Limits are met but for three small amounts, each bounded by what has been granted:

- A sender that wants to send may hold one permit even if others hold the rest, while what is stored is below the limits;
  else senders that hold permits and send nothing could stop all others. One message for each sender.
- A message may be sent while any byte of permit is left, however large it is. One message for each sender.
- The overhead that each stored batch counts for is known only when it comes.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from actors.errors import DemandExceededError
from actors.queue_state.effects import Connection, Effect, GrantCapacity

if TYPE_CHECKING:
    from actors.batch import MessageBatch
    from actors.queue_state.settings import QueueSettings


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

    Attributes:
        messages: messages granted and not used.
        bytes: bytes granted and not used.
    """

    __slots__ = ("_max_bytes", "_max_messages", "_stuck", "_waiting", "bytes", "messages")

    def __init__(self, settings: QueueSettings) -> None:
        self._max_messages = settings.max_messages
        self._max_bytes = settings.max_bytes
        self._waiting: OrderedDict[Permits, None] = OrderedDict()
        # Those of the waiting who hold nothing: looked at first, and alone when there is no room, so that a thousand
        # waiting senders cost nothing while there is none.
        self._stuck: OrderedDict[Permits, None] = OrderedDict()
        self.messages = 0
        self.bytes = 0

    def __bool__(self) -> bool:
        """Whether anyone waits for permits."""
        return bool(self._waiting)

    def request(self, permits: Permits, messages: int, size: int) -> None:
        """Want so many more messages and bytes."""
        permits.wanted_messages += messages
        permits.wanted_bytes += size
        self._place(permits)

    def use(self, permits: Permits, batch: MessageBatch) -> None:
        """Use permits for ``batch``; DemandExceededError if they do not suffice."""
        count, size = len(batch), batch.nbytes
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
        self._waiting.pop(permits, None)
        self._stuck.pop(permits, None)

    def grant(self, stored_messages: int, stored_bytes: int, effects: list[Effect]) -> None:
        """Grant what there is room for, in turns and in equal shares."""
        if stored_messages >= self._max_messages or stored_bytes >= self._max_bytes:
            return
        if self._stuck:
            room, byte_room = self._room(stored_messages, stored_bytes)
            share, byte_share = max(0, room // len(self._waiting)), max(0, byte_room // len(self._waiting))
            while self._stuck:
                permits = next(iter(self._stuck))
                floor, byte_floor = int(permits.messages <= 0), int(permits.bytes <= 0)
                self._give(permits, max(floor, share), max(byte_floor, byte_share), effects)
        while self._waiting:
            room, byte_room = self._room(stored_messages, stored_bytes)
            others = len(self._waiting)
            share, byte_share = max(1, room // others), max(1, byte_room // others)
            for _ in range(others):
                room, byte_room = self._room(stored_messages, stored_bytes)
                if room <= 0 or byte_room <= 0:
                    return
                permits = next(iter(self._waiting))
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
        self._waiting.pop(permits, None)
        self._place(permits)
        effects.append(GrantCapacity(permits.connection, messages, size))

    def _place(self, permits: Permits) -> None:
        """Have a sender wait where it belongs; one that waits there keeps its turn."""
        if permits.wants():
            self._waiting.setdefault(permits)
            if permits.is_stuck():
                self._stuck.setdefault(permits)
        else:
            self._waiting.pop(permits, None)
