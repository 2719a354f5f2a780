"""What a queue is told, and whoever publishes to several queues learns, of batches that others have stored in its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from actors.runtime.loop_ref import LoopActorRef


@dataclass(frozen=True, slots=True)
class StoredBeside:
    """Others have stored something in the queue's log: it delivers that. No reply."""


@dataclass(frozen=True, slots=True)
class AwaitRoom:
    """The queue ``source`` has dead letters for this one, which is full. Reply, to ``source``: RoomMade, once."""

    source: LoopActorRef[Any]


@dataclass(frozen=True, slots=True)
class RoomMade:
    """There is room again in a queue that was full: whoever waited for it looks again."""


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
