"""What a queue is told of a receiver whose demand becomes less: none at all, or a limit of what it may hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
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


class DemandLimited(NamedTuple):
    """What a receiver demands from here on, and how many messages it holds above its limit. All that was delivered before counts."""

    demand: int
    excess: int
