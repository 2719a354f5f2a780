"""The state of every queue as a checkpoint's payload: what recovery begins with instead of the log's beginning.

A msgpack map ``{"version": 2, "store": id, "next_queue": number, "queues": [queue, ...], "writers": [[writer, version], ...]}``, with
``"map": [number of changes, [[section, key, value], ...]]`` behind it in version 3, and in version 4 ``"exchanges"`` too
(actors/storage/exchange_codec.py). Of a queue it has number, name, settings (nil for the
broker's) and everything that ``QueueLog`` has but its batches, which are in the journal.
Sets of ranges are the bytes of little-endian i64 pairs: a queue that was acknowledged in odd places has many.

A queue's ``temporary``, ``deleted``, ``total_moved`` and ``total_dropped``, and the last item of a ledger, came later than the rest, and
may be missing.
Version 3 is written once the durable map was used, and version 4 once there was a durable exchange or binding, so that a program that
knows of none refuses the directory, and no other.
Version 5 is written while a queue has a stage that is written through an exchange: that has the stage's two numbers as its last item.
Version 6 is written while the map has schedules, which an older program would keep, and never carry out.
Version 7 is written while a queue has levels, with schedules or without. Of such a one ``acknowledged`` is empty, and ``levels`` has of
each level number, messages stored, and ranges that are acknowledged in it.
Version 8 is written while there is an exchange at which messages wait, or a queue remembers ids of messages, with all of these or without.
Of such a queue ``ids`` has pieces of what ``AcceptedIds.picture`` gives, and ``staged_ids`` has of each stage
with ids its place among the stages, the numbers of the messages, and their ids' digests.
It is written too while a queue has a calendar, with levels or without: ``calendar`` has of each of its streams number, width and index
of the slot, next position, messages, bytes and when the first was due, and ranges of positions that have left.
Version 1 knew nothing of transactions: it had no ``writers``, and no ``stages`` and ``total_discarded`` in a queue.
"""

from __future__ import annotations

import struct
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgpack

from actors.errors import StorageError
from actors.exchanges.definitions import Definitions
from actors.exchanges.delayed import is_delayed
from actors.queue.state.accepted_ids import DIGEST_BYTES, AcceptedIds
from actors.queue.state.calendar import Calendar
from actors.queue.state.leveled_log import LeveledLog
from actors.queue.state.log import QueueLog
from actors.queue.state.stage import Stage
from actors.queue.state.staged import CommittedVersions
from actors.queue.state.subscriptions import Ledger
from actors.queue.structures.ranges import RangeSet
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey, StageNumbers
from actors.scheduling.schedule import SECTION as SCHEDULES
from actors.storage.durable_map import Sections
from actors.storage.exchange_codec import decoded_definitions, encoded_definitions, unpack
from actors.storage.settings_codec import arguments_from, settings_as_stored, settings_from

if TYPE_CHECKING:
    from actors.queue.state.entries import EntryTable
    from actors.queue.structures.ranges import FrozenRanges

VERSION = 2
MAP_VERSION = 3
"""Of a checkpoint that has the durable map."""
EXCHANGES_VERSION = 4
"""Of one that has exchanges and bindings, with the map or without."""
NUMBERS_VERSION = 5
"""Of one that has a stage which is written through an exchange, with all of these or without."""
SCHEDULES_VERSION = 6
"""Of one whose map has schedules, with all of these or without."""
LEVELS_VERSION = 7
"""Of one that has a queue with levels, with all of these or without."""
DELAYED_VERSION = CALENDAR_VERSION = IDS_VERSION = LAST_VERSION = 8
"""Of one that has an exchange at which messages wait, a queue with a calendar, or one that remembers ids, with all of these or without."""
READABLE = frozenset(range(1, LAST_VERSION + 1))
"""Versions that this program can begin with."""

COUNTERS = (
    "next_sequence",
    "stored_messages",
    "stored_batches",
    "stored_bytes",
    "reserved_messages",
    "total_in",
    "total_acknowledged",
    "total_purged",
    "total_expired",
    "total_dead_lettered",
)
"""The plain numbers of a ``QueueLog``."""


ROWS = 512
"""Rows of a table in one piece."""
MAP_PIECE_BYTES = 256 * 1024
"""Bytes of values of the durable map in one piece, and one value more."""
_BIN = struct.Struct(">BI")
_BIN_32 = 0xC6
"""msgpack's mark of bytes with a length of 32 bits, which its Packer writes together with the bytes only."""
_PAIR_BYTES = 16


