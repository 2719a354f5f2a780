"""When a message can be received, before which others, and how long it is of use: SEND's properties, and how a program states them.

docs/protocol.md, section "Sending". Times are counted from when the queue stores the message. All belong to a batch: a sender puts
messages that differ in them into different batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from actors.limits import MAX_DELAY_SECONDS, MAX_PRIORITY, MAX_TTL_SECONDS, MAX_VISIBILITY_SECONDS
from transport.errors import ImpossibleTimeError, LocalProtocolError, RemoteProtocolError
from transport.wire.messages import Options, brief

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DELAY_MS = round(MAX_DELAY_SECONDS * 1000)
MAX_DELIVER_AT_MS = 2**53
MAX_TTL_MS = round(MAX_TTL_SECONDS * 1000)
TWELVE_HOURS = f"0 to {MAX_VISIBILITY_SECONDS:.0f} (12 hours)"
A_YEAR = f"0 to {MAX_DELAY_SECONDS:.0f} (366 days)"
TEN_YEARS = f"0 to {MAX_TTL_SECONDS:.0f} (3660 days, ten years)"
DELAY, TTL, PRIORITY, DELIVER_AT = "delay_ms", "ttl_ms", "priority", "deliver_at_ms"
"""The properties of SEND, by their names on the wire."""
MAX_PRIORITY_OPTION = "max_priority"
"""In WELCOME to a sender: the highest priority that makes a difference where it sends. Without it none does."""

E_co = TypeVar("E_co", covariant=True)


def _check(what: str, seconds: object, most: float, possible: str) -> None:
    if seconds is None:
        return
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 <= seconds <= most:
        raise ImpossibleTimeError(f"{what} is {seconds!r:.60}; {possible} seconds are possible")


def check_answer_time(what: str, seconds: object) -> None:
    """Judge a time that a receiver's answer has.

    Raises:
        ImpossibleTimeError: it is no number, or out of its range.
    """
    if seconds is None:
        raise ImpossibleTimeError(f"{what} is None, not a number of seconds")
    _check(what, seconds, MAX_VISIBILITY_SECONDS, TWELVE_HOURS)


def setting_milliseconds(what: str, seconds: float | None) -> int | None:
    """A queue's time as the protocol has it; one that rounds to none is the shortest there is, for zero may mean never.

    Raises:
        ImpossibleTimeError: it is no number of 0 or more.
    """
    if seconds is None:
        return None
    if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise ImpossibleTimeError(f"{what} is {seconds!r:.60}, not a number of seconds of 0 or more")
    return _milliseconds(seconds)


def check_priority(priority: object) -> None:
    """Judge the priority of a message.

    Raises:
        LocalProtocolError: it is no whole number from 0 to 255, or None.
    """
    if priority is not None and (type(priority) is not int or not 0 <= priority <= MAX_PRIORITY):
        raise LocalProtocolError(f"priority is {priority!r:.60}; whole numbers from 0 to {MAX_PRIORITY} are possible")


def highest_priority(options: Options) -> int:
    """The highest priority that makes a difference, as a broker's WELCOME says; 0 where none does."""
    most = options.get(MAX_PRIORITY_OPTION)
    return most if type(most) is int and most > 0 else 0


