"""What `kill_celery` holds against what its tasks told."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.fault.celery_tasks import BEGINS, ENDS


@dataclass(slots=True)
class Books:
    """What was sent, and what ran.

    Attributes:
        confirmed: tasks that the broker has said it has, and chords of which it has all.
        unmarked: how often each try of a task began without being said to be delivered again; by name and number of tries before.
        begun: how often it began at all.
        ended: tasks and chords that came to their end.
        revoked: tasks that no worker was to begin any more.
        marked: how often one began that was said to be delivered again.
        chords: the names of those.
        events: events of workers and tasks that a camera saw.
        pings: workers that answered ``inspect``.
    """

    confirmed: set[str] = field(default_factory=set)
    unmarked: Counter[tuple[str, int]] = field(default_factory=Counter)
    begun: Counter[tuple[str, int]] = field(default_factory=Counter)
    ended: set[str] = field(default_factory=set)
    revoked: set[str] = field(default_factory=set)
    marked: int = 0
    chords: set[str] = field(default_factory=set)
    events: Counter[str] = field(default_factory=Counter)
    pings: int = 0

    def enter(self, entry: str) -> None:
        """What a task told."""
        what, name, tries, redelivered = entry.split()
        at = name, int(tries)
        if what == BEGINS:
            self.begun[at] += 1
            if redelivered == "1":
                self.marked += 1
            else:
                self.unmarked[at] += 1
        else:
            assert what == ENDS, entry
            self.ended.add(name)

    @property
    def open(self) -> set[str]:
        """What was confirmed and has not ended."""
        return self.confirmed - self.ended

    def violations(self) -> list[str]:
        """What must not be."""
        found = []
        if lost := self.open:
            found.append(f"{len(lost)} tasks with late acknowledgements are lost, one is {min(lost)}")
        # A try sends the next one before it is acknowledged: where it was run twice, which it says, there may be two of the next.
        twice = [
            name
            for (name, tries), times in self.unmarked.items()
            if name not in self.chords and times > (self.begun[name, tries - 1] if tries else 1)
        ]
        if twice:
            found.append(f"{len(twice)} tasks were run again unmarked, one is {min(twice)}")
        if began := {name for name, _ in self.begun} & self.revoked:
            found.append(f"{len(began)} tasks were revoked and run, one is {min(began)}")
        return found
