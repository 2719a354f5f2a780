"""A schedule as it is declared, and as it is stored."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgpack

from actors.batch import pack_headers
from actors.errors import BatchError, StorageError
from actors.exchanges.limits import MAX_ROUTING_KEY_BYTES
from actors.limits import MAX_NAME_BYTES, MAX_PRIORITY, MAX_TTL_SECONDS, time_text
from actors.scheduling.errors import InvalidScheduleError, ScheduleLimitError
from actors.scheduling.expressions import UTC_ZONE, Times, times_of, zone_of
from actors.scheduling.limits import (
    MAX_SCHEDULED_HEADERS_BYTES,
    MAX_SCHEDULED_KEY_BYTES,
    MAX_SCHEDULED_PAYLOAD_BYTES,
)

SKIP: Final = "skip"
ONCE: Final = "once"
ALL: Final = "all"
MISSED: Final = (SKIP, ONCE, ALL)
"""What is done about times that were missed: nothing, one message for the last of them, or a message for each."""

SCHEDULE_HEADER: Final = "penstock-schedule"
"""The header of a message that has the schedule's name;"""
TIME_HEADER: Final = "penstock-scheduled-for"
"""and the one that has the time for which it is, in UTC, as ISO 8601 writes it."""
SECTION: Final = "penstock.schedules"
"""Of the durable map: the definitions, by the schedules' names;"""
PROGRESS_SECTION: Final = "penstock.schedules.progress"
"""and how far each is."""
_FORMAT: Final = 1
_SAID: Final = 11
"""Fields that whoever declares it says, but for its priority, which came later."""
_PROGRESS: Final = struct.Struct(">QqqQQQ")


class Schedule(NamedTuple):
    """A schedule.

    Attributes:
        name: its name.
        expression: when: a cron expression, or an interval.
        zone: the time zone that a cron expression is meant in.
        queue: where its messages go; None where they go to an exchange.
        exchange: the exchange; None where they go to a queue.
        routing_key: with which they are published there.
        payload: of each message.
        headers: of each message, beside those that say which schedule and which time it is of.
        key: of each message; empty for none.
        ttl: seconds after which a message is of no use; None for what its queue says.
        missed: what is done about times that were missed, one of ``MISSED``.
        begins: no time up to this instant is one of its; an interval counts from here.
        version: another one each time it is declared to say something else: progress of another version is not its own.
        paused: whether nothing comes of it.
        priority: of each message; each queue has its own levels, or none.
    """

    name: str
    expression: str
    zone: str = UTC_ZONE
    queue: str | None = None
    exchange: str | None = None
    routing_key: str = ""
    payload: bytes = b""
    headers: tuple[tuple[str, str | bytes], ...] = ()
    key: str = ""
    ttl: float | None = None
    missed: str = SKIP
    begins: int = 0
    version: int = 0
    paused: bool = False
    priority: int = 0

    def times(self) -> Times:
        """When its messages are due; raises InvalidScheduleError where this machine cannot tell."""
        return times_of(self.expression, self.zone, self.begins)

    def said(self) -> tuple[Any, ...]:
        """What whoever declares it says of it; headers have no order."""
        return (*self._replace(headers=tuple(sorted(self.headers)))[:_SAID], self.priority)

    def differs_from(self, other: Schedule) -> str:
        """In what it says something else, as words; empty where it does not."""
        names = (*self._fields[:_SAID], "priority")
        return ", ".join(name for name, one, two in zip(names, self.said(), other.said(), strict=True) if one != two)

    def check(self) -> None:
        """Whether it can be declared.

        Raises:
            InvalidScheduleError, ScheduleLimitError: it cannot.
        """
        _check_name("schedule", self.name)
        if (self.queue is None) == (self.exchange is None):
            raise InvalidScheduleError(f"schedule {self.name!r:.255} needs a queue or an exchange, and not both")
        if self.queue is not None:
            _check_name("queue", self.queue)
            if self.routing_key:
                raise InvalidScheduleError("a routing key is for an exchange: to a queue there is no need of one")
        elif self.exchange:
            _check_name("exchange", self.exchange)
        if self.exchange is not None and self.key:
            raise InvalidScheduleError(
                "what is published to an exchange has its routing key for a key: give that alone"
            )
        if self.missed not in MISSED:
            raise InvalidScheduleError(f"missed={self.missed!r:.60} is unknown: there are {', '.join(MISSED)}")
        if self.ttl is not None and not 0 <= self.ttl <= MAX_TTL_SECONDS:
            raise InvalidScheduleError(
                f"a time to live of {time_text(self.ttl)} is not between 0 and {time_text(MAX_TTL_SECONDS)}"
            )
        if not 0 <= self.priority <= MAX_PRIORITY:
            raise InvalidScheduleError(f"a priority of {self.priority} is not between 0 and {MAX_PRIORITY}")
        if taken := [name for name, _ in self.headers if name in (SCHEDULE_HEADER, TIME_HEADER)]:
            raise InvalidScheduleError(f"the header {taken[0]!r} is the broker's to say: call yours by another name")
        try:
            headers = pack_headers(all_headers(self, 0))
        except BatchError as error:
            raise InvalidScheduleError(str(error)) from error
        for what, size, limit, bound in (
            ("payload", len(self.payload), "MAX_SCHEDULED_PAYLOAD_BYTES", MAX_SCHEDULED_PAYLOAD_BYTES),
            ("headers", len(headers), "MAX_SCHEDULED_HEADERS_BYTES", MAX_SCHEDULED_HEADERS_BYTES),
            ("key", len(self.key.encode()), "MAX_SCHEDULED_KEY_BYTES", MAX_SCHEDULED_KEY_BYTES),
            ("routing key", len(self.routing_key.encode()), "MAX_ROUTING_KEY_BYTES", MAX_ROUTING_KEY_BYTES),
        ):
            if size > bound:
                advice = "have the message say where the rest is"
                raise ScheduleLimitError(f"bytes of the {what} of schedule {self.name!r}", size, limit, bound, advice)
        zone_of(self.zone)
        self.times()

    def encoded(self) -> bytes:
        """As it is stored: a program that knows of no priorities reads one that says none."""
        packed: bytes = msgpack.packb([_FORMAT, *(self[1:] if self.priority else self[1:-1])])
        return packed


