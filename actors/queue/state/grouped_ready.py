"""The messages of a queue with groups that nobody holds: all of them as in every queue, and beside it which of them were looked at.

What is ready is looked at in order, once for each time that it comes, to find what somebody may have. What is of a group that another
has is passed over: its numbers wait with its group. When that is free, they go before what nobody has looked at.

So three kinds are ready: what waits with a group; what has come back, or was published, among numbers that were looked at (``_again``);
and what nobody has looked at, from ``_cursor`` on. The second goes before the others: behind it all that waits of a group is in order.
What waits is bounded (`MAX_LOOKED_PAST`): beyond it nobody looks on, so what is on the disk takes no memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self, cast

from actors.queue.state.entries import Span, stored_entry
from actors.queue.state.group_names import names_of
from actors.queue.state.groups import UNREAD, GroupSpan, with_names
from actors.queue.state.ready import ReadyRanges
from actors.queue.structures.ranges import RangeSet
from actors.queue.vocabulary.budgets import LOOK_BUDGET
from actors.queue.vocabulary.settings import MAX_LOOKED_PAST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.queue.state.entries import Entry
    from actors.queue.state.group_names import Names
    from actors.queue.state.groups import Group, Groups, Holder
    from actors.queue.structures.ranges import Range

REMEMBERED_BATCHES: Final = 64
"""Batches of which it is remembered of which groups they are: several receivers are served from one."""
BATCH_COST: Final = 64
"""What it costs to read of which groups a batch is, in messages that are looked at; where each says its own, that each is one more."""
SPAN_COST: Final = 8
"""What it costs to find the next messages of one batch and one history, likewise."""
TAKEN_COST: Final = 3
"""What it costs to give out one message of a batch of several groups, likewise."""
STEP_BUDGET: Final = 4_096
"""Messages that are settled, or ranges that are trimmed, in one go: some milliseconds of work."""
MOST_STALE: Final = 4_096
"""Ranges of numbers that may wait with their groups though their messages have gone, beside as many as there are messages that wait."""


class GroupedReady(ReadyRanges):
    """As ``ReadyRanges``.

    While it is somebody's turn, the first is the first that this one may have.

    Attributes:
        groups: of the queue.
        tired: whether so much was looked at that there has to be a pause.
        reading: whether a large batch has to be read before anybody can look on.
    """

    __slots__ = (
        "_again",
        "_budget",
        "_cursor",
        "_held_up",
        "_most",
        "_names",
        "_names_by_batch",
        "_source",
        "_view",
        "groups",
        "reading",
        "tired",
    )

    groups: Groups
    tired: bool
    reading: bool
    # Numbers of what came back and nobody has looked at since, and of what was published below the cursor.
    _again: RangeSet
    # Nobody has looked at what is from here on.
    _cursor: int
    # Whether it was seen that nobody may look on.
    _held_up: bool
    # What may still be looked at in one go.
    _budget: int
    # How many messages who is served can have, about.
    _most: int
    # What was offered last to whose turn it is, of which groups that is, and where it is from: a group, or what nobody has looked at, or
    # what is looked at again.
    _view: GroupSpan | None
    _names: Names
    _source: Group | RangeSet | None
    _names_by_batch: dict[int, Names]

    @classmethod
    def of(cls, ready: ReadyRanges, groups: Groups) -> Self:
        """The same at a start, with the groups of a queue of which nothing is outstanding."""
        assert not ready.delayed, "nothing has come back yet"
        found = cls(ready._table, ready._fresh_start, ready.known, ready._holes, ready._replayed_below)
        found.groups = groups
        found.tired = found.reading = found._held_up = False
        found._again, found._cursor = RangeSet(), 0
        found._budget, found._most = LOOK_BUDGET, 1
        found._view = found._source = found._names = None
        found._names_by_batch = {}
        return found

    # --- turns

    def begin(self) -> None:
        """A dispatch begins."""
        self._budget = LOOK_BUDGET
        self.tired = self.reading = self._held_up = False
        # What is done in steps has one at each tick.
        self.groups.live = self.groups.is_behind

    def step(self) -> None:
        """Do some of what is done in steps; a dispatch follows."""
        self.groups.step(self._still_within, STEP_BUDGET)

    def turn(self, holder: Holder, most: int) -> None:
        """Somebody is served, who can have about so many messages: no more of them are looked at before it has some."""
        self.groups.turn, self._most = holder, max(1, most)

    def end_turn(self) -> None:
        """Nobody is."""
        self.groups.turn = self._view = None

    @property
    def passed_over(self) -> int:
        """How many messages wait behind others of their groups: they were looked at."""
        if not self.messages:
            return 0
        return max(0, self.messages - self._not_looked_at())

    @property
    def is_full(self) -> bool:
        """Whether so many wait that nobody looks on."""
        return self.messages >= MAX_LOOKED_PAST and self.passed_over >= MAX_LOOKED_PAST

    def _some_went(self) -> None:
        """Some of what waited may be gone: where nobody looked on, somebody may. Where all has, no number of it waits with its group."""
        if not self.messages and self.groups.ranges:
            self.groups.empty()
        if self._held_up:
            self._held_up, self.groups.live = False, True

    @property
    def is_open(self) -> bool:
        """Whether there may be something that everybody may have: more is to be looked at, or a group is free."""
        if self._looks_again() or self.groups.free:
            return True
        self._held_up = self._cursor < self.known and self.is_full
        return self._cursor < self.known and not self._held_up

    def open_messages(self) -> int:
        """How many messages everybody may have, about."""
        ahead, groups = self._not_looked_at(), self.groups
        if not groups.free:
            return max(1, ahead)
        share = max(0, self.messages - ahead) * len(groups.free) // len(groups)
        return ahead + max(len(groups.free), share)

    def _not_looked_at(self) -> int:
        start, stop = max(self._cursor, self._fresh_start), self.known
        ahead = stop - start - self._holes.count_within(start, stop) if start < stop else 0
        return ahead + (self._again.count_within(0, stop) if self._again else 0)

    def _looks_again(self) -> bool:
        """Whether something is to be looked at that is among what was."""
        return bool(self._again) and next(iter(self._again))[0] < self._cursor

    # --- what somebody may have

    def first(self, minimum: int = 0) -> Span | None:
        """See ``ReadyRanges``; while it is somebody's turn, the first that this one may have."""
        holder = self.groups.turn
        if holder is None:
            return super().first(minimum)
        self._view = None
        if self._budget <= 0:
            self.tired = True
        while self._looks_again() and not (self.tired or self.reading):
            start, stop = next(iter(self._again))
            if (span := self._look(start, min(stop, self._cursor), holder, self._again)) is not None:
                return span
        if self.tired or self.reading:
            return None
        groups = self.groups
        for place in (groups.own.get(holder), groups.free):
            while place:
                if (span := self._head(next(iter(place)))) is not None:
                    return span
                self._budget -= 1
                if self._budget <= 0:
                    self.tired = True
                    return None
        return self._look(self._cursor, self.known, holder, None)

    def _head(self, group: Group) -> GroupSpan | None:
        """The first that waits of a group; None where it has gone meanwhile, which is forgotten."""
        start, stop = group.waiting.first()
        found = self._ready_at(start)
        if found is None or found[0].start >= stop:
            self.groups.advance(group, stop)
            return None
        if found[0].start > start:
            self.groups.advance(group, start := found[0].start)
        return self._offer(*found, start, min(stop, found[0].stop), group.name, group)

    def _look(self, start: int, stop: int, holder: Holder, source: RangeSet | None) -> GroupSpan | None:
        """The first messages of a range that may be had; what is before them waits with its groups from then on."""
        groups = self.groups
        while start < stop and not (source is None and self.is_full):
            if self._budget <= 0:
                self.tired = True
                break
            found = self._ready_at(start)
            if found is None or found[0].start >= stop:
                self._passed(start, stop, source)
                break
            span, fresh = found
            self._budget -= SPAN_COST
            if span.start > start:
                self._passed(start, start := span.start, source)
            names = self._names_of(span)
            if self.reading:
                break
            end, first = min(stop, span.stop), span.entry.first
            if not isinstance(names, list):
                if (blocking := groups.blocks(names, holder)) is None:
                    return self._offer(span, fresh, start, end, names, source)
                groups.park(blocking, start, end)
                self._budget -= 1
                at = end
            else:
                at = start
                while at < end and (blocking := groups.blocks(name := names[at - first], holder)) is not None:
                    begin = at
                    at += 1
                    while at < end and names[at - first] == name:
                        at += 1
                    groups.park(blocking, begin, at)
                self._budget -= at - start
            if at > start:
                self._passed(start, at, source)
                self._trim()
            if at < end:
                assert isinstance(names, list)
                most = min(self._most, max(1, self._budget // TAKEN_COST))
                after = groups.reach(names, at - first, min(end, at + most) - first, holder) + first
                return self._offer(span, fresh, at, after, names, source)
            start = at
        return None

    def _passed(self, start: int, stop: int, source: RangeSet | None) -> None:
        """A range was looked at."""
        if source is None:
            self._cursor = stop
        if self._again:
            self._again.remove(start, stop)

    def _trim(self) -> None:
        """Where far more numbers wait than messages, most of those have gone."""
        groups = self.groups
        if groups.ranges > MOST_STALE and groups.ranges > MOST_STALE + 2 * self.passed_over:
            groups.trim()

    def _still_within(self, start: int, stop: int) -> Iterator[Range]:
        while start < stop and (found := self._ready_at(start)) is not None and found[0].start < stop:
            span, _ = found
            yield span.start, min(stop, span.stop)
            start = span.stop

    def _ready_at(self, position: int) -> tuple[Span, bool] | None:
        """The first that is ready from a number on, of one entry and one history, in no structure; and whether it is fresh."""
        returned = self._returned.first_from(position) if self._returned else None
        begin = max(self._fresh_start, position)
        if self._holes:
            begin = self._holes.reach(begin)
        if returned is not None and (begin >= self.known or max(position, returned.start) < begin):
            return (returned if returned.start >= position else returned.part(position, returned.stop)), False
        return None if begin >= self.known else (self._fresh_span(begin), True)

    def _fresh_span(self, position: int) -> Span:
        entry = self._front
        if entry is None or not entry.first <= position < entry.stop:
            entry = self._front = stored_entry(self._table, position)
        stop = entry.stop
        if self._holes:
            # As of ``ReadyRanges``, but the first piece alone: here a batch may have very many.
            stop = next(self._holes.each_gap(position, stop))[1]
        replayed = position < self._replayed_below and self._undelivered.reach(position) == position
        return Span(position, stop, entry, 0, replayed)

    def _names_of(self, span: Span) -> Names:
        """Of which groups the messages of its entry are, or those of the span; where that is to be read first, it says so."""
        if isinstance(span, GroupSpan) and span.names is not UNREAD:
            return span.names
        return self._read_names(span.entry, wait=True)

    def _read_names(self, entry: Entry, *, wait: bool) -> Names:
        known = self._names_by_batch
        if entry.first in known:
            return known[entry.first]
        if wait and entry.large and not entry.at_hand():
            self.reading = True
            return None
        self._budget -= BATCH_COST
        names = known[entry.first] = names_of(entry.batch)
        if isinstance(names, list):
            self._budget -= len(names)
        if len(known) > REMEMBERED_BATCHES:
            del known[next(iter(known))]
        return names

    def _offer(
        self, span: Span, fresh: bool, start: int, stop: int, names: Names, source: Group | RangeSet | None
    ) -> GroupSpan:
        """Offer a part of what is ready to whose turn it is."""
        view = GroupSpan(start, stop, span.entry, span.deliveries, span.replayed, span.failures)
        view.names = names
        self._view, self._names, self._source = view, names, source
        self._offered = view if fresh else None
        return view

    def take(self, span: Span, count: int) -> Span:
        """See ``ReadyRanges``."""
        start, stop = span.start, span.start + count
        taken = super().take(span, count)
        if span is not self._view:
            if self._again:
                self._again.remove(start, stop)
            self._some_went()
            return taken if isinstance(taken, GroupSpan) else with_names(taken, UNREAD)
        self._view = None
        if isinstance(self._names, list):
            self._budget -= TAKEN_COST * count
        source = self._source
        if source is None or isinstance(source, RangeSet):
            self._passed(start, stop, source)
        else:
            self.groups.advance(source, stop)
        return with_names(taken, self._names)

    # --- what comes and goes

    def put_back(self, span: Span) -> None:
        """See ``ReadyRanges``."""
        super().put_back(span if isinstance(span, GroupSpan) else with_names(span, UNREAD))
        self._again.add(span.start, span.stop)

    def publish(self, start: int, stop: int) -> None:
        """See ``ReadyRanges``."""
        super().publish(start, stop)
        if start < self._cursor:
            self._again.add(start, min(stop, self._cursor))

    def delay(self, span: Span, due: float) -> None:
        """See ``ReadyRanges``. What somebody had keeps its group; what was sent so is not there yet, and lets others pass."""
        if not span.deliveries:
            super().delay(span if isinstance(span, GroupSpan) else with_names(span, UNREAD), due)
            return
        if not isinstance(span, GroupSpan) or span.names is UNREAD:
            span = with_names(span, self._read_names(span.entry, wait=False))
        self.groups.delay(span)
        super().delay(span, due)

    def release_due(self, now: float) -> Span | None:
        """See ``ReadyRanges``."""
        span = self.delayed.pop_due(now)
        if span is not None:
            self._undelay(span)
            self.put_back(span)
        return span

    def _undelay(self, span: Span) -> None:
        if span.deliveries:
            self.groups.undelay(cast("GroupSpan", span))

    def carve(self, start: int, stop: int) -> list[Range]:
        """See ``ReadyRanges``."""
        self._again.remove(start, stop)
        parts = super().carve(start, stop)
        self._some_went()
        return parts

    def remove(self, start: int, stop: int) -> list[Range]:
        """See ``ReadyRanges``."""
        removed: list[Range] = []
        for span in self._returned.cut(start, stop)[0]:
            self.messages -= span.stop - span.start
            removed.append((span.start, span.stop))
            self._again.remove(span.start, span.stop)
        for span in self.delayed.cut(start, stop):
            removed.append((span.start, span.stop))
            self._undelay(span)
        removed.sort()
        self._some_went()
        return removed

    def take_out(self, span: Span, *, delayed: bool) -> None:
        """See ``ReadyRanges``."""
        super().take_out(span, delayed=delayed)
        if delayed:
            self._undelay(span)
        else:
            self._again.remove(span.start, span.stop)
            self._some_went()
