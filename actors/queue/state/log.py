"""The durable part of a queue: the fold over its events, and nothing else.

No clock, no connections, no leases: two logs that have seen the same events are equal, and a log that sees an event for
a second time stays as it is. It holds nothing for each message or batch that waits: those are in the entry table.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

from actors.queue.state.accepted_ids import AcceptedIds, ids_of
from actors.queue.state.calendar import Calendar
from actors.queue.state.entries import MemoryEntryTable
from actors.queue.state.retries import Retries
from actors.queue.state.returns import Returns
from actors.queue.state.stage import Stage
from actors.queue.state.subscriptions import Ledger
from actors.queue.structures.ranges import Range, RangeSet
from actors.queue.vocabulary import events
from actors.queue.vocabulary.settings import ENTRY_OVERHEAD_BYTES, MAX_DELAYED, MAX_PRODUCERS, MAX_TEMPORARY_PRODUCERS

if TYPE_CHECKING:
    from actors.queue.state.entries import EntryTable
    from actors.queue.vocabulary.stages import StageKey


@dataclass(repr=False, slots=True)
class QueueLog:
    """What is stored, producers, ledgers, and the sums over them.

    Attributes:
        table: the stored batches.
        acknowledged: every number below ``next_sequence`` that nobody wants any more.
        next_sequence: the number that the next message gets; it never goes back.
        stored_messages: messages not acknowledged and not staged.
        stored_batches: batches that still have one.
        stored_bytes: bytes of the batches that still have one, each whole and with the table's overhead.
        reserved_messages: messages in ledgers.
        deleted_epoch: the greatest epoch that a deleted subscription had; ``deleted_position`` likewise.
        producers: producer to the number after the last one stored, the least recently heard of first.
        temporary: the same of producers whose name was made up for one run.
        returns: how often what was given back has failed.
        delayed: batches that could not be received at once: first number to the number after the last and microseconds since the epoch.
            Whoever knows that a delay is over says so with ``delay_ended``; what is left of those that are is no part of the fold.
        retries: what has failed and waits to be tried again; of those whose time is over as of ``delayed``.
        stages: what is held back for transactions that are not committed; ``staged_messages`` and ``staged_bytes`` are the
            sums over it, counted as those of what is stored.
        published_by: the number of the last commit that published something.
        added_by: the number of the last event that stored something, or said how far a producer is.
        ttl_below: messages from this number on have no time to live, as far as this log has seen them come.
        accepted: the ids of what was stored lately; None where none counts. When they are forgotten is no part of the fold.
        staged_ids: how many ids there are of what is staged.
        calendar: what waits for its time and has no number yet; a part of what is stored. None until there was something.
    """

    table: EntryTable = field(default_factory=partial(MemoryEntryTable, ENTRY_OVERHEAD_BYTES))
    acknowledged: RangeSet = field(default_factory=RangeSet)
    next_sequence: int = 0
    stored_messages: int = 0
    stored_batches: int = 0
    stored_bytes: int = 0
    reserved_messages: int = 0
    producers: OrderedDict[str, int] = field(default_factory=OrderedDict)
    temporary: OrderedDict[str, int] = field(default_factory=OrderedDict)
    ledgers: dict[str, Ledger] = field(default_factory=dict)
    deleted_epoch: int = 0
    deleted_position: int = 0
    returns: Returns = field(default_factory=Returns)
    # Two logs of the same events may differ in these: delays end with time, which a log knows nothing of, and events may be numbered anew.
    delayed: dict[int, tuple[int, int]] = field(default_factory=dict, compare=False)
    retries: Retries = field(default_factory=Retries, compare=False)
    published_by: int = field(default=0, compare=False)
    added_by: int = field(default=0, compare=False)
    ttl_below: int = field(default=0, compare=False)
    accepted: AcceptedIds | None = field(default=None, compare=False)
    staged_ids: int = 0
    stages: dict[StageKey, Stage] = field(default_factory=dict)
    calendar: Calendar | None = None
    staged_messages: int = 0
    staged_bytes: int = 0
    total_in: int = 0
    total_acknowledged: int = 0
    total_purged: int = 0
    total_expired: int = 0
    total_dead_lettered: int = 0
    total_discarded: int = 0
    total_moved: int = 0
    total_dropped: int = 0

    def apply(self, event: events.Event, number: int = 0) -> None:
        """Take in an event with its number; one that was taken in before changes nothing."""
        _APPLY[type(event)](self, event, number)

    def stored(self) -> list[Range]:
        """What is neither acknowledged nor staged, ascending."""
        return self.unwanted().gaps(0, self.next_sequence)

    def unwanted(self) -> RangeSet:
        """Every number that is acknowledged or staged: a set of the caller's own."""
        ranges = self.acknowledged.copy()
        for stage in self.stages.values():
            ranges.extend(stage.ranges)
        return ranges

    def next_of(self, event: events.MessagesAdded) -> int:
        """The number that the first message of a batch gets: one of the queue's, or of a stream of its calendar."""
        place = None if event.scheduled is None else event.scheduled.place
        if place is None:
            return self.next_sequence
        return 0 if self.calendar is None else self.calendar.next_of(place.stream)

    def delay_ended(self, first: int) -> None:
        """The batch that begins with ``first`` can be received, if it could not be."""
        self.delayed.pop(first, None)

    def _added(self, event: events.MessagesAdded, number: int) -> None:
        first = event.first
        if first < self.next_sequence:
            return
        if first > self.next_sequence:
            # Only a repaired journal leaves numbers out: nobody has these messages any more.
            self.acknowledged.add(self.next_sequence, first)
        table = self.table
        size = table.add(event, number)
        count = event.batch.count
        self.next_sequence = first + count
        self.added_by = number
        if event.ttl_us is not None:
            self.ttl_below = first + count
        if event.stage is not None:
            self._staged(event, event.stage, size + table.overhead)
            return
        self.stored_messages += count
        self.stored_batches += 1
        self.stored_bytes += size + table.overhead
        self.total_in += count
        if event.delay_us:
            self._delayed(event, first + count)
        if event.producers:
            _note(event.producers, self.producers, MAX_PRODUCERS, self.temporary)
        if event.temporary:
            _note(event.temporary, self.temporary, MAX_TEMPORARY_PRODUCERS, self.producers)
        if event.ids_until_us:
            if self.accepted is None:
                self.accepted = AcceptedIds()
            self.accepted.add_batch(event.batch, event.ids_until_us)
        if event.dropped:
            self.total_dropped += self._remove(event.dropped)

    def _accept(self, digests: Iterable[bytes], until_us: int) -> None:
        if self.accepted is None:
            self.accepted = AcceptedIds()
        self.accepted.add(digests, until_us)

    def _deduplicated(self, event: events.MessagesDeduplicated, number: int) -> None:
        self.added_by = max(self.added_by, number)
        for heard, known, limit, others in (
            (event.producers, self.producers, MAX_PRODUCERS, self.temporary),
            (event.temporary, self.temporary, MAX_TEMPORARY_PRODUCERS, self.producers),
        ):
            # Seen again it says less than what came behind it.
            newer = [(name, number) for name, number in heard if number > (self.last_number(name) or 0)]
            _note(newer, known, limit, others)

    def _scheduled(self, event: events.MessagesScheduled, number: int) -> None:
        """What has left the calendar with a batch is there no more; the batch waits in it, or is in the queue."""
        scheduled, calendar = event.scheduled, self.calendar
        if calendar is None:
            calendar = self.calendar = Calendar()
        for stream, ranges in scheduled.left:
            messages, size = calendar.remove(stream, ranges)
            self._left_calendar(messages, size)
            # They have come before.
            self.total_in -= messages
        if scheduled.place is None:
            self._added(event, number)
            return
        count, size = event.batch.count, event.batch.nbytes + self.table.overhead
        if calendar.add(scheduled.place, event.first, count, size, min(scheduled.due)):
            self.added_by = number
            self.stored_messages += count
            self.stored_bytes += size
            self.total_in += count
            if event.ids_until_us:
                self._accept(filter(None, ids_of(event.batch) or ()), event.ids_until_us)
            _note(event.producers, self.producers, MAX_PRODUCERS, self.temporary)
            _note(event.temporary, self.temporary, MAX_TEMPORARY_PRODUCERS, self.producers)

    def _left_calendar(self, messages: int, size: int) -> None:
        self.stored_messages -= messages
        self.stored_bytes -= size

    def _calendar_purged(self, event: events.CalendarPurged, _number: int) -> None:
        for stream, stop in event.streams:
            self.lost_in_calendar(stream, ((0, stop),))

    def lost_in_calendar(self, stream: int, ranges: Iterable[Range]) -> int:
        """What waits at these positions of a stream is no more; returns how many messages that were."""
        messages, size = (0, 0) if self.calendar is None else self.calendar.remove(stream, ranges)
        self._left_calendar(messages, size)
        self.total_purged += messages
        return messages

    def last_number(self, producer: str) -> int | None:
        """The number after the last one stored of a producer; None where nothing is known of it."""
        number = self.producers.get(producer)
        return self.temporary.get(producer) if number is None else number

    @property
    def forgot_nobody(self) -> bool:
        """Whether it knows of every producer that it has stored anything of: there were never too many."""
        return len(self.producers) < MAX_PRODUCERS and len(self.temporary) < MAX_TEMPORARY_PRODUCERS

    def _staged(self, event: events.MessagesAdded, key: StageKey, size: int) -> None:
        stage = self.stages.get(key)
        if stage is None:
            stage = self.stages[key] = Stage()
        first, count = event.first, event.batch.count
        stage.add(first, first + count, size)
        stage.numbers = event.numbers or stage.numbers
        self.staged_messages += count
        self.staged_bytes += size
        if event.ids_until_us:
            ids = {first + at: digest for at, digest in enumerate(ids_of(event.batch) or ()) if digest}
            stage.ids |= ids
            self.staged_ids += len(ids)
        if event.delay_us:
            stage.delayed[first] = (first + count, event.enqueued_us + event.delay_us)
            self._forget_ended_delays(event.enqueued_us)

    def _delayed(self, event: events.MessagesAdded, stop: int) -> None:
        self.delayed[event.first] = (stop, event.enqueued_us + event.delay_us)
        self._forget_ended_delays(event.enqueued_us)

    def _forget_ended_delays(self, now_us: int) -> None:
        if len(self.delayed) > 2 * MAX_DELAYED:
            # A replay sees delays begin and not end. At any time no more than half of them are not over.
            kept = [(first, item) for first, item in self.delayed.items() if item[1] > now_us]
            self.delayed = dict(kept[-MAX_DELAYED:])

    def _ended(self, event: events.StagesEnded, number: int) -> None:
        for stage in self._taken(event.published):
            self.published_by = max(self.published_by, number)
            self.stored_messages += stage.messages
            self.stored_batches += stage.batches
            self.stored_bytes += stage.bytes
            self.total_in += stage.messages
            self.delayed.update(stage.delayed)
            if event.ids_until_us:
                gone = RangeSet(event.duplicates)
                new = [digest for number, digest in stage.ids.items() if not gone.count_within(number, number + 1)]
                self._accept(new, event.ids_until_us)
        if event.duplicates:
            self.total_in -= self._remove(event.duplicates)
        self._drop_stages(event.discarded, event.below)

    def _discarded(self, event: events.StagesDiscarded, _number: int) -> None:
        self._drop_stages(event.stages, event.below)

    def _drop_stages(self, stages: Iterable[StageKey], below: int) -> None:
        """Have what stages hold be gone, but for those that began with the number ``below`` or later."""
        acknowledged, table = self.acknowledged, self.table
        meant = [key for key in stages if key in self.stages and self.stages[key].first < below]
        for stage in self._taken(meant):
            self.total_discarded += stage.messages
            for start, stop in stage.ranges:
                acknowledged.add(start, stop)
                for first, _, _ in table.extents(start, stop):
                    table.discard(first)

    def _taken(self, keys: Iterable[StageKey]) -> Iterator[Stage]:
        """What leaves ``stages`` with an event."""
        for key in keys:
            stage = self.stages.pop(key, None)
            if stage is not None:
                self.staged_messages -= stage.messages
                self.staged_bytes -= stage.bytes
                self.staged_ids -= len(stage.ids)
                yield stage

    def _acknowledged(self, event: events.MessagesAcknowledged, _number: int) -> None:
        self.total_acknowledged += self._remove(event.ranges)

    def _returned(self, event: events.MessagesReturned, _number: int) -> None:
        delays = event.delays or repeat(0)
        for (start, stop, failures), delay_us in zip(event.returns, delays, strict=False):
            for part_start, part_stop in self.acknowledged.gaps(start, stop):
                self.returns.note(part_start, part_stop, failures)
                if delay_us:
                    self.retries.note(part_start, part_stop, event.returned_us + delay_us, delay_us)
                elif self.retries:
                    self.retries.forget(part_start, part_stop)

    def _expired(self, event: events.MessagesExpired, _number: int) -> None:
        self.total_expired += self._remove(event.ranges)

    def _over_limit(self, event: events.MessagesDropped, _number: int) -> None:
        self.total_dropped += self._remove(event.ranges)

    def _moved(self, event: events.MessagesMoved, _number: int) -> None:
        removed = self._remove(event.ranges)
        if event.dead:
            self.total_dead_lettered += removed
        else:
            self.total_moved += removed

    def _purged(self, event: events.QueuePurged, _number: int) -> None:
        self.total_purged += self._remove(event.ranges)

    def _opened(self, event: events.SubscriptionOwned, _number: int) -> None:
        ledger = self.ledgers.get(event.name)
        if ledger is None:
            if event.epoch <= self.deleted_epoch:
                return  # seen before its deletion was
            ledger = self.ledgers[event.name] = Ledger(event.name, event.min_sequence, self.deleted_position)
        if event.epoch > ledger.epoch:
            ledger.epoch = event.epoch
            ledger.owner_timeout = event.owner_timeout
            ledger.opened_us = event.opened_us
            ledger.left_us = 0

    def _reserved(self, event: events.LedgerExtended, _number: int) -> None:
        ledger = self.ledgers.get(event.subscription)
        # Without a ledger, as without the positions before, there is none only in what a repair has left.
        if ledger is None or event.position != ledger.high:
            return
        for start, stop, delivery_count, possibly_replayed in event.ranges:
            ledger.append(start, stop, delivery_count, possibly_replayed)
        self.reserved_messages += ledger.high - event.position

    def _committed(self, event: events.LedgerAdvanced, _number: int) -> None:
        self.total_acknowledged += self._remove(self._dropped(event))

    def _released(self, event: events.SubscriptionReleased, _number: int) -> None:
        self._dropped(event)

    def _deleted(self, event: events.SubscriptionDeleted, _number: int) -> None:
        ledger = self.ledgers.get(event.name)
        # An event that was seen before is about one of this name that was made later, if there is any.
        if ledger is not None and ledger.epoch <= event.epoch:
            del self.ledgers[event.name]
            self.reserved_messages -= ledger.high - ledger.base
        self.deleted_epoch = max(self.deleted_epoch, event.epoch)
        self.deleted_position = max(self.deleted_position, event.position)

    def _left(self, event: events.SubscriptionLeft, _number: int) -> None:
        ledger = self.ledgers.get(event.name)
        if ledger is not None and ledger.epoch == event.epoch:
            ledger.left_us = max(ledger.left_us, event.left_us) if event.left_us else 0

    def _dropped(self, event: events.LedgerAdvanced | events.SubscriptionReleased) -> list[Range]:
        """What leaves a ledger with an event."""
        ledger = self.ledgers.get(event.subscription)
        ranges = [] if ledger is None else ledger.drop_below(event.position)
        self.reserved_messages -= sum(stop - start for start, stop in ranges)
        return ranges

    def restore_stage(self, key: StageKey, stage: Stage) -> None:
        """Have a stage as a checkpoint has it."""
        self.stages[key] = stage
        self.staged_messages += stage.messages
        self.staged_bytes += stage.bytes
        self.staged_ids += len(stage.ids)

    def _remove(self, ranges: Iterable[Range]) -> int:
        """Acknowledge ranges; returns how many of their messages were still stored."""
        removed = 0
        acknowledged, table = self.acknowledged, self.table
        first = after = size = 0
        for start, end in ranges:
            # What a repair has lost may be acknowledged all the same.
            stop = min(end, self.next_sequence)
            parts = acknowledged.gaps(start, stop)
            if not parts:
                continue
            removed += acknowledged.add(start, stop)
            if self.returns:
                self.returns.forget(start, stop)
                if self.retries:
                    self.retries.forget(start, stop)
            # A batch with two of the parts counts once.
            counted = -1
            for part_start, part_stop in parts:
                # Pieces of one batch come in a row: it is looked up once.
                within = first <= part_start and part_stop <= after
                for first, after, size in ((first, after, size),) if within else table.extents(part_start, part_stop):  # noqa: B020 - the last stays
                    if first > counted and acknowledged.reach(first) >= after:
                        counted = first
                        self.stored_batches -= 1
                        self.stored_bytes -= size + table.overhead
                        table.discard(first)
                        self.delayed.pop(first, None)
        self.stored_messages -= removed
        return removed


