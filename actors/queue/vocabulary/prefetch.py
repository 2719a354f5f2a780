"""What a queue is told of a receiver's demand beyond that there is more: none, a limit of what it may hold, more with what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.runtime.loop_ref import LoopActorRef

    Ref: TypeAlias = LoopActorRef[Any]


@dataclass(frozen=True, slots=True)
class DemandWithdrawn:
    """Deliver nothing more, whatever was demanded before; what is held stays held until the connection has left.

    Attributes:
        ends: whether it never demands again, so that it keeps its queue from expiring no more.
    """

    connection: Ref | None = None
    ends: bool = False


@dataclass(frozen=True, slots=True)
class LimitDemand:
    """Deliver until the receiver holds this many messages, whatever was demanded before. Reply: DemandLimited.

    What it holds above that stays held. Demand that is signalled afterwards comes on top.

    Raises:
        InvalidRequestError: a negative number.
    """

    messages: int
    connection: Ref | None = None


@dataclass(frozen=True, slots=True)
class ReturnedForMore:
    """Messages come back, and have failed where that counts; so many ``messages`` are demanded with it, before anybody is served.

    Said one behind the other, what came back would go to whoever has demand in between, be it of a lower priority.

    Raises:
        UnknownAcknowledgementError: as of ``Rejected``.
        InvalidRequestError: a negative number.
    """

    ranges: Sequence[tuple[int, int]]
    messages: int
    connection: Ref | None = None


class AcknowledgedForMore(NamedTuple):
    """Messages are done with, and so many ``messages`` are demanded with it: what a client with a prefetch says again and again.

    Raises:
        UnknownAcknowledgementError: as of ``Acknowledged``.
        InvalidRequestError: a negative number.
    """

    ranges: Sequence[tuple[int, int]]
    messages: int
    connection: Ref | None = None


Prefetch: TypeAlias = DemandWithdrawn | LimitDemand | ReturnedForMore | AcknowledgedForMore


class DemandLimited(NamedTuple):
    """What a receiver demands from here on, and how many messages it holds above its limit. All that was delivered before counts."""

    demand: int
    excess: int
