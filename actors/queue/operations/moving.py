"""Moving messages to another queue, from both ends: what is handed over, what is stored there, and what comes back.

Each parcel is stored by one record, the same as a dead letter's, by which it leaves the one queue and enters the other. Nothing here looks
at a single message: columns are passed on, and ids that were generated become a column.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

from actors.batch import ID_BYTES, MessageBatch
from actors.errors import QueueError, QueueGoneError
from actors.queue.operations.dead_letters import fitting
from actors.queue.operations.dispatch import dispatch
from actors.queue.operations.dropping import drop_over
from actors.queue.operations.heads import next_ready
from actors.queue.vocabulary.events import MessagesAdded, MessagesMoved
from actors.queue.vocabulary.moves import MOVE_BATCHES, MOVE_BYTES, NoRoomError, Parcel, ParcelsStored, PausedError
from actors.queue.vocabulary.replies import Tell

if TYPE_CHECKING:
    from actors.queue.state.core import QueueCore
    from actors.queue.vocabulary.moves import StoreParcels

FACTS_BYTES = 96
"""What a record of moved messages says beside them, at most: times, sizes and where they come from. On the disk it counts with a batch."""
PUBLISHED_BYTES = 8
"""What it says more of an exchange and a routing key, beside these, at most."""
ID_PREFIX_BYTES = 8
_PER_ID = ID_BYTES // ID_PREFIX_BYTES


def take_parcels(core: QueueCore, below: int, most: int | None, id_prefix: bytes, now: float) -> list[Parcel]:
    """Take out the first of what can be received now, with numbers less than ``below``; at most so many messages. Empty where none is next.

    The next is what a receiver would get next. So what has expired is dropped before it, and in an exclusive queue nothing passes what
    waits for a delay.
    """
    parcels: list[Parcel] = []
    size = 0
    while len(parcels) < MOVE_BATCHES and size < MOVE_BYTES and most != 0:
        span = next_ready(core, now, 0, below)
        if span is None or span.start >= below:
            break
        entry, start = span.entry, span.start
        count = min(len(span), below - start, len(span) if most is None else most)
        batch = with_ids(entry.part(start, start + count), id_prefix, start)
        # Together with what a dead letter gets later, it fits a frame.
        if (fits := fitting(batch, 0)) < count:
            count, batch = fits, batch.slice(0, fits)
        parcel = Parcel(core.number, start, batch, entry.published, priority=entry.level)
        core.parcels[parcel] = core.ready.take(span, count)
        parcels.append(parcel)
        size += batch.nbytes
        if most is not None:
            most -= count
    return parcels


def with_ids(batch: MessageBatch, prefix: bytes, first: int) -> MessageBatch:
    """The same messages with the ids that were generated for them, from number ``first`` on, where they have none of their own."""
    if batch.ids is not None:
        return batch
    count = len(batch)
    numbers = array("Q", range(first, first + count))
    numbers.byteswap()
    ids = array("Q", prefix) * (count * _PER_ID)
    ids[1::_PER_ID] = numbers
    return MessageBatch(batch.payloads, memoryview(ids).cast("B"), batch.keys, batch.headers)


def waits_for_its_turn(core: QueueCore, below: int) -> bool:
    """Whether there is more to take out, now or in a moment: the queue may be judging what it holds, or drop what has expired."""
    return core.judging is not None or (core.ready.is_before(below) and not _held_up(core))


def _held_up(core: QueueCore) -> bool:
    span = core.ready.first()
    return span is not None and core.settings.exclusive and core.ready.skips(span)


def settle(core: QueueCore, parcel: Parcel) -> int:
    """Let go of a parcel: what is stored of it is gone, and the rest is receivable again, in its old place. Returns how much is gone."""
    span = core.parcels.pop(parcel, None)
    if span is None:
        return 0
    stored = parcel.stored or 0
    parcel.withdrawn = True
    middle = span.start + stored
    if stored:
        # The other queue's record says it for both; a queue in memory hears it here.
        core.log.apply(MessagesMoved(((span.start, middle),), dead=False))
    if middle < span.stop:
        core.put_back(span.part(middle, span.stop), None)
    return stored


def settle_all(core: QueueCore, parcels: tuple[Parcel, ...], now: float) -> int:
    """The same of several, of which nothing more is to be heard; what came back and the room that is left are for those who wait."""
    moved = sum(settle(core, parcel) for parcel in parcels)
    if core.drops:
        drop_over(core, now)
    # What is expired at the head may have waited for these to leave.
    dispatch(core, now)
    core.grant()
    return moved


def store_parcels(core: QueueCore, command: StoreParcels, now: float) -> None:
    """Store what another queue hands over, in its order, until something does not fit."""
    core.note_time(now, core.wall_us)
    refusal: QueueError | None = None
    for parcel in command.parcels:
        if parcel.withdrawn or parcel.stored is not None:
            break
        try:
            count = room_for(core, parcel)
            _store(core, parcel, count)
        except QueueGoneError:
            raise
        except QueueError as error:
            refusal = error
            break
        if count < len(parcel):
            refusal = NoRoomError(core.name, *_why(core, parcel, count))
            break
    core.effects.append(Tell(command.source, ParcelsStored(command.parcels, refusal)))
    dispatch(core, now)
    if core.drops:
        drop_over(core, now)


def _store(core: QueueCore, parcel: Parcel, count: int) -> None:
    start = parcel.start
    # It may be a part of what the other queue stored, and outlives that here.
    batch = parcel.batch.slice(0, count).compact()
    ttl_us = core.usual_timing[1]
    moved = MessagesMoved(((start, start + count),), dead=False)
    before = core.log.next_sequence
    # In one instant they are here and not there.
    level = core.settings.level_of(parcel.priority)
    added = MessagesAdded(before, batch, core.wall_us, ttl_us=ttl_us, published=parcel.published, priority=level)
    core.commit(added, {parcel.source: moved})
    parcel.stored, parcel.event = count, core.last_event
    core.ready.add(core.log.next_sequence, count)
    if ttl_us is not None:
        core.ttl_below = core.log.next_sequence


def room_for(core: QueueCore, parcel: Parcel) -> int:
    """How many of the first messages of a parcel the queue may store, and more than none.

    Room is what a sender would be granted now. What senders hold already may come at any time, and is counted as if it were here.

    Raises:
        NoRoomError: not even one.
        PausedError: the queue takes nothing now.
    """
    if core.paused is not None:
        raise PausedError(core.name, core.paused)
    batch = parcel.batch
    messages, size = _room(core)
    count = min(len(batch), messages)
    size -= core.batch_overhead + _facts_bytes(parcel)
    if count > 0 and batch.prefix_bytes(count) > size:
        count = bisect_right(range(1, count), size, key=batch.prefix_bytes)
    if count <= 0:
        raise NoRoomError(core.name, *_why(core, parcel, 0))
    return count


def _room(core: QueueCore) -> tuple[int, int]:
    return core.capacity.room(*core.taken())


def _facts_bytes(parcel: Parcel) -> int:
    published = parcel.published
    return FACTS_BYTES + (PUBLISHED_BYTES + sum(len(text.encode()) for text in published) if published else 0)


def _why(core: QueueCore, parcel: Parcel, start: int) -> tuple[str, int, int, int, int, int]:
    """What there is no room for: the unit, what message ``start`` takes, the room, what is stored, what is granted, and the limit."""
    log, capacity, settings = core.log, core.capacity, core.settings
    messages, size = _room(core)
    if messages <= 0:
        granted = 0 if capacity.unlimited else capacity.messages
        return "messages", 1, max(0, messages), log.stored_messages, granted, settings.max_messages or 0
    granted = 0 if capacity.unlimited else capacity.bytes
    one = parcel.batch.slice(start, start + 1).nbytes + core.batch_overhead + _facts_bytes(parcel)
    return "bytes", one, max(0, size), log.stored_bytes, granted, settings.max_bytes or 0
