"""What a queue is told, and whoever publishes to several queues learns, of batches that others have stored in its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class StoredBeside:
    """Others have stored something in the queue's log: it delivers that. No reply."""


@dataclass(frozen=True, slots=True)
class Unroutable:
    """No queue took these messages of a sender that wants to know. It is told before `SentMessages` of their batch.

    Attributes:
        ranges: (first number of the sender's, count) pairs.
        reason: why, in words.
    """

    ranges: tuple[tuple[int, int], ...]
    reason: str


class Distributed(NamedTuple):
    """What became of a batch for several queues.

    Attributes:
        event: the number of the event that stored it: it can be confirmed when that is durable. 0 where no queue stored it, or in memory.
        queues: the names of those that stored it.
        rejected: of those that did not, for they reject what they have no room for: why.
    """

    event: int
    queues: tuple[str, ...]
    rejected: Mapping[str, str]