@dataclass(slots=True)
class StoredQueue:
    """A queue as storage knows it; ``settings`` is None where it has the broker's, and ``arguments`` are what it was declared with."""

    number: int
    name: str
    settings: QueueSettings | None
    log: QueueLog
    arguments: bytes = b""

    @property
    def transient(self) -> bool:
        """Whether nothing waits for its events, and a start forgets it."""
        return self.settings is not None and not self.settings.durable


@dataclass(slots=True)
class Snapshot:
    """Everything a store knows beside its batches."""

    store_id: int
    next_queue: int
    queues: list[StoredQueue]
    versions: CommittedVersions
    sections: Sections = field(default_factory=Sections)
    definitions: Definitions = field(default_factory=Definitions)


def encoded(snapshot: Snapshot) -> Iterator[bytes]:
    """The payload of a checkpoint, piece by piece; none takes more than a millisecond or so to make.

    What is to be the same in all of it is taken when the iteration begins: the queues that there are, the next queue's number, the
    writers' versions. Each queue is taken as it is when its turn comes, all of it in one instant, whatever happens to it while its
    pieces are made. A log that sees an event again stays as it is, so a start that replays from the beginning on finds one state.
    """
    packer = msgpack.Packer()
    pack = packer.pack
    queues = list(snapshot.queues)
    # Once they were used they stay: their changes are counted on, whatever is left of them.
    mapped, exchanged = snapshot.sections.number > 0, snapshot.definitions.number > 0
    version = EXCHANGES_VERSION if exchanged else MAP_VERSION if mapped else VERSION
    if any(stage.numbers is not None for queue in queues for stage in queue.log.stages.values()):
        # One that is begun while the pieces are made is in the log behind them too.
        version = NUMBERS_VERSION
    if snapshot.sections.of(SCHEDULES):
        version = SCHEDULES_VERSION
    if any(isinstance(queue.log, LeveledLog) for queue in queues):
        version = LEVELS_VERSION
    if any(queue.log.accepted is not None or queue.log.staged_ids for queue in queues):
        version = IDS_VERSION
    if any(queue.log.calendar is not None for queue in queues):
        version = CALENDAR_VERSION
    if exchanged and any(map(is_delayed, snapshot.definitions.exchanges.values())):
        version = DELAYED_VERSION
    head = _map(
        packer,
        ("version", pack(version)),
        ("store", pack(snapshot.store_id)),
        ("next_queue", pack(snapshot.next_queue)),
        rest=2 + mapped + exchanged,
    )
    writers = pack("writers") + pack(list(snapshot.versions))
    yield head + pack("queues") + _array_header(packer, len(queues))
    for queue in queues:
        yield from _queue(packer, queue)
    yield writers
    if mapped:
        yield from _entries(packer, snapshot.sections)
    if exchanged:
        yield pack("exchanges")
        yield from encoded_definitions(snapshot.definitions.snapshot())


def decode_snapshot(payload: bytes, table: Callable[[int, int | None], EntryTable]) -> Snapshot:
    """The reverse; ``table`` gives a queue's batches by its number and its highest level.

    Raises:
        StorageError: it is of a newer version, or no snapshot.
    """
    try:
        fields = unpack(payload)
        if fields["version"] not in READABLE:
            raise StorageError(
                f"a checkpoint of version {fields['version']}; this program knows version {LAST_VERSION}"
            )
        queues = [_stored(queue, table) for queue in fields["queues"]]
        versions = CommittedVersions((writer, version) for writer, version in fields.get("writers", ()))
        sections = Sections()
        if "map" in fields:
            number, entries = fields["map"]
            sections.restore(number, ((section, key, value) for section, key, value in entries))
        definitions = Definitions()
        if "exchanges" in fields:
            definitions.restore(decoded_definitions(fields["exchanges"]))
        return Snapshot(fields["store"], fields["next_queue"], queues, versions, sections, definitions)
    except (ValueError, TypeError, KeyError, ArithmeticError, msgpack.UnpackException) as error:
        raise StorageError(f"the checkpoint cannot be decoded: {error!r}") from error


