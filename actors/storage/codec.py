"""Events as journal records, and back.

A record's payload, by its kind:

``ADDED``
    items of the stream with the queue's number, or in a queue with levels with that number and the level's added: u16 header length
    (little-endian), a msgpack array ``[enqueued_us, delay_us, ttl_us | nil, data bytes, has ids, keys bytes | nil, headers bytes | nil,
    [[producer, next number], ...], [origin's queue, [start, stop, ...]] | nil]``, and the batch's body as it is on the wire
    (docs/protocol.md, "The batch"). What is staged has one more item in the array, ``[writer, version, stage]``; through an exchange it
    has the stage's two numbers behind these, which programs from before that refuse. One more, behind that or nil, is ``[[producer,
    next number], ...]`` of temporary producers. And one more, behind these, is ``[exchange, routing key]`` of what was published to an
    exchange: a program from before that refuses the segment. And one more, behind these or nil, is a map of further facts by small
    numbers, of which 2 is ``[start, stop, ...]`` of what is dropped for these messages, 16 until when the ids of these messages count, in
    microseconds since the epoch, and 20 what they have to do with the queue's calendar (actors/storage/calendar_codec.py). The ids are
    among their headers. Whoever finds a number there that it does not know refuses the record.
    Where there is an origin, these are dead letters: that queue's ``MessagesMoved`` of these ranges is in the same record. Where they are
    none, but were moved by somebody, the origin has false as a third item; programs from before that read it as the others.
``TRANSACTION_COMMITTED``
    a msgpack array ``[writer, version, [[queue's number, [stage, ...]], ...]]``: these stages are published, and all others of the
    writer up to this version discarded, in every queue.
``TOGETHER``
    any other events of several queues: what journal/items.py has of several streams. The part of a queue that gets messages is what
    follows its numbers in ADDED, without an origin; the other bytes are a msgpack array ``[[writer, version] | nil, [[kind, payload],
    ...]]``: whose version is committed with it, and the events that are no messages, as the rest of this says (actors/storage/together.py).
    ENTRY_PUT may be among these: programs from before schedules refuse that.
``IN_TURN``
    what a transaction does that settles what receivers held: a msgpack array ``[[kind, payload], ...]`` of events of any queues, in order
    and any number of each, of which none is messages. Programs from before that refuse it (actors/storage/in_turn.py).
``STAGES_ENDED``
    has two items more where ids count of what is published: until when, and ``[start, stop, ...]`` of the duplicates among it.
``ENTRY_PUT``
    a msgpack array ``[number, section, key, value | nil]``: a change of the map beside the queues (actors/storage/durable_map.py).
``EPOCH_BEGAN``
    the number of the epoch: in a cluster's log the first record of each leader, which changes nothing.
``EXCHANGES_CHANGED``
    what happened to exchanges and bindings in one instant (actors/storage/exchange_codec.py).
any other kind
    a msgpack array whose first item is the queue's number and whose others are the event's fields in order; ranges are flat lists
    of numbers. Of RETURNED when that was, and for how long each range waits, are there only where one does: programs from before that
    refuse it.

What is read back has been checked by the journal's checksum, so a record that cannot be decoded is a defect or of a newer version: it
raises StorageError, and nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias, cast

import msgpack

from actors.batch import MessageBatch
from actors.errors import BatchError, RecordTooLargeError, StorageError
from actors.queue.vocabulary.events import (
    CalendarPurged,
    Event,
    LedgerAdvanced,
    LedgerExtended,
    MessagesAcknowledged,
    MessagesAdded,
    MessagesDeduplicated,
    MessagesDropped,
    MessagesExpired,
    MessagesMoved,
    MessagesReturned,
    MessagesScheduled,
    QueuePurged,
    ReservedRange,
    StagesDiscarded,
    StagesEnded,
    SubscriptionDeleted,
    SubscriptionLeft,
    SubscriptionOwned,
    SubscriptionReleased,
)
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey, StageNumbers
from actors.storage.calendar_codec import decode_scheduled, encode_scheduled
from actors.storage.durable_map import EntryPut
from actors.storage.settings_codec import arguments_from, settings_as_stored, settings_from

ADDED = 1
ACKNOWLEDGED = 2
RETURNED = 3
EXPIRED = 4
MOVED = 5
PURGED = 6
OPENED = 7
RESERVED = 8
COMMITTED = 9
RELEASED = 10
STAGES_DISCARDED = 11
SUBSCRIPTION_DELETED = 12
STAGES_ENDED = 13
SUBSCRIPTION_LEFT = 14
DROPPED = 15
DEDUPLICATED = 16
CALENDAR_PURGED = 20
STORE_CREATED = 32
QUEUE_DECLARED = 33
QUEUE_DELETED = 34
TRANSACTION_COMMITTED = 35
TOGETHER = 36
ENTRY_PUT = 37
EXCHANGES_CHANGED = 38
IN_TURN = 39
EPOCH_BEGAN = 40

DROPPED_FACT = 2
"""Among the further facts of a stored batch: what is dropped for it."""
IDS_UNTIL_FACT = 16
"""Likewise: until when the ids of its messages count."""
CALENDAR_FACT = 20
"""Likewise: what it has to do with the queue's calendar."""
MAX_HEADER_BYTES = 2**16 - 1
"""What the header's length can say. The names of those whose batches were joined are what grows in it; ``groups`` bounds them."""

