"""Who waits for messages, and whose turn it is; which receiver holds which messages, and until when."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

from actors.errors import UnknownAcknowledgementError
from actors.limits import NO_DEADLINE
from actors.queue.structures.deadlines import DeadlineHeap
from actors.queue.structures.ranges import RangeSet
from actors.queue.structures.spans import SpanMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.queue.state.entries import Span
    from actors.queue.structures.ranges import Range
    from actors.queue.vocabulary.replies import Connection, ReceivedMessages


class Consumer(Protocol):
    """What waits in the ring; ``demand`` is how many messages it would take."""

    demand: int

    @property
    def priority(self) -> int:
        """Those of a higher one go first."""


@dataclass(eq=False, repr=False, slots=True)
class DemandRing:
    """Consumers with demand, in turns.

    Attributes:
        waiting: those who wait, in the order of their turns; to be looked at only.
        total: the sum of their demands.
        reading: whether a large batch is being read, or waits for room: nothing leaves before it.
        late: takes that would be over, and wait for it.
    """

    waiting: OrderedDict[Consumer, None] = field(default_factory=OrderedDict)
    total: int = 0
    reading: bool = False
    late: list[Take] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.waiting)

    @property
    def demand(self) -> int:
        """The sum of the demands of all."""
        return self.total

    def join(self, consumer: Consumer) -> None:
        """Wait, with ``consumer.demand``, behind the others; it does not wait already."""
        self.waiting[consumer] = None
        self.total += consumer.demand

    def want_more(self, consumer: Consumer, messages: int) -> None:
        """Add to a consumer's demand; one that waits keeps its turn."""
        consumer.demand += messages
        if consumer in self.waiting:
            self.total += messages

    def leave(self, consumer: Consumer) -> None:
        """Wait no more; nothing happens to one that does not. Its demand must not have changed since it joined."""
        if consumer in self.waiting:
            del self.waiting[consumer]
            self.total -= consumer.demand

    def next(self) -> Consumer:
        """Take out whose turn it is; whoever has demand left after it joins again."""
        consumer = self.waiting.popitem(last=False)[0]
        self.total -= consumer.demand
        return consumer


@dataclass(eq=False, repr=False, slots=True)
class LostDeliveries:
    """Deliveries that a receiver lost to the visibility timeout and may still answer.

    A message may be lost, delivered to the same receiver again, and lost again. It is answered as often as it was delivered, and the
    receiver cannot know which of its answers came in time.
    """

    # Level n has the messages of which more than n deliveries are unanswered: each is a part of the one before.
    _levels: list[RangeSet] = field(default_factory=list)

    def __len__(self) -> int:
        """How many ranges, not deliveries."""
        return sum(map(len, self._levels))

    def add(self, start: int, stop: int) -> None:
        """A delivery of each of these is lost."""
        parts = [(start, stop)]
        for level in self._levels:
            again = [known for part in parts for known in level.remove(*part)]
            for part in parts:
                level.add(*part)
            if not again:
                return
            parts = again
        self._levels.append(RangeSet(parts))

    def take(self, start: int, stop: int) -> list[Range]:
        """One delivery of each of these is answered; returns those of which there was one."""
        parts, taken = [(start, stop)], []
        for level in reversed(self._levels):
            found = [known for part in parts for known in level.remove(*part)]
            taken += found
            rest = RangeSet(parts)
            for part in found:
                rest.remove(*part)
            parts = list(rest)
        while self._levels and not self._levels[-1]:
            self._levels.pop()
        return taken

    def reach(self, position: int, times: int = 1) -> int:
        """The end of a range of messages lost so many times that holds ``position``; ``position`` itself if none does."""
        return self._levels[times - 1].reach(position) if len(self._levels) >= times else position

    def layers(self) -> list[RangeSet]:
        """What is in it once or more, twice or more, and so on."""
        return self._levels


@dataclass(eq=False, slots=True)
class Receiver:
    """One receiving connection.

    Attributes:
        demand: messages it may still get.
        byte_credit: bytes it may still get; below zero when the last message led beyond it.
        held: its leases.
        in_flight: messages in them.
        expired: deliveries it had and lost to the visibility timeout, which it may still answer.
        visibility: seconds that it has for a delivery: the queue's timeout, or the longer one that it was told; or ``NO_DEADLINE``.
        by_request: whether others settle what it holds, by requests that name each delivery: a taker.
        takes: its requests that wait, by their number; of a receiver they are beside its demand.
        messages: how many were delivered to it.
        consumes: whether it keeps its queue from expiring: not once it takes single messages, or only settles what it holds.
        last_take: the request to take that came last, 0 for none.
        priority: it has messages before receivers of a lower one.
        told_waiting: whether it was told last that it waits in line; None where it does not want to hear of that.
    """

    connection: Connection
    demand: int = 0
    byte_credit: int = 0
    held: SpanMap[Span] = field(default_factory=SpanMap)
    in_flight: int = 0
    expired: LostDeliveries = field(default_factory=LostDeliveries)
    visibility: float = 0.0
    by_request: bool = False
    takes: dict[int, Take] | None = None
    messages: int = 0
    consumes: bool = True
    last_take: int = 0
    priority: int = 0
    told_waiting: bool | None = None


