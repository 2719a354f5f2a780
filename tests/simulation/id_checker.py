"""Judges deduplication: of the messages with one id a queue stores one within its window, and what it does not store has such another one.

Pure. It is a part of the checker, and shares what that knows of each queue. When a message was judged is not known: it was between its
arrival and its confirmation, or its delivery. What may have been right in that time is let pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

from tests.simulation.history import Arrived, CommitAsked, Confirmed, Delivered, Event, Offered, Taken
from tests.simulation.judged import BEYOND, DUPLICATED, TOLERANCE, Finding, QueueState
from tests.simulation.said import id_of

LENT: Final = 2.5
"""Of its limit, this much comes to a queue at worst: what senders were granted before may still come;"""
EACH_SENDER: Final = 2
"""and so many messages of each sender beside."""


@dataclass(slots=True)
class _Message:
    """When one was judged: not before, and not after; and whether it was seen that it is stored."""

    since: float = inf
    until: float = inf
    stored: bool = False


@dataclass(slots=True)
class _Ids:
    """Of one queue: its messages by their ids, and who sent them."""

    messages: dict[str, dict[str, _Message]] = field(default_factory=dict)
    senders: dict[str, None] = field(default_factory=dict)

    def of(self, message: str) -> _Message | None:
        """What is known of a message; None where it has no id."""
        said = id_of(message)
        return None if said is None else self.messages.setdefault(said, {}).setdefault(message, _Message())


class IdRules:
    """Follows the ids of one history.

    Args:
        queues: what the checker knows.
        findings: where to put what is found.
    """

    def __init__(self, queues: Mapping[str, QueueState], findings: list[Finding]) -> None:
        self._queues = queues
        self._findings = findings
        self._ids = {name: _Ids() for name, queue in queues.items() if queue.rules.window is not None}
        # What leaves a queue for another one was stored there.
        self._feeders = {
            name: [each for each in (name, *queue.rules.fed_by) if each in self._ids] for name, queue in queues.items()
        }

    def follow(self, event: Event) -> None:
        """What has to do with ids; all else is passed over."""
        if not self._ids:
            return
        match event:
            case Offered() if event.queue in self._ids:
                self._ids[event.queue].senders[event.producer] = None
            case Arrived() if event.queue in self._ids:
                for message in event.messages:
                    self._begins(event.queue, message, event.time)
            case CommitAsked():
                for queue, message in event.messages:
                    if queue in self._ids:
                        self._begins(queue, message, event.time)
            case Confirmed() if event.queue in self._ids:
                for message in event.messages:
                    if (found := self._ids[event.queue].of(message)) is not None:
                        found.until = min(found.until, event.time)
            case Delivered() | Taken():
                for name in self._feeders[event.queue]:
                    for message in event.messages:
                        if message in self._queues[name].offered and (found := self._ids[name].of(message)) is not None:
                            found.until, found.stored = min(found.until, event.time), True
            case _:
                pass

    def _begins(self, queue: str, message: str, now: float) -> None:
        if (found := self._ids[queue].of(message)) is not None:
            found.since = min(found.since, now)

    def is_duplicate(self, queue: str, message: str, may_be_gone: Callable[[str], bool]) -> bool:
        """Whether a message that was confirmed may have been left out, for another with its id.

        Args:
            may_be_gone: whether a message may have been stored, and gone before anybody saw it: its id stays.
        """
        ids, said = self._ids.get(queue), id_of(message)
        if ids is None or said is None:
            return False
        window = self._queues[queue].rules.window or 0.0
        of = ids.messages[said][message]
        # Of a transaction, no more is known than that it was committed.
        until = max(of.until, self._queues[queue].confirmed.get(message, of.until)) if of.until == inf else of.until
        return any(
            (other.stored or may_be_gone(name))
            and other.since <= until + TOLERANCE
            and of.since <= other.until + window + TOLERANCE
            for name, other in ids.messages[said].items()
            if name != message
        )

    def check(self, end: float) -> None:
        """At the end: no two within a window, and never more than there may be."""
        for name, ids in self._ids.items():
            rules = self._queues[name].rules
            assert rules.window is not None
            for said, messages in ids.messages.items():
                self._check_apart(name, said, messages, rules.window, end)
            assert rules.most_ids is not None
            self._check_most(name, ids, rules.window, rules.most_ids, end)

    def _check_apart(self, queue: str, said: str, messages: dict[str, _Message], window: float, end: float) -> None:
        stored = sorted((each.until, each.since, name) for name, each in messages.items() if each.stored)
        for at, (until, since, name) in enumerate(stored):
            for other_until, other_since, other in stored[at + 1 :]:
                if other_until - min(since, other_since) < window - TOLERANCE:
                    times = f"by {until:.6f} and {other_until:.6f}"
                    text = f"{name} and {other} with the id {said} are both in {queue} within {window} s, {times}"
                    self._findings.append(Finding(DUPLICATED, end, text))

    def _check_most(self, queue: str, ids: _Ids, window: float, most: int, end: float) -> None:
        """Ids that are remembered for certain, at any time."""
        changes: list[tuple[float, int]] = []
        for messages in ids.messages.values():
            for each in messages.values():
                if each.stored and each.since + window > each.until:
                    changes += [(each.until, 1), (each.since + window, -1)]
        there = largest = 0
        for _, change in sorted(changes):
            there += change
            largest = max(largest, there)
        bound = LENT * most + EACH_SENDER * len(ids.senders)
        if largest > bound:
            text = f"{queue} remembers {most} ids, and has stored {largest} messages with some within {window} s"
            self._findings.append(Finding(BEYOND, end, text))