Part: TypeAlias = bytes | memoryview
# It is not typed.
_pack = cast("Callable[[Any], bytes]", msgpack.packb)


def encode_added(event: MessagesAdded, origin: int = 0, moved: MessagesMoved | None = None) -> list[Part]:
    """The payload of a stored batch, behind what the journal adds to say which numbers it holds.

    ``moved`` is what has left the queue number ``origin`` for it in the same instant; None where nothing has.

    Raises:
        RecordTooLargeError: its names do not fit the header.
    """
    batch = event.batch
    _count, *descriptor = batch.descriptor()
    fields: list[Any] = [
        event.enqueued_us,
        event.delay_us,
        event.ttl_us,
        *descriptor,
        event.producers,
        None if moved is None else [origin, *_moved(moved)],
    ]
    if (
        event.stage is not None
        or event.temporary
        or event.published is not None
        or event.dropped
        or event.ids_until_us
        or event.scheduled
    ):
        published = event.published
        further = event.dropped or event.ids_until_us or event.scheduled
        fields.append(event.stage if event.stage is None else (*event.stage, *(event.numbers or ())))
        if event.temporary or published is not None or further:
            fields.append(event.temporary)
        if published is not None or further:
            fields.append(published)
        if further:
            fields.append(_further(event))
    header = _pack(fields)
    if len(header) > MAX_HEADER_BYTES:
        raise RecordTooLargeError(len(header), MAX_HEADER_BYTES)
    return [len(header).to_bytes(2, "little") + header, *batch.buffers()]


def _further(event: MessagesAdded) -> dict[int, Any]:
    facts: dict[int, Any] = {}
    if event.dropped:
        facts[DROPPED_FACT] = _flat(event.dropped)
    if event.ids_until_us:
        facts[IDS_UNTIL_FACT] = event.ids_until_us
    if event.scheduled is not None:
        facts[CALENDAR_FACT] = encode_scheduled(event.scheduled)
    return facts


def is_newer(event: MessagesAdded) -> bool:
    """Whether only programs can read it that know exchanges."""
    return event.published is not None or bool(event.dropped or event.ids_until_us)


def decode_added(first: int, count: int, payload: memoryview) -> MessagesAdded:
    """The stored batch of such a payload; raises StorageError."""
    return decode_stored(first, count, payload)[0]


def decode_stored(
    first: int, count: int, payload: memoryview
) -> tuple[MessagesAdded, tuple[int, MessagesMoved] | None]:
    """The reverse of ``encode_added``: the batch, and what has left another queue for it with that queue's number; raises StorageError."""
    try:
        start = 2 + int.from_bytes(payload[:2], "little")
        enqueued_us, delay_us, ttl_us, data, has_ids, keys, headers, producers, origin, *more = msgpack.unpackb(
            payload[2:start], strict_map_key=False
        )
        batch = MessageBatch.from_body(count, data, has_ids, keys, headers, payload[start:], checked=True)
        facts = _more(*more) if more else {}
        made = MessagesAdded if "scheduled" not in facts else MessagesScheduled
        event = made(first, batch, enqueued_us, _producers(producers), delay_us, ttl_us, **facts)
        return event, None if origin is None else (origin[0], _moved_from(*origin[1:]))
    except (ValueError, TypeError, BatchError, msgpack.UnpackException) as error:
        raise StorageError(
            f"the record of messages {first} to {first + count - 1} cannot be decoded: {error}"
        ) from error


NOTHING_FURTHER: dict[int, Any] = {}


