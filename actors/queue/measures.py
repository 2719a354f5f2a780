"""What the queues of a broker measure of their messages' way: one observation a batch, whoever looks or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.queue.structures.deadlines import US_PER_SECOND
from actors.queue.structures.histogram import STORING_SECONDS, Histogram

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.queue.vocabulary.replies import ReceivedMessages

LAG_SECONDS: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    5.0,
    10.0,
    60.0,
    600.0,
    3600.0,
    86400.0,
)
"""From a receiver that waits to one that comes the next day."""


class Measures:
    """The queues of a broker share one.

    Args:
        wall_clock: seconds since the epoch, as of the times on messages.

    Attributes:
        confirmation: seconds from a message that was accepted to the moment in which its sender may be told that it is stored.
        lag: seconds from a message that was stored to its first delivery.
    """

    __slots__ = ("_wall_clock", "confirmation", "lag")

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self._wall_clock = wall_clock
        self.confirmation = Histogram(STORING_SECONDS)
        self.lag = Histogram(LAG_SECONDS)

    def delivered(self, messages: ReceivedMessages) -> None:
        """Messages leave for a receiver; the first time counts alone, for later ones tell of handlers."""
        if messages.delivery_count == 1:
            # The clock may have been set back since.
            self.lag.observe(max(0.0, self._wall_clock() - messages.enqueued_us / US_PER_SECOND), len(messages.batch))
