"""How many messages have come to each exchange since the broker began, and how many of them no queue took."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

KEPT: Final = 1_000
"""Exchanges counted before those are looked for that are no more."""


@dataclass(slots=True)
class ExchangeCount:
    """What has come to one exchange from outside.

    Attributes:
        published: messages, those that came again included.
        unroutable: those of them that no queue took.
        returned: those of these that their senders were told of; the others were dropped without a word.
    """

    published: int = 0
    unroutable: int = 0
    returned: int = 0

    def add(self, other: ExchangeCount) -> None:
        """Have what another has beside its own."""
        self.published += other.published
        self.unroutable += other.unroutable
        self.returned += other.returned


class ExchangeCounts:
    """Counts by exchange. What an exchange had that is deleted is in the sums, and nowhere else.

    Args:
        there: whether an exchange of a name is there.
    """

    def __init__(self, there: Callable[[str], bool]) -> None:
        self._there = there
        self._counts: dict[str, ExchangeCount] = {}
        self._gone = ExchangeCount()
        self._looked = KEPT

    def of(self, exchange: str) -> ExchangeCount:
        """The count of an exchange, to be added to at once."""
        count = self._counts.get(exchange)
        if count is None:
            if len(self._counts) >= self._looked:
                self._forget()
            count = self._counts[exchange] = ExchangeCount()
        return count

    def lost(self, exchange: str, messages: int) -> None:
        """Messages have waited at an exchange, and no queue takes them then."""
        self.of(exchange).unroutable += messages

    def deleted(self, exchange: str) -> None:
        """An exchange is no more: another of its name begins anew."""
        count = self._counts.pop(exchange, None)
        if count is not None:
            self._gone.add(count)

    def read(self, exchange: str) -> ExchangeCount:
        """The count of an exchange, to be looked at only."""
        return self._counts.get(exchange) or ExchangeCount()

    def total(self) -> ExchangeCount:
        """The sums over all exchanges that there are or were."""
        total = ExchangeCount()
        for count in (self._gone, *self._counts.values()):
            total.add(count)
        return total

    def _forget(self) -> None:
        """Those may be gone that were deleted with something else."""
        for exchange in [name for name in self._counts if not self._there(name)]:
            self.deleted(exchange)
        self._looked = max(KEPT, 2 * len(self._counts))
