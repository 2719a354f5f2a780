"""Events of several queues in one record: which shape says them, and what a record says when it is read again.

One record has one number and one checksum, so a crash leaves all of it or none. Three shapes say it. A transaction's commit and a dead
letter's way have kinds of their own, as ever, so that a directory is what older programs write and read. Whatever those cannot say is
one record of the kind TOGETHER. So is what changes the durable map in the same instant. A single event is no matter of this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgpack

from actors.errors import StorageError, TooMuchTogetherError
from actors.queue.vocabulary.events import Event, MessagesAdded, MessagesMoved, StagesEnded
from actors.queue.vocabulary.stages import WriterVersion
from actors.storage import codec
from actors.storage.options import MAX_TOGETHER_BYTES, MAX_TOGETHER_QUEUES
from journal import FormatError, Held, unpack_several

if TYPE_CHECKING:
    from actors.storage.codec import Part
    from actors.storage.durable_map import EntryPut
    from actors.storage.table import JournalEntryTable
    from journal import Journal


class Encoded(NamedTuple):
    """Events of several queues as a record.

    Attributes:
        kind: the record's.
        held: which messages it holds, by queue number, each in one of the parts.
        parts: what is stored of these messages.
        other: the rest of it.
        newer: whether it says what only programs know that know exchanges.
    """

    kind: int
    held: list[Held]
    parts: list[list[Part]]
    other: bytes
    newer: bool = False

    def size_of(self, part: int) -> int:
        """The bytes of one of its parts."""
        return sum(memoryview(buffer).nbytes for buffer in self.parts[part])

    def append_to(self, journal: Journal, *, lazy: bool = False) -> int:
        """Append the record; returns its number."""
        if self.kind == codec.ADDED:
            ((stream, first, items, part),) = self.held
            return journal.append_items(self.kind, stream, first, items, self.parts[part], newer=self.newer, lazy=lazy)
        if self.kind == codec.TOGETHER:
            return journal.append_several(self.kind, self.held, self.parts, self.other, lazy=lazy)
        return journal.append(self.kind, [self.other], lazy=lazy)


def tell_tables(encoded: Encoded, table_of: Callable[[int], JournalEntryTable | None], journal: Journal) -> None:
    """Have the queues' tables, each found by its stream, know what was appended for them, before their logs have it.

    What waits in a calendar is in no table.
    """
    holders: dict[int, list[tuple[int, int]]] = {}
    for stream, first, _, part in encoded.held:
        holders.setdefault(part, []).append((stream, first))
    for part, held in holders.items():
        size = encoded.size_of(part)
        place = journal.place(*held[0]) if len(held) > 1 else None
        alike = sorted(stream for stream, _ in held)
        for stream in alike:
            table = table_of(stream)
            if table is not None:
                table.appended = size
                table.shared = None if place is None else (place, alike)


def encode_one(number: int, event: Event) -> Encoded:
    """An event of one queue, by its number, as the record that says it; raises RecordTooLargeError as `encode_all`."""
    if isinstance(event, MessagesAdded):
        parts = codec.encode_added(event)
        return Encoded(
            codec.ADDED,
            [Held(number + event.priority, event.first, len(event.batch), 0)],
            [parts],
            b"",
            codec.is_newer(event),
        )
    kind, payload = codec.encode(number, event)
    return Encoded(kind, [], [], payload)


def encode_commit(ended: Mapping[int, StagesEnded], version: WriterVersion) -> Encoded:
    """What a commit does (``ended_stages``), by the queues' numbers: its own kind says the winners, and all else follows from them.

    Where ids count of what is published, what is a duplicate does not: it is said as any other events are.
    """
    if any(event.ids_until_us for event in ended.values()):
        return encode_all(ended, version)
    winners = {number: [key.name for key in event.published] for number, event in ended.items() if event.published}
    return Encoded(codec.TRANSACTION_COMMITTED, [], [], codec.encode_transaction(*version, winners))


def encode_all(events: Mapping[int, Event], version: WriterVersion | None) -> Encoded:
    """Events of several queues, by their numbers, as one record.

    Raises:
        RecordTooLargeError: the facts of a batch of messages fit no record.
        TooMuchTogetherError: more queues or bytes than one record may hold.
    """
    if version is None and len(events) == 2:
        (number, added), (origin, moved) = sorted(events.items(), key=lambda item: type(item[1]) is MessagesMoved)
        if isinstance(added, MessagesAdded) and isinstance(moved, MessagesMoved):
            parts = codec.encode_added(added, origin, moved)
            held = [Held(number + added.priority, added.first, len(added.batch), 0)]
            return Encoded(codec.ADDED, held, [parts], b"", codec.is_newer(added))
    return _together(events, version)


def encode_with_entries(events: Mapping[int, Event], entries: Sequence[EntryPut]) -> Encoded:
    """Events of queues, by their numbers, and changes of the durable map beside them, as one record; errors as of `encode_all`."""
    return _together(events, None, entries)


class Together(NamedTuple):
    """What a record of the kind TOGETHER says.

    Attributes:
        events: messages by the number of their stream, the others by that of their queue: ``LevelStreams`` says whose level a stream is.
        version: whose version is committed by it; None for none.
        sizes: bytes of what is stored of the messages of each stream.
        entries: what changes in the durable map.
    """

    events: dict[int, Event]
    version: WriterVersion | None
    sizes: dict[int, int]
    entries: tuple[EntryPut, ...] = ()


def decode_together(payload: memoryview) -> Together:
    """What such a record says; raises StorageError."""
    try:
        parts, other = unpack_several(payload)
        writer_version, packed = msgpack.unpackb(other)
        version = None if writer_version is None else WriterVersion(*writer_version)
        events: dict[int, Event] = {}
        for number, first, items, part in parts:
            events[number] = codec.decode_added(first, items, part)
        entries: list[EntryPut] = []
        for kind, event in packed:
            if kind == codec.ENTRY_PUT:
                entries.append(codec.decode_put(memoryview(event)))
                continue
            number, decoded = codec.decode(kind, memoryview(event))
            events[number] = decoded
    except (ValueError, TypeError, FormatError, msgpack.UnpackException) as error:
        raise StorageError(f"a record of several queues cannot be decoded: {error}") from error
    return Together(events, version, {part.stream: len(part.payload) for part in parts}, tuple(entries))


def encode_in_turn(events: Sequence[tuple[int, Event]]) -> Encoded:
    """Events of queues, by the queues' numbers, in order and any number of each, none of them messages, as one record.

    Raises:
        TooMuchTogetherError: more bytes than one record may hold.
    """
    other: bytes = msgpack.packb([codec.encode(number, event) for number, event in events])
    if len(other) > MAX_TOGETHER_BYTES:
        raise TooMuchTogetherError("bytes", len(other), MAX_TOGETHER_BYTES)
    return Encoded(codec.IN_TURN, [], [], other)


def decode_in_turn(payload: memoryview) -> list[tuple[int, Event]]:
    """The reverse; raises StorageError."""
    try:
        return [codec.decode(kind, memoryview(event)) for kind, event in msgpack.unpackb(payload)]
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise StorageError(f"a record of events in turn cannot be decoded: {error}") from error


def _together(events: Mapping[int, Event], version: WriterVersion | None, entries: Sequence[EntryPut] = ()) -> Encoded:
    if len(events) > MAX_TOGETHER_QUEUES:
        raise TooMuchTogetherError("queues", len(events), MAX_TOGETHER_QUEUES)
    held: list[Held] = []
    parts: list[list[Part]] = []
    known: dict[tuple[bytes, int], int] = {}
    packed: list[tuple[int, bytes]] = []
    for number, event in events.items():
        if not isinstance(event, MessagesAdded):
            packed.append(codec.encode(number, event))
            continue
        encoded = codec.encode_added(event)
        # What several queues get alike is stored once.
        part = known.setdefault((bytes(encoded[0]), id(event.batch)), len(parts))
        if part == len(parts):
            parts.append(encoded)
        held.append(Held(number + event.priority, event.first, len(event.batch), part))
    packed += [(codec.ENTRY_PUT, codec.encode_put(entry)) for entry in entries]
    other: bytes = msgpack.packb([version, packed])
    together = Encoded(codec.TOGETHER, held, parts, other)
    size = len(other) + sum(map(together.size_of, range(len(parts))))
    # What all get alike is read whole by each of them, however large it is.
    if size > MAX_TOGETHER_BYTES and len(parts) > 1:
        raise TooMuchTogetherError("bytes", size, MAX_TOGETHER_BYTES)
    return together
