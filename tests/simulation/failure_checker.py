"""Judges failures: each is counted, nobody gets a message that has failed too often, and none comes before its wait is over.

Pure. The broker says with each delivery how often its messages have failed. What became of a delivery is known for certain where it was
given back in time, its lease was over, or its connection was lost; else it may have failed or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

from tests.simulation.history import Crashed, Delivered, Event, Ranges, Released, Returned, Settling, Taken, Unseen
from tests.simulation.judged import BEYOND, COUNTED, EARLY, TOLERANCE, Finding, QueueState, Stored, Timing
from tests.simulation.task_rules import TaskRules
from tests.simulation.wall import Wall

UNTRIED: Final = "CANCEL, and what it held was not tried"
"""Why a connection ends whose client has touched nothing of what it still has."""
UNCOUNTED: Final = frozenset({UNTRIED, "ERROR shutting-down", "the taker ends"})
UNKNOWN: Final = 1_000_000


@dataclass(slots=True)
class _Failures:
    """What is known of one message.

    Attributes:
        least, most: how often it has failed by now; no bound where ``most`` is None.
        due: the time of day before which it does not come again.
        held: whether what becomes of its last delivery is open.
        said: what the last delivery said, and when.
        failed_at: when it has failed since, for certain.
        releases: connections that were let go when it was last delivered: others may have had it, and never have heard of it.
    """

    least: int
    most: int | None
    due: float
    held: bool
    said: tuple[int, float]
    failed_at: float | None
    releases: int


class FailureRules:
    """Follows one history.

    Args:
        queues: what the checker knows.
        timing: how long the broker may take.
        findings: where to put what is found.
        wall: the time of day.
    """

    def __init__(self, queues: Mapping[str, QueueState], timing: Timing, findings: list[Finding], wall: Wall) -> None:
        self._queues = queues
        self._timing = timing
        self._findings = findings
        self._wall = wall
        self._known: dict[str, dict[int, _Failures]] = {}
        self._releases = 0
        self._gone: dict[int, None] = {}

    def before(self, event: Event) -> None:
        """An event that the checker has not heard of."""
        match event:
            case Delivered() | Taken():
                if (rules := self._rules(event.queue)) is not None:
                    self._delivered(rules, event)
            case Returned():
                if (rules := self._rules(event.queue)) is not None:
                    self._returned(rules, event)
            case Released():
                self._released(event)
            case Settling() | Unseen():
                self._settled(event)
            case Crashed():
                self._crashed(event)
            case _:
                pass

    def may_have_failed(self, name: str, message: str) -> int:
        """How often a message of a queue may have failed by now; more than anybody counts where that is not known."""
        queue = self._queues[name]
        sequence = queue.sequence_of.get(message)
        known = None if sequence is None else self._known.get(name, {}).get(sequence)
        if known is None:
            return UNKNOWN if self._releases else 0
        return UNKNOWN if known.most is None or known.releases != self._releases else known.most

    # Inside

    def _rules(self, name: str) -> TaskRules | None:
        rules = self._queues[name].rules.tasks
        return rules if rules is not None and rules.counts_failures else None

    def _delivered(self, rules: TaskRules, event: Delivered | Taken) -> None:
        queue, now, said = self._queues[event.queue], event.time, event.failures
        known = self._known.setdefault(event.queue, {})
        if rules.max_failures is not None and said >= rules.max_failures:
            text = f"{event.queue}/{event.first} has failed {said} times, of {rules.max_failures}, and is given"
            self._find(BEYOND, now, text)
        for index, message in enumerate(event.messages):
            sequence = event.first + index
            before, stored = known.get(sequence), queue.stored.get(sequence)
            if before is not None and stored is not None:
                if before.held and stored.holder is not None:
                    self._lease_over(rules, before, stored)
                self._judge(before, event, f"{event.queue}/{sequence} {message}")
            gone = event.connection in self._gone
            known[sequence] = _Failures(said, said + 1, 0.0, not gone, (said, now), None, self._releases)

    def _judge(self, before: _Failures, event: Delivered | Taken, what: str) -> None:
        said = event.failures
        # What was given to a connection that is gone may never have been written.
        most = before.most if before.releases == self._releases else None
        if said < before.least or (most is not None and said > most):
            text = f"{what} has failed {said} times, where {before.least} to {most} are possible"
            self._find(COUNTED, event.time, text)
        if (shown := self._wall.at(event.time)) < before.due - TOLERANCE:
            self._find(EARLY, event.time, f"{what} has failed, and waits until {before.due:.6f}; it is {shown:.6f}")

    def _lease_over(self, rules: TaskRules, before: _Failures, stored: Stored) -> None:
        """It is given again while somebody had it: too long, which is a failure."""
        if stored.maybe_returned or stored.answered_late is not None or stored.lease_latest > stored.lease_until:
            _unsure(before)
        else:
            since = stored.lease_until - self._timing.commit
            self._failed(before, since, self._wall.at(since) + rules.wait(before.least + 1))

    def _returned(self, rules: TaskRules, event: Returned) -> None:
        for before, stored in self._held(event.queue, event.connection, event.ranges):
            in_time = self._timing.is_leased(stored, event.time)
            if not in_time or (event.failed and not event.delay):
                self._waits(rules, before, stored, event.time)
            if not in_time:
                # Whether it was in time is not known.
                _unsure(before)
            elif event.failed:
                wait = 0.0 if event.delay else rules.wait(before.least + 1)
                self._failed(before, event.time, self._wall.at(event.time) + wait)
            else:
                before.held, before.most = False, before.least

    def _settled(self, event: Settling | Unseen) -> None:
        queue, rules = self._queues[event.queue], self._rules(event.queue)
        for sequence, _ in event.taken:
            known = self._known.get(event.queue, {}).get(sequence)
            if rules is None or known is None or getattr(event, "how", "") == "extend":
                continue
            stored = queue.stored.get(sequence)
            if known.held and stored is not None and getattr(event, "how", "") != "acknowledge":
                # What nobody has seen has not failed, nor does what is given back with a delay wait longer, unless its lease was over.
                fails = isinstance(event, Settling) and not event.seconds
                if fails or not self._timing.is_leased(stored, event.time):
                    self._waits(rules, known, stored, event.time)
            _unsure(known)

    def _waits(self, rules: TaskRules, before: _Failures, stored: Stored, failed: float) -> None:
        """It may have failed, at this time at the latest, and then waits to be tried again."""
        stored.waits = max(stored.waits, failed + rules.longest_wait(before.said[0] + 1))

    def _released(self, event: Released) -> None:
        self._gone[event.connection] = None
        self._releases += 1
        for name, queue in self._queues.items():
            if (rules := self._rules(name)) is None:
                continue
            ranges = tuple((sequence, 1) for sequence in queue.held.get(event.connection, ()))
            for before, stored in self._held(name, event.connection, ranges):
                in_time = self._timing.is_leased(stored, event.time)
                if not in_time or event.reason not in UNCOUNTED:
                    self._waits(rules, before, stored, event.time)
                if not in_time or event.reason in UNCOUNTED:
                    _unsure(before)
                else:
                    self._failed(before, event.time, self._wall.at(event.time) + rules.wait(before.least + 1))

    def _crashed(self, event: Crashed) -> None:
        since = inf if event.how == "stopped" else event.time - self._timing.acknowledgement
        for name, known in self._known.items():
            rules, queue = self._rules(name), self._queues[name]
            for sequence, before in known.items():
                stored = queue.stored.get(sequence)
                is_held = stored is not None and stored.holder is not None
                if rules and stored and is_held and not self._timing.is_leased(stored, event.time):
                    # Its lease may have been over before.
                    self._waits(rules, before, stored, event.time)
                said, when = before.said
                failed = before.failed_at
                if failed is not None and failed < since:
                    # Both are remembered: that it has failed, and until when it waits.
                    before.held, before.most = False, None
                    continue
                # What may be forgotten now is not known at the next crash either.
                said_at = when if when < since else inf
                known[sequence] = _Failures(
                    said if when < since else 0,
                    None,
                    0.0,
                    held=False,
                    said=(said, said_at),
                    failed_at=None,
                    releases=-1,
                )

    def _held(self, name: str, connection: int, ranges: Ranges) -> Iterator[tuple[_Failures, Stored]]:
        """Of these what a connection has, and nobody has said anything of."""
        queue, known = self._queues[name], self._known.get(name, {})
        for first, count in ranges:
            for sequence in range(first, first + count):
                before, stored = known.get(sequence), queue.stored.get(sequence)
                if before is not None and before.held and stored is not None and stored.holder == connection:
                    yield before, stored

    def _failed(self, before: _Failures, at: float, due: float) -> None:
        before.held = False
        before.least += 1
        before.most = before.least
        before.failed_at, before.due = at, due

    def _find(self, kind: str, time: float, text: str) -> None:
        self._findings.append(Finding(kind, time, text))


def _unsure(before: _Failures) -> None:
    """It may have failed by now, or not."""
    if before.held:
        before.held, before.most = False, before.least + 1
