"""Judges what came of what was published to exchanges: is it in each queue that it must have gone to, in no other, and in all or none?

What each queue then does with it is judged as of every other queue (``checker.py``), for those queues that stay: this gives it the
history as if somebody had sent to each of them what must have come to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.simulation.delayed_plan import wait_in
from tests.simulation.exchange_facts import QUEUE, Facts
from tests.simulation.exchange_plan import ExchangesPlan
from tests.simulation.history import (
    CameBack,
    CommandAnswered,
    CommandHeard,
    Confirmed,
    Crashed,
    Defined,
    Delivered,
    Event,
    Found,
    Offered,
    PublishConfirmed,
    Published,
    Released,
)
from tests.simulation.judged import DUPLICATED, EARLY, LOST, PHANTOM, REORDERED, TOLERANCE, Finding

DEFINITION = "definition"
HALF = "in-some-queues-only"
RETURNED = "returned-wrongly"
ASTRAY = "astray"


@dataclass(slots=True)
class _Message:
    """What was published.

    Attributes:
        offered: at which event.
        must: the queues that it went to for certain, once it is confirmed; None before.
        seen: the queues that have delivered it, with the last number there.
        came_back: whether its program was told that no queue takes it.
        time: when it was published.
        wait: seconds that it waits at its exchange.
        confirmed: whether its program was told that it is stored, wherever it is.
    """

    name: str
    producer: str
    number: int
    offered: int
    exchange: str
    key: str
    headers: dict[str, str]
    mandatory: bool
    must: set[str] | None = None
    seen: dict[str, int] = field(default_factory=dict)
    came_back: bool = False
    time: float = 0.0
    wait: float = 0.0
    confirmed: bool = False

    @property
    def due(self) -> float:
        """When it goes from its exchange, at the earliest."""
        return self.time + self.wait

    @property
    def route(self) -> tuple[int, str, str, dict[str, str]]:
        return self.offered, self.exchange, self.key, self.headers


class ExchangeChecker:
    """Follows one history.

    Attributes:
        findings: what was found so far.
    """

    def __init__(self, plan: ExchangesPlan) -> None:
        self.findings: list[Finding] = []
        self._plan = plan
        self._facts = Facts(plan)
        self._stay = {name: rules for name, _, rules in plan.queues}
        self._queues = (*self._stay, *plan.briefly)
        self._messages: dict[str, _Message] = {}
        self._open: dict[str, _Message] = {}
        self._found: dict[str, dict[str, None]] = {}
        self._started = 0.0
        self._times: list[float] = []

    def check(self, events: Sequence[Event]) -> list[Event]:
        """Judge it; returns the history of the queues that stay, and of all that has nothing to do with exchanges."""
        of_queues: list[Event] = []
        for at, event in enumerate(events):
            self._times.append(event.time)
            if self._found and not isinstance(event, Found):
                self._check_all_or_none(self._started)
                self._found = {}
            of_queues += self._follow(event, at)
        end = events[-1].time if events else 0.0
        of_queues += self._waited(end)
        self._check_end(end)
        return of_queues

    def _follow(self, event: Event, at: int) -> Iterator[Event]:
        match event:
            case Published():
                yield from self._published(event, at)
            case PublishConfirmed():
                yield from self._confirmed(event)
            case CameBack():
                self._came_back(event)
            case CommandHeard():
                self._facts.heard(event, at)
            case CommandAnswered():
                self._facts.answered(event, at)
            case Defined():
                for text in self._facts.found(event, at):
                    self._find(DEFINITION, event.time, text)
                self._started = event.time
                self._found = {name: {} for name in event.queues}
            case Found():
                self._found[event.queue] = dict.fromkeys(event.messages)
                self._check_order(event)
            case _:
                if isinstance(event, Released):
                    self._facts.released(event)
                elif isinstance(event, Crashed):
                    self._facts.crashed(at)
                elif isinstance(event, Delivered) and event.queue in self._queues:
                    self._delivered(event)
                if getattr(event, "queue", None) not in self._plan.briefly:
                    yield event

    def _published(self, event: Published, at: int) -> Iterator[Event]:
        for index, (name, key, headers) in enumerate(zip(event.messages, event.keys, event.headers, strict=True)):
            where = event.exchange, key, dict(headers), event.mandatory
            message = _Message(name, event.producer, event.number + index, at, *where, time=event.time)
            message.wait = wait_in(event.exchange, message.headers)
            self._messages[name] = self._open[name] = message
        for queue in self._stay:
            for name in event.messages:
                message = self._messages[name]
                # What waits is in no order with what others publish, nor its own publisher.
                producer = f"{message.producer} {message.number} waits" if message.wait else message.producer
                yield Offered(event.time, queue, producer, message.number, (name,))

    def _confirmed(self, event: PublishConfirmed) -> Iterator[Event]:
        must: dict[str, list[str]] = {}
        for name in event.messages:
            message = self._messages[name]
            message.confirmed = True
            if message.wait:
                # Where it goes is seen when it does.
                continue
            message.must = self._facts.surely(*message.route)
            for queue in message.must:
                must.setdefault(queue, []).append(name)
            if message.mandatory and not message.came_back and not self._facts.perhaps(*message.route):
                self._find(RETURNED, event.time, f"{name} was confirmed, no queue takes it, and it did not come back")
        for queue, names in must.items():
            if queue in self._stay:
                yield Confirmed(event.time, queue, tuple(names))

    def _came_back(self, event: CameBack) -> None:
        message = self._messages[event.message]
        message.came_back = True
        must = self._facts.surely(*message.route)
        if must:
            self._find(RETURNED, event.time, f"{event.message} came back, and goes to {sorted(must)}")

    def _delivered(self, event: Delivered) -> None:
        for index, name in enumerate(event.messages):
            message = self._messages.get(name)
            if message is None:
                self._find(PHANTOM, event.time, f"{event.queue} delivers {name}, which nobody published")
                continue
            if message.wait and event.time < message.due - TOLERANCE:
                text = f"{event.queue} delivers {name}, which waits at {message.exchange} until {message.due:.6f}"
                self._find(EARLY, event.time, text)
            if event.queue not in message.seen and event.queue not in self._facts.perhaps(*self._route(message)):
                text = f"{event.queue} delivers {name}, published to {message.exchange!r} with {message.key!r} {message.headers}"
                self._find(ASTRAY, event.time, text)
            known = message.seen.get(event.queue)
            flagged = event.possibly_replayed or event.delivery_count > 1
            if known is not None and not flagged and self._stood(event.queue, message):
                self._find(DUPLICATED, event.time, f"{event.queue} delivers {name} again, and does not mark it")
            message.seen[event.queue] = event.first + index

    def _stood(self, queue: str, message: _Message) -> bool:
        """Whether a queue was there all the time since a message was offered."""
        return self._facts.of((QUEUE, queue)).since < message.offered

    def _check_order(self, event: Found) -> None:
        """What a start finds is in each publisher's order, and nothing is there twice."""
        last: dict[str, int] = {}
        for name in event.messages:
            message = self._messages.get(name)
            if message is None:
                self._find(PHANTOM, event.time, f"a start finds {name} in {event.queue}, which nobody published")
                continue
            if message.wait:
                continue
            if message.number <= last.get(message.producer, -1):
                self._find(
                    REORDERED, event.time, f"a start finds {name} in {event.queue} behind {last[message.producer]}"
                )
            last[message.producer] = message.number

    def _check_all_or_none(self, now: float) -> None:
        """After a start each message is in all queues that it must have gone to, or in none."""
        for name, message in list(self._open.items()):
            must = message.must if message.must is not None else self._facts.surely(*self._route(message))
            asked = [queue for queue in sorted(must) if self._stood(queue, message) and not self._may_leave(queue)]
            there = [queue for queue in asked if queue in message.seen or name in self._found.get(queue, ())]
            if there and there != asked:
                self._find(HALF, now, f"{name} is in {there} and not in {sorted(set(asked) - set(there))}")
            elif message.confirmed and asked and not there and not message.wait:
                self._find(LOST, now, f"{name} was confirmed, and is in none of {asked}")
            if message.confirmed and (there or not message.wait):
                del self._open[name]

    def _route(self, message: _Message) -> tuple[int, str, str, dict[str, str]]:
        """How it goes, and from which event on: of what waits, from the first behind which it may be due."""
        if not message.wait:
            return message.route
        return max(message.offered, bisect_left(self._times, message.due - TOLERANCE)), *message.route[1:]

    def _waited(self, end: float) -> Iterator[Event]:
        """What has waited, and was confirmed: it is in the queues that were bound when it was due, and are still."""
        for name, message in self._messages.items():
            if message.wait and message.confirmed:
                message.must = self._facts.surely(*self._route(message))
                for queue in sorted(message.must & self._stay.keys()):
                    yield Confirmed(end, queue, (name,))

    def _may_leave(self, queue: str) -> bool:
        return queue in self._stay and self._stay[queue].drops

    def _check_end(self, end: float) -> None:
        for name, message in self._messages.items():
            for queue in sorted(message.must or ()):
                if queue in self._plan.briefly and queue not in message.seen and self._stood(queue, message):
                    self._find(LOST, end, f"{name} was confirmed, and {queue} never delivered it")

    def _find(self, kind: str, time: float, text: str) -> None:
        self.findings.append(Finding(kind, time, text))
