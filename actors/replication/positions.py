"""Where logs are, and where two of them part.

A record is known by its lsn and its epoch: one epoch has one leader, which never writes two records under one lsn. So two logs that have
the same epoch at an lsn are equal up to there. Of each log it is enough to know at which lsn each of its epochs starts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from actors.replication.limits import MAX_EPOCH_STARTS


class Position(NamedTuple):
    """Of a log's last record; the greater one belongs to the log that knows more.

    Attributes:
        epoch: the record's.
        lsn: its number; 0 where there is none.
    """

    epoch: int
    lsn: int


NOTHING: Final = Position(0, 0)
"""Of an empty log."""


class EpochStart(NamedTuple):
    """An epoch, and the lsn of its first record in a log, or of the first that the log still holds."""

    epoch: int
    lsn: int


class ReplicaLog(Protocol):
    """What the machines read of a node's log. What they want done to it they give as effects.

    Records below ``start`` are in its checkpoint, and are committed.
    """

    @property
    def start(self) -> int:
        """The first lsn of a record."""

    @property
    def end(self) -> int:
        """One more than the last lsn."""

    @property
    def durable(self) -> int:
        """Everything below is synced."""

    @property
    def committed(self) -> int:
        """Everything below is known to be committed."""

    @property
    def promised(self) -> int:
        """The greatest epoch that is durably promised."""

    @property
    def doubt(self) -> int:
        """What was promised when a write was cut off its end that may have been answered for; 0 where there is no doubt."""

    def epoch_of(self, lsn: int) -> int:
        """Of a record from ``start`` on, or of the one before it, which the checkpoint remembers. 0 for lsn 0."""

    def epoch_starts(self) -> Sequence[EpochStart]:
        """Ascending, of what it holds; the first with the lsn ``start`` or a greater one."""


class LogSummary(NamedTuple):
    """What another node is told of a log.

    Attributes:
        start: its first lsn.
        end: one more than its last.
        committed: every record below is committed.
        epoch: the last record's.
        starts: the last starts of its epochs; the first may be of the record before ``start``.
    """

    start: int
    end: int
    committed: int
    epoch: int
    starts: tuple[EpochStart, ...]

    @property
    def position(self) -> Position:
        """Of its last record."""
        return Position(self.epoch, self.end - 1)

    def epoch_at(self, lsn: int) -> int | None:
        """The epoch of the record at an lsn below its end; None where that is not named."""
        index = bisect_right(self.starts, lsn, key=lambda start: start.lsn)
        return self.starts[index - 1].epoch if index else None

    def opened(self, epoch: int) -> bool:
        """Whether something of an epoch is known to be committed: then its leader has opened."""
        return any(start.epoch == epoch and start.lsn < self.committed for start in self.starts)


def summary(log: ReplicaLog, most: int | None = MAX_EPOCH_STARTS) -> LogSummary:
    """Of a log as it is now, synced or not; with so many starts of epochs, None for all."""
    starts = list(log.epoch_starts())
    before = log.start - 1
    if before:
        # The checkpoint remembers it: a log that ends there goes on with this one.
        epoch = log.epoch_of(before)
        starts[: bool(starts) and starts[0].epoch == epoch] = [EpochStart(epoch, before)]
    named = tuple(starts if most is None else starts[-most:])
    return LogSummary(log.start, log.end, log.committed, log.epoch_of(log.end - 1), named)


def position(log: ReplicaLog) -> Position:
    """Of a log's last record."""
    return Position(log.epoch_of(log.end - 1), log.end - 1)


def parting(one: LogSummary, other: LogSummary) -> int:
    """The lsn below which two logs are equal: at it they part, or one of them ends. At least what both know as committed.

    It may be too low where one of them names not all of its epochs; never too high.
    """
    shared = min(one.end, other.end)
    # What both know as committed is the same; what only one of them does, the other may have something else for.
    agreed = min(one.committed, other.committed, shared)
    epochs = sorted({start.epoch for start in one.starts} & {start.epoch for start in other.starts}, reverse=True)
    for epoch in epochs:
        first = max(_span(one, epoch)[0], _span(other, epoch)[0])
        stop = min(_span(one, epoch)[1], _span(other, epoch)[1])
        if first < stop:
            return max(agreed, stop)
    return max(agreed, 1)


def _span(log: LogSummary, epoch: int) -> tuple[int, int]:
    index = bisect_right(log.starts, (epoch, 0))
    stop = log.starts[index + 1].lsn if index + 1 < len(log.starts) else log.end
    return log.starts[index].lsn, stop
