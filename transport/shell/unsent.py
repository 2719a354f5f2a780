"""What waits for the sockets of all connections of a broker together: how much memory it may take, and who gives way.

Each connection has bounds of its own, and many of them are much. Above a limit for all, whoever has most unsent gives way. It is held to a
low mark: it is read no further, and sent nothing more, until it has taken nearly all of it. Above twice the limit whoever has most is cut.
One that has little is never asked to give way.
"""

from __future__ import annotations

from typing import Protocol

from transport.errors import UnreadError
from transport.wire.frames import MAX_FRAME_BYTES

WRITE_BUFFER_HIGH = 1024 * 1024
"""Bytes waiting for the socket above which the handler is told to hold back, and a broker reads no more of this client."""
MAX_UNSENT_BYTES = 3 * MAX_FRAME_BYTES
"""Bytes waiting for the socket above which a connection is aborted, unless its protocol has larger messages. What is under way when the
socket fills up stays below: deliveries
that were asked for (8 MiB and a largest message, 16 MiB), or the answer to a command (16 MiB), and the short answers to what was read."""
MOST_UNSENT_BYTES = 256 * 2**20
"""As much as frames that are not complete may take: two hundred and fifty who do not read."""
LEAST_UNSENT_BYTES = 32 * 2**20
"""On the smallest machine too: two of the largest frames."""
SHARE_OF_MEMORY = 8
"""One part of so many of the memory that a broker may have may wait for sockets."""
COUNTED_BYTES = 64 * 1024
"""Unsent bytes of one connection that do not count, and to which it is held where it gives way."""


class Owner(Protocol):
    """The connection whose bytes they are."""

    def give_way(self) -> None:
        """Have no more than ``COUNTED_BYTES`` unsent before anything more is read or sent."""

    def abort(self, error: Exception, /) -> None:
        """End at once."""


def unsent_bytes_limit(memory: int) -> int:
    """The limit of a broker that may have ``memory`` bytes."""
    return max(LEAST_UNSENT_BYTES, min(MOST_UNSENT_BYTES, memory // SHARE_OF_MEMORY))


class UnsentTotal:
    """What all connections have unsent, in size classes: at most twice what it really is, and changed only where a class is.

    Args:
        limit: above which whoever has most gives way.

    Attributes:
        bytes: how much that is.
    """

    def __init__(self, limit: int = MOST_UNSENT_BYTES) -> None:
        self.bytes = 0
        self.limit = limit
        self._holders: dict[Unsent, None] = {}

    def changed(self, holder: Unsent, size: int) -> None:
        """``holder`` has so much now."""
        more = size - holder.bytes
        holder.bytes = size
        self.bytes += more
        if size:
            self._holders[holder] = None
        else:
            self._holders.pop(holder, None)
        if more > 0 and self.bytes > self.limit:
            self._one_gives_way()

    def _one_gives_way(self) -> None:
        if self.bytes > 2 * self.limit:
            most = max(self._holders, key=lambda each: each.bytes)
            why = (
                f"some {self.bytes} bytes wait for all peers, twice the broker's {self.limit}, and most of them here: "
                f"{most.bytes}"
            )
            assert most.owner is not None, "one that is closed holds nothing"
            most.owner.abort(UnreadError(why))
            return
        free = [each for each in self._holders if not each.gives_way]
        if free:
            most = max(free, key=lambda each: each.bytes)
            assert most.owner is not None, "as above"
            most.gives_way = True
            most.owner.give_way()


class Unsent:
    """What one connection has unsent.

    Args:
        total: of all connections.
        owner: whose it is.
        most: above which the connection is cut.

    Attributes:
        owner: the connection, until it is closed.
        bytes: how much, in its size class; 0 for what does not count.
        gives_way: whether it was asked to, and is not drained yet.
    """

    __slots__ = ("_total", "bytes", "gives_way", "most", "owner")

    def __init__(self, total: UnsentTotal, owner: Owner, most: int = MAX_UNSENT_BYTES) -> None:
        self._total = total
        self.most = most
        self.owner: Owner | None = owner
        self.bytes = 0
        self.gives_way = False

    def count(self, unsent: int) -> None:
        """It is so much now."""
        size = 1 << unsent.bit_length() if unsent > COUNTED_BYTES else 0
        if size != self.bytes:
            self._total.changed(self, size)

    def bound(self, unsent: int) -> None:
        """It is so much now; above ``most`` the connection is cut."""
        self.count(unsent)
        if unsent > self.most and self.owner is not None:
            why = f"{unsent} bytes wait for a peer that does not read; the limit is {self.most}"
            self.owner.abort(UnreadError(why))

    def drained(self) -> None:
        """The socket keeps up again."""
        self.gives_way = False
        self.count(0)

    def close(self) -> None:
        """There is no socket any more, and nobody to tell: without a cycle the connection is free at once."""
        self.drained()
        self.owner = None