def _more(
    stage: list[Any] | None = None,
    temporary: Sequence[Sequence[Any]] = (),
    published: list[Any] | None = None,
    further: dict[int, Any] = NOTHING_FURTHER,
    *newer: object,
) -> dict[str, Any]:
    """What is behind the other items where there is any, by its names in the event."""
    if newer or not isinstance(further, dict) or not further.keys() <= {DROPPED_FACT, IDS_UNTIL_FACT, CALENDAR_FACT}:
        raise ValueError("it says more than this program knows: this directory was written by a newer version")
    facts: dict[str, Any] = {"temporary": _producers(temporary)}
    if stage is not None:
        facts["stage"] = StageKey(*stage[:3])
        facts["numbers"] = StageNumbers(*stage[3:]) if len(stage) > 3 else None
    if published is not None:
        facts["published"] = Published(*published)
    if further:
        facts["dropped"] = _pairs(further.get(DROPPED_FACT, []))
        facts["ids_until_us"] = int(further.get(IDS_UNTIL_FACT, 0))
        if CALENDAR_FACT in further:
            facts["scheduled"] = decode_scheduled(further[CALENDAR_FACT])
    return facts


def _producers(named: Sequence[Sequence[Any]]) -> tuple[tuple[str, int], ...]:
    return tuple((name, number) for name, number in named)


def encode(queue: int, event: Event) -> tuple[int, bytes]:
    """Kind and payload of an event of queue number ``queue`` that is not MessagesAdded."""
    kind, fields = _ENCODERS[type(event)]
    return kind, _pack([queue, *fields(event)])


def decode(kind: int, payload: memoryview) -> tuple[int, Event]:
    """The reverse: queue number and event.

    Raises:
        StorageError: a kind of a newer version, or fields that are no such event.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise StorageError(f"a record of the unknown kind {kind}: this directory was written by a newer version")
    try:
        queue, *fields = msgpack.unpackb(payload)
        return queue, decoder(*fields)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise StorageError(f"a record of kind {kind} cannot be decoded: {error}") from error


def encode_declared(number: int, name: str, settings: QueueSettings | None, arguments: bytes = b"") -> bytes:
    """The payload of QUEUE_DECLARED; ``settings`` is None for a queue that has the broker's, and no arguments."""
    assert settings is not None or not arguments, "what was declared with arguments has settings of its own"
    return _pack([number, name, None if settings is None else settings_as_stored(settings, arguments)])


def decode_declared(payload: memoryview) -> tuple[int, str, QueueSettings | None, bytes]:
    """The reverse; raises StorageError."""
    try:
        number, name, settings = msgpack.unpackb(payload)
        if settings is None:
            return number, name, None, b""
        return number, name, settings_from(settings), arguments_from(settings)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise StorageError(f"a queue's declaration cannot be decoded: {error}") from error


def encode_number(number: int) -> bytes:
    """The payload of QUEUE_DELETED, STORE_CREATED and EPOCH_BEGAN."""
    return _pack(number)


def decode_number(payload: memoryview) -> int:
    """The reverse; raises StorageError."""
    try:
        return int(msgpack.unpackb(payload))
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise StorageError(f"a record's number cannot be decoded: {error}") from error


def encode_transaction(writer: str, version: int, stages: Mapping[int, Sequence[str]]) -> bytes:
    """The payload of TRANSACTION_COMMITTED; ``stages`` has the names of the published ones by queue number."""
    return _pack([writer, version, [[queue, list(names)] for queue, names in stages.items()]])


def decode_transaction(payload: memoryview) -> tuple[str, int, dict[int, list[str]]]:
    """The reverse; raises StorageError."""
    try:
        writer, version, stages = msgpack.unpackb(payload)
        return writer, version, {queue: list(names) for queue, names in stages}
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise StorageError(f"a transaction's record cannot be decoded: {error}") from error


def encode_put(event: EntryPut) -> bytes:
    """The payload of ENTRY_PUT."""
    return _pack(event)


def decode_put(payload: memoryview) -> EntryPut:
    """The reverse; raises StorageError."""
    try:
        number, section, key, value = msgpack.unpackb(payload)
        return EntryPut(number, section, key, value)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise StorageError(f"a change of the durable map cannot be decoded: {error}") from error


def _flat(ranges: Sequence[Sequence[int]]) -> list[int]:
    return list(chain.from_iterable(ranges))


def _moved(event: MessagesMoved) -> list[Any]:
    return [_flat(event.ranges)] if event.dead else [_flat(event.ranges), False]


def _moved_from(flat: list[int], dead: bool = True) -> MessagesMoved:
    return MessagesMoved(_pairs(flat), bool(dead))


