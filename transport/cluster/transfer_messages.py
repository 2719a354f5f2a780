"""What two nodes say to one another about a transfer: who takes it asks for a piece at a time, and who gives it answers.

A transfer is asked for by where it has come to, so it goes on behind a connection that ended, and with another giver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from transport.cluster.frames import Buffer


class AskRecords(NamedTuple):
    """Give me the records that are wanted from ``lsn`` on: a piece of them."""

    lsn: int


class AskState(NamedTuple):
    """Give me the state of the checkpoint before the record ``lsn``, from a byte on: a piece of it."""

    lsn: int
    offset: int


class GivenRecords(NamedTuple):
    """The answer to an `AskRecords`: those below ``stop`` that are wanted, and ask for the next from there on."""

    lsn: int
    stop: int
    records: Sequence[Any]


class GivenHead(NamedTuple):
    """The answer to an `AskRecords` behind the last one that is wanted, and to an `AskState` of another checkpoint: what the checkpoint is.

    The first four are those of ``journal.TransferHead``.

    Attributes:
        lsn: every record below it is contained in the state.
        epoch: that of the record before it.
        epoch_first: the first record of that epoch.
        state_bytes: how long the state is.
        asked: what was asked for: the lsn of the first record.
    """

    lsn: int
    epoch: int
    epoch_first: int
    state_bytes: int
    asked: int


class GivenState(NamedTuple):
    """The answer to an `AskState`."""

    lsn: int
    offset: int
    piece: Buffer


class Wait(NamedTuple):
    """There is nothing to be given yet, but there will be: ask again soon."""


class NoTransfer(NamedTuple):
    """There is none to be given, and why."""

    reason: str


TransferMessage: TypeAlias = AskRecords | AskState | GivenRecords | GivenHead | GivenState | Wait | NoTransfer