class Progress(NamedTuple):
    """How far a schedule is.

    Attributes:
        version: of the schedule that it is of.
        through: every time up to this one is dealt with, but for ``waiting``.
        waiting: the time whose message waits for room; 0 for none.
        fired: messages that were stored.
        missed: times that nothing came of, for they were missed.
        failed: times that nothing came of, for there was nowhere to store it.
    """

    version: int
    through: int
    waiting: int = 0
    fired: int = 0
    missed: int = 0
    failed: int = 0

    def resumed(self, now: int) -> Progress:
        """As it is when the schedule goes on behind a pause: what would have been in between is not made up for, and is not missed."""
        return self._replace(through=max(self.through, now))

    def encoded(self) -> bytes:
        """As it is stored, always of the same length: what there was room for once there is room for."""
        return _PROGRESS.pack(*self)


_STORED: Final = (len(Schedule._fields) - 2, len(Schedule._fields) - 1)
"""Fields of one that is stored: without a priority, and with one."""


def all_headers(schedule: Schedule, time: int) -> dict[str, str | bytes]:
    """The headers of the message of a schedule for one of its times."""
    return dict(schedule.headers) | {SCHEDULE_HEADER: schedule.name, TIME_HEADER: instant_text(time)}


def instant_text(time: int) -> str:
    """An instant as ISO 8601 has it, in UTC."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def decoded(name: str, value: bytes) -> Schedule:
    """A schedule as it was stored; raises StorageError."""
    try:
        form, *fields = msgpack.unpackb(value)
        if form != _FORMAT or len(fields) not in _STORED:
            raise StorageError(f"schedule {name!r} says more than this program knows: a newer version has written it")
        schedule = Schedule(name, *fields)
        return schedule._replace(headers=tuple((key, text) for key, text in schedule.headers))
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise StorageError(f"schedule {name!r} cannot be decoded: {error}") from error


def decoded_progress(name: str, value: bytes) -> Progress:
    """The progress of a schedule as it was stored; raises StorageError."""
    try:
        return Progress(*_PROGRESS.unpack(value))
    except struct.error as error:
        raise StorageError(f"the progress of schedule {name!r} cannot be decoded: {error}") from error


def _check_name(what: str, name: str) -> None:
    """Raise the error for what is no name: the rules are those of queues."""
    if not name or " " in name or not name.isprintable() or len(name.encode()) > MAX_NAME_BYTES:
        raise InvalidScheduleError(
            f"{name!r:.255} is no name of a {what}: it has 1 to {MAX_NAME_BYTES} bytes, and no white space in it"
        )
