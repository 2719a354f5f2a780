"""The checkpoints of a journal, on the thread that appends: what they bring with them is done by journal/housekeeping.py."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from journal.checkpoint_format import Checkpoint, LogFacts
from journal.errors import JournalUsageError
from journal.item_reading import ItemReading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from journal.housekeeping import Housekeeping
    from journal.options import JournalOptions
    from journal.reclaim import Combination, Live
    from journal.writer import Task, Writer

SEALED_SEGMENTS_DUE: Final = 4
"""A checkpoint is due when so many segments were filled since the last: until then none of them can be given back."""


class Checkpointing(ItemReading):
    """The part of a `Journal` that makes its checkpoints."""

    epoch: int
    next_lsn: int
    _options: JournalOptions
    _housekeeping: Housekeeping
    _next_segment: int
    _appended_bytes: int
    _checkpoint_lsn: int
    _bytes_at_checkpoint: int
    _sealed_since_checkpoint: int
    _cut: tuple[Checkpoint, list[Path], Combination | None, int] | None

    @property
    def checkpointing(self) -> bool:
        """A checkpoint is under way."""
        return self._housekeeping.checkpointing

    def checkpoint_due(self) -> bool:
        """Whether enough was appended since the last checkpoint for another, and none is under way.

        A caller may make one at any time; only a checkpoint gives disk back.
        """
        return not self.checkpointing and (
            self.next_lsn - self._checkpoint_lsn >= self._options.checkpoint_records
            or self._appended_bytes - self._bytes_at_checkpoint >= self._options.checkpoint_bytes
            or self._sealed_since_checkpoint >= SEALED_SEGMENTS_DUE
        )

    def checkpoint(self, payload: bytes, live: Live, done: Callable[[], None] | None = None) -> None:
        """Store the caller's state as of now, so that no record appended until now need be replayed; and give disk back.

        It returns at once. The three steps that it consists of may be made one by one, with other work and records between them.

        Args:
            payload: the state; every record appended before this call is contained in it.
            live: (stream, first, stop) -> how many of those items are still wanted; asked during this call, and 0 for an unknown stream.
                Items once not wanted are never wanted again.
            done: called, on a thread of the journal, when the checkpoint is durable.

        Raises:
            JournalUsageError: one is under way.
            JournalFailedError: a write or a sync has failed.
        """
        deque(self.prepare_checkpoint(live), 0)
        self.cut_checkpoint()
        self.store_checkpoint(payload, done)

    def prepare_checkpoint(self, live: Live) -> Iterator[None]:
        """The first step, in steps of its own of bounded work: find what nobody wants any more. Arguments and errors as `checkpoint`."""
        self._begin_checkpoint()
        return self._housekeeping.prepare(live)

    def _begin_checkpoint(self) -> None:
        self._running()
        if self.checkpointing:
            raise JournalUsageError("a checkpoint is under way; wait for done, or look at checkpointing")
        self._housekeeping.checkpointing = True

    def cut_checkpoint(self) -> None:
        """The second step, once the first is through: what is appended from here on will be replayed."""
        self._cut_at(self.next_lsn, None)

    def _cut_at(self, lsn: int, log: LogFacts | None) -> None:
        """Have the checkpoint be before the record ``lsn``, and say of a replica's log what it says."""
        dead, combination = self._housekeeping.cut(lsn)
        combined_segment = self._next_segment
        self._next_segment += combination is not None
        facts = tuple(segment.facts() for segment in self._catalog.segments)
        checkpoint = Checkpoint(lsn, self.epoch, self._next_segment, facts, None, log)
        self._cut = (checkpoint, dead, combination, combined_segment)
        self._checkpoint_lsn = lsn
        self._bytes_at_checkpoint, self._sealed_since_checkpoint = self._appended_bytes, 0

    def store_checkpoint(self, payload: bytes, done: Callable[[], None] | None = None) -> None:
        """The third step: store a state that contains every record before the cut, and may contain records behind it.

        Those are durable before it is, and replayed all the same; the caller must know them again. Errors as `checkpoint`.
        """
        writer = self._running()
        if self._cut is None:
            raise JournalUsageError("a checkpoint is cut before it is stored")
        (checkpoint, dead, combination, combined_segment), self._cut = self._cut, None
        # Without the bound a start would take the loss of a record that the state contains for a write that was never synced.
        behind = self.next_lsn if checkpoint.log is None and self.next_lsn > checkpoint.lsn else 0
        checkpoint = checkpoint._replace(payload=payload, behind=behind)
        write = partial(self._housekeeping.write, checkpoint, dead, done)
        tasks = [partial(writer.after_sync, write)]
        if combination is not None:
            copy = partial(self._housekeeping.combine, combination, combined_segment)
            tasks.append(partial(writer.in_background, copy))
        self._hand_over(writer, tasks)

    def _hand_over(self, writer: Writer, tasks: Sequence[Task]) -> None:
        """Have a checkpoint stored, and what follows it."""
        for task in tasks:
            self._submit(writer, task)

    def _submit(self, writer: Writer, task: Task) -> None:
        """Have the writer run a task when it has written what was appended until now."""
        raise NotImplementedError

    def _running(self) -> Writer:
        """The writer of a journal that takes records; raises what says why it takes none."""
        raise NotImplementedError
