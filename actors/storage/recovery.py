"""A start: the newest checkpoint, and every record behind it."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from actors.errors import StorageError
from actors.queue.state.staged import ended_stages
from actors.queue.vocabulary.events import Event, MessagesAdded
from actors.queue.vocabulary.stages import WriterVersion
from actors.storage import codec
from actors.storage.after_repair import LOST, drop_lost, is_marked
from actors.storage.together import decode_together
from journal import ITEMS_PREFIX_BYTES, unpack_items_prefix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from actors.storage.contents import Contents
    from journal import Files, Journal, Record

logger = logging.getLogger("penstock.storage")


def recover(journal: Journal, contents: Contents, files: Files, directory: Path) -> list[tuple[int, Event]]:
    """Have ``contents`` hold what a journal's directory says.

    Returns:
        what has to be recorded before anything else, by queue number, where a repair has lost something.

    Raises:
        StorageError: something cannot be decoded; it says which record.
    """
    if journal.checkpoint_payload is not None:
        contents.restore(journal.checkpoint_payload)
    replay = _Replay(contents)
    for record in journal.replay():
        try:
            replay.apply(record)
        except StorageError as error:
            raise StorageError(f"record {record.lsn} in {directory}: {error}") from error
    for table in contents.tables.values():
        table.replaying = False
    lost = replay.lost
    given_up: list[tuple[int, Event]] = []
    if is_marked(files, directory):
        for queue in contents.queues.values():
            count, discarded = drop_lost(journal, queue.number, queue.log)
            lost[queue.number] += count
            if discarded.stages:
                given_up.append((queue.number, discarded))
    for queue in contents.queues.values():
        if lost[queue.number]:
            logger.warning(LOST, lost[queue.number], queue.name)
    return given_up


class _Replay:
    """Applies records; ``lost`` counts the numbers of each queue that its records leave out, as only damage can."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self.lost: Counter[int] = Counter()

    def apply(self, record: Record) -> None:
        """One record."""
        contents = self._contents
        kind, payload = record.kind, record.payload
        if kind == codec.ADDED:
            self._added(payload, record.lsn)
        elif kind == codec.QUEUE_DECLARED:
            number, name, settings = codec.decode_declared(payload)
            if number in contents.queues:
                contents.queues[number].settings = settings
            elif number >= contents.next_queue:
                contents.declared(number, name, settings)
        elif kind == codec.QUEUE_DELETED:
            contents.deleted(codec.decode_number(payload))
        elif kind == codec.TRANSACTION_COMMITTED:
            writer, version, winners = codec.decode_transaction(payload)
            if not contents.versions.covers(writer, version):
                ended = ended_stages(contents.logs(), writer, version, winners)
                contents.apply(ended, WriterVersion(writer, version), record.lsn)
        elif kind == codec.STORE_CREATED:
            contents.store_id = codec.decode_number(payload)
        elif kind == codec.TOGETHER:
            self._together(*decode_together(payload), record.lsn)
        else:
            number, event = codec.decode(kind, payload)
            queue = contents.queues.get(number)
            if queue is not None:
                queue.log.apply(event, record.lsn)

    def _added(self, payload: memoryview, lsn: int) -> None:
        stream, first, count = unpack_items_prefix(payload)
        if stream in self._contents.queues:
            event, moved = codec.decode_stored(first, count, payload[ITEMS_PREFIX_BYTES:])
            events: dict[int, Event] = {stream: event}
            if moved is not None:
                events[moved[0]] = moved[1]
            self._together(events, None, lsn)

    def _together(self, events: Mapping[int, Event], version: WriterVersion | None, lsn: int) -> None:
        for number, event in events.items():
            if type(event) is MessagesAdded and number in self._contents.queues:
                self.lost[number] += max(0, event.first - self._contents.queues[number].log.next_sequence)
        self._contents.apply(events, version, lsn)
