"""Histories of groups, and of ids, that are made by hand: what programs send, get and answer."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.checker import QueueRules, Timing, check
from tests.simulation.history import (
    Acknowledged,
    Arrived,
    Confirmed,
    Delivered,
    Event,
    Offered,
    Returned,
    Settled,
    Settling,
    TakeAnswered,
    Taken,
)

TIMING = Timing(commit=0.01, acknowledgement=0.1)
TAKER = -1
A, B, C, X, FREE = "g1~a", "g1~b", "g1~c", "g2~x", "free"


def sent(*messages: str, time: float = 0.1, delay: float | None = None) -> list[Event]:
    """Messages that a program sends, one producer each."""
    found: list[Event] = []
    for message in messages:
        found += [Offered(time, "q", message, 0, (message,)), Arrived(time, 0, "q", (message,), delay)]
    return [*found, Confirmed(time + 0.1, "q", messages)]


def given(time: float, number: int, message: str, to: int = 1, count: int = 1, failures: int = 0) -> Delivered:
    """A receiver gets a message."""
    return Delivered(time, to, "q", number, (message,), count, count > 1 or failures > 0, failures)


def taken(time: float, number: int, message: str, request: int) -> Taken:
    """A request of a taker gets one."""
    return Taken(time, TAKER, "q", number, (message,), 1, False, None, request=request)


def put_back(time: float, number: int, seconds: float = 0.0) -> list[Event]:
    """A taker gives back the first delivery, in time."""
    return [
        Settling(time, TAKER, "q", 7, "return", ((number, 1),), seconds),
        Settled(time + 0.001, TAKER, "q", 7, ()),
    ]


def in_vain(asked_at: float, time: float) -> TakeAnswered:
    """A request gets nothing."""
    return TakeAnswered(time, TAKER, "q", 0, 0, 1, 1000, asked_at, time - asked_at)


def done(time: float, number: int, by: int = 1) -> Acknowledged:
    """A receiver acknowledges one."""
    return Acknowledged(time, by, "q", ((number, 1),))


def back(time: float, number: int, delay: float = 0.0, by: int = 1) -> Returned:
    """A receiver gives one back."""
    return Returned(time, by, "q", ((number, 1),), delay)


def kinds(events: Sequence[Event], rules: QueueRules) -> list[str]:
    """What the checker finds."""
    return [found.kind for found in check(events, {"q": rules}, TIMING)]
