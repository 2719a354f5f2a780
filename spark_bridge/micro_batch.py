"""What a micro-batch takes from each broker: shares of its limits, of which nobody leaves any to waste.

Positions only say what is *in* the batch. A ledger that has reserved more keeps it for the next one, so a limit of rows is met exactly
whatever the brokers answered meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from spark_bridge.ledger import Answer, Ledger, Order
from spark_bridge.ledgers import Ledgers

MAX_ROUNDS = 4
"""How often what some brokers left is offered to the others. The second fills a batch from the one that has everything; each further one is
for those that had something, but less than their share of what was left."""
ANSWER_SECONDS = 0.05
"""How much later than it was told to wait a broker may answer and still be waited for."""


def shares(total: int, takers: int) -> list[int]:
    """``total`` in ``takers`` even parts, the first ones by one larger where it does not come out even; none less than one."""
    part, rest = divmod(total, takers)
    return [max(1, part + int(index < rest)) for index in range(takers)]


class MicroBatchPlan:
    """One micro-batch being reserved.

    Args:
        ledgers: all of the query's.
        positions: broker -> where the batch before ended.
        rows: of the batch at most.
        size: bytes of the batch's messages at most, except that each broker may always give one message.
        below: broker -> take only messages with a lower queue number; one that is not in it gives none. None for no such limit.
        turn: a number that grows from batch to batch: who comes first.

    Attributes:
        rows: what has been taken so far.
        bytes: theirs, of those that were reserved for this batch; of what an earlier request reserved nobody says.
        begun_anew: brokers whose ledger no longer has the position before, so that the batch has nothing of them and ends where they begin.
    """

    def __init__(
        self,
        ledgers: Ledgers,
        positions: Mapping[str, int],
        *,
        rows: int,
        size: int,
        below: Mapping[str, int] | None = None,
        turn: int = 0,
    ) -> None:
        self._ledgers = ledgers
        takers = [
            ledger for ledger in ledgers if ledger.broker in positions and (below is None or ledger.broker in below)
        ]
        # Whoever is first may give a row more, or the only one.
        first = turn % max(1, len(takers))
        self._takers = takers[first:] + takers[:first]
        self._starts = positions
        self._ends = dict(positions)
        self._rows = rows
        self._size = size
        # Bytes of a message as they came: a request for less would be given a message all the same.
        self._message_bytes = 1
        self._below = below or {}
        self.rows = 0
        self.bytes = 0
        self.begun_anew: set[str] = set()
        self._hungry: list[Ledger] = []
        self._full: list[Ledger] = []

    def run(self, wait_ms: int) -> dict[str, int]:
        """Reserve; broker -> where the batch ends.

        Args:
            wait_ms: how long to wait for a first message where none is ready at any broker.

        Raises:
            SparkBridgeError: see `Ledgers.collect`.
        """
        until = time.monotonic() + wait_ms / 1000
        self._take()  # what came after the last batch had been planned
        self._round(self._takers, wait_ms if len(self._takers) == 1 else 0)
        for _ in range(MAX_ROUNDS - 1):
            if not self._hungry:
                break
            self._round(self._hungry, 0)
        if not self.rows and not self.begun_anew:
            self._wait(until)
        self._relieve()
        return self._ends

    def _round(self, takers: Sequence[Ledger], wait_ms: int) -> None:
        """Share what is left of the limits among ``takers``."""
        asked = self._ask(takers, wait_ms)
        self._hungry = []
        self._ledgers.gather([*asked, *self._ledgers.overdue()])
        self._take()

    def _ask(self, takers: Sequence[Ledger], wait_ms: int) -> list[Ledger]:
        idle = [ledger for ledger in takers if not ledger.busy]
        if not idle or self._rows <= 0 or self._size < self._message_bytes:
            return []
        for ledger, rows, size in zip(idle, shares(self._rows, len(idle)), shares(self._size, len(idle)), strict=True):
            start, below = self._ends[ledger.broker], self._below.get(ledger.broker)
            ledger.request(Order(start, rows, size, wait_ms, below))
        return idle

    def _take(self) -> None:
        """Collect what has been answered."""
        for ledger in self._takers:
            answer = self._ledgers.collect(ledger)
            if answer is None:
                continue
            if answer.begun_anew:
                self._ends[ledger.broker] = answer.end
                self.begun_anew.add(ledger.broker)
            elif answer.order is not None:
                self._add(ledger, answer, answer.order)

    def _add(self, ledger: Ledger, answer: Answer, order: Order) -> None:
        # A request from before may have been for another start; its ledger holds every position up to its answer all the same.
        start = self._ends[ledger.broker]
        rows = max(0, min(answer.end - start, self._rows))
        self._ends[ledger.broker] = start + rows
        self.rows += rows
        self._rows -= rows
        if rows:
            used = answer.facts.get("reserved_bytes")
            if used is None:
                used = order.size  # as much as it may be, where nobody knows
            else:
                self.bytes += used
                self._message_bytes = max(self._message_bytes, used // rows)
            self._size -= used
            if rows == order.rows or answer.facts.get("backlog"):
                self._hungry.append(ledger)
        elif answer.end <= start == self._starts[ledger.broker] and answer.facts.get("full", True):
            self._full.append(ledger)

    def _wait(self, until: float) -> None:
        """Wait at all brokers at once for the first message of any; the others go on waiting, for the next batch."""
        left = round((until - time.monotonic()) * 1000)
        if left > 0:
            self._ask(self._takers, left)
        while not self.rows and not self.begun_anew and self._answer_came(until):
            self._take()

    def _answer_came(self, until: float) -> bool:
        return self._ledgers.first(self._takers, until + ANSWER_SECONDS - time.monotonic())

    def _relieve(self) -> None:
        """Acknowledge the last batch where it fills its queue.

        Spark commits a batch only when it has planned the next. There is none as long as the queue is full of this one, and
        nothing can come in; a broker that does not say whether it is full may be.
        """
        for ledger in self._full:
            if self._ends[ledger.broker] == self._starts[ledger.broker]:
                ledger.acknowledge(self._starts[ledger.broker])
        self._ledgers.settle()
