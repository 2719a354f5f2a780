"""The contents of a store as a follower has them: what of a cluster's log is committed, folded as it comes to be.

A follower applies what a start's replay applies, by the same code, and never what is not committed: its state is one that nobody takes
back. So whoever takes over has nothing to replay but what was not committed, or not folded yet. Payloads are not held: the tables only
count what a record has.

It goes step by step, on the thread that appends, which has the event loop. A thread of its own would gain nothing. It would take the
interpreter from the loop for as long, since what it does is Python; the journal's index belongs to the thread that appends; and a
checkpoint encodes each queue as of one instant, between two steps. A step is some milliseconds at most, but for a record that has more.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from typing import TYPE_CHECKING, Final

from actors.errors import StorageError
from actors.queue.vocabulary.events import Event, MessagesAdded
from actors.storage import codec
from actors.storage.after_repair import LOST, LOST_CHANGES, LOST_DEFINITIONS, LOST_QUEUE
from actors.storage.contents import Contents, Replay
from actors.storage.failures import storage_error
from journal import JournalError, Record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from actors.queue.vocabulary.stages import WriterVersion
    from journal import ReplicatedJournal, ShippedRecord

logger = logging.getLogger("penstock.storage")

FOLD_WORK: Final = 128
"""Records that are folded in one step, where each counts for more that is long."""
READ_BYTES: Final = 128 * 1024
"""Of payloads that are read of the disk at a time, where they are not in memory any more: some milliseconds of small records."""
MESSAGES_SHIFT: Final = 14
"""Of a record that holds messages each 16 KiB count as a record more, for nobody looks into them;"""
OTHERS_SHIFT: Final = 10
"""of another one each KiB: it has ranges, or names;"""
IDS_SHIFT: Final = 4
"""and of a batch with ids each 16 messages, each of which is looked at."""
_HOLD_MESSAGES: Final = frozenset({codec.ADDED, codec.TOGETHER})


class FollowedContents:
    """Contents, and how far they are in the log.

    `begin`, then say what is `wanted`, and make a `step` for as long as it is `behind`.

    Args:
        journal: the log, open; it need not be started.
        contents: empty ones, whose tables only count (``replaying``).
        directory: for messages.

    Attributes:
        contents: as given.
        folded: every record below it is in the contents.
        wanted: every record below it is to be: below it they are committed, unless this node is about to lead.
    """

    def __init__(self, journal: ReplicatedJournal, contents: Contents, directory: Path) -> None:
        self.contents = contents
        self.folded = self.wanted = 0
        self._journal = journal
        self._directory = directory
        self._replay = _Following(contents)
        self._records: deque[ShippedRecord] = deque()

    def begin(self) -> None:
        """Have what the checkpoint has, and what is from before the directory was a replica's, all of it at once.

        Raises:
            StorageError: it cannot be decoded.
            JournalError: it cannot be read.
        """
        journal = self._journal
        if journal.checkpoint_payload is not None:
            self.contents.restore(journal.checkpoint_payload)
        self.folded = journal.checkpoint_lsn
        if self.folded < (start := journal.log_start):
            # A broker that was alone: these are of no leader, and `read_log` does not give them.
            for record in journal.replay():
                if record.lsn >= start:
                    break
                self._apply(record)
            self.folded = start
        self.wanted = max(self.folded, journal.committed_lsn)
        self._say_lost()

    def read_anew(self) -> None:
        """The end of the log was cut off: what was read of it in advance may be of what is no more."""
        self._records.clear()

    @property
    def behind(self) -> bool:
        """Whether there is something to fold."""
        return self.folded < self.wanted

    def want(self, lsn: int) -> None:
        """Every record below it is to be folded; it is in the log."""
        self.wanted = max(self.wanted, lsn)

    def step(self) -> bool:
        """Fold some records, if there are any; whether something else than messages has come, so that disk may be given back.

        Raises:
            StorageError: a record cannot be read, or decoded.
        """
        replay, others, begun = self._replay, False, self.folded
        work = FOLD_WORK
        try:
            while self.folded < self.wanted and work > 0:
                record = self._next()
                kind, whole = record.kind, record.whole()
                self._apply(Record(record.lsn, kind, whole))
                self.folded = record.lsn + 1
                if kind in _HOLD_MESSAGES:
                    work -= 1 + (len(whole) >> MESSAGES_SHIFT)
                else:
                    others = True
                    work -= 1 + (len(whole) >> OTHERS_SHIFT)
                if replay.ids:
                    work -= replay.ids >> IDS_SHIFT
                    replay.ids = 0
        except (JournalError, OSError) as error:
            raise storage_error(error) from error
        finally:
            if self.folded > begun:
                replay.forget_ids()
        self._say_lost()
        return others

    def _next(self) -> ShippedRecord:
        """The record that is folded next: mostly from memory. Of what has to be read, the rest is kept for the next step."""
        record = self._journal.held(self.folded)
        if record is not None:
            return record
        if not self._records:
            self._records.extend(self._journal.log_piece(self.folded, READ_BYTES).read())
        return self._records.popleft()

    def _apply(self, record: Record) -> None:
        try:
            self._replay.apply(record)
        except StorageError as error:
            raise StorageError(f"record {record.lsn} in {self._directory}: {error}") from error

    def _say_lost(self) -> None:
        """What the records leave out, only a defect or damage that nobody has noticed can: it is said, as a start says it."""
        replay = self._replay
        if replay.lost:
            for number, count in replay.lost.items():
                if count and number in self.contents.queues:
                    logger.warning(LOST, count, self.contents.queues[number].name)
            replay.lost = Counter()
        if replay.undeclared:
            for number, count in replay.undeclared.items():
                logger.warning(LOST_QUEUE, count, number)
            replay.undeclared = Counter()
        if replay.lost_changes:
            logger.warning(LOST_CHANGES, replay.lost_changes)
            replay.lost_changes = 0
        if replay.lost_definitions:
            logger.warning(LOST_DEFINITIONS, replay.lost_definitions, 0)
            replay.lost_definitions = 0


class _Following(Replay):
    """A replay that goes on for ever: ids of messages are forgotten on the way, as the leader does, and as a start does at its end.

    Their time is that of the messages that came: there is no other clock here, and two followers come to the same.

    Attributes:
        ids: of how many messages the ids were looked at.
    """

    def __init__(self, contents: Contents) -> None:
        super().__init__(contents)
        self.ids = 0
        self._now_us: dict[int, int] = {}

    def _together(
        self, recorded: Mapping[int, Event], version: WriterVersion | None, lsn: int, sizes: Mapping[int, int]
    ) -> None:
        super()._together(recorded, version, lsn, sizes)
        for stream, event in recorded.items():
            if isinstance(event, MessagesAdded) and event.ids_until_us:
                self.ids += event.batch.count
                self._now_us[stream] = max(event.enqueued_us, self._now_us.get(stream, 0))

    def forget_ids(self) -> None:
        """Forget the ids whose window is over as of what has come since this was last called."""
        if not self._now_us:
            return
        contents = self._contents
        for stream, now_us in self._now_us.items():
            queue = contents.queues.get(contents.calendars.get(stream, contents.levels.owner(stream)))
            if queue is None or queue.log.accepted is None:
                continue
            queue.log.accepted.forget(now_us)
            while queue.log.accepted.is_behind:
                queue.log.accepted.forget(now_us)
        self._now_us.clear()
