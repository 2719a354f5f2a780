"""A receiver that is traced: what it hands on is counted, a delivered batch at a time."""

from __future__ import annotations

from transport.clients.delivery import DeliveredBatch, Delivery
from transport.clients.delivery_stage import DeliveryStage
from transport.clients.receiver_stage import BatchStage, Description


class TracedDeliveryStage(DeliveryStage):
    """One run of a receiver that is traced."""

    def _elements(self, batch: DeliveredBatch) -> list[Delivery]:
        _count(self._receiver, batch)
        return super()._elements(batch)


class TracedBatchStage(BatchStage):
    """One run that hands on delivered batches."""

    def _elements(self, batch: DeliveredBatch) -> list[DeliveredBatch]:
        _count(self._receiver, batch)
        return super()._elements(batch)


def _count(receiver: Description, batch: DeliveredBatch) -> None:
    if receiver.tracing is not None:
        receiver.tracing.consumed(batch.queue, len(batch))
