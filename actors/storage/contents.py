"""What a store holds beside its batches: its queues and the writers' versions, as the recorded events make them; and a start.

The first execution and a start go through the same lines here, so that what is recorded is what is read again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from actors.errors import StorageError
from actors.exchanges.definitions import Definitions
from actors.exchanges.vocabulary import QueueUnbound
from actors.queue.state.leveled_log import LeveledLog
from actors.queue.state.log import QueueLog
from actors.queue.state.staged import CommittedVersions, ended_stages
from actors.queue.vocabulary.events import Event, MessagesAdded, MessagesMoved, MessagesScheduled
from actors.queue.vocabulary.stages import WriterVersion
from actors.storage import codec
from actors.storage.after_repair import LOST, LOST_CHANGES, LOST_DEFINITIONS, LOST_QUEUE, drop_lost, is_marked
from actors.storage.durable_map import EntryPut, Sections
from actors.storage.exchange_codec import decode_changes
from actors.storage.level_streams import LevelStreams
from actors.storage.options import UNAWAITED
from actors.storage.snapshot import Snapshot, StoredQueue, decode_snapshot, encoded
from actors.storage.together import decode_in_turn, decode_together
from journal import ITEMS_PREFIX_BYTES, unpack_items_prefix

if TYPE_CHECKING:
    from actors.exchanges.vocabulary import Event as ExchangeEvent
    from actors.queue.vocabulary.settings import QueueSettings
    from actors.storage.table import JournalEntryTable
    from journal import Files, Journal, Record


class Contents:
    """Every queue of a store by its number, and what they share.

    Args:
        new_table: makes the table of a queue's batches, by its number and its highest level; None where it has no levels.

    Attributes:
        store_id: chosen when the directory was made; 0 before that.
        next_queue: the number that the next queue gets; none is given twice.
        queues: every queue that was declared and not deleted.
        tables: the tables of their batches.
        levels: which streams are levels of them.
        calendars: of which queue's calendar a stream is.
        versions: the last committed version of each writer.
        sections: the map beside the queues.
        definitions: the exchanges and bindings; all that is durable of them, at a start.
    """

    def __init__(self, new_table: Callable[[int, int | None], JournalEntryTable]) -> None:
        self._new_table = new_table
        self.store_id = 0
        self.next_queue = 0
        self.queues: dict[int, StoredQueue] = {}
        self.tables: dict[int, JournalEntryTable] = {}
        self.levels = LevelStreams()
        self.calendars: dict[int, int] = {}
        self.versions = CommittedVersions()
        self.sections = Sections()
        self.definitions = Definitions()

    def restore(self, payload: bytes) -> None:
        """Have what a checkpoint has; raises StorageError for one that cannot be read."""
        snapshot = decode_snapshot(payload, self._table)
        self.store_id = snapshot.store_id
        self.next_queue = snapshot.next_queue
        self.queues.update((queue.number, queue) for queue in snapshot.queues)
        for queue in snapshot.queues:
            for stream in queue.log.calendar.streams if queue.log.calendar is not None else ():
                self._is_of(stream, queue.number)
        self.versions = snapshot.versions
        self.sections = snapshot.sections
        self.definitions = snapshot.definitions

    def snapshot(self) -> Iterator[bytes]:
        """All of it, encoded piece by piece (``snapshot.encoded``)."""
        return encoded(
            Snapshot(self.store_id, self.next_queue, self.in_order(), self.versions, self.sections, self.definitions)
        )

    def in_order(self) -> list[StoredQueue]:
        """The queues by number."""
        return sorted(self.queues.values(), key=lambda queue: queue.number)

    def logs(self) -> dict[int, QueueLog]:
        """The durable part of each queue."""
        return {number: queue.log for number, queue in self.queues.items()}

    def live(self, stream: int, first: int, stop: int) -> int:
        """How many of these messages of a queue are still wanted, as `Journal.checkpoint` asks."""
        queue = self.queues.get(stream)
        if queue is not None and not isinstance(queue.log, LeveledLog):
            return stop - first - queue.log.acknowledged.count_within(first, stop)
        if (number := self.calendars.get(stream)) is not None:
            calendar = self.queues[number].log.calendar
            return 0 if calendar is None else calendar.wanted_within(stream, first, stop)
        number = self.levels.owner(stream)
        log = self.queues[number].log if number in self.queues else None
        return log.levels.wanted_about(stream - number, first, stop) if isinstance(log, LeveledLog) else 0

    def table_of(self, stream: int) -> JournalEntryTable | None:
        """The table that has what a stream has; None of a calendar's, which is in none."""
        return None if stream in self.calendars else self.tables[self.levels.owner(stream)]

    def new_stream(self, number: int) -> int:
        """A stream for the calendar of a queue."""
        stream = self.next_queue
        self._is_of(stream, number)
        return stream

    def of_calendar(self, stream: int, event: MessagesScheduled) -> tuple[int, MessagesScheduled] | None:
        """The queue in whose calendar a recorded batch waits, and the batch as that has it; None of one that waits in none."""
        if not event.scheduled.together:
            return None
        scheduled = event.scheduled.waiting_in(stream)
        if scheduled.place is None:
            raise StorageError(f"what waits in stream {stream} is said to wait elsewhere")
        number = scheduled.place.queue
        if stream not in self.calendars:
            self.next_queue = max(self.next_queue, stream + 1)
            if number in self.queues:
                self.calendars[stream] = number
        return number, replace(event, priority=stream - number, scheduled=scheduled)

    def _is_of(self, stream: int, number: int) -> None:
        self.calendars[stream] = number
        self.next_queue = max(self.next_queue, stream + 1)

    def declared(self, number: int, name: str, settings: QueueSettings | None, arguments: bytes = b"") -> StoredQueue:
        """A queue was declared."""
        levels = None if settings is None else settings.max_priority
        table = self._table(number, levels)
        log = QueueLog(table) if levels is None else LeveledLog(table)
        queue = self.queues[number] = StoredQueue(number, name, settings, log, arguments)
        # A level is a stream, whose number no other queue may get.
        self.next_queue = number + 1 + (levels or 0)
        return queue

    def deleted(self, number: int) -> bool:
        """A queue was deleted; returns whether there was one."""
        if self.queues.pop(number, None) is None:
            return False
        self.tables.pop(number).end()
        self.levels.remove(number)
        for stream in [stream for stream, owner in self.calendars.items() if owner == number]:
            del self.calendars[stream]
        return True

    def change_definitions(self, events: Iterable[ExchangeEvent], deleted_queue: int | None) -> bool:
        """Exchanges and bindings were changed, and with them a queue was deleted, if one was; returns whether that was there."""
        for event in events:
            self.definitions.apply(event)
        return deleted_queue is not None and self.deleted(deleted_queue)

    def unbind_lost_queues(self) -> int:
        """Take away the bindings that lead to no queue, as only damage leaves them; returns how many."""
        names = {queue.name for queue in self.queues.values()}
        ends = {binding.destination for binding in self.definitions.bindings()}
        lost = [end.name for end in ends if not end.is_exchange and end.name not in names]
        before = self.definitions.binding_count()
        for name in lost:
            self.definitions.apply(QueueUnbound(0, name))
        return before - self.definitions.binding_count()

    def takes(self, events: Mapping[int, Event]) -> bool:
        """Whether every queue is there that gets messages by these events."""
        return all(number in self.queues for number, event in events.items() if isinstance(event, MessagesAdded))

    def all_transient(self, numbers: Iterable[int]) -> bool:
        """Whether every one of these queues is there, and is transient."""
        return all((queue := self.queues.get(number)) is not None and queue.transient for number in numbers)

    def apply(self, events: Mapping[int, Event], version: WriterVersion | None, lsn: int) -> None:
        """Let events of several queues have happened in one instant, with the version that is committed by them.

        An event of a queue that is not there is passed over. But messages leave for no queue that is not there. With `UNAWAITED` for a
        number nothing waits for them but what waits for something before.
        """
        if version is not None and not self.versions.covers(*version):
            self.versions.note(*version, lsn)
        moves = self.takes(events)
        for number, event in events.items():
            queue = self.queues.get(number)
            if queue is not None and (moves or type(event) is not MessagesMoved):
                queue.log.apply(event, queue.log.added_by if lsn == UNAWAITED else lsn)

    def apply_in_turn(self, events: Iterable[tuple[int, Event]], lsn: int) -> None:
        """As `apply`, of events that are no messages, any number of each queue's, in order."""
        for number, event in events:
            queue = self.queues.get(number)
            if queue is not None:
                queue.log.apply(event, queue.log.added_by if lsn == UNAWAITED else lsn)

    def _table(self, number: int, levels: int | None) -> JournalEntryTable:
        table = self.tables[number] = self._new_table(number, levels)
        table.keep_calendar(partial(self.new_stream, number))
        if levels is not None:
            self.levels.add(number, levels)
        return table


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
    replay = Replay(contents)
    for record in journal.replay():
        try:
            replay.apply(record)
        except StorageError as error:
            raise StorageError(f"record {record.lsn} in {directory}: {error}") from error
    for table in contents.tables.values():
        table.replaying = False
    lost = replay.lost
    given_up: list[tuple[int, Event]] = []
    for number, count in sorted(replay.undeclared.items()):
        logger.warning(LOST_QUEUE, count, number)
    if is_marked(files, directory):
        # One whose declaration is lost may have records all the same, and a number is given once.
        contents.next_queue = max(contents.next_queue, journal.last_stream + 1)
        for queue in contents.queues.values():
            count, discarded = drop_lost(journal, queue.number, queue.log)
            lost[queue.number] += count
            if discarded.stages:
                given_up.append((queue.number, discarded))
    for queue in contents.queues.values():
        if lost[queue.number]:
            logger.warning(LOST, lost[queue.number], queue.name)
    if replay.lost_changes:
        logger.warning(LOST_CHANGES, replay.lost_changes)
    unbound = contents.unbind_lost_queues()
    if replay.lost_definitions or unbound:
        logger.warning(LOST_DEFINITIONS, replay.lost_definitions, unbound)
    return given_up


