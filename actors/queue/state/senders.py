"""Senders, and their batches on the way in: accepted, and stored together with their neighbours.

A sender that sends one message at a time would fill the journal with headers and the queue with entries. So what arrives together is stored
together: small batches of the same shape become one, whoever sent them, and large ones stay as they are, uncopied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from operator import sub
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from actors.batch import BinaryColumn, MessageBatch
from actors.queue.state.permits import Permits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from actors.queue.state.capacity import Capacity
    from actors.queue.vocabulary.replies import Connection
    from actors.queue.vocabulary.stages import StageKey


Producers: TypeAlias = "tuple[tuple[str, int], ...]"
"""Producers, each with the number behind the last message of it."""
PRODUCER_BYTES = 16
"""What a producer takes in a record beside its name, at most: its number of up to nine bytes, and three small headers of msgpack's."""


@dataclass(eq=False, slots=True)
class Sender:
    """One sending connection.

    Attributes:
        producer: its name, or None.
        expected: the client number that has to come next; None where any may.
        rejecting: whether the batch with that number was rejected, so that those sent behind it are too.
        permits: what it may send, of what ``capacity`` has.
        temporary: whether nobody comes under its name after it.
        name_bytes: what its name takes in a record, with its number there; 0 without a name.
        stage: where what it sends is held back; None for what can be received at once.
        arrival: its number, in the order in which connections were accepted.
    """

    connection: Connection
    producer: str | None
    expected: int | None
    capacity: Capacity
    stage: StageKey | None = None
    temporary: bool = False
    rejecting: bool = False
    arrival: int = 0
    permits: Permits = field(init=False)
    name_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.permits = Permits(self.connection)
        self.name_bytes = 0 if self.producer is None else len(self.producer.encode()) + PRODUCER_BYTES


SMALL_MESSAGES = 128
SMALL_BYTES = 32 * 1024
"""A batch with at most so many messages and bytes is joined with its neighbours."""
JOINED_MESSAGES = 4_096
JOINED_BYTES = 512 * 1024
"""The most that is joined: half a frame's room and less, and a delivery of bearable size."""


JOINED_NAME_BYTES = 32 * 1024
"""Bytes of producers' names in one stored batch, at most: half of what a record's header can have."""


Shape = tuple[object, ...] | None
"""What batches that are stored together have in common; None for payloads alone, without a stage and with the queue's own timing."""


def shape_of(batch: MessageBatch, *common: object) -> Shape:
    """The shape of a batch that is not the usual one: which columns it has, and ``common``."""
    return (batch.ids is None, batch.keys is None, batch.headers is None, *common)


class Incoming(NamedTuple):
    """A batch that was accepted of ``sender``, whose numbers end before ``up_to``.

    ``known`` messages of it were stored before, ``new`` are to be; ``size`` is the bytes of all of it. ``rejected`` is why none are.
    What has the same ``shape`` may be stored together. ``level`` is that of the queue that it is of.
    """

    sender: Sender
    up_to: int
    batch: MessageBatch
    known: int
    new: int
    size: int
    delay_us: int
    ttl_us: int | None
    rejected: str | None
    shape: Shape
    level: int = 0

    @property
    def stored(self) -> MessageBatch:
        """What is to be stored of it; it shares the buffers."""
        return self.batch.slice(self.known, self.batch.count) if self.known else self.batch


def groups(incoming: list[Incoming]) -> Iterator[list[Incoming]]:
    """``incoming`` in order, neighbours that are stored as one batch together."""
    if len(incoming) == 1:
        yield incoming
        return
    group: list[Incoming] = []
    named: set[Sender] = set()
    shape: Shape = None
    messages = size = names = 0
    for item in incoming:
        count, nbytes, sender = item.new, item.size, item.sender
        small = count <= SMALL_MESSAGES and nbytes <= SMALL_BYTES
        if sender not in named:
            named.add(sender)
            names += sender.name_bytes
        messages += count
        size += nbytes
        if group and not (
            small
            and item.shape == shape
            and messages <= JOINED_MESSAGES
            and size <= JOINED_BYTES
            and names <= JOINED_NAME_BYTES
        ):
            yield group
            group = []
            named = {sender}
            messages, size, names = count, nbytes, sender.name_bytes
        if not group:
            shape = item.shape
        group.append(item)
        if not small:
            # Nothing is joined to a large one.
            messages = JOINED_MESSAGES
    if group:
        yield group


class Producer(Protocol):
    """Who sends, as far as what is stored says it."""

    @property
    def producer(self) -> str | None:
        """Its name, or None."""

    @property
    def temporary(self) -> bool:
        """Whether nobody comes under its name after it."""


class Sent(Protocol):
    """Something of a sender."""

    @property
    def sender(self) -> Producer:
        """Whose it is."""

    @property
    def up_to(self) -> int:
        """The sender's number behind it."""


def producers_of(group: Iterable[Sent]) -> tuple[Producers, Producers]:
    """The producers of a group with the number after the last message of each, those whose name was made up for one run apart."""
    known: dict[str, int] = {}
    passing: dict[str, int] = {}
    for item in group:
        if (producer := item.sender.producer) is not None:
            (passing if item.sender.temporary else known)[producer] = item.up_to
    return tuple(known.items()), tuple(passing.items())


def joined(group: list[Incoming]) -> MessageBatch:
    """One batch of all that a group stores; a batch alone stays what it is, unless it is a small part of what came."""
    if len(group) == 1:
        item = group[0]
        # What is known of it is cut off, and would stay in memory with the rest. A frame's memory is its batch's alone.
        return item.stored.compact() if item.known else item.batch
    return joined_batches([item.stored for item in group])


def joined_batches(batches: list[MessageBatch], keys: BinaryColumn | None = None) -> MessageBatch:
    """One batch of the messages of several, which have the same columns; with these ``keys`` where that column is not to be joined."""
    ids = (
        None
        if batches[0].ids is None
        else memoryview(b"".join([batch.ids for batch in batches if batch.ids is not None]))
    )
    if keys is None and batches[0].keys is not None:
        keys = _column([batch.keys for batch in batches if batch.keys is not None])
    headers = (
        None
        if batches[0].headers is None
        else _column([batch.headers for batch in batches if batch.headers is not None])
    )
    return MessageBatch(_column([batch.payloads for batch in batches]), ids, keys, headers)


def _column(columns: list[BinaryColumn]) -> BinaryColumn:
    sizes: list[int] = []
    for column in columns:
        if len(column.offsets) == 2:
            sizes.append(len(column.data))
        else:
            sizes += sizes_of(column)
    return BinaryColumn.from_parts(list(accumulate(sizes, initial=0)), [column.data for column in columns])


def sizes_of(column: BinaryColumn) -> Iterable[int]:
    """The size of each value."""
    ends = column.offsets.tolist()
    return map(sub, ends[1:], ends)
