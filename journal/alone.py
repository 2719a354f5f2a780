"""A record that comes alone, and is committed at once by the thread that appends it, an event loop's.

The writer has a thread of its own: while it syncs, the loop takes in what comes, and the next sync is for all of that. For one
message now and then there is nothing to take in, and to hand it over and to hear of it takes longer than to write it.

It must be alone indeed. Of eight senders that each await one message the first would be committed by itself, and the others after it: two
syncs in place of one. So those before it have to have been alone too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from journal.committer import Committer
    from journal.writer import Writer


class AloneCommits:
    """Finds what comes alone.

    Args:
        writer: who writes them.
        committer: who runs the writer.

    Attributes:
        committing: whether the appending thread commits now. It looks at what is durable when `end` returns, and need not be told.
    """

    __slots__ = ("_committer", "_in_a_row", "_writer", "committing")

    def __init__(self, writer: Writer, committer: Committer) -> None:
        self._writer = writer
        self._committer = committer
        self._in_a_row = 0
        self.committing = False

    def begin(self, batches: int) -> bool:
        """Whether what is appended next is to be committed by `end`, which must follow at once; ``batches`` are about to be appended."""
        if batches > 1 or self._writer.busy:
            self._in_a_row = 0
            return False
        self._in_a_row += 1
        self.committing = self._in_a_row > self._committer.alone_in_a_row and self._committer.hold(self._writer)
        return self.committing

    def end(self) -> None:
        """Commit what was appended since `begin` said so; it may not be durable yet where the writer's thread is at work."""
        try:
            self._committer.commit_held(self._writer)
        finally:
            self.committing = False
