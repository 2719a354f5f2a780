"""The bytes of a checkpoint, as the docstring of journal/format.py specifies them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgpack

from journal.enclosed import Enclosed, disclose, enclose
from journal.errors import FormatError
from journal.format import FIRST_LSN, VERSION, check_magic

CHECKPOINT_MAGIC = b"PENSTCKP"
REPLICATED_VERSION = 2
"""Of the checkpoint of a replica: a program that knows nothing of replicas refuses it."""

_HEAD = struct.Struct("<8sHHQ")


class EpochStart(NamedTuple):
    """An epoch, and the lsn of its first record."""

    epoch: int
    lsn: int


class SegmentFacts(NamedTuple):
    """A segment as a checkpoint lists it; ``stop_lsn`` and ``end`` are 0 for the one that is not sealed."""

    segment_id: int
    kind: int
    first_lsn: int
    stop_lsn: int
    end: int
    sealed: bool


class LogFacts(NamedTuple):
    """What the checkpoint of a replica says of its log.

    Attributes:
        start: records below it are of no epoch: they are from before the directory was a replica's, or were never in its log.
        committed: every record below it was committed, and durable here; and the checkpoint's state contains none from there on.
        epochs: the epochs of the records below the checkpoint's lsn, each with its first record, ascending: enough to know the epoch of
            each record that the log still holds, and of the one before the first of them.
    """

    start: int
    committed: int
    epochs: tuple[EpochStart, ...]


class Checkpoint(NamedTuple):
    """Everything that a checkpoint file holds; ``log`` is there in the one of a replica only.

    Attributes:
        behind: the state contains nothing of the records from here on, and may contain something of those below; all of them were durable
            before it was. 0 where that is ``lsn``.
    """

    lsn: int
    epoch: int
    next_segment: int
    segments: tuple[SegmentFacts, ...]
    payload: bytes | None
    log: LogFacts | None = None
    behind: int = 0

    @property
    def durable(self) -> int:
        """Every record below it was durable when this was stored."""
        return max(self.lsn, self.behind, self.log.committed if self.log is not None else 0)

    def alone(self) -> Checkpoint:
        """The same for a journal that is no replica's: up to which record the state may reach is said all the same."""
        return self._replace(log=None, behind=self.durable if self.durable > self.lsn else 0)


def pack_checkpoint(checkpoint: Checkpoint) -> bytes:
    """A whole checkpoint file."""
    fields: dict[str, Any] = {
        "lsn": checkpoint.lsn,
        "epoch": checkpoint.epoch,
        "next_segment": checkpoint.next_segment,
        "segments": [list(facts) for facts in checkpoint.segments],
        "payload": checkpoint.payload,
    }
    if checkpoint.behind:
        fields["behind"] = checkpoint.behind
    log = checkpoint.log
    if log is not None:
        fields["log"] = [log.start, log.committed, [list(start) for start in log.epochs]]
    body: bytes = msgpack.packb(fields)
    version = VERSION if log is None else REPLICATED_VERSION
    return enclose(_HEAD, Enclosed(CHECKPOINT_MAGIC, version, body))


def unpack_checkpoint(data: bytes) -> Checkpoint:
    """The reverse; raises FormatError for anything but one whole checkpoint file."""
    magic, version, packed = disclose(_HEAD, data, "checkpoint")
    check_magic(magic, CHECKPOINT_MAGIC, version, "checkpoint", REPLICATED_VERSION)
    try:
        body = msgpack.unpackb(packed, max_ext_len=0)
        segments = tuple(_segment_facts(*facts) for facts in body["segments"])
        log = _log_facts(*body["log"]) if version == REPLICATED_VERSION else None
        lsn, epoch, behind = int(body["lsn"]), int(body["epoch"]), int(body.get("behind", 0))
        if behind and behind <= lsn:
            raise ValueError(f"it is before record {lsn}, and contains what is before record {behind}")
        return Checkpoint(lsn, epoch, int(body["next_segment"]), segments, _payload(body["payload"]), log, behind)
    except (ValueError, KeyError, IndexError, TypeError, msgpack.UnpackException) as error:
        raise FormatError(f"a checkpoint whose checksum holds and whose body does not: {error!r}") from error


def checked_epochs(epochs: Sequence[Sequence[int]]) -> tuple[EpochStart, ...]:
    """Epochs and their first records as they were read; ValueError or TypeError where they do not ascend, or there are none."""
    found = tuple(EpochStart(int(epoch), int(first)) for epoch, first in epochs)
    if not found or found[0] < (0, 0) or any(not (a[0] < b[0] and a[1] < b[1]) for a, b in pairwise(found)):
        raise ValueError("the epochs of its log do not ascend")
    return found


def _segment_facts(segment_id: int, kind: int, first_lsn: int, stop_lsn: int, end: int, sealed: bool) -> SegmentFacts:
    return SegmentFacts(int(segment_id), int(kind), int(first_lsn), int(stop_lsn), int(end), bool(sealed))


def _log_facts(start: int, committed: int, epochs: Sequence[Sequence[int]]) -> LogFacts:
    if start < FIRST_LSN or committed < FIRST_LSN:
        raise ValueError(f"its log starts with record {start}, and is committed up to {committed}")
    return LogFacts(int(start), int(committed), checked_epochs(epochs))


def _payload(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    raise TypeError(f"a payload is bytes or nothing, not {type(value).__name__}")
