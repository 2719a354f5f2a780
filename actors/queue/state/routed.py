"""What was published to exchanges in one turn of the loop, put together by the queues that it goes to.

A thousand keys that lead to one queue are not a thousand records. What goes to the same queues becomes one batch, whoever published it and
whatever its keys, as long as each queue has everything in the order in which it came: a group is closed when another group, which was begun
after it, goes to one of its queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from actors.queue.state.senders import (
    JOINED_BYTES,
    JOINED_MESSAGES,
    JOINED_NAME_BYTES,
    SMALL_BYTES,
    SMALL_MESSAGES,
    Shape,
    shape_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from actors.batch import MessageBatch
    from actors.queue.state.senders import Producer
    from actors.queue.vocabulary.stages import StageKey

Queues: TypeAlias = "tuple[str, ...]"


class Routed(NamedTuple):
    """Messages of one sender that go to the same queues.

    Attributes:
        sender: whose they are.
        queues: where they go, in order; one at least.
        batch: the messages.
        up_to: the sender's number behind the last of them.
        delay: seconds until they can be received; None for what each queue declares.
        ttl: seconds after which they are of no use; None for what each queue declares.
        name_bytes: what the sender's name takes in a record; 0 without a name.
        offered: what they are a part of, for whoever put them here.
        stage: where they are held back; None for what can be received at once.
    """

    sender: Producer
    queues: Queues
    batch: MessageBatch
    up_to: int
    delay: float | None = None
    ttl: float | None = None
    name_bytes: int = 0
    offered: Any = None
    stage: StageKey | None = None

    @property
    def shape(self) -> Shape:
        """What those have in common that are stored as one batch, beside their queues."""
        return shape_of(self.batch, self.delay, self.ttl, self.stage)

    @property
    def first(self) -> int:
        """The sender's number of the first of them."""
        return self.up_to - len(self.batch)


class Group:
    """What is stored as one batch in each of its queues.

    Attributes:
        parts: in order; of one sender ascending.
    """

    __slots__ = ("_messages", "_named", "_names", "_shape", "_size", "number", "parts")

    def __init__(self, number: int, first: Routed) -> None:
        self.number = number
        self.parts: list[Routed] = []
        self._shape = first.shape
        self._named: set[Producer] = set()
        self._messages = self._size = self._names = 0
        self._take(first)

    @property
    def queues(self) -> Queues:
        """Where it goes."""
        return self.parts[0].queues

    def takes(self, part: Routed) -> bool:
        """Take one that goes to the same queues, if it fits; returns whether it does. Nothing is joined to what is large."""
        count, size = len(part.batch), part.batch.nbytes
        names = 0 if part.sender in self._named else part.name_bytes
        if (
            count > SMALL_MESSAGES
            or size > SMALL_BYTES
            or self._messages + count > JOINED_MESSAGES
            or self._size + size > JOINED_BYTES
            or self._names + names > JOINED_NAME_BYTES
            or part.shape != self._shape
        ):
            return False
        self._take(part)
        return True

    def _take(self, part: Routed) -> None:
        count, size = len(part.batch), part.batch.nbytes
        if part.sender not in self._named:
            self._named.add(part.sender)
            self._names += part.name_bytes
        self._messages += count
        self._size += size
        if count > SMALL_MESSAGES or size > SMALL_BYTES:
            self._messages = JOINED_MESSAGES
        self.parts.append(part)


def grouped(routed: list[Routed]) -> list[Group]:
    """The groups of what was published in one turn, in the order in which they have to be stored."""
    groups: list[Group] = []
    # The last group that goes to exactly these queues, and the last that goes to each queue.
    by_queues: dict[Queues, Group] = {}
    last: dict[str, Group] = {}
    for part in routed:
        queues = part.queues
        group = by_queues.get(queues)
        open_still = group is not None and (
            group is groups[-1] or all(last[queue].number <= group.number for queue in queues)
        )
        if group is None or not open_still or not group.takes(part):
            group = by_queues[queues] = Group(len(groups), part)
            groups.append(group)
            for queue in queues:
                last[queue] = group
    return groups


def stage_wholes(groups: Iterable[Group], came: Mapping[Producer, int]) -> dict[int, int]:
    """Of each group that is staged, by its number: below which number all that its sender has sent is stored when that group is.

    Args:
        groups: in the order in which they are stored.
        came: of each sender that stages, the number behind all that it has sent and that has not been refused.
    """
    below = dict(came)
    wholes: dict[int, int] = {}
    for group in reversed(list(groups)):
        first = group.parts[0]
        if first.stage is not None:
            wholes[group.number] = below[first.sender]
            below[first.sender] = min(below[first.sender], first.first)
    return wholes