class Replay:
    """Applies records; ``lost`` counts the numbers of each queue that its records leave out, as only damage can.

    So does ``lost_changes`` of the durable map, and ``lost_definitions`` of exchanges and bindings. ``undeclared`` counts what was stored
    in queues that are not there: one that was deleted has no record behind that.
    """

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self.lost: Counter[int] = Counter()
        self.undeclared: Counter[int] = Counter()
        self.lost_changes = 0
        self.lost_definitions = 0

    def apply(self, record: Record) -> None:
        """One record."""
        apply = _APPLY.get(record.kind)
        if apply is not None:
            apply(self, record.payload, record.lsn)
            return
        number, event = codec.decode(record.kind, record.payload)
        queue = self._contents.queues.get(number)
        if queue is not None:
            queue.log.apply(event, record.lsn)

    def _declared(self, payload: memoryview, _lsn: int) -> None:
        contents = self._contents
        number, name, settings, arguments = codec.decode_declared(payload)
        if number in contents.queues:
            queue = contents.queues[number]
            queue.settings = settings
            if settings is not None and settings.deduplication_window is None:
                # As they were forgotten then: a window that came later must not know them.
                queue.log.accepted = None
        elif number >= contents.next_queue:
            contents.declared(number, name, settings, arguments)

    def _deleted(self, payload: memoryview, _lsn: int) -> None:
        self._contents.deleted(codec.decode_number(payload))

    def _committed(self, payload: memoryview, lsn: int) -> None:
        contents = self._contents
        writer, version, winners = codec.decode_transaction(payload)
        if not contents.versions.covers(writer, version):
            ended = ended_stages(contents.logs(), writer, version, winners)
            contents.apply(ended, WriterVersion(writer, version), lsn)

    def _in_turn(self, payload: memoryview, lsn: int) -> None:
        self._contents.apply_in_turn(decode_in_turn(payload), lsn)

    def _created(self, payload: memoryview, _lsn: int) -> None:
        # One that was restored has another in its checkpoint.
        self._contents.store_id = self._contents.store_id or codec.decode_number(payload)

    def _began(self, _payload: memoryview, _lsn: int) -> None:
        """Another leads from here on: what it has in memory only nobody knows."""

    def _put(self, payload: memoryview, lsn: int) -> None:
        self._changed(codec.decode_put(payload), lsn)

    def _changed(self, put: EntryPut, lsn: int) -> None:
        sections = self._contents.sections
        self.lost_changes += max(0, put.number - sections.number - 1)
        sections.apply(put, lsn)

    def _exchanges_changed(self, payload: memoryview, _lsn: int) -> None:
        contents = self._contents
        changes, deleted_queue = decode_changes(payload)
        if changes:
            self.lost_definitions += max(0, changes[0].number - contents.definitions.number - 1)
        contents.change_definitions(changes, deleted_queue)

    def _added(self, payload: memoryview, lsn: int) -> None:
        stream, first, count = unpack_items_prefix(payload)
        stored = payload[ITEMS_PREFIX_BYTES:]
        event, moved = codec.decode_stored(first, count, stored)
        queue = self._contents.queues.get(stream)
        if queue is not None and moved is None and type(event) is MessagesAdded and not event.ids_until_us:
            # Most records are of this kind: messages of one queue, and no more.
            log = queue.log
            if first > log.next_sequence:
                self.lost[stream] += first - log.next_sequence
            self._contents.tables[stream].appended = len(stored)
            log.apply(event, lsn)
            return
        events: dict[int, Event] = {stream: event}
        if moved is not None:
            events[moved[0]] = moved[1]
        self._together(events, None, lsn, {stream: len(stored)})

    def _several(self, payload: memoryview, lsn: int) -> None:
        together = decode_together(payload)
        self._together(together.events, together.version, lsn, together.sizes)
        for put in together.entries:
            self._changed(put, lsn)

    def _together(
        self, recorded: Mapping[int, Event], version: WriterVersion | None, lsn: int, sizes: Mapping[int, int]
    ) -> None:
        # Messages are by the stream that has them, which says their level, or that they wait.
        contents = self._contents
        events = dict(self._of_queue(stream, event) for stream, event in recorded.items())
        for stream, size in sizes.items():
            table = contents.tables.get(contents.levels.owner(stream))
            if table is not None:
                table.appended = size
        moved = any(type(event) is MessagesMoved for event in events.values())
        for number, event in events.items():
            if not isinstance(event, MessagesAdded):
                continue
            if number in contents.queues:
                left_out = event.first - contents.queues[number].log.next_of(event)
                if left_out > 0:
                    self.lost[number] += left_out
            elif not moved:
                # What was moved there stays where it was.
                self.undeclared[number] += len(event.batch)
        contents.apply(events, version, lsn)

    def _of_queue(self, stream: int, event: Event) -> tuple[int, Event]:
        if isinstance(event, MessagesScheduled) and (waiting := self._contents.of_calendar(stream, event)) is not None:
            return waiting
        number = self._contents.levels.owner(stream)
        if number == stream:
            return number, event
        assert isinstance(event, MessagesAdded), "only messages are of a level"
        return number, replace(event, priority=stream - number)


_APPLY: dict[int, Callable[[Replay, memoryview, int], None]] = {
    codec.ADDED: Replay._added,
    codec.QUEUE_DECLARED: Replay._declared,
    codec.QUEUE_DELETED: Replay._deleted,
    codec.TRANSACTION_COMMITTED: Replay._committed,
    codec.STORE_CREATED: Replay._created,
    codec.EPOCH_BEGAN: Replay._began,
    codec.TOGETHER: Replay._several,
    codec.IN_TURN: Replay._in_turn,
    codec.ENTRY_PUT: Replay._put,
    codec.EXCHANGES_CHANGED: Replay._exchanges_changed,
}
"""What a record does, by its kind; those of any other kind are an event of one queue."""
