"""A queue whose clocks the test sets."""

from __future__ import annotations

from actors.batch import MessageBatch
from actors.queue.state.log import QueueLog
from actors.queue.vocabulary.events import Event
from actors.queue.vocabulary.settings import (
    QueueSettings,
)
from tests.actors.driven import Deliver, QueueState, replayed

LARGE = 10**9

HOUR = 3600.0

US = 1_000_000

NOON = 1_700_000_000 * US
"""The time of day, in microseconds since the epoch, at which the clock of deadlines shows 0."""


class Ticking:
    """A queue with a sender and a receiver, an event log, and clocks that a test moves."""

    def __init__(self, settings: QueueSettings | None = None, log: QueueLog | None = None, wall: int = NOON) -> None:
        self.events: list[Event] = []
        self.now = 0.0
        self.wall = wall
        self.queue = QueueState("q", 0, settings, log=log, record=self.record, now=0.0, wall_us=wall)
        self.attach()

    def attach(self) -> None:
        self.queue.attach_sender("s", None)
        self.queue.request_capacity("s", 10**6, LARGE)
        self.queue.attach_receiver("r")
        self.queue.take_effects()

    def record(self, event: Event) -> int:
        self.events.append(event)
        return len(self.events)

    def send(self, count: int = 1, delay: float | None = None, ttl: float | None = None) -> None:
        first = self.queue.log.next_sequence
        batch = MessageBatch.from_payloads([b"%03d" % n for n in range(first, first + count)])
        self.queue.send("s", first, batch, self.now, self.wall + round(self.now * US), delay, ttl)

    def at(self, now: float) -> None:
        """Let it be ``now``, with a tick whenever the queue asks for one, and never for nothing."""
        for _ in range(1000):
            deadline = self.queue.next_deadline()
            if deadline is None or deadline > now:
                break
            self.now = max(self.now, deadline)
            self.queue.tick(self.now)
        else:
            raise AssertionError("the queue asks for ticks without end")
        self.now = now

    def receive(self, count: int = 100) -> list[int]:
        """The numbers of what is delivered to a demand for so many, which ends with it."""
        self.queue.cancel_demand("r")
        self.queue.receive("r", count, LARGE, self.now)
        got = self.delivered()
        self.queue.cancel_demand("r")
        return got

    def drain(self) -> list[int]:
        """The numbers of what is delivered, and acknowledged."""
        got = self.receive()
        self.queue.acknowledge("r", [(number, 1) for number in got])
        return got

    def delivered(self) -> list[int]:
        numbers: list[int] = []
        for effect in self.queue.take_effects():
            if isinstance(effect, Deliver):
                assert effect.batch.payloads.tolist() == [
                    b"%03d" % (effect.first + i) for i in range(len(effect.batch))
                ]
                numbers += range(effect.first, effect.first + len(effect.batch))
        return numbers

    def counts(self) -> tuple[int, int, int]:
        """Messages ready and delayed, and expired so far."""
        statistics = self.queue.statistics(self.now)
        in_flight = statistics.in_flight + statistics.reserved + statistics.leaving
        assert statistics.ready + statistics.delayed + in_flight == statistics.stored_messages
        return statistics.ready, statistics.delayed, statistics.total_expired


def restarted(q: Ticking, wall: int, settings: QueueSettings | None = None) -> Ticking:
    """The queue after a restart from its events, at the time 0 of a new clock of deadlines."""
    return Ticking(settings or q.queue.settings, replayed(q.events), wall)
