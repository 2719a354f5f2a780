"""Small batches put off: a batch of fewer rows than are worth one waits until there are more, or until it has waited long enough."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from math import ceil

from spark_bridge.ledger import Order
from spark_bridge.ledgers import Ledgers
from spark_bridge.offsets import Positions

ANY_SIZE = 2**53
"""Bytes: more than any queue holds."""
NOTHING_BELOW = 0
"""No message has a lower number: a reservation below it takes none, and its answer says how many are ready."""


class TriggerDelay:
    """Whether the next batch is to wait.

    The first batch of a run does not wait, as with Kafka's source; nor does one where a queue is full, since nothing could come in.

    Args:
        rows: so many are worth a batch.
        seconds: after which the batch comes whatever there is, counted from the last that had rows.
        clock: monotonic seconds.
    """

    def __init__(self, rows: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rows = rows
        self._seconds = seconds
        self._clock = clock
        self._last: float | None = None

    def planned(self, rows: int) -> None:
        """A batch with ``rows`` rows has been planned."""
        if rows:
            self._last = self._clock()

    def holds(self, ledgers: Ledgers, start: Positions, wait_ms: int) -> bool:
        """Whether the batch after ``start`` waits; where it does, up to ``wait_ms`` have passed."""
        return self._too_early(ledgers, start, 0) and self._too_early(ledgers, start, min(wait_ms, self._left_ms()))

    def _left_ms(self) -> int:
        """Until the batch comes whatever there is, rounded up."""
        return 0 if self._last is None else max(0, ceil(1000 * (self._last + self._seconds - self._clock())))

    def _too_early(self, ledgers: Ledgers, start: Positions, wait_ms: int) -> bool:
        if not self._left_ms():
            return False
        asked = [ledger for ledger in ledgers if ledger.broker in start.at]
        for ledger in asked:
            if not ledger.busy:
                ledger.request(Order(start.at[ledger.broker], self._rows, ANY_SIZE, wait_ms, NOTHING_BELOW))
        ledgers.gather(asked)
        ready = 0
        for ledger in asked:
            answer = ledgers.collect(ledger)
            if answer is None:
                continue
            if answer.begun_anew:
                # For the plan to find out itself: the next batch begins elsewhere.
                ledger.expect(start.origin(ledger.broker))
                return False
            facts: Mapping[str, object] = answer.facts
            backlog = facts.get("backlog", 0)
            ready += max(0, answer.end - start.at[ledger.broker]) + (backlog if isinstance(backlog, int) else 0)
            if facts.get("full"):
                return False
        return ready < self._rows and self._left_ms() > 0
