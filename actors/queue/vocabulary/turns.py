"""Whose turn it is in a queue that one receiver has at a time, for those who want to hear of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from actors.runtime.loop_ref import LoopActorRef

    Ref: TypeAlias = LoopActorRef[Any]


@dataclass(frozen=True, slots=True)
class HearTurns:
    """Tell a receiver whenever it comes to wait for another, or its turn has come. Reply: any number of TurnChanged.

    Attributes:
        waiting: what it was told last; if that is not so any more it is told at once.
    """

    waiting: bool
    connection: Ref | None = None


@dataclass(frozen=True, slots=True)
class TurnChanged:
    """Another takes a receiver's place, so that it gets nothing more, and waits; or its turn has come."""

    waiting: bool
