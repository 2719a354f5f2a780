"""What a queue is told when messages are taken by request: so many, once, within a time; and settled by other requests.

A receiver of the native protocol has a connection, and what it holds is the connection's. Who speaks HTTP has requests: one takes messages,
another, on another connection, says what became of them. So one actor for each queue and gateway, a *taker*, holds what was taken for
all of them. Each message that was taken is named by its number and the number of its delivery.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from actors.runtime.loop_ref import LoopActorRef

    Ref: TypeAlias = LoopActorRef[Any]

MAX_TAKES = 10_000
"""Requests of one taker that may wait for messages: each takes a few hundred bytes."""
MAX_TAKE_MESSAGES = 1_000
"""Messages of one request: what is found in one go, and a page that a client can read."""
MAX_TAKE_WAIT_SECONDS = 60.0
"""The longest that a request waits for its first message: less than what lies between a client and a broker cuts off for silence."""
MAX_TAKEN_MESSAGES = 100_000
"""Messages that one taker may hold: beyond that something takes and never settles."""


@dataclass(frozen=True, slots=True)
class AttachTaker:
    """A taker begins. It is told when it holds nothing: NothingHeld.

    Raises:
        InvalidRequestError: the connection is a receiver already.
    """

    connection: Ref | None = None


@dataclass(frozen=True, slots=True)
class TakeMessages:
    """Give up to ``messages`` of up to ``bytes`` together, but one message in any case. Reply: MessagesTaken, once.

    It is answered as soon as there is something, and at the latest when ``wait`` is over: with nothing, then. It is demand as any other.

    Takers ask so, and receivers may, beside their demand: what a receiver has taken is like what it was delivered. It answers for that
    with ``Acknowledged`` and ``Rejected``, and all of it is back when it has left.

    Attributes:
        wait: seconds; 0 asks for what is there now. What it asks for may be there while a step of other work is under way: then it is
            answered behind that, and still waits for no message.
        visibility: seconds until what was taken and not settled can be received again; None for the queue's own timeout, or of a receiver
            for its own, which may be ``NO_DEADLINE``.

    Raises:
        InvalidRequestError: an amount or a time that cannot be, or no receiver.
        QueueLimitError: too many requests wait, or too much is held.
    """

    request: int
    messages: int
    bytes: int
    wait: float = 0.0
    visibility: float | None = None
    connection: Ref | None = None


@dataclass(frozen=True, slots=True)
class CancelTake:
    """Nobody waits for the request any more. One that is answered already is passed over: see ``GiveBackUnseen``.

    The taker is told if it holds nothing: NothingHeld.
    """

    request: int
    connection: Ref | None = None


@dataclass(frozen=True, slots=True)
class TakenSeen:
    """What was taken has reached who asked for it: it counts as delivered, ``again`` of the ``messages`` not for the first time."""

    messages: int
    again: int
    connection: Ref | None = None


@dataclass(frozen=True, slots=True)
class GiveBackUnseen:
    """What was taken reached nobody: it comes back as if it had never been delivered.

    Attributes:
        taken: the number of each message, and of its delivery; what is not held so any more is passed over.
    """

    taken: tuple[tuple[int, int], ...]
    connection: Ref | None = None


class Settlement(Enum):
    """What became of messages that were taken, or is to become of them."""

    ACKNOWLEDGE = "acknowledge"
    RETURN = "return"
    EXTEND = "extend"


@dataclass(frozen=True, slots=True)
class SettleTaken:
    """Settle messages that were taken. Reply: TakenSettled.

    Attributes:
        taken: the number of each message, and of its delivery.
        how: acknowledged, as of ``Acknowledged``; returned, as of ``Rejected``; or extended, as of ``Extended``.
        seconds: the delay of a return, or until when an extension reaches.
        failed: whether a return counts as a failure.
        reason: why a return is for good, if it is.

    Raises:
        InvalidRequestError: a time that cannot be, or no taker.
        QueueLimitError: too much waits for a delay already.
    """

    request: int
    taken: tuple[tuple[int, int], ...]
    how: Settlement
    seconds: float = 0.0
    failed: bool = True
    reason: str | None = None
    connection: Ref | None = None


Takes: TypeAlias = AttachTaker | TakeMessages | CancelTake | TakenSeen | GiveBackUnseen | SettleTaken
