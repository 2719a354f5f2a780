"""What a schedule has to do at an instant, and how far it is when that is done. No clock, no queue: whoever has them carries it out.

Each step says the progress that is recorded with what it does, in one record. So whatever is killed, and whenever, each time is dealt with
once: what is not recorded has not happened, and is found again.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from actors.scheduling.expressions import Times
from actors.scheduling.limits import MAX_MISSED, MISSED_SECONDS
from actors.scheduling.schedule import ALL, SKIP, Progress, Schedule


class Fire(NamedTuple):
    """A message is to be stored for a time.

    Attributes:
        time: which.
        stored: the progress that is recorded with the message;
        failed: the one where there is nowhere to store it;
        waits: and the one where there is no room for it now; None where that is recorded already.
    """

    time: int
    stored: Progress
    failed: Progress
    waits: Progress | None


class Pass(NamedTuple):
    """Times are passed over that were missed; ``progress`` is recorded."""

    progress: Progress


class Course:
    """One schedule on its way.

    Attributes:
        schedule: it.
        progress: how far it is.
        times: when its messages are due.
    """

    __slots__ = ("_line", "progress", "schedule", "times")

    def __init__(self, schedule: Schedule, times: Times, progress: Progress | None = None) -> None:
        self.schedule = schedule
        self.times = times
        if progress is None or progress.version != schedule.version:
            progress = begun(schedule)
        self.progress = progress
        # Times that were missed and are made up for one by one: which they are is looked for once.
        self._line: deque[int] = deque()

    def next_time(self) -> int | None:
        """When there is something to do next, as far as times go: it may be over. None where there is nothing, or it is paused."""
        if self.schedule.paused:
            return None
        return self.progress.waiting or self.times.after(self.progress.through)

    def step(self, now: int) -> Fire | Pass | None:
        """What is to be done now; None for nothing. It is asked again behind what it said, once `progress` is what that recorded."""
        progress = self.progress
        if self.schedule.paused:
            return None
        if progress.waiting:
            self._line.clear()
            return self._fire(progress.waiting, progress, waited=True)
        line = self._line
        while line and line[0] <= progress.through:
            line.popleft()
        if line:
            return self._fire(line[0], progress)
        time = self.times.after(progress.through)
        if time is None or time > now:
            return None
        if now - time <= MISSED_SECONDS:
            return self._fire(time, progress)
        return self._missed(now - MISSED_SECONDS - 1, progress)

    def _missed(self, up_to: int, progress: Progress) -> Fire | Pass:
        times, before = self.times.within(progress.through, up_to, MAX_MISSED)
        if self.schedule.missed == SKIP:
            return Pass(progress._replace(through=times[-1], missed=progress.missed + before + len(times)))
        if self.schedule.missed == ALL:
            if before:
                return Pass(progress._replace(through=times[0] - 1, missed=progress.missed + before))
            self._line.extend(times)
            return self._fire(times[0], progress)
        # What is passed over is so in the record that stores the last of them.
        return self._fire(times[-1], progress._replace(missed=progress.missed + before + len(times) - 1))

    @staticmethod
    def _fire(time: int, progress: Progress, *, waited: bool = False) -> Fire:
        settled = progress._replace(through=max(progress.through, time), waiting=0)
        return Fire(
            time,
            settled._replace(fired=settled.fired + 1),
            settled._replace(failed=settled.failed + 1),
            None if waited else settled._replace(waiting=time),
        )


def begun(schedule: Schedule) -> Progress:
    """The progress of a schedule that begins."""
    return Progress(schedule.version, schedule.begins)