@dataclass(eq=False, slots=True)
class Take:
    """A request for messages that waits: a consumer that is served once.

    Attributes:
        demand: messages, at most.
        bytes: bytes, at most, but for one message.
        visibility: seconds for which they are held.
        deadline: when it is answered in any case; ``heap`` is what knows that.
    """

    priority: ClassVar[int] = 0
    receiver: Receiver
    request: int
    demand: int
    bytes: int
    visibility: float
    deadline: float | None = None
    heap: object | None = None

    @property
    def holder(self) -> Receiver | Take:
        """Whose it is what it is given: its own, for what others take by the same taker is theirs; or its receiver's."""
        return self if self.receiver.by_request else self.receiver


@dataclass(eq=False, slots=True)
class Answering:
    """A request that is being answered, a part in each turn where that is much: it waits no more, and what it has is leased.

    Attributes:
        asked: the request.
        share: messages that it gets yet, at most.
        room: bytes likewise.
        after: the event that its answer depends on.
        taken: what it has so far.
    """

    asked: Take
    share: int
    room: int
    after: int
    taken: list[ReceivedMessages] = field(default_factory=list)


@dataclass(eq=False, repr=False, slots=True)
class LeaseTable:
    """The leases of all receivers, each a span with a deadline, or with none.

    Attributes:
        in_flight: messages leased.
        deadlines: when the leases end; to be looked at only.
    """

    deadlines: DeadlineHeap[Span] = field(default_factory=DeadlineHeap)
    in_flight: int = 0

    def grant(self, receiver: Receiver, span: Span, deadline: float) -> None:
        """Lease ``span``, which nobody holds; until ``NO_DEADLINE`` it costs no entry of the heap."""
        count = span.stop - span.start
        span.holder = receiver
        receiver.held.insert(span)
        receiver.in_flight += count
        self.in_flight += count
        if deadline != NO_DEADLINE:
            self.deadlines.push(span, deadline)

    def check(self, receiver: Receiver, ranges: Sequence[Range]) -> None:
        """Raise UnknownAcknowledgementError unless each message was delivered to ``receiver`` and is unanswered, as often as it is named.

        ``ranges`` are ascending.
        """
        held, expired = receiver.held, receiver.expired
        end = 0
        overlap = False
        for start, stop in ranges:
            if start < end:
                overlap = True
            position = start
            while position < stop:
                reached = held.reach(position)
                if reached == position:
                    reached = expired.reach(position)
                    if reached == position:
                        raise UnknownAcknowledgementError(start, stop, position)
                position = reached
            end = max(end, stop)
        if overlap:
            _check_repeated(receiver, ranges)

    def take_exactly(self, receiver: Receiver, start: int, stop: int) -> bool:
        """End the lease of just this range, as most acknowledgements do; False, and nothing done, if there is none."""
        span = receiver.held.pop_exactly(start, stop)
        if span is None:
            return False
        if span.deadline is not None:
            self.deadlines.forget(span)
        receiver.in_flight -= stop - start
        self.in_flight -= stop - start
        return True

    def take(self, receiver: Receiver, start: int, stop: int) -> list[Span]:
        """End the leases on a range; returns the spans in it. What is not leased is passed over."""
        taken, rest = receiver.held.cut(start, stop)
        count = 0
        for span in taken:
            count += span.stop - span.start
            if span.deadline is not None:
                self.deadlines.forget(span)
        if rest is not None:
            # The part below the cut kept the object that the heap has.
            kept = receiver.held.first_from(start - 1)
            assert kept is not None
            rest.holder = receiver
            if kept.deadline is not None:
                self.deadlines.push(rest, kept.deadline)
        receiver.in_flight -= count
        self.in_flight -= count
        return taken

    def take_all(self, receiver: Receiver) -> list[Span]:
        """End all leases of a receiver."""
        taken = receiver.held.clear()
        for span in taken:
            if span.deadline is not None:
                self.deadlines.forget(span)
        self.in_flight -= receiver.in_flight
        receiver.in_flight = 0
        return taken

    def expire(self, now: float) -> tuple[Receiver, Span] | None:
        """End the earliest lease if its deadline is not after ``now``, and note that its receiver had it."""
        span = self.deadlines.pop_due(now)
        if span is None:
            return None
        receiver = span.holder
        assert receiver is not None
        count = span.stop - span.start
        receiver.held.cut(span.start, span.stop)
        receiver.in_flight -= count
        self.in_flight -= count
        if not receiver.by_request:
            # By a request it names the delivery, and is told when that is over.
            receiver.expired.add(span.start, span.stop)
        return receiver, span


def _check_repeated(receiver: Receiver, ranges: Sequence[Range]) -> None:
    """The same where ranges overlap: what is named n times has n unanswered deliveries, of which one may be a lease."""
    held, expired = receiver.held, receiver.expired
    named = LostDeliveries()
    for part in ranges:
        named.add(*part)
    for before, layer in enumerate(named.layers()[1:], 1):
        for start, stop in layer:
            position = start
            while position < stop:
                reached = expired.reach(position, before + 1)
                if reached == position:
                    reached = min(held.reach(position), expired.reach(position, before))
                    if reached == position:
                        raise UnknownAcknowledgementError(start, stop, position)
                position = reached
