"""A node's loop commits itself what has come in a turn, when that turn is over.

To wake the writer's thread, and to be woken by it, costs more than the write. A follower does so with all that it is sent: nobody else
needs its loop while its disk is at work, and what the leader sends meanwhile waits in the socket. A leader does so with what comes alone,
once that is shipped: its followers write while it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from journal.alone import TURN_SYNC

if TYPE_CHECKING:
    from actors.storage.node_news import NodeNews
    from journal import ReplicatedJournal


class TurnCommits:
    """Those of one journal, which is started before the first.

    Args:
        journal: the journal.
        news: tells what has become durable by them.
    """

    def __init__(self, journal: ReplicatedJournal, news: NodeNews) -> None:
        self._journal = journal
        self._news = news
        self._holding = False

    def begin(self) -> None:
        """Something is about to be appended: it is committed with all that follows in this turn, unless the writer's thread is to do it."""
        if not self._holding and self._journal.alone.begin_turn():
            self._holding = True
            self._news.on.call_soon(self._end)

    def begin_alone(self, batches: int) -> bool:
        """Of who leads: whether what is appended next comes alone and is committed behind `end_alone`, which must follow at once.

        A leader whose disk stalls meanwhile says nothing, and is taken for dead: so it is no disk that has been slow lately.
        """
        if not self._journal.alone.begin(batches, TURN_SYNC):
            return False
        self._holding = True
        return True

    def end_alone(self) -> None:
        """It is appended: it is shipped soon, which the loop was asked for by that, and then it is committed."""
        self._news.on.call_soon(self._end)

    def stop(self) -> None:
        """The journal is about to be closed: nothing is held any more, and nobody is told."""
        if self._holding:
            self._holding = False
            self._journal.alone.end()

    def _end(self) -> None:
        """The turn is over. The writer's thread says nothing during it (`NodeNews`), of what it had committed just before neither."""
        if self._holding:
            self.stop()
            self._news.durable()
