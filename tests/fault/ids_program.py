"""A program that stores messages with ids, again and again the same few, step by step from a seed, through any number of deaths.

What a start finds of ids must be what the first so many of the records say, and these must be all that was answered: there is never a
message without its id, nor an id without its message. So no id is stored twice within its window, whatever died in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

from actors.batch import Message, MessageBatch
from actors.queue.operations.deduplicating import duplicates_of, judge, judge_staged
from actors.queue.state.accepted_ids import AcceptedIds, digest_of
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.events import (
    Event,
    MessagesAcknowledged,
    MessagesAdded,
    MessagesDeduplicated,
    StagesDiscarded,
)
from actors.queue.vocabulary.settings import QueueSettings
from actors.queue.vocabulary.stages import StageKey, WriterVersion
from actors.storage import Storage
from journal import ManualCommitter
from tests.fault.history import HistoryError
from tests.fault.store_program import StoreProgram

WINDOW_US: Final = 40
IDS: Final = tuple("abcdefgh")
PRODUCER: Final = "p"
QUEUE: Final = QueueSettings(deduplication_window=WINDOW_US / 1_000_000)
LATER: Final = 2**62


@dataclass(slots=True)
class Known:
    """What is known of the queue: by id until when it counts, what is staged, how far the producer is, which versions are committed."""

    ids: dict[str, int] = field(default_factory=dict)
    staged: dict[int, str | None] = field(default_factory=dict)
    next: int = 0
    producer: int = 0
    version: int = 0

    def copy(self) -> Known:
        return Known(dict(self.ids), dict(self.staged), self.next, self.producer, self.version)


class IdsProgram(StoreProgram):
    """The program; ``now`` is its clock, microseconds."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.now = 1_000
        self.messages = self.duplicates = 0
        self._found = Known()
        # What each record has made of it, with the number and whether it was answered.
        self._changes: list[tuple[int, Known]] = []
        self._answered = 0

    # --- what a start finds

    def _recovered(self, storage: Storage) -> None:
        stop = storage._journal.next_lsn
        if self._answered >= stop:
            raise HistoryError(f"record {self._answered} was answered as durable, and the records end before {stop}")
        for lsn, known in self._changes:
            if lsn < stop:
                self._found = known
            else:
                self.lost += 1
        self._changes, self._known = [], self._found.copy()
        self._answered = 0
        if storage.queues:
            self._compare(storage.queues[0].log)

    def _compare(self, log: QueueLog) -> None:
        """Whether a log knows what is known."""
        known, accepted = self._known, log.accepted or AcceptedIds()
        accepted.forget(self.now)
        there = dict(accepted)
        expected = {digest_of(each.encode()): due for each, due in known.ids.items() if due > self.now}
        if there != expected:
            raise HistoryError(f"{len(there)} ids are remembered, and it should be {len(expected)}, each for its time")
        staged = {number: digest for stage in log.stages.values() for number, digest in stage.ids.items()}
        if staged != {number: digest_of(own.encode()) for number, own in known.staged.items() if own is not None}:
            raise HistoryError(f"the ids of what is staged are others: {staged}")
        if log.next_sequence != known.next or (log.last_number(PRODUCER) or 0) != known.producer:
            raise HistoryError(f"next {log.next_sequence}, producer {log.last_number(PRODUCER)}: it should be {known}")

    def _started(self, storage: Storage) -> None:
        if not storage.queues:
            storage.declare("q", QUEUE)
        (self._queue,) = storage.queues
        log = self._queue.log
        log.accepted = log.accepted or AcceptedIds()
        log.accepted.window_us, log.accepted.limit = WINDOW_US, LATER
        self._storage = storage

    def _closed(self, storage: Storage) -> None:
        self._answered = storage._journal.next_lsn - 1

    # --- what it does

    def _step(self, storage: Storage, committer: ManualCommitter) -> None:
        self.now += self.random.choice((0, 1, 3, 10))
        draw = self.random.random()
        if draw < 0.5:
            self._publish()
        elif draw < 0.56:
            self._stage()
        elif draw < 0.6:
            self._commit()
        elif draw < 0.62:
            self._discard()
        elif draw < 0.7:
            self._acknowledge()
        elif draw < 0.9:
            committer.run()
            storage._advance()
            self._answered = max(self._answered, storage.durable)
        elif draw < 0.95:
            storage._checkpoints.make()
        if storage._checkpoints._slices is not None and self.random.random() < 0.7:
            storage._checkpoints._advance(whole=self.random.random() < 0.2)

    def _batch(self) -> tuple[MessageBatch, list[str | None]]:
        own = [self.random.choice((None, *IDS)) for _ in range(self.random.choice((1, 1, 2, 5)))]
        self.messages += len(own)
        payloads = [b"%d" % (self.messages + at) * self.random.choice((1, 20)) for at in range(len(own))]
        messages = [Message(payload, deduplication_id=each) for payload, each in zip(payloads, own, strict=True)]
        return MessageBatch.from_messages(messages), own

    def _record(self, event: Event, known: Known) -> None:
        lsn = self._storage.record(self._queue.number, event)
        self._queue.log.apply(event, lsn)
        self._changes.append((lsn, known))
        self._known = known

    def _publish(self) -> None:
        batch, own = self._batch()
        log, known = self._queue.log, self._known.copy()
        assert log.accepted is not None, "it was begun so"
        judged = judge(log.accepted, batch, self.now)
        new = self._new(known, own)
        kept = 0 if judged.batch is None else judged.batch.count
        if kept != new:
            raise HistoryError(f"{kept} messages are stored, and {new} have an id that is new, or none")
        self.duplicates += len(own) - new
        known.producer += len(own)
        known.next += new
        producers = ((PRODUCER, known.producer),)
        if judged.batch is None:
            self._record(MessagesDeduplicated(producers), known)
        else:
            first, until = log.next_sequence, judged.until_us
            self._record(MessagesAdded(first, judged.batch, self.now, producers, ids_until_us=until), known)

    def _new(self, known: Known, own: list[str | None]) -> int:
        """How many messages are new; their ids count from now on."""
        new = 0
        for each in own:
            if each is not None and known.ids.get(each, 0) > self.now:
                continue
            new += 1
            if each is not None:
                known.ids[each] = self.now + WINDOW_US
        return new

    def _stage(self) -> None:
        if self._known.staged:
            return
        batch, own = self._batch()
        log, known = self._queue.log, self._known.copy()
        assert log.accepted is not None, "it was begun so"
        log.accepted.forget(self.now)
        until = judge_staged(log.accepted, batch).until_us
        known.staged = dict(enumerate(own, known.next))
        known.next += len(own)
        key = StageKey("w", known.version, "s")
        self._record(MessagesAdded(log.next_sequence, batch, self.now, stage=key, ids_until_us=until), known)

    def _commit(self) -> None:
        if not self._known.staged:
            return
        known = self._known.copy()
        self._new(known, [own for _, own in sorted(known.staged.items())])
        known.staged = {}
        version = WriterVersion("w", known.version)
        known.version += 1
        judge = partial(duplicates_of, wall_us=self.now)
        lsn, _ = self._storage.commit(version, {self._queue.number: ["s"]}, judge)
        self._changes.append((lsn, known))
        self._known = known

    def _discard(self) -> None:
        if not self._known.staged:
            return
        known = self._known.copy()
        known.staged = {}
        known.version += 1
        log = self._queue.log
        self._record(StagesDiscarded(tuple(log.stages), log.next_sequence), known)

    def _acknowledge(self) -> None:
        """What is consumed leaves its id; nothing waits for the record of that."""
        log = self._queue.log
        for start, stop in log.stored()[:1]:
            event = MessagesAcknowledged(((start, min(stop, start + 4)),))
            self._storage.record(self._queue.number, event)
            log.apply(event)
