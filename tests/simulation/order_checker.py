"""Judges in which order a queue lets go of what is ready: the highest level first, in each the lowest number, whoever gets it.

Pure. A message that was ready until it was delivered was so for a time. Whatever comes behind it and was delivered, or dropped, within
that time has passed it. The history does not say when the queue decided; deliveries are noted as much later as a commit takes, so what
is that near to the ends of the time is let pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple, TypeAlias

from tests.simulation.history import Crashed, Delivered, Event, Released, Returned, Started, Taken
from tests.simulation.judged import PASSED, TOLERANCE, Finding, QueueState, Stored, Timing
from tests.simulation.wall import START, Wall

Place: TypeAlias = tuple[int, int]
"""(minus level, number): the lower it is, the earlier it is to go."""


class _Ready(NamedTuple):
    """A message was ready at least from ``since`` on, until it was delivered, which was noted at ``until``."""

    since: float
    until: float
    place: Place
    producer: str
    number: int
    text: str


class _Gone(NamedTuple):
    """A message was delivered or dropped, which was noted then."""

    time: float
    place: Place
    text: str


@dataclass(slots=True)
class _Of:
    """What is known of one queue."""

    ready: list[_Ready] = field(default_factory=list)
    delivered: list[_Gone] = field(default_factory=list)
    dropped: list[tuple[str, int, _Gone]] = field(default_factory=list)
    returned: dict[int, float] = field(default_factory=dict)


class OrderRules:
    """Follows one history.

    Args:
        queues: what the checker knows.
        timing: how long the broker may take.
        findings: where to put what is found.
        level: the level of a message in a queue, by their names.
        waits: whether a message of a queue was sent to wait, or is there by other ways than a sender's.
        wall: the time of day.
    """

    def __init__(
        self,
        queues: Mapping[str, QueueState],
        timing: Timing,
        findings: list[Finding],
        level: Callable[[str, str], int],
        waits: Callable[[str, str], bool],
        wall: Wall,
    ) -> None:
        self._wall = wall
        self._queues = queues
        self._timing = timing
        self._findings = findings
        self._level = level
        self._waits = waits
        self._slack = timing.commit + TOLERANCE
        self._known: dict[str, _Of] = {}
        self._gone: dict[int, None] = {}
        self._started = 0.0

    def judges(self, name: str) -> bool:
        """Whether a queue is held to an order: what is moved out of one may come back, and groups pass each other."""
        rules = self._queues[name].rules
        return rules.tasks is not None and not rules.moves and not rules.groups

    def before(self, event: Event) -> None:
        """An event that the checker has not heard of."""
        match event:
            case Delivered() | Taken():
                if self.judges(event.queue):
                    self._delivered(event)
            case Returned():
                if self.judges(event.queue):
                    self._returned(event)
            case Released():
                self._released(event)
            case Crashed():
                self._started = inf
                for known in self._known.values():
                    known.returned.clear()
            case Started():
                self._started = event.time
            case _:
                pass

    def dropped(self, name: str, message: str, time: float) -> None:
        """A message was dropped, being over its queue's limit, by what its dead letter says."""
        if not self.judges(name):
            return
        producer, number = self._queues[name].offered.get(message, ("", 0))
        gone = _Gone(time, (-self._level(name, message), -1), f"{message} of {name} was dropped at {time:.6f}")
        self._of(name).dropped.append((producer, number, gone))

    def check(self) -> None:
        """Judge all of it, at the end."""
        for known in self._known.values():
            self._passed(known.ready, known.delivered)
            self._passed(known.ready, [gone for _, _, gone in known.dropped])
            for producer in dict.fromkeys(producer for producer, _, _ in known.dropped):
                # Nobody has seen the numbers of what was dropped. What one producer sent first has the lower one.
                ready = [
                    each._replace(place=(each.place[0], each.number))
                    for each in known.ready
                    if each.producer == producer
                ]
                gone = [
                    gone._replace(place=(gone.place[0], number))
                    for whose, number, gone in known.dropped
                    if whose == producer
                ]
                self._passed(ready, gone)

    # Inside

    def _of(self, name: str) -> _Of:
        return self._known.setdefault(name, _Of())

    def _delivered(self, event: Delivered | Taken) -> None:
        name, queue, known = event.queue, self._queues[event.queue], self._of(event.queue)
        written_late = event.connection in self._gone
        for index, message in enumerate(event.messages):
            sequence = event.first + index
            place = -self._level(name, message), sequence
            text = f"{name}/{sequence} {message} of level {-place[0]}"
            since = self._since(queue, event, sequence, message)
            known.returned.pop(sequence, None)
            if written_late:
                # When that was decided is not known.
                continue
            if since is not None and since < event.time:
                producer, number = queue.offered.get(message, ("", 0))
                known.ready.append(_Ready(since, event.time, place, producer, number, text))
            known.delivered.append(_Gone(event.time, place, text))

    def _since(self, queue: QueueState, event: Delivered | Taken, sequence: int, message: str) -> float | None:
        """From when on a message was ready for certain that is delivered now; None where that is not known."""
        stored = queue.stored.get(sequence)
        back = self._of(event.queue).returned.get(sequence)
        # It may have been given to a connection that has never written it.
        if back is not None and stored is not None:
            return back if event.delivery_count == stored.delivery + 1 else None
        is_first = event.delivery_count == 1 and not event.failures and (stored is None or stored.holder is None)
        if not is_first or (stored is not None and stored.went_back is not None):
            return None
        if isinstance(event, Delivered) and queue.rules.tasks is not None and queue.rules.tasks.dead_of is not None:
            # A dead letter says itself since when it is there.
            return max(self._wall.first(event.stored_us / 1e6 - START), self._started)
        if self._waits(event.queue, message):
            return None
        confirmed = queue.confirmed.get(message)
        if confirmed is None or (stored is not None and not event.possibly_replayed):
            return None
        return max(confirmed, self._started)

    def _returned(self, event: Returned) -> None:
        queue = self._queues[event.queue]
        assert queue.rules.tasks is not None
        if event.delay or (event.failed and queue.rules.tasks.counts_failures):
            return
        for first, count in event.ranges:
            for sequence in range(first, first + count):
                stored = queue.stored.get(sequence)
                if stored is not None and self._holds(stored, event.connection, event.time):
                    self._of(event.queue).returned[sequence] = event.time

    def _released(self, event: Released) -> None:
        self._gone[event.connection] = None
        for name, queue in self._queues.items():
            if not self.judges(name) or queue.rules.tasks is None or queue.rules.tasks.counts_failures:
                continue
            for sequence in queue.held.get(event.connection, ()):
                if self._holds(queue.stored[sequence], event.connection, event.time):
                    self._of(name).returned[sequence] = event.time

    def _holds(self, stored: Stored, connection: int, now: float) -> bool:
        return (
            stored.holder == connection
            and self._timing.is_leased(stored, now)
            and stored.acknowledged_at is None
            and not stored.maybe_acknowledged
        )

    def _passed(self, ready: Iterable[_Ready], gone: Iterable[_Gone]) -> None:
        """Find what was let go while something before it was ready."""
        slack = self._slack
        coming = sorted((each for each in ready if each.until - each.since > 2 * slack), key=lambda each: -each.since)
        first: list[tuple[Place, float, _Ready]] = []
        for each in sorted(gone, key=lambda each: each.time):
            while coming and coming[-1].since + slack < each.time:
                waits = coming.pop()
                heappush(first, (waits.place, waits.until, waits))
            while first and first[0][1] - slack <= each.time:
                heappop(first)
            if first and first[0][0] < each.place:
                waits = first[0][2]
                text = f"{each.text}, when {waits.text} was ready, from {waits.since:.6f} to {waits.until:.6f}"
                self._findings.append(Finding(PASSED, each.time, text))