def _queue(packer: msgpack.Packer, queue: StoredQueue) -> Iterator[bytes]:
    """A queue, whose every part is taken before the first piece is given: by copies that cost little, or pictures."""
    pack = packer.pack
    log = queue.log
    leveled = isinstance(log, LeveledLog)
    acknowledged = () if isinstance(log, LeveledLog) else log.acknowledged.frozen()
    levels = [
        (number, level.stored, level.acknowledged.frozen())
        for number, level in (log.levels.by_number.items() if isinstance(log, LeveledLog) else ())
    ]
    producers, temporary = list(log.producers.items()), list(log.temporary.items())
    returns = log.returns.frozen()
    delayed, retries = log.delayed.copy(), log.retries.rows()
    calendar = None if log.calendar is None else log.calendar.rows()
    ledgers = [
        (ledger.facts(), ledger.all_segments(), ledger.opened_us, ledger.left_us) for ledger in log.ledgers.values()
    ]
    stages = [
        (list(key), stage.ranges.frozen(), stage.batches, stage.bytes, stage.delayed.copy(), stage.numbers)
        for key, stage in log.stages.items()
    ]
    ids = [] if log.accepted is None else log.accepted.picture()
    staged_ids = [(at, stage.ids.copy()) for at, stage in enumerate(log.stages.values()) if stage.ids]
    yield _map(
        packer,
        ("number", pack(queue.number)),
        ("name", pack(queue.name)),
        ("settings", pack(None if queue.settings is None else settings_as_stored(queue.settings, queue.arguments))),
        ("counters", pack([getattr(log, name) for name in COUNTERS])),
        ("total_discarded", pack(log.total_discarded)),
        ("total_moved", pack(log.total_moved)),
        ("total_dropped", pack(log.total_dropped)),
        ("deleted", pack([log.deleted_epoch, log.deleted_position])),
        rest=7 + bool(retries) + leveled + bool(ids) + bool(staged_ids) + (calendar is not None),
    )
    yield from _ranges(packer, "acknowledged", acknowledged)
    if leveled:
        yield pack("levels") + _array_header(packer, len(levels))
        for number, stored, ranges in levels:
            yield _array_header(packer, 3) + pack(number) + pack(stored)
            yield from _bin(ranges)
    yield from _calendar(packer, calendar)
    yield from _rows(packer, "producers", producers)
    yield from _rows(packer, "temporary", temporary)
    yield pack("returns") + _array_header(packer, sum(_count(ranges) for _, ranges in returns))
    for deliveries, ranges in returns:
        for starts, stops in ranges:
            yield b"".join(pack((start, stop, deliveries)) for start, stop in zip(starts, stops, strict=True))
    yield from _rows(packer, "delayed", _delayed(delayed))
    if retries:
        # A program from before that passes it over, and has them tried again at once.
        yield from _rows(packer, "retries", retries)
    yield pack("ledgers") + _array_header(packer, len(ledgers))
    for facts, segments, opened_us, left_us in ledgers:
        yield _array_header(packer, len(facts) + 3) + b"".join(map(pack, facts)) + _array_header(packer, len(segments))
        for at in range(0, len(segments), ROWS):
            yield b"".join(pack(segment[1:]) for segment in segments[at : at + ROWS])
        yield pack(opened_us) + pack(left_us)
    yield pack("stages") + _array_header(packer, len(stages))
    for key, ranges, batches, size, held, numbers in stages:
        yield _array_header(packer, len(key) + 4 + (numbers is not None)) + b"".join(map(pack, key))
        yield from _bin(ranges)
        yield pack(batches) + pack(size) + pack(_delayed(held)) + (b"" if numbers is None else pack(numbers))
    if ids:
        yield pack("ids") + _array_header(packer, len(ids))
        for piece in ids:
            yield pack(piece.stored())
    if staged_ids:
        yield pack("staged_ids") + _array_header(packer, len(staged_ids))
        for at, found in staged_ids:
            yield pack((at, array("q", found).tobytes(), b"".join(found.values())))


def _calendar(packer: msgpack.Packer, calendar: list[tuple[tuple[int, ...], FrozenRanges]] | None) -> Iterator[bytes]:
    """The streams of a queue's calendar, where it has one."""
    pack = packer.pack
    if calendar is not None:
        yield pack("calendar") + _array_header(packer, len(calendar))
        for slot, ranges in calendar:
            yield _array_header(packer, 2) + pack(slot)
            yield from _bin(ranges)


def _entries(packer: msgpack.Packer, sections: Sections) -> Iterator[bytes]:
    """The durable map, all of it as it is when its turn comes."""
    pack = packer.pack
    number, there = sections.number, list(sections)
    count = sum(len(entries) for _, entries in there)
    pieces = [pack("map") + _array_header(packer, 2) + pack(number) + _array_header(packer, count)]
    size = 0
    for section, entries in there:
        for entry, (key, value) in enumerate(entries.items(), 1):
            pieces.append(pack((section, key, value)))
            size += len(value)
            if size >= MAP_PIECE_BYTES or entry % ROWS == 0:
                yield b"".join(pieces)
                pieces, size = [], 0
    yield b"".join(pieces)


