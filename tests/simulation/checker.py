"""Judges a history: was anything acknowledged lost, duplicated, reordered, made up, brought back, or delivered at the wrong time?

Pure: a history in, findings out. It follows each message through the queue as the protocol promises it, and where the history does not
determine what the broker knew (an acknowledgement that a crash may have overtaken), it lets both pass.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from tests.simulation.group_checker import GroupRules
from tests.simulation.history import (
    Acknowledged,
    Arrived,
    Confirmed,
    Crashed,
    Deleted,
    Delivered,
    Drained,
    Event,
    Extended,
    Handled,
    Offered,
    Ranges,
    Refused,
    Released,
    Returned,
    Taken,
)
from tests.simulation.id_checker import IdRules
from tests.simulation.judged import (
    BEYOND,
    COUNTED,
    DUPLICATED,
    EARLY,
    EXPIRED,
    GOOD_RECEIPT,
    GROUP_SHARED,
    LOST,
    OLD_RECEIPT,
    PHANTOM,
    REORDERED,
    RESURRECTED,
    SHARED,
    STUCK,
    TOLERANCE,
    UNCOMMITTED,
    Finding,
    QueueRules,
    QueueState,
    Stored,
    Timing,
)
from tests.simulation.take_checker import TakeRules
from tests.simulation.task_checker import TaskChecks
from tests.simulation.transaction_checker import TransactionRules

__all__ = [
    "BEYOND",
    "COUNTED",
    "DUPLICATED",
    "EARLY",
    "EXPIRED",
    "GOOD_RECEIPT",
    "GROUP_SHARED",
    "LOST",
    "OLD_RECEIPT",
    "PHANTOM",
    "REORDERED",
    "RESURRECTED",
    "SHARED",
    "STUCK",
    "UNCOMMITTED",
    "Checker",
    "Finding",
    "QueueRules",
    "Timing",
    "check",
]


class Checker:
    """Follows one history.

    Attributes:
        findings: what was found so far.
    """

    def __init__(self, rules: Mapping[str, QueueRules], timing: Timing) -> None:
        self.findings: list[Finding] = []
        self._queues = {name: QueueState(rule) for name, rule in rules.items()}
        self._timing = timing
        self._transactions = TransactionRules(self._queues, self.findings, self._came)
        self._gone: dict[int, None] = {}
        self._tasks = TaskChecks(self._queues, timing, self.findings)
        self._takes = TakeRules(self._queues, timing, self.findings)
        self._groups = GroupRules(self._queues, timing, self.findings)
        self._ids = IdRules(self._queues, self.findings)
        self._latest: dict[int, tuple[float, list[Stored]]] = {}

    def check(self, events: Sequence[Event]) -> list[Finding]:
        """Judge a whole history."""
        for event in events:
            self._hear(event)
        self._transactions.check(events[-1].time if events else 0.0)
        self._ids.check(events[-1].time if events else 0.0)
        for name, queue in self._queues.items():
            self._check_nothing_lost(name, queue, events[-1].time if events else 0.0)
        self._tasks.check(events[-1].time if events else 0.0)
        return self.findings

    def _hear(self, event: Event) -> None:
        self._groups.follow(event)
        self._ids.follow(event)
        self._tasks.before(event)
        self._follow(event)

    def _follow(self, event: Event) -> None:
        match event:
            case Offered():
                queue = self._queues[event.queue]
                for index, message in enumerate(event.messages):
                    queue.offered[message] = (event.producer, event.number + index)
            case Arrived():
                for message in event.messages:
                    self._queues[event.queue].arrivals.setdefault(message, []).append(event)
            case Confirmed():
                self._queues[event.queue].confirmed.update(dict.fromkeys(event.messages, event.time))
            case Refused():
                self._queues[event.queue].refused.update(dict.fromkeys(event.messages))
            case Delivered() | Taken():
                self._delivered(event)
            case Deleted():
                self._queues[event.queue].deleted_at, self._queues[event.queue].doomed = event.time, True
            case Handled():
                self._handled(event)
            case Acknowledged():
                self._acknowledged(event)
            case Returned():
                for sequence, stored in self._held(event.queue, event.connection, event.ranges):
                    stored.waits = max(stored.waits, event.time + event.delay)
                    if self._timing.is_leased(stored, event.time):
                        # What had expired was receivable again already, and stays so.
                        stored.not_before = event.time + event.delay
                    elif self._timing.is_late(stored, event.time):
                        stored.answered_late = event.time, event.connection, None
                    self._queues[event.queue].let_go(sequence, stored, event.time)
            case Extended():
                for _, stored in self._held(event.queue, event.connection, event.ranges):
                    if self._timing.is_leased(stored, event.time):
                        stored.lease_until = event.time + event.seconds
                    elif self._timing.is_late(stored, event.time):
                        stored.answered_late = event.time, event.connection, event.time + event.seconds
                    else:
                        stored.lease_until = min(stored.lease_until, event.time + event.seconds)
            case Released():
                self._released(event)
            case Crashed():
                self._crashed(event)
            case Drained() if event.stored:
                self._find(
                    STUCK, event.time, f"{event.stored} messages of {event.queue} were never delivered to the end"
                )
            case _:
                self._transactions.follow(event)
                self._takes.follow(event)

    # Deliveries

    def _delivered(self, event: Delivered | Taken) -> None:
        queue = self._queues[event.queue]
        flagged = event.possibly_replayed or event.delivery_count > 1
        # What was on its way when the connection was let go still crosses the wire, and is nobody's.
        is_held = event.connection not in self._gone
        if is_held and queue.receiver not in (None, event.connection) and self._is_anothers(queue, event):
            text = f"{event.queue} is delivered to connection {event.connection} while {queue.receiver} has it"
            self._find(SHARED, event.time, text)
        if is_held and not (queue.rules.single and isinstance(event, Taken)):
            queue.receiver = event.connection
        for index, message in enumerate(event.messages):
            sequence = event.first + index
            if not self._is_genuine(queue, event, sequence, message):
                continue
            stored = queue.stored.get(sequence)
            if stored is None:
                stored = queue.stored[sequence] = Stored(message)
                queue.sequence_of[message] = sequence
                self._check_producers_order(queue, event, sequence, message)
            elif not flagged and stored.went_back is None:
                self._find(DUPLICATED, event.time, f"{event.queue}/{sequence} {message} again, and not marked")
            if not flagged:
                self._check_first_delivery(queue, event, sequence, stored)
            self._check_times(event, sequence, stored)
            if is_held and queue.rules.groups:
                own_time = self._has_its_own_time(queue, event.queue, message)
                self._groups.delivered(event.queue, stored, event, sequence, has_its_own_time=own_time)
            self._takes.delivered(queue, stored, event, sequence)
            self._queues[event.queue].let_go(sequence, stored, event.time)
            if not is_held:
                continue
            stored.holder = event.connection
            stored.lease_until, stored.lease_latest = self._takes.lease(queue, event)
            self._heed_late_answer(stored, event)
            queue.held.setdefault(event.connection, {})[sequence] = None

    def _is_anothers(self, queue: QueueState, event: Delivered | Taken) -> bool:
        """Whether nobody but who has the queue may get anything."""
        if queue.rules.single and isinstance(event, Delivered):
            held = queue.held.get(queue.receiver or 0, ())
            return any(self._timing.is_leased(queue.stored[sequence], event.time) for sequence in held)
        return queue.rules.in_order

    def _is_genuine(self, queue: QueueState, event: Delivered | Taken, sequence: int, message: str) -> bool:
        origins = [queue, *(self._queues[name] for name in queue.rules.fed_by)]
        if not any(message in origin.offered for origin in origins):
            self._find(PHANTOM, event.time, f"{event.queue}/{sequence} is {message}, which nobody sent")
            return False
        for name in (event.queue, *queue.rules.fed_by):
            if self._transactions.is_uncommitted(name, message):
                self._find(UNCOMMITTED, event.time, f"{event.queue}/{sequence} {message} was staged and not committed")
                return False
        refused = [name for name in (event.queue, *queue.rules.fed_by) if message in self._queues[name].refused]
        if any(not self._tasks.was_refused(event.queue, name) for name in refused):
            self._find(PHANTOM, event.time, f"{event.queue}/{sequence} is {message}, which was refused")
            return False
        stored = queue.stored.get(sequence)
        if stored is not None and stored.message != message:
            self._find(PHANTOM, event.time, f"{event.queue}/{sequence} was {stored.message} and is {message} now")
            return False
        if self._tasks.came_again(event.queue, message):
            return True
        for name in (event.queue, *queue.rules.fed_by):
            if (elsewhere := self._fed_from(name, message)) not in (None, event.queue):
                self._find(DUPLICATED, event.time, f"{event.queue}/{sequence} {message} is in {elsewhere} already")
                return False
        known = queue.sequence_of.get(message)
        if known is not None and known != sequence:
            self._find(DUPLICATED, event.time, f"{message} is {event.queue}/{known}, and {event.queue}/{sequence} too")
            return False
        return True

    def _check_producers_order(self, queue: QueueState, event: Delivered | Taken, sequence: int, message: str) -> None:
        """What one producer sent first has the lower number in the queue."""
        if message not in queue.offered or queue.rules.fed_by:
            return
        producer, number = queue.offered[message]
        order = queue.numbers.setdefault(producer, [])
        at = bisect_left(order, (sequence, number))
        if (at > 0 and order[at - 1][1] > number) or (at < len(order) and order[at][1] < number):
            self._find(REORDERED, event.time, f"{event.queue}/{sequence} {message} is not in {producer}'s order")
        insort(order, (sequence, number))

    def _check_first_delivery(self, queue: QueueState, event: Delivered | Taken, sequence: int, stored: Stored) -> None:
        rules, message = queue.rules, stored.message
        arrivals = queue.arrivals.get(message, [])
        if not rules.groups and not self._has_its_own_time(queue, event.queue, message):
            # With delays what comes later may be ready sooner, and a transaction has its place from before its commit.
            level = self._tasks.level(event.queue, message)
            for whose in (event.connection, "anyone") if rules.in_order else (event.connection,):
                since = self._takes.overtaken_since(stored)
                if (
                    other := queue.overtaker(whose if level is None else (whose, level), sequence, event.time, since)
                ) is not None:
                    self._find(REORDERED, event.time, f"{event.queue}/{sequence} {message} after {other}, to {whose}")
        ready = self._tasks.ready_at(event.queue, message)
        if ready and self._tasks.wall.at(event.time) < min(ready) - TOLERANCE:
            self._find(EARLY, event.time, f"{event.queue}/{sequence} {message}, delayed until {min(ready):.6f}")
        expiries = [
            arrived.time + min(ttl for ttl in (rules.ttl, arrived.ttl) if ttl is not None)
            for arrived in arrivals
            if rules.ttl is not None or arrived.ttl is not None
        ]
        if expiries and len(expiries) == len(arrivals) and event.time > max(expiries) + self._timing.commit + TOLERANCE:
            self._find(EXPIRED, event.time, f"{event.queue}/{sequence} {message} expired at {max(expiries):.6f}")

    def _has_its_own_time(self, queue: QueueState, name: str, message: str) -> bool:
        """Whether others that came behind it may be ready before."""
        delays = [arrived.at or arrived.delay for arrived in queue.arrivals.get(message, ())]
        delayed = any(queue.rules.delay if delay is None else delay for delay in delays)
        return bool(queue.rules.delay) or delayed or self._transactions.is_staged(name, message)

    def _check_times(self, event: Delivered | Taken, sequence: int, stored: Stored) -> None:
        at, now = f"{event.queue}/{sequence} {stored.message}", event.time
        done = stored.acknowledged_at
        if done is not None and now > done + self._timing.commit + TOLERANCE:
            self._find(RESURRECTED, now, f"{at} was acknowledged at {done:.6f}")
        elif done is not None:
            # It was on its way when the acknowledgement came, which so came too late.
            stored.acknowledged_at = None
            stored.maybe_acknowledged = True
        if stored.holder is not None and self._timing.is_leased(stored, now):
            self._find(EARLY, now, f"{at} is held by connection {stored.holder} until {stored.lease_until:.6f}")
        if now < stored.not_before - TOLERANCE:
            self._find(EARLY, now, f"{at} was given back until {stored.not_before:.6f}")

    def _handled(self, event: Handled) -> None:
        """What a program sees is what the broker wrote."""
        stored = self._queues[event.queue].stored.get(event.sequence)
        if stored is None or stored.message != event.message:
            found = "nothing" if stored is None else stored.message
            text = f"a program got {event.message} as {event.queue}/{event.sequence}, where the broker wrote {found}"
            self._find(PHANTOM, event.time, text)

    # Answers

    def _acknowledged(self, event: Acknowledged) -> None:
        queue = self._queues[event.queue]
        when, answered = self._latest.get(event.connection, (0.0, []))
        if when != event.time:
            answered = []
        self._latest[event.connection] = event.time, answered
        for first, count in event.ranges:
            for sequence in range(first, first + count):
                stored = queue.stored.get(sequence)
                if stored is None or stored.acknowledged_at is not None:
                    continue
                is_free = stored.holder is None and not _just_left(stored, event)
                may_move = queue.rules.moves and not self._timing.is_leased(stored, event.time)
                if (stored.holder == event.connection or is_free) and not may_move:
                    # Too late or in time: nobody else holds it, so it is done.
                    stored.acknowledged_at = event.time
                    queue.recent.append(sequence)
                    answered.append(stored)
                    self._queues[event.queue].let_go(sequence, stored, event.time)
                else:
                    # Somebody else has it, had it until just now, or is moving it.
                    stored.maybe_acknowledged = True

    def _released(self, event: Released) -> None:
        connection = event.connection
        self._takes.released(connection)
        self._gone[connection] = None
        when, answered = self._latest.pop(connection, (0.0, []))
        if (event.reason == "aborted" or event.reason.startswith("ERROR")) and when == event.time:
            # What was refused may have been just this acknowledgement. And of what comes in the instant in which its connection is reset,
            # the broker looks at as much as fits its turn.
            for stored in answered:
                stored.acknowledged_at = None
                stored.maybe_acknowledged = True
        for queue in self._queues.values():
            for sequence in list(queue.held.get(connection, ())):
                queue.let_go(sequence, queue.stored[sequence], event.time)
            queue.held.pop(connection, None)
            if queue.receiver == connection:
                queue.receiver = None
            queue.first_deliveries.pop(connection, None)

    def _crashed(self, event: Crashed) -> None:
        self._takes.crashed(event)
        for queue in self._queues.values():
            queue.held.clear()
            queue.receiver = None
            for stored in queue.stored.values():
                stored.holder = None
                stored.not_before = 0.0
                if not queue.rules.counts_failures:
                    stored.waits = 0.0
                # Deliveries that have not failed are forgotten.
                stored.delivery, stored.least, stored.most = 0, 1, None
            if queue.deleted_at is not None and queue.deleted_at > event.time - self._timing.acknowledgement:
                # That it was deleted may be forgotten too.
                queue.deleted_at = None
            if event.how == "stopped":
                continue
            kept = []
            for sequence in queue.recent:
                stored = queue.stored[sequence]
                done = stored.acknowledged_at
                if done is not None and done > event.time - self._timing.acknowledgement:
                    stored.acknowledged_at = None
                    stored.maybe_acknowledged = True
                else:
                    kept.append(sequence)
            queue.recent = kept

    def _held(self, name: str, connection: int, ranges: Ranges) -> Iterator[tuple[int, Stored]]:
        queue = self._queues[name]
        for first, count in ranges:
            for sequence in range(first, first + count):
                stored = queue.stored.get(sequence)
                if stored is not None and stored.holder == connection:
                    yield sequence, stored

    def _heed_late_answer(self, stored: Stored, event: Delivered | Taken) -> None:
        """What this receiver said of the delivery before may have counted for this one, and for no other.

        The lease ended, the message was given to the same receiver again, and while that was becoming durable the receiver's answer came:
        it names the message, not the delivery.
        """
        late, stored.answered_late = stored.answered_late, None
        stored.maybe_returned = False
        if late is None or late[1] != event.connection or event.time > late[0] + self._timing.commit + TOLERANCE:
            return
        if late[2] is None:
            stored.maybe_returned = True
        else:
            stored.lease_until = min(stored.lease_until, late[2])

    # The end

    def _came(self, queue: str, message: str) -> bool:
        """Whether a message was delivered, from its queue or from one that it feeds."""
        return message in self._queues[queue].sequence_of or self._fed_from(queue, message) is not None

    def _check_nothing_lost(self, name: str, queue: QueueState, end: float) -> None:
        gone, is_duplicate = partial(self._is_gone_elsewhere, name, queue), self._ids.is_duplicate
        for message, when in queue.confirmed.items():
            sequence = queue.sequence_of.get(message)
            if self._is_gone_elsewhere(name, queue, message):
                continue
            if queue.doomed:
                continue
            if sequence is None and (is_duplicate(name, message, gone) or self._tasks.is_missing(name)):
                continue
            if sequence is None:
                self._find(LOST, end, f"{message} of {name} was confirmed at {when:.6f} and never delivered")
                continue
            stored = queue.stored[sequence]
            if stored.acknowledged_at is None and not stored.maybe_acknowledged and not self._tasks.is_missing(name):
                self._find(LOST, end, f"{name}/{sequence} {message} was confirmed, delivered, and never acknowledged")

    def _is_gone_elsewhere(self, name: str, queue: QueueState, message: str) -> bool:
        """Whether it has expired, or has left for a queue that this one feeds."""
        if not queue.rules.drops:
            return False
        if queue.rules.ttl is not None or any(arrived.ttl is not None for arrived in queue.arrivals.get(message, ())):
            return True
        return self._fed_from(name, message) is not None

    def _fed_from(self, name: str, message: str) -> str | None:
        """The queue that it was delivered from, of those that ``name`` feeds; None for none."""
        feeds = (each for each, other in self._queues.items() if name in other.rules.fed_by)
        return next((each for each in feeds if message in self._queues[each].sequence_of), None)

    def _find(self, kind: str, time: float, text: str) -> None:
        self.findings.append(Finding(kind, time, text))


def _just_left(stored: Stored, event: Acknowledged) -> bool:
    """Whether somebody else let go of it in this very instant: in what order the queue heard of that and of the answer is not known."""
    return stored.left is not None and stored.left[0] == event.time and stored.left[1] != event.connection


def check(events: Sequence[Event], rules: Mapping[str, QueueRules], timing: Timing | None = None) -> list[Finding]:
    """What is wrong with a history; nothing, if the broker kept its promises."""
    return Checker(rules, timing or Timing()).check(events)
