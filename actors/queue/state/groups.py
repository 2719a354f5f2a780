"""Who has which group of a queue with groups, and which groups somebody may have more of.

A group is known while anything of it is outstanding, or waits behind what is: so there are no more of them than messages that somebody has,
or that wait to be tried again. What waits is numbers (`Numbers`), and its messages are where all are that are ready.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from actors.queue.state.entries import Span
from actors.queue.state.receivers import Receiver
from actors.queue.structures.numbers import Numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from actors.queue.state.group_names import Names
    from actors.queue.state.receivers import Take
    from actors.queue.structures.ranges import Range

Holder: TypeAlias = "Receiver | Take"
"""Who has a group: a receiver, or one request of a taker, which speaks for many."""
NOBODY: Final = Receiver(None)
"""In the place of a holder: the group is free."""
SETTLED_AT_ONCE: Final = 512
"""Of so many messages of a span, or fewer, the groups are free as soon as they are settled; of more some time later, step by step."""
EMPTIED_AT_ONCE: Final = 1_024
"""Groups of which all that waited is forgotten in one go, where nothing is ready."""
UNREAD: Final[list[bytes | None]] = []
"""In the place of groups: nobody has looked of which its messages are."""


@dataclass(eq=False, slots=True)
class GroupSpan(Span):
    """A span that knows the groups of its messages: those of its entry, from the first on, or the one that all of it is of."""

    names: Names = None

    def part(self, start: int, stop: int) -> GroupSpan:
        """See ``Span``."""
        part = GroupSpan(
            start, stop, self.entry, self.deliveries, self.replayed, self.failures, reason=self.reason, since=self.since
        )
        part.names = self.names
        return part

    def continues(self, other: Span) -> bool:
        """See ``Span``: and it is of the same group, or the same list has the groups of both."""
        if not isinstance(other, GroupSpan):
            return False
        mine, names = self.names, other.names
        alike = mine is names or (mine == names and not isinstance(mine, list) and not isinstance(names, list))
        return alike and super(GroupSpan, self).continues(other)

    def counted(self) -> Iterable[tuple[bytes, int]]:
        """How many of its messages are of which group."""
        names = self.names
        if names is None:
            return ()
        if not isinstance(names, list):
            return ((names, self.stop - self.start),)
        assert names is not UNREAD, "whoever has it has looked"
        first = self.entry.first
        if self.stop - self.start == 1:
            name = names[self.start - first]
            return () if name is None else ((name, 1),)
        counts = Counter(names[self.start - first : self.stop - first])
        counts.pop(None, None)
        return cast("Iterable[tuple[bytes, int]]", counts.items())


def with_names(span: Span, names: Names) -> GroupSpan:
    """The same, of messages of these groups; in no structure yet."""
    if isinstance(span, GroupSpan):
        span.names = names
        return span
    made = GroupSpan(
        span.start,
        span.stop,
        span.entry,
        span.deliveries,
        span.replayed,
        span.failures,
        reason=span.reason,
        since=span.since,
    )
    made.names = names
    return made


@dataclass(eq=False, repr=False, slots=True)
class Group:
    """One group.

    Attributes:
        name: what its messages say.
        holder: who has messages of it; None for nobody.
        held: how many.
        delayed: how many that came back wait to be tried again: nobody gets what is behind them.
        waiting: numbers of the messages that were looked at and passed over. Some may have gone since.
        place: who may have more of it, where something waits that may be had; `NOBODY` where everybody may, None where no one may.
    """

    name: bytes
    holder: Holder | None = None
    held: int = 0
    delayed: int = 0
    waiting: Numbers = field(default_factory=Numbers)
    place: Holder | None = None


@dataclass(eq=False, repr=False, slots=True)
class Groups:
    """The groups of one queue.

    It may be among the queue's heaps of deadlines: it has something to do at once, or nothing.

    Attributes:
        turn: who is being served; None while nobody is.
        free: groups that nobody has, and of which something waits; who came to be so first goes first.
        own: by who has them, groups of which something waits that it may have.
        live: whether somebody may have what nobody could have before: there is something to dispatch.
        ranges: how many ranges of numbers wait, with those that have gone.
    """

    turn: Holder | None = None
    free: dict[Group, None] = field(default_factory=dict)
    own: dict[Holder, dict[Group, None]] = field(default_factory=dict)
    live: bool = False
    ranges: int = 0
    _known: dict[bytes, Group] = field(default_factory=dict)
    # What is settled whose groups are not free yet, and groups to be trimmed.
    _settled: deque[GroupSpan] = field(default_factory=deque)
    _to_trim: list[Group] = field(default_factory=list)
    # From which number on the last of those is to be trimmed yet.
    _trim_from: int = 0

    def __len__(self) -> int:
        return len(self._known)

    def earliest(self) -> float:
        """When that is to be done: it is time."""
        return 0.0

    def blocks(self, name: bytes | None, holder: Holder | None) -> Group | None:
        """The group that keeps a message of this name, which waits nowhere, from ``holder``; None where that may have it."""
        if name is None or (group := self._known.get(name)) is None:
            return None
        if group.waiting or group.delayed or (group.holder is not None and group.holder is not holder):
            return group
        return None

    def reach(self, names: list[bytes | None], start: int, stop: int, holder: Holder) -> int:
        """How far messages of these names go, from the one at ``start`` on, that ``holder`` may have."""
        known = self._known
        if not known:
            return stop
        for at in range(start, stop):
            name = names[at]
            if name in known and self.blocks(name, holder) is not None:
                return at
        return stop

    def park(self, group: Group, start: int, stop: int) -> None:
        """Some messages of a group are passed over."""
        before = len(group.waiting)
        group.waiting.add(start, stop)
        self.ranges += len(group.waiting) - before
        if group.place is None:
            self._place(group)

    def advance(self, group: Group, number: int) -> None:
        """Of what waits of a group, the first is not lower any more."""
        before = len(group.waiting)
        group.waiting.drop_below(number)
        self.ranges += len(group.waiting) - before
        if not group.waiting:
            self._place(group)

    def trim(self) -> None:
        """Have the numbers forgotten that wait no more, step by step."""
        if not self._to_trim:
            self._to_trim = list(self._known.values())
            self.live = True

    def empty(self) -> None:
        """No number waits any more: nothing is ready."""
        if len(self._known) > EMPTIED_AT_ONCE:
            self.trim()
            return
        self.ranges = 0
        for group in list(self._known.values()):
            if group.waiting:
                group.waiting = Numbers()
                self._place(group)

    @property
    def is_behind(self) -> bool:
        """Whether there is something to do in steps."""
        return bool(self._settled or self._to_trim)

    def step(self, which: Callable[[int, int], Iterator[Range]], budget: int) -> None:
        """Do some of what is done in steps, about so much.

        Args:
            which: what still waits of a range of numbers.
            budget: messages that are settled, or ranges that are looked at, be they of one group.
        """
        while self._settled and budget > 0:
            span = self._settled.popleft()
            count = span.stop - span.start
            if count > budget:
                self._settled.appendleft(span.part(span.start + budget, span.stop))
                span = span.part(span.start, span.start + budget)
            budget -= count
            self._free(span)
        while self._to_trim and budget > 0:
            group = self._to_trim[-1]
            before, done, following = len(group.waiting), 1, None
            if before:
                following, done = group.waiting.keep(which, self._trim_from, budget)
                self.ranges += len(group.waiting) - before
                if not group.waiting:
                    self._place(group)
            budget -= done
            self._trim_from = following or 0
            if following is None:
                self._to_trim.pop()
        # What came to be free is dispatched behind this.
        self.live = self.is_behind

    def hold(self, span: GroupSpan, receiver: Receiver) -> None:
        """A receiver has messages. A taker speaks for many: what one request took is that request's, while it is served and behind that."""
        known = self._known
        holder = receiver if self.turn is None else self.turn
        for name, count in span.counted():
            group = known.get(name)
            if group is None:
                known[name] = Group(name, holder, count)
                continue
            group.held += count
            if group.holder is not holder:
                group.holder = holder
                self._place(group)

    def let_go(self, span: GroupSpan) -> None:
        """Nobody has them any more; of very many the groups are free some time later."""
        if isinstance(span.names, list) and span.stop - span.start > SETTLED_AT_ONCE:
            # The span itself goes its way.
            self._settled.append(span.part(span.start, span.stop))
            self.live = True
            return
        self._free(span)

    def _free(self, span: GroupSpan) -> None:
        known = self._known
        for name, count in span.counted():
            group = known[name]
            group.held -= count
            if group.held:
                continue
            group.holder = None
            if group.waiting:
                self._place(group)
                self.live = self.live or not group.delayed
            elif not group.delayed:
                del known[name]

    def delay(self, span: GroupSpan) -> None:
        """What came back waits to be tried again."""
        for name, count in span.counted():
            group = self._known.get(name)
            if group is None:
                group = self._known[name] = Group(name)
            group.delayed += count
            self._place(group)

    def undelay(self, span: GroupSpan) -> None:
        """It waits no more."""
        for name, count in span.counted():
            group = self._known[name]
            group.delayed -= count
            if not group.delayed:
                self._place(group)
                self.live = self.live or bool(group.waiting)

    def _place(self, group: Group) -> None:
        """Have it stand where who may have more of it finds it; one that nothing is known of any more is forgotten."""
        place: Holder | None = None
        if group.waiting:
            if not group.delayed:
                place = NOBODY if group.holder is None else group.holder
        elif not group.held and not group.delayed:
            del self._known[group.name]
        before = group.place
        if place is before:
            return
        group.place = place
        if before is NOBODY:
            del self.free[group]
        elif before is not None:
            mine = self.own[before]
            del mine[group]
            if not mine:
                del self.own[before]
        if place is NOBODY:
            self.free[group] = None
        elif place is not None:
            self.own.setdefault(place, {})[group] = None
