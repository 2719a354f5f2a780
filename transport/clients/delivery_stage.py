"""One run of a receiver that hands on messages one by one; of a group nothing behind one that has failed."""

from __future__ import annotations

from itertools import count, repeat
from typing import TYPE_CHECKING

from transport.clients.delivery import DeliveredBatch, Delivery
from transport.clients.receiver_stage import Description, ReceiverStage

if TYPE_CHECKING:
    from streams import Materialization
    from transport.clients.behind import Behind


class DeliveryStage(ReceiverStage[Delivery]):
    """One element a message.

    Where some of what waits here went back, ``_current`` has the others, and ``_batch`` is None: they are of several batches.
    """

    def __init__(self, receiver: Description, materialization: Materialization) -> None:
        super().__init__(receiver, materialization)
        self.session.returned = self._note_returned
        self._behind: Behind | None = None

    def _elements(self, batch: DeliveredBatch) -> list[Delivery]:
        deliveries = list(map(Delivery, repeat(batch), count(), batch.split()))
        return deliveries if self._behind is None else self._new_in_order(self._behind, deliveries)

    def link_lost(self, error: Exception | None) -> None:
        """What was given back on another connection has gone back anyway."""
        self._behind = None
        super().link_lost(error)

    def _note_returned(self, batch: DeliveredBatch, first: int, many: int, failed: bool) -> None:
        """Somebody gives messages back. Of the groups of those that have failed, what waits here behind them goes, too."""
        behind = self._behind
        if batch.batch.headers is None or (behind is None and not failed):
            return
        from transport.clients.behind import Behind, group_of  # noqa: PLC0415 - where something fails

        on_their_way = -1
        for number in range(first, first + many):
            group = group_of(Delivery(batch, number - batch.first, b""))
            if group is None:
                continue
            if not failed:
                if behind is not None:
                    behind.given_back(group, number)
                continue
            if behind is None:
                behind = self._behind = Behind()
            if on_their_way < 0:
                on_their_way = self.session.outstanding + sum(map(len, self._waiting))
            behind.failed(group, number, on_their_way)
        if behind is not None and on_their_way >= 0:
            self._sift(behind)

    def _sift(self, behind: Behind) -> None:
        rest = self._in_order(behind, self._current[self._position :])
        waiting = list(self._waiting)
        self._waiting.clear()
        for batch in waiting:
            rest += self._elements(batch)
        self._batch, self._current, self._position = None, rest, 0

    def _new_in_order(self, behind: Behind, deliveries: list[Delivery]) -> list[Delivery]:
        kept = self._in_order(behind, deliveries)
        behind.come(len(deliveries))
        if not behind:
            self._behind = None
        if len(kept) < len(deliveries):
            self._batch = None
        return kept

    def _in_order(self, behind: Behind, deliveries: list[Delivery]) -> list[Delivery]:
        """Those that may be handled; the others go back, untried."""
        from transport.clients.behind import group_of  # noqa: PLC0415 - as above

        kept = []
        for each in deliveries:
            group = group_of(each)
            if group is None or behind.passes(group, each.sequence):
                kept.append(each)
            else:
                each.__untaken__()
        return kept

    def _extend_current(self) -> None:
        super()._extend_current()
        if self._batch is None:
            for each in self._current[self._position :]:
                each._extend(self._visibility)

    def _give_back(self) -> None:
        rest = self._current[self._position :] if self._batch is None else []
        super()._give_back()
        for each in rest:
            each.__untaken__()
