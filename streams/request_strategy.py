"""When a subscriber asks for more, and how much: pure decisions, named as in Akka's ActorSubscriber.

``remaining_requested`` is what was asked for and has not come; ``in_flight`` is what has come and is not dealt with yet (not
acknowledged, say). The subscriber calls `RequestStrategy.request_demand` after each change of either and requests what it returns, if
that is more than 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class RequestStrategy(Protocol):
    """Decides how much to request next."""

    def request_demand(self, remaining_requested: int, in_flight: int = 0) -> int:
        """How many more elements to request now; 0 for none."""
        ...


@dataclass(frozen=True, slots=True)
class ZeroRequestStrategy:
    """Never asks by itself: demand is signalled by hand."""

    def request_demand(self, remaining_requested: int, in_flight: int = 0) -> int:  # noqa: ARG002 - the protocol's signature
        """0."""
        return 0


@dataclass(frozen=True, slots=True)
class OneByOneRequestStrategy:
    """Asks for one element whenever none is on its way."""

    def request_demand(self, remaining_requested: int, in_flight: int = 0) -> int:  # noqa: ARG002 - the protocol's signature
        """1 when nothing is on its way, else 0."""
        return 1 if remaining_requested == 0 else 0


@dataclass(frozen=True, slots=True)
class WatermarkRequestStrategy:
    """Fills up to ``high`` whenever less than ``low`` is on its way.

    Attributes:
        high: elements on their way after a request.
        low: the level below which it asks again; half of ``high`` (at least 1) by default.
    """

    high: int
    low: int = field(default=-1)

    def __post_init__(self) -> None:
        if self.low == -1:
            object.__setattr__(self, "low", max(1, self.high // 2))
        if not 0 <= self.low <= self.high or self.high < 1:
            raise ValueError(f"watermarks need 0 <= low <= high and high >= 1, not low={self.low}, high={self.high}")

    def request_demand(self, remaining_requested: int, in_flight: int = 0) -> int:  # noqa: ARG002 - the protocol's signature
        """What is missing up to ``high``, once less than ``low`` remains."""
        return self.high - remaining_requested if remaining_requested < self.low else 0


@dataclass(frozen=True, slots=True)
class MaxInFlightRequestStrategy:
    """Keeps what is on its way and what is in flight together at ``max_in_flight``, asking in steps of ``batch``.

    Attributes:
        max_in_flight: elements requested or in flight, at most.
        batch: asks only once this many have room; half of ``max_in_flight`` (at least 1) by default.
    """

    max_in_flight: int
    batch: int = field(default=-1)

    def __post_init__(self) -> None:
        if self.max_in_flight < 1:
            raise ValueError(f"max_in_flight must be at least 1, not {self.max_in_flight}")
        if self.batch == -1:
            object.__setattr__(self, "batch", max(1, self.max_in_flight // 2))
        if not 1 <= self.batch <= self.max_in_flight:
            raise ValueError(f"batch must be between 1 and max_in_flight={self.max_in_flight}, not {self.batch}")

    def request_demand(self, remaining_requested: int, in_flight: int = 0) -> int:
        """The room there is, once it is at least ``batch``."""
        room = self.max_in_flight - remaining_requested - in_flight
        return room if room >= self.batch else 0