@dataclass(frozen=True, slots=True)
class Timing:
    """What a batch says about its turn; whole milliseconds arrive, and of what is more than nothing at least one.

    Attributes:
        delay: seconds until its messages can be received, at most 366 days; None for what the queue declares.
        ttl: seconds after which they are of no use to anybody, at most ten years (3660 days); None for what the queue declares. With 0 they
            go to who can receive them as they come, or expire.
        priority: before what has a lower one they are received, where the queue has priorities (``max_priority``); None for 0.
        deliver_at: in the place of a delay, the time from which its messages can be received, by the broker's clock: seconds since the
            epoch, or a datetime with a zone, which is kept as these. What is past is at once.

    Raises:
        ImpossibleTimeError: a time that is no number or out of its range, or both a delay and a time.
        LocalProtocolError: a priority that cannot be.
    """

    delay: float | None = None
    ttl: float | None = None
    priority: int | None = None
    deliver_at: float | datetime | None = None

    def __post_init__(self) -> None:
        _check("delay", self.delay, MAX_DELAY_SECONDS, A_YEAR)
        if self.deliver_at is not None:
            object.__setattr__(self, "deliver_at", _posix_seconds(self.deliver_at))
            if self.delay is not None:
                raise ImpossibleTimeError("deliver_at and delay are both given; one of them says when")
        _check("ttl", self.ttl, MAX_TTL_SECONDS, TEN_YEARS)
        check_priority(self.priority)

    def or_else(self, other: Timing) -> Timing:
        """This timing, with what it leaves open as in ``other``."""
        when = other if self.delay is None and self.deliver_at is None else self
        return Timing(
            when.delay,
            other.ttl if self.ttl is None else self.ttl,
            other.priority if self.priority is None else self.priority,
            when.deliver_at,
        )

    def with_priority(self, priority: int | None) -> Timing:
        """The same, with another priority."""
        return Timing(self.delay, self.ttl, priority, self.deliver_at)

    def apart_from_priority(self) -> tuple[object, ...]:
        """All of it but the priority, to compare."""
        return self.delay, self.ttl, self.deliver_at

    def delay_by(self, clock: Callable[[float], float]) -> float | None:
        """The delay; ``clock`` gives the one until a time, seconds since the epoch."""
        return self.delay if self.deliver_at is None else clock(cast("float", self.deliver_at))

    def to_properties(self, *, priorities: bool = False) -> Options | None:
        """SEND's properties; None where it leaves everything open. They say a priority where the broker takes ``priorities``."""
        priority = self.priority if priorities else None
        if self.delay is None and self.ttl is None and self.deliver_at is None and not priority:
            return None
        properties: Options = {}
        if priority:
            properties[PRIORITY] = priority
        if self.delay is not None:
            properties[DELAY] = _milliseconds(self.delay)
        if self.deliver_at is not None:
            # Not before it.
            properties[DELIVER_AT] = math.ceil(cast("float", self.deliver_at) * 1000)
        if self.ttl is not None:
            properties[TTL] = _milliseconds(self.ttl)
        return properties

    @classmethod
    def from_properties(cls, properties: Options | None, until: Callable[[float], float] | None = None) -> Timing:
        """What SEND's ``properties`` say; where ``until`` gives the delay until a time, a time is said as a delay.

        Raises:
            RemoteProtocolError: an unknown property, or a value that is no integer or out of its range.
        """
        if not properties:
            return NO_TIMING
        unknown = properties.keys() - {DELAY, TTL, PRIORITY, DELIVER_AT}
        if unknown:
            raise RemoteProtocolError(
                f"SEND has unknown properties {', '.join(map(brief, sorted(unknown)[:5]))}; there are {DELAY}, {TTL}, {PRIORITY} and "
                f"{DELIVER_AT}"
            )
        delay_ms = _whole(DELAY, properties.get(DELAY), 0, MAX_DELAY_MS)
        ttl_ms = _whole(TTL, properties.get(TTL), 0, MAX_TTL_MS)
        priority = _whole(PRIORITY, properties.get(PRIORITY), 0, MAX_PRIORITY)
        at_ms = _whole(DELIVER_AT, properties.get(DELIVER_AT), 0, MAX_DELIVER_AT_MS)
        if at_ms is not None and delay_ms is not None:
            raise RemoteProtocolError(f"SEND has both properties {DELAY} and {DELIVER_AT}; one of them says when")
        at = _seconds(at_ms)
        if at is not None and until is not None:
            # One that is too long is the queue's to refuse, as of everybody's.
            return cls(min(until(at), MAX_DELAY_SECONDS), _seconds(ttl_ms), priority)
        return cls(_seconds(delay_ms), _seconds(ttl_ms), priority, at)


NO_TIMING = Timing()
"""Everything as the queue declares it."""


@dataclass(frozen=True, slots=True)
class Timed(Generic[E_co]):
    """An element for a `Sender` with a timing of its own: ``Timed(b"remind me", delay=60)``.

    Attributes:
        element: bytes, a `Message` or a `MessageBatch`.
        delay: seconds until it can be received; None for what the sender, then the queue, declares.
        ttl: seconds after which it is of no use; None likewise.
        priority: before what has a lower one it is received; None for what the sender declares, then 0.
        deliver_at: in the place of a delay, from when it can be received: as of `Timing`.

    Raises:
        ImpossibleTimeError, LocalProtocolError: as `Timing`.
    """

    element: E_co
    delay: float | None = None
    ttl: float | None = None
    priority: int | None = None
    deliver_at: float | datetime | None = None

    def __post_init__(self) -> None:
        Timing(self.delay, self.ttl, self.priority, self.deliver_at)

    @property
    def timing(self) -> Timing:
        """All as one value."""
        return Timing(self.delay, self.ttl, self.priority, self.deliver_at)


def parse_time(text: str) -> float:
    """A time as people write it, in seconds since the epoch: such seconds, or ``2027-03-01T09:00:00+01:00``, with a zone.

    Raises:
        ImpossibleTimeError: it is none, or has no zone.
    """
    try:
        return _posix_seconds(float(text))
    except ValueError:
        pass
    try:
        return _posix_seconds(datetime.fromisoformat(text))
    except ImpossibleTimeError:
        raise
    except ValueError:
        raise ImpossibleTimeError(
            f"{text!r:.60} is no time: write 2027-03-01T09:00:00+01:00, Z for UTC, or seconds since 1970"
        ) from None


def _posix_seconds(value: object) -> float:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ImpossibleTimeError(f"deliver_at is {value.isoformat()}, a time without a zone")
        value = value.timestamp()
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ImpossibleTimeError(f"deliver_at is {value!r:.60}, not seconds since 1970 or a datetime with a zone")
    # What is long past is due now, as all that is past.
    return min(max(0.0, float(value)), MAX_DELIVER_AT_MS / 1000)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000)) if seconds > 0 else 0


def _whole(what: str, value: object, least: int, most: int) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not least <= value <= most:
        raise RemoteProtocolError(
            f"SEND: property {what} is {brief(value)}; whole numbers from {least} to {most} are possible"
        )
    return value
