"""The broker's storage: the journal, the queues recovered from it, and the events that go into it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from actors.errors import DiskBehindError, StorageError
from actors.queue.state.staged import ended_stages
from actors.queue.vocabulary.events import LAZY, Event, MessagesAcknowledged, MessagesAdded
from actors.storage import codec
from actors.storage.after_repair import is_marked, remove_mark, without_record
from actors.storage.checkpoints import Checkpoints
from actors.storage.contents import Contents, recover
from actors.storage.durable_definitions import DurableDefinitions
from actors.storage.durable_map import DurableMap, EntryPut
from actors.storage.entry_cache import EntryCache
from actors.storage.exchange_codec import encode_changes
from actors.storage.failures import keep_in_mind, place_error, storage_error
from actors.storage.gathering import GatheredAcknowledgements
from actors.storage.leveled_table import new_table
from actors.storage.measures import JournalMeasures, figures_of
from actors.storage.options import (
    DEFAULT_CACHE_BYTES,
    MAX_PENDING_BYTES,
    PENDING_HIGH_BYTES,
    PENDING_LOW_BYTES,
    storage_options,
)
from actors.storage.together import encode_all, encode_commit, tell_tables
from actors.storage.with_entries import EventsWithEntries
from journal import Files, Journal, JournalError, JournalOptions, OsFiles

if TYPE_CHECKING:
    from actors.exchanges.vocabulary import Event as ExchangeEvent
    from actors.queue.state.staged import CommittedVersions, Judge
    from actors.queue.vocabulary.events import StagesEnded
    from actors.queue.vocabulary.settings import QueueSettings
    from actors.queue.vocabulary.stages import WriterVersion
    from actors.storage.snapshot import StoredQueue
    from actors.storage.table import JournalEntryTable
    from actors.storage.together import Encoded
    from journal import Committer

STORE_ID_BYTES = 4

logger = logging.getLogger("penstock.storage")


class Storage(DurableMap, DurableDefinitions, EventsWithEntries):
    """One directory's journal, queues and exchanges, and the map beside them. Lives on the broker's loop, but for the journal's committer.

    Open it, take ``queues`` from it, then ``start`` it on the loop.

    Attributes:
        sections: the map as it is.
        durable: every event with this number or a lower one is on the disk.
        failure: why nothing can be stored any more; None while all is well.
        measures: what the journal's syncs and writes were like.
        on_behind: told True when the disk cannot follow, and False when it can again; whoever limits senders sets it.
    """

    def __init__(
        self, journal: Journal, directory: Path, cache_bytes: int, files: Files, committer: Committer | None
    ) -> None:
        self._files = files
        self._committer = committer
        self._journal = journal
        self.directory = directory
        self._cache_bytes = cache_bytes
        self._cache = EntryCache(cache_bytes, journal)
        self._contents = contents = Contents(self._table)
        self._tables = contents.tables
        self._checkpoints = Checkpoints(journal, contents.snapshot, contents.live, self.fail)
        self._gathered = GatheredAcknowledgements(journal, self._checkpoints.schedule, self.fail)
        self._given_up: list[tuple[int, Event]] = []
        self.durable = 0
        self.measures = JournalMeasures()
        self.failure: StorageError | None = None
        self.on_behind: Callable[[bool], None] | None = None
        self._behind = self._told = False
        self._failed: Callable[[StorageError], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters: dict[Callable[[], None], None] = {}
        self._synced: list[asyncio.Future[None]] = []

    @classmethod
    def open(
        cls,
        directory: Path,
        options: JournalOptions | None = None,
        *,
        files: Files | None = None,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        committer: Committer | None = None,
    ) -> Storage:
        """Recover what a directory holds, or make it; blocks for as long as the log's tail takes to read.

        Raises:
            NoStorageError: it is a file.
            StorageError: it is damaged, another broker has it, or it cannot be read or written; the text says which, and what to do.
        """
        what = "opened"
        try:
            files, measures = files or OsFiles(), JournalMeasures()
            journal = Journal.open(directory, measures.told(options or storage_options()), files, logger.warning)
            storage = cls(journal, directory, cache_bytes, files, committer)
            storage.measures = measures
            what = "read"
            storage._given_up = recover(journal, storage._contents, files, directory)
            storage.sections = storage._contents.sections
            storage.definitions = storage._contents.definitions
            storage.durable = journal.durable_lsn - 1
        except (JournalError, OSError) as error:
            unusable = place_error(error, directory) if what == "opened" else None
            raise unusable or storage_error(error, f"the data directory {directory} cannot be {what}") from error
        return storage

    def start(self, failed: Callable[[StorageError], None]) -> Self:
        """Accept events, on the running loop; ``failed`` is told once, on the loop, when that is no longer possible."""
        self._loop = asyncio.get_running_loop()
        self._failed = failed
        self._checkpoints.start(self._loop)
        self._cache.large.start(self._loop)
        self._gathered.start(self._loop)
        self._journal.start(self._on_durable, self._on_failure, self._committer)
        if not self.store_id:
            self._contents.store_id = int.from_bytes(os.urandom(STORE_ID_BYTES), "big") or 1
            self._append(codec.STORE_CREATED, codec.encode_number(self.store_id))
        for number, event in self._given_up:
            self._append(*codec.encode(number, event))
        if is_marked(self._files, self.directory):
            self._checkpoints.make(partial(remove_mark, self._files, self.directory))
        return self

    def close(self) -> None:
        """Make durable what is not, and let the directory go; blocks for as long as a sync takes.

        Raises:
            StorageError: the disk failed at it, and had not before. What was confirmed is durable all the same.
        """
        self._gathered.write()
        self._checkpoints.finish()
        error: Exception | None = None
        try:
            self._journal.close()
            error = self._journal.failure
        except (JournalError, OSError) as failed:
            error = failed
        if error is not None and self.failure is None:
            self.failure = storage_error(error, "the journal could not be closed in good order")
            raise self.failure

    # --- queues

    @property
    def store_id(self) -> int:
        """Chosen when the directory was made: the messages' generated ids begin with it."""
        return self._contents.store_id

    @property
    def epoch(self) -> int:
        """How often the directory has been opened."""
        return self._journal.epoch

    @property
    def versions(self) -> CommittedVersions:
        """The last committed version of each writer; to be looked at only."""
        return self._contents.versions

    @property
    def queues(self) -> list[StoredQueue]:
        """Every queue that was declared and not deleted, by number."""
        return self._contents.in_order()

    def declare(self, name: str, settings: QueueSettings | None, arguments: bytes = b"") -> StoredQueue:
        """A new queue, empty; ``settings`` is None where it has the broker's, whatever they come to be, and then it has no arguments."""
        number = self._contents.next_queue
        self._append(codec.QUEUE_DECLARED, codec.encode_declared(number, name, settings, arguments))
        return self._contents.declared(number, name, settings, arguments)

    def redeclare(self, number: int, settings: QueueSettings | None) -> int:
        """Give a queue other settings; what it holds stays. Returns the event's number."""
        queue = self._contents.queues[number]
        lsn = self._append(codec.QUEUE_DECLARED, codec.encode_declared(number, queue.name, settings, queue.arguments))
        queue.settings = settings
        return lsn

    def delete(self, number: int) -> None:
        """Forget a queue and all that it holds."""
        self.change_definitions((), number)

    def record(self, number: int, event: Event) -> int:
        """Put an event of queue ``number`` into the journal, before the queue applies it; returns its number.

        Raises:
            DiskBehindError: these are messages, and more waits for the disk than may wait. Nothing has happened.
            RecordTooLargeError: these are messages, and their facts fit no record. Nothing has happened.
            StorageError: the journal takes nothing more, and the broker, which has been told, is about to end.
        """
        if number not in self._tables:
            return 0  # it was deleted, and its actor is about to hear of it
        try:
            if type(event) is MessagesAcknowledged:
                self._gathered.add(number, event)
                return 0
            if isinstance(event, MessagesAdded):
                self._check_pending()
                parts, newer, stream = codec.encode_added(event), codec.is_newer(event), number + event.priority
                self._tables[number].appended = len(parts[0]) + event.batch.nbytes
                lsn = self._journal.append_items(codec.ADDED, stream, event.first, len(event.batch), parts, newer=newer)
                self._note_added()
                return lsn
            kind, payload = codec.encode(number, event)
            self._checkpoints.schedule()
            return self._journal.append(kind, [payload], lazy=type(event) in LAZY)
        except JournalError as error:
            raise self._lost(error) from error

    def record_all(self, events: Mapping[int, Event], version: WriterVersion | None = None) -> int:
        """Have events of several queues happen in one instant: one record, whatever comes, and each queue's log has its event at once.

        A queue whose log gets messages by it, or loses some, must act on that before it carries out anything else. An event of a queue that
        was deleted meanwhile changes nothing; where that one was to get messages, nothing happens at all.

        Args:
            events: what happens to each queue, by its number.
            version: the transaction that is committed by it, and noted as such in the same instant.

        Returns:
            the event's number; 0 where nothing has happened, `UNAWAITED` where every queue is transient.

        Raises:
            TooMuchTogetherError: more than ``MAX_TOGETHER_QUEUES``, or ``MAX_TOGETHER_BYTES``. Nothing has happened. Others as `record`.
        """
        contents = self._contents
        if not contents.takes(events) or not (events or version):
            return 0
        if version is None and contents.all_transient(events):
            return self._record_all_unawaited(events)
        if len(events) == 1 and version is None:
            ((number, event),) = events.items()
            lsn = self.record(number, event)
        else:
            lsn = self._record_together(encode_all(events, version))
            if version is not None or not all(isinstance(event, MessagesAdded) for event in events.values()):
                self._checkpoints.schedule()
        contents.apply(events, version, lsn)
        return lsn

    def commit(
        self, version: WriterVersion, winners: Mapping[int, Sequence[str]], judge: Judge | None = None
    ) -> tuple[int, dict[int, StagesEnded]]:
        """Commit a transaction in one instant: as `record_all`, of all that follows from ``winners`` and ``judge`` (`ended_stages`).

        Returns:
            the event's number, and what happened to each queue.
        """
        ended = ended_stages(self._contents.logs(), *version, winners, judge)
        lsn = self._record_together(encode_commit(ended, version))
        self._checkpoints.schedule()
        self._contents.apply(ended, version, lsn)
        return lsn, ended

    def _record_changes(self, events: Sequence[ExchangeEvent], deleted_queue: int | None) -> int:
        if not events:
            assert deleted_queue is not None
            return self._append(codec.QUEUE_DELETED, codec.encode_number(deleted_queue))
        if deleted_queue is None:
            self._check_pending()
        return self._append(codec.EXCHANGES_CHANGED, encode_changes(events, deleted_queue))

    def _apply_changes(self, events: Sequence[ExchangeEvent], deleted_queue: int | None) -> None:
        if self._contents.change_definitions(events, deleted_queue) and deleted_queue is not None:
            self._gathered.forget(deleted_queue)
        self._checkpoints.schedule()

    def _record_put(self, event: EntryPut) -> int:
        self._check_pending()
        lsn = self._append(codec.ENTRY_PUT, codec.encode_put(event))
        self._note_added()
        return lsn

    def _record_together(self, encoded: Encoded, *, lazy: bool = False) -> int:
        if encoded.held:
            self._check_pending()
        try:
            lsn = encoded.append_to(self._journal, lazy=lazy)
        except JournalError as error:
            raise self._lost(error) from error
        if encoded.held:
            tell_tables(encoded, self._contents.table_of, self._journal)
            self._note_added()
        return lsn

    def _check_pending(self) -> None:
        if self._behind and self._journal.pending_bytes > MAX_PENDING_BYTES:
            raise DiskBehindError(self._journal.pending_bytes, MAX_PENDING_BYTES)

    def _note_added(self) -> None:
        """What may be much is on its way to the disk."""
        if not self._behind and self._journal.pending_bytes > PENDING_HIGH_BYTES:
            self._set_behind(True)

    # --- durability

    async def synced(self, number: int | None = None) -> None:
        """Return when the event ``number`` is durable; None for everything that was recorded so far.

        Raises:
            StorageError: it will not be.
        """
        last = self._journal.next_lsn - 1 if number is None else number
        while self.durable < last:
            if self.failure is not None:
                raise self.failure
            changed = asyncio.get_running_loop().create_future()
            self._synced.append(changed)
            await changed

    async def acknowledged(self) -> None:
        """As `synced`, of everything that was acknowledged so far."""
        left = True
        while left:
            if self._gathered:
                self._gathered.write(lazy=False)
            if self.failure is not None:
                raise self.failure  # what was lost on its way there is not among what is waited for
            # Where some is left the journal was full, and has room then. Others gather more meanwhile: who waited for that had no end.
            left = bool(self._gathered)
            await self.synced()

    def begin_alone(self, batches: int) -> bool:
        """Whether what is recorded next is to be made durable by `end_alone`; ``batches`` are about to be recorded. See `AloneCommits`."""
        return self._journal.alone.begin(batches)

    def end_alone(self) -> None:
        """Behind `begin_alone`, if it said so: what was recorded since is durable, unless the disk is busy or has failed."""
        try:
            self._journal.alone.end()
        finally:
            durable = self._journal.durable_lsn - 1
            if durable > self.durable:
                self.durable = durable
                if self._waiters or self._synced or self._behind or self._journal.checkpoint_due():
                    self._told = True
                    assert self._loop is not None, "it was started"
                    self._loop.call_soon(self._advance)

    def when_durable(self, waiter: Callable[[], None]) -> None:
        """Have ``waiter`` called once, on the loop, when ``durable`` has grown."""
        self._waiters[waiter] = None

    def _on_durable(self, _lsn: int) -> None:
        """On the thread that has committed: have the loop look, once for however many commits there are until it does."""
        if not (self._told or self._journal.alone.committing) and self._loop is not None:
            self._told = True
            try:
                self._loop.call_soon_threadsafe(self._advance)
            except RuntimeError:
                logger.debug("a commit after the loop was closed: nobody is left to tell")

    def _advance(self) -> None:
        self._told = False
        self.durable = self._journal.durable_lsn - 1
        self._cache.large.written(self.durable)
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            waiter()
        self._wake_synced()
        if self._behind and self._journal.pending_bytes < PENDING_LOW_BYTES:
            self._set_behind(False)
        if self._journal.checkpoint_due():
            self._checkpoints.make()

    def _set_behind(self, behind: bool) -> None:
        self._behind = behind
        if self.on_behind is not None:
            self.on_behind(behind)

    def _wake_synced(self) -> None:
        waiting, self._synced = self._synced, []
        for changed in waiting:
            if not changed.done():
                changed.set_result(None)

    def _on_failure(self, error: JournalError) -> None:
        """On the thread that has committed."""
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self.fail, storage_error(error))
            except RuntimeError:
                logger.error("the journal failed after the loop was closed: %s", error)

    def fail(self, error: StorageError) -> None:
        """Nothing can be stored, or something cannot be read: the broker has to end."""
        error.told = True
        if self.failure is None:
            self.failure = error
            keep_in_mind(self._files, self.directory, error)
            self._checkpoints.halted = self._gathered.halted = True
            self._waiters.clear()
            self._wake_synced()
            if self._failed is not None:
                self._failed(error)

    def _missing(self, number: int, sequence: int) -> StorageError:
        """Nothing can be right with what is stored: a stored message has no record."""
        error = without_record(self._files, self.directory, self._contents.queues[number].name, sequence)
        self.fail(error)
        return error

    # --- limits

    def set_memory_pressure(self, pressed: bool) -> None:
        """Keep no batch in memory that is not under way, or as many as configured again."""
        self._cache.limit = 0 if pressed else self._cache_bytes

    def statistics(self) -> dict[str, Any]:
        """What ``penstock stats`` shows of it."""
        return {
            "directory": str(self.directory),
            **figures_of(self._journal.statistics(), self._checkpoints.made),
            "free_bytes": self._files.free_bytes(self.directory),
            **self._cache.statistics(),
        }

    # --- inside

    def _table(self, number: int, levels: int | None) -> JournalEntryTable:
        table = new_table(levels, self._journal, number, self._cache, self.fail, partial(self._missing, number))
        table.replaying = self._loop is None
        return table

    def _append(self, kind: int, payload: bytes) -> int:
        try:
            return self._journal.append(kind, [payload])
        except JournalError as error:
            raise self._lost(error) from error

    def _lost(self, error: JournalError) -> StorageError:
        """What the journal refuses could not be undone: say so to the broker too, before a queue stops for it."""
        failure = storage_error(error)
        self.fail(failure)
        return failure
