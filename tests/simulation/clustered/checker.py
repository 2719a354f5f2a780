"""Judges what clients of a cluster have seen, as of a single broker that is killed now and then: each leader is a life of it.

A leader that is cut off, or frozen, does not know yet that another one leads. What it has committed until then may still be on its way from
it, and what it is told counts for nothing. So of its deliveries only that they are genuine is judged, and its clients' answers are passed
over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tests.simulation.checker import Checker, QueueRules, Timing
from tests.simulation.history import Crashed, Delivered, Event, Started
from tests.simulation.judged import Stored

HEARD_SECONDS: Final = 0.3
"""From when a leader hears something until it has appended what comes of it: some turns of its loop, and for acknowledgements longer."""


@dataclass(slots=True)
class Leads:
    """Who has led.

    Attributes:
        lives: the process, and the epoch, of each lead whose broker stood, in order.
        connections: the process that each connection of a client's is to.
        settled: by epoch, until when all that its leader had heard is committed, as it came to be known.
    """

    lives: list[tuple[str, int]] = field(default_factory=list)
    connections: dict[int, str] = field(default_factory=dict)
    settled: dict[int, list[tuple[float, float]]] = field(default_factory=dict)

    def settled_before(self, epoch: int, time: float) -> float:
        """Until when what a leader had heard was committed when something happened; 0 where nothing is known."""
        return max((until for known, until in self.settled.get(epoch, ()) if known <= time), default=0.0)


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
        self._current, self._epoch = "", 0

    def _hear(self, event: Event) -> None:
        if isinstance(event, Started):
            self._current, self._epoch = self._leads.lives[event.life - 1]
        elif isinstance(event, Crashed):
            settled = self._leads.settled_before(self._epoch, event.time)
            self._timing.acknowledgement = event.time - settled + HEARD_SECONDS
        connection = getattr(event, "connection", None)
        if connection is None or self._leads.connections.get(connection) == self._current:
            super()._hear(event)
        elif isinstance(event, Delivered):
            self._delivered_late(event)

    def _delivered_late(self, event: Delivered) -> None:
        queue = self._queues[event.queue]
        for sequence, message in enumerate(event.messages, event.first):
            if self._is_genuine(queue, event, sequence, message) and sequence not in queue.stored:
                queue.stored[sequence] = Stored(message)
                queue.sequence_of[message] = sequence
                self._check_producers_order(queue, event, sequence, message)
