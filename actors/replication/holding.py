"""How much a leader holds its senders back, so that a node that lags comes in step.

Where half + 1 confirm as fast as they can, one that began later is no faster than they are, and lags for as long as senders send at their
full rate. So it is looked at for whom that is so, and senders are granted demand for a part of the time only: no more than is needed, as
the lag shows, and never more than `MOST_SHARE`.

It costs senders something, so it ends. Each directory has so much of their time (`MOST_HELD_SECONDS`), which comes back within an hour. A
node that is slower than the others for good uses it up, or does not come nearer though all is done that may be: then it is given up, and
senders have their full rate. So a slow follower costs them next to nothing in the long run, as the modes promise. Nobody is waited for who
does not answer, or stores nothing, or whose disk has no room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final, NamedTuple

from actors.replication.leader import Leader
from actors.replication.limits import MISS_SECONDS
from actors.replication.shipping import STREAMING

PERIOD_SECONDS: Final = 1.0
"""In each of them senders are held back once."""
MOST_SHARE: Final = 0.3
"""Of a period, at most: what senders keep is 70 % of what they would have."""
STEP_SHARE: Final = 0.1
"""By which the share is raised where the lag shrinks, and too slowly; it is lowered by half of that. Where the lag does not shrink at all,
the share is the greatest at once: the log that is kept for who lags may be a matter of seconds."""
WINDOW_SECONDS: Final = 1.0
"""For so long a lag is looked at before the share is changed, and before senders are held back at all."""
SOON_SECONDS: Final = 20.0
"""A lag that will be no more in so long, as it shrinks now, shrinks fast enough;"""
VERY_SOON_SECONDS: Final = 5.0
"""and in so long, faster than is needed."""
MOST_HELD_SECONDS: Final = 90.0
"""For which senders are held back for one directory: five minutes with the greatest share."""
COMES_BACK: Final = 1 / 40
"""Of that, seconds a second: all of it within an hour. It is the share of their time that senders lose in the long run, at most."""
STALLED_SECONDS: Final = 5.0
"""Nobody is waited for who has stored nothing for so long. A disk that makes a checkpoint may take some seconds."""
PATIENCE_SECONDS: Final = 30.0
"""With the greatest share, for who does not come nearer so fast that what is left of its time will do."""


class Lagging(NamedTuple):
    """A node that lags, and can catch up.

    Attributes:
        directory: which.
        lacking: bytes of the log that it lacks.
    """

    directory: str
    lacking: int


class _Course:
    """What is done for one directory, and what of its time is left."""

    __slots__ = ("given_up", "lacking", "lags", "left", "looked", "nearer", "share", "since")

    def __init__(self, now: float) -> None:
        self.left = MOST_HELD_SECONDS
        self.given_up = False
        self.lags = True
        self.looked = now
        self.share = 0.0
        self.since: float | None = None  # when the lag was last measured by which the share is changed
        self.lacking = 0  # as it was then
        self.nearer = now  # when it last came nearer fast enough, or not all was done that may be

    def rest(self) -> None:
        """Nothing is done for it."""
        self.share = 0.0
        self.since = None


class Holding:
    """Of one lead.

    Attributes:
        share: of each period, for which senders are to be held back; 0 to `MOST_SHARE`.
        directory: for whom; None for nobody.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self.directory: str | None = None
        self._courses: dict[str, _Course] = {}

    @property
    def given_up(self) -> list[str]:
        """For whom senders are not held back any more, though they lag."""
        return [directory for directory, course in self._courses.items() if course.given_up and course.lags]

    def look(self, now: float, lagging: Iterable[Lagging]) -> list[str]:
        """Look at who lags, some times in `WINDOW_SECONDS`; the share may be another one then. Whom it has given up just now."""
        found = {each.directory: each.lacking for each in lagging}
        courses = self._courses
        for directory in found:
            if directory not in courses:
                courses[directory] = _Course(now)
        gone: list[str] = []
        for directory, course in list(courses.items()):
            self._spend(now, course)
            lacking = found.get(directory)
            course.lags = lacking is not None
            if lacking is None:
                course.rest()
                if course.left >= MOST_HELD_SECONDS:
                    del courses[directory]
            elif not course.given_up and not self._go_on(now, course, lacking):
                gone.append(directory)
        first = max(courses, key=lambda directory: courses[directory].share, default=None)
        self.share = 0.0 if first is None else courses[first].share
        self.directory = first if self.share else None
        return gone

    @staticmethod
    def _spend(now: float, course: _Course) -> None:
        seconds, course.looked = now - course.looked, now
        course.left = min(MOST_HELD_SECONDS, course.left + seconds * (COMES_BACK - course.share))
        if course.left >= MOST_HELD_SECONDS:
            course.given_up = False

    def _go_on(self, now: float, course: _Course, lacking: int) -> bool:
        """Whether it is to go on; the share is what it is to be."""
        if course.since is None:
            course.since, course.lacking, course.nearer = now, lacking, now
            return True
        if course.left <= 0:
            return self._give_up(course)
        seconds = now - course.since
        if seconds < WINDOW_SECONDS:
            return True
        shrinks = (course.lacking - lacking) / seconds
        needs = lacking / shrinks if shrinks > 0 else float("inf")
        course.since, course.lacking = now, lacking
        if course.share < MOST_SHARE or needs * course.share <= course.left:
            course.nearer = now
        elif now - course.nearer >= PATIENCE_SECONDS:
            return self._give_up(course)
        if needs > SOON_SECONDS:
            course.share = min(MOST_SHARE, course.share + STEP_SHARE) if shrinks > 0 else MOST_SHARE
        elif needs < VERY_SOON_SECONDS:
            course.share = max(0.0, course.share - STEP_SHARE / 2)
        return True

    @staticmethod
    def _give_up(course: _Course) -> bool:
        course.rest()
        # It has its time back in an hour, and not a part of it before.
        course.given_up, course.left = True, 0.0
        return False


def lagging(leader: Leader, now: float, lacking: Callable[[int], int], without_room: Collection[str]) -> list[Lagging]:
    """Who lags, and can catch up, of all to whom it ships: learners too.

    Args:
        leader: who leads.
        now: the time.
        lacking: bytes of the log that somebody lacks who has stored everything below an lsn.
        without_room: those whose disks have none.
    """
    found = []
    for peer in leader.peers:
        follower = leader.follower(peer)
        if (
            follower is not None
            and follower.state == STREAMING
            and 0 < follower.stored < leader.log.end
            and now - follower.heard < MISS_SECONDS
            and now - follower.progress < STALLED_SECONDS
            and peer not in without_room
            and not leader.caught_up(peer)
        ):
            found.append(Lagging(peer, lacking(follower.stored)))
    return found
