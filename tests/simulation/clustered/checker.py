"""Judges what clients of a cluster have seen, as of a single broker that is killed now and then: each leader is a life of it.

A leader that is cut off, or frozen, does not know yet that another one leads. What it has committed until then may still be on its way from
it, and what it is told counts for nothing. So of its deliveries only that they are genuine is judged, and its clients' answers are passed
over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tests.simulation.checker import Checker, Finding, QueueRules, Timing
from tests.simulation.history import Crashed, Delivered, Event, Started
from tests.simulation.judged import Stored

HEARD_SECONDS: Final = 0.3
"""From when a leader hears something until it has appended what comes of it: some turns of its loop, and for acknowledgements longer."""


@dataclass(slots=True)
class Leads:
    """Who has led.

    Attributes:
        lives: the process of each lead, in order.
        connections: the process that each connection of a client's is to.
        settled: by process, until when all that it had heard is committed.
    """

    lives: list[str] = field(default_factory=list)
    connections: dict[int, str] = field(default_factory=dict)
    settled: dict[str, list[float]] = field(default_factory=dict)

    def settled_before(self, process: str, time: float) -> float:
        """Until when what a process had heard was committed when something happened; 0 where nothing is known."""
        return max((each for each in self.settled.get(process, ()) if each <= time), default=0.0)


@dataclass(frozen=True, slots=True)
class _Late:
    """A delivery of a leader behind which another one leads."""

    time: float
    delivered: Delivered


class ClusterChecker(Checker):
    """Follows one history.

    Args:
        rules: of the queues.
        timing: how long a leader may take.
        leads: who has led.
    """

    def __init__(self, rules: Mapping[str, QueueRules], timing: Timing, leads: Leads) -> None:
        super().__init__(rules, timing)
        self._leads = leads
        self._current = ""

    def check(self, events: Sequence[Event]) -> list[Finding]:
        """Judge a whole history."""
        found = [each for each in map(self._of_leader, events) if each is not None]
        self._current = ""
        return super().check(found)  # type: ignore[arg-type]  # what is late falls through all but this class

    def _of_leader(self, event: Event) -> Event | _Late | None:
        """What counts; deliveries of who leads no more are noted as such."""
        if isinstance(event, Started):
            self._current = self._leads.lives[event.life - 1]
        connection = getattr(event, "connection", None)
        if connection is None or self._leads.connections.get(connection) == self._current:
            return event
        return _Late(event.time, event) if isinstance(event, Delivered) else None

    def _follow(self, event: Event | _Late) -> None:
        if isinstance(event, _Late):
            self._delivered_late(event.delivered)
            return
        if isinstance(event, Started):
            self._current = self._leads.lives[event.life - 1]
        super()._follow(event)

    def _delivered_late(self, event: Delivered) -> None:
        queue = self._queues[event.queue]
        for sequence, message in enumerate(event.messages, event.first):
            if self._is_genuine(queue, event, sequence, message) and sequence not in queue.stored:
                queue.stored[sequence] = Stored(message)
                queue.sequence_of[message] = sequence
                self._check_producers_order(queue, event, sequence, message)

    def _crashed(self, event: Crashed) -> None:
        settled = self._leads.settled_before(self._current, event.time)
        known = self._timing
        self._timing = replace(known, acknowledgement=event.time - settled + HEARD_SECONDS)
        super()._crashed(event)
        self._timing = known
