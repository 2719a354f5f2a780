"""A schedule that a broker has, as it stands, and what all of them have counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from actors.queue.vocabulary.distributed import RoomMade
from actors.runtime.loop_actor import LoopActor
from actors.scheduling.course import Course
from actors.scheduling.schedule import Progress, Schedule

ON_ITS_WAY: Final = "scheduled"
WAITS: Final = "waiting"
FAILS: Final = "failing"
PAUSED: Final = "paused"
OVER: Final = "over"
STATES: Final = (ON_ITS_WAY, WAITS, FAILS, PAUSED, OVER)
"""How a schedule is: a message waits for room, the last time there was nowhere to store it, or no time comes any more."""


@dataclass(slots=True)
class ScheduleCounts:
    """What all schedules have come to since the broker began.

    Attributes:
        fired: messages that were stored.
        missed: times that nothing came of, for they were missed.
        failed: times that nothing came of, for there was nowhere to store it.
        waited: messages that had to wait for room.
    """

    fired: int = 0
    missed: int = 0
    failed: int = 0
    waited: int = 0


@dataclass(slots=True, eq=False)
class Scheduled:
    """A schedule that is there.

    Attributes:
        schedule: it.
        progress: how far it is.
        course: what is to be done; None where this machine cannot tell its times.
        error: why its message waits, or came to nothing the last time; None while all is well.
        due: the instant at which it is looked at next, seconds since the epoch; None for none.
        planned: whether it is looked at in a turn that comes.
    """

    schedule: Schedule
    progress: Progress
    course: Course | None
    error: str | None = None
    due: float | None = None
    planned: bool = False

    @property
    def state(self) -> str:
        """One of the words that this module has for it."""
        if self.schedule.paused:
            return PAUSED
        if self.progress.waiting:
            return WAITS
        if self.error is not None:
            return FAILS
        return ON_ITS_WAY if self.next_time() is not None else OVER

    def next_time(self) -> int | None:
        """The next of its times, be it that one waits; None where none comes, it is paused, or nobody can tell."""
        if self.course is None or self.schedule.paused:
            return None
        return self.course.times.after(self.progress.through)


class RoomListener(LoopActor):
    """Whom queues tell that they have room again."""

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__()
        self._look = look

    def on_receive(self, message: Any) -> None:
        """There is room somewhere."""
        if isinstance(message, RoomMade):
            self._look()
        else:
            super().on_receive(message)
