"""What a message says of itself beside its payload: its group, and its deduplication id. Its name says both, for whoever reads it.

A payload begins with ``g3~d17~`` where its message is of the group ``g3`` and has the id ``d17``; the headers are made from that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from actors import Message, MessageBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

SAYS: Final = re.compile(r"(?:(g\d+)~)?(?:(d[\w-]+)~)?")
LONGEST_SAID: Final = 40
"""Bytes of a payload in which it stands."""
REMEMBERED: Final = 30
"""Ids that a program may send again."""


@dataclass(frozen=True, slots=True)
class Says:
    """What the messages of a queue say.

    Attributes:
        groups: how many there are; 0 where messages have none.
        free: how many of the messages have no group all the same.
        again: how many have an id that their program has said before; None where messages have no ids.
        shared: how many of the other ids are of a row that all programs go through, each for itself.
        nameless: how many of the messages have no id all the same.
    """

    groups: int = 0
    free: float = 0.0
    again: float | None = None
    shared: float = 0.0
    nameless: float = 0.0


NOTHING: Final = Says()


class Saying:
    """What one program says, in all its lives: an id that it said in one it says again in another.

    Args:
        says: what the messages of its queue say.
        who: the program's name.
        seed: of the run.
    """

    def __init__(self, says: Says, who: str, seed: int) -> None:
        self._says = says
        self._who = who
        self._random = Random(f"said {seed} {who}")
        self._ids: list[str] = []
        self._shared = self._own = 0

    def label(self) -> str:
        """How the payload of the next message begins."""
        says, random = self._says, self._random
        text = ""
        if says.groups and random.random() >= says.free:
            text += f"g{random.randrange(says.groups)}~"
        if says.again is not None and random.random() >= says.nameless:
            text += f"{self._id(says.again)}~"
        return text

    def _id(self, again: float) -> str:
        random = self._random
        if self._ids and random.random() < again:
            return random.choice(self._ids)
        if random.random() < self._says.shared:
            self._shared += 1
            found = f"d{self._shared}"
        else:
            self._own += 1
            found = f"d{self._who.rpartition('-')[2]}-{self._own}"
        self._ids = [*self._ids[1 - REMEMBERED :], found]
        return found


def group_of(message: str) -> str | None:
    """The group of a message, by its name."""
    found = SAYS.match(message)
    return None if found is None else found[1]


def id_of(message: str) -> str | None:
    """Its deduplication id."""
    found = SAYS.match(message)
    return None if found is None else found[2]


def message_of(payload: bytes) -> Message:
    """A message whose headers are what its payload says."""
    found = SAYS.match(payload[:LONGEST_SAID].decode("utf-8", "replace"))
    return Message(payload) if found is None else Message(payload, group=found[1], deduplication_id=found[2])


def batch_of(payloads: Sequence[bytes]) -> MessageBatch:
    """A batch of such messages; of bare payloads where none says anything."""
    messages = [message_of(payload) for payload in payloads]
    if not any(each.group or each.deduplication_id for each in messages):
        return MessageBatch.from_payloads(payloads)
    return MessageBatch.from_messages(messages)
