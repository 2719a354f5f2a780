"""Frames that have begun and are not complete: how much memory all connections of a broker together keep for them.

A frame's bytes are kept as they come, so many senders in the middle of large frames need much memory at once. Up to a limit each has
what it needs. Above it a connection that needs more is read no further and stands in line. Room that becomes free goes to the line in
order, and ``IN_TURN`` of the line may go on in any case: a frame that goes on comes to its end, or its connection does, in bounded
time. So honest senders wait, and none is refused, however many others stop in the middle of a frame.
"""

from __future__ import annotations

from collections.abc import Callable

from transport.frames import FIRST_PARTIAL_BYTES, MAX_FRAME_BYTES, Room

MOST_PARTIAL_BYTES = 256 * 2**20
"""Sixteen of the largest frames at once."""
LEAST_PARTIAL_BYTES = 2 * MAX_FRAME_BYTES
"""On the smallest machine too."""
SHARE_OF_MEMORY = 8
"""One part of so many of the memory that a broker may have goes to frames that are not complete."""
IN_TURN = 4
"""Connections of the line that may go on though there is no room: at most as many of the largest frames above the limit."""


def partial_bytes_limit(memory: int) -> int:
    """The limit of a broker that may have ``memory`` bytes."""
    return max(LEAST_PARTIAL_BYTES, min(MOST_PARTIAL_BYTES, memory // SHARE_OF_MEMORY))


class PartialFrames:
    """What all connections keep.

    Attributes:
        bytes: how much that is.
        limit: above which connections stand in line.
    """

    def __init__(self, limit: int = MOST_PARTIAL_BYTES) -> None:
        self.bytes = 0
        self.limit = limit
        self._line: dict[PartialRoom, None] = {}
        self._in_turn: set[PartialRoom] = set()
        self._serving = False

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self._line)

    def take(self, room: PartialRoom, size: int) -> bool:
        """``room`` needs ``size`` bytes. False: it stands in line, and is told by ``granted`` when it may ask again."""
        more = size - room.bytes
        if more > 0 and room not in self._in_turn:
            fits = self.bytes + more <= self.limit
            # What is small does not wait behind what is large, while there is room.
            if not (fits and (not self._line or size <= FIRST_PARTIAL_BYTES)):
                if self._line or len(self._in_turn) >= IN_TURN:
                    self._line[room] = None
                    room.wanted = size
                    return False
                self._in_turn.add(room)
        self.keep(room, size)
        return True

    def keep(self, room: PartialRoom, size: int) -> None:
        """``room`` has ``size`` bytes, which have come already."""
        more = size - room.bytes
        room.bytes = size
        self.bytes += more
        if more < 0:
            self._serve()

    def leave(self, room: PartialRoom) -> None:
        """``room`` has nothing, and waits for nothing."""
        self._line.pop(room, None)
        self._in_turn.discard(room)
        self.bytes -= room.bytes
        room.bytes = 0
        self._serve()

    def _serve(self) -> None:
        """Let those of the line go on who may."""
        if self._serving:
            return
        self._serving = True
        while self._line:
            first = next(iter(self._line))
            if len(self._in_turn) < IN_TURN:
                self._in_turn.add(first)
            elif self.bytes + first.wanted - first.bytes <= self.limit:
                self.keep(first, first.wanted)
            else:
                break
            del self._line[first]
            first.granted()
        self._serving = False


class PartialRoom(Room):
    """What one connection keeps.

    Args:
        everybody: where it is counted.
        granted: called when it may ask again for what it was refused.

    Attributes:
        bytes: how much it is.
        wanted: what it was last refused.
    """

    __slots__ = ("_everybody", "bytes", "granted", "wanted")

    def __init__(self, everybody: PartialFrames, granted: Callable[[], None]) -> None:
        self._everybody = everybody
        self.granted = granted
        self.bytes = 0
        self.wanted = 0

    @property
    def scarce(self) -> bool:
        """Whether anybody waits."""
        return self._everybody.waiting > 0

    def take(self, size: int) -> bool:
        """See `PartialFrames.take`."""
        return self._everybody.take(self, size)

    def keep(self, size: int) -> None:
        """See `PartialFrames.keep`."""
        self._everybody.keep(self, size)

    def leave(self) -> None:
        """See `PartialFrames.leave`."""
        self._everybody.leave(self)
