"""What a queue wants done after a command; its actor does it. Connections are whatever the caller named them by.

``after`` is the number of the event that an effect depends on: it may be seen outside only when that event is durable, so that
nobody acts on what a crash could undo. 0 depends on nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from actors.batch import MessageBatch
from actors.queue.structures.ranges import Range
from actors.queue.vocabulary.commands import DeadLettersMoved
from actors.queue.vocabulary.replies import Reply

Connection: TypeAlias = Hashable

MAX_RECEIVES, EXPIRED = "max-receives", "expired"
"""Why messages become dead letters: received so often without being acknowledged, or not received in their time."""


class Tell(NamedTuple):
    """Tell a connection a reply, or another queue that its dead letters are stored."""

    connection: Connection
    reply: Reply | DeadLettersMoved
    after: int = 0


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Messages for the dead-letter queue, which is to be told ``StoreDeadLetters``; asked again if nothing is heard of them.

    Attributes:
        queue: the dead-letter queue's name; None for this queue's own with ``.dead`` after it.
        first: this queue's number of the first.
        ranges: their numbers, which the answer names.
        reason: ``max-receives`` or ``expired``.
    """

    queue: str | None
    first: int
    batch: MessageBatch
    ranges: tuple[Range, ...]
    reason: str
    after: int = 0


Effect: TypeAlias = Tell | DeadLetter
