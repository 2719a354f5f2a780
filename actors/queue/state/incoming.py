"""Batches on their way in: accepted, and stored together with their neighbours.

A sender that sends one message at a time would fill the journal with headers and the queue with entries. So what arrives together is stored
together: small batches of the same shape become one, whoever sent them, and large ones stay as they are, uncopied.
"""

from __future__ import annotations

from itertools import accumulate
from operator import sub
from typing import TYPE_CHECKING, NamedTuple

from actors.batch import BinaryColumn, MessageBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.queue.state.consumers import Sender

SMALL_MESSAGES = 128
SMALL_BYTES = 32 * 1024
"""A batch with at most so many messages and bytes is joined with its neighbours."""
JOINED_MESSAGES = 4_096
JOINED_BYTES = 512 * 1024
"""The most that is joined: half a frame's room and less, and a delivery of bearable size."""


JOINED_NAME_BYTES = 32 * 1024
"""Bytes of producers' names in one stored batch, at most: half of what a record's header can have."""


class Incoming(NamedTuple):
    """A batch that was accepted of ``sender``, whose numbers end before ``up_to``.

    ``known`` messages of it were stored before, ``new`` are to be; ``size`` is the bytes of all of it. ``rejected`` is why none are.
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

    @property
    def stored(self) -> MessageBatch:
        """What is to be stored of it; it shares the buffers."""
        return self.batch.slice(self.known, len(self.batch)) if self.known else self.batch


def groups(incoming: list[Incoming]) -> Iterator[list[Incoming]]:
    """``incoming`` in order, neighbours that are stored as one batch together."""
    if len(incoming) == 1:
        yield incoming
        return
    group: list[Incoming] = []
    named: set[Sender] = set()
    messages = size = names = 0
    for item in incoming:
        count, nbytes, sender = item.new, item.size, item.sender
        name = 0 if sender in named else sender.name_bytes
        if group and not (
            _small(count, nbytes)
            and messages + count <= JOINED_MESSAGES
            and size + nbytes <= JOINED_BYTES
            and names + name <= JOINED_NAME_BYTES
            and _alike(group[0], item)
        ):
            yield group
            group = []
        if not group:
            messages = size = names = 0
            name = sender.name_bytes
            named.clear()
        group.append(item)
        named.add(sender)
        names += name
        # Nothing is joined to a large one.
        messages += count if _small(count, nbytes) else JOINED_MESSAGES
        size += nbytes
    if group:
        yield group


def joined(group: list[Incoming]) -> MessageBatch:
    """One batch of all that a group stores; a batch alone stays what it is, unless it is a small part of what came."""
    if len(group) == 1:
        item = group[0]
        # What is known of it is cut off, and would stay in memory with the rest. A frame's memory is its batch's alone.
        return item.stored.compact() if item.known else item.batch
    batches = [item.stored for item in group]
    ids = (
        None
        if batches[0].ids is None
        else memoryview(b"".join([batch.ids for batch in batches if batch.ids is not None]))
    )
    keys = None if batches[0].keys is None else _column([batch.keys for batch in batches if batch.keys is not None])
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
            ends = column.offsets.tolist()
            sizes += map(sub, ends[1:], ends)
    return BinaryColumn.from_parts(list(accumulate(sizes, initial=0)), [column.data for column in columns])


def _small(count: int, size: int) -> bool:
    return count <= SMALL_MESSAGES and size <= SMALL_BYTES


def _alike(one: Incoming, other: Incoming) -> bool:
    return (
        one.sender.stage == other.sender.stage
        and one.delay_us == other.delay_us
        and one.ttl_us == other.ttl_us
        and (one.batch.ids is None) == (other.batch.ids is None)
        and (one.batch.keys is None) == (other.batch.keys is None)
        and (one.batch.headers is None) == (other.batch.headers is None)
    )