def _note(
    heard: Iterable[tuple[str, int]], known: OrderedDict[str, int], limit: int, others: OrderedDict[str, int]
) -> None:
    """Remember the numbers of producers; whoever comes as another kind than before is not remembered twice."""
    for producer, number in heard:
        known[producer] = number
        known.move_to_end(producer)
        if others:
            others.pop(producer, None)
        if len(known) > limit:
            known.popitem(last=False)


_APPLY: dict[type, Callable[[QueueLog, Any, int], None]] = {
    events.MessagesAdded: QueueLog._added,
    events.MessagesDeduplicated: QueueLog._deduplicated,
    events.MessagesScheduled: QueueLog._scheduled,
    events.MessagesAcknowledged: QueueLog._acknowledged,
    events.MessagesReturned: QueueLog._returned,
    events.MessagesExpired: QueueLog._expired,
    events.MessagesDropped: QueueLog._over_limit,
    events.MessagesMoved: QueueLog._moved,
    events.QueuePurged: QueueLog._purged,
    events.CalendarPurged: QueueLog._calendar_purged,
    events.SubscriptionOwned: QueueLog._opened,
    events.LedgerExtended: QueueLog._reserved,
    events.LedgerAdvanced: QueueLog._committed,
    events.SubscriptionReleased: QueueLog._released,
    events.SubscriptionDeleted: QueueLog._deleted,
    events.SubscriptionLeft: QueueLog._left,
    events.StagesEnded: QueueLog._ended,
    events.StagesDiscarded: QueueLog._discarded,
}
