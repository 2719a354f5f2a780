"""Judges what a history says of takes: nobody gets more than was asked for, and a receipt settles its own delivery alone.

Pure. It is a part of the checker, and shares what that knows of each message. A take is a delivery to a taker. Which delivery it is has a
number. A queue has to count on by one from what it last gave, so that no receipt fits two deliveries. What nobody saw does not count: the
next delivery has the same number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from tests.simulation.history import (
    CommitAnswered,
    CommitAsked,
    Counted,
    Crashed,
    Delivered,
    Event,
    ReceiptTold,
    Seen,
    Settled,
    Settling,
    Started,
    TakeAnswered,
    Taken,
    Unseen,
)
from tests.simulation.judged import (
    BEYOND,
    COUNTED,
    EARLY,
    GOOD_RECEIPT,
    OLD_RECEIPT,
    RESURRECTED,
    STUCK,
    TOLERANCE,
    Finding,
    QueueState,
    Stored,
    Timing,
)

STALE, FOREIGN = "stale-receipt", "foreign-receipt"
"""Codes of the product, which programs go by."""


@dataclass(slots=True)
class _Asked:
    """A request to settle that is not answered: when it came, and of each delivery that it may settle whether it does so for certain."""

    asked: Settling
    fits: dict[tuple[int, int], bool] = field(default_factory=dict)
    acknowledged: list[int] = field(default_factory=list)


class TakeRules:
    """Follows the takes of one history.

    Args:
        queues: what the checker knows.
        timing: how long the broker may take.
        findings: where to put what is found.
    """

    def __init__(self, queues: Mapping[str, QueueState], timing: Timing, findings: list[Finding]) -> None:
        self._queues = queues
        self._timing = timing
        self._findings = findings
        self._settling: dict[tuple[int, int], _Asked] = {}
        self._life = 0
        self._seen: dict[str, tuple[int, int]] = {}
        # What nobody saw, by its queue, so that the next delivery has the same number; and the queues of takers.
        self._unseen_yet: dict[str, list[Stored]] = {}
        self._taker_of: dict[int, str] = {}
        # Of commits under way, by their writers: the queues of their messages. A queue hears of one a little after its log has it.
        self._committing: dict[str, list[str]] = {}

    def follow(self, event: Event) -> None:
        """What has to do with takes; all else is passed over."""
        match event:
            case Started():
                self._life = event.life
                # What a queue counts of its deliveries begins anew.
                self._seen.clear()
            case TakeAnswered():
                self._answered(event)
            case Seen():
                messages, again = self._seen.get(event.queue, (0, 0))
                self._seen[event.queue] = messages + event.messages, again + event.again
            case Unseen():
                self._unseen(event)
            case Settling():
                self._settles(event)
            case Settled():
                self._settled(event)
            case ReceiptTold():
                self._told(event)
            case CommitAsked():
                self._committing[event.writer] = [queue for queue, _ in event.messages]
            case CommitAnswered():
                self._committing.pop(event.writer, None)
            case Counted():
                self._counted(event)
            case _:
                pass

    def crashed(self, _event: Crashed) -> None:
        """Whoever settles something now is not answered.

        So nothing was promised. A broker that stops turns away who asks in that instant, and the queue may never have heard of it.
        """
        for waiting in self._settling.values():
            for sequence in waiting.acknowledged:
                stored = self._queues[waiting.asked.queue].stored[sequence]
                stored.acknowledged_at, stored.maybe_acknowledged = None, True
        self._settling.clear()
        self._committing.clear()

    def released(self, connection: int) -> None:
        """A connection is let go, or a taker of a queue ends: it may have had something since, and never have heard of it."""
        taken_by = self._taker_of.pop(connection, None)
        for name in list(self._unseen_yet):
            if taken_by == name or (taken_by is None and not self._queues[name].rules.taken_only):
                for stored in self._unseen_yet.pop(name):
                    stored.most = None

    # Deliveries

    def lease(self, queue: QueueState, event: Delivered | Taken) -> tuple[float, float]:
        """Until when a delivery is held at least, and at most."""
        rules = queue.rules
        if isinstance(event, Taken) and event.visibility is not None:
            return event.time + event.visibility, event.time + event.visibility
        longest = rules.visibility if rules.longest is None else rules.longest
        return event.time + rules.visibility, event.time + longest

    def overtaken_since(self, stored: Stored) -> float:
        """From when on nobody may have what is behind a message before it comes as if for the first time.

        What nobody saw goes back to its old place, where the next one to ask finds it. That next one may have had what is behind it:
        takes and receivers run side by side, and the queue had given it to others before it heard that this one was not seen. Some of
        that is noted only after, for deliveries may be as late as a commit. What is given later than that has no excuse.
        """
        return -inf if stored.went_back is None else stored.went_back + self._timing.commit + TOLERANCE

    def delivered(self, queue: QueueState, stored: Stored, event: Delivered | Taken, sequence: int) -> None:
        """The number of a delivery, which is noted."""
        count, at = event.delivery_count, f"{event.queue}/{sequence} {stored.message}"
        if queue.deleted_at is not None and event.time > queue.deleted_at + self._timing.commit + TOLERANCE:
            self._find(RESURRECTED, event.time, f"{at} is given, and {event.queue} was deleted at {queue.deleted_at}")
        fits = stored.least <= count <= (count if stored.most is None else stored.most)
        if isinstance(event, Taken) and not fits:
            text = f"{at} is delivery {count}, where {stored.least} to {stored.most} can be next"
            self._find(COUNTED, event.time, text)
        stored.delivery, stored.over, stored.went_back, stored.waits = count, False, None, 0.0
        stored.least = count + 1
        stored.most = count + 1 if queue.rules.taken_only and isinstance(event, Taken) else None

    def _unseen(self, event: Unseen) -> None:
        queue = self._queues[event.queue]
        for sequence, delivery in event.taken:
            stored = queue.stored.get(sequence)
            if stored is None or (stored.holder, stored.delivery) != (event.connection, delivery):
                continue
            stored.went_back, stored.least = event.time, delivery
            if self._timing.is_leased(stored, event.time):
                stored.most = delivery
                self._unseen_yet.setdefault(event.queue, []).append(stored)
            queue.let_go(sequence, stored, event.time)

    def _answered(self, event: TakeAnswered) -> None:
        self._taker_of[event.connection] = event.queue
        what = f"{event.count} messages of {event.size} bytes of {event.queue}"
        if event.count > event.messages or (event.size > event.bytes and event.count > 1):
            self._find(BEYOND, event.time, f"{what} for {event.messages} of {event.bytes}")
        over = event.asked_at + event.wait
        if not event.count and event.time < over - TOLERANCE:
            self._find(EARLY, event.time, f"nothing of {event.queue} was there for a request that waits until {over}")
        if event.time > over + self._timing.commit + TOLERANCE:
            self._find(STUCK, event.time, f"{what} for a request that waits until {over}")

    # Settlements

    def _settles(self, event: Settling) -> None:
        queue, timing, now = self._queues[event.queue], self._timing, event.time
        waiting = self._settling[event.connection, event.request] = _Asked(event)
        for sequence, delivery in event.taken:
            stored = queue.stored.get(sequence)
            if stored is None or stored.delivery != delivery or stored.over:
                continue
            if stored.holder != event.connection or now > stored.lease_latest + TOLERANCE:
                continue
            leased = timing.is_leased(stored, now)
            waiting.fits[sequence, delivery] = leased
            if event.how == "return":
                stored.waits = max(stored.waits, now + event.seconds)
            if event.how == "extend":
                until = now + event.seconds
                stored.lease_until = until if leased else min(stored.lease_until, until)
                stored.lease_latest = max(stored.lease_latest, until)
            elif event.how == "acknowledge":
                stored.maybe_acknowledged = True
                if leased:
                    stored.over = True
                    self._acknowledge(queue, waiting, sequence, stored)
            elif leased:
                stored.over = True
                stored.not_before = now + event.seconds
                queue.let_go(sequence, stored, now)

    def _acknowledge(self, queue: QueueState, waiting: _Asked, sequence: int, stored: Stored) -> None:
        if stored.acknowledged_at is None:
            stored.acknowledged_at = waiting.asked.time
            queue.recent.append(sequence)
            waiting.acknowledged.append(sequence)
        queue.let_go(sequence, stored, waiting.asked.time)

    def _settled(self, event: Settled) -> None:
        waiting = self._settling.pop((event.connection, event.request))
        asked, queue = waiting.asked, self._queues[event.queue]
        for sequence, delivery in asked.taken:
            stored, fits = queue.stored.get(sequence), waiting.fits.get((sequence, delivery))
            at = f"delivery {delivery} of {event.queue}/{sequence}"
            if (sequence, delivery) in event.lost:
                if fits and not queue.doomed:
                    self._find(GOOD_RECEIPT, event.time, f"{at} was held, and could not be settled by {asked.how}")
                if stored is not None and sequence in waiting.acknowledged:
                    stored.acknowledged_at = None
                    stored.maybe_acknowledged = True
                continue
            if fits is None:
                self._find(OLD_RECEIPT, event.time, f"{at} was over, and settled all the same by {asked.how}")
            if stored is None or stored.delivery != delivery or fits or asked.how == "extend":
                continue
            # It was not certain whether it would be in time, and it was.
            stored.over = True
            if asked.how == "acknowledge":
                self._acknowledge(queue, waiting, sequence, stored)
            else:
                stored.not_before = asked.time + asked.seconds
                queue.let_go(sequence, stored, asked.time)

    def _told(self, event: ReceiptTold) -> None:
        at = f"a receipt of delivery {event.delivery} of {event.made_in}/{event.number} in {event.queue}"
        if event.life != self._life:
            wanted = STALE
        elif event.made_in != event.queue:
            wanted = FOREIGN
        else:
            if event.code in (STALE, FOREIGN):
                self._find(GOOD_RECEIPT, event.time, f"{at} is taken for {event.code}")
            elif event.code is None and event.how == "acknowledge":
                # Whoever is told may forget it: no crash brings it back.
                queue = self._queues[event.queue]
                if event.number in queue.recent:
                    queue.recent.remove(event.number)
            return
        if event.code != wanted:
            text = f"{at}, of life {event.life} in life {self._life}, was answered {event.code}, not {wanted}"
            self._find(OLD_RECEIPT, event.time, text)

    # What a queue says of itself

    def _counted(self, event: Counted) -> None:
        name, now = event.queue, event.time
        unheard = sum(queues.count(name) for queues in self._committing.values())
        if not event.in_parts <= event.stored <= event.in_parts + unheard:
            self._find(COUNTED, now, f"{name} has {event.stored} messages, and {event.in_parts} in its parts")
        if event.total_in != event.stored + event.total_gone:
            text = f"{name} had {event.total_in}, has {event.stored}, and {event.total_gone} have gone"
            self._find(COUNTED, now, text)
        if self._queues[name].rules.taken_only:
            seen = self._seen.get(name, (0, 0))
            if (event.total_out, event.total_redelivered) != seen:
                text = f"{name} counts {event.total_out} delivered, {event.total_redelivered} again, where {seen} were seen"
                self._find(COUNTED, now, text)

    def _find(self, kind: str, time: float, text: str) -> None:
        self._findings.append(Finding(kind, time, text))
