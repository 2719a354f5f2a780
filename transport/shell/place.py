"""A connection's place among those that share the loop: what it owes the turns for what it received, and whether it stands in their line.

Frames are paid for when they are handled (`work_of`). What comes of a large one that is not complete, or of a peer that was refused, is
paid for as it is received. Each receive takes its time, whether anything is handled or not.
"""

from __future__ import annotations

from transport.shell.turns import Turns, Worker
from transport.wire.work import RECEIVED_BYTES_A_UNIT


class Place:
    """One connection's.

    Args:
        turns: shared by the connections that share the loop.

    Attributes:
        in_line: whether it stands in line.
        owed: units that its next turn pays for, before anything is handled in it.
    """

    __slots__ = ("_rest", "_turns", "in_line", "owed")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._rest = 0
        self.in_line = False
        self.owed = 0

    def join(self, worker: Worker) -> None:
        """Have ``worker``, whose place it is, stand in line, once. It is not kept here: it keeps this."""
        if not self.in_line:
            self.in_line = True
            self._turns.join(worker)

    def come(self) -> int:
        """Its turn has come: it stands in line no more; returns what it owed."""
        self.in_line = False
        owed, self.owed = self.owed, 0
        return owed

    def gathered(self, nbytes: int, complete: bool) -> bool:
        """``nbytes`` more have come of a frame that comes in pieces; returns whether it has to stand in line before more is received.

        A small frame pays when it is handled, however many pieces it comes in.
        """
        units, rest = divmod(self._rest + nbytes, RECEIVED_BYTES_A_UNIT)
        self._rest = 0 if complete else rest
        return units > 0 and self._overdraws(units)

    def found(self, nbytes: int) -> int:
        """A frame that comes in pieces begins with ``nbytes``, found in the connection's turn; returns the units, which that turn pays."""
        units, self._rest = divmod(nbytes, RECEIVED_BYTES_A_UNIT)
        return units

    def discarded(self, nbytes: int) -> bool:
        """``nbytes`` have come of a peer that was refused; returns as `gathered`. The least receive is a unit: nothing else pays for it."""
        return self._overdraws(max(1, nbytes // RECEIVED_BYTES_A_UNIT))

    def _overdraws(self, units: int) -> bool:
        overdrawn = self._turns.used(units)
        self.owed += overdrawn
        return overdrawn > 0
