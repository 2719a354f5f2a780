"""What was published to exchanges in one turn of the loop, put together by the queues that it goes to.

A thousand keys that lead to one queue are not a thousand records. What goes to the same queues becomes one batch, whoever published it and
whatever its keys, as long as each queue has everything in the order in which it came: a group is closed when another group, which was begun
after it, goes to one of its queues.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from actors.batch import OFFSET_BYTES, BinaryColumn
from actors.queue.state.senders import (
    JOINED_BYTES,
    JOINED_MESSAGES,
    JOINED_NAME_BYTES,
    SMALL_BYTES,
    SMALL_MESSAGES,
    Shape,
    joined_batches,
    sizes_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from actors.batch import Buffer, MessageBatch
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
        exchange: where they were published.
        routing_key: of those that have no key of their own.
        stage: where they are held back; None for what can be received at once.
        priority: the level that they are of in the queue that has most; 0 where none has any.
    """

    sender: Producer
    queues: Queues
    batch: MessageBatch
    up_to: int
    delay: float | None = None
    ttl: float | None = None
    name_bytes: int = 0
    offered: Any = None
    exchange: str = ""
    routing_key: str = ""
    stage: StageKey | None = None
    priority: int = 0

    @property
    def shape(self) -> Shape:
        """What those have in common that are stored as one batch, beside their queues. Keys may differ, or be there or not."""
        batch = self.batch
        return (
            batch.ids is None,
            batch.headers is None,
            self.exchange,
            self.delay,
            self.ttl,
            self.stage,
            self.priority,
        )

    @property
    def first(self) -> int:
        """The sender's number of the first of them."""
        return self.up_to - self.batch.count

    @property
    def size(self) -> int:
        """Bytes of it in a batch with others, where each message may have to have its routing key."""
        return self.batch.nbytes + self.batch.count * (len(self.routing_key.encode()) + OFFSET_BYTES)


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

    @property
    def passing(self) -> bool:
        """Whether it is held back for a commit that somebody is about to make."""
        stage = self.parts[0].stage
        return stage is not None and stage.passing

    def takes(self, part: Routed) -> bool:
        """Take one that goes to the same queues, if it fits; returns whether it does. Nothing is joined to what is large."""
        count, size = part.batch.count, part.size
        names = 0 if part.sender in self._named else part.name_bytes
        if (
            count > SMALL_MESSAGES
            or part.batch.nbytes > SMALL_BYTES
            or self._messages + count > JOINED_MESSAGES
            or self._size + size > JOINED_BYTES
            or self._names + names > JOINED_NAME_BYTES
            or part.shape != self._shape
        ):
            return False
        self._take(part)
        return True

    def _take(self, part: Routed) -> None:
        count = part.batch.count
        if part.sender not in self._named:
            self._named.add(part.sender)
            self._names += part.name_bytes
        self._messages += count
        self._size += part.size
        if count > SMALL_MESSAGES or part.batch.nbytes > SMALL_BYTES:
            self._messages = JOINED_MESSAGES
        self.parts.append(part)


def grouped(routed: Iterable[Routed]) -> list[Group]:
    """The groups of what was published in one turn, in the order in which they have to be stored."""
    groups: list[Group] = []
    deque(grouping(routed, groups), 0)
    return groups


def grouping(
    routed: Iterable[Routed], groups: list[Group], level_in: Callable[[str, int], int | None] | None = None
) -> Iterator[None]:
    """Find the groups, as `grouped` has them: each step is one part.

    With ``level_in``, which says of which level of a queue something is, what is of different levels of a queue need not stay in order:
    messages of priorities that alternate are a group of each. A sender with a name is the exception, and so is one that stages: the
    numbers that its queues remember only grow.
    """
    if level_in is not None:
        yield from _by_level(routed, groups, level_in)
        return
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
        yield


def _by_level(
    routed: Iterable[Routed], groups: list[Group], level_in: Callable[[str, int], int | None]
) -> Iterator[None]:
    by_queues: dict[tuple[Queues, int], Group] = {}
    # The last group of each level of a queue, and the last of all its levels, or where it has none.
    last: dict[str | tuple[str, int], Group] = {}
    for part in routed:
        queues, level = part.queues, part.priority
        levels = [(queue, each) for queue in queues if (each := level_in(queue, level)) is not None]
        places: Iterable[str | tuple[str, int]] = queues
        if levels and not part.name_bytes and part.stage is None:
            leveled = {queue for queue, _ in levels}
            places = [*levels, *(queue for queue in queues if queue not in leveled)]
        group = by_queues.get((queues, level))
        open_still = group is not None and all(last[place].number <= group.number for place in places)
        if group is None or not open_still or not group.takes(part):
            group = by_queues[queues, level] = Group(len(groups), part)
            groups.append(group)
            last.update(dict.fromkeys((*queues, *levels), group))
        yield


def ways_of(routed: Iterable[Routed]) -> Collection[Queues]:
    """The different queues of parts, to be looked at once each. What is routed alike has the same tuple, which may be long."""
    return {id(part.queues): part.queues for part in routed}.values()


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


def joined_parts(parts: list[Routed]) -> tuple[MessageBatch, str]:
    """One batch of the messages of parts that are stored together, and the routing key of those that have no key of their own.

    Where the parts have one routing key in common, that is it, and no message gets a key. Otherwise each has its routing key for a key.
    """
    common, batches = parts[0].routing_key, [part.batch for part in parts]
    if len(parts) == 1:
        return batches[0], common
    alike = all(part.routing_key == common for part in parts)
    if alike and len({batch.keys is None for batch in batches}) == 1:
        return joined_batches(batches), common
    return joined_batches(batches, _keys(parts, fills=not alike)), common if alike else ""


def _keys(parts: list[Routed], *, fills: bool) -> BinaryColumn:
    """The keys of all messages; one that has none gets its routing key, if it ``fills``."""
    sizes: list[int] = []
    data: list[Buffer] = []
    for part in parts:
        key, keys = part.routing_key.encode() if fills else b"", part.batch.keys
        if keys is None:
            count = part.batch.count
            sizes += [len(key)] * count
            data.append(key * count)
            continue
        own = list(sizes_of(keys))
        if not key or 0 not in own:
            sizes += own
            data.append(keys.data)
        else:
            values = [each or key for each in keys.tolist()]
            sizes += map(len, values)
            data += values
    return BinaryColumn.from_parts(list(accumulate(sizes, initial=0)), data)