def _stored(fields: dict[str, Any], table: Callable[[int, int | None], EntryTable]) -> StoredQueue:
    settings = None if fields["settings"] is None else settings_from(fields["settings"])
    levels = None if settings is None else settings.max_priority
    batches = table(fields["number"], levels)
    log = QueueLog(batches) if levels is None else LeveledLog(batches)
    for name, value in zip(COUNTERS, fields["counters"], strict=True):
        setattr(log, name, value)
    if isinstance(log, LeveledLog):
        log.levels.restore(
            log.next_sequence, ((level, _unpack_ranges(ranges), stored) for level, stored, ranges in fields["levels"])
        )
    else:
        log.acknowledged = _unpack_ranges(fields["acknowledged"])
    if "calendar" in fields:
        log.calendar = Calendar()
        log.calendar.restore((slot, _unpack_ranges(gone)) for slot, gone in fields["calendar"])
    log.producers = OrderedDict((name, number) for name, number in fields["producers"])
    log.temporary = OrderedDict((name, number) for name, number in fields.get("temporary", ()))
    for start, stop, failures in fields["returns"]:
        log.returns.note(start, stop, failures)
    log.delayed = {first: (stop, due) for first, stop, due in fields["delayed"]}
    for row in fields.get("retries", ()):
        log.retries.note(*row)
    for snapshot in fields["ledgers"]:
        ledger = Ledger.restored(snapshot)
        log.ledgers[ledger.name] = ledger
    stages = {StageKey(*row[:3]): _stored_stage(*row[3:]) for row in fields.get("stages", ())}
    for at, numbers, digests in fields.get("staged_ids", ()):
        list(stages.values())[at].ids = _unpack_ids(numbers, digests)
    for key, stage in stages.items():
        log.restore_stage(key, stage)
    for digests, dues in fields.get("ids", ()):
        log.accepted = AcceptedIds() if log.accepted is None else log.accepted
        log.accepted.restore(digests, dues)
    log.total_discarded = fields.get("total_discarded", 0)
    log.total_moved = fields.get("total_moved", 0)
    log.total_dropped = fields.get("total_dropped", 0)
    log.deleted_epoch, log.deleted_position = fields.get("deleted", (0, 0))
    arguments = b"" if settings is None else arguments_from(fields["settings"])
    return StoredQueue(fields["number"], fields["name"], settings, log, arguments)


def _stored_stage(
    ranges: bytes, batches: int, size: int, delayed: list[list[int]], numbers: list[int] | None = None
) -> Stage:
    stage = Stage()
    stage.ranges = _unpack_ranges(ranges)
    stage.messages = sum(stop - start for start, stop in stage.ranges)
    stage.batches, stage.bytes = batches, size
    stage.delayed = {first: (stop, due) for first, stop, due in delayed}
    stage.numbers = None if numbers is None else StageNumbers(*numbers)
    return stage


def _unpack_ids(numbers: bytes, digests: bytes) -> dict[int, bytes]:
    each = array("q")
    each.frombytes(numbers)
    ids = [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
    return dict(zip(each, ids, strict=True))


def _delayed(delayed: dict[int, tuple[int, int]]) -> list[tuple[int, int, int]]:
    return [(first, stop, due) for first, (stop, due) in delayed.items()]


def _rows(packer: msgpack.Packer, key: str, rows: list[Any]) -> Iterator[bytes]:
    """A key and an array, some of its values at a time."""
    pack = packer.pack
    yield pack(key) + _array_header(packer, len(rows))
    for at in range(0, len(rows), ROWS):
        yield b"".join(map(pack, rows[at : at + ROWS]))


def _ranges(packer: msgpack.Packer, key: str, ranges: FrozenRanges) -> Iterator[bytes]:
    yield packer.pack(key)
    yield from _bin(ranges)


def _count(ranges: FrozenRanges) -> int:
    return sum(len(starts) for starts, _ in ranges)


def _bin(ranges: FrozenRanges) -> Iterator[bytes]:
    """Ranges as bytes of little-endian i64 pairs, some hundred of them at a time."""
    yield _BIN.pack(_BIN_32, _count(ranges) * _PAIR_BYTES)
    for starts, stops in ranges:
        pairs = array("q", bytes(len(starts) * _PAIR_BYTES))
        pairs[::2], pairs[1::2] = array("q", starts), array("q", stops)
        yield pairs.tobytes()


def _map(packer: msgpack.Packer, *items: tuple[str, bytes], rest: int) -> bytes:
    """The beginning of a map, and these of its items; ``rest`` others follow."""
    header: bytes = packer.pack_map_header(len(items) + rest)
    return header + b"".join(packer.pack(key) + value for key, value in items)


def _array_header(packer: msgpack.Packer, count: int) -> bytes:
    header: bytes = packer.pack_array_header(count)
    return header


def _unpack_ranges(packed: bytes) -> RangeSet:
    flat = array("q")
    flat.frombytes(packed)
    return RangeSet.of_disjoint(flat.tolist())
