"""Which receiver holds which messages, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.errors import UnknownAcknowledgementError
from actors.queue_state.deadlines import DeadlineHeap
from actors.queue_state.ranges import RangeSet
from actors.queue_state.span_map import SpanMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.queue_state.effects import Connection
    from actors.queue_state.entry import Span
    from actors.queue_state.ranges import Range


class Receiver:
    """One receiving connection.

    Attributes:
        demand: messages it may still get.
        byte_credit: bytes it may still get; below zero when the last message led beyond it.
        held: its leases.
        in_flight: messages in them.
        expired: messages it had and lost to the visibility timeout, which it may still acknowledge.
    """

    __slots__ = ("byte_credit", "connection", "demand", "expired", "held", "in_flight")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.demand = 0
        self.byte_credit = 0
        self.held = SpanMap()
        self.in_flight = 0
        self.expired = RangeSet()


class LeaseTable:
    """The leases of all receivers, each a span with a deadline.

    Attributes:
        in_flight: messages leased.
    """

    __slots__ = ("_deadlines", "in_flight")

    def __init__(self) -> None:
        self._deadlines: DeadlineHeap[Span] = DeadlineHeap()
        self.in_flight = 0

    @property
    def slots(self) -> int:
        """How many places the heap of deadlines takes."""
        return self._deadlines.slots

    def next_deadline(self) -> float | None:
        """When the next lease ends."""
        return self._deadlines.earliest()

    def grant(self, receiver: Receiver, span: Span, deadline: float) -> None:
        """Lease ``span``, which nobody holds."""
        count = span.stop - span.start
        span.holder = receiver
        receiver.held.insert(span)
        receiver.in_flight += count
        self.in_flight += count
        self._deadlines.push(span, deadline)
        if receiver.expired:
            receiver.expired.remove(span.start, span.stop)

    def check(self, receiver: Receiver, ranges: Sequence[Range]) -> None:
        """Raise UnknownAcknowledgementError unless each message is in ``receiver``'s leases or its expired ranges."""
        held, expired = receiver.held, receiver.expired
        for start, stop in ranges:
            position = start
            while position < stop:
                reached = held.reach(position)
                if reached == position:
                    reached = expired.reach(position)
                    if reached == position:
                        raise UnknownAcknowledgementError(start, stop, position)
                position = reached

    def take_exactly(self, receiver: Receiver, start: int, stop: int) -> bool:
        """End the lease of just this range, as most acknowledgements do; False, and nothing done, if there is none."""
        span = receiver.held.pop_exactly(start, stop)
        if span is None:
            return False
        self._deadlines.forget(span)
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
                self._deadlines.forget(span)
        if rest is not None:
            # The part below the cut kept the object that the heap has.
            kept = receiver.held.first_from(start - 1)
            assert kept is not None
            assert kept.deadline is not None
            rest.holder = receiver
            self._deadlines.push(rest, kept.deadline)
        receiver.in_flight -= count
        self.in_flight -= count
        return taken

    def take_all(self, receiver: Receiver) -> list[Span]:
        """End all leases of a receiver."""
        taken = receiver.held.clear()
        for span in taken:
            self._deadlines.forget(span)
        self.in_flight -= receiver.in_flight
        receiver.in_flight = 0
        return taken

    def expire(self, now: float) -> tuple[Receiver, Span] | None:
        """End the earliest lease if its deadline is not after ``now``, and note that its receiver had it."""
        span = self._deadlines.pop_due(now)
        if span is None:
            return None
        receiver = span.holder
        assert receiver is not None
        count = span.stop - span.start
        receiver.held.cut(span.start, span.stop)
        receiver.in_flight -= count
        self.in_flight -= count
        receiver.expired.add(span.start, span.stop)
        return receiver, span
