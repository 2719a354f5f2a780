"""What the thread that appends, an event loop's, commits itself at once: a record that comes alone, or whatever a follower is sent.

The writer has a thread of its own: while it syncs, the loop takes in what comes, and the next sync is for all of that. For one
message now and then there is nothing to take in, and to hand it over and to hear of it takes longer than to write it.

It must be alone indeed. Of eight senders that each await one message the first would be committed by itself, and the others after it: two
syncs in place of one. So those before it have to have been alone too.

A follower's loop has nobody to serve meanwhile: what its leader sends during a sync waits in the socket, and is the next group.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from journal.committer import Committer
    from journal.writer import Writer


ALONE_BYTES: Final = 64 * 1024
"""Bytes that are committed where they are appended, at most: a quick disk writes and syncs them within a millisecond."""
QUICK_SYNC: Final = 0.002
"""Seconds that the last sync took at most where the next is made by who appends: its event loop stands still meanwhile."""
TURN_BYTES: Final = 512 * 1024
"""As ``ALONE_BYTES``, of what comes in a turn to a follower; of more than that the next is taken in while it is written."""
TURN_SYNC: Final = 0.02
"""As ``QUICK_SYNC``, of the slowest sync of a follower for a long time: while its loop stands still it answers nobody, and a disk that
stalled once is likely to do so again."""


class AloneCommits:
    """Finds what comes alone.

    Args:
        writer: who writes them.
        committer: who runs the writer.

    Attributes:
        committing: whether the appending thread commits now. It looks at what is durable when `end` returns, and need not be told.
    """

    __slots__ = ("_committer", "_in_a_row", "_most", "_writer", "committing")

    def __init__(self, writer: Writer, committer: Committer) -> None:
        self._writer = writer
        self._committer = committer
        self._in_a_row = 0
        self._most = ALONE_BYTES
        self.committing = False

    def begin(self, batches: int, slowest: float = math.inf) -> bool:
        """Whether what is appended next is to be committed by `end`, which must follow soon; ``batches`` are about to be appended.

        Not where the slowest sync of a long time took ``slowest`` seconds or more.
        """
        if batches > 1 or self._writer.busy or self._writer.slowest_sync_seconds >= slowest:
            self._in_a_row = 0
            return False
        self._in_a_row += 1
        self._most = ALONE_BYTES
        self.committing = self._in_a_row > self._committer.alone_in_a_row and self._committer.hold(
            self._writer, QUICK_SYNC
        )
        return self.committing

    def begin_turn(self) -> bool:
        """Whether all that is appended in this turn of the loop is committed by `end`, which must follow it: for a follower."""
        self._most = TURN_BYTES
        writer = self._writer
        quick = not writer.busy and writer.slowest_sync_seconds < TURN_SYNC
        self.committing = quick and self._committer.hold(writer, TURN_SYNC)
        return self.committing

    def end(self) -> None:
        """Commit what was appended since it was said so; it may not be durable yet where the writer's thread is at work."""
        try:
            self._committer.commit_held(self._writer, self._most)
        finally:
            self.committing = False
