"""Judges what a queue does with tasks: levels, limits that drop, failures that count, and delays by the time of day.

Pure. It is a part of the checker, hears of each event before that does, and shares what it knows of each message.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping

from tests.simulation.failure_checker import FailureRules
from tests.simulation.history import Arrived, Delivered, DroppedInAll, Event, Leapt, Staged
from tests.simulation.judged import BURIED, DROPPED, TOLERANCE, Finding, QueueState, Timing
from tests.simulation.order_checker import OrderRules
from tests.simulation.task_rules import TaskRules
from tests.simulation.wall import START, Wall

EXPIRED, MAX_RECEIVES, MAXLEN = "expired", "max-receives", "maxlen"
"""Why a message is a dead letter, in the product's words."""
NONE = TaskRules()


class TaskChecks:
    """Follows one history.

    Args:
        queues: what the checker knows.
        timing: how long the broker may take.
        findings: where to put what is found.

    Attributes:
        wall: the time of day.
    """

    def __init__(self, queues: Mapping[str, QueueState], timing: Timing, findings: list[Finding]) -> None:
        self.wall = Wall()
        self._queues = queues
        self._timing = timing
        self._findings = findings
        self._failures = FailureRules(queues, timing, findings, self.wall)
        self._order = OrderRules(queues, timing, findings, self._level_there, self._waits, self.wall)
        # Of each queue when its messages came, and when those were dropped of which that is known.
        self._came: dict[str, dict[str, float]] = {}
        self._full: dict[str, dict[str, float]] = {}
        self._buried_at: dict[str, dict[str, float]] = {}
        self._missing: dict[str, int] = {}
        self._dropped: dict[str, int] = {}

    def before(self, event: Event) -> None:
        """An event that the checker has not heard of."""
        match event:
            case Leapt():
                self.wall.leapt(event.time, event.seconds)
            case Arrived() | Staged():
                came = self._came.setdefault(event.queue, {})
                for message in event.messages:
                    came.setdefault(message, event.time)
            case DroppedInAll():
                self._dropped[event.queue] = event.total
            case Delivered():
                self._buried(event)
            case _:
                pass
        self._failures.before(event)
        self._order.before(event)

    def check(self, end: float) -> None:
        """At the end, when all that is missing was told."""
        self._order.check()
        for name, dropped in self._full.items():
            self._check_room(name, dropped)
        for name, missing in self._missing.items():
            if missing > (dropped := self._dropped.get(name, 0)):
                text = f"{missing} messages of {name} were confirmed and are gone, and {dropped} were dropped"
                self._findings.append(Finding(DROPPED, end, text))

    def level(self, name: str, message: str) -> int | None:
        """The level of a message; None where a queue has no levels."""
        rules = self._rules(name)
        return None if rules.max_priority is None else self._level_there(name, message)

    def is_missing(self, name: str) -> bool:
        """A confirmed message of a queue is nowhere: whether it may have been dropped, which is counted."""
        if not self._rules(name).vanishes:
            return False
        self._missing[name] = self._missing.get(name, 0) + 1
        return True

    def was_refused(self, name: str, origin: str) -> bool:
        """Whether a queue may have what another refused."""
        return self._rules(name).dead_of == origin and self._rules(origin).refused_die

    def came_again(self, name: str, message: str) -> bool:
        """Whether a queue, or that of which it has dead letters, may have refused a message, and been sent it again."""
        names = (name, *self._queues[name].rules.fed_by)
        return any(
            self._rules(each).refused_die and len(self._queues[each].arrivals.get(message, ())) > 1 for each in names
        )

    def ready_at(self, name: str, message: str) -> list[float]:
        """The times of day at which a message may be ready for the first time, one for each time that it came."""
        rules = self._queues[name].rules
        return [
            self.wall.at(arrived.time) + (rules.delay if arrived.delay is None else arrived.delay)
            if arrived.at is None
            else arrived.at - START
            for arrived in self._queues[name].arrivals.get(message, ())
        ]

    def _waits(self, name: str, message: str) -> bool:
        queue = self._queues[name]
        arrivals = queue.arrivals.get(message)
        if arrivals is None or queue.rules.fed_by:
            return True
        return any(
            each.at is not None or (queue.rules.delay if each.delay is None else each.delay) for each in arrivals
        )

    # Inside

    def _rules(self, name: str) -> TaskRules:
        return self._queues[name].rules.tasks or NONE

    def _level_there(self, name: str, message: str) -> int:
        rules = self._rules(name)
        if rules.dead_of is not None:
            # It is a dead letter by the level that it had.
            return rules.level(self._level_there(rules.dead_of, message))
        arrivals = self._queues[name].arrivals.get(message)
        return rules.level(arrivals[0].priority) if arrivals else 0

    def _buried(self, event: Delivered) -> None:
        """Dead letters have the reason that they have, and their queue nothing else."""
        name, origin = event.queue, self._rules(event.queue).dead_of
        if origin is None:
            return
        at = self.wall.first(event.stored_us / 1e6 - START)
        for index, message in enumerate(event.messages):
            sequence = event.first + index
            if sequence in self._queues[name].stored:
                continue
            reason, of = event.deaths[index] if event.deaths else ("", "")
            what = f"{name}/{sequence} {message}, of {of or 'nobody'} for {reason or 'nothing'}"
            if of != origin or not self._may_be(origin, message, reason, at):
                self._findings.append(Finding(BURIED, event.time, f"{what}, cannot be there since {at:.6f}"))
            elif reason == MAXLEN and self._rules(origin).drops_head:
                self._order.dropped(origin, message, at)
                self._full.setdefault(origin, {})[message] = at
            self._buried_at.setdefault(origin, {})[message] = at

    def _may_be(self, origin: str, message: str, reason: str, at: float) -> bool:
        """Whether a message may have died of that."""
        queue, rules = self._queues[origin], self._rules(origin)
        if reason == MAXLEN:
            return rules.drops_head or rules.refused_die
        if reason == EXPIRED:
            arrivals = queue.arrivals.get(message, ())
            times = [(each, [ttl for ttl in (queue.rules.ttl, each.ttl) if ttl is not None]) for each in arrivals]
            if not arrivals:
                return queue.rules.ttl is not None
            shown = self.wall.at(at) + TOLERANCE
            return any(ttls and self.wall.at(each.time) + min(ttls) <= shown for each, ttls in times)
        if reason != MAX_RECEIVES or rules.max_failures is None:
            return False
        return self._failures.may_have_failed(origin, message) >= rules.least_failures

    def _check_room(self, name: str, dropped: Mapping[str, float]) -> None:
        """What was dropped was too much: with it more was there than may be ready."""
        queue, room = self._queues[name], self._rules(name).room
        if room is None:
            return
        slack = self._timing.commit + TOLERANCE
        came = sorted(self._came.get(name, {}).values())
        left = sorted(
            time
            for message in self._came.get(name, {})
            if (time := self._left_at(queue, message, self._buried_at.get(name, {}))) is not None
        )
        for message, at in dropped.items():
            there = bisect_right(came, at + slack) - bisect_left(left, at - slack)
            if there <= room:
                text = f"{message} of {name} was dropped at {at:.6f}, when {there} were there, and there is room for {room}"
                self._findings.append(Finding(DROPPED, at, text))

    def _left_at(self, queue: QueueState, message: str, buried: Mapping[str, float]) -> float | None:
        """When a message was gone for good; None where that is not known."""
        if message in buried:
            return buried[message]
        sequence = queue.sequence_of.get(message)
        return None if sequence is None else queue.stored[sequence].acknowledged_at
