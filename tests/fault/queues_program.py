"""A program that has one record for several queues, step by step from a seed, through any number of deaths.

It publishes through exchanges of every kind, has dead letters go where they lead, stages and commits transactions over several queues,
some of which settle too, changes exchanges and bindings, and declares and deletes queues, durable ones and transient. Checkpoints are made
in slices between all that; segments are combined and given back.

What a start finds must be what the first so many of the records make of everything, and these must be all that was answered. So what
was answered as durable is in each of its queues, nothing is in some of them only, and definitions are exactly as they were answered. An
acknowledgement alone may be found though its record is not, as a checkpoint may have it. A record is in one place, whoever still wants
it. Transient queues are forgotten by a start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Final

from actors.batch import MessageBatch
from actors.exchanges.errors import ExchangeError
from actors.exchanges.exchanges import Exchanges
from actors.exchanges.vocabulary import Event as ExchangeEvent
from actors.queue.found_queues import found_queues
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.events import (
    Event,
    MessagesAcknowledged,
    MessagesAdded,
    MessagesExpired,
    MessagesMoved,
    MessagesReturned,
    QueuePurged,
    StagesDiscarded,
    StagesEnded,
)
from actors.queue.vocabulary.published import Published
from actors.queue.vocabulary.settings import REJECTED_FAILURES, QueueSettings
from actors.queue.vocabulary.stages import StageKey, StageNumbers, WriterVersion
from actors.storage import Storage
from actors.storage.options import UNAWAITED
from actors.storage.snapshot import StoredQueue
from journal import ManualCommitter
from journal.files import Files
from journal.format import COMPACTED, SEVERAL
from journal.names import parse_segment
from journal.scan import SegmentScan
from tests.fault.disk import SimulatedDisk
from tests.fault.history import HistoryError
from tests.fault.queues_model import (
    Added,
    Fold,
    Model,
    Ranges,
    Stored,
    acknowledged,
    committed,
    compare,
    declared,
    defined,
    discarded,
    readable,
    settled,
    together,
)
from tests.fault.store_program import DATA, Opener, StoreProgram, verify_lives
from tests.fault.workload import Outcome

DURABLE: Final = ("a", "b", "c", "d")
TRANSIENT: Final = ("t", "u")
FORGOTTEN: Final = QueueSettings(durable=False)
KEPT: Final = QueueSettings()
KINDS: Final = ("direct", "fanout", "topic", "headers")
EXCHANGES: Final = (*KINDS, "inner")
ALTERNATE: Final = {"alternate-exchange": "inner"}
KEYS: Final = ("eu.tea", "us.tea", "eu.soup")
PATTERNS: Final = (*KEYS, "eu.*", "#.tea", "#")
WRITERS: Final = ("w", "v")
STAGES: Final = ("one", "two")
LARGEST: Final = 250
MOST_STORED: Final = 120
"""Messages in all queues beyond which it takes more than it publishes."""


@dataclass(eq=False, slots=True)
class Change:
    """Something that was done.

    Attributes:
        fold: what it makes of everything.
        lsn: the number of its record; None while it has none.
        answered: whoever asked for it was told that it is durable.
        taken: of an acknowledgement, the queue and what it takes: a checkpoint may have it before it has a record.
    """

    fold: Fold
    lsn: int | None = None
    answered: bool = False
    taken: tuple[int, Ranges] | None = None

    def __deepcopy__(self, _memo: object) -> Change:
        # What it makes of everything never changes.
        return Change(self.fold, self.lsn, self.answered, self.taken)


class QueuesProgram(StoreProgram):
    """The program.

    Attributes:
        seen: what has happened that a run is meant to see.
    """

    _storage: Storage
    _exchanges: Exchanges

    def __init__(self, seed: int, opener: Opener = Storage.open) -> None:
        super().__init__(seed, opener)
        self.seen: Counter[str] = Counter()
        self._found = Model()
        self._changes: list[Change] = []
        self._records = 0
        self._now = Model()
        self._waiting: list[tuple[int, Change]] = []

    def live(self, files: Files, steps: int) -> Outcome:
        """See ``StoreProgram``."""
        try:
            return super().live(files, steps)
        finally:
            # What belongs to the process.
            self.__dict__.pop("_storage", None)
            self.__dict__.pop("_exchanges", None)
            self._waiting, self._now = [], Model()

    # --- what a start finds

    @property
    def exchanges(self) -> Exchanges:
        """As the directory of exchanges has them, which this stands for."""
        return self._exchanges

    def _recovered(self, storage: Storage) -> None:
        model, stop = self._found.copy(), storage._journal.next_lsn
        unsure: dict[int, set[int]] = {}
        for change in self._changes:
            if change.lsn is not None and change.lsn < stop:
                change.fold(model)
            elif change.answered:
                raise HistoryError(f"record {change.lsn} was answered as durable, and the records end before {stop}")
            elif change.taken is not None:
                number, ranges = change.taken
                unsure.setdefault(number, set()).update(chain.from_iterable(range(*each) for each in ranges))
            else:
                self.lost += 1
        compare(model, unsure, storage)
        self._found, self._changes, self._now = model, [], model.copy()

    def _started(self, storage: Storage) -> None:
        self._storage = storage
        self._exchanges = Exchanges(self._is_durable, definitions=storage.definitions)
        forgotten = sum(queue.transient for queue in storage.queues)
        self.seen["transient queue that was forgotten"] += forgotten
        found_queues(storage, self, {}, lambda _: KEPT)  # type: ignore[arg-type]  # for `queue_deleted` and its exchanges alone
        if left := [queue.name for queue in storage.queues if queue.transient]:
            raise HistoryError(f"transient queues that a start has not forgotten: {left}")
        if forgotten:
            compare(self._now, {}, storage)
        while len(storage.queues) < 3:
            self._declare()
        for name in EXCHANGES:
            if self._exchanges.get(name) is None:
                self._define(self._exchanges.decide.declare(name, name if name in KINDS else "fanout"))

    def _closed(self, storage: Storage) -> None:
        del storage
        for change in self._changes:
            change.answered = True
            if change.taken is not None and change.lsn is None:
                change.lsn = 0  # it was recorded at the end

    # --- what it does

    def _step(self, storage: Storage, committer: ManualCommitter) -> None:
        draw = self.random.random()
        stored = sum(len(queue.wanted) for queue in self._now.queues.values())
        if draw < 0.33:
            if stored < MOST_STORED:
                self._publish()
            else:
                self._acknowledge(20)
        elif draw < 0.39:
            self._bury()
        elif draw < 0.43:
            self._stage()
        elif draw < 0.445:
            self._commit()
        elif draw < 0.45:
            self._settle()
        elif draw < 0.455:
            self._discard()
        elif draw < 0.51:
            self._change_definitions()
        elif draw < 0.54:
            self._change_queues()
        elif draw < 0.64:
            self._acknowledge(6)
        elif draw < 0.66:
            self._drop()
        elif draw < 0.70:
            self._write_acknowledgements()
        elif draw < 0.90:
            committer.run()
            storage._advance()
            self._tell()
        elif draw < 0.94:
            self._look()
        elif draw < 0.97:
            storage._checkpoints.make()
        self._slice()

    def _slice(self) -> None:
        """A slice of the checkpoint that is under way: so much happens between two of them."""
        checkpoints = self._storage._checkpoints
        if checkpoints._slices is not None and self.random.random() < 0.7:
            checkpoints._advance(whole=self.random.random() < 0.2)

    def _tell(self) -> None:
        """What is durable is answered."""
        durable = self._storage.durable
        for answer, change in self._waiting:
            change.answered = change.answered or answer <= durable
        self._waiting = [(answer, change) for answer, change in self._waiting if answer > durable]

    def _carry_out(self, fold: Fold, do: Callable[[], int]) -> None:
        """Something is done that one record says; whoever asked for it waits for the event whose number that gives."""
        change, before = Change(fold), self._storage._journal.next_lsn
        answer = do()
        change.lsn = before if self._storage._journal.next_lsn > before else answer
        fold(self._now)
        self._changes.append(change)
        if answer == UNAWAITED:
            return
        change.answered = answer <= self._storage.durable
        if not change.answered:
            self._waiting.append((answer, change))

    # Messages.

    def _publish(self) -> None:
        payloads = [self._payload() for _ in range(self.random.choice((1, 1, 2, 5)))]
        if self.random.random() < 0.2:
            names: tuple[str, ...] = (self.random.choice([queue.name for queue in self._now.queues.values()]),)
            published = None
        else:
            names, published = self._route()
        if names:
            self._record_all(self._added(names, payloads, published))

    def _bury(self) -> None:
        """Some messages of a queue are dead letters: they go to where an exchange leads, or to another queue."""
        source = self._one_with_messages()
        if source is None:
            return
        first = self.random.choice(sorted(self._now.queues[source].wanted))
        entry = self._logs()[source].table.at(first)
        if entry is None:
            raise HistoryError(f"message {first} of queue {self._now.queues[source].name} is gone")
        stop = first + 1
        while stop < entry.stop and stop in self._now.queues[source].wanted:
            stop += 1
        payloads = [bytes(payload) for payload in entry.part(first, stop).compact().payloads]
        names, published = self._route()
        names = tuple(name for name in names if name != self._now.queues[source].name)
        if not names:
            return
        self.seen["dead letters to several queues"] += len(names) > 1
        added = self._added(names, payloads, published if self.random.random() < 0.8 else None)
        self._record_all(added | {source: MessagesMoved(((first, stop),))})

    def _stage(self) -> None:
        writer = self.random.choice(WRITERS)
        key = StageKey(writer, (self._storage.versions.of(writer) or 0) + 1, self.random.choice(STAGES))
        names, published = self._route()
        payloads = [self._payload() for _ in range(self.random.choice((1, 2)))]
        if names:
            numbers = StageNumbers(self._records + 1, self._records)
            self._record_all(self._added(names, payloads, published, stage=key, numbers=numbers))

    def _commit(self) -> None:
        writer = self.random.choice(WRITERS)
        version = WriterVersion(writer, (self._storage.versions.of(writer) or 0) + 1)
        winners = {
            number: [key.name for key in log.stages if key[:2] == version and self.random.random() < 0.8]
            for number, log in self._logs().items()
        }
        winners = {number: names for number, names in winners.items() if names}
        self.seen["commit over several queues"] += len(winners) > 1
        self._carry_out(
            partial(committed, version=version, winners=winners), lambda: self._storage.commit(version, winners)[0]
        )

    def _settle(self) -> None:
        """A stage is published wherever it is, and queues have messages acknowledged and refused, all of it in one record."""
        keys = sorted({key for log in self._logs().values() for key in log.stages})
        published = self.random.sample(keys, min(len(keys), 1))
        ended: list[tuple[int, Event]] = [
            (number, StagesEnded(tuple(published), (), log.next_sequence))
            for number, log in self._logs().items()
            if any(key in log.stages for key in published)
        ]
        taken: dict[int, Ranges] = {}
        events = list(ended)
        for number in self.random.sample(sorted(self._now.queues), self.random.randint(0, 2)):
            for start, stop in self._logs()[number].stored()[:1]:
                taken[number] = ((start, min(stop, start + self.random.randint(1, 4))),)
                events.append((number, MessagesAcknowledged(taken[number])))
                events.append((number, MessagesReturned(((stop - 1, stop, REJECTED_FAILURES),))))
        if not events:
            return
        self.seen["several events of a queue in one record"] += len(dict(events)) < len(events)
        self.seen["transaction that publishes and settles"] += bool(ended and taken)
        self._carry_out(partial(settled, keys=published, gone=taken), lambda: self._storage.record_in_turn(events))

    def _discard(self) -> None:
        """A stage is given up, in all queues that have some of it."""
        keys = sorted({key for log in self._logs().values() for key in log.stages})
        if keys:
            key = self.random.choice(keys)
            events: dict[int, Event] = {
                number: StagesDiscarded((key,), log.next_sequence)
                for number, log in self._logs().items()
                if key in log.stages
            }
            self._carry_out(partial(discarded, keys=[key]), lambda: self._storage.record_all(events))

    def _drop(self) -> None:
        """Some messages have expired, or were purged, in one queue or in two at once."""
        events: dict[int, Event] = {}
        for number in self.random.sample(sorted(self._now.queues), self.random.randint(1, 2)):
            for start, stop in self._logs()[number].stored()[:1]:
                ranges = ((start, min(stop, start + self.random.randint(1, 4))),)
                events[number] = self.random.choice((MessagesExpired, QueuePurged))(ranges)
        if events:
            self._record_all(events)

    def _acknowledge(self, most: int) -> None:
        """Mostly from the front, as receivers do, sometimes from the middle."""
        number = self._one_with_messages()
        if number is None:
            return
        ranges = self._logs()[number].stored()
        start, stop = ranges[0] if self.random.random() < 0.7 else self.random.choice(ranges)
        taken = ((start, min(stop, start + self.random.randint(1, most))),)
        change = Change(partial(acknowledged, number=number, ranges=taken), taken=(number, taken))
        self._storage.record_all({number: MessagesAcknowledged(taken)})
        change.fold(self._now)
        self._changes.append(change)

    def _write_acknowledgements(self) -> None:
        """What was gathered gets its records, one for each queue."""
        gathered, journal = self._storage._gathered, self._storage._journal
        numbers, first = list(gathered._ranges), journal.next_lsn
        gathered.write()
        if journal.next_lsn != first + len(numbers):
            raise HistoryError(f"acknowledgements of {len(numbers)} queues have {journal.next_lsn - first} records")
        lsns = dict(zip(numbers, range(first, journal.next_lsn), strict=True))
        for change in self._changes:
            if change.taken is not None and change.lsn is None:
                change.lsn = lsns.get(change.taken[0])

    def _look(self) -> None:
        number = self._one_with_messages()
        if number is not None:
            queue = self._now.queues[number]
            at = self.random.choice(sorted(queue.wanted))
            readable(queue, self._logs()[number], {at: queue.wanted[at]})

    def _record_all(self, events: Mapping[int, Event]) -> None:
        added = {
            number: Added(event.first, self._stored(event), event.stage)
            for number, event in events.items()
            if isinstance(event, MessagesAdded)
        }
        gone = {
            number: event.ranges
            for number, event in events.items()
            if isinstance(event, MessagesMoved | MessagesExpired | QueuePurged)
        }
        self._records += 1
        transient = sum(self._queue(number).transient for number in events)
        if len(added) > 1:
            self.seen["record of several queues"] += 1
            self.seen["record of durable and transient queues"] += 0 < transient < len(events)
            self.seen["record of transient queues alone"] += transient == len(events)
        self._carry_out(partial(together, added=added, gone=gone), lambda: self._storage.record_all(events))

    def _added(
        self, names: Iterable[str], payloads: Sequence[bytes], published: Published | None, **facts: Any
    ) -> dict[int, Event]:
        """What queues get alike; sometimes their times to live differ, and what is stored of it with them."""
        batch, differ = MessageBatch.from_payloads(payloads), self.random.random() < 0.2
        numbers = [number for number, queue in sorted(self._now.queues.items()) if queue.name in set(names)]
        return {
            number: MessagesAdded(
                self._logs()[number].next_sequence,
                batch,
                1_000_000,
                ttl_us=10**9 + number % 2 if differ else None,
                published=published,
                **facts,
            )
            for number in numbers
        }

    def _stored(self, event: MessagesAdded) -> tuple[Stored, ...]:
        return tuple(Stored(bytes(payload), event.published, self._records) for payload in event.batch.payloads)

    def _route(self) -> tuple[tuple[str, ...], Published | None]:
        """Where an exchange leads with some key; all queues that there are, now and then."""
        if self.random.random() < 0.15:
            return tuple(queue.name for queue in self._now.queues.values()), Published("all", "")
        there = [exchange.name for exchange in self._exchanges if exchange.name in EXCHANGES]
        exchange, key = self.random.choice(there or [""]), self.random.choice(KEYS)
        return self._exchanges.route(exchange, (key,), {"kind": key}), Published(exchange, key)

    # Definitions.

    def _change_definitions(self) -> None:
        try:
            events = self._decide(self.random.choice((*EXCHANGES, "passing")))
        except ExchangeError:
            return  # of one that is not there
        self._define(events)

    def _decide(self, exchange: str) -> tuple[ExchangeEvent, ...]:
        decide, random = self._exchanges.decide, self.random
        if self._exchanges.get(exchange) is None:
            if exchange == "passing":
                return decide.declare(exchange, "topic", durable=random.random() < 0.8, auto_delete=True)
            return decide.declare(exchange, exchange if exchange in KINDS else "fanout", arguments=ALTERNATE)
        if random.random() < 0.05:
            return decide.delete(exchange)
        to_exchange, key = random.random() < 0.15, random.choice(PATTERNS)
        names = EXCHANGES if to_exchange else [queue.name for queue in self._now.queues.values()]
        what = decide.bind if random.random() < 0.75 else decide.unbind
        return what(exchange, random.choice(names), key, {"kind": key, "x-match": "any"}, to_exchange=to_exchange)

    def _define(self, events: tuple[ExchangeEvent, ...], deleted: int | None = None) -> None:
        if deleted is None and not any(event.number for event in events):
            self._storage.change_definitions(events)  # nothing, or what a restart forgets
            return
        self.seen["queue that went with its bindings"] += deleted is not None and bool(events)
        numbered = [event for event in events if event.number]
        self._carry_out(
            partial(defined, events=numbered, deleted=deleted),
            lambda: self._storage.change_definitions(events, deleted),
        )

    def _is_durable(self, name: str) -> bool | None:
        found = [queue for queue in self._storage.queues if queue.name == name]
        return not found[0].transient if found else None

    # Queues.

    def _change_queues(self) -> None:
        draw = self.random.random()
        numbers = sorted(self._now.queues)
        if draw < 0.5 or len(numbers) < 3:
            self._declare()
        elif draw < 0.8:
            number = self.random.choice(numbers)
            self.queue_deleted(self._now.queues[number].name, number)
        else:
            number = self.random.choice(numbers)
            settings = FORGOTTEN if self.random.random() < 0.2 or self._queue(number).transient else KEPT
            name = self._now.queues[number].name
            self._carry_out(
                partial(declared, number=number, name=name, settings=settings),
                lambda: self._storage.redeclare(number, settings),
            )

    def queue_deleted(self, name: str, number: int) -> None:
        """See ``ExchangeDirectory``: whoever starts a broker has transient queues forgotten by this."""
        self._define(self._exchanges.decide.queue_deleted(name), number)

    def _declare(self) -> None:
        there = {queue.name for queue in self._now.queues.values()}
        if free := [name for name in (*DURABLE, *TRANSIENT) if name not in there]:
            name = self.random.choice(free)
            settings = FORGOTTEN if name in TRANSIENT else None
            self._carry_out(
                partial(declared, number=self._storage._contents.next_queue, name=name, settings=settings),
                lambda: self._declared(name, settings),
            )

    def _declared(self, name: str, settings: QueueSettings | None) -> int:
        self._storage.declare(name, settings)
        return self._storage.recorded

    # What it is made of.

    def _payload(self) -> bytes:
        return self.random.randbytes(8 + int(LARGEST * self.random.random() ** 2))

    def _queue(self, number: int) -> StoredQueue:
        return self._storage._contents.queues[number]

    def _logs(self) -> dict[int, QueueLog]:
        return self._storage._contents.logs()

    def _one_with_messages(self) -> int | None:
        numbers = [number for number, queue in sorted(self._now.queues.items()) if queue.wanted]
        return self.random.choice(numbers) if numbers else None

    def saw(self, disk: SimulatedDisk) -> None:
        """See ``StoreProgram``."""
        for name in disk.names(DATA):
            if parse_segment(name) is not None:
                with SegmentScan(disk, DATA / name) as scan:
                    if scan.header.kind == COMPACTED and any(record.flags & SEVERAL for record in scan.records()):
                        self.seen["record of several queues in a combined segment"] += 1


def verify_queues_survive(seed: int, opener: Opener = Storage.open) -> Counter[str]:
    """Several lives (`verify_lives`); raises HistoryError where the store broke a promise."""
    program = QueuesProgram(seed, opener)
    seen = verify_lives(program, longest=400)
    return seen + program.seen
