"""What one queue is told of what another could not get rid of, and the answer: commands as those of ``commands``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from actors.batch import MessageBatch
from actors.queue.structures.ranges import Range
from actors.queue.vocabulary.published import Published
from actors.runtime.loop_ref import LoopActorRef


class Origin(NamedTuple):
    """Where dead letters come from: the messages ``ranges`` of the queue with the number ``queue``, which has them no more."""

    queue: int
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class StoreDeadLetters:
    """Messages of the queue ``source`` that nobody could deal with. Reply, to ``source``: DeadLettersMoved, once they are durable here.

    They are stored whatever the limits: there is nowhere else for them. The queue's time to live holds for them; its delay, which is for
    what is sent, does not. They stay ``published`` as they were, and of their ``priority``.
    """

    source: LoopActorRef[Any]
    origin: Origin
    batch: MessageBatch
    published: Published | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class DeadLettersMoved:
    """These messages, ``ranges`` of this queue, are stored in its dead-letter queue; again, it changes nothing.

    It is not recorded here: the other queue's record says it for both.
    """

    ranges: tuple[Range, ...]
