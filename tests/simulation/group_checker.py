"""Judges groups: one has one receiver at a time, its messages come in order, and all others flow past it.

Pure. It is a part of the checker, and shares what that knows of each message. Where the history does not determine whether somebody still
has a message, nobody does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final, NamedTuple

from tests.simulation.history import Crashed, Delivered, Event, Extended, TakeAnswered, Taken
from tests.simulation.judged import GROUP_SHARED, REORDERED, STUCK, TOLERANCE, Finding, QueueState, Stored, Timing
from tests.simulation.said import group_of

HASTE: Final = 0.1
"""Seconds that a request waits for what it must get, at least: beside two commits, in which somebody who is gone may have had it."""


@dataclass(slots=True)
class _Group:
    """Of one group: who has what, as far as it may be outstanding, and since when."""

    outstanding: dict[int, tuple[object, float]] = field(default_factory=dict)


class _InVain(NamedTuple):
    """A request that got nothing: from when to when it waited, and the groups that may have been blocked at its end."""

    asked_at: float
    over: float
    blocked: frozenset[str]


class GroupRules:
    """Follows the groups of one history.

    Args:
        queues: what the checker knows.
        timing: how long the broker may take.
        findings: where to put what is found.
    """

    def __init__(self, queues: Mapping[str, QueueState], timing: Timing, findings: list[Finding]) -> None:
        self._queues = queues
        self._timing = timing
        self._findings = findings
        self._groups: dict[tuple[str, str], _Group] = {}
        self._latest: dict[tuple[str, int], float] = {}
        self._extended: dict[tuple[str, int], float] = {}
        self._in_vain: dict[str, list[_InVain]] = {}
        self._crashed_at = -inf

    def follow(self, event: Event) -> None:
        """What may have to do with groups; all else is passed over."""
        match event:
            case Crashed():
                self._crashed_at = event.time
            case Extended() if self._queues[event.queue].rules.groups:
                for first, count in event.ranges:
                    for at in ((event.queue, number) for number in range(first, first + count)):
                        self._extended[at] = max(self._extended.get(at, 0.0), event.time + event.seconds)
            case TakeAnswered() if not event.count and self._queues[event.queue].rules.groups:
                if event.time - event.asked_at > self._slack:
                    waited = _InVain(event.asked_at, event.time, self._blocked(event.queue, event.time))
                    self._in_vain.setdefault(event.queue, []).append(waited)
            case _:
                pass

    def delivered(
        self, name: str, stored: Stored, event: Delivered | Taken, sequence: int, *, has_its_own_time: bool
    ) -> None:
        """A message comes to somebody, who is not gone.

        Args:
            name: its queue.
            has_its_own_time: whether it was sent with a delay, or staged: so others may come before it, the first time.
        """
        queue, group, now = self._queues[name], group_of(stored.message), event.time
        last = self._latest.get((name, sequence))
        self._latest[name, sequence] = now
        if last is None and not has_its_own_time:
            self._check_flow(queue, name, stored.message, group, now)
        if group is None:
            return
        who = event.connection, event.request if isinstance(event, Taken) else None
        at = f"{name}/{sequence} {stored.message}"
        known = self._groups.setdefault((name, group), _Group())
        for number, (whose, _) in list(known.outstanding.items()):
            other = queue.stored[number]
            if self._is_over(other, now):
                del known.outstanding[number]
            elif number != sequence and whose != who and self._has(other, now):
                text = f"{at} is delivered to {who} while {whose} has {number} {other.message} of its group"
                self._find(GROUP_SHARED, now, text)
        known.outstanding[sequence] = who, now
        since = (inf if has_its_own_time else -inf) if last is None else self._back_since(name, sequence, stored, last)
        overtaker = queue.overtaker(("group", group), sequence, now, since + self._timing.commit + TOLERANCE)
        if overtaker is not None:
            self._find(REORDERED, now, f"{at} comes after {overtaker} of its group, and was there before")

    @property
    def _slack(self) -> float:
        return 2 * self._timing.commit + HASTE

    def _has(self, stored: Stored, now: float) -> bool:
        """Whether somebody has it for certain."""
        return stored.holder is not None and not stored.maybe_acknowledged and self._timing.is_leased(stored, now)

    def _is_over(self, stored: Stored, now: float) -> bool:
        """Whether nobody has it, nor is it waited for, for some time."""
        left = -inf if stored.left is None else stored.left[0]
        return stored.holder is None and max(left, stored.not_before, stored.waits) < now - self._slack

    def _back_since(self, name: str, sequence: int, stored: Stored, last: float) -> float:
        """When it was back in its queue at the latest, of what was delivered before, ``last`` at that time."""
        if self._crashed_at >= last:
            return self._crashed_at
        if stored.left is not None and stored.left[0] > last:
            return stored.left[0]
        return max(stored.lease_until, stored.lease_latest, self._extended.get((name, sequence), -inf))

    # Flow

    def _blocked(self, name: str, now: float) -> frozenset[str]:
        """The groups of which somebody may have had something a moment ago, or for which something waits."""
        found = set[str]()
        for (queue, group), known in self._groups.items():
            stored = self._queues[queue].stored
            if queue == name and any(not self._is_over(stored[number], now) for number in known.outstanding):
                found.add(group)
        return frozenset(found)

    def _check_flow(self, queue: QueueState, name: str, message: str, group: str | None, now: float) -> None:
        """No request may have got nothing, though it could have had this message, for as long as a request waits at least."""
        confirmed = queue.confirmed.get(message)
        if confirmed is None:
            return
        for asked_at, over, blocked in self._in_vain.get(name, ()):
            if over > now - self._slack or group in blocked:
                continue
            if over - max(asked_at, confirmed) > self._slack:
                text = (
                    f"a request that waited from {asked_at:.6f} to {over:.6f} got nothing, where {name} had {message}"
                )
                self._find(STUCK, now, text)

    def _find(self, kind: str, time: float, text: str) -> None:
        self._findings.append(Finding(kind, time, text))
