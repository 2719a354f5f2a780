"""The state of every queue as a checkpoint's payload: what recovery begins with instead of the log's beginning.

A msgpack map ``{"version": 2, "store": id, "next_queue": number, "queues": [queue, ...], "writers": [[writer, version], ...]}``; of a
queue its number, name, settings (nil for the broker's) and everything that ``QueueLog`` has but its batches, which are in the journal.
Sets of ranges are the bytes of little-endian i64 pairs: a queue that was acknowledged in odd places has many.

``temporary`` came later than the rest, and may be missing.
Version 1 knew nothing of transactions: it had no ``writers``, and no ``stages`` and ``total_discarded`` in a queue.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgpack

from actors.errors import StorageError
from actors.queue_state import QueueLog, QueueSettings
from actors.queue_state.events import StageKey
from actors.queue_state.ledger import Ledger
from actors.queue_state.ranges import RangeSet
from actors.queue_state.stage import Stage
from actors.queue_state.transactions import CommittedVersions
from actors.storage.codec import settings_from

if TYPE_CHECKING:
    from actors.queue_state.entry_table import EntryTable

VERSION = 2
READABLE = frozenset({1, VERSION})
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


@dataclass(slots=True)
class StoredQueue:
    """A queue as storage knows it; ``settings`` is None where it has the broker's."""

    number: int
    name: str
    settings: QueueSettings | None
    log: QueueLog


@dataclass(slots=True)
class Snapshot:
    """Everything a store knows beside its batches."""

    store_id: int
    next_queue: int
    queues: list[StoredQueue]
    versions: CommittedVersions


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The payload of a checkpoint."""
    packed: bytes = msgpack.packb(
        {
            "version": VERSION,
            "store": snapshot.store_id,
            "next_queue": snapshot.next_queue,
            "queues": [_queue(queue) for queue in snapshot.queues],
            "writers": list(snapshot.versions),
        }
    )
    return packed


def decode_snapshot(payload: bytes, table: Callable[[int], EntryTable]) -> Snapshot:
    """The reverse; ``table`` gives a queue's batches by its number.

    Raises:
        StorageError: it is of a newer version, or no snapshot.
    """
    try:
        fields = msgpack.unpackb(payload, strict_map_key=False)
        if fields["version"] not in READABLE:
            raise StorageError(f"a checkpoint of version {fields['version']}; this program knows version {VERSION}")
        queues = [_stored(queue, table(queue["number"])) for queue in fields["queues"]]
        versions = CommittedVersions((writer, version) for writer, version in fields.get("writers", ()))
        return Snapshot(fields["store"], fields["next_queue"], queues, versions)
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        raise StorageError(f"the checkpoint cannot be decoded: {error!r}") from error


def _queue(queue: StoredQueue) -> dict[str, Any]:
    log = queue.log
    return {
        "number": queue.number,
        "name": queue.name,
        "settings": None if queue.settings is None else asdict(queue.settings),
        "counters": [getattr(log, name) for name in COUNTERS],
        "acknowledged": _pack_ranges(log.acknowledged),
        "producers": list(log.producers.items()),
        "temporary": list(log.temporary.items()),
        "returns": [list(item) for item in log.returns],
        "delayed": [[first, stop, due] for first, (stop, due) in log.delayed.items()],
        "ledgers": [ledger.snapshot() for ledger in log.ledgers.values()],
        "stages": [[*key, *_stage(stage)] for key, stage in log.stages.items()],
        "total_discarded": log.total_discarded,
        "deleted": [log.deleted_epoch, log.deleted_position],
    }


def _stored(fields: dict[str, Any], table: EntryTable) -> StoredQueue:
    log = QueueLog(table)
    for name, value in zip(COUNTERS, fields["counters"], strict=True):
        setattr(log, name, value)
    log.acknowledged = _unpack_ranges(fields["acknowledged"])
    log.producers = OrderedDict((name, number) for name, number in fields["producers"])
    log.temporary = OrderedDict((name, number) for name, number in fields.get("temporary", ()))
    for start, stop, deliveries in fields["returns"]:
        log.returns.note(start, stop, deliveries)
    log.delayed = {first: (stop, due) for first, stop, due in fields["delayed"]}
    for snapshot in fields["ledgers"]:
        ledger = Ledger.restored(snapshot)
        log.ledgers[ledger.name] = ledger
    for writer, version, name, *facts in fields.get("stages", ()):
        log.restore_stage(StageKey(writer, version, name), _stored_stage(*facts))
    log.total_discarded = fields.get("total_discarded", 0)
    log.deleted_epoch, log.deleted_position = fields.get("deleted", (0, 0))
    settings = fields["settings"]
    return StoredQueue(fields["number"], fields["name"], None if settings is None else settings_from(settings), log)


def _stage(stage: Stage) -> list[Any]:
    delayed = [[first, stop, due] for first, (stop, due) in stage.delayed.items()]
    return [_pack_ranges(stage.ranges), stage.batches, stage.bytes, delayed]


def _stored_stage(ranges: bytes, batches: int, size: int, delayed: list[list[int]]) -> Stage:
    stage = Stage()
    stage.ranges = _unpack_ranges(ranges)
    stage.messages = sum(stop - start for start, stop in stage.ranges)
    stage.batches, stage.bytes = batches, size
    stage.delayed = {first: (stop, due) for first, stop, due in delayed}
    return stage


def _pack_ranges(ranges: Iterable[tuple[int, int]]) -> bytes:
    return array("q", list(chain.from_iterable(ranges))).tobytes()


def _unpack_ranges(packed: bytes) -> RangeSet:
    flat = array("q")
    flat.frombytes(packed)
    return RangeSet.of_disjoint(flat.tolist())
