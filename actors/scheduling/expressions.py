"""At which times something is due: a cron expression in a time zone, or an interval. Times are whole seconds since the epoch.

Cron expressions are read by cronsim. It follows Debian's cron, with its ways at the change to summer time and back: what names an hour
comes once on each day, and what does not goes by the time that passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from itertools import islice, takewhile
from typing import Final, NamedTuple, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from actors.scheduling.errors import InvalidScheduleError, ScheduleLimitError
from actors.scheduling.limits import MAX_EXPRESSION_BYTES, MAX_INTERVAL_SECONDS, MIN_INTERVAL_SECONDS

UTC_ZONE: Final = "UTC"
EVERY: Final = "every "
"""How an interval begins."""
NICKNAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
"""What cron has names for."""
FIELDS: Final = "minute, hour, day of the month, month, day of the week, and seconds before them where they are wanted"
MAX_REPEATED: Final = 100_000
"""Times that may come again where clocks are put back, before the search is given up. A day has 86,400 seconds."""
FIRST_WINDOW_SECONDS: Final = 60
"""The last times before an instant are looked for in windows that grow from this, each as far as there are"""
LOOKED_AT: Final = 2
"""so many times as many as are wanted: one that has more is halved."""
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_INTERVAL: Final = re.compile(r"(?:\d{1,9}[smhd])+", re.ASCII)
_PART: Final = re.compile(r"(\d+)([smhd])", re.ASCII)


class Within(NamedTuple):
    """Times between two instants.

    Attributes:
        times: the last of them, ascending.
        before: how many more there are before these; of a cron expression at least so many, for they are not all counted.
    """

    times: list[int]
    before: int


class Times(Protocol):
    """The times of a schedule."""

    def after(self, at: int) -> int | None:
        """The first time after an instant; None where none comes in fifty years."""

    def within(self, after: int, up_to: int, most: int) -> Within:
        """The last ``most`` times that are after one instant and not after the other."""


def times_of(expression: str, zone: str = UTC_ZONE, anchor: int = 0) -> Times:
    """The times that an expression names.

    Args:
        expression: of cron, with five fields or six, or a nickname such as ``@daily``; or an interval such as ``every 1h30m``.
        zone: the name of the time zone in which a cron expression is meant.
        anchor: from when on an interval counts.

    Raises:
        InvalidScheduleError: it is neither, names no time in the next fifty years, or there is no such time zone.
        ScheduleLimitError: it is too long.
    """
    size = len(expression.encode())
    if size > MAX_EXPRESSION_BYTES:
        raise ScheduleLimitError(
            "bytes of an expression", size, "MAX_EXPRESSION_BYTES", MAX_EXPRESSION_BYTES, "use several schedules"
        )
    found = zone_of(zone)
    text = " ".join(expression.split())
    if text.startswith(EVERY):
        return Every(_seconds_of(text.removeprefix(EVERY).replace(" ", "")), anchor)
    if text.startswith("@"):
        if text not in NICKNAMES:
            raise InvalidScheduleError(f"{expression!r} is no nickname of cron: there are {', '.join(NICKNAMES)}")
        text = NICKNAMES[text]
    times = Cron(text, found)
    try:
        times.check(anchor)
    except (CronSimError, ValueError) as error:
        raise InvalidScheduleError(
            f"{expression!r} is no cron expression ({_lowered(str(error))}): it has {FIELDS}; an interval is 'every 30s'"
        ) from error
    return times


def zone_of(name: str) -> tzinfo:
    """The time zone of a name; raises InvalidScheduleError where this machine knows none."""
    if name == UTC_ZONE:
        return UTC
    try:
        return ZoneInfo(name[: MAX_EXPRESSION_BYTES + 1])
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidScheduleError(
            f"there is no time zone {name!r:.255} on this machine: give a name such as Europe/Berlin"
        ) from error


class Every:
    """Times that are as far from each other as they say, counted from an instant that is none of them."""

    __slots__ = ("anchor", "seconds")

    def __init__(self, seconds: int, anchor: int) -> None:
        self.seconds = seconds
        self.anchor = anchor

    def after(self, at: int) -> int:
        """See ``Times``."""
        return self.anchor + max(1, (at - self.anchor) // self.seconds + 1) * self.seconds

    def within(self, after: int, up_to: int, most: int) -> Within:
        """See ``Times``."""
        first, step = self.after(after), self.seconds
        count = max(0, (up_to - first) // step + 1)
        passed = max(0, count - most)
        return Within([first + at * step for at in range(passed, count)], passed)


class Cron:
    """The times of a cron expression in a time zone."""

    __slots__ = ("_text", "_zone")

    def __init__(self, text: str, zone: tzinfo) -> None:
        self._text = text
        self._zone = zone

    def check(self, at: int) -> None:
        """Whether it names any time: it raises what cronsim does, or ValueError."""
        if self.after(at) is None:
            raise ValueError("it names no time in the next fifty years")

    def after(self, at: int) -> int | None:
        """See ``Times``."""
        return next(self._from(at), None)

    def within(self, after: int, up_to: int, most: int) -> Within:
        """See ``Times``. Many are looked for from behind, so that a year of seconds is not gone through."""
        first: list[int] = []
        for time in islice(self._from(after), most + 1):
            if time > up_to:
                return Within(first, 0)
            first.append(time)
        if len(first) <= most:
            # No more come in fifty years.
            return Within(first, 0)
        last = self._last(after, up_to, most)
        return Within(last[-most:], max(1, len(last) - most)) if len(last) > most else Within(last, 0)

    def _last(self, after: int, up_to: int, most: int) -> list[int]:
        """The last times between two instants, more than ``most`` of them where there are more, and not many more."""
        bound = LOOKED_AT * most
        few, many = up_to, after - 1
        start = max(after, up_to - FIRST_WINDOW_SECONDS)
        while True:
            found = list(islice(takewhile(up_to.__ge__, self._from(start)), bound + 1))
            if len(found) > most:
                if len(found) <= bound:
                    return found
                many = start
            elif start == after:
                return found
            else:
                few = start
            if many < after:
                start = max(after, up_to - 2 * (up_to - start))
                continue
            # They are close together, as all seconds of one day are: where to begin is between the two.
            start = (many + few) // 2

    def _from(self, at: int) -> Iterator[int]:
        """The times after an instant, ascending."""
        last, repeated = at, 0
        for found in CronSim(self._text, datetime.fromtimestamp(at, self._zone)):
            time = int(found.timestamp())
            # By the clock on the wall the hour that comes twice is named twice.
            if time > last:
                last, repeated = time, 0
                yield time
            else:
                repeated += 1
                if repeated > MAX_REPEATED:
                    return


def _seconds_of(text: str) -> int:
    """The seconds of an interval such as ``1h30m``."""
    if not _INTERVAL.fullmatch(text):
        raise InvalidScheduleError(
            f"'every {text}' is no interval: it has whole numbers of d, h, m and s, such as 'every 30s' or 'every 1h30m'"
        )
    seconds = sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if not MIN_INTERVAL_SECONDS <= seconds <= MAX_INTERVAL_SECONDS:
        raise InvalidScheduleError(
            f"an interval of {seconds} s is not between MIN_INTERVAL_SECONDS of {MIN_INTERVAL_SECONDS} "
            f"and MAX_INTERVAL_SECONDS of {MAX_INTERVAL_SECONDS}"
        )
    return seconds


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]
