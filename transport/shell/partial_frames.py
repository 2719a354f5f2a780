"""Frames that are not complete, or wait to be handled: how much memory all connections of a broker together keep for them.

A frame's bytes are kept as they come, so many senders in the middle of large frames need much memory at once. Up to a limit each has
what it needs. Above it a connection that needs more is read no further and stands in line. Room that becomes free goes to the line in
order. ``IN_TURN`` of the line may go on without room, one fewer for each largest frame's memory that complete frames take. While anybody
waits, whoever has begun a large frame and does not go on with it is ended, after ``LOOK_SECONDS`` at least and twice that at most. So
honest senders wait, and none is refused, however many others stop in the middle of a frame.

Whoever goes on just fast enough would hold up the line all the same. So all together are asked for a pace too. It is too slow while less
than ``ALL_PROGRESS`` comes of all large frames between two looks. Whoever then brings less than its share at two looks in a row is ended. A
largest frame at a share takes about three heartbeats of the default, which is all that it may take in any case. So n who are slow hold up
those behind them for n / ``IN_TURN`` times three looks. Who holds them up for longer brings its share. Whom this side had wait for a part
of the time is judged by the rest of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from transport.wire.frames import FIRST_PARTIAL_BYTES, MAX_FRAME_BYTES
from transport.wire.receiving import Room

MOST_PARTIAL_BYTES = 256 * 2**20
"""Sixteen of the largest frames at once."""
LEAST_PARTIAL_BYTES = 2 * MAX_FRAME_BYTES
"""On the smallest machine too."""
SHARE_OF_MEMORY = 8
"""One part of so many of the memory that a broker may have goes to frames that are not complete."""
SMALL_SHARE = 8
"""Small frames have one part in so many of the limit at least, above it: those that are large may have taken all there is."""
IN_TURN = 4
"""Connections of the line that may go on though there is no room. With those that are complete and wait, it is one more of the largest
frames above the limit at most. What is larger than a frame, as a message of AMQP may be, counts as so many, and goes on alone where it is
larger than all of them together."""

LOOK_SECONDS = 0.5
"""Seconds between two looks at who goes on, while somebody waits."""
LEAST_PROGRESS = 64 * 1024
"""Bytes that must come between two looks: an eighth of what it takes for a largest frame to come whole within three heartbeats."""
ALL_PROGRESS = IN_TURN * 512 * 1024
"""Bytes that must come of all large frames together, 4 MiB a second. The shares of as many as are in turn are 1 MiB a second each."""


class Owner(Protocol):
    """The connection that a room is for."""

    bytes_in: int

    def room_found(self) -> None:
        """It may ask again for what it was refused."""

    def waited(self) -> float:
        """Seconds that the peer had to wait for this side so far, and could not go on."""

    def too_slow(self) -> None:
        """End: others wait, and the peer does not go on with the frame that it has begun."""


def partial_bytes_limit(memory: int) -> int:
    """The limit of a broker that may have ``memory`` bytes."""
    return max(LEAST_PARTIAL_BYTES, min(MOST_PARTIAL_BYTES, memory // SHARE_OF_MEMORY))


class PartialFrames:
    """What all connections keep.

    Args:
        limit: above which connections stand in line.
        on_wait: called when somebody must wait: `look` is to be called each ``LOOK_SECONDS`` from then on, until it says that nobody does.

    Attributes:
        bytes: how much that is.
        limit: as given.
        line: those who wait, in order; to be looked at only.
        scarce: empty but while little is to be received at a time: those who flood may keep a receive each.
    """

    def __init__(self, limit: int = MOST_PARTIAL_BYTES, on_wait: Callable[[], None] | None = None) -> None:
        self.bytes = 0
        self.limit = limit
        self._on_wait = on_wait
        # Of the bytes, those of small frames, and those of frames that are complete.
        self._small = self._complete = 0
        # Those with a large frame that has begun, and how far they were at the last look.
        self._large: dict[PartialRoom, _Seen | None] = {}
        self.line: dict[PartialRoom, None] = {}
        # Those of the line whose frames are small.
        self._small_line: dict[PartialRoom, None] = {}
        # One object for all rooms, to be asked at each receive: it has something while memory is scarce.
        self.scarce: list[None] = []
        # Those of the line whose turn it is, each with how many of the largest frames what it has begun is.
        self._in_turn: dict[PartialRoom, int] = {}
        # Those of the large who brought less than their share at the last look.
        self._behind: set[PartialRoom] = set()
        self._serving = False

    @property
    def waiting(self) -> int:
        """How many stand in line."""
        return len(self.line)

    def take(self, room: PartialRoom, size: int, whole: int) -> bool:
        """``room`` needs ``size`` bytes of a frame of ``whole``. False: it stands in line until ``room_found``, when it may ask again."""
        room.is_small, room.is_complete = whole <= FIRST_PARTIAL_BYTES, False
        if size > room.bytes and room not in self._in_turn and not self._fits(room, size):
            if self.line or not self._has_place(whole):
                room.wanted, room.whole = size, whole
                self.line[room] = None
                if room.is_small:
                    self._small_line[room] = None
                self._note()
                if len(self.line) == 1 and self._on_wait is not None:
                    self._on_wait()
                return False
            self._in_turn[room] = _frames(whole)
        self.keep(room, size)
        if not room.is_small or room in self._in_turn:
            # However little of it has come.
            self._large.setdefault(room, None)
        return True

    def keep(self, room: PartialRoom, size: int) -> None:
        """``room`` has ``size`` bytes, whether they have come or may come."""
        more = self._resize(room, size)
        if size > FIRST_PARTIAL_BYTES:
            self._large.setdefault(room, None)
        else:
            # It is no longer asked for the pace of what it had before.
            self._large.pop(room, None)
        self._note()
        if more < 0:
            self._serve()

    def hold(self, room: PartialRoom, size: int) -> None:
        """``room`` has ``size`` bytes of a frame that is complete and waits to be handled: its turn is over.

        Whoever waits for this side is asked for no pace (`Owner.waited`); who does not read what it is told has nobody to wait for.
        """
        self._out_of_line(room)
        self._in_turn.pop(room, None)
        room.is_small, room.is_complete = False, True
        self.keep(room, size)
        # However little it is: all together may take the places of the line.
        self._large.setdefault(room, None)
        self._serve()

    def leave(self, room: PartialRoom) -> None:
        """``room`` has nothing, and waits for nothing."""
        self._out_of_line(room)
        self._large.pop(room, None)
        self._in_turn.pop(room, None)
        self._behind.discard(room)
        self._resize(room, 0)
        self._note()
        self._serve()

    def look(self) -> bool:
        """End those who do not go on, if anybody waits; whether anybody does, so that this is to be called again."""
        if not self.line:
            return False
        come: dict[PartialRoom, int] = {}
        free: dict[PartialRoom, float] = {}
        fresh = 0
        for room, before in self._large.items():
            if room in self.line:
                self._large[room] = None
                continue
            now = self._large[room] = _Seen(room.owner.bytes_in, room.owner.waited())
            if before is None:
                fresh += 1
            else:
                come[room] = now.bytes_in - before.bytes_in
                free[room] = max(0.0, 1.0 - (now.waited - before.waited) / LOOK_SECONDS)
        share = _share(sum(come.values()), sum(free.values()), len(come) + fresh)
        behind = {room for room, progress in come.items() if progress < share * free[room]}
        # Once a turn of the loop that took long may have held up somebody honest.
        twice = behind & self._behind
        slow = [room for room in come if room in twice or come[room] < LEAST_PROGRESS * free[room]]
        self._behind = behind
        for room in slow:
            room.owner.too_slow()
        return bool(self.line)

    def _fits(self, room: PartialRoom, size: int) -> bool:
        """Whether ``room`` may have ``size`` bytes at once. What is small does not wait behind what is large."""
        if room.is_small and self._small + size - room.small <= self.limit // SMALL_SHARE:
            return True
        return self.bytes + size - room.bytes <= self.limit and (not self.line or size <= FIRST_PARTIAL_BYTES)

    def _has_place(self, whole: int) -> bool:
        """Whether one more may go on though there is no room. A peer that does not read what it is told keeps a frame that is complete.

        What is ``whole`` more than all of their places goes on alone.
        """
        taken = sum(self._in_turn.values()) + self._complete // MAX_FRAME_BYTES
        return taken + min(_frames(whole), IN_TURN) <= IN_TURN

    def _out_of_line(self, room: PartialRoom) -> None:
        self.line.pop(room, None)
        self._small_line.pop(room, None)

    def _resize(self, room: PartialRoom, size: int) -> int:
        """``room`` has ``size`` bytes from now on; returns how many more that is."""
        more = size - room.bytes
        small = size if room.is_small else 0
        complete = size if room.is_complete else 0
        self._small += small - room.small
        self._complete += complete - room.complete
        self.bytes += more
        room.bytes, room.small, room.complete = size, small, complete
        return more

    def _serve(self) -> None:
        """Let those of the line go on who may."""
        if self._serving:
            return
        self._serving = True
        try:
            while self.line and (room := self._next()) is not None:
                self._out_of_line(room)
                if room in self._large:
                    self._large[room] = None
                room.owner.room_found()
        finally:
            self._serving = False
        self._note()

    def _next(self) -> PartialRoom | None:
        """Who of the line may go on now. What is small does not wait behind what is large here either."""
        small = next(iter(self._small_line), None)
        if small is not None and self._small + small.wanted <= self.limit // SMALL_SHARE:
            small.is_small = True
            self.keep(small, small.wanted)
            return small
        first = next(iter(self.line))
        if self._has_place(first.whole):
            self._in_turn[first] = _frames(first.whole)
            return first
        if self.bytes + first.wanted - first.bytes <= self.limit:
            self.keep(first, first.wanted)
            return first
        return None

    def _note(self) -> None:
        """Little is received at a time while somebody waits, or while what has come already is too much."""
        if bool(self.scarce) is not (len(self.line) > 0 or self.bytes > self.limit):
            if self.scarce:
                self.scarce.clear()
            else:
                self.scarce.append(None)


class _Seen(NamedTuple):
    """How far one was at a look: what had come of it, and the seconds that it had waited for this side."""

    bytes_in: int
    waited: float


def _frames(whole: int) -> int:
    """How many of the largest frames so many bytes are."""
    return -(-whole // MAX_FRAME_BYTES) or 1


def _share(come: int, free: float, large: int) -> float:
    """What each of so many ``large`` must bring between two looks, if nothing holds it up.

    Args:
        come: bytes that came of those who were there at the look before.
        free: the parts of the time in which nothing held them up, together.
        large: how many they are with those who have only begun.
    """
    share = max(LEAST_PROGRESS, ALL_PROGRESS // max(IN_TURN, large))
    return share if come < share * free else LEAST_PROGRESS


class PartialRoom(Room):
    """What one connection keeps.

    Args:
        everybody: where it is counted.
        owner: the connection.

    Attributes:
        owner: the connection.
        bytes: how much it is.
        small: the same where it is of a small frame; 0 where it is not.
        complete: the same where the frame is complete, and waits to be handled; 0 where it is not.
        is_small: whether it is of a small frame.
        is_complete: whether it is of a frame that is complete.
        wanted: what it was last refused,
        whole: and of how much.
    """

    __slots__ = (
        "_everybody",
        "bytes",
        "complete",
        "is_complete",
        "is_small",
        "line",
        "owner",
        "small",
        "wanted",
        "whole",
    )

    def __init__(self, everybody: PartialFrames, owner: Owner) -> None:
        self._everybody = everybody
        self.line = everybody.scarce
        self.owner = owner
        self.bytes = self.small = self.complete = 0
        self.is_small = self.is_complete = False
        self.wanted = self.whole = 0

    def take(self, size: int, whole: int) -> bool:
        """See `PartialFrames.take`."""
        return self._everybody.take(self, size, whole)

    def keep(self, size: int) -> None:
        """See `PartialFrames.keep`."""
        self.is_small = self.is_complete = False
        self._everybody.keep(self, size)

    def hold(self, size: int) -> None:
        """See `PartialFrames.hold`."""
        self._everybody.hold(self, size)

    def leave(self) -> None:
        """See `PartialFrames.leave`."""
        self._everybody.leave(self)
