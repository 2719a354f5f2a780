"""What a queue is told, and whoever publishes to several queues learns, of batches that others have stored in its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class StoredBeside:
    """Others have stored something in the queue's log: it delivers that. No reply."""


class Distributed(NamedTuple):
    """What became of a batch for several queues.

    Attributes:
        event: the number of the event that stored it: it can be confirmed when that is durable. 0 where no queue stored it, or in memory;
            below that where only transient queues did, and nothing waits.
        queues: the names of those that stored it.
        rejected: of those that did not, for they reject what they have no room for: why.
    """

    event: int
    queues: tuple[str, ...]
    rejected: Mapping[str, str]
