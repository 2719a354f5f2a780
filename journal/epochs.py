"""Which epoch each record of a replica's log is of: kept by where an epoch begins, since there are few of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from journal.checkpoint_format import EpochStart

if TYPE_CHECKING:
    from collections.abc import Sequence

NONE_YET: Final = (EpochStart(0, 0),)
"""Of a log without a record."""
MOST_EPOCHS: Final = 4096
"""Epochs before a checkpoint that are remembered; the records of those before them count as gone from the log, for nobody knows theirs."""


class Epochs:
    """The epochs of a log, ascending, each with its first record.

    Args:
        starts: at least one; the first is that of the record before all those that may be asked for.
    """

    def __init__(self, starts: Sequence[EpochStart]) -> None:
        self._epochs = [epoch for epoch, _ in starts]
        self._firsts = [first for _, first in starts]

    @property
    def last(self) -> int:
        """The epoch of the last record."""
        return self._epochs[-1]

    @property
    def known_from(self) -> int:
        """Of the records from there on, and of none before, the epoch is known."""
        return self._firsts[0]

    def begin(self, epoch: int, lsn: int) -> None:
        """The record ``lsn``, and those that follow, are of an epoch that is greater than the last."""
        self._epochs.append(epoch)
        self._firsts.append(lsn)

    def of(self, lsn: int) -> int:
        """The epoch of a record that is not below ``known_from``."""
        return self._epochs[bisect_right(self._firsts, lsn) - 1]

    def starts(self) -> list[EpochStart]:
        """All of them."""
        return list(map(EpochStart, self._epochs, self._firsts))

    def before(self, lsn: int) -> tuple[EpochStart, ...]:
        """Those that begin before a record."""
        return tuple(self.starts()[: bisect_left(self._firsts, lsn)])

    def forget(self, lsn: int, checkpoint_lsn: int) -> None:
        """Nobody asks any more for a record below ``lsn``, but for the one before it.

        Of the epochs that begin before a checkpoint no more than ``MOST_EPOCHS`` are kept in any case.
        """
        at = bisect_right(self._firsts, lsn - 1) - 1
        at = max(at, bisect_left(self._firsts, checkpoint_lsn) - MOST_EPOCHS)
        if at > 0:
            del self._epochs[:at], self._firsts[:at]