def _pairs(flat: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple(zip(flat[::2], flat[1::2], strict=True))


def _keys(stages: Sequence[Sequence[Any]]) -> tuple[StageKey, ...]:
    return tuple(StageKey(*key) for key in stages)


def _triples(flat: list[int]) -> tuple[tuple[int, int, int], ...]:
    return tuple(zip(flat[::3], flat[1::3], flat[2::3], strict=True))


def _returned(event: MessagesReturned) -> list[Any]:
    return [_flat(event.returns), event.returned_us, event.delays] if event.delays else [_flat(event.returns)]


def _returned_from(flat: list[int], returned_us: int = 0, delays: Sequence[int] = ()) -> MessagesReturned:
    returns = _triples(flat)
    if delays and len(delays) != len(returns):
        raise ValueError(f"{len(returns)} ranges came back, with {len(delays)} delays")
    return MessagesReturned(returns, returned_us, tuple(delays))


def _stages_ended(event: StagesEnded) -> list[Any]:
    fields: list[Any] = [event.published, event.discarded, event.below]
    return [*fields, event.ids_until_us, _flat(event.duplicates)] if event.ids_until_us else fields


def _stages_ended_from(
    published: Sequence[Sequence[Any]],
    discarded: Sequence[Sequence[Any]],
    below: int,
    ids_until_us: int = 0,
    duplicates: list[int] | None = None,
) -> StagesEnded:
    return StagesEnded(_keys(published), _keys(discarded), below, ids_until_us, _pairs(duplicates or []))


def _reserved(subscription: str, position: int, flat: list[int]) -> LedgerExtended:
    quads = zip(flat[::4], flat[1::4], flat[2::4], flat[3::4], strict=True)
    ranges = tuple(ReservedRange(start, stop, count, bool(replayed)) for start, stop, count, replayed in quads)
    return LedgerExtended(subscription, position, ranges)


_ENCODERS: dict[type[Event], tuple[int, Callable[[Any], list[Any]]]] = {
    MessagesAcknowledged: (ACKNOWLEDGED, lambda event: [_flat(event.ranges)]),
    MessagesReturned: (RETURNED, _returned),
    MessagesExpired: (EXPIRED, lambda event: [_flat(event.ranges)]),
    MessagesDropped: (DROPPED, lambda event: [_flat(event.ranges)]),
    MessagesMoved: (MOVED, _moved),
    QueuePurged: (PURGED, lambda event: [_flat(event.ranges)]),
    CalendarPurged: (CALENDAR_PURGED, lambda event: [_flat(event.streams)]),
    SubscriptionOwned: (
        OPENED,
        lambda event: [event.name, event.epoch, event.min_sequence, event.owner_timeout, event.opened_us],
    ),
    LedgerExtended: (RESERVED, lambda event: [event.subscription, event.position, _flat(event.ranges)]),
    LedgerAdvanced: (COMMITTED, lambda event: [event.subscription, event.position]),
    SubscriptionReleased: (RELEASED, lambda event: [event.subscription, event.position]),
    SubscriptionDeleted: (SUBSCRIPTION_DELETED, lambda event: [event.name, event.epoch, event.position]),
    SubscriptionLeft: (SUBSCRIPTION_LEFT, lambda event: [event.name, event.epoch, event.left_us]),
    StagesDiscarded: (STAGES_DISCARDED, lambda event: [event.stages, event.below]),
    StagesEnded: (STAGES_ENDED, _stages_ended),
    MessagesDeduplicated: (DEDUPLICATED, lambda event: [event.producers, event.temporary]),
}

_DECODERS: dict[int, Callable[..., Event]] = {
    ACKNOWLEDGED: lambda flat: MessagesAcknowledged(_pairs(flat)),
    RETURNED: _returned_from,
    EXPIRED: lambda flat: MessagesExpired(_pairs(flat)),
    DROPPED: lambda flat: MessagesDropped(_pairs(flat)),
    MOVED: _moved_from,
    PURGED: lambda flat: QueuePurged(_pairs(flat)),
    CALENDAR_PURGED: lambda flat: CalendarPurged(_pairs(flat)),
    OPENED: SubscriptionOwned,
    RESERVED: _reserved,
    COMMITTED: LedgerAdvanced,
    RELEASED: SubscriptionReleased,
    SUBSCRIPTION_DELETED: SubscriptionDeleted,
    SUBSCRIPTION_LEFT: SubscriptionLeft,
    STAGES_DISCARDED: lambda stages, below: StagesDiscarded(_keys(stages), below),
    STAGES_ENDED: _stages_ended_from,
    DEDUPLICATED: lambda producers, temporary: MessagesDeduplicated(_producers(producers), _producers(temporary)),
}
